// SPDX-License-Identifier: Apache-2.0
//
// arenas: where CPython keeps its small objects.  Called by the extension in the zygote, for
// image.h.

#ifndef CONSTRICTOR_PYTHON_ARENAS_H
#define CONSTRICTOR_PYTHON_ARENAS_H

#include "box/image.h"

// Records each arena that the interpreter takes from now on; none where it has no such hook.
void arenas_watch(void);

// Stops recording, so that boxes do not pay for it.  Sets *areas to the areas that exist now, which
// the callee owns, and returns their number.
size_t arenas_known(const struct image_area **areas);

#endif
