// SPDX-License-Identifier: Apache-2.0
//
// keeper: see keeper.h.  One thread, one epoll loop over: the gate's socket, the zygote's socket and
// stderr, the control sockets of boxes in the making, a timer, signals.
//
// SECURITY: this process has privileges, so it parses nothing: fixed structs from the gate and the
// zygote, and a box's first datagram before any user code has run in it.

#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "keeper/stock.h"
#include "keeper/zygote.h"

enum { REFILL_DELAY_MS = 2, RESTART_DELAY_MS = 1000, TICK_FIRST_MS = 5, EVENTS = 64 };

struct keeper {
    const struct keeper_plan *plan;
    struct caps caps;
    struct interp interp;
    struct zygote zygote;
    struct stock stock;
    int gate_sock, epoll, timer, signals;
    bool timer_set;
    int tick_ms; // pause before limits are looked at again
    pid_t gate;
    int gate_status;
    bool gate_gone;
};

static int watch_fd(struct keeper *k, int fd, enum stock_tag tag)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(tag, 0)};
    return epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &ev);
}

static void set_timer(struct keeper *k, int ms)
{
    if (k->timer_set)
        return; // the earlier time stands
    k->timer_set = true;
    struct itimerspec t = {.it_value = {ms / 1000, (long)(ms % 1000) * 1000000}};
    (void)timerfd_settime(k->timer, 0, &t, NULL); // only fails for bad arguments
}

// ---- events --------------------------------------------------------------------------------------

static void on_gate(struct keeper *k)
{
    // A bound, so that a busy gate cannot keep the keeper from its other work.
    for (int i = 0; i < 32; i++) {
        union wire_message m;
        int r = wire_recv(k->gate_sock, &m, NULL, 0, NULL);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            if (r < 0)
                log_line(LOG_ERROR, "the gate sent what no gate sends: %s", strerror(-r));
            (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->gate_sock, NULL);
            (void)kill(k->gate, SIGKILL); // its end is seen as SIGCHLD
            return;
        }
        switch (m.h.type) {
        case WIRE_ACQUIRE: stock_acquire(&k->stock, &m.acquire); break;
        case WIRE_RELEASE: stock_release(&k->stock, &m.release); break;
        case WIRE_INTERRUPT: stock_interrupt(&k->stock, &m.interrupt); break;
        case WIRE_STATUS: {
            union wire_message reply = {.status_reply = {
                                            .parked = k->stock.counts[BOX_PARKED],
                                            .live = k->stock.counts[BOX_LIVE],
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

static void zygote_restart(struct keeper *k)
{
    struct err e;
    if (zygote_start(&k->zygote, k->plan->config, &k->caps, &k->interp, k->plan->cold, &e) < 0) {
        log_err(LOG_ERROR, &e);
        return; // every acquire is refused with "there is no zygote"; the timer tries again
    }
    k->stock.zygote_sock = k->zygote.sock;
    (void)fd_set_nonblock(k->zygote.sock, true);
    if (watch_fd(k, k->zygote.sock, TAG_ZYGOTE) < 0 || watch_fd(k, k->zygote.log, TAG_LOG) < 0)
        log_line(LOG_ERROR, "epoll_ctl: %s", strerror(errno));
    stock_refill(&k->stock);
}

static void zygote_lost(struct keeper *k)
{
    log_line(LOG_ERROR, "the zygote ended; its boxes are gone, a new one is started");
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.sock, NULL);
    (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.log, NULL);
    zygote_stop(&k->zygote);
    stock_zygote_lost(&k->stock);
    zygote_restart(k);
}

static void on_zygote(struct keeper *k)
{
    for (int i = 0; i < 64; i++) {
        union wire_message m;
        int fds[FD_PASS_MAX];
        size_t count = 0;
        int r = wire_recv(k->zygote.sock, &m, fds, 1, &count);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            zygote_lost(k);
            return;
        }
        if (m.h.type == WIRE_SPAWNED) {
            stock_spawned(&k->stock, &m.spawned, count ? fds[0] : -1);
            continue;
        }
        for (size_t f = 0; f < count; f++)
            fd_close(&fds[f]);
        if (m.h.type == WIRE_EXITED)
            stock_exited(&k->stock, &m.exited);
    }
}

static void on_log(struct keeper *k)
{
    char text[1024];
    ssize_t n = read(k->zygote.log, text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        log_line(LOG_INFO, "zygote: %s", text);
    } else if (n == 0) {
        (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.log, NULL);
    }
}

static void on_timer(struct keeper *k)
{
    uint64_t times;
    (void)!read(k->timer, &times, sizeof times); // only says that it fired
    k->timer_set = false;
    if (k->zygote.sock < 0)
        zygote_restart(k);
    stock_refill(&k->stock);
    k->tick_ms = stock_tick(&k->stock);
}

// After each round of events: is there something to do later?
static void plan_ahead(struct keeper *k)
{
    // A taken box is made again after a pause and not beside the run that took it.
    if (k->zygote.sock < 0)
        set_timer(k, RESTART_DELAY_MS);
    else if (stock_wants_boxes(&k->stock))
        set_timer(k, REFILL_DELAY_MS);
    else if (stock_wants_ticks(&k->stock))
        set_timer(k, k->tick_ms > 0 ? k->tick_ms : TICK_FIRST_MS);
}

static void on_signal(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        // A terminal sends Ctrl-C to the gate as well; anybody else knows this process only.
        if (info.ssi_signo == SIGINT && info.ssi_code == SI_KERNEL)
            continue;
        if (info.ssi_signo != SIGCHLD) {
            (void)kill(k->gate,
                       info.ssi_signo == SIGINT ? SIGINT : SIGTERM); // it decides how to end
            continue;
        }
        int status;
        if (waitpid(k->gate, &status, WNOHANG) == k->gate) {
            k->gate_gone = true;
            k->gate_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
}

static void loop(struct keeper *k)
{
    while (!k->gate_gone) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(k->epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            uint64_t value = events[i].data.u64 & ~stock_tag((enum stock_tag)0xff, 0);
            switch ((enum stock_tag)(events[i].data.u64 >> 56)) {
            case TAG_GATE:
                if (events[i].events & EPOLLOUT)
                    stock_flush(&k->stock);
                if (events[i].events & ~(uint32_t)EPOLLOUT)
                    on_gate(k);
                break;
            case TAG_ZYGOTE: on_zygote(k); break;
            case TAG_LOG: on_log(k); break;
            case TAG_TIMER: on_timer(k); break;
            case TAG_SIGNAL: on_signal(k); break;
            case TAG_BOX:
                on_zygote(k); // SPAWNED, with the pidfd, was sent before the box could speak
                stock_box_speaks(&k->stock, value);
                break;
            }
        }
        plan_ahead(k);
    }
}

// ---- start and end ---------------------------------------------------------------------------------

// What the keeper goes on needing, and for what.
static int drop_capabilities(struct err *e)
{
    static const cap_value_t keep[] = {
        CAP_SETUID,       CAP_SETGID, // id maps of a new zygote
        CAP_KILL,                     // ending boxes, which have other uids
        CAP_CHOWN,                    // cgroup v2: handing a box's group to the zygote
        CAP_DAC_OVERRIDE,             // cgroup files in a container whose root is not their owner
        CAP_SYS_ADMIN,                // user namespaces where ordinary users may not make them
    };
    cap_t had = cap_get_proc(), want = cap_init();
    int r = had && want ? 0 : -1;
    for (size_t i = 0; i < ARRAY_LEN(keep) && r == 0; i++) {
        cap_flag_value_t has = CAP_CLEAR;
        (void)cap_get_flag(had, keep[i], CAP_PERMITTED, &has);
        if (has == CAP_SET && (cap_set_flag(want, CAP_PERMITTED, 1, &keep[i], CAP_SET) < 0 ||
                               cap_set_flag(want, CAP_EFFECTIVE, 1, &keep[i], CAP_SET) < 0))
            r = -1;
    }
    if (r == 0)
        r = cap_set_proc(want);
    int errnum = errno;
    (void)cap_free(had);
    (void)cap_free(want);
    return r < 0 ? err_set(e, ERR_SYSTEM, errnum, NULL, "drop capabilities") : 0;
}

static void raise_file_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l); // fewer boxes fit, and making one too many says so
    }
}

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
        watch_fd(k, k->timer, TAG_TIMER) < 0 || watch_fd(k, k->signals, TAG_SIGNAL) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make the keeper's event loop");
    return 0;
}

