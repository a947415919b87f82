// SPDX-License-Identifier: Apache-2.0
//
// cursor: being written.

typedef int not_yet_mcp_cursor;
