// SPDX-License-Identifier: Apache-2.0
//
// large: memory of large objects in huge pages.  Called by the extension in the user process of a
// box whose session has checkpoints: each is a fork, and a fork looks at every page that there is.

#ifndef CONSTRICTOR_PYTHON_LARGE_H
#define CONSTRICTOR_PYTHON_LARGE_H

// Asks for huge pages for each large allocation of CPython from now on.  Does nothing where the
// interpreter has no such hook, or after the first call.
void large_begin(void);

#endif
