// SPDX-License-Identifier: Apache-2.0
//
// keeper: see keeper.h.  One thread, one epoll loop over: the gate's socket, the zygote's socket
// and stderr, the control sockets of boxes in the making, a timer, signals.
//
// SECURITY: this process has privileges, so it parses nothing: fixed structs from the gate and the
// zygote, and a box's first datagram before any user code has run in it.

#include "keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/code_policy.h"
#include "keeper/announce.h"
#include "keeper/denied.h"
#include "keeper/fdlimit.h"
#include "keeper/gvisor.h"
#include "keeper/keeper_internal.h"
#include "keeper/oom.h"
#include "keeper/poller.h"
#include "keeper/rights.h"

enum {
    REFILL_DELAY_MS = 2,
    LOOK_DELAY_MS = 1000, // to the next look at a zygote that is not warm or missing
    SHORT_LIFE_MS = 1000, // of a gate that never served ...
    SHORT_LIVES_MAX = 100 // ... and after how many in a row the keeper gives up
};
enum { EVENTS = 64 };

int keeper_watch_fd(struct keeper *k, int fd, enum stock_tag tag)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(tag, 0)};
    return poller_ctl(k->epoll, EPOLL_CTL_ADD, fd, &ev);
}

static void set_timer(struct keeper *k, int ms)
{
    int64_t at_ms = clock_ms() + ms;
    if (k->timer_set && k->timer_ms <= at_ms)
        return; // the earlier time stands
    k->timer_set = true;
    k->timer_ms = at_ms;
    struct itimerspec t = {.it_value = {ms / 1000, (long)(ms % 1000) * 1000000}};
    (void)timerfd_settime(k->timer, 0, &t, NULL); // only fails for bad arguments
}

static void try_helpers(struct keeper *k);

// ---- requests of the gate -----------------------------------------------------------------------

static void on_acquire(struct keeper *k, const struct wire_acquire *m)
{
    struct err e;
    if (m->network && !keeper_broker_serves(&k->broker, &e)) {
        stock_refuse(&k->stock, m->ticket, &e);
        return;
    }
    if (m->network && helper_is_missing(&k->broker.helper))
        try_helpers(k);
    switch (k->state) {
    case KEEPER_READY: stock_acquire(&k->stock, m); break;
    case KEEPER_FAILED: stock_refuse(&k->stock, m->ticket, &k->error); break;
    case KEEPER_WARMING:
        if (!pending_add(&k->pending, m, &e))
            stock_refuse(&k->stock, m->ticket, &e);
        break;
    }
}

static void on_cancel(struct keeper *k, const struct wire_cancel *m)
{
    if (pending_cancel(&k->pending, m->ticket))
        stock_refuse_cancelled(&k->stock, m->ticket);
    else
        stock_cancel(&k->stock, m->ticket);
}

void keeper_serve_pending(struct keeper *k)
{
    unsigned count = k->pending.count;
    k->pending.count = 0;
    for (unsigned i = 0; i < count; i++)
        on_acquire(k, &k->pending.acquires[i]);
}

static void signal_gate(const struct keeper *k, int sig)
{
    if (k->gate > 0)
        (void)kill(k->gate, sig);
}

static void on_gate(struct keeper *k)
{
    // A bound, so that a busy gate cannot keep the keeper from its other work.
    for (int i = 0; i < 32; i++) {
        union wire_message m;
        int r = wire_recv(k->gate_sock, &m, NULL, 0, NULL);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            bool gone = r == 0 || r == -ECONNRESET; // with or without messages that it did not read
            (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->gate_sock, NULL);
            if (!gone) {
                log_line(LOG_ERROR, "protocol error from the gate: %s", strerror(-r));
                signal_gate(k, SIGKILL); // its end is seen as SIGCHLD
            }
            return;
        }
        switch (m.h.type) {
        case WIRE_ACQUIRE: on_acquire(k, &m.acquire); break;
        case WIRE_CANCEL: on_cancel(k, &m.cancel); break;
        case WIRE_RELEASE: stock_release(&k->stock, &m.release); break;
        case WIRE_INTERRUPT: stock_interrupt(&k->stock, &m.interrupt); break;
        case WIRE_MEASURE: stock_measure(&k->stock, &m.measure); break;
        case WIRE_STATUS: {
            union wire_message reply = {
                .status_reply = {
                    .parked = k->stock.counts[BOX_PARKED],
                    .live = k->stock.counts[BOX_LIVE] + k->stock.counts[BOX_IDLE],
                    .dying = k->stock.counts[BOX_DYING],
                    .zygote_pid = (uint32_t)k->zygote.pid,
                }};
            stock_send(&k->stock, WIRE_STATUS_REPLY, &reply, NULL, 0);
            break;
        }
        default: log_line(LOG_ERROR, "the gate sent a message of type %u", m.h.type);
        }
    }
}

