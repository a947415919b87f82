// SPDX-License-Identifier: Apache-2.0
//
// filter: see filter.h.  Runs in the keeper, before any box exists, on nothing but constant tables.
//
// Order inside the program: foreign architecture and x32 die; then a balanced tree over ranges of
// system call numbers whose leaves are an action or an argument check.  All argument comparisons
// look at the low 32 bits only, because that is what the kernel looks at.

#include "box/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <termios.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit architecture and check the system call table before running boxes here"
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

enum check_op {
    CHECK_END,     // no further check
    CHECK_ANY_OF,  // the argument must be one of the values
    CHECK_NONE_OF, // the argument must be none of the values
    CHECK_NO_BITS, // none of the bits in values[0] may be set
    CHECK_AT_MOST, // unsigned: at most values[0]
};

struct check {
    enum check_op op;
    unsigned argument;
    int errnum;    // what the caller gets when the check fails
    unsigned mask; // 0: all 32 bits
    unsigned count;
    uint32_t values[14];
    struct { // the check holds only for calls where another argument has this value
        bool set;
        unsigned argument;
        unsigned mask;
        uint32_t value;
    } when;
};

enum { CHECKS_MAX = 5 };

enum rule {
    RULE_NONE,
    RULE_CLONE,
    RULE_EXECVEAT,
    RULE_PRCTL,
    RULE_PERSONALITY,
    RULE_FCNTL,
    RULE_IOCTL,
    RULE_SOCKET,
    RULE_SOCKET_NETWORK,
    RULE_SOCKET_NETWORK4,
    RULE_SOCKET_BROKER,
    RULE_SOCKETPAIR,
    RULE_SETPRIORITY,
    RULE_SETSOCKOPT,
    RULE_FLAGS_2,
    RULE_FLAGS_3,
    RULE_MAX
};

// The type's low four bits are the type, the rest are flags; SOCK_RAW is not for boxes.
enum { TYPE_MASK = 0xf };
#define TYPE_IS(type)                                                                              \
    {                                                                                              \
        true, 1, TYPE_MASK, type                                                                   \
    }
#define LEVEL_IS(level)                                                                            \
    {                                                                                              \
        true, 1, 0, level                                                                          \
    }

// SECURITY: the kernel starts modprobe for a pair of type and protocol that it has not, for everybody who
// asks; and ICMP, SCTP, MPTCP, UDP-Lite are surface that no client needs.
#define CHECK_PROTOCOLS                                                                            \
    {CHECK_ANY_OF, 2, EPROTONOSUPPORT, 0, 2, {0, IPPROTO_TCP}, TYPE_IS(SOCK_STREAM)},              \
    {                                                                                              \
        CHECK_ANY_OF, 2, EPROTONOSUPPORT, 0, 2, {0, IPPROTO_UDP}, TYPE_IS(SOCK_DGRAM)              \
    }