static int start_gate(struct keeper *k, struct err *e)
{
    int sock[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    pid_t keeper = getpid();
    k->gate = fork();
    if (k->gate < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "fork the gate");
        (void)close(sock[0]);
        (void)close(sock[1]);
        return r;
    }
    if (k->gate == 0) {
        struct keeper_facts facts = {.keeper = keeper,
                                     .config = k->plan->config,
                                     .caps = &k->caps,
                                     .interp = &k->interp,
                                     .zygote_report = k->zygote.report};
        // A gate must not outlive its keeper; the check covers a keeper that is gone already.
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != keeper)
            _exit(70);
        _exit(k->plan->gate(sock[1], &facts, k->plan->argument));
    }
    (void)close(sock[1]);
    k->gate_sock = sock[0];
    (void)fd_set_nonblock(k->gate_sock, true);
    k->stock.gate_sock = k->gate_sock;
    if (watch_fd(k, k->gate_sock, TAG_GATE) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
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
    };
}

static int start(struct keeper *k, struct err *e)
{
    const struct config *c = k->plan->config;
    struct wire_limits standard = keeper_limits(c);
    raise_file_limit();
    stock_init(&k->stock, &k->caps, &standard, c->stock);
    int r = caps_open(&k->caps, c, e);
    if (r == 0)
        r = interp_ask(c->python, &k->interp, e);
    if (r == 0)
        r = open_loop(k, e);
    if (r == 0)
        r = zygote_start(&k->zygote, c, &k->caps, &k->interp, k->plan->cold, e);
    if (r < 0)
        return r;
    k->stock.zygote_sock = k->zygote.sock;
    k->stock.epoll = k->epoll;
    (void)fd_set_nonblock(k->zygote.sock, true);
    if (watch_fd(k, k->zygote.sock, TAG_ZYGOTE) < 0 || watch_fd(k, k->zygote.log, TAG_LOG) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
    if (slots_have_uids(&k->caps.slots))
        r = drop_capabilities(e);
    if (r == 0) {
        stock_refill(&k->stock); // its boxes are made while the gate starts
        if (k->plan->cold)
            k->stock.target = 0; // there will be no second run
        r = start_gate(k, e);
    }
    return r;
}

int keeper_run(const struct keeper_plan *plan, int *ret_status, struct err *e)
{
    static struct keeper k; // large, and there is one
    k = (struct keeper){.plan = plan,
                        .gate_sock = -1,
                        .epoll = -1,
                        .timer = -1,
                        .signals = -1,
                        .zygote = {.pid = -1, .pidfd = -1, .sock = -1, .log = -1}};
    int r = start(&k, e);
    if (r == 0) {
        loop(&k);
        *ret_status = k.gate_status;
    }
    zygote_stop(&k.zygote);
    stock_done(&k.stock);
    caps_close(&k.caps);
    fd_close(&k.gate_sock);
    fd_close(&k.epoll);
    fd_close(&k.timer);
    fd_close(&k.signals);
    return r;
}
