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
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "wire/frame.h"

enum {
    ORDERS_MAX = 4096, // waiting acquires; more are refused at once
    MAKING_MAX = 64,   // boxes in the making at one time
    FDS_SPARE = 64, // besides those that boxes in the making will bring: without them all would end
};

void stock_init(struct stock *s, struct caps *caps, const struct wire_limits *standard,
                uint32_t target)
{
    *s = (struct stock){.caps = caps,
                        .standard = *standard,
                        .target = target,
                        .zygote_sock = -1,
                        .gate_sock = -1,
                        .epoll = -1};
    for (int i = 0; i < BOX_STATE_MAX; i++)
        TAILQ_INIT(&s->lists[i]);
    TAILQ_INIT(&s->orders);
    STAILQ_INIT(&s->letters);
    TAILQ_INIT(&s->busy_groups);
}

// ---- one box -------------------------------------------------------------------------------------

struct box *stock_find(struct stock *s, uint64_t id)
{
    struct box *b = s->by_slot[id % SLOTS];
    return b && b->id == id ? b : NULL; // a number of an earlier box in this slot is nobody
}

static void leave_list(struct stock *s, struct box *b)
{
    TAILQ_REMOVE(&s->lists[b->state], b, list);
    s->counts[b->state]--;
    s->making_for_stock -= b->state == BOX_MAKING && b->ticket == 0;
    if (b->ticket && s->by_ticket[b->ticket % STOCK_TICKETS].box == b)
        s->by_ticket[b->ticket % STOCK_TICKETS].box = NULL;
}

void stock_move(struct stock *s, struct box *b, enum box_state state)
{
    leave_list(s, b);
    b->state = state;
    TAILQ_INSERT_TAIL(&s->lists[state], b, list);
    s->counts[state]++;
}

static void close_all(struct box *b)
{
    fd_close(&b->control);
    fd_close(&b->out);
    fd_close(&b->err);
    fd_close(&b->scratch);
    fd_close(&b->pidfd);
}

// The last of a box: its init is reaped (or never was).
static void forget(struct stock *s, struct box *b)
{
    leave_list(s, b);
    if (b->cancelled)
        stock_refuse_cancelled(s, b->ticket);
    int slot = (int)(b->id % SLOTS);
    s->by_slot[slot] = NULL;
    slots_give(&s->caps->slots, slot);
    s->failing = false; // something is free again: whoever waits gets another try
    close_all(b);
    if (cgroup_destroy(&b->cg) < 0)
        TAILQ_INSERT_TAIL(&s->busy_groups, b,
                          list); // the kernel is still tidying up: the tick retries
    else
        free(b);
}

// ---- to the gate -----------------------------------------------------------------------------------

// A gate that is busy for a moment must not lose an answer: what does not fit waits here, in order.
struct letter {
    union wire_message m;
    int fds[3 + WIRE_METER_FDS];
    size_t fd_count;
    STAILQ_ENTRY(letter) list;
};

static void want_writable(struct stock *s, bool on)
{
    struct epoll_event ev = {.events = EPOLLIN | (on ? EPOLLOUT : 0),
                             .data.u64 = stock_tag(TAG_GATE, 0)};
    (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->gate_sock, &ev);
}

void stock_flush(struct stock *s)
{
    for (struct letter *l; (l = STAILQ_FIRST(&s->letters));) {
        const struct box *b = l->m.h.type == WIRE_ADOPT ? stock_find(s, l->m.adopt.box) : NULL;
        const int kept[] = {b ? b->control : -1, b ? b->out : -1, b ? b->err : -1};
        if (wire_send(s->gate_sock, (enum wire_type)l->m.h.type, &l->m, b ? kept : l->fds,
                      b ? 3 : l->fd_count) == -EAGAIN)
            return;
        STAILQ_REMOVE_HEAD(&s->letters, list); // sent, or there is no gate any more
        for (size_t i = 0; i < l->fd_count; i++)
            fd_close(&l->fds[i]);
        free(l);
    }
    want_writable(s, false);
}

void stock_send(struct stock *s, enum wire_type type, union wire_message *m, const int *fds,
                size_t count)
{
    if (STAILQ_EMPTY(&s->letters) && wire_send(s->gate_sock, type, m, fds, count) != -EAGAIN)
        return; // sent, or there is no gate any more, which needs no answer
    struct letter *l = calloc(1, sizeof *l);
    if (!l) {
        log_line(LOG_ERROR, "no memory for an answer to the gate");
        return;
    }
    l->m = *m;
    l->m.h.type = (uint16_t)type;
    // Those of a box that is kept are still there when the letter goes out; of many there are no copies.
    for (size_t i = 0; i < count && i < ARRAY_LEN(l->fds) && type != WIRE_ADOPT; i++)
        l->fds[l->fd_count++] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    STAILQ_INSERT_TAIL(&s->letters, l, list);
    want_writable(s, true);
}

