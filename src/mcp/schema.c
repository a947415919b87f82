// SPDX-License-Identifier: Apache-2.0
//
// schema: being written.

typedef int not_yet_mcp_schema;
