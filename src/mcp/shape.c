// SPDX-License-Identifier: Apache-2.0
//
// shape: being written.

typedef int not_yet_mcp_shape;
