// SPDX-License-Identifier: Apache-2.0
//
// resources: being written.

typedef int not_yet_mcp_resources;
