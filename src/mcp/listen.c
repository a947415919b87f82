// SPDX-License-Identifier: Apache-2.0
//
// listen: being written.

typedef int not_yet_mcp_listen;
