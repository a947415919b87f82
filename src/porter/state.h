// SPDX-License-Identifier: Apache-2.0
//
// state: what the parts of the porter share.

#ifndef CONSTRICTOR_PORTER_STATE_H
#define CONSTRICTOR_PORTER_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "porter/bundle.h"
#include "porter/porter.h"
#include "porter/wheels.h"

enum { REQUEST_FDS = 2, STORED_MAX = 32 };

struct request {
    TAILQ_ENTRY(request) link;
    int64_t number;
    const struct request_kind *kind;
    json_t *words; // the datagram
    int fds[REQUEST_FDS];
    size_t fd_count;
};

// A store whose bytes are written, and wait for the sync.
struct stored {
    int64_t number;
    struct wheel_move move; // from "": it is there already
    struct bundle_size size;
};

struct porter {
    int keeper, gate; // gate -1: there is none
    bool stop;
    struct wheels wheels;
    TAILQ_HEAD(, request) queue;
    size_t queued;
    struct stored stored[STORED_MAX];
    size_t stored_count;
    // The request that goes on.
    int64_t current; // 0: none
    bool cancelled;
    int64_t deadline_ms, look_ms, progress_ms; // when the next of each is due
    char buffer[PORTER_DATAGRAM];
};

#endif
