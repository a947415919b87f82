// SPDX-License-Identifier: Apache-2.0
//
// helper: see helper.h.
//
// SECURITY: helpers parse hostile input, so the keeper does not read their messages: it kills a
// helper that sends one, as compromised.  Only the sampler answers, with structs of numbers.

#include "keeper/helper.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/poller.h"

enum {
    SHORT_LIFE_MS = 1000,   // of one that never served
    QUEUED_MAX = 2 * SLOTS, // a new one may be told of every box at once
    LETTERS_PER_EVENT = 16,
    END_WAIT_MS = 500, // for its last work, when the keeper ends
};

void helper_init(struct helper *h)
{
    h->sock = -1;
    h->failed = !h->main;
    h->queue->epoll = h->epoll;
}

static _Noreturn void child_main(const struct helper *h, const struct keeper_facts *facts, int sock)
{
    (void)setsid(); // a terminal's Ctrl-C is for the gate
    (void)prctl(PR_SET_NAME, h->process, 0, 0, 0);
    // A helper must not outlive its keeper; the check covers a keeper that is gone already.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != facts->keeper)
        _exit(70);
    _exit(h->main(sock, facts));
}

int helper_start(struct helper *h, const struct keeper_facts *facts, struct err *e)
{
    int sock[2];
    if (h->failed)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    pid_t pid = fork();
    if (pid == 0)
        child_main(h, facts, sock[1]);
    (void)close(sock[1]);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = h->queue->tag};
    if (pid < 0 || poller_ctl(h->epoll, EPOLL_CTL_ADD, sock[0], &ev) < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "start the %s", h->name);
        (void)close(sock[0]); // a helper without a keeper ends
        return r;
    }
    (void)fd_set_nonblock(sock[0], true);
    h->pid = pid;
    h->sock = sock[0];
    h->since_ms = clock_ms();
    h->queue->sock = h->sock;
    return 0;
}

static void hang_up(struct helper *h)
{
    if (h->sock >= 0)
        (void)poller_ctl(h->epoll, EPOLL_CTL_DEL, h->sock, NULL);
    send_queue_drop(h->queue);
    fd_close(&h->sock);
}

// Its end is seen as SIGCHLD.
static void end(struct helper *h)
{
    hang_up(h);
    if (h->pid > 0)
        (void)kill(h->pid, SIGKILL);
}

static void hear(struct helper *h)
{
    union wire_message m;
    for (int i = 0; i < LETTERS_PER_EVENT && h->sock >= 0; i++) {
        int r = wire_recv(h->sock, &m, NULL, 0, NULL);
        if (r == -EAGAIN)
            return;
        if (r > 0) {
            h->on_message(h, &m);
            continue;
        }
        if (r < 0 && r != -ECONNRESET)
            log_line(LOG_ERROR, "protocol error from the %s", h->name);
        end(h);
    }
}

void helper_event(struct helper *h, uint32_t events)
{
    char c;
    if (h->sock < 0)
        return;
    if (events & EPOLLOUT)
        send_queue_flush(h->queue);
    if (!(events & ~(uint32_t)EPOLLOUT))
        return;
    if (h->on_message) {
        hear(h);
        return;
    }
    ssize_t n = recv(h->sock, &c, 1, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        log_line(LOG_ERROR, "protocol error from the %s", h->name);
    end(h);
}

void helper_check(struct helper *h)
{
    if (h->sock < 0 || h->queue->waiting <= QUEUED_MAX)
        return;
    log_line(LOG_ERROR, "the %s does not read its messages; restarting it", h->name);
    end(h);
}

bool helper_is_missing(const struct helper *h)
{
    return !h->failed && !h->asleep && h->pid == 0;
}

void helper_reap(struct helper *h)
{
    int status;
    if (h->pid <= 0 || waitpid(h->pid, &status, WNOHANG) != h->pid)
        return;
    h->pid = 0;
    hang_up(h);
    if (WIFSIGNALED(status))
        log_line(LOG_ERROR, "the %s was ended by signal %d; restarting it", h->name,
                 WTERMSIG(status));
    else
        log_line(LOG_ERROR, "the %s ended with status %d; restarting it", h->name,
                 WEXITSTATUS(status));
    // A helper that fails at its start would fail again and again; later failures are survived.
    h->short_lives = clock_ms() - h->since_ms < SHORT_LIFE_MS ? h->short_lives + 1 : 0;
    if (h->short_lives < HELPER_SHORT_LIVES_MAX)
        return;
    log_line(LOG_ERROR, "the %s ended %d times in a row at its start; giving up", h->name,
             HELPER_SHORT_LIVES_MAX);
    h->failed = true;
    helper_link(h); // tells the gate that there is none
}

void helper_link(struct helper *h)
{
    union wire_message m;
    int pair[2] = {-1, -1};
    if (!h->main || h->stock->gate.sock < 0)
        return;
    bool both = h->sock >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
    m.net_link = (struct wire_net_link){0};
    stock_send(h->stock, h->link, &m, &pair[0], both);
    if (both)
        (void)send_queue_add(h->queue, WIRE_NET_LINK, &m, &pair[1], 1);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

void helper_close(struct helper *h)
{
    if (!h->queue)
        return;
    hang_up(h); // it sees that, finishes its work, and ends
    int64_t until_ms = clock_ms() + END_WAIT_MS;
    while (h->pid > 0 && waitpid(h->pid, NULL, WNOHANG) == 0) {
        if (clock_ms() >= until_ms)
            (void)kill(h->pid, SIGKILL);
        (void)usleep(200);
    }
    h->pid = 0;
}
