// SPDX-License-Identifier: Apache-2.0
//
// batch_internal: what batch.c (runs and results) and batch_items.c (items) share.

#ifndef CONSTRICTOR_REST_BATCH_INTERNAL_H
#define CONSTRICTOR_REST_BATCH_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "exec/exec.h"
#include "rest/batch.h"
#include "rest/lines.h"

struct rest_call;

// A run that is under way: an item, or one of its tests.
struct batch_run {
    struct batch *batch; // NULL: free
    size_t number;       // of the run
    size_t index;        // of the item
    json_t *item, *test; // test: borrowed from the item; NULL: it has none
    size_t test_index;
    struct exec *exec; // NULL: the server was full
    json_t *object;    // while the checker runs: what it checks
    json_t *checking;  // the fields of that run
    char id[ID_SIZE];
    int64_t since_ms;
};

struct batch {
    struct rest_call *call;
    struct batches *all;
    json_t *items; // of the call's body; NULL: they come as lines
    char *line;    // what has arrived of the next lines
    size_t line_length, line_size, line_at;
    bool too_long, over;        // the present line; all lines have come
    json_t *now;                // the item whose tests begin, or NULL
    size_t now_index, now_test; // its next test
    size_t next;                // the next item
    size_t begun, written, ended;
    unsigned running; // of `active` that are in use
    unsigned wanted;  // how many at one time; 0: the caller does not say
    double mean_ms;   // wall time of the latest runs
    struct batch_run active[BATCH_WINDOW_MAX];
    bool in_order, cancelled, busy; // busy: in pump() or cancel(), which alone may end it
    struct lines lines;
    char **pending;       // results that wait for an earlier one, by number, in a ring
    size_t pending_bytes; // of them
    size_t succeeded, passed;
    json_t *verdicts;
    uint32_t *times; // how many runs took how long, see OCTAVE
    size_t timed;
    int64_t begin_us;
    struct timer alive, again;
    TAILQ_ENTRY(batch) list;
};

// The fields of one run: its test's, its item's, then those of the batch; new.
json_t *batch_view(json_t *body, json_t *item, json_t *test);
// A field of a test, of its item, or of the batch.
json_t *batch_inherit(struct batch *b, const struct batch_run *s, const char *name);
// Fills in a request from the fields.  0, or a negative code and `e`; the caller clears it in any
// case.
int batch_read_request(struct rest_call *c, json_t *fields, struct exec_request *ret,
                       struct err *e);
// Checks all items before the first one runs.  -1: answered.
int batch_check_items(struct rest_call *c, json_t *items);
// Takes the next item.  1; 0: none is there; -1: the line is none, and `e` says why.
int batch_next_item(struct batch *b, struct err *e);
bool batch_is_over(const struct batch *b); // nothing more will begin

#endif
