// SPDX-License-Identifier: Apache-2.0
//
// fdlimit: the limit of open files of the server's own processes.

#ifndef CONSTRICTOR_KEEPER_FDLIMIT_H
#define CONSTRICTOR_KEEPER_FDLIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// Raises the limit as far as it goes.  The other processes inherit it.
void fdlimit_raise(void);

// Is it high enough for one box, and for one more?  `shared`: boxes have the keeper's uid, and each
// may open `open_files`.
int fdlimit_check(bool shared, uint32_t open_files, struct err *e);

#endif
