// SPDX-License-Identifier: Apache-2.0
//
// stdio: being written.

typedef int not_yet_mcp_stdio;
