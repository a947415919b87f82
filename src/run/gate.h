// SPDX-License-Identifier: Apache-2.0
//
// gate: the process that talks to clients.  It parses everything hostile, so it first gives up
// every privilege: no capabilities, no way to start a program, as root a uid of its own.
//
// A gate that was started early serves at once and learns the rest of its facts from the keeper.

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
struct gate;
struct live_box;
struct session_ops;
struct warm_box_ask;
TAILQ_HEAD(run_list, run);
TAILQ_HEAD(exec_list, exec);

enum { GATE_PARTS_MAX = 8 };

// Functions that a higher room hands over.  Each may be NULL.
struct gate_part {
    void (*on_state)(struct gate *g);                 // facts->state has changed
    void (*on_porter_link)(struct gate *g, int sock); // takes the socket; -1: the porter is gone
    void (*close)(struct gate *g); // from gate_leave(), in the order of attaching
};
LIST_HEAD(admitted_list, admitted);

struct gate {
    struct event_base *base;
    const struct keeper_facts *facts; // `own`, which the keeper's messages update
    struct link link;
    unsigned running;    // runs whose answer is awaited
    unsigned begun;      // runs that were ever begun
    unsigned runs_max;   // admission.h: more are refused; 0: only the link's bound
    unsigned admitted;   // runs that were admitted
    unsigned owners;     // keys that the door lets in; 0: there is no key
    struct rates *rates; // rate.h
    struct admitted_list holders;
    struct run_list deferred; // runs that wait until the keeper has ended cancelled ones
    unsigned deferred_count;  // counted in `running` as well
    struct keeper_facts own;
    struct interp *interp;                 // owned, when it came later
    struct sessions *sessions;             // NULL: this gate has none
    const struct session_ops *session_ops; // run.h; with `sessions`
    struct network *network;               // NULL: no key has network
    struct envs *envs;                     // envs.h; NULL: there is only base
    struct warm_boxes *warm_boxes; // env/warm_boxes.h; NULL: no box has anything imported ahead
    // With `warm_boxes`: one that fits, or NULL.
    struct live_box *(*take_warm_box)(struct gate *g, const struct warm_box_ask *ask);
    struct env_porter *porter;       // env_porter.c; NULL: there was never one
    struct histories *histories;     // exec/history.h; NULL: no server
    struct activity *activity;       // activity.h; NULL: no server
    struct exec_list execs;          // exec.h: those that are under way; begun by the first
    struct checks *checks;           // check.c; NULL: nothing was checked yet
    struct backgrounds *backgrounds; // exec/background.h; NULL: no run is in the background
    unsigned checking;               // sources that are being checked
    json_t *isolation, *interpreter; // result.c: the same for every run; NULL: to be made
    struct store *store;             // NULL: artifacts are not kept
    const char *base_url;            // of this server, "" when it has none
    // The link to an artifact; NULL: there is no web server here.
    void (*file_url)(const struct gate *g, const struct artifact *a, char *buf, size_t cap);
    // With `store`: copies an artifact to a folder of the user's and adds "saved", its path there,
    // or "save_error" to `entry`.  NULL: there is no such folder.
    void (*save_file)(struct gate *g, const struct artifact *a, json_t *entry);
    struct restricted_package *restricted_package; // NULL: not needed yet
    struct counters counters;
    const struct gate_part *parts[GATE_PARTS_MAX];
    struct err error;
    char report[WIRE_REPORT_MAX + 1];
    // There are boxes now, or why there are none; facts->state says which.  May be NULL.
    void (*on_state)(struct gate *g, void *argument);
    // The keeper has opened the files of the plan again; -1: a missing one.  Borrowed.  May be
    // NULL.
    void (*on_files)(struct gate *g, const int fds[WIRE_FILES_MAX], void *argument);
    void *argument;
};

// Gives up everything but the descriptors of the plan, then makes the event loop and the link to
// the keeper.  Takes `sock`.
int gate_enter(struct gate *g, int sock, const struct keeper_facts *facts, struct err *e);
void gate_leave(struct gate *g);

// Calls the part's functions from now on; attaching it again changes nothing.
void gate_attach(struct gate *g, const struct gate_part *part);

// Serves events until the loop is broken.
void gate_dispatch(struct gate *g);

#endif
