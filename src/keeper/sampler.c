// SPDX-License-Identifier: Apache-2.0
//
// sampler: see sampler.h.  Runs in the keeper.
//
// SECURITY: the sampler reads only what the kernel writes, but it is not trusted: its answers can
// only end a box that is handed out.

#include "keeper/sampler.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "keeper/sampler_process.h"

enum {
    PATIENCE_MS = 250,     // before a look counts as slow; and between two checks of it
    LAST_WORD_MS = 3000,   // after which the sampler itself is killed
    SLABS_FRESH_MS = 2000, // an older value is not compared with
    LOCKS_PAUSE_MS = 100,
};

static void on_message(struct helper *h, const union wire_message *m);

void sampler_open(struct sampler *s, struct stock *stock, int epoll)
{
    *s = (struct sampler){.helper = {.name = "sampler",
                                     .process = "constrictor-see",
                                     .main = sampler_main,
                                     .stock = stock,
                                     .queue = &s->queue,
                                     .epoll = epoll,
                                     .on_message = on_message,
                                     .argument = s,
                                     .asleep = true},
                          .stock = stock};
    send_queue_init(&s->queue, stock_tag(TAG_SAMPLER, 0));
    helper_init(&s->helper);
}

// ---- questions ----------------------------------------------------------------------------------

static void look_at_scratch(const struct box *b, struct wire_sample *ask)
{
    struct statfs fs;
    if (b->scratch < 0 || fstatfs(b->scratch, &fs) < 0)
        return;
    ask->scratch_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    ask->scratch_names = (uint64_t)(fs.f_files - fs.f_ffree);
}

static void send(struct sampler *s, const struct wire_sample *ask)
{
    union wire_message m;
    m.sample = *ask;
    s->asked = send_queue_add(&s->queue, WIRE_SAMPLE, &m, NULL, 0);
    s->given_up = false;
    s->box = ask->box;
    s->asked_ms = s->looked_ms = clock_ms();
}

static void ask_for_locks(struct sampler *s)
{
    s->wants_locks = false;
    s->locks_ms = clock_ms();
    send(s, &(struct wire_sample){.locks_max = SAMPLER_LOCKS_MAX, .what = SAMPLE_LOCKS});
}

static void ask_about(struct sampler *s, struct box *b)
{
    struct wire_sample ask = {.box = b->id,
                              .limit_bytes = b->limits.memory_bytes,
                              .pid = b->cg.pid,
                              .what = stock_looks_for(s->stock, b)};
    if (b->cg.root->driver->ask)
        b->cg.root->driver->ask(&b->cg, &ask); // first, so that what grows meanwhile is seen
    look_at_scratch(b, &ask);
    send(s, &ask);
}

// SECURITY: without a sampler usage is not counted, so end the boxes that need it.
static void end_uncounted(struct sampler *s)
{
    for (struct box *b; (b = stock_next_look(s->stock));)
        if (stock_is_handed_out(b))
            stock_end(s->stock, b, END_STALL);
}

bool sampler_ask(struct sampler *s)
{
    if (s->helper.sock < 0)
        s->asked = false; // its answer is lost
    if (s->asked || (!s->wants_locks && !s->stock->looks))
        return false;
    if (s->helper.failed) {
        s->wants_locks = false;
        end_uncounted(s);
        return false;
    }
    s->helper.asleep = false;
    if (s->helper.sock < 0)
        return s->helper.pid == 0;
    if (s->wants_locks && clock_ms() - s->locks_ms >= LOCKS_PAUSE_MS) {
        ask_for_locks(s);
    } else {
        struct box *b = stock_next_look(s->stock);
        if (b && b->cg.pid > 0)
            ask_about(s, b);
    }
    return false;
}

// ---- answers ------------------------------------------------------------------------------------

static void on_locks(struct sampler *s, const struct wire_sampled *m)
{
    if (m->locks <= SAMPLER_LOCKS_MAX)
        return;
    struct box *b = stock_find_init(s->stock, m->locks_pid);
    if (!b)
        return; // another program's container, or it is gone
    log_line(LOG_WARN, "box %" PRIu64 " has %" PRIu64 " file locks, more than %d: ending it", b->id,
             m->locks, SAMPLER_LOCKS_MAX);
    stock_end(s->stock, b, END_MEMORY);
    s->wants_locks = true; // it may not be the only one
}

static void on_message(struct helper *h, const union wire_message *m)
{
    struct sampler *s = h->argument;
    if (!s->asked || m->h.type != WIRE_SAMPLED || m->sampled.box != s->box)
        return; // late: its question is over
    s->asked = false;
    if (s->box == 0)
        on_locks(s, &m->sampled);
    else
        stock_sampled(s->stock, &m->sampled);
}

// ---- the clock ----------------------------------------------------------------------------------

// Takes about 20 us; no box can hold it up.
static void look_at_slabs(struct sampler *s, int64_t now_ms)
{
    uint64_t kb = 0;
    if (file_read_key_at(AT_FDCWD, "/proc/meminfo", "SUnreclaim", &kb) < 0)
        return;
    bool fresh = now_ms - s->slabs_ms < SLABS_FRESH_MS;
    s->slabs_ms = now_ms;
    if (fresh && kb > s->slabs_kb + SAMPLER_GROWTH_KB)
        s->wants_locks = true;
    else if (fresh && kb >= s->slabs_kb)
        return;
    s->slabs_kb = kb;
}

static void give_up(struct sampler *s, int64_t now_ms)
{
    struct box *b = s->box ? stock_find(s->stock, s->box) : NULL;
    s->given_up = true;
    log_line(LOG_ERROR, "a look at box %" PRIu64 " takes %" PRId64 " ms (state %c)%s", s->box,
             now_ms - s->asked_ms, s->stuck.state, b ? ": ending the box" : "");
    if (b && stock_is_handed_out(b))
        stock_end(s->stock, b, END_STALL);
}

void sampler_tick(struct sampler *s)
{
    int64_t now_ms = clock_ms();
    if (s->stock->counts[BOX_LIVE] || s->stock->counts[BOX_IDLE])
        look_at_slabs(s, now_ms);
    if (!s->asked || now_ms - s->looked_ms < PATIENCE_MS)
        return;
    s->looked_ms = now_ms;
    int64_t ms = stuck_ms(&s->stuck, s->helper.pid, now_ms);
    if (ms >= SAMPLER_BUDGET_MS && !s->given_up)
        give_up(s, now_ms);
    else if (ms >= LAST_WORD_MS && s->given_up && s->helper.pid > 0)
        (void)kill(s->helper.pid, SIGKILL); // it is started again when it is gone
}
