// SPDX-License-Identifier: Apache-2.0
//
// server: being written.

typedef int not_yet_mcp_server;
