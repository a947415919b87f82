// SPDX-License-Identifier: Apache-2.0
//
// stock: see stock.h.  Runs in the keeper.

#include "keeper/stock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "box/net.h"
#include "keeper/backend.h"
#include "keeper/denied.h"
#include "keeper/gvisor.h"
#include "keeper/oom.h"
#include "keeper/poller.h"
#include "wire/frame.h"

enum {
    REQUESTS_MAX = 4096,   // waiting acquires; more are refused at once
    MAKING_MAX = 64,       // boxes in the making at one time
    GVISOR_MAKING_MAX = 2, // of a kind: each takes a core for a good part of a second
};

// The descriptors for a queued message about a box: see send_queue.h.
static int fds_of(void *argument, const union wire_message *m, int *ret_fds)
{
    struct stock *s = argument;
    if (m->h.type == WIRE_NET_BOX) {
        struct box *b = stock_find(s, m->net_box.box);
        if (!b || !b->has_net)
            return -1;
        memcpy(ret_fds, b->net, sizeof b->net);
        return WIRE_NET_FDS;
    }
    struct box *b = stock_find(s, m->adopt.box);
    if (!b)
        return 0;
    ret_fds[0] = b->control;
    return 1;
}

void stock_init(struct stock *s, struct caps *caps, const struct wire_limits *standard,
                uint32_t target, enum box_kind first)
{
    // Field by field: the rest, which is large, is zero already.
    s->caps = caps;
    s->standard = *standard;
    s->target = target;
    s->zygote_sock = s->epoll = -1;
    for (int i = 0; i < BOX_STATE_MAX; i++)
        TAILQ_INIT(&s->lists[i]);
    for (int i = 0; i < KIND_MAX; i++) {
        TAILQ_INIT(&s->kinds[i].parked);
        TAILQ_INIT(&s->kinds[i].requests);
    }
    s->kinds[first].target = stock_target(s, first);
    TAILQ_INIT(&s->busy_groups);
    TAILQ_INIT(&s->resting);
    stems_init(&s->stems);
    send_queue_init(&s->gate, stock_tag(TAG_GATE, 0));
    send_queue_init(&s->broker, stock_tag(TAG_BROKER, 0));
    s->gate.fds_of = s->broker.fds_of = fds_of;
    s->gate.argument = s->broker.argument = s;
}

void stock_set_epoll(struct stock *s, int epoll)
{
    s->epoll = s->gate.epoll = s->broker.epoll = epoll;
}

void stock_no_more(struct stock *s)
{
    s->target = 0;
    for (int i = 0; i < KIND_MAX; i++)
        s->kinds[i].target = 0;
}

// ---- one box ------------------------------------------------------------------------------------

struct box *stock_find(struct stock *s, uint64_t id)
{
    struct box *b = s->by_slot[id % SLOTS];
    return b && b->id == id ? b : NULL; // else it is the number of an earlier box in this slot
}

static struct box_list *list_of(struct stock *s, const struct box *b)
{
    return b->state == BOX_PARKED ? &s->kinds[b->kind].parked : &s->lists[b->state];
}

static void count(struct stock *s, const struct box *b, uint32_t by)
{
    struct stock_kind *kind = &s->kinds[b->kind];
    s->counts[b->state] += by;
    if (b->state == BOX_PARKED)
        kind->parked_count += by;
    if (b->state == BOX_MAKING)
        kind->making += by;
    if (b->state == BOX_MAKING && b->ticket == 0)
        kind->making_for_stock += by, s->making_for_stock += by;
}

void stock_enlist(struct stock *s, struct box *b, enum box_state state)
{
    b->state = state;
    TAILQ_INSERT_TAIL(list_of(s, b), b, list);
    count(s, b, 1);
}

static void leave_list(struct stock *s, struct box *b)
{
    TAILQ_REMOVE(list_of(s, b), b, list);
    count(s, b, UINT32_MAX); // less one
    if (b->ticket && s->by_ticket[b->ticket % STOCK_TICKETS].box == b)
        s->by_ticket[b->ticket % STOCK_TICKETS].box = NULL;
}

void stock_move(struct stock *s, struct box *b, enum box_state state)
{
    leave_list(s, b);
    stock_enlist(s, b, state);
}

