// SPDX-License-Identifier: Apache-2.0
//
// tool_run: being written.

typedef int not_yet_mcp_tool_run;
