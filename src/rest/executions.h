// SPDX-License-Identifier: Apache-2.0
//
// executions: runs in the background (exec/background.h), over REST: their state, their output
// while they run, and a call to a webhook when they end.  Runs in the gate.

#ifndef CONSTRICTOR_REST_EXECUTIONS_H
#define CONSTRICTOR_REST_EXECUTIONS_H

#include <jansson.h>

#include "base/timer.h"
#include "exec/background.h"
#include "rest/call.h"
#include "rest/lines.h"

// How a call to a webhook goes on: webhook.c.
struct webhook {
    struct gate *gate;
    const char *owner;            // of the execution, which outlives it
    char *url, *secret;           // NULL: none.  SECURITY: no answer and no log has the secret
    char rule[TEXT_ITEM_MAX + 1]; // its host and port
    json_t *network;              // the rule set of the box that calls it
    struct exec *exec;            // while it is called
    char *body;                   // what is sent
    json_t *outcome;              // {"state", "status", "attempts", "error"}
    unsigned busy;                // how often the server was full
    struct timer again;
};

// Reads the two fields.  0, or negative and `e`: the address is none, or the key may not reach it.
int webhook_read(struct webhook *w, struct gate *g, const char *owner, json_t *body, struct err *e);
// Calls it with this object, which is borrowed.
void webhook_call(struct webhook *w, const char *id, json_t *object);
void webhook_done(struct webhook *w); // also while it is called

void rest_drop_executions(struct rest *rest); // the server ends

#endif
