// SPDX-License-Identifier: Apache-2.0
//
// sse: being written.

typedef int not_yet_mcp_sse;
