// SPDX-License-Identifier: Apache-2.0
//
// client_config: being written.

typedef int not_yet_cli_client_config;