static void close_all(struct box *b)
{
    poller_close(&b->control);
    fd_close(&b->log);
    fd_close(&b->scratch);
    poller_close(&b->pidfd);
    for (size_t i = 0; i < WIRE_NET_FDS && b->has_net; i++)
        fd_close(&b->net[i]);
    b->has_net = false;
}

// The last of a box: its init is reaped (or never was).
void stock_forget(struct stock *s, struct box *b)
{
    leave_list(s, b);
    s->looks -= b->wants_look;
    denied_forget(s, b);
    free(TAKE_PTR(b->denied));
    stock_broker_remove(s, b);
    if (b->cancelled)
        stock_refuse_cancelled(s, b->ticket);
    int slot = (int)(b->id % SLOTS);
    s->by_slot[slot] = NULL;
    stems_rest(&s->stems, slot);
    slots_give(&s->caps->slots, slot);
    for (int i = 0; i < KIND_MAX; i++)
        s->kinds[i].failing = false; // something is free again: try again for those that wait
    close_all(b);
    if (cgroup_destroy(&b->cg) < 0)
        TAILQ_INSERT_TAIL(&s->busy_groups, b,
                          list); // the kernel is still tidying up: the tick retries
    else
        free(b);
}

// ---- to the gate --------------------------------------------------------------------------------

void stock_send(struct stock *s, enum wire_type type, union wire_message *m, const int *fds,
                size_t count)
{
    (void)send_queue_add(&s->gate, type, m, fds, count);
}

void stock_refuse(struct stock *s, uint64_t ticket, const struct err *e)
{
    union wire_message m = {.box = {.ticket = ticket, .error_code = e->code}};
    snprintf(m.box.error, sizeof m.box.error, "%s", e->message);
    snprintf(m.box.hint, sizeof m.box.hint, "%s", e->hint);
    stock_send(s, WIRE_BOX, &m, NULL, 0);
}

void stock_refuse_cancelled(struct stock *s, uint64_t ticket)
{
    struct err e;
    err_set(&e, ERR_BUSY, 0, NULL, "it was cancelled"); // the gate drops it
    stock_refuse(s, ticket, &e);
}

static void deliver(struct stock *s, struct box *b, uint64_t ticket, const struct box_terms *terms,
                    bool parked)
{
    union wire_message m; // not {...}, which would clear 16 KiB
    m.box = (struct wire_box){
        .ticket = ticket, .box = b->id, .parked = parked, .told = b->listener >= 0};
    int fds[1 + WIRE_METER_FDS] = {b->control};
    b->terms = *terms;
    cgroup_start(&b->cg);
    stock_move(s, b, BOX_LIVE);
    stock_broker_add(s, b); // before the gate can say anything about it
    denied_watch(s, b);
    // Without its meter a session asks us after every run, which takes longer and works as well.
    if (b->terms.keep && !fd_is_scarce(b->control, 2 * STOCK_FDS_SPARE))
        m.box.meter_fds = cgroup_open_meter(&b->cg, fds + 1);
    stock_send(s, WIRE_BOX, &m, fds, 1 + m.box.meter_fds);
    for (unsigned i = 0; i < m.box.meter_fds; i++)
        fd_close(&fds[1 + i]);
    if (!b->terms.keep)
        stock_unkeep(b);
}

// What a later gate would need.
void stock_unkeep(struct box *b)
{
    b->terms.keep = false;
    if (!(b->kind & KIND_GVISOR)) // interrupts go that way
        fd_close(&b->control);
}

// ---- requests -----------------------------------------------------------------------------------

static void drop_request(struct stock *s, struct request *o)
{
    size_t i = o->ticket % STOCK_TICKETS;
    TAILQ_REMOVE(&s->kinds[o->kind].requests, o, list);
    s->kinds[o->kind].request_count--;
    if (s->by_ticket[i].request == o)
        s->by_ticket[i].request = NULL;
    free(o);
}

void stock_refuse_requests(struct stock *s, enum box_kind kind, const struct err *e)
{
    for (struct request *o; (o = TAILQ_FIRST(&s->kinds[kind].requests));) {
        stock_refuse(s, o->ticket, e);
        drop_request(s, o);
    }
}

static bool same_limits(const struct wire_limits *a, const struct wire_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->file_bytes == b->file_bytes && a->processes == b->processes &&
           a->inodes == b->inodes && a->open_files == b->open_files; // readonly is the kind's
}

