// SPDX-License-Identifier: Apache-2.0
//
// stem: see stem.h.

#include "box/stem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "box/pages.h"
#include "box/spawn.h"
#include "box/spawn_message.h"

enum {
    SOCKETS_FD = ZYGOTE_SOCKET_FD + 1, // /proc/self/net/sockstat
    DEVICES_FD,                        // /proc/self/net/dev
    STEM_FDS,
    NET_TEXT_MAX = 2048,
};

// In memory that a fork leaves out, like the zygote's bookkeeping: a page shared with a box would
// be copied for each.  SECURITY: so no box finds here what belongs to the box before it, which was
// another caller's.
static struct bookkeeping {
    union wire_message request, reply;
    struct rusage usage;
    int status, sockets_fd, devices_fd;
    bool none_seen;
    char devices[NET_TEXT_MAX]; // empty: this stem cannot look at its namespace
} * bookkeeping;

// ---- the network namespace ----------------------------------------------------------------------
//
// SECURITY: the next box of the slot, which may be another caller's, gets this namespace.  It must
// find nothing in it: no socket that waits in another one's queue, no connection that is about to
// end, and nothing that the kernel learned from packets (metrics of routes, pieces of datagrams).
// So a namespace is used again only if no socket is left and no packet was ever sent in it; else
// the stem ends, and the namespace with it.  Calls that send no packet can still change counters;
// net_loopback() has hidden those.

static size_t read_net(int fd, char text[NET_TEXT_MAX])
{
    ssize_t n = pread(fd, text, NET_TEXT_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

// close_others() moves them to SOCKETS_FD and DEVICES_FD: descriptors of the first plan may be
// there now.
static void open_net(int proc_fd)
{
    bookkeeping->sockets_fd = openat(proc_fd, "self/net/sockstat", O_RDONLY | O_CLOEXEC);
    bookkeeping->devices_fd = openat(proc_fd, "self/net/dev", O_RDONLY | O_CLOEXEC);
    if (bookkeeping->devices_fd >= 0)
        (void)read_net(bookkeeping->devices_fd, bookkeeping->devices);
}

static bool move(int *fd, int target)
{
    if (*fd != target && (*fd < 0 || dup3(*fd, target, O_CLOEXEC) < 0))
        return false;
    *fd = target;
    return true;
}

// Closes the descriptors of a plan.  A stem that cannot look at its namespace has one box only.
static void close_others(void)
{
    bool looks =
        move(&bookkeeping->sockets_fd, SOCKETS_FD) && move(&bookkeeping->devices_fd, DEVICES_FD);
    if (!looks)
        bookkeeping->devices[0] = '\0';
    if (sys_close_range(STEM_FDS, ~0U) < 0)
        _exit(1);
}

// The kernel frees the zygote's netlink socket, which brought up lo, a moment after it was closed.
// So one socket is allowed until this stem has once seen none.  A box that leaves sockets leaves
// two or more (one in a queue, and the one that has the queue), or it has sent packets.
static bool no_socket_is_left(void)
{
    static const char before[] = "sockets: used ";
    char text[NET_TEXT_MAX];
    if (read_net(SOCKETS_FD, text) == 0 || strncmp(text, before, sizeof before - 1) != 0)
        return false;
    const unsigned long left = strtoul(text + sizeof before - 1, NULL, 10);
    bookkeeping->none_seen |= left == 0;
    return left <= (bookkeeping->none_seen ? 0 : 1);
}

static bool namespace_is_new(void)
{
    char text[NET_TEXT_MAX];
    // The counters of every device, as they were before the first box.
    return bookkeeping->devices[0] && read_net(DEVICES_FD, text) > 0 &&
           strcmp(text, bookkeeping->devices) == 0 && no_socket_is_left();
}

// ---- the boxes ----------------------------------------------------------------------------------

static void tell(enum wire_type type, const int *fds, size_t count)
{
    if (wire_send(ZYGOTE_SOCKET_FD, type, &bookkeeping->reply, fds, count) < 0)
        _exit(0); // the keeper is gone
}

// One box, from its clone to its end.  Returns 1 in the box.
static int make(const struct box_plan *plan)
{
    int pidfd = -1;
    long pid = box_clone(plan, box_clone_flags(plan->flags), &pidfd);
    if (pid == 0) {
        box_enter(plan);
        return 1;
    }
    bookkeeping->reply.spawned =
        (struct wire_spawned){.box = plan->box, .error = pid < 0 ? (int)-pid : 0};
    tell(WIRE_SPAWNED, &pidfd, pid < 0 ? 0 : 1);
    close_others();
    if (pid < 0)
        return 0;
    while (wait4((pid_t)pid, &bookkeeping->status, 0, &bookkeeping->usage) < 0)
        if (errno != EINTR)
            _exit(1);
    spawn_message_exited(plan->box, bookkeeping->status, &bookkeeping->usage,
                         &bookkeeping->reply.exited);
    bookkeeping->reply.exited.spent = !namespace_is_new();
    tell(WIRE_EXITED, NULL, 0);
    if (bookkeeping->reply.exited.spent)
        _exit(0);
    return 0;
}

int stem_serve(const struct box_plan *first, int sock)
{
    struct box_plan plan = *first;
    plan.has_stem = true;
    box_settle(&plan);
    // SECURITY: to look at its own memory it must be dumpable for a moment, in which its slot has
    // no box.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0)
        pages_map();
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        _exit(1);
    // Replaces the zygote's socket, which a stem must not have.
    bookkeeping = spawn_message_bookkeeping(sizeof *bookkeeping);
    if (!bookkeeping || dup3(sock, ZYGOTE_SOCKET_FD, O_CLOEXEC) < 0)
        _exit(1);
    open_net(plan.proc_fd);
    for (int r = make(&plan);;) {
        int fds[FD_PASS_MAX];
        size_t count = 0;
        if (r == 1)
            return 1;
        union wire_message *m = &bookkeeping->request;
        if (wire_recv(ZYGOTE_SOCKET_FD, m, fds, ARRAY_LEN(fds), &count) <= 0 ||
            m->h.type != WIRE_SPAWN || m->spawn.stem || m->spawn.slot != first->slot ||
            m->spawn.uid_slot != first->uid_slot || !stem_may_make(m->spawn.flags) ||
            spawn_message_plan(&m->spawn, fds, count, &plan) < 0)
            _exit(0);
        plan.has_stem = true;
        r = make(&plan);
    }
}