static const struct check rules[RULE_MAX][CHECKS_MAX] = {
    [RULE_CLONE] = {{CHECK_NO_BITS,
                     0,
                     EPERM,
                     0,
                     1,
                     {CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                      CLONE_NEWUTS | CLONE_NEWCGROUP}}},
    // Running a descriptor without a name is how code that was never in the tree would be started.
    // (noexec is no boundary, ctypes can map code; this only removes a convenience of exploits.)
    [RULE_EXECVEAT] = {{CHECK_NO_BITS, 4, EPERM, 0, 1, {AT_EMPTY_PATH}}},
    [RULE_PRCTL] = {{CHECK_ANY_OF,
                     0,
                     EPERM,
                     0,
                     10,
                     {PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE,
                      PR_CAPBSET_READ, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS, PR_SET_VMA,
                      PR_SET_THP_DISABLE}}},
    [RULE_PERSONALITY] = {{CHECK_ANY_OF, 0, EPERM, 0, 2, {0, 0xffffffff}}},
    // Leases and directory notification on shared tree files are channels between boxes.
    [RULE_FCNTL] = {{CHECK_NONE_OF, 1, EPERM, 0, 2, {F_SETLEASE, F_NOTIFY}}},
    [RULE_IOCTL] = {{CHECK_ANY_OF,
                     1,
                     ENOTTY,
                     0,
                     6,
                     {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX}}},
    [RULE_SOCKET] = {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 1, {AF_UNIX}},
                     {CHECK_ANY_OF,
                      1,
                      ESOCKTNOSUPPORT,
                      TYPE_MASK,
                      3,
                      {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}}},
    // What leads anywhere is the namespace's business: this is about which parts of the kernel code can
    // talk to.  Never raw, packet, netlink.
    [RULE_SOCKET_NETWORK] =
        {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 3, {AF_UNIX, AF_INET, AF_INET6}},
         {CHECK_ANY_OF,
          1,
          ESOCKTNOSUPPORT,
          TYPE_MASK,
          3,
          {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}},
         {CHECK_ANY_OF, 0, ESOCKTNOSUPPORT, 0, 1, {AF_UNIX}, TYPE_IS(SOCK_SEQPACKET)},
         CHECK_PROTOCOLS},
    // The same on a kernel without IPv6, which would look for its module each time.
    [RULE_SOCKET_NETWORK4] =
        {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 2, {AF_UNIX, AF_INET}},
         {CHECK_ANY_OF,
          1,
          ESOCKTNOSUPPORT,
          TYPE_MASK,
          3,
          {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}},
         {CHECK_ANY_OF, 0, ESOCKTNOSUPPORT, 0, 1, {AF_UNIX}, TYPE_IS(SOCK_SEQPACKET)},
         CHECK_PROTOCOLS},
    [RULE_SOCKET_BROKER] =
        {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 2, {AF_INET, AF_INET6}},
         {CHECK_ANY_OF, 1, ESOCKTNOSUPPORT, TYPE_MASK, 2, {SOCK_STREAM, SOCK_DGRAM}},
         CHECK_PROTOCOLS},
    [RULE_SOCKETPAIR] = {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 1, {AF_UNIX}}},
    // Without network only SOL_SOCKET does anything, so that one rule is enough for every kind.
    // SECURITY: no programs on sockets (SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_LOCK_FILTER,
    // SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF), no pinned pages (SO_ZEROCOPY).  Of TCP and IP what
    // clients and servers set; no TCP_ULP, which loads modules and has TLS in the kernel, no TCP_REPAIR, no
    // multicast, no IPsec, no options in packets.  No SOL_UDP: its encapsulations lead to IPsec.
    [RULE_SETSOCKOPT] =
        {{CHECK_ANY_OF, 1, ENOPROTOOPT, 0, 4, {SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6}},
         {CHECK_NONE_OF, 2, EPERM, 0, 7, {26, 27, 44, 50, 51, 52, 60}, LEVEL_IS(SOL_SOCKET)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          12,
          {TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
           TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_USER_TIMEOUT, TCP_NOTSENT_LOWAT},
          LEVEL_IS(IPPROTO_TCP)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          10,
          {IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL, IP_RECVTOS,
           IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_TTL, IP_MULTICAST_LOOP},
          LEVEL_IS(IPPROTO_IP)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          9,
          {IPV6_UNICAST_HOPS, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP, IPV6_MTU_DISCOVER,
           IPV6_RECVERR, IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_RECVTCLASS, IPV6_TCLASS},
          LEVEL_IS(IPPROTO_IPV6)}},
    [RULE_FLAGS_2] = {{CHECK_NO_BITS, 2, EOPNOTSUPP, 0, 1, {MSG_OOB}}},
    [RULE_FLAGS_3] = {{CHECK_NO_BITS, 3, EOPNOTSUPP, 0, 1, {MSG_OOB}}},
    [RULE_SETPRIORITY] = {{CHECK_AT_MOST, 2, EPERM, 0, 1, {19}}},
};

enum action { ACTION_ALLOW, ACTION_EPERM, ACTION_ENOSYS, ACTION_CHECK };

static const struct row {
    const char *name;
    enum action action;
    enum rule rule;
    int nr; // -1: ask libseccomp
} policy[] = {
#define ALLOW(name) {#name, ACTION_ALLOW, RULE_NONE, -1},
#define DENY(name) {#name, ACTION_EPERM, RULE_NONE, -1},
#define HIDE(name) {#name, ACTION_ENOSYS, RULE_NONE, -1},
#define CHECK(name, rule) {#name, ACTION_CHECK, rule, -1},
#define ALLOW_NR(name, nr) {#name, ACTION_ALLOW, RULE_NONE, nr},
#define DENY_NR(name, nr) {#name, ACTION_EPERM, RULE_NONE, nr},
#define HIDE_NR(name, nr) {#name, ACTION_ENOSYS, RULE_NONE, nr},
#include "box/policy.def"
};