// Requests that wait, and those that a box is being made for.
static bool is_full(const struct stock *s, struct err *e)
{
    uint32_t waiting = s->counts[BOX_MAKING];
    for (int i = 0; i < KIND_MAX; i++)
        waiting += s->kinds[i].request_count - s->kinds[i].making_for_stock;
    if (waiting < REQUESTS_MAX)
        return false;
    err_set(e, ERR_BUSY, 0, "send fewer runs at once", "%u runs wait for a box already", waiting);
    return true;
}

void stock_acquire(struct stock *s, const struct wire_acquire *m)
{
    struct err e;
    const struct box_terms terms = {m->cpu_ms, m->keep == 1, m->grace_ms, m->wheel_files == 1};
    enum box_kind wanted;
    if (backend_choose(s, m, &wanted, &e) < 0) {
        stock_refuse(s, m->ticket, &e);
        return;
    }
    struct stock_kind *kind = &s->kinds[wanted];
    // The newest: its memory is still in the caches (0.06 ms against the oldest of 16).
    struct box *b = TAILQ_LAST(&kind->parked, box_list);
    if (terms.wheel_files || !same_limits(&m->limits, &s->standard)) {
        if (is_full(s, &e) || stock_make(s, wanted, &m->limits, m->ticket, &terms, &e) < 0)
            stock_refuse(s, m->ticket, &e);
        return;
    }
    kind->target = stock_target(s, wanted); // it was requested
    if (b && TAILQ_EMPTY(&kind->requests)) {
        deliver(s, b, m->ticket, &terms, true);
        return;
    }
    bool full = is_full(s, &e);
    struct request *o = full ? NULL : calloc(1, sizeof *o);
    if (!o) {
        if (!full)
            err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "wait for a box");
        stock_refuse(s, m->ticket, &e);
        return;
    }
    *o = (struct request){.ticket = m->ticket, .kind = wanted, .terms = terms};
    TAILQ_INSERT_TAIL(&kind->requests, o, list);
    kind->request_count++;
    s->by_ticket[m->ticket % STOCK_TICKETS].request = o;
    kind->failing = false;
    stock_refill(s);
}

// Makes boxes for waiting requests, or for the stock as well.
static bool wants(const struct stock *s, enum box_kind i, bool ahead)
{
    const struct stock_kind *kind = &s->kinds[i];
    if (i & KIND_GVISOR && kind->making_for_stock >= GVISOR_MAKING_MAX)
        return false;
    return s->zygote_sock >= 0 && !kind->failing && s->making_for_stock < MAKING_MAX &&
           kind->parked_count + kind->making_for_stock <
               (ahead ? kind->target : 0) + kind->request_count;
}

bool stock_wants_boxes(const struct stock *s)
{
    bool any = false;
    for (int i = 0; i < KIND_MAX; i++)
        any |= wants(s, (enum box_kind)i, true);
    return any;
}

static void refill(struct stock *s, enum box_kind kind, bool ahead)
{
    static const struct box_terms nobodys;
    struct err e;
    while (wants(s, kind, ahead))
        if (stock_make(s, kind, &s->standard, 0, &nobodys, &e) < 0) {
            if (s->kinds[kind].making_for_stock == 0)
                stock_refuse_requests(s, kind, &e); // nothing is on its way that could serve them
            s->kinds[kind].failing = true;          // until the next request
            return;
        }
}

void stock_refill(struct stock *s)
{
    for (int ahead = 0; ahead < 2; ahead++) // requests of all kinds come before any kind's stock
        for (int i = 0; i < KIND_MAX; i++)
            refill(s, (enum box_kind)i, ahead);
}

static void park(struct stock *s, struct box *b)
{
    cgroup_begin(&b->cg); // the cost of making it is not the run's
    s->kinds[b->kind].lost = 0;
    struct request *o = TAILQ_FIRST(&s->kinds[b->kind].requests);
    if (b->ticket) {
        deliver(s, b, b->ticket, &b->terms, false);
    } else if (o) {
        deliver(s, b, o->ticket, &o->terms, false);
        drop_request(s, o);
    } else {
        stock_move(s, b, BOX_PARKED);
    }
    // A one-run keeper learns the usage from the end of its box; before its first run a box has no
    // sockets.
    if (!s->stemless && stock_looks_for(s, b) != SAMPLE_SOCKETS)
        stock_want_look(s, b);
}

