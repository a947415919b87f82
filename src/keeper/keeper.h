// SPDX-License-Identifier: Apache-2.0
//
// keeper: the process that makes boxes.  It is the first process of the program, the only one with
// privileges, and the parent of the gate and of the zygote.

#ifndef CONSTRICTOR_KEEPER_KEEPER_H
#define CONSTRICTOR_KEEPER_KEEPER_H

#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/facts.h"
#include "keeper/shares.h"
#include "wire/wire.h"

// When the gate is started.
enum keeper_start {
    KEEPER_WARM_FIRST, // after the zygote is warm: the gate only runs code
    KEEPER_JAIL_FIRST, // after the zygote's jail stands, while the interpreter warms up
    KEEPER_GATE_FIRST, // at once, for a quick first answer
};

struct keeper_plan {
    const struct config *config;
    bool cold;      // one run only: import no more than that needs
    bool own_uids;  // many boxes: ask for subordinate ids, which takes some milliseconds
    uint32_t stock; // boxes made ahead; 0: as configured
    enum keeper_start start;
    bool restart;      // a gate that crashes is started again, a few times a minute
    bool watch_parent; // end when the process that started this one ends
    bool state;        // open the state folder for the gate; without one the gate still works
    bool reload;       // SIGHUP opens the files again, for the gate; else SIGHUP ends the server
    const struct shares *shares;       // folders that boxes see; NULL: none
    const char *files[WIRE_FILES_MAX]; // NULL or "": none; the last is --network-file
    int keep[KEEPER_KEEP_MAX];         // descriptors that the gate keeps; taken
    unsigned keep_count;
    unsigned run_audit; // see facts.h
    // Runs in the gate process, which inherits everything and must first give it up (gate_enter);
    // `sock` leads to the keeper.  Its return value is the exit status of the program.
    int (*gate)(int sock, const struct keeper_facts *facts, void *argument);
    void *argument;
    // The broker's process, as gate above; NULL: no box has network.  Started again when it dies.
    int (*broker)(int sock, const struct keeper_facts *facts);
    // The porter's; NULL: there are no environments.  With `state` only.
    int (*porter)(int sock, const struct keeper_facts *facts);
};

// The limits of a box, as configured.
struct wire_limits keeper_limits(const struct config *c);

// Starts everything, serves until the gate ends, cleans up.  0 and the gate's status, or an error
// when no boxes can be made here.
int keeper_run(const struct keeper_plan *plan, int *ret_status, struct err *e);

#endif
