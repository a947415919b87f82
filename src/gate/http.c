// SPDX-License-Identifier: Apache-2.0
//
// http: being written.

typedef int not_yet_gate_http;