// ---- boxes in the making ------------------------------------------------------------------------

// A message about the box of this slot.  One at a time: there are seldom two.
static void on_stem(struct keeper *k, int slot, uint32_t events)
{
    if (events & EPOLLHUP)
        keeper_zygote_hear(k); // the zygote's socket has the reason why it could not make the stem
    (void)stock_hear(&k->stock, slot);
}

static void on_box(struct keeper *k, uint64_t id)
{
    const struct box *b = stock_find(&k->stock, id);
    if (b && b->pidfd < 0) { // SPAWNED, with the pidfd, was sent before the box could send
        keeper_zygote_hear(k);
        (void)stock_hear(&k->stock, (int)(id % SLOTS));
    }
    stock_box_speaks(&k->stock, id);
}

// ---- the helpers --------------------------------------------------------------------------------

static struct keeper_facts facts_of(const struct keeper *k)
{
    struct keeper_facts facts = {.keeper = getpid(),
                                 .config = k->plan->config,
                                 .caps = &k->caps,
                                 .state = k->state,
                                 .error = &k->error,
                                 .interp = &k->interp,
                                 .zygote_report = k->zygote.report,
                                 .keep_count = k->plan->keep_count,
                                 .run_audit = k->plan->run_audit,
                                 .network_file = k->broker.network_file,
                                 .audit_file = -1,
                                 .state_folder = k->folder.folder,
                                 .environments = keeper_porter_environments(&k->porter),
                                 .shares = k->plan->shares,
                                 .environments_rows = k->porter.environments.rows,
                                 .environments_note = k->porter.environments.note,
                                 .restarts = k->restarts,
                                 .ledger = k->ledger,
                                 .pulse = k->watchdog.pulse};
    memcpy(facts.keep, k->plan->keep, sizeof facts.keep);
    return facts;
}

static int start_helpers(struct keeper *k, struct err *e)
{
    struct keeper_facts facts = facts_of(k);
    int r = 0;
    if (helper_is_missing(&k->broker.helper) && !k->stopping) {
        r = keeper_broker_start(&k->broker, &facts, e);
        helper_link(&k->broker.helper);
    }
    if (r == 0 && helper_is_missing(&k->porter.helper) && !k->stopping) {
        r = keeper_porter_start(&k->porter, &facts, e);
        helper_link(&k->porter.helper);
    }
    if (r == 0 && helper_is_missing(&k->sampler.helper) && !k->stopping)
        r = helper_start(&k->sampler.helper, &facts, e);
    return r;
}

static void try_helpers(struct keeper *k)
{
    struct err e;
    if (start_helpers(k, &e) < 0)
        log_err(LOG_ERROR, &e); // the timer tries again
}

// ---- the clock ----------------------------------------------------------------------------------

static void on_timer(struct keeper *k)
{
    uint64_t times;
    (void)!read(k->timer, &times, sizeof times); // only says that it fired
    k->timer_set = false;
    oom_look();
    keeper_zygote_tick(k);
    stock_refill(&k->stock);
    stock_tick(&k->stock);
    sampler_tick(&k->sampler);
    watchdog_look(&k->watchdog, &k->stock, k->gate);
    try_helpers(k);
}

