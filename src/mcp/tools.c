// SPDX-License-Identifier: Apache-2.0
//
// tools: being written.

typedef int not_yet_mcp_tools;
