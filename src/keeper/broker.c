// SPDX-License-Identifier: Apache-2.0
//
// keeper_broker: see broker.h.
//
// SECURITY: the broker speaks to strangers and to boxes, so the keeper never reads what it says: a broker
// that writes to its socket is ended as one that was taken over.

#include "keeper/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

enum {
    SHORT_LIFE_MS = 1000,    // of a broker that never came to serve ...
    SHORT_LIVES_MAX = 100,   // ... and how many of them in a row are one too many
    LETTERS_MAX = 2 * SLOTS, // a new one may hear of every box at once
    END_WAIT_MS = 500,       // for its last words, when the keeper ends
};

static int open_network_file(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? err_set(e, ERR_BAD_VALUE, errno, "see --network-file", "open '%s'", path) : fd;
}

// SECURITY: a link in a folder that others write to would append to a file of their choice.
static int open_audit_file(const char *path, struct err *e)
{
    struct stat st;
    int fd = open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return err_set(e, ERR_BAD_VALUE, errno, "choose another --audit-file", "open '%s'", path);
    if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_BAD_VALUE, 0, "choose another --audit-file",
                       "'%s' is not a file that lines can be appended to", path);
    }
    (void)fd_set_nonblock(fd, false);
    return fd;
}

int keeper_broker_open(struct keeper_broker *b, const struct keeper_plan *plan, struct stock *stock,
                       int epoll, struct err *e)
{
    const struct config *c = plan->config;
    *b = (struct keeper_broker){.plan = plan,
                                .stock = stock,
                                .epoll = epoll,
                                .sock = -1,
                                .network_file = -1,
                                .audit_file = -1,
                                .failed = !plan->broker};
    if (!plan->broker)
        return 0;
    if (c->network_file[0] && (b->network_file = open_network_file(c->network_file, e)) < 0)
        return b->network_file;
    if (c->audit_file[0] && (b->audit_file = open_audit_file(c->audit_file, e)) < 0)
        return b->audit_file;
    return 0;
}

// ---- the process ---------------------------------------------------------------------------------

static _Noreturn void child_main(const struct keeper_broker *b, struct keeper_facts facts, int sock)
{
    facts.network_file = b->network_file;
    facts.audit_file = b->audit_file;
    facts.keep_count = 0;
    facts.state_folder = -1;
    facts.ledger = NULL;
    (void)setsid();                                       // a terminal's Ctrl-C is for the gate
    (void)prctl(PR_SET_NAME, "constrictor-net", 0, 0, 0); // what ps shows
    // A broker must not outlive its keeper; the check covers a keeper that is gone already.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != facts.keeper)
        _exit(70);
    _exit(b->plan->broker(sock, &facts));
}

int keeper_broker_start(struct keeper_broker *b, const struct keeper_facts *facts, struct err *e)
{
    int sock[2];
    if (b->failed)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    pid_t pid = fork();
    if (pid == 0)
        child_main(b, *facts, sock[1]);
    (void)close(sock[1]);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_BROKER, 0)};
    if (pid < 0 || epoll_ctl(b->epoll, EPOLL_CTL_ADD, sock[0], &ev) < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "start the broker");
        (void)close(sock[0]); // a broker without a keeper ends
        return r;
    }
    (void)fd_set_nonblock(sock[0], true);
    b->pid = pid;
    b->sock = sock[0];
    b->since_ms = clock_ms();
    b->stock->broker.sock = b->sock;
    stock_tell_broker(b->stock);
    return 0;
}

bool keeper_broker_serves(const struct keeper_broker *b, struct err *e)
{
    if (!b->failed)
        return true;
    if (b->plan->broker)
        err_set(e, ERR_NETWORK, 0, "see the log, and start the server again",
                "no box gets network: the broker ended %d times in a row as soon as it began",
                SHORT_LIVES_MAX);
    else
        err_set(e, ERR_NETWORK, 0,
                "run it without network, or start the server with --allow-host or --network-file",
                "boxes have no network here: nobody allowed any host");
    return false;
}

