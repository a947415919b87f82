// SPDX-License-Identifier: Apache-2.0
//
// gate: the process that talks to clients.  It parses everything hostile, so it gives up every
// privilege first: no uid of anybody, no capabilities, no way to start a program.
//
// A gate that was started early learns the rest of its facts from the keeper, while it serves
// already.

#ifndef CONSTRICTOR_RUN_GATE_H
#define CONSTRICTOR_RUN_GATE_H

#include <event2/event.h>
#include <jansson.h>
#include <sys/queue.h>

#include "base/err.h"
#include "keeper/keeper.h"
#include "run/counters.h"
#include "run/link.h"

struct artifact;
TAILQ_HEAD(run_list, run);
LIST_HEAD(admitted_list, admitted);

struct gate {
    struct event_base *base;
    const struct keeper_facts *facts; // `own`, which follows what the keeper says
    struct link link;
    unsigned running;  // runs whose answer is awaited
    unsigned begun;    // runs that were ever begun
    unsigned runs_max; // places.h: more are refused; 0: no bound but the link's
    unsigned admitted; // of them that were admitted
    unsigned owners;   // keys that the door lets in; 0: there is no key
    struct admitted_list holders;
    struct run_list deferred; // runs that wait until the keeper is rid of what was cancelled
    unsigned deferred_count;  // counted in `running` as well
    struct keeper_facts own;
    struct interp *interp;           // owned, when it came later
    struct sessions *sessions;       // NULL: this gate has none
    struct network *network;         // NULL: nobody has any
    struct envs *envs;               // envs.h; NULL: there is only base
    struct warm_boxes *warm_boxes;   // env/warm_boxes.h; NULL: no box has anything imported ahead
    struct env_porter *porter;       // env_porter.c; NULL: there was never one
    struct checks *checks;           // check.c; NULL: nothing was checked yet
    unsigned checking;               // sources that are looked at now
    json_t *isolation, *environment; // result.c: the same for every run; NULL: to be made
    struct store *store;             // NULL: artifacts are not kept
    const char *base_url;            // of this server, "" when it has none
    // The link to an artifact; NULL: there is no web server here.
    void (*file_url)(const struct gate *g, const struct artifact *a, char *buf, size_t cap);
    struct restricted_package *restricted_package; // NULL: nobody needed it yet
    struct counters counters;
    struct err error;
    char report[WIRE_REPORT_MAX + 1];
    // There are boxes now, or why there are none; facts->state says which.  May be NULL.
    void (*on_state)(struct gate *g, void *argument);
    // The files of the plan were opened again; -1: it is not there.  Borrowed.  May be NULL.
    void (*on_files)(struct gate *g, const int fds[WIRE_FILES_MAX], void *argument);
    void *argument;
};

// Gives up what the keeper left but the descriptors of the plan, makes the event loop and the link
// to the keeper.  Takes `sock`.
int gate_enter(struct gate *g, int sock, const struct keeper_facts *facts, struct err *e);
void gate_leave(struct gate *g);

// Serves events until the loop is broken.
void gate_dispatch(struct gate *g);

#endif
