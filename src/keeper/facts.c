// SPDX-License-Identifier: Apache-2.0
//
// facts: see facts.h.  Runs in the process that inherits them.

#include "keeper/facts.h"

#include "keeper/slots.h"

struct seal_plan facts_seal_plan(const struct keeper_facts *facts, const char *name, int slot)
{
    const struct slots *slots = &facts->caps->slots;
    return (struct seal_plan){
        .name = name,
        .parent = facts->keeper,
        .id = slots_may_give(slots) ? (int64_t)slots->uid_first + slot : -1,
        .landlock_abi = facts->caps->landlock_abi,
        .folder = -1,
        .other_folder = -1,
        .without_filter = facts->caps->box_flags & BOX_WITHOUT_SECCOMP,
    };
}
