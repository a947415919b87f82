// SPDX-License-Identifier: Apache-2.0
//
// batch: POST /batch runs many pieces of code, each in a fresh box, and returns their results in
// the order of the request or as they finish.
//
//   {"items": [{"id": "a", "code": "1+1"}, ...], "order": "input", "timeout": 5, ...}
//
//   each line or event:  {"index": 0, "id": "a", "verdict": "ok", "success": true, "execution": {}}
//   the last one:        {"done": true, "total": 2, "succeeded": 2, "failed": 0, "verdicts": {},
//                         "wall_ms": 3}
//   or one object:       {"results": [...], and the members of the last line}
//
// Or, with Content-Type: application/x-ndjson, each line of the body is an item, and it is read as
// items end: neither the request nor the answer is ever in memory as a whole.
//
//   1. The whole object is checked before anything runs: one bad item refuses the batch, and the
//      error names its position.  An error that shows only at an item's turn, and any
//   error of a line, is that item's result.
//   2. At most `window` items of a batch are under way.  The batches of a key leave a quarter of
//   its
//      runs to its other calls; a batch that finds the server full waits.
//   3. A result becomes text at once and is sent at its turn.  Nothing new begins while
//   BATCH_PENDING
//      bytes of a batch, or BATCH_PENDING_ALL of all, wait for an earlier result, or BATCH_BACKLOG
//      bytes wait for the client.
//   4. A client that disconnects cancels the running items and those that have not begun, unless
//   the
//      call has a key (keys.h).

#ifndef CONSTRICTOR_REST_BATCH_H
#define CONSTRICTOR_REST_BATCH_H

#include "exec/fields.h"

struct batch;
struct batches; // of a server

#define BATCH_TOLERANCE 1e-6

extern const struct field batch_item_fields[], batch_lines_query[]; // route.c

enum {
    BATCH_ITEMS_MAX = 10000, // of one object; lines are not counted
    BATCH_TESTS_MAX = 1000,  // of an item
    BATCH_RING = 4096,       // results between the first that is not sent and the last one
    BATCH_WINDOW_MAX = 32,   // runs of a batch that are under way
    BATCH_PENDING = 16 * 1024 * 1024,
    BATCH_PENDING_ALL = 64 * 1024 * 1024,
    BATCH_BACKLOG = 256 * 1024,
    BATCH_ID_MAX = 128, // characters
};

// The client is gone: ends all items, then the call.
void batch_cancel(struct batch *b);
void batch_free(struct batch *b); // with items under way only when the server ends
void batches_free(struct batches *all);

#endif
