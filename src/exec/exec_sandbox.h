// SPDX-License-Identifier: Apache-2.0
//
// exec_sandbox: which isolation a request asks for.

#ifndef CONSTRICTOR_EXEC_EXEC_SANDBOX_H
#define CONSTRICTOR_EXEC_EXEC_SANDBOX_H

#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

// `word`: native or gvisor; NULL: the server's.  0, or a negative code and `e`: it is weaker than
// the server's, or unknown.
int exec_read_isolation(const struct config *c, const char *word, uint32_t *ret, struct err *e);

#endif
