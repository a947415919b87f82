// SPDX-License-Identifier: Apache-2.0
//
// keeper: the process that makes boxes.  It is the first process of the program, the only one with
// privileges, and the parent of the gate and of the zygote.

#ifndef CONSTRICTOR_KEEPER_KEEPER_H
#define CONSTRICTOR_KEEPER_KEEPER_H

#include <sys/types.h>

#include "base/err.h"
#include "config.h"
#include "keeper/caps.h"
#include "keeper/interp.h"
#include "wire/wire.h"

// What the gate inherits by the fork: facts, no powers.
struct keeper_facts {
    pid_t keeper;
    const struct config *config;
    const struct caps *caps;
    const struct interp *interp;
    const char *zygote_report; // JSON
};

struct keeper_plan {
    const struct config *config;
    bool cold; // one run and out: import no more than that needs
    // Runs in the gate process, which inherits everything and has to give it up first (gate_enter);
    // `sock` leads to the keeper.  Its return value is the exit status of the program.
    int (*gate)(int sock, const struct keeper_facts *facts, void *argument);
    void *argument;
};

// The limits of a box, as configured.
struct wire_limits keeper_limits(const struct config *c);

// Starts everything, serves until the gate ends, tidies up.  0 and the gate's status, or an error
// when boxes cannot be made here.
int keeper_run(const struct keeper_plan *plan, int *ret_status, struct err *e);

#endif