static void refuse(struct stock *s, uint64_t ticket, const struct err *e)
{
    union wire_message m = {.box = {.ticket = ticket, .error_code = e->code}};
    snprintf(m.box.error, sizeof m.box.error, "%s", e->message);
    snprintf(m.box.hint, sizeof m.box.hint, "%s", e->hint);
    stock_send(s, WIRE_BOX, &m, NULL, 0);
}

void stock_refuse_cancelled(struct stock *s, uint64_t ticket)
{
    struct err e;
    err_set(&e, ERR_BUSY, 0, NULL, "it was cancelled"); // read by nobody
    refuse(s, ticket, &e);
}

static void deliver(struct stock *s, struct box *b, uint64_t ticket, const struct box_terms *terms,
                    bool parked)
{
    union wire_message m; // not {...}, which would clear 16 KiB
    m.box = (struct wire_box){.ticket = ticket, .box = b->id, .parked = parked};
    int fds[3 + WIRE_METER_FDS] = {b->control, b->out, b->err};
    b->terms = *terms;
    stock_move(s, b, BOX_LIVE);
    // Without its meter a session asks us after every run, which takes longer and works as well.
    if (b->terms.keep && !fd_is_scarce(b->err, 2 * FDS_SPARE))
        m.box.meter_fds = cgroup_open_meter(&b->cg, fds + 3);
    stock_send(s, WIRE_BOX, &m, fds, 3 + m.box.meter_fds);
    for (unsigned i = 0; i < m.box.meter_fds; i++)
        fd_close(&fds[3 + i]);
    if (b->terms.keep)
        return; // for the gate after this one
    fd_close(&b->control);
    fd_close(&b->out);
    fd_close(&b->err);
}

// Descriptors and groups of a new box, and the order to the zygote.
static int begin(struct stock *s, struct box *b, int slot, struct err *e)
{
    int sock[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int r = cgroup_make(&s->caps->cgroups, &b->cg, b->id, &b->limits, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0 ||
        pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
        fd_is_scarce(err[1], FDS_SPARE + 2 * (int)s->counts[BOX_MAKING])) {
        r = err_set(
            e, ERR_BUSY, errno,
            "close sessions that are not needed, or raise the limit of open files (ulimit -n)",
            "make a box");
        for (int i = 0; i < 2; i++) {
            fd_close(&sock[i]);
            fd_close(&out[i]);
            fd_close(&err[i]);
        }
        return r;
    }
    b->control = sock[0];
    b->out = out[0];
    b->err = err[0];
    if (slots_have_uids(&s->caps->slots)) {
        // So that the box can open its own /dev/stdout.  Best effort: the descriptors work anyway.
        uid_t uid = (uid_t)s->caps->slots.uid_first + (uid_t)slot;
        (void)!fchown(out[1], uid, (gid_t)-1);
        (void)!fchown(err[1], uid, (gid_t)-1);
    }
    // Before the order goes out: a failure after it would leave a box that nobody knows.
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_BOX, b->id)};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, b->control, &ev) < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
        fd_close(&sock[1]);
        fd_close(&out[1]);
        fd_close(&err[1]);
        return r;
    }

    int fds[3 + BOX_CGROUP_FDS_MAX] = {sock[1], out[1], err[1]};
    int groups = b->cg.root->driver->attach_fds(&b->cg, fds + 3);
    union wire_message m;
    m.spawn = (struct wire_spawn){
        .box = b->id,
        .uid_slot = slots_have_uids(&s->caps->slots) ? (uint32_t)slot : 0,
        .cgroup_fds = groups < 0 ? 0 : (uint32_t)groups,
        .cgroup_kind = b->cg.root->driver->kind,
        .flags = s->caps->box_flags | (s->order_count || b->ticket ? BOX_HURRY : 0),
        .landlock_abi = s->caps->landlock_abi,
        .net_slot = (uint32_t)slot,
        .limits = b->limits,
    };
    r = groups < 0 ? groups : wire_send(s->zygote_sock, WIRE_SPAWN, &m, fds, 3 + (size_t)groups);
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
    if (r < 0)
        return err_set(e, ERR_ZYGOTE, -r, NULL, "ask the zygote for a box");
    b->since_ms = clock_ms();
    return 0;
}

