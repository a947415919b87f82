// SPDX-License-Identifier: Apache-2.0
//
// rpc: being written.

typedef int not_yet_mcp_rpc;