static void hang_up(struct keeper_broker *b)
{
    if (b->sock >= 0)
        (void)epoll_ctl(b->epoll, EPOLL_CTL_DEL, b->sock, NULL);
    mail_drop(&b->stock->broker);
    fd_close(&b->sock);
}

// Its end is seen as SIGCHLD.
static void end(struct keeper_broker *b)
{
    hang_up(b);
    if (b->pid > 0)
        (void)kill(b->pid, SIGKILL);
}

void keeper_broker_event(struct keeper_broker *b, uint32_t events)
{
    char c;
    if (b->sock < 0)
        return;
    if (events & EPOLLOUT)
        mail_flush(&b->stock->broker);
    if (!(events & ~(uint32_t)EPOLLOUT))
        return;
    ssize_t n = recv(b->sock, &c, 1, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        log_line(LOG_ERROR, "the broker sent what no broker sends");
    end(b);
}

void keeper_broker_check(struct keeper_broker *b)
{
    if (b->sock < 0 || b->stock->broker.waiting <= LETTERS_MAX)
        return;
    log_line(LOG_ERROR, "the broker does not read what it is told; it is started again");
    end(b);
}

bool keeper_broker_is_missing(const struct keeper_broker *b)
{
    return !b->failed && b->pid == 0;
}

void keeper_broker_reap(struct keeper_broker *b)
{
    int status;
    if (b->pid <= 0 || waitpid(b->pid, &status, WNOHANG) != b->pid)
        return;
    b->pid = 0;
    hang_up(b);
    if (WIFSIGNALED(status))
        log_line(LOG_ERROR, "the broker was ended by signal %d; it is started again",
                 WTERMSIG(status));
    else
        log_line(LOG_ERROR, "the broker ended with status %d; it is started again",
                 WEXITSTATUS(status));
    // What breaks it at once would break it for ever; what breaks it now and then is survived.
    b->short_lives = clock_ms() - b->since_ms < SHORT_LIFE_MS ? b->short_lives + 1 : 0;
    if (b->short_lives < SHORT_LIVES_MAX)
        return;
    log_line(LOG_ERROR, "the broker ended %d times in a row as soon as it began; giving up",
             SHORT_LIVES_MAX);
    b->failed = true;
    keeper_broker_link(b); // to nobody
}

// ---- what it is told -----------------------------------------------------------------------------

void keeper_broker_link(struct keeper_broker *b)
{
    union wire_message m;
    int pair[2] = {-1, -1};
    if (!b->plan->broker || b->stock->gate.sock < 0)
        return;
    bool both = b->sock >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
    m.net_link = (struct wire_net_link){0};
    stock_send(b->stock, WIRE_NET_LINK, &m, &pair[0], both);
    if (both)
        (void)mail_send(&b->stock->broker, WIRE_NET_LINK, &m, &pair[1], 1);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

void keeper_broker_file(struct keeper_broker *b, int fd)
{
    union wire_message m;
    if (!b->plan->broker || fd < 0)
        return;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return; // the one that it has stays in force
    fd_close(&b->network_file);
    b->network_file = copy;
    m.files = (struct wire_files){.present = 1U << (WIRE_FILES_MAX - 1)};
    (void)mail_send(&b->stock->broker, WIRE_FILES, &m, &copy, 1);
}

void keeper_broker_close(struct keeper_broker *b)
{
    if (!b->plan)
        return;
    hang_up(b); // it sees that, writes what it has to write, and ends
    int64_t until_ms = clock_ms() + END_WAIT_MS;
    while (b->pid > 0 && waitpid(b->pid, NULL, WNOHANG) == 0) {
        if (clock_ms() >= until_ms)
            (void)kill(b->pid, SIGKILL);
        (void)usleep(200);
    }
    b->pid = 0;
    fd_close(&b->network_file);
    fd_close(&b->audit_file);
}
