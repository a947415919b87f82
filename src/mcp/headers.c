// SPDX-License-Identifier: Apache-2.0
//
// headers: being written.

typedef int not_yet_mcp_headers;
