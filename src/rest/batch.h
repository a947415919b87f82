// SPDX-License-Identifier: Apache-2.0
//
// batch: POST /batch: many pieces of code, each in a fresh box of its own; the results in the order
// of the request, or as they come.
//
//   {"items": [{"id": "a", "code": "1+1"}, ...], "order": "input", "timeout": 5, ...}
//
//   a line or event for each:  {"index": 0, "id": "a", "verdict": "ok", "success": true,
//   "execution": {...}}
//   the last one:              {"done": true, "total": 2, "succeeded": 2, "failed": 0, "verdicts":
//   {...}, "wall_ms": 3}
//   or one object:             {"results": [...], and the members of the last one}
//
//   1. What can be seen in the request is checked before anything runs: one bad item refuses all of
//   it, with its
//      place.  What shows only when an item has its turn is said of that item alone.
//   2. At most `window` items of a batch are under way, and all batches together leave a quarter of
//   the server's
//      runs to others; a batch that finds the server full waits.
//   3. Results are text as soon as they are there, and are sent as soon as it is their turn; while
//   BATCH_HELD bytes
//      wait for an earlier one, BATCH_HELD_ALL in all batches, or BATCH_BACKLOG for the client,
//      nothing new begins.
//   4. A client that goes away cancels what runs and what has not begun, unless the call has a key
//   (keys.h).

#ifndef CONSTRICTOR_REST_BATCH_H
#define CONSTRICTOR_REST_BATCH_H

struct batch;
struct batches; // of a server

enum {
    BATCH_ITEMS_MAX = 10000,
    BATCH_WINDOW_MAX = 32, // items of a batch that are under way
    BATCH_HELD = 16 * 1024 * 1024,
    BATCH_HELD_ALL = 64 * 1024 * 1024,
    BATCH_BACKLOG = 256 * 1024,
    BATCH_ID_MAX = 128, // characters
};

// The client is gone: ends everything, and the call when all has ended.
void batch_cancel(struct batch *b);
void batch_free(struct batch *b); // also with items under way: the server ends
void batches_free(struct batches *all);

#endif
