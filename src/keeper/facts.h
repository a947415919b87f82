// SPDX-License-Identifier: Apache-2.0
//
// facts: what the gate and the helpers inherit from the keeper by the fork.

#ifndef CONSTRICTOR_KEEPER_FACTS_H
#define CONSTRICTOR_KEEPER_FACTS_H

#include <sys/types.h>

#include "base/err.h"
#include "box/seal.h"
#include "config/config.h"
#include "keeper/caps.h"
#include "keeper/environments.h"
#include "keeper/interp.h"
#include "keeper/shares.h"
#include "wire/wire.h"

enum { KEEPER_KEEP_MAX = 4 };

enum keeper_state { KEEPER_WARMING, KEEPER_READY, KEEPER_FAILED };

// Facts, no powers.  A gate that was started early gets some of them later by messages; gate.c
// brings its copy up to date.
struct keeper_facts {
    pid_t keeper;
    const struct config *config;
    const struct caps *caps;
    enum keeper_state state;     // are there boxes?
    const struct err *error;     // KEEPER_FAILED: why not
    const struct interp *interp; // empty strings until it is known
    const char *zygote_report;   // JSON; "" until the zygote is warm
    int keep[KEEPER_KEEP_MAX];   // descriptors of the plan, by their numbers in the gate
    unsigned keep_count;
    unsigned run_audit; // which of them is --run-audit-file, from 1; 0: none
    int network_file;   // --network-file, open for reading, for the broker and the gate; -1: none
    int audit_file;     // --audit-file, open for appending, for the broker; -1: none
    int state_folder;   // where artifacts are kept (keeper/state.h); -1: nowhere
    const struct environments *environments; // keeper/environments.h; NULL: not configured
    const struct shares *shares;             // keeper/shares.h; NULL: none
    int environments_rows;                   // with environments: the folder of the gate's database
    int environments_note;                   // with environments: their lock's file, for the gate
    unsigned restarts;                       // how many gates were before this one
    struct ledger *ledger; // what earlier gates wrote down; NULL: gates are not replaced
    struct pulse *pulse;   // wire/pulse.h; NULL: no watchdog
};

// How the process of this name and slot (SLOT_GATE, ...) seals itself.  The caller adds the
// descriptors that it keeps, the files that it may open, and its filter.
struct seal_plan facts_seal_plan(const struct keeper_facts *facts, const char *name, int slot);

#endif