// After each round of events: sets the timer for what is to be done later.
static void plan_ahead(struct keeper *k)
{
    // Replace a taken box after a pause, not beside the run that took it.
    if (k->state != KEEPER_READY)
        set_timer(k, LOOK_DELAY_MS);
    else if (stock_wants_boxes(&k->stock))
        set_timer(k, REFILL_DELAY_MS);
    else if (stock_tick_ms(&k->stock))
        set_timer(k, stock_tick_ms(&k->stock));
    if ((helper_is_missing(&k->broker.helper) || helper_is_missing(&k->porter.helper) ||
         helper_is_missing(&k->sampler.helper)) &&
        !k->stopping)
        set_timer(k, LOOK_DELAY_MS);
}

// ---- the gate -----------------------------------------------------------------------------------

static int start_gate(struct keeper *k, struct err *e)
{
    int sock[2];
    struct keeper_facts facts = facts_of(k);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    pid_t pid = fork();
    if (pid < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "fork the gate");
        (void)close(sock[0]);
        (void)close(sock[1]);
        return r;
    }
    if (pid == 0) {
        // A gate must not outlive its keeper; the check covers a keeper that is gone already.
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != facts.keeper)
            _exit(70);
        _exit(k->plan->gate(sock[1], &facts, k->plan->argument));
    }
    (void)close(sock[1]);
    for (unsigned i = 0; i < k->plan->keep_count && !k->plan->restart; i++)
        (void)close(k->plan->keep[i]); // the gate's alone
    k->gate = pid;
    watchdog_reset(&k->watchdog);
    k->gate_since_ms = clock_ms();
    k->gate_sock = sock[0];
    (void)fd_set_nonblock(k->gate_sock, true);
    k->stock.gate.sock = k->gate_sock;
    if (keeper_watch_fd(k, k->gate_sock, TAG_GATE) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
    helper_link(&k->broker.helper);
    helper_link(&k->porter.helper);
    return 0;
}

// A gate that crashes at its start would crash again and again; later crashes are survived.
static bool may_restart(struct keeper *k)
{
    if (!k->plan->restart || k->stopping)
        return false;
    k->short_lives = clock_ms() - k->gate_since_ms < SHORT_LIFE_MS ? k->short_lives + 1 : 0;
    if (k->short_lives >= SHORT_LIVES_MAX) {
        log_line(LOG_ERROR, "the gate crashed %d times in a row at its start; giving up",
                 SHORT_LIVES_MAX);
        return false;
    }
    k->restarts++;
    return true;
}

// The listening socket is still open here, so clients wait and are not refused.  Their runs are
// lost.  Sessions go on: their boxes are kept, and the ledger has the rest.
static void gate_ended(struct keeper *k, int status)
{
    struct err e;
    k->gate_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    k->gate_gone = true;
    k->gate = 0; // the pid may be reused
    if (WIFEXITED(status))
        return; // it ended by itself
    if (!k->stopping)
        log_line(LOG_ERROR, "the gate was ended by signal %d", WTERMSIG(status));
    if (!may_restart(k))
        return;
    (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->gate_sock, NULL);
    fd_close(&k->gate_sock);
    k->pending.count = 0;
    stock_gate_lost(&k->stock);
    if (start_gate(k, &e) < 0) {
        log_err(LOG_ERROR, &e);
        return;
    }
    k->gate_gone = false;
    // SECURITY: the new gate inherits the keys of the first start, and a key that was revoked since
    // must not be valid again.  So send the files again; the new gate waits for them.
    if (k->plan->reload)
        announce_files(&k->stock, &k->broker, k->plan);
    stock_adopt(&k->stock);
}

static void on_child(struct keeper *k)
{
    int status;
    if (k->gate > 0 && waitpid(k->gate, &status, WNOHANG) == k->gate)
        gate_ended(k, status);
    helper_reap(&k->broker.helper);
    helper_reap(&k->porter.helper);
    helper_reap(&k->sampler.helper);
    try_helpers(k);
}

// Watches the process that started this one, for a server that must end with it.
static int watch_parent(struct keeper *k, struct err *e)
{
    pid_t parent = getppid();
    if (!k->plan->watch_parent || parent <= 1)
        return 0;
    // Not PR_SET_PDEATHSIG: that is about the thread that forked, and programs start the server
    // from threads.
    k->parent = (int)syscall(SYS_pidfd_open, parent, 0);
    if (k->parent < 0 || getppid() != parent) // it died meanwhile
        return k->parent < 0 ? 0 : err_set(e, ERR_SYSTEM, 0, NULL, "the parent process is gone");
    return keeper_watch_fd(k, k->parent, TAG_PARENT) < 0
               ? err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl")
               : 0;
}

