// SPDX-License-Identifier: Apache-2.0
//
// seal: gives up everything that the porter inherits from the keeper but its work.

#ifndef CONSTRICTOR_PORTER_SEAL_H
#define CONSTRICTOR_PORTER_SEAL_H

#include "keeper/keeper.h"

// Keeps these descriptors, at new numbers, closes all others, becomes the owner of the environments folder, and may
// from then on do nothing but write there.
int seal_porter(const struct keeper_facts *facts, int *sock, int *folder, int *shelves,
                struct err *e);

#endif
