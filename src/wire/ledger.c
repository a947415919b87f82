// SPDX-License-Identifier: Apache-2.0
//
// ledger: see ledger.h.

#include "wire/ledger.h"

#include <sys/mman.h>

struct ledger *ledger_new(void)
{
    // Pages that no session ever used are never there.
    void *at = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}