static int make(struct stock *s, const struct wire_limits *limits, uint64_t ticket,
                const struct box_terms *terms, struct err *e)
{
    if (s->zygote_sock < 0)
        return err_set(e, ERR_ZYGOTE, 0, NULL, "there is no zygote");
    int slot = slots_take(&s->caps->slots);
    if (slot < 0)
        return err_set(e, ERR_BUSY, 0, "wait until runs end", "all %d boxes are in use",
                       SLOT_GATE - 1);
    struct box *b = calloc(1, sizeof *b);
    if (!b) {
        slots_give(&s->caps->slots, slot);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make a box");
    }
    *b = (struct box){.id = ++s->generation * SLOTS + (uint64_t)slot,
                      .state = BOX_MAKING,
                      .limits = *limits,
                      .ticket = ticket,
                      .terms = *terms,
                      .control = -1,
                      .out = -1,
                      .err = -1,
                      .scratch = -1,
                      .pidfd = -1,
                      .cg = {.root = &s->caps->cgroups, .dir = {-1, -1, -1}}};
    s->by_slot[slot] = b;
    TAILQ_INSERT_TAIL(&s->lists[BOX_MAKING], b, list);
    s->counts[BOX_MAKING]++;
    s->making_for_stock += ticket == 0;
    if (ticket)
        s->by_ticket[ticket % STOCK_TICKETS].box = b;
    int r = begin(s, b, slot, e);
    if (r < 0)
        forget(s, b);
    return r;
}

// ---- orders --------------------------------------------------------------------------------------

static void drop_order(struct stock *s, struct order *o)
{
    size_t i = o->ticket % STOCK_TICKETS;
    TAILQ_REMOVE(&s->orders, o, list);
    s->order_count--;
    if (s->by_ticket[i].order == o)
        s->by_ticket[i].order = NULL;
    free(o);
}

static void refuse_orders(struct stock *s, const struct err *e)
{
    for (struct order *o; (o = TAILQ_FIRST(&s->orders));) {
        refuse(s, o->ticket, e);
        drop_order(s, o);
    }
}

static bool same_limits(const struct wire_limits *a, const struct wire_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->file_bytes == b->file_bytes && a->processes == b->processes &&
           a->inodes == b->inodes && a->open_files == b->open_files;
}

// Those that wait, and those that a box is being made for.
static bool is_full(const struct stock *s, struct err *e)
{
    uint32_t waiting = s->order_count + s->counts[BOX_MAKING] - s->making_for_stock;
    if (waiting < ORDERS_MAX)
        return false;
    err_set(e, ERR_BUSY, 0, "send fewer runs at once", "%u runs wait for a box already", waiting);
    return true;
}

void stock_acquire(struct stock *s, const struct wire_acquire *m)
{
    struct err e;
    const struct box_terms terms = {m->cpu_ms, m->keep == 1, m->grace_ms};
    // The newest: its memory is still in the caches (0.06 ms against the oldest of 16).
    struct box *b = TAILQ_LAST(&s->lists[BOX_PARKED], box_list);
    if (!same_limits(&m->limits, &s->standard)) {
        if (is_full(s, &e) || make(s, &m->limits, m->ticket, &terms, &e) < 0)
            refuse(s, m->ticket, &e);
        return;
    }
    if (b && TAILQ_EMPTY(&s->orders)) {
        deliver(s, b, m->ticket, &terms, true);
        return;
    }
    bool full = is_full(s, &e);
    struct order *o = full ? NULL : calloc(1, sizeof *o);
    if (!o) {
        if (!full)
            err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "wait for a box");
        refuse(s, m->ticket, &e);
        return;
    }
    *o = (struct order){.ticket = m->ticket, .terms = terms};
    TAILQ_INSERT_TAIL(&s->orders, o, list);
    s->order_count++;
    s->by_ticket[m->ticket % STOCK_TICKETS].order = o;
    s->failing = false;
    stock_refill(s);
}

bool stock_wants_boxes(const struct stock *s)
{
    return s->zygote_sock >= 0 && !s->failing && s->making_for_stock < MAKING_MAX &&
           s->counts[BOX_PARKED] + s->making_for_stock < s->target + s->order_count;
}

