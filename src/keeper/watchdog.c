// SPDX-License-Identifier: Apache-2.0
//
// watchdog: see watchdog.h.  Runs in the keeper.

#include "keeper/watchdog.h"

#include <inttypes.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    LOOK_MS = 250,       // while runs go on
    LOOK_IDLE_MS = 1000, // while sessions wait
};

void watchdog_open(struct watchdog *w)
{
    void *at =
        mmap(NULL, sizeof(struct pulse), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    w->pulse = at == MAP_FAILED ? NULL : at;
}

void watchdog_reset(struct watchdog *w)
{
    *w = (struct watchdog){.pulse = w->pulse};
    if (w->pulse)
        atomic_store(&w->pulse->box, 0);
}

static void has_moved(struct watchdog *w, uint64_t turns, int64_t now_ms)
{
    if (w->noticed)
        log_line(LOG_WARN, "the gate moves again, after %" PRId64 " ms", now_ms - w->moved_ms);
    w->turns = turns;
    w->moved_ms = now_ms;
    w->nudged_ms = 0;
    w->noticed = false;
}

static void notice(struct watchdog *w, struct stock *s, int64_t now_ms)
{
    uint64_t id = atomic_load(&w->pulse->box);
    struct box *b = id ? stock_find(s, id) : NULL;
    bool holds = b && stock_is_handed_out(b);
    w->noticed = true;
    if (holds)
        log_line(LOG_ERROR,
                 "the gate has not moved for %" PRId64 " ms (state %c): box %" PRIu64
                 ", which it works on, is ended",
                 now_ms - w->moved_ms, w->stuck.state, id);
    else
        log_line(LOG_ERROR, "the gate has not moved for %" PRId64 " ms (state %c), at no box",
                 now_ms - w->moved_ms, w->stuck.state);
    if (holds)
        stock_end(s, b, END_STALL);
}

void watchdog_look(struct watchdog *w, struct stock *s, pid_t gate)
{
    union wire_message m;
    int64_t now_ms = clock_ms();
    int pause_ms = s->counts[BOX_LIVE] ? LOOK_MS : LOOK_IDLE_MS;
    if (!w->pulse || gate <= 0 || now_ms - w->looked_ms < pause_ms ||
        !(s->counts[BOX_LIVE] || s->counts[BOX_IDLE]))
        return;
    uint64_t turns = atomic_load(&w->pulse->turns);
    bool fresh = w->looked_ms && now_ms - w->looked_ms < 4 * LOOK_IDLE_MS;
    w->looked_ms = now_ms;
    if (turns != w->turns || !fresh) {
        has_moved(w, turns, now_ms);
        return;
    }
    int64_t ms = stuck_ms(&w->stuck, gate, now_ms);
    if (!w->nudged_ms) {
        w->nudged_ms = now_ms;
        m.nudge = (struct wire_nudge){0};
        stock_send(s, WIRE_NUDGE, &m, NULL, 0);
    } else if (ms >= WATCHDOG_STUCK_MS && now_ms - w->nudged_ms >= WATCHDOG_STUCK_MS &&
               !w->noticed) {
        notice(w, s, now_ms);
    }
}