// Ends a box that is not ready yet.
void stock_give_up(struct stock *s, struct box *b)
{
    (void)poller_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
    b->answered = true;
    stock_move(s, b, BOX_DYING);
    // Without a pidfd it was not reported yet: it ends when it finds its socket closed, or when
    // SPAWNED arrives.
    if (b->pidfd >= 0)
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
    else
        (void)shutdown(b->control, SHUT_WR);
}

// SECURITY: a box in the making is work that goes on, so the gate gets its answer, and may send
// another request, only when that is over.  An unknown ticket was answered already.
void stock_cancel(struct stock *s, uint64_t ticket)
{
    struct request *o = s->by_ticket[ticket % STOCK_TICKETS].request;
    struct box *b = s->by_ticket[ticket % STOCK_TICKETS].box;
    if (o && o->ticket == ticket) {
        drop_request(s, o);
        stock_refuse_cancelled(s, ticket);
    } else if (b && b->ticket == ticket && b->state == BOX_MAKING) {
        b->cancelled = true;
        stock_give_up(s, b);
    }
}

// A box did not come up.  Its request, or all of them, fail with the reason.
void stock_fail(struct stock *s, struct box *b, const struct err *e)
{
    if (b->ticket)
        stock_refuse(s, b->ticket, e);
    else
        stock_refuse_requests(s, b->kind, e);
    log_err(LOG_DEBUG, e);
    stock_give_up(s, b);
    s->kinds[b->kind].failing = true; // the next would fail too: wait for a request
}

void stock_box_speaks(struct stock *s, uint64_t id)
{
    struct box *b = stock_find(s, id);
    struct {
        struct frame_header h;
        union {
            struct frame_failed failed;
            struct frame_exit exit;
        };
    } m = {0};
    int fds[FD_PASS_MAX];
    size_t count = 0;
    struct err e;
    if (!b || b->state != BOX_MAKING)
        return;
    ssize_t n = fd_recv(b->control, &m, sizeof m, fds, 2, &count);
    if (n == -EAGAIN)
        return;
    if (n == 0 && b->kind & KIND_GVISOR) { // the end of its process follows, with the reason
        (void)poller_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
        return;
    }
    if (n == 0 && b->has_stem && b->pidfd < 0) {
        // The stem has not reported this box yet: it will, and then its end, or the stem itself has
        // ended.
        (void)poller_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
        return;
    }
    if (n >= (ssize_t)sizeof m.h && m.h.kind == FRAME_READY && b->scratch < 0 &&
        (count >= 1 || b->kind & KIND_GVISOR)) {
        if (b->kind & KIND_GVISOR) {
            for (size_t i = 0; i < count; i++) // it sends none
                fd_close(&fds[i]);
            fd_close(&b->log);
            (void)poller_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
            park(s, b);
            return;
        }
        b->scratch = b->cg.scratch = fds[0];
        b->listener = count > 1 ? fds[1] : -1;
        if (b->listener < 0)
            s->caps->box_flags |= BOX_QUIET; // the next need not try
        (void)poller_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
        if (b->pidfd >= 0)
            park(s, b);
        return; // on a busy machine a box is ready before the zygote has said that it made one
    }
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
    if (n == (ssize_t)(sizeof m.h + sizeof m.failed) && m.h.kind == FRAME_FAILED)
        err_set(&e, ERR_BOX_SETUP, m.failed.errnum,
                "see 'constrictor doctor' for the exact cause and fix", "layer '%s': %s",
                box_step_layer(m.failed.step), box_step_text(m.failed.step));
    else
        err_set(&e, ERR_BOX_SETUP, 0,
                "raise --memory or --processes if they are small: an interpreter has to fit; "
                "'constrictor doctor' shows other causes",
                "a box ended before it was ready");
    stock_fail(s, b, &e);
}

// The keeper's own view of a pid behind a pidfd.
static pid_t host_pid(int pidfd)
{
    char path[64];
    uint64_t pid = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    return file_read_key_at(AT_FDCWD, path, "Pid", &pid) < 0 || pid > INT32_MAX ? -1 : (pid_t)pid;
}