static void on_parent(struct keeper *k)
{
    (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->parent, NULL);
    k->stopping = true;
    signal_gate(k, SIGTERM);
}

static void on_signal(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        switch (info.ssi_signo) {
        case SIGCHLD: on_child(k); break;
        case SIGINT:
            k->stopping = true;
            // A terminal sends Ctrl-C to the gate as well; another sender only knows this process.
            if (info.ssi_code != SI_KERNEL)
                signal_gate(k, SIGINT);
            break;
        case SIGHUP:
            if (k->plan->reload && info.ssi_code != SI_KERNEL) {
                announce_files(&k->stock, &k->broker, k->plan);
                break;
            } // the terminal is gone
            /* fallthrough */
        default: k->stopping = true; signal_gate(k, SIGTERM); // the gate decides how to end
        }
    }
    if (k->stopping)
        notify_say(&k->notify, "STOPPING=1");
}

static void loop(struct keeper *k)
{
    while (!k->gate_gone) {
        struct epoll_event events[EVENTS];
        int n = poller_wait(k->epoll, events, EVENTS);
        for (int i = 0; i < n; i++) {
            uint64_t value = events[i].data.u64 & ~stock_tag((enum stock_tag)0xff, 0);
            switch ((enum stock_tag)(events[i].data.u64 >> 56)) {
            case TAG_GATE:
                if (events[i].events & EPOLLOUT)
                    send_queue_flush(&k->stock.gate);
                if (events[i].events & ~(uint32_t)EPOLLOUT)
                    on_gate(k);
                break;
            case TAG_ZYGOTE: keeper_zygote_hear(k); break;
            case TAG_STEM: on_stem(k, (int)value, events[i].events); break;
            case TAG_ORPHAN: stock_orphan_speaks(&k->stock, value); break;
            case TAG_LOG: keeper_zygote_log(k); break;
            case TAG_TIMER: on_timer(k); break;
            case TAG_SIGNAL: on_signal(k); break;
            case TAG_PARENT: on_parent(k); break;
            case TAG_NOTIFY: notify_tick(&k->notify, k->gate > 0 && !k->watchdog.noticed); break;
            case TAG_BROKER: helper_event(&k->broker.helper, events[i].events); break;
            case TAG_PORTER: helper_event(&k->porter.helper, events[i].events); break;
            case TAG_SAMPLER: helper_event(&k->sampler.helper, events[i].events); break;
            case TAG_SANDBOX: gvisor_ended(&k->stock, value); break;
            case TAG_DENIED: denied_hear(&k->stock, value, events[i].events); break;
            case TAG_BOX: on_box(k, value); break;
            }
        }
        helper_check(&k->broker.helper);
        helper_check(&k->porter.helper);
        if (sampler_ask(&k->sampler))
            try_helpers(k);
        plan_ahead(k);
    }
}

// ---- start and end ------------------------------------------------------------------------------

static int open_loop(struct keeper *k, struct err *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    k->epoll = epoll_create1(EPOLL_CLOEXEC);
    k->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->epoll < 0 || k->timer < 0 || k->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        keeper_watch_fd(k, k->timer, TAG_TIMER) < 0 ||
        keeper_watch_fd(k, k->signals, TAG_SIGNAL) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make the keeper's event loop");
    return 0;
}

struct wire_limits keeper_limits(const struct config *c)
{
    return (struct wire_limits){
        .memory_bytes = c->memory_bytes,
        .scratch_bytes = c->scratch_bytes,
        .file_bytes = c->file_size_bytes,
        .processes = c->processes,
        .inodes = c->inodes,
        .open_files = c->files,
        .readonly = code_policy_freezes(c, NULL),
        .isolation = c->isolation == ISOLATION_GVISOR ? ISOLATION_GVISOR : ISOLATION_NATIVE,
    };
}

