// SPDX-License-Identifier: Apache-2.0
//
// exec_sandbox: see exec_sandbox.h.  Runs in the gate.

#include "exec/exec_sandbox.h"

#include <string.h>

#include "keeper/keeper.h"

int exec_read_isolation(const struct config *c, const char *word, uint32_t *ret, struct err *e)
{
    const uint32_t least = keeper_limits(c).isolation;
    *ret = least;
    if (!word)
        return 0;
    if (strcmp(word, "gvisor") != 0 && strcmp(word, "native") != 0)
        return err_set(e, ERR_BAD_VALUE, 0, "say \"native\" or \"gvisor\"",
                       "there is no isolation of that name");
    *ret = strcmp(word, "gvisor") == 0 ? ISOLATION_GVISOR : ISOLATION_NATIVE;
    // SECURITY: a caller may ask for a stronger wall than the operator's, never for a weaker one.
    if (*ret >= least)
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0, "leave 'isolation' out",
                   "this server runs all code with isolation 'gvisor'");
}
