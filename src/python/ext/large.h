// SPDX-License-Identifier: Apache-2.0
//
// large: memory of large objects in huge pages.  Called by the extension in the user process of a
// box whose session has checkpoints: each is a fork, and a fork looks at every page that there is.

#ifndef CONSTRICTOR_PYTHON_LARGE_H
#define CONSTRICTOR_PYTHON_LARGE_H

// From now on: asks for huge pages for each large piece of memory that CPython takes.  Does nothing
// where the interpreter has no such hook, and when it was called before.
void large_begin(void);

#endif