// While the keeper has its rights.  Without a state folder code still runs, but its files have no
// links.
static void open_state(struct keeper *k)
{
    struct err e;
    if (k->plan->state && state_open(&k->folder, k->plan->config, &k->caps.slots, &e) < 0)
        log_line(LOG_WARN, "artifacts get no links: %s [%s]; %s", e.message, err_code_name(e.code),
                 e.hint[0] ? e.hint : "choose another folder with --state");
    keeper_porter_open(&k->porter, k->plan, &k->folder, &k->caps.slots, &k->stock, k->epoll);
}

static const struct environments *environments_of(void *argument)
{
    const struct keeper *k = argument;
    return keeper_porter_environments(&k->porter);
}

static void open_gvisor(struct keeper *k)
{
    k->gvisor = (struct gvisor){.config = k->plan->config,
                                .interp = &k->interp,
                                .environments = environments_of,
                                .shares = k->plan->shares,
                                .argument = k};
    k->stock.gvisor = &k->gvisor;
}

static int start(struct keeper *k, struct err *e)
{
    const struct config *c = k->plan->config;
    struct wire_limits standard = keeper_limits(c);
    bool gate_first = k->plan->start == KEEPER_GATE_FIRST;
    fdlimit_raise();
    if (k->plan->restart && !(k->ledger = ledger_new()))
        return err_set(e, ERR_SYSTEM, errno, NULL, "map the ledger of sessions");
    stock_init(&k->stock, &k->caps, &standard, k->plan->stock ? k->plan->stock : c->stock,
               keeper_broker_first_kind(k->plan));
    k->stock.stemless = k->plan->cold;
    open_gvisor(k);
    int r = c->isolation == ISOLATION_GVISOR ? gvisor_find(&k->gvisor, e) : 0;
    if (r == 0)
        r = caps_open(&k->caps, c, k->plan->own_uids, e);
    if (c->shares.count)
        k->caps.box_flags |= BOX_SHARES;
    if (r == 0)
        r = fdlimit_check(!slots_may_give(&k->caps.slots) && !k->plan->cold, c->files, e);
    if (r == 0)
        r = open_loop(k, e);
    if (r == 0)
        r = watch_parent(k, e);
    if (r == 0 && k->notify.timer >= 0 && keeper_watch_fd(k, k->notify.timer, TAG_NOTIFY) < 0)
        r = err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
    stock_set_epoll(&k->stock, k->epoll);
    sampler_open(&k->sampler, &k->stock, k->epoll);
    watchdog_open(&k->watchdog);
    if (r == 0)
        open_state(k);
    if (r == 0)
        r = keeper_broker_open(&k->broker, k->plan, &k->stock, k->epoll, e);
    if (r == 0)
        r = gate_first ? start_gate(k, e) : keeper_zygote_start(k, e);
    if (r == 0 && gate_first)
        keeper_zygote_try(k); // the gate gets a message
    if (r == 0)
        r = start_helpers(k, e); // last: the end of one interrupts waiting for the interpreter
    if (r == 0 && slots_may_give(&k->caps.slots))
        r = rights_drop(e);
    if (r == 0 && !gate_first)
        r = start_gate(k, e);
    return r;
}

int keeper_run(const struct keeper_plan *plan, int *ret_status, struct err *e)
{
    static struct keeper k; // large, and there is one
    // Field by field: writing the rest, which is zero already, would take half a millisecond.
    k.plan = plan;
    k.gate_sock = k.epoll = k.timer = k.signals = k.parent = -1;
    k.folder.folder = k.folder.lock = k.folder.parent = -1;
    k.zygote.pid = k.zygote.pidfd = k.zygote.sock = k.zygote.log = -1;
    notify_open(&k.notify);
    int r = start(&k, e);
    if (r == 0) {
        loop(&k);
        *ret_status = k.gate_status;
    }
    zygote_stop(&k.zygote);
    keeper_broker_close(&k.broker);
    keeper_porter_close(&k.porter);
    helper_close(&k.sampler.helper);
    stock_done(&k.stock);
    state_close(&k.folder);
    caps_close(&k.caps);
    fd_close(&k.gate_sock);
    fd_close(&k.epoll);
    fd_close(&k.timer);
    fd_close(&k.signals);
    fd_close(&k.parent);
    notify_close(&k.notify);
    return r;
}
