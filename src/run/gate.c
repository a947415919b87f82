// SPDX-License-Identifier: Apache-2.0
//
// gate: see gate.h.

#include "run/gate.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "box/seal.h"
#include "run/network.h"
#include "run/run.h"
#include "wire/pulse.h"
#include "json/dump.h"

// Gives up every privilege; keeps the link and the descriptors of the plan.
static int seal(struct keeper_facts *facts, int *sock, struct err *e)
{
    struct seal_plan p = facts_seal_plan(facts, "gate", SLOT_GATE);
    _Static_assert(4 + KEEPER_KEEP_MAX <= SEAL_KEEP_MAX, "the descriptors of a gate");
    p.keep[p.keep_count++] = sock;
    for (unsigned i = 0; i < facts->keep_count; i++)
        p.keep[p.keep_count++] = &facts->keep[i];
    if (facts->state_folder >= 0)
        p.keep[p.keep_count++] = &facts->state_folder;
    if (facts->environments && facts->environments_rows >= 0)
        p.keep[p.keep_count++] = &facts->environments_rows;
    if (facts->environments && facts->environments_note >= 0)
        p.keep[p.keep_count++] = &facts->environments_note;
    p.group = facts->environments ? facts->environments->rows_group : 0;
    p.ignored_signals[0] = SIGXFSZ;
    p.filter = FILTER_GATE;
    p.files = SEAL_FILES_OF_FOLDERS;
    int r = seal_identity(&p, e);
    if (r < 0)
        return r;
    p.folder = facts->state_folder; // these have their new numbers now
    p.other_folder = facts->environments ? facts->environments_rows : -1;
    return seal_reach(&p, e);
}

// ---- what the keeper says later -----------------------------------------------------------------

static void on_files(struct gate *g, uint32_t present, const int *from, size_t count)
{
    int fds[WIRE_FILES_MAX];
    size_t n = 0;
    for (unsigned i = 0; i < WIRE_FILES_MAX; i++)
        fds[i] = present & 1U << i && n < count ? from[n++] : -1;
    struct err e;
    if (network_reload(g, fds[WIRE_FILES_MAX - 1], &e) < 0)
        log_err(LOG_ERROR, &e); // the old files stay in force
    if (g->on_files)
        g->on_files(g, fds, g->argument);
}

static void on_state(struct gate *g, enum keeper_state state)
{
    dump_forget(g->interpreter);
    json_decref(g->interpreter);
    g->interpreter = NULL;
    g->own.state = state;
    for (int i = 0; i < GATE_PARTS_MAX && g->parts[i]; i++)
        if (g->parts[i]->on_state)
            g->parts[i]->on_state(g);
    if (g->on_state)
        g->on_state(g, g->argument);
}

static void on_porter_link(struct gate *g, int sock)
{
    for (int i = 0; i < GATE_PARTS_MAX && g->parts[i]; i++)
        if (g->parts[i]->on_porter_link) {
            g->parts[i]->on_porter_link(g, sock);
            return;
        }
    fd_close(&sock);
}

static void on_news(const union wire_message *m, const int *fds, size_t count, void *argument)
{
    struct gate *g = argument;
    switch (m->h.type) {
    case WIRE_INTERPRETER:
        if (!g->interp && !(g->interp = calloc(1, sizeof *g->interp)))
            break; // results will not name it
        snprintf(g->interp->executable, PATH_MAX, "%s", m->interpreter.executable);
        snprintf(g->interp->version, sizeof g->interp->version, "%s", m->interpreter.version);
        g->own.interp = g->interp;
        break;
    case WIRE_ZYGOTE_READY:
        memcpy(g->report, m->ready.report, m->ready.report_length);
        g->report[m->ready.report_length] = '\0';
        g->own.zygote_report = g->report;
        on_state(g, KEEPER_READY);
        break;
    case WIRE_FAILED:
        err_set(&g->error, (enum err_code)m->failed.error_code, 0, m->failed.hint, "%s",
                m->failed.error);
        g->own.error = &g->error;
        on_state(g, KEEPER_FAILED);
        break;
    case WIRE_FILES: on_files(g, m->files.present, fds, count); break;
    case WIRE_NET_LINK: // borrowed: link.c closes it
        network_link(g, count ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : -1);
        break;
    case WIRE_PORTER_LINK: on_porter_link(g, count ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : -1); break;
    default: break;
    }
}