void stock_refill(struct stock *s)
{
    static const struct box_terms nobodys;
    struct err e;
    while (stock_wants_boxes(s))
        if (make(s, &s->standard, 0, &nobodys, &e) < 0) {
            if (s->making_for_stock == 0)
                refuse_orders(s, &e); // nothing is on its way that could serve them
            s->failing = true;        // until the next order
            return;
        }
}

static void park(struct stock *s, struct box *b)
{
    cgroup_begin(&b->cg); // what making it cost is not the run's
    struct order *o = TAILQ_FIRST(&s->orders);
    if (b->ticket) {
        deliver(s, b, b->ticket, &b->terms, false);
    } else if (o) {
        deliver(s, b, o->ticket, &o->terms, false);
        drop_order(s, o);
    } else {
        stock_move(s, b, BOX_PARKED);
    }
}

// Ends a box that is not ready yet.
static void give_up(struct stock *s, struct box *b)
{
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
    b->answered = true;
    stock_move(s, b, BOX_DYING);
    // Without a pidfd the zygote has not said yet that it made one: SPAWNED comes and ends it.
    if (b->pidfd >= 0)
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
}

// SECURITY: a box in the making is work that goes on, so the gate gets its answer, and with it the place
// for another order, when that is over.  A ticket that nobody waits with is answered already.
void stock_cancel(struct stock *s, uint64_t ticket)
{
    struct order *o = s->by_ticket[ticket % STOCK_TICKETS].order;
    struct box *b = s->by_ticket[ticket % STOCK_TICKETS].box;
    if (o && o->ticket == ticket) {
        drop_order(s, o);
        stock_refuse_cancelled(s, ticket);
    } else if (b && b->ticket == ticket && b->state == BOX_MAKING) {
        b->cancelled = true;
        give_up(s, b);
    }
}

