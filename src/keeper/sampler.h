// SPDX-License-Identifier: Apache-2.0
//
// sampler: the process that looks at boxes (keeper/sampler_process.h) as the keeper sees it: a
// helper that gets one question at a time and has a second to answer.  A sampler that waits in the
// kernel for longer is held up by the box that it looks at: the keeper ends that box.  The sampler
// starts with the first question.
//
// The keeper also watches what the kernel charges to no box: when the kernel's own memory grows
// while there are boxes, it asks which box has many file locks.

#ifndef CONSTRICTOR_KEEPER_SAMPLER_H
#define CONSTRICTOR_KEEPER_SAMPLER_H

#include "keeper/helper.h"
#include "keeper/stuck.h"

enum {
    SAMPLER_LOCKS_MAX = 2000, // file locks of a box: 0.4 MB of the host's memory
    SAMPLER_GROWTH_KB = 2048, // of the kernel's own memory, after which locks are counted
    SAMPLER_BUDGET_MS = 1000, // for one look
};

struct sampler {
    struct helper helper;
    struct send_queue queue;
    struct stock *stock;
    bool asked, given_up; // given_up: its box was ended, and it has not answered yet
    uint64_t box;         // what was asked about; 0: the locks of all
    int64_t asked_ms, looked_ms;
    struct stuck stuck;
    bool wants_locks;
    int64_t slabs_ms, locks_ms; // when the kernel's memory was looked at, and the locks
    uint64_t slabs_kb;          // the kernel's memory: the least since locks were counted last
};

void sampler_open(struct sampler *s, struct stock *stock, int epoll);

// At each tick: looks at the kernel's memory, and at a sampler that takes its time.
void sampler_tick(struct sampler *s);

// After each round of events: asks the next question.  True: there is no process to ask.
bool sampler_ask(struct sampler *s);

#endif
