// SPDX-License-Identifier: Apache-2.0
//
// http: being written.

typedef int not_yet_mcp_http;
