// SPDX-License-Identifier: Apache-2.0
//
// nursery: boxes that have an environment's modules imported already, inside their own walls, and wait in the
// gate for somebody who asks for that environment.  Which modules: declared, or learned from what runs in the
// environment have imported.  Bounded in number and memory; the least recently wanted goes first.

#ifndef CONSTRICTOR_GATE_NURSERY_H
#define CONSTRICTOR_GATE_NURSERY_H

#endif