// What differs from the table for processes other than a box with cgroups and without network.
static const struct change {
    enum filter_kind kind;
    struct row row;
} changes[] = {
    // Gate and broker parse what strangers send: they must not start anything.  The gate reaches nobody; it
    // accepts connections, on a socket that was opened before.
    {FILTER_GATE, {"execve", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"execveat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"fork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"vfork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"clone", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"memfd_create", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"socket", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"connect", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"bind", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_GATE, {"listen", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"execve", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"execveat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"fork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"vfork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"clone", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"memfd_create", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_BROKER, {"socket", ACTION_CHECK, RULE_SOCKET_BROKER, -1}},
    // The porter writes files.  It makes nothing that leads elsewhere, and waits until they are on the disk.
    {FILTER_PORTER, {"execve", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"execveat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"fork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"vfork", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"clone", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"memfd_create", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"socket", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"socketpair", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"connect", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"bind", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"listen", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"accept", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"accept4", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"link", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"linkat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"symlink", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"symlinkat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"mknod", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"mknodat", ACTION_EPERM, RULE_NONE, -1}},
    {FILTER_PORTER, {"syncfs", ACTION_ALLOW, RULE_NONE, -1}},
    {FILTER_BOX_WATCHED, {"memfd_create", ACTION_ENOSYS, RULE_NONE, -1}},
    {FILTER_BOX_NETWORK, {"socket", ACTION_CHECK, RULE_SOCKET_NETWORK, -1}},
    {FILTER_LAST_NETWORK4, {"socket", ACTION_CHECK, RULE_SOCKET_NETWORK4, -1}},
};

// What the recipe (enter.c) and the zygote (spawn.c) call and a box may not, or not with every argument.
static const char *const setup[] = {
    "clone3",
    "unshare",
    "setns",
    "mount",
    "prctl",
    "capset",
    "socket",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
};

static const struct row allowed = {"", ACTION_ALLOW, RULE_NONE, -1};

static bool is_setup(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(setup); i++)
        if (strcmp(setup[i], name) == 0)
            return true;
    return false;
}

static bool is_changed_in(enum filter_kind kind, const struct change *c)
{
    return c->kind == kind || (c->kind == FILTER_BOX_WATCHED && kind == FILTER_ZYGOTE_WATCHED) ||
           (c->kind == FILTER_BOX_NETWORK && kind == FILTER_LAST_NETWORK);
}

static bool is_last(enum filter_kind kind)
{
    return kind >= FILTER_LAST;
}

struct call {
    int nr;
    const struct row *row;
};

static int call_compare(const void *a, const void *b)
{
    int x = ((const struct call *)a)->nr, y = ((const struct call *)b)->nr;
    return (x > y) - (x < y);
}

// The table with numbers of this architecture, sorted; calls that do not exist here are left out.
static size_t resolve(enum filter_kind kind, struct call *calls)
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(policy); i++) {
        const struct row *row = &policy[i];
        for (size_t k = 0; k < ARRAY_LEN(changes); k++)
            if (is_changed_in(kind, &changes[k]) && strcmp(changes[k].row.name, row->name) == 0)
                row = &changes[k].row;
        int nr = row->nr >= 0 ? row->nr : seccomp_syscall_resolve_name(row->name);
        if (kind >= FILTER_ZYGOTE && is_setup(row->name) != is_last(kind))
            row = &allowed;
        if (nr >= 0)
            calls[n++] = (struct call){nr, row};
    }
    qsort(calls, n, sizeof *calls, call_compare);
    return n;
}

// Neighbouring numbers with the same plain action become one range; gaps are `other`: ENOSYS, but in
// the last half allowed, because the first half has spoken about them.
struct range {
    uint32_t first; // up to the next range's first
    enum action action;
    enum rule rule;
};

static size_t ranges_add(struct range *r, size_t n, uint32_t first, enum action action,
                         enum rule rule)
{
    if (n && r[n - 1].action == action && action != ACTION_CHECK)
        return n;
    r[n] = (struct range){first, action, rule};
    return n + 1;
}

