// SPDX-License-Identifier: Apache-2.0
//
// spawn: see spawn.h.

#include "box/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/maps.h"
#include "box/enter.h"
#include "box/jail.h"
#include "box/net.h"
#include "box/spawn_message.h"
#include "box/stem.h"
#include "wire/wire.h"

// Which box a pid is; a hash by pid, so that an exit costs the same with 10 boxes and with 10,000.
enum { CHILD_BUCKETS = 1024, LINGER_MS = 1 };

struct child {
    pid_t pid;
    uint64_t box;
    struct child *next;
};

// Of a 64-bit argument, in bytes: the kernel looks at the low half only.
enum { LOW_HALF = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4 };

// What the zygote writes to for each box.  Forks leave this memory out: else the zygote's next
// write to each page that it shares with a new box would copy that page.  A box has none of it.
static struct bookkeeping {
    struct child by_slot[WIRE_SLOTS]; // one for each slot, which has one box at a time
    struct child *children[CHILD_BUCKETS];
    union wire_message request, reply;
    bool filter_loaded, single;
    bool own_given; // a box has the zygote's first namespaces
} * bookkeeping;

static void child_add(struct child *c, pid_t pid, uint64_t box)
{
    struct child **bucket = &bookkeeping->children[(unsigned)pid % CHILD_BUCKETS];
    *c = (struct child){.pid = pid, .box = box, .next = *bucket};
    *bucket = c;
}

static struct child *child_take(pid_t pid)
{
    for (struct child **p = &bookkeeping->children[(unsigned)pid % CHILD_BUCKETS]; *p;
         p = &(*p)->next)
        if ((*p)->pid == pid) {
            struct child *found = *p;
            *p = found->next;
            return found;
        }
    return NULL;
}

// SECURITY: a socket in a shared folder leads to a program of the user, and a read-only mount does
// not keep a box from connecting to it; nor do the ids where boxes have the caller's.  Only an
// AF_UNIX socket that is not connected can take an address, so boxes that see such folders get
// connected pairs only.  Code could close the other end or bind its own: it stays connected.
static int forbid_unix_addresses(void)
{
    enum { TYPE = 0xf }; // the other bits are flags
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + (i)*8 + LOW_HALF)
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(0)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 5, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
#undef ARGUMENT
    const struct sock_fprog program = {ARRAY_LEN(code), code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

// Before the first box: the zygote itself does nothing that these forbid.
static int load_filter(uint32_t box_flags)
{
    if (bookkeeping->filter_loaded || (box_flags & BOX_WITHOUT_SECCOMP))
        return 0;
    int r = box_flags & BOX_SHARES ? forbid_unix_addresses() : 0;
    if (r < 0)
        return r;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, spawn_message_first_filter(), 0, 0) < 0)
        return -errno;
    bookkeeping->filter_loaded = true;
    return 0;
}

// The zygote takes the ids of the slot for the moment of the clone: so the slot owns the new user
// namespace and the child may write its own map.  Raw calls, because libc's wrappers would
// synchronise threads.
static int become_slot(uint32_t slot)
{
    if (syscall(SYS_setresgid, -1, slot, -1) < 0 || syscall(SYS_setresuid, -1, slot, -1) < 0)
        return -errno;
    return 0;
}

// Network and ipc namespace of a slot, or of a box that has no stem.  The kernel takes long to make
// and to end them, so a slot keeps its own (box/stem.h).
// SECURITY: they belong to the zygote's user namespace: a process in them has no right over them,
// even with all capabilities of its own.  A box with network gets a new one: what sockets leave
// behind (waiting connections, bound addresses) would meet the next box, and the broker's sockets
// still listen.  A failure here makes no box.  In which namespace the zygote is then does not
// matter: the next box repeats all of this.
static int enter_namespaces(uint32_t flags, int *ret_net_fds)
{
    // SECURITY: the first box of a zygote for one run gets the zygote's own namespaces: no other
    // box was or will be in them.  Making and ending a network namespace takes as long as all the
    // rest of a box.  They are still created here: a process that may not make one fails with the
    // name of this layer.
    bool own = bookkeeping->single && !bookkeeping->own_given;
    const bool network = flags & BOX_NETWORK;
    enum net_step step = NET_NAMESPACE;
    bookkeeping->own_given = true;
    int r = unshare(own || network ? 0 : CLONE_NEWNET) < 0 ? -errno : 0;
    if (r == 0) {
        step = NET_IPC;
        r = unshare(own ? 0 : CLONE_NEWIPC) < 0 ? -errno : 0;
    }
    // This may bring up lo in the zygote's own namespace (`own`); such a zygote makes one box only.
    if (r == 0 && !network && flags & BOX_LOOPBACK)
        r = net_loopback(ZYGOTE_PROC_FD, !own, &step);
    if (r == 0 && network)
        r = net_enter(ZYGOTE_PROC_FD, ret_net_fds, &step); // last, because it opens descriptors
    if (r < 0)
        bookkeeping->reply.spawned.net = 1 + step;
    return r;
}

