// SPDX-License-Identifier: Apache-2.0
//
// tasks: being written.

typedef int not_yet_mcp_tasks;
