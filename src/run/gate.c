// SPDX-License-Identifier: Apache-2.0
//
// gate: see gate.h.

#include "run/gate.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sys.h"
#include "box/creds.h"
#include "box/filter.h"
#include "box/landlock.h"
#include "run/network.h"
#include "run/run.h"
#include "wire/pulse.h"
#include "json/dump.h"

enum { GATE_LINK_FD = 3 };

// Keeps the link and the descriptors of the plan, one behind the other; closes everything else the
// keeper had open: cgroups, the zygote's socket, boxes.
static int close_others(struct keeper_facts *facts, int *sock, struct err *e)
{
    int *fds[4 + KEEPER_KEEP_MAX] = {sock}, count = 1;
    for (unsigned i = 0; i < facts->keep_count; i++)
        fds[count++] = &facts->keep[i];
    if (facts->state_folder >= 0)
        fds[count++] = &facts->state_folder;
    if (facts->environments && facts->environments_rows >= 0)
        fds[count++] = &facts->environments_rows;
    if (facts->environments && facts->environments_note >= 0)
        fds[count++] = &facts->environments_note;
    // First out of the way of each other, then to their places.
    for (int i = 0; i < count; i++)
        if ((*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, GATE_LINK_FD + count)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "keep a descriptor");
    for (int i = 0; i < count; i++)
        if ((*fds[i] = dup3(*fds[i], GATE_LINK_FD + i, O_CLOEXEC)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "dup3");
    if (sys_close_range((unsigned)(GATE_LINK_FD + count), ~0U) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "close_range");
    return 0;
}

// SECURITY: in this order, so that no step can be undone by a later one.
static int drop(struct keeper_facts *facts, int *sock, struct err *e)
{
    const struct slots *slots = &facts->caps->slots;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none,
                      NULL); // the keeper blocks what it reads from a descriptor
    // A limit of file sizes on this process is an error of a write, not the end of the server.
    (void)signal(SIGXFSZ, SIG_IGN);
    int r = close_others(facts, sock, e);
    if (r < 0)
        return r;
    creds_drop_bounding(); // before the uid goes, and the right to do it with it
    if (slots_may_give(slots)) {
        uid_t uid = (uid_t)slots->uid_first + SLOT_GATE;
        if (setgroups(0, NULL) < 0 || creds_become(uid) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "become uid %u", uid);
    }
    // A change between two ordinary uids keeps capabilities (systemd's AmbientCapabilities).
    if (creds_drop_effective() < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "drop the gate's capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'no_new_privs': set it for the gate");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    // A change of uid clears the signal; without one there is nothing to set again.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != facts->keeper)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the keeper is gone");
#ifndef CONSTRICTOR_SANITIZED // sanitizers start a process of their own at the end, and read /proc
    // What it needs is open, but for the files of the state folder.  An ordinary user's gate has
    // that user's uid, but none of the files.
    int rows = facts->environments ? facts->environments_rows : -1;
    if (landlock_seal_both(facts->caps->landlock_abi, facts->state_folder, rows) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'landlock': shut the gate in");
    if (facts->caps->box_flags & BOX_WITHOUT_SECCOMP)
        return 0; // the operator allowed that this kernel lacks it
    struct filter filter;
    r = filter_build(FILTER_GATE, &filter, e);
    if (r < 0)
        return r;
    struct sock_fprog program = {.len = (unsigned short)filter.count, .filter = filter.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, NULL, "load the gate's system call filter");
#endif
    return 0;
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
        log_err(LOG_ERROR, &e); // what was in force stays
    if (g->on_files)
        g->on_files(g, fds, g->argument);
}

static void on_state(struct gate *g, enum keeper_state state)
{
    dump_forget(g->environment);
    json_decref(g->environment);
    g->environment = NULL;
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

static void on_room(void *argument)
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
    int r = network_open(g, e); // reads a file that drop() closes
    if (r == 0)
        r = drop(&g->own, &sock, e);
    if (r < 0)
        return r;
    g->base = loop_new(!slots_have_uids(&facts->caps->slots));
    if (g->base)
        (void)event_base_priority_init(g->base, 2); // link.c: the keeper first
    if (!g->base)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make the gate's event loop");
    g->own.network_file = -1;
    r = link_open(&g->link, g->base, sock, e);
    g->link.on_news = on_news;
    g->link.news_argument = g;
    g->link.on_room = on_room;
    g->link.room_argument = g;
    return r;
}

// Lets a sibling thread of the same core have it for some hundred nanoseconds.
static void relax(void)
{
    for (int i = 0; i < 8; i++)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
}

// A short run is over before a sleeping CPU has woken up, which takes 30-50 us in a virtual
// machine, at every hand-over.  So with one run in the air the gate looks again for a moment before
// it sleeps: that keeps this CPU awake, and leaves the other processes of the run to hand over on
// one of theirs. With more runs there is always something to do, and looking would only take time
// from them. A check takes longer than that moment, and looking would take time from it where both
// have one CPU: a quarter of it. When the last one has ended, whoever waited for it may come with
// the next: that is looked for as well, half as long, and not again before a run was there.
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
            (void)sched_yield(); // whoever shares this CPU may be the one that we wait for
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
    dump_forget(g->environment);
    json_decref(g->isolation);
    json_decref(g->environment);
    free(g->interp);
}