static size_t ranges_make(struct range *r, const struct call *calls, size_t count,
                          enum action other)
{
    size_t n = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t nr = (uint32_t)calls[i].nr;
        if (nr > next)
            n = ranges_add(r, n, next, other, RULE_NONE);
        n = ranges_add(r, n, nr, calls[i].row->action, calls[i].row->rule);
        next = nr + 1;
    }
    return ranges_add(r, n, next, other, RULE_NONE);
}

// ---- emitting ------------------------------------------------------------------------------------

static void emit(struct filter *f, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    if (f->count < FILTER_MAX)
        f->code[f->count] = (struct sock_filter){code, jt, jf, k};
    f->count++; // past the end: filter_build reports it
}

static void emit_return(struct filter *f, uint32_t value)
{
    emit(f, BPF_RET | BPF_K, value, 0, 0);
}

static void emit_errno(struct filter *f, int errnum)
{
    emit_return(f, SECCOMP_RET_ERRNO | (uint32_t)errnum);
}

static void emit_load(struct filter *f, unsigned argument, unsigned mask)
{
    emit(f, BPF_LD | BPF_W | BPF_ABS,
         (uint32_t)(offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t)), 0, 0);
    if (mask)
        emit(f, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
}

// Falls through when the argument is as it should be; returns the errno otherwise.
static void emit_judgement(struct filter *f, const struct check *c)
{
    emit_load(f, c->argument, c->mask);
    switch (c->op) {
    case CHECK_END: return;
    case CHECK_ANY_OF: // a hit jumps over the remaining values and the return
        for (unsigned i = 0; i < c->count; i++)
            emit(f, BPF_JMP | BPF_JEQ | BPF_K, c->values[i], (uint8_t)(c->count - i), 0);
        emit_errno(f, c->errnum);
        return;
    case CHECK_NONE_OF: // a hit jumps to the return, the last miss jumps over it
        for (unsigned i = 0; i < c->count; i++)
            emit(f, BPF_JMP | BPF_JEQ | BPF_K, c->values[i], (uint8_t)(c->count - 1 - i),
                 i + 1 == c->count);
        emit_errno(f, c->errnum);
        return;
    case CHECK_NO_BITS:
        emit(f, BPF_JMP | BPF_JSET | BPF_K, c->values[0], 0, 1);
        emit_errno(f, c->errnum);
        return;
    case CHECK_AT_MOST:
        emit(f, BPF_JMP | BPF_JGT | BPF_K, c->values[0], 0, 1);
        emit_errno(f, c->errnum);
        return;
    }
}

// The same, but only where its condition is met.  A check is far shorter than the 255 instructions that a
// conditional jump reaches.
static void emit_check(struct filter *f, const struct check *c)
{
    if (!c->when.set) {
        emit_judgement(f, c);
        return;
    }
    emit_load(f, c->when.argument, c->when.mask);
    size_t jump = f->count;
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, c->when.value, 0, 0);
    emit_judgement(f, c);
    if (jump < FILTER_MAX)
        f->code[jump].jf = (uint8_t)(f->count - jump - 1);
}

static void emit_leaf(struct filter *f, const struct range *r)
{
    switch (r->action) {
    case ACTION_ALLOW: emit_return(f, SECCOMP_RET_ALLOW); return;
    case ACTION_EPERM: emit_errno(f, EPERM); return;
    case ACTION_ENOSYS: emit_errno(f, ENOSYS); return;
    case ACTION_CHECK:
        for (size_t i = 0; i < CHECKS_MAX && rules[r->rule][i].op != CHECK_END; i++)
            emit_check(f, &rules[r->rule][i]);
        emit_return(f, SECCOMP_RET_ALLOW);
        return;
    }
}

// A conditional jump reaches 255 instructions, an unconditional one any distance: so "not below the
// pivot" goes through a jump whose target is patched in when the left half is known.
static void emit_tree(struct filter *f, const struct range *r, size_t n)
{
    if (n == 1) {
        emit_leaf(f, r);
        return;
    }
    size_t half = n / 2;
    emit(f, BPF_JMP | BPF_JGE | BPF_K, r[half].first, 0, 1);
    size_t jump = f->count;
    emit(f, BPF_JMP | BPF_JA, 0, 0, 0);
    emit_tree(f, r, half);
    if (jump < FILTER_MAX)
        f->code[jump].k = (uint32_t)(f->count - jump - 1);
    emit_tree(f, r + half, n - half);
}

