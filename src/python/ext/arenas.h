// SPDX-License-Identifier: Apache-2.0
//
// arenas: where CPython keeps its small objects.  Called by the extension in the zygote, for
// image.h.

#ifndef CONSTRICTOR_PYTHON_ARENAS_H
#define CONSTRICTOR_PYTHON_ARENAS_H

#include "box/image.h"

// From now on: notes each arena that the interpreter takes.  Where it has no such hook, none are
// known.
void arenas_watch(void);

// Ends that, so that boxes do not pay for it.  The areas that are there now; they stay the
// callee's.
size_t arenas_known(const struct image_area **areas);

#endif
