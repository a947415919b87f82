// SPDX-License-Identifier: Apache-2.0
//
// spawn: see spawn.h.

#include "box/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/maps.h"
#include "base/sys.h"
#include "box/enter.h"
#include "box/filter.h"
#include "box/init.h"
#include "box/jail.h"
#include "box/net.h"
#include "wire/wire.h"

// Which box a pid is; a hash by pid, so that an exit costs the same with 10 boxes and with 10,000.
enum { CHILD_BUCKETS = 1024, LINGER_MS = 1 };

struct child {
    pid_t pid;
    uint64_t box;
    struct child *next;
};

// Namespaces that the kernel takes long to make and to end, so each slot keeps its own: a box has them for
// itself as long as it lives, and the next box of the slot finds them empty.  One for all boxes would let them
// meet, by abstract sockets for instance.
// SECURITY: they belong to the zygote's user namespace.  A box has no right over them, not even while it still
// has all capabilities of its own.
// The uts namespace is not here: making one takes less than going into one (0.7 against 1.4 us).
enum space {
    SPACE_NET, // sockets die with their processes
    // SECURITY: objects of System V and message queues do not; what one box left, the next caller's would find.
    // So only boxes under the filter have a slot's: the half of it that the zygote loads before the first box
    // refuses every call that could make, find or change such an object (test_filter.c names them); nobody can
    // mount an mqueue; /proc/sys and /proc/sysvipc are not in a box's /proc.  Boxes without the filter get one
    // of their own from the clone, see box_clone_flags().
    SPACE_IPC,
    SPACE_MAX
};

static const struct {
    int flag;
    const char *path;
    enum net_step step;
} spaces[SPACE_MAX] = {
    [SPACE_NET] = {CLONE_NEWNET, "self/ns/net", NET_NAMESPACE},
    [SPACE_IPC] = {CLONE_NEWIPC, "self/ns/ipc", NET_IPC},
};

// What the zygote writes to for each box.  It is in memory that a fork leaves out: every page that it shares with a
// new box is copied for it once more when it writes there.  A box has none of it.
static struct books {
    // 0: none yet.  The keeper has more descriptors of a live box than these two, and the same limit.
    int standing[WIRE_NET_SLOTS][SPACE_MAX];
    struct child by_slot[WIRE_NET_SLOTS]; // one for each slot, which has one box at a time
    struct child *children[CHILD_BUCKETS];
    union wire_message order, reply;
    bool filter_loaded, single, own_given[SPACE_MAX];
} * books;

static struct sock_fprog filters[FILTER_PARTS];
static uint64_t base_as_bytes;

static void child_add(struct child *c, pid_t pid, uint64_t box)
{
    struct child **bucket = &books->children[(unsigned)pid % CHILD_BUCKETS];
    *c = (struct child){.pid = pid, .box = box, .next = *bucket};
    *bucket = c;
}

static struct child *child_take(pid_t pid)
{
    for (struct child **p = &books->children[(unsigned)pid % CHILD_BUCKETS]; *p; p = &(*p)->next)
        if ((*p)->pid == pid) {
            struct child *found = *p;
            *p = found->next;
            return found;
        }
    return NULL;
}

// The halves of the filter, see box/filter.h.
static int read_filter(void)
{
    struct filter_head head;
    struct stat st;
    if (fstat(ZYGOTE_FILTER_FD, &st) < 0)
        return -errno;
    if (pread(ZYGOTE_FILTER_FD, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return -EIO;
    size_t all = 0;
    for (size_t i = 0; i < FILTER_PARTS; i++) {
        if (!head.counts[i] || head.counts[i] > FILTER_MAX)
            return -EINVAL;
        all += head.counts[i];
    }
    size_t bytes = all * sizeof(struct sock_filter);
    if (st.st_size != (off_t)(sizeof head + bytes))
        return -EINVAL;
    struct sock_filter *code = malloc(bytes);
    if (!code)
        return -ENOMEM;
    if (pread(ZYGOTE_FILTER_FD, code, bytes, sizeof head) != (ssize_t)bytes) {
        free(code);
        return -EIO;
    }
    for (size_t i = 0; i < FILTER_PARTS; i++) {
        filters[i] = (struct sock_fprog){(unsigned short)head.counts[i], code};
        code += head.counts[i];
    }
    (void)close(ZYGOTE_FILTER_FD);
    return 0;
}

// Before the first box: the zygote itself does nothing that the first half forbids.
static int load_filter(uint32_t box_flags)
{
    if (books->filter_loaded || (box_flags & BOX_WITHOUT_SECCOMP))
        return 0;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filters[FILTER_PART_FIRST], 0, 0) < 0)
        return -errno;
    books->filter_loaded = true;
    return 0;
}

