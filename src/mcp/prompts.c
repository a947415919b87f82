// SPDX-License-Identifier: Apache-2.0
//
// prompts: being written.

typedef int not_yet_mcp_prompts;
