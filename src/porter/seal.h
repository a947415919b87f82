// SPDX-License-Identifier: Apache-2.0
//
// seal: gives up everything that the porter inherits from the keeper but its work.

#ifndef CONSTRICTOR_PORTER_SEAL_H
#define CONSTRICTOR_PORTER_SEAL_H

#include "keeper/keeper.h"

// First: keeps these descriptors, at new numbers, closes all others, and becomes the owner of the
// environments folder.
int seal_porter(const struct keeper_facts *facts, int *sock, int *folder, int *shelves,
                struct err *e);
// Then, when the secret was read: nothing but files among the layers.  The rest of the environments
// folder, with the gate's database, is out of reach, and so is the place of `layers` in it.
int seal_porter_rest(const struct keeper_facts *facts, int shelves, struct err *e);

#endif
