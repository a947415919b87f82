// SPDX-License-Identifier: Apache-2.0
//
// call: being written.

typedef int not_yet_mcp_call;