// Clones with the slot's ids and the interpreter's hooks around a fork.  Returns 1 in the child.
static int clone_for_slot(const struct box_plan *plan, uint64_t flags,
                          const struct spawn_hooks *hooks, pid_t *ret_pid, int *ret_pidfd)
{
    hooks->before();
    int r = plan->uid_slot ? become_slot(plan->uid_slot) : 0;
    long pid = r < 0 ? r : box_clone(plan, flags, ret_pidfd);
    if (pid == 0)
        return 1;
    // SECURITY: a zygote that could not take its own ids back must not go on with a box's.
    if (plan->uid_slot && become_slot(0) < 0)
        abort();
    hooks->after_in_zygote();
    *ret_pid = (pid_t)pid;
    return pid < 0 ? (int)pid : 0;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

// Makes the stem of a slot, with the plan of its first box, whose outcome the stem reports itself.
static int make_stem(const struct box_plan *plan, int sock, const struct spawn_hooks *hooks)
{
    pid_t pid;
    int r = stem_may_make(plan->flags) ? load_filter(plan->flags) : -EPROTO;
    if (r == 0)
        r = enter_namespaces(plan->flags, NULL);
    if (r == 0)
        r = clone_for_slot(plan, BOX_CLONE_SLOT, hooks, &pid, NULL);
    return r == 1 ? stem_serve(plan, sock) : r;
}

// Makes a box without a stem.  ret_fds: the pidfd and the broker's sockets.
static int make_box(const struct box_plan *plan, const struct spawn_hooks *hooks, int *ret_fds,
                    size_t *ret_count)
{
    const bool network = plan->flags & BOX_NETWORK;
    pid_t pid;
    int r = bookkeeping->by_slot[plan->slot].pid ? -EPROTO : load_filter(plan->flags);
    if (r == 0)
        r = enter_namespaces(plan->flags, ret_fds + 1);
    if (r < 0) {
        if (network)
            net_leave();
        return r;
    }
    r = clone_for_slot(plan, BOX_CLONE_SLOT | box_clone_flags(plan->flags), hooks, &pid, ret_fds);
    if (r == 1) {
        box_settle(plan);
        box_enter(plan);
        return 1;
    }
    if (network)
        net_leave(); // else the zygote would keep the namespace alive
    if (r == 0) {
        child_add(&bookkeeping->by_slot[plan->slot], pid, plan->box);
        *ret_count = network ? 1 + WIRE_NET_FDS : 1;
    } else if (network) {
        net_close(ret_fds + 1);
    }
    return r;
}

// Returns 1 in the new box, 0 in the zygote, or a negative errno when the keeper cannot be reached.
static int handle_spawn(const struct wire_spawn *m, const int *fds, size_t count,
                        const struct spawn_hooks *hooks)
{
    struct box_plan plan;
    int out[1 + WIRE_NET_FDS];
    size_t out_count = 0;
    bookkeeping->reply.spawned = (struct wire_spawned){.box = m->box};
    int r = spawn_message_plan(m, fds, count, &plan);
    if (r == 0)
        r = m->stem ? make_stem(&plan, fds[count - 1], hooks)
                    : make_box(&plan, hooks, out, &out_count);
    if (r == 1)
        return 1;
    bookkeeping->reply.spawned.error = -r;
    // Answer before closing the descriptors: when no box was made the keeper would otherwise see
    // their end first, which says less.
    r = m->stem && r == 0
            ? 0
            : wire_send(ZYGOTE_SOCKET_FD, WIRE_SPAWNED, &bookkeeping->reply, out, out_count);
    close_all(fds, count);
    close_all(out, out_count);
    return r;
}

static int report_exits(void)
{
    int status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        struct child *c = child_take(pid);
        if (!c)
            continue; // a stem, or a process that a preload started and the zygote inherited
        spawn_message_exited(c->box, status, &usage, &bookkeeping->reply.exited);
        c->pid = 0;
        int r = wire_send(ZYGOTE_SOCKET_FD, WIRE_EXITED, &bookkeeping->reply, NULL, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

// Returns 1 in a new box, 0 when there was a message, -EPIPE when the keeper is gone.
static int handle_message(const struct spawn_hooks *hooks)
{
    union wire_message *m = &bookkeeping->request;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    int r = wire_recv(ZYGOTE_SOCKET_FD, m, fds, ARRAY_LEN(fds), &count);
    if (r <= 0)
        return r ? r : -EPIPE;
    if (m->h.type == WIRE_SPAWN)
        return handle_spawn(&m->spawn, fds, count, hooks);
    close_all(fds, count);
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

// SECURITY: also read-only mappings, if the file was open for writing: a box could make them
// writable.
static bool is_shared(const struct mapping *m)
{
    void *start = (void *)m->start;
    return m->mode[3] == 's' && (m->mode[1] == 'w' || mprotect(start, m->end - m->start,
                                                               rights_of(m) | PROT_WRITE) == 0);
}

// SECURITY: all boxes would share what the zygote has mapped as shared: one could write what
// another reads.  A preload may have made such memory (a value or a lock of multiprocessing): each
// box gets a private copy of it.
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

int spawn_serve(const struct spawn_hooks *hooks, bool single)
{
    bookkeeping = spawn_message_bookkeeping(sizeof *bookkeeping);
    int r = bookkeeping ? 0 : -errno;
    if (r == 0)
        bookkeeping->single = single;
    if (r == 0)
        r = make_all_private();
    // Files that preloads wrote while they were imported.  Boxes cover this mount and need not copy
    // it.
    if (r == 0 && umount2(JAIL_TMP, MNT_DETACH) < 0)
        r = -errno;
    if (r == 0)
        r = box_limit_all();
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
        // Where boxes are made one after the other, reap those that ended when the next is made: a
        // wakeup for each would cost more than all else about its end.
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
