// SPDX-License-Identifier: Apache-2.0
//
// rights: what the keeper keeps of root's capabilities after the start.

#ifndef CONSTRICTOR_KEEPER_RIGHTS_H
#define CONSTRICTOR_KEEPER_RIGHTS_H

#include "base/err.h"

// Gives up all but those that later boxes, zygotes and gates need.
int rights_drop(struct err *e);

#endif