// A box that did not come up.  Its order, or all of them, get the reason: fail closed, say why.
void stock_fail(struct stock *s, struct box *b, const struct err *e)
{
    if (b->ticket)
        refuse(s, b->ticket, e);
    else
        refuse_orders(s, e);
    log_err(LOG_DEBUG, e);
    give_up(s, b);
    s->failing = true; // the next would fail too: wait until somebody asks
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
    ssize_t n = fd_recv(b->control, &m, sizeof m, fds, 1, &count);
    if (n == -EAGAIN)
        return;
    if (n >= (ssize_t)sizeof m.h && m.h.kind == FRAME_READY && count == 1 && b->scratch < 0) {
        b->scratch = b->cg.scratch = fds[0];
        (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, b->control, NULL);
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
        err_set(&e, ERR_BOX_SETUP, 0, "memory or process limit too small for an interpreter?",
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

void stock_spawned(struct stock *s, const struct wire_spawned *m, int pidfd)
{
    struct box *b = stock_find(s, m->box);
    struct err e;
    if (!b || b->pidfd >= 0) {
        fd_close(&pidfd);
        return;
    }
    b->pidfd = pidfd;
    if (m->error || pidfd < 0) {
        err_set(&e, ERR_BOX_SETUP, m->error, "see 'constrictor doctor' for the exact cause and fix",
                "layer '%s': make the namespaces of a box", m->net ? "net_ns" : "user_ns");
        if (b->state != BOX_DYING)
            stock_fail(s, b, &e);
        forget(s, b); // there is no process
        s->failing = true;
        return;
    }
    if (b->state == BOX_DYING) { // it failed, or took too long, before we had this
        (void)sys_pidfd_send_signal(pidfd, SIGKILL);
        return;
    }
    if (s->caps->cgroups.driver == &watch_driver)
        b->cg.pid = host_pid(pidfd);
    if (b->scratch >= 0)
        park(s, b);
}

// ---- ends ----------------------------------------------------------------------------------------

void stock_look(struct box *b, struct wire_usage *ret)
{
    struct statfs fs;
    cgroup_usage(&b->cg, ret);
    if (b->scratch >= 0 && fstatfs(b->scratch, &fs) == 0) {
        ret->scratch_free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
        ret->scratch_free_inodes = fs.f_ffree;
    }
}

// What runs before this one in the same box used is not this one's.
void stock_subtract_earlier(const struct box *b, struct wire_usage *u)
{
    if (u->cpu_user_us == UINT64_MAX)
        return;
    u->cpu_user_us -= b->cpu_user_us < u->cpu_user_us ? b->cpu_user_us : u->cpu_user_us;
    u->cpu_system_us -= b->cpu_system_us < u->cpu_system_us ? b->cpu_system_us : u->cpu_system_us;
    u->process_hits -= b->process_hits < u->process_hits ? b->process_hits : u->process_hits;
}

static void answer(struct stock *s, struct box *b, const struct wire_usage *usage)
{
    union wire_message m;
    m.ended = (struct wire_ended){
        .box = b->id, .end = b->end, .reaped = b->reaped, .status = b->status, .usage = *usage};
    stock_subtract_earlier(b, &m.ended.usage);
    b->answered = true;
    stock_send(s, WIRE_ENDED, &m, NULL, 0);
}

void stock_release(struct stock *s, const struct wire_release *m)
{
    struct box *b = stock_find(s, m->box);
    if (!b || b->state == BOX_MAKING || b->state == BOX_PARKED || b->answered)
        return; // it ended by itself at the same moment; the gate has or gets its ENDED
    if (b->end == END_OWN)
        b->end = (enum wire_end)m->end;
    b->wait_reaped = m->wait_reaped;
    struct wire_usage usage;
    stock_look(b, &usage); // before the end: without cgroups there is nothing to see afterwards
    // The answer first: the end of a box keeps a core busy for half a millisecond.
    if (!b->wait_reaped)
        answer(s, b, &usage);
    if (b->state == BOX_LIVE || b->state == BOX_IDLE) {
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
        stock_move(s, b, BOX_DYING);
    }
}

void stock_interrupt(struct stock *s, const struct wire_interrupt *m)
{
    struct box *b = stock_find(s, m->box);
    if (b && b->state == BOX_LIVE)
        (void)sys_pidfd_send_signal(b->pidfd, SIGINT); // its init passes it on
}

void stock_exited(struct stock *s, const struct wire_exited *m)
{
    struct box *b = stock_find(s, m->box);
    struct err e;
    if (!b)
        return;
    if (b->state == BOX_MAKING) {
        // The reason, if it gave one, waits on its control socket.
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
    if ((b->state == BOX_LIVE || b->state == BOX_IDLE || b->state == BOX_DYING) && !b->answered) {
        struct wire_usage usage;
        stock_look(b, &usage);
        if (s->caps->cgroups.driver == &watch_driver) {
            // The processes are gone from /proc; what they used is what their init waited for.
            if (usage.cpu_user_us < m->cpu_user_us)
                usage.cpu_user_us = m->cpu_user_us;
            if (usage.cpu_system_us < m->cpu_system_us)
                usage.cpu_system_us = m->cpu_system_us;
            if (usage.peak_memory_bytes < m->max_rss_bytes)
                usage.peak_memory_bytes = m->max_rss_bytes;
        }
        answer(s, b, &usage);
    }
    forget(s, b);
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
    s->gate_sock = -1;
    for (struct order *o; (o = TAILQ_FIRST(&s->orders));)
        drop_order(s, o);
    stock_flush(s); // to nobody: frees what waits
    // SECURITY: the next gate counts its tickets from the beginning, so no box with an old one may
    // reach it: it could have wider limits than its run asked for.
    for (struct box *b = TAILQ_FIRST(&s->lists[BOX_MAKING]), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (b->ticket)
            give_up(s, b);
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
            int fds[] = {b->control, b->out, b->err};
            m.adopt = (struct wire_adopt){.box = b->id, .limits = b->limits};
            stock_send(s, WIRE_ADOPT, &m, fds, 3);
        }
    m.adopt = (struct wire_adopt){.box = 0};
    stock_send(s, WIRE_ADOPT, &m, NULL, 0);
}

void stock_zygote_lost(struct stock *s)
{
    struct err e;
    err_set(&e, ERR_ZYGOTE, 0, "run it again; if it happens often, see the log",
            "the zygote ended");
    s->zygote_sock = -1;
    refuse_orders(s, &e);
    for (int state = 0; state < BOX_STATE_MAX; state++)
        for (struct box *b; (b = TAILQ_FIRST(&s->lists[state]));) {
            if (state == BOX_MAKING && b->ticket)
                refuse(s, b->ticket, &e);
            struct wire_usage usage;
            stock_look(b, &usage);
            if ((state == BOX_LIVE || state == BOX_IDLE || state == BOX_DYING) && !b->answered)
                answer(s, b, &usage);
            forget(s, b);
        }
}

void stock_done(struct stock *s)
{
    s->gate_sock = -1;
    stock_zygote_lost(s);
    stock_flush(s); // to nobody: frees what waits
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
