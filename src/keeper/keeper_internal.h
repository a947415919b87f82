// SPDX-License-Identifier: Apache-2.0
//
// keeper_internal: what keeper.c and keeper_zygote.c share.

#ifndef CONSTRICTOR_KEEPER_KEEPER_INTERNAL_H
#define CONSTRICTOR_KEEPER_KEEPER_INTERNAL_H

#include "keeper/broker.h"
#include "keeper/gvisor.h"
#include "keeper/keeper.h"
#include "keeper/notify.h"
#include "keeper/pending.h"
#include "keeper/porter.h"
#include "keeper/sampler.h"
#include "keeper/state.h"
#include "keeper/stock.h"
#include "keeper/watchdog.h"
#include "keeper/zygote.h"
#include "wire/ledger.h"

struct keeper {
    const struct keeper_plan *plan;
    struct caps caps;
    struct interp interp;
    struct gvisor gvisor;
    bool has_interp;
    struct zygote zygote; // sock >= 0: there is one, warm when `state` is KEEPER_READY
    enum keeper_state state;
    struct err error; // KEEPER_FAILED
    int64_t retry_at_ms;
    int retry_ms;
    struct stock stock;
    struct keeper_broker broker;
    struct keeper_porter porter;
    struct sampler sampler;
    struct watchdog watchdog;
    struct notify notify;
    struct state folder; // held for life; a new gate gets the same
    int gate_sock, epoll, timer, signals, parent;
    bool timer_set;
    int64_t timer_ms; // when it fires
    pid_t gate;       // 0: there is none
    int gate_status;
    bool gate_gone, stopping;
    int64_t gate_since_ms;
    unsigned restarts, short_lives;
    struct ledger *ledger;
    struct pending pending; // acquires that wait for the zygote
};

int keeper_watch_fd(struct keeper *k, int fd, enum stock_tag tag);

// Answers the acquires that waited for the zygote: it is warm, or it has failed.
void keeper_serve_pending(struct keeper *k);

// ---- keeper_zygote.c ----------------------------------------------------------------------------

// Starts the zygote, as far as the plan wants it before the gate.
int keeper_zygote_start(struct keeper *k, struct err *e);

// Starts a zygote and does not wait for it.  When that fails, the timer tries again.
void keeper_zygote_try(struct keeper *k);

// From the timer: checks a zygote that warms up, starts one after a failure when its time has come.
void keeper_zygote_tick(struct keeper *k);

// Reads the zygote's socket, and its stderr.
void keeper_zygote_hear(struct keeper *k);
void keeper_zygote_log(struct keeper *k);

#endif
