// SPDX-License-Identifier: Apache-2.0
//
// warm_boxes_kit: what nursery.c (environments, and how many boxes there are) and warm_box.c (the
// life of one box) share.  Nobody else includes it.

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

enum { WARM_BOXES_REASON_MAX = 200, WARM_BOXES_SOON_MS = 5 }; // soon: its client has the first word

enum warm_box_stage {
    WARM_BOX_REQUESTED, // a box was asked for
    WARM_BOX_WARMING,   // its runner imports the modules
    WARM_BOX_MEASURING, // that is done; the keeper says what it has in memory, and keeps it as one
                        // that is idle
    WARM_BOX_READY,     // it waits
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
    bool asked;       // the keeper, what it has in memory now
    char *meta;       // lent to live_send()
    struct timer timer;
    TAILQ_ENTRY(warm_box) list;
};

TAILQ_HEAD(warm_box_list, warm_box);
TAILQ_HEAD(family_list, family);

// The boxes of one environment, and what is known of it.
struct family {
    struct warm_boxes *all;
    char owner[65], name[ENV_NAME_MAX + 1];
    json_t *path;
    bool network;
    struct preload preload;
    bool loaded, unsaved;
    bool counted;   // something that is not saved, and not worth it alone
    unsigned wants; // lately
    int64_t wanted_ms;
    int64_t rest_until_ms; // 0: it is not given up
    unsigned failures;
    char reason[WARM_BOXES_REASON_MAX];
    uint64_t box_bytes; // of the last one that was measured
    struct warm_box_list boxes;
    unsigned count;
    TAILQ_ENTRY(family) list; // the one that was wanted last is the first
};

struct warm_boxes {
    struct gate *gate;
    const struct config *config;
    struct wire_limits limits;
    struct family_list families;
    unsigned family_count, count, making;
    bool changed;       // an environment has, somewhere
    int64_t waiting_ms; // since when the next box is put off; 0: it is not
    struct timer tick;
    int64_t due_ms; // of the tick; 0: it is not set
};

// nursery.c
void warm_boxes_tick_in(struct warm_boxes *n, int64_t ms);

// warm_box.c
void warm_box_make(struct family *f, json_t *names); // takes `names`
void warm_box_drop(struct warm_box *b);
void warm_box_drop_all(struct family *f);
// Is there something going on in it while it waits?  Then it is given up.
void warm_box_look(struct warm_box *b);
// The caller's from here on; NULL: it prints without an end, or is deaf, and is gone now.
struct live_box *warm_box_take(struct warm_box *b);

#endif
