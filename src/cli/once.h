// SPDX-License-Identifier: Apache-2.0
//
// once: the gate of a command that has one piece of code run in one box: `run` and `doctor`.
// Called in the gate process, as the function of a keeper_plan; gives up every privilege first.

#ifndef CONSTRICTOR_CLI_ONCE_H
#define CONSTRICTOR_CLI_ONCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "config.h"
#include "gate/gate.h"
#include "gate/run.h"

struct once {
    const struct config *config; // the limits of the run
    const char *code, *meta;     // borrowed
    size_t code_length;
    // As in struct run_request; NULL: output is collected.
    int (*on_output)(struct run *r, enum run_stream stream, struct evbuffer *data);
    void *argument; // r->request.argument of on_output

    // Filled by once_run().
    struct gate gate;
    struct run *run;  // done; its `error` is set when no box could be had
    bool interrupted; // by Ctrl-C
};

// Returns 0 when the run is over, or the error that kept the gate from starting it.  Nothing is
// tidied up: the process is expected to end soon.
int once_run(struct once *o, int sock, const struct keeper_facts *facts, struct err *e);

#endif
