// SPDX-License-Identifier: Apache-2.0
//
// fixtures: being written.

typedef int not_yet_mcp_fixtures;
