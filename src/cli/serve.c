// SPDX-License-Identifier: Apache-2.0
//
// serve: being written.

typedef int not_yet_cli_serve;
