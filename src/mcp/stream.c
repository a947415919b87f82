// SPDX-License-Identifier: Apache-2.0
//
// stream: being written.

typedef int not_yet_mcp_stream;