static int measure_address_space(void)
{
    char text[128];
    ssize_t n = file_read_at(ZYGOTE_PROC_FD, "self/statm", text, sizeof text);
    if (n < 0)
        return (int)n;
    base_as_bytes = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

// The ids of the slot are taken by the zygote itself for the moment of the clone: then the slot owns
// the new user namespace and the child may write its own map.  Raw calls, because libc's wrappers
// would look for threads to synchronise.
static int become_slot(uint32_t slot)
{
    if (syscall(SYS_setresgid, -1, slot, -1) < 0 || syscall(SYS_setresuid, -1, slot, -1) < 0)
        return -errno;
    return 0;
}

// A box with network gets a namespace that nobody had before it: what sockets leave behind (connections
// that wait, addresses that were bound) would meet the next box, and the broker's still listen.
static int enter_fresh_net(int *ret_fds)
{
    enum net_step step;
    books->own_given[SPACE_NET] =
        true; // where the zygote will be after this is not where it was born
    int r = net_enter(ZYGOTE_PROC_FD, ret_fds, &step);
    if (r < 0)
        books->reply.spawned.net = 1 + step;
    return r;
}

// SECURITY: whoever fails here makes no box.  Where the zygote is then does not matter: each box goes
// through all of this again.
static int enter_standing(uint32_t slot, enum space space)
{
    int *fd = &books->standing[slot][space], r = 0;
    if (*fd > 0) {
        r = setns(*fd, spaces[space].flag) < 0 ? -errno : 0;
    } else {
        // SECURITY: the first box of a zygote for one run gets that zygote's own, which are as new: nobody else was ever
        // in them, and nobody will be.  Making and ending a network namespace takes as long as all the rest of a box.
        // It is asked for all the same: whoever may not make one is told so here, by the name of this layer.
        bool own = books->single && !books->own_given[space];
        int made = unshare(own ? 0 : spaces[space].flag);
        books->own_given[space] = true;
        if (made == 0)
            made = openat(ZYGOTE_PROC_FD, spaces[space].path, O_RDONLY | O_CLOEXEC);
        r = made < 0 ? -errno : 0;
        *fd = made < 0 ? 0 : made; // a namespace without a descriptor is nobody's
    }
    if (r < 0)
        books->reply.spawned.net = 1 + spaces[space].step;
    return r;
}

static int enter_namespaces(const struct wire_spawn *m, int *ret_net_fds)
{
    bool network = m->flags & BOX_NETWORK;
    int r = network ? 0 : enter_standing(m->net_slot, SPACE_NET);
    if (r == 0 && !(m->flags & BOX_WITHOUT_SECCOMP))
        r = enter_standing(m->net_slot, SPACE_IPC);
    if (r == 0 && network)
        r = enter_fresh_net(ret_net_fds); // last: it brings descriptors
    return r;
}

static int clone_box(struct box_plan *plan, const struct spawn_hooks *hooks, pid_t *ret_pid,
                     int *ret_pidfd)
{
    int pidfd = -1;
    void *tid = init_tid_address();
    struct sys_clone_args args = {
        .flags = box_clone_flags(plan->flags) | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    if (tid) { // libc must know the child's own thread id: raise() and abort() use it
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = (uint64_t)(uintptr_t)tid;
    }
    if (plan->cgroup_kind == BOX_CGROUP_V2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->cgroup_fd[0];
    }
    hooks->before();
    int r = plan->uid_slot ? become_slot(plan->uid_slot) : 0;
    long pid = r < 0 ? r : sys_clone3(&args);
    if (pid == 0) {
        box_enter(plan);
        return 1;
    }
    r = r < 0 ? r : (pid < 0 ? -errno : 0);
    // SECURITY: a zygote that could not take its own ids back must not go on with a box's.
    if (plan->uid_slot && become_slot(0) < 0)
        abort();
    hooks->after_in_zygote();
    *ret_pid = (pid_t)pid;
    *ret_pidfd = pidfd;
    return r;
}

// Returns 1 in the new box, 0 in the zygote, or a negative errno when the keeper cannot be reached.
static int handle_spawn(const struct wire_spawn *m, const int *fds, size_t count,
                        const struct spawn_hooks *hooks)
{
    struct box_plan plan = {
        .limits = m->limits,
        .uid_slot = m->uid_slot,
        .flags = m->flags,
        .landlock_abi = m->landlock_abi,
        .cgroup_kind = m->cgroup_kind,
        .cgroup_fds = m->cgroup_fds,
        .proc_fd = ZYGOTE_PROC_FD,
        .base_as_bytes = base_as_bytes,
        .filter = filters[m->flags & BOX_NETWORK ? FILTER_PART_LAST_NETWORK : FILTER_PART_LAST],
        .telling_filter =
            filters[m->flags & BOX_NETWORK ? FILTER_PART_TELL_NETWORK : FILTER_PART_TELL],
    };
    books->reply.spawned = (struct wire_spawned){.box = m->box, .error = EPROTO};
    bool network = m->flags & BOX_NETWORK;
    int out[1 + WIRE_NET_FDS], out_count = 0, pidfd = -1; // the pidfd, the broker's sockets

    if (m->cgroup_fds <= BOX_CGROUP_FDS_MAX && count == 3 + m->cgroup_fds &&
        m->net_slot < WIRE_NET_SLOTS && !books->by_slot[m->net_slot].pid) {
        plan.control_fd = fds[0];
        plan.stdout_fd = fds[1];
        plan.stderr_fd = fds[2];
        memcpy(plan.cgroup_fd, fds + 3, sizeof(int) * m->cgroup_fds);
        pid_t pid = 0;
        int r = load_filter(m->flags);
        if (r == 0)
            r = enter_namespaces(m, out + 1);
        if (r == 0) {
            out_count = network ? WIRE_NET_FDS : 0;
            r = clone_box(&plan, hooks, &pid, &pidfd);
        }
        if (r == 1)
            return 1;
        if (network)
            net_leave(); // or it would outlive its box, in us
        books->reply.spawned.error = -r;
        if (r == 0)
            child_add(&books->by_slot[m->net_slot], pid, m->box);
    }
    // The answer before the descriptors: when no box was made their end is the first thing that the
    // keeper would see, and it says less.
    out[0] = pidfd;
    int r = wire_send(ZYGOTE_SOCKET_FD, WIRE_SPAWNED, &books->reply, out,
                      pidfd >= 0 ? 1 + (size_t)out_count : 0);
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
    if (out_count)
        net_close(out + 1);
    fd_close(&pidfd);
    return r;
}

static uint64_t microseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static int report_exits(void)
{
    int status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        struct child *c = child_take(pid);
        if (!c)
            continue; // a helper that a preload started and that was handed to us
        books->reply.exited = (struct wire_exited){
            .box = c->box,
            .status = status,
            .cpu_user_us = microseconds(usage.ru_utime),
            .cpu_system_us = microseconds(usage.ru_stime),
            .max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024,
        };
        c->pid = 0;
        int r = wire_send(ZYGOTE_SOCKET_FD, WIRE_EXITED, &books->reply, NULL, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

// Returns 1 in a new box, 0 when there was a message, -EPIPE when the keeper is gone.
static int handle_message(const struct spawn_hooks *hooks)
{
    union wire_message *m = &books->order;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    int r = wire_recv(ZYGOTE_SOCKET_FD, m, fds, ARRAY_LEN(fds), &count);
    if (r <= 0)
        return r ? r : -EPIPE;
    if (m->h.type == WIRE_SPAWN)
        return handle_spawn(&m->spawn, fds, count, hooks);
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
    return 0;
}

int spawn_ready(const char *report, unsigned length)
{
    union wire_message m;
    if (length > WIRE_REPORT_MAX)
        return -EMSGSIZE;
    m.ready.report_length = length;
    memcpy(m.ready.report, report, length);
    return wire_send(ZYGOTE_SOCKET_FD, WIRE_ZYGOTE_READY, &m, NULL, 0);
}

static int rights_of(const struct mapping *m)
{
    return (m->mode[0] == 'r' ? PROT_READ : 0) | (m->mode[1] == 'w' ? PROT_WRITE : 0) |
           (m->mode[2] == 'x' ? PROT_EXEC : 0);
}

// SECURITY: also what is read-only for now, if the file was open for writing: a box could change that.
static bool is_shared(const struct mapping *m)
{
    void *start = (void *)m->start;
    return m->mode[3] == 's' && (m->mode[1] == 'w' || mprotect(start, m->end - m->start,
                                                               rights_of(m) | PROT_WRITE) == 0);
}

// SECURITY: what the zygote has mapped to share with others, all boxes would share: one could write what another
// reads.  A preload may have made such memory (a value or a lock of multiprocessing); it stays, as a copy of its own.
static int make_private(const struct mapping *m)
{
    const size_t length = m->end - m->start;
    char *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -errno;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < length; at += page) { // behind the end of a file nothing can be read
        struct iovec to = {copy + at, page}, from = {(char *)m->start + at, page};
        (void)process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    }
    if (mprotect(copy, length, rights_of(m)) < 0 ||
        mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)m->start) == MAP_FAILED)
        return -errno;
    return 0;
}

static int make_all_private(void)
{
    enum { SHARED_MAX = 256 }; // of one zygote; with more something is wrong
    for (int i = 0; i < SHARED_MAX; i++) {
        struct maps maps;
        struct mapping m, found = {0};
        int r = maps_open_at(&maps, ZYGOTE_PROC_FD);
        if (r < 0)
            return r;
        while (maps_next(&maps, &m))
            if (!found.end && is_shared(&m))
                found = m;
        if (maps.failed)
            return -EIO;
        if (!found.end)
            return 0;
        r = make_private(&found);
        if (r < 0)
            return r;
    }
    return -E2BIG;
}

static int open_books(void)
{
    void *room =
        mmap(NULL, sizeof *books, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || madvise(room, sizeof *books, MADV_DONTFORK) < 0)
        return -errno;
    books = room;
    return 0;
}

int spawn_serve(const struct spawn_hooks *hooks, bool single)
{
    int r = open_books();
    if (r == 0)
        books->single = single;
    if (r == 0)
        r = make_all_private();
    // What preloads wrote while they were imported; boxes cover it, and need not copy the mount.
    if (r == 0 && umount2(JAIL_TMP, MNT_DETACH) < 0)
        r = -errno;
    if (r == 0)
        r = box_limit_all();
    if (r == 0)
        r = read_filter();
    if (r < 0)
        return r;
    r = measure_address_space();
    if (r < 0)
        return r;
    // Capabilities stay when the effective uid becomes a slot's and goes back.
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;

    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &chld, NULL) < 0)
        return -errno;
    int signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return -errno;

    for (;;) {
        struct pollfd p[2] = {{.fd = ZYGOTE_SOCKET_FD, .events = POLLIN},
                              {.fd = signals, .events = POLLIN}};
        // Where boxes are made one after the other, those that end are seen when the next is made: to be woken for each
        // would cost more than all else about its end.
        int n = poll(p, 1, LINGER_MS);
        if (n == 0)
            n = poll(p, 2, -1);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (p[0].revents) {
            r = handle_message(hooks);
            if (r == 1)
                return 1;
            if (r < 0)
                return r == -EPIPE || r == -ECONNRESET ? 0 : r;
        }
        struct signalfd_siginfo info;
        if (read(signals, &info, sizeof info) > 0) // one SIGCHLD may stand for many exits
            r = report_exits();
        if (r < 0)
            return r == -EPIPE ? 0 : r;
    }
}
