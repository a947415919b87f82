// SPDX-License-Identifier: Apache-2.0
//
// ask: being written.

typedef int not_yet_mcp_ask;