struct box *stock_find_init(struct stock *s, pid_t init)
{
    static const enum box_state states[] = {BOX_LIVE, BOX_IDLE};
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        for (struct box *b = TAILQ_FIRST(&s->lists[states[i]]); b; b = TAILQ_NEXT(b, list)) {
            if (b->cg.pid <= 0)
                b->cg.pid = host_pid(b->pidfd);
            if (b->cg.pid == init)
                return b;
        }
    return NULL;
}

static void close_fds(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
}

void stock_spawned(struct stock *s, const struct wire_spawned *m, int *fds, size_t count)
{
    struct box *b = stock_find(s, m->box);
    struct err e;
    if (!b || b->pidfd >= 0) {
        close_fds(fds, count);
        return;
    }
    size_t expected = b->kind & KIND_NETWORK ? 1 + WIRE_NET_FDS : 1;
    if (m->error || count == 0) {
        close_fds(fds, count);
        err_set(&e, ERR_BOX_SETUP, m->error, "see 'constrictor doctor' for the exact cause and fix",
                "layer '%s': %s", m->net ? net_step_layer(m->net - 1) : "user_ns",
                m->net ? net_step_text(m->net - 1) : "make the namespaces of a box");
        if (b->state != BOX_DYING)
            stock_fail(s, b, &e);
        enum box_kind kind = b->kind;
        stems_end(&s->stems, (int)(b->id % SLOTS)); // in case the stem failed
        stock_forget(s, b);                         // there is no process
        s->kinds[kind].failing = true;
        return;
    }
    b->pidfd = fds[0];
    if (count != expected) { // there is a process, which ends as one that does not come up
        close_fds(fds + 1, count - 1);
        err_set(&e, ERR_PROTOCOL, 0, NULL, "the zygote sent %zu descriptors, not %zu", count,
                expected);
        if (b->state != BOX_DYING)
            stock_fail(s, b, &e);
        return;
    }
    b->has_net = b->kind & KIND_NETWORK;
    if (b->has_net)
        memcpy(b->net, fds + 1, sizeof b->net);
    if (b->state == BOX_DYING) { // it failed, or took too long, before we had this
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
        return;
    }
    if (s->caps->cgroups.look)
        b->cg.pid = host_pid(b->pidfd);
    if (b->scratch >= 0)
        park(s, b);
}

// ---- ends ---------------------------------------------------------------------------------------

void stock_look(struct box *b, struct wire_usage *ret)
{
    struct statfs fs;
    cgroup_usage(&b->cg, ret);
    if (b->scratch >= 0 && fstatfs(b->scratch, &fs) == 0) {
        ret->scratch_free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
        ret->scratch_free_inodes = fs.f_ffree;
    }
}

// Subtracts what earlier runs in the same box used.
void stock_subtract_earlier(const struct box *b, struct wire_usage *u)
{
    if (u->cpu_user_us == UINT64_MAX)
        return;
    u->cpu_user_us -= b->cpu_user_us < u->cpu_user_us ? b->cpu_user_us : u->cpu_user_us;
    u->cpu_system_us -= b->cpu_system_us < u->cpu_system_us ? b->cpu_system_us : u->cpu_system_us;
    u->process_hits -= b->process_hits < u->process_hits ? b->process_hits : u->process_hits;
}

void stock_answer(struct stock *s, struct box *b, const struct wire_usage *usage)
{
    union wire_message m;
    m.ended = (struct wire_ended){
        .box = b->id, .end = b->end, .reaped = b->reaped, .status = b->status, .usage = *usage};
    stock_subtract_earlier(b, &m.ended.usage);
    denied_report(s, b);
    b->answered = true;
    stock_send(s, WIRE_ENDED, &m, NULL, 0);
}

void stock_release(struct stock *s, const struct wire_release *m)
{
    struct box *b = stock_find(s, m->box);
    if (!b || b->state == BOX_MAKING || b->state == BOX_PARKED || b->answered)
        return; // it ended by itself at the same moment; the gate has or gets its ENDED
    b->released = true;
    if (b->end == END_OWN)
        b->end = (enum wire_end)m->end;
    b->wait_reaped = m->wait_reaped;
    struct wire_usage usage;
    stock_look(b, &usage); // before the end: without cgroups there is nothing to see afterwards
    // Answer first: the end of a box keeps a core busy for half a millisecond.
    if (!b->wait_reaped)
        stock_answer(s, b, &usage);
    if (stock_is_handed_out(b)) {
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
        stock_move(s, b, BOX_DYING);
    }
}

