// SPDX-License-Identifier: Apache-2.0
//
// kept: being written.

typedef int not_yet_mcp_kept;
