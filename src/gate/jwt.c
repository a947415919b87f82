// SPDX-License-Identifier: Apache-2.0
//
// jwt: being written.

typedef int not_yet_gate_jwt;