void stock_interrupt(struct stock *s, const struct wire_interrupt *m)
{
    struct box *b = stock_find(s, m->box);
    if (b && b->state == BOX_LIVE)
        backend_of(b->kind)->interrupt(b);
}

void stock_exited(struct stock *s, const struct wire_exited *m)
{
    struct box *b = stock_find(s, m->box);
    struct err e;
    if (!b)
        return;
    if (b->state == BOX_MAKING) {
        // Its reason, if it sent one, waits on its control socket.
        stock_box_speaks(s, b->id);
        b = stock_find(s, m->box);
        if (b && b->state == BOX_MAKING) {
            err_set(&e, ERR_BOX_SETUP, 0, NULL, "a box ended before it was ready");
            stock_fail(s, b, &e);
            b = stock_find(s, m->box);
        }
        if (!b)
            return;
    }
    b->reaped = true;
    b->status = m->status;
    if ((stock_is_handed_out(b) || b->state == BOX_DYING) && !b->answered) {
        struct wire_usage usage;
        stock_look(b, &usage);
        usage.machine_oom = b->end == END_OWN && oom_was_recent();
        if (s->caps->cgroups.driver == &watch_driver) {
            // The processes are gone from /proc; their usage is what their init waited for.
            if (usage.cpu_user_us < m->cpu_user_us)
                usage.cpu_user_us = m->cpu_user_us;
            if (usage.cpu_system_us < m->cpu_system_us)
                usage.cpu_system_us = m->cpu_system_us;
            if (usage.peak_memory_bytes == UINT64_MAX || // it was over before the first look
                usage.peak_memory_bytes < m->max_rss_bytes)
                usage.peak_memory_bytes = m->max_rss_bytes;
        }
        stock_answer(s, b, &usage);
    }
    stock_forget(s, b);
}

void stock_end(struct stock *s, struct box *b, enum wire_end end)
{
    b->end = end;
    b->wait_reaped = true;
    (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
    stock_move(s, b, BOX_DYING); // ENDED goes out when it is reaped
}

void stock_gate_lost(struct stock *s)
{
    send_queue_drop(&s->gate);
    for (int i = 0; i < KIND_MAX; i++)
        for (struct request *o; (o = TAILQ_FIRST(&s->kinds[i].requests));)
            drop_request(s, o);
    // SECURITY: the next gate counts its tickets from 1 again, so it must not get a box with an old
    // ticket: that box could have wider limits than the run asked for.
    for (struct box *b = TAILQ_FIRST(&s->lists[BOX_MAKING]), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (b->ticket)
            stock_give_up(s, b);
    }
    for (struct box *b = TAILQ_FIRST(&s->lists[BOX_LIVE]), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (b->terms.keep)
            continue;
        b->answered = true;
        stock_end(s, b, END_CANCELLED);
    }
    for (struct box *b = TAILQ_FIRST(&s->lists[BOX_DYING]); b; b = TAILQ_NEXT(b, list)) {
        b->answered = true;
        b->cancelled = false;
    }
}

void stock_adopt(struct stock *s)
{
    static const enum box_state states[] = {BOX_LIVE, BOX_IDLE};
    union wire_message m;
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        for (struct box *b = TAILQ_FIRST(&s->lists[states[i]]); b; b = TAILQ_NEXT(b, list)) {
            m.adopt = (struct wire_adopt){.h = {.type = WIRE_ADOPT},
                                          .box = b->id,
                                          .told = b->listener >= 0,
                                          .limits = b->limits};
            (void)send_queue_add_for_box(&s->gate, WIRE_ADOPT, &m);
        }
    m.adopt = (struct wire_adopt){.box = 0};
    stock_send(s, WIRE_ADOPT, &m, NULL, 0);
}

void stock_done(struct stock *s)
{
    send_queue_drop(&s->gate);
    send_queue_drop(&s->broker);
    stock_zygote_lost(s);
    for (int i = 0; i < 100 && !TAILQ_EMPTY(&s->busy_groups); i++) {
        stock_retry_groups(s);
        if (!TAILQ_EMPTY(&s->busy_groups))
            (void)usleep(1000);
    }
    for (struct box *b; (b = TAILQ_FIRST(&s->busy_groups));) { // the next start sweeps them
        TAILQ_REMOVE(&s->busy_groups, b, list);
        free(b);
    }
}