int filter_build(enum filter_kind kind, struct filter *ret, struct err *e)
{
    struct call calls[ARRAY_LEN(policy)];
    struct range ranges[2 * ARRAY_LEN(policy) + 1];
    size_t n = ranges_make(ranges, calls, resolve(kind, calls),
                           is_last(kind) ? ACTION_ALLOW : ACTION_ENOSYS);

    ret->count = 0;
    // (a) SECURITY: another ABI has other numbers; i386 has socketcall, whose family no filter sees.
    emit(ret, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(ret, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    emit_return(ret, SECCOMP_RET_KILL_PROCESS);
    emit(ret, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
#ifdef __x86_64__
    // (b) SECURITY: x32 shares the audit architecture; its numbers carry bit 30.  -1 is spared: it is
    // what a tracer writes to skip a call, and it gets ENOSYS like every unknown number.
    emit(ret, BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 2, 0);
    emit(ret, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    emit_return(ret, SECCOMP_RET_KILL_PROCESS);
#endif
    emit_tree(ret, ranges, n);
    if (ret->count > FILTER_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL,
                       "the system call filter has %zu instructions, at most %d fit", ret->count,
                       FILTER_MAX);
    return 0;
}

static const char *errno_name(int errnum)
{
    static const struct {
        int errnum;
        const char *name;
    } names[] = {
#define NAME(errnum) {errnum, #errnum}
        NAME(EPERM),           NAME(ENOTTY),      NAME(EAFNOSUPPORT), NAME(ESOCKTNOSUPPORT),
        NAME(EPROTONOSUPPORT), NAME(ENOPROTOOPT), NAME(EOPNOTSUPP),
#undef NAME
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].errnum == errnum)
            return names[i].name;
    return "?";
}

// "arg1&0xf in 1,2,5 else ESOCKTNOSUPPORT": every change of a rule is a visible change of the dump.
static void dump_check(FILE *out, const struct check *c)
{
    static const char *const words[] = {
        [CHECK_END] = "",
        [CHECK_ANY_OF] = "in",
        [CHECK_NONE_OF] = "not in",
        [CHECK_NO_BITS] = "without bits",
        [CHECK_AT_MOST] = "at most",
    };
    char mask[16] = "";
    if (c->mask)
        snprintf(mask, sizeof mask, "&%#x", c->mask);
    fprintf(out, "arg%u%s %s ", c->argument, mask, words[c->op]);
    for (unsigned i = 0; i < c->count; i++)
        fprintf(out, "%s%#" PRIx32, i ? "," : "", c->values[i]);
    fprintf(out, " else %s", errno_name(c->errnum));
    if (c->when.set) {
        mask[0] = '\0';
        if (c->when.mask)
            snprintf(mask, sizeof mask, "&%#x", c->when.mask);
        fprintf(out, " when arg%u%s is %#" PRIx32, c->when.argument, mask, c->when.value);
    }
}

static void dump_checks(FILE *out, enum rule rule)
{
    fputs(", \"checks\": [", out);
    for (size_t i = 0; i < CHECKS_MAX && rules[rule][i].op != CHECK_END; i++) {
        fputs(i ? ", \"" : "\"", out);
        dump_check(out, &rules[rule][i]);
        fputc('"', out);
    }
    fputc(']', out);
}

void filter_dump(FILE *out, enum filter_kind kind)
{
    static const char *const actions[] = {
        [ACTION_ALLOW] = "allow",
        [ACTION_EPERM] = "errno:EPERM",
        [ACTION_ENOSYS] = "errno:ENOSYS",
        [ACTION_CHECK] = "args",
    };
    struct call calls[ARRAY_LEN(policy)];
    size_t n = resolve(kind, calls);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "{\"nr\": %d, \"name\": \"%s\", \"action\": \"%s\"", calls[i].nr,
                calls[i].row->name, actions[calls[i].row->action]);
        if (calls[i].row->action == ACTION_CHECK)
            dump_checks(out, calls[i].row->rule);
        fputs("}\n", out);
    }
}
