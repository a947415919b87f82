// SPDX-License-Identifier: Apache-2.0
//
// door: being written.

typedef int not_yet_gate_door;
