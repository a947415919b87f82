// SPDX-License-Identifier: Apache-2.0
//
// warm_boxes_internal: what warm_boxes.c (environments, and how many boxes each has) and warm_box.c
// (the life of one box) share.

#ifndef CONSTRICTOR_ENV_WARM_BOXES_INTERNAL_H
#define CONSTRICTOR_ENV_WARM_BOXES_INTERNAL_H

#include <stdint.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "config/config.h"
#include "env/env_jobs.h"
#include "env/preload.h"
#include "env/warm_boxes.h"
#include "run/link.h"
#include "run/live.h"

enum {
    WARM_BOXES_REASON_MAX = 200,
    WARM_BOXES_SOON_MS = 5, // before the next step, so that a client's run comes first
};

enum warm_box_stage {
    WARM_BOX_REQUESTED, // the keeper was asked for a box
    WARM_BOX_WARMING,   // its runner imports the modules
    WARM_BOX_MEASURING, // imported; the keeper measures its memory and counts it as idle
    WARM_BOX_READY,     // waits for a run or a session
};

struct warm_box {
    struct family *family;
    enum warm_box_stage stage;
    struct link_request box_request;
    struct live_box *box;
    json_t *path, *names; // what it was warmed with
    bool network;
    uint64_t bytes;   // of memory
    uint64_t printed; // bytes, in this stage
    bool asked;       // the keeper was asked for its memory
    char *meta;       // lent to live_send()
    struct timer timer;
    TAILQ_ENTRY(warm_box) list;
};

TAILQ_HEAD(warm_box_list, warm_box);
TAILQ_HEAD(family_list, family);

// The boxes of one environment, and what is known about it.
struct family {
    struct warm_boxes *all;
    char owner[65], name[ENV_NAME_MAX + 1];
    json_t *path;
    bool network;
    struct preload preload;
    bool loaded, unsaved;
    bool counted;   // counts changed, which alone are not worth a write
    unsigned wants; // recent requests for a box
    int64_t wanted_ms;
    int64_t rest_until_ms; // given up until then; 0: not given up
    unsigned failures;
    char reason[WARM_BOXES_REASON_MAX];
    uint64_t box_bytes; // of the last one that was measured
    struct warm_box_list boxes;
    unsigned count;
    TAILQ_ENTRY(family) list; // most recently wanted first
};

struct warm_boxes {
    struct gate *gate;
    const struct config *config;
    struct wire_limits limits;
    struct family_list families;
    unsigned family_count, count, making;
    bool changed;       // an environment has changed
    int64_t waiting_ms; // since when the next box is delayed; 0: it is not
    struct timer tick;
    int64_t due_ms; // of the tick; 0: it is not set
};

// warm_boxes.c
void warm_boxes_tick_in(struct warm_boxes *n, int64_t ms);

// warm_box.c
void warm_box_make(struct family *f, json_t *names); // takes `names`
void warm_box_drop(struct warm_box *b);
void warm_box_drop_all(struct family *f);
// Measures a waiting box, and gives it up if it takes too much memory.
void warm_box_look(struct warm_box *b);
// Hands the box to the caller.
struct live_box *warm_box_take(struct warm_box *b);

#endif