static void on_settled(void *argument)
{
    run_send_deferred(argument);
}

void gate_attach(struct gate *g, const struct gate_part *part)
{
    int i = 0;
    while (g->parts[i] && g->parts[i] != part)
        i++;
    assert(i < GATE_PARTS_MAX - 1); // the last stays NULL
    g->parts[i] = part;
}

int gate_enter(struct gate *g, int sock, const struct keeper_facts *facts, struct err *e)
{
    *g = (struct gate){.own = *facts, .base_url = ""};
    g->facts = &g->own;
    log_init((enum log_level)facts->config->log_level, "constrictor gate");
    int r = network_open(g, e); // reads a file that seal() closes
    if (r == 0)
        r = seal(&g->own, &sock, e);
    if (r < 0)
        return r;
    g->base = loop_new(!slots_have_uids(&facts->caps->slots));
    if (g->base)
        (void)event_base_priority_init(g->base, 2); // link.c: the keeper's messages first
    if (!g->base)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make the gate's event loop");
    g->own.network_file = -1;
    r = link_open(&g->link, g->base, sock, e);
    g->link.on_news = on_news;
    g->link.news_argument = g;
    g->link.on_settled = on_settled;
    g->link.settled_argument = g;
    return r;
}

// Gives the core to a sibling thread for some hundred nanoseconds.
static void relax(void)
{
    for (int i = 0; i < 8; i++)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
}

// Waking a sleeping CPU takes 30-50 us in a virtual machine, longer than a short run, at every
// hand-over.  So while one run is going on the gate polls for a moment before it sleeps: that keeps
// this CPU awake, and the other processes of the run hand over on another one.  With more runs
// there is always work, and polling would take time from them.  A check takes longer than that
// moment, and on a single CPU polling would slow it by a quarter.  When the last run has ended, its
// client may send the next one: the gate polls for that half as long, and only once.
void gate_dispatch(struct gate *g)
{
    enum { LOOK_US = 200, AGAIN_US = 100 };
    int64_t asleep_after_us = 0;
    while (!event_base_got_break(g->base)) {
        int64_t now_us = clock_us();
        bool look = g->running <= 1 && !g->checking && now_us < asleep_after_us;
        unsigned running = g->running + g->checking, begun = g->begun;
        if (g->facts->pulse)
            atomic_fetch_add_explicit(&g->facts->pulse->turns, 1, memory_order_relaxed);
        int r = event_base_loop(g->base, EVLOOP_ONCE | (look ? EVLOOP_NONBLOCK : 0));
        if (r != 0)
            return; // nothing left to wait for
        unsigned now_running = g->running + g->checking;
        bool moved = now_running != running || g->begun != begun;
        if (now_running && (moved || !look)) {
            asleep_after_us = clock_us() + LOOK_US; // the wait may have been long
        } else if (moved) {
            asleep_after_us = clock_us() + AGAIN_US;
        } else if (look) {
            (void)sched_yield(); // the gate may wait for a process on this CPU
            relax();
        }
    }
}

void gate_leave(struct gate *g)
{
    network_close(g);
    for (int i = 0; i < GATE_PARTS_MAX && g->parts[i]; i++)
        if (g->parts[i]->close)
            g->parts[i]->close(g);
    link_close(&g->link);
    if (g->base)
        event_base_free(g->base);
    dump_forget(g->isolation);
    dump_forget(g->interpreter);
    json_decref(g->isolation);
    json_decref(g->interpreter);
    free(g->interp);
}
