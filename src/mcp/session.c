// SPDX-License-Identifier: Apache-2.0
//
// session: being written.

typedef int not_yet_mcp_session;
