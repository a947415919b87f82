// SPDX-License-Identifier: Apache-2.0
//
// removal: removes a file, or a folder with all that is in it.  For files.c, whose rules hold here
// too.

#ifndef CONSTRICTOR_BOX_REMOVAL_H
#define CONSTRICTOR_BOX_REMOVAL_H

// 0 or a negative errno.  -E2BIG: it is not finished, and goes on when it is called again.
long removal_do(long parent, const char *name);

#endif
