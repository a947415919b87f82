// SPDX-License-Identifier: Apache-2.0
//
// filter: see filter.h.  Runs in the keeper, before any box exists, on nothing but constant tables.
//
// Order inside the program: a foreign architecture or x32 kills.  A last half need not ask, because
// the first half has; it begins with the memory limit of single allocations.  Then comes a balanced
// tree over ranges of system call numbers, whose leaves are an action or an argument check.  All
// argument comparisons look at the low 32 bits only, because the kernel does.
//
// Of two filters the strictest answer counts (kill, errno, notify, allow), of equal ones the
// younger's.

#include "box/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/falloc.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit architecture and check the system call table before running boxes here"
#endif

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#include "box/filter_rules.h"

enum action { ACTION_ALLOW, ACTION_EPERM, ACTION_ENOSYS, ACTION_IGNORE, ACTION_CHECK, ACTION_TOLD };

static const struct row {
    const char *name;
    enum action action;
    enum rule rule;
    int nr; // -1: ask libseccomp
    bool told;
} policy[] = {
#define ALLOW(name) {#name, ACTION_ALLOW, RULE_NONE, -1, false},
#define DENY(name) {#name, ACTION_EPERM, RULE_NONE, -1, false},
#define HIDE(name) {#name, ACTION_ENOSYS, RULE_NONE, -1, false},
#define IGNORE(name) {#name, ACTION_IGNORE, RULE_NONE, -1, false},
#define TELL(name) {#name, ACTION_EPERM, RULE_NONE, -1, true},
#define TELL_HIDE(name) {#name, ACTION_ENOSYS, RULE_NONE, -1, true},
#define CHECK(name, rule) {#name, ACTION_CHECK, rule, -1, false},
#define ALLOW_NR(name, nr) {#name, ACTION_ALLOW, RULE_NONE, nr, false},
#define DENY_NR(name, nr) {#name, ACTION_EPERM, RULE_NONE, nr, false},
#define HIDE_NR(name, nr) {#name, ACTION_ENOSYS, RULE_NONE, nr, false},
#define TELL_NR(name, nr) {#name, ACTION_EPERM, RULE_NONE, nr, true},
#include "box/policy.def"
};

// What differs from the table for processes other than a box with cgroups and without network.
static const struct change {
    unsigned kinds; // as bits
    struct row row;
} changes[] = {
#define OF(kind) (1U << FILTER_##kind)
#define SERVER (OF(GATE) | OF(BROKER) | OF(PORTER))
    // Gate, broker and porter handle hostile input: they must not start anything.
    {SERVER, {"execve", ACTION_EPERM, RULE_NONE, -1, false}},
    {SERVER, {"execveat", ACTION_EPERM, RULE_NONE, -1, false}},
    {SERVER, {"fork", ACTION_EPERM, RULE_NONE, -1, false}},
    {SERVER, {"vfork", ACTION_EPERM, RULE_NONE, -1, false}},
    {SERVER, {"clone", ACTION_EPERM, RULE_NONE, -1, false}},
    {SERVER, {"memfd_create", ACTION_EPERM, RULE_NONE, -1, false}},
    // Gate and porter open no connection.  The gate accepts connections on a socket that was opened
    // before.
    {OF(GATE) | OF(PORTER), {"socket", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(GATE) | OF(PORTER), {"connect", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(GATE) | OF(PORTER), {"bind", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(GATE) | OF(PORTER), {"listen", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(BROKER), {"socket", ACTION_CHECK, RULE_SOCKET_BROKER, -1, false}},
    // The porter writes files.  It makes no links and no devices, and waits until files are on the
    // disk.
    {OF(PORTER), {"socketpair", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"accept", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"accept4", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"link", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"linkat", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"symlink", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"symlinkat", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"mknod", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"mknodat", ACTION_EPERM, RULE_NONE, -1, false}},
    {OF(PORTER), {"syncfs", ACTION_ALLOW, RULE_NONE, -1, false}},
    {OF(BOX_WATCHED) | OF(ZYGOTE_WATCHED), {"memfd_create", ACTION_ENOSYS, RULE_NONE, -1, false}},
    {OF(BOX_NETWORK) | OF(LAST_NETWORK) | OF(TELL_NETWORK),
     {"socket", ACTION_CHECK, RULE_SOCKET_NETWORK, -1, false}},
    {OF(LAST_NETWORK4) | OF(TELL_NETWORK4),
     {"socket", ACTION_CHECK, RULE_SOCKET_NETWORK4, -1, false}},
#undef SERVER
#undef OF
};

// What the recipe (enter.c) and the zygote (spawn.c) call and a box may not, or not with every
// argument.
static const char *const setup[] = {
    "clone3",
    "unshare",
    "setns",
    "mount",
    "prctl",
    "socket",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "seccomp",
};

static const struct row allowed = {"", ACTION_ALLOW, RULE_NONE, -1, false};
static const struct row told = {"", ACTION_TOLD, RULE_NONE, -1, true};

static bool is_setup(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(setup); i++)
        if (strcmp(setup[i], name) == 0)
            return true;
    return false;
}

static bool is_last(enum filter_kind kind)
{
    return kind >= FILTER_LAST;
}

static bool tells(enum filter_kind kind)
{
    return kind >= FILTER_TELL;
}

static bool is_of_box(enum filter_kind kind)
{
    return kind < FILTER_GATE || kind >= FILTER_ZYGOTE;
}

static bool rule_is_told(enum rule rule)
{
    for (size_t i = 0; i < CHECKS_MAX && rules[rule][i].op != CHECK_END; i++)
        if (rules[rule][i].told)
            return true;
    return false;
}

// Does the last half decide it?  Calls whose denial is reported must be decided there: the kernel
// prefers an errno of the first half to a notification of the last.
static bool is_late(const struct row *row)
{
    return row->told || is_setup(row->name) ||
           (row->action == ACTION_CHECK && rule_is_told(row->rule));
}

// It never reaches the kernel, whatever its arguments are.
static bool is_refused(const struct row *row)
{
    return row->action == ACTION_EPERM || row->action == ACTION_ENOSYS ||
           row->action == ACTION_IGNORE;
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

// The number on this architecture, cached: libseccomp searches all of its names each time.
static int number_of(size_t i)
{
    static int numbers[ARRAY_LEN(policy)]; // as they are and one more: 0 is not asked for yet
    if (!numbers[i])
        numbers[i] =
            (policy[i].nr >= 0 ? policy[i].nr : seccomp_syscall_resolve_name(policy[i].name)) + 1;
    return numbers[i] - 1;
}

// The table with numbers of this architecture, sorted; calls that do not exist here are left out.
static size_t resolve(enum filter_kind kind, struct call *calls)
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(policy); i++) {
        const struct row *row = &policy[i];
        for (size_t k = 0; k < ARRAY_LEN(changes); k++)
            if ((changes[k].kinds & 1U << kind) && strcmp(changes[k].row.name, row->name) == 0)
                row = &changes[k].row;
        const int nr = number_of(i);
        if (nr < 0 || (tells(kind) && !is_late(row) && is_refused(row)))
            continue; // this architecture lacks it; or the first half refuses it, and this half
                      // does not matter
        if (kind >= FILTER_ZYGOTE && is_late(row) != is_last(kind))
            row = &allowed;
        else if (tells(kind) && row->told)
            row = &told;
        calls[n++] = (struct call){nr, row};
    }
    qsort(calls, n, sizeof *calls, call_compare);
    return n;
}

// Neighbouring numbers with the same plain action become one range.  Numbers without a row get
// `other`: ENOSYS in a whole filter and in the first half.  The last half allows them, because the
// first half has refused them already.  In a half that reports denials such a gap joins a reported
// range before it, because the first half's errno outranks the report.  It never joins an errno: of
// two errnos the younger filter's counts.  Fewer ranges are fewer instructions, and the kernel
// translates them anew for every box.
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

static size_t ranges_gap(struct range *r, size_t n, uint32_t first, enum filter_kind kind)
{
    bool joins = tells(kind) && n && r[n - 1].action == ACTION_TOLD;
    return joins ? n
                 : ranges_add(r, n, first, is_last(kind) ? ACTION_ALLOW : ACTION_ENOSYS, RULE_NONE);
}

static size_t ranges_make(struct range *r, const struct call *calls, size_t count,
                          enum filter_kind kind)
{
    size_t n = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t nr = (uint32_t)calls[i].nr;
        if (nr > next)
            n = ranges_gap(r, n, next, kind);
        n = ranges_add(r, n, nr, calls[i].row->action, calls[i].row->rule);
        next = nr + 1;
    }
    return ranges_gap(r, n, next, kind);
}

// ---- emitting -----------------------------------------------------------------------------------

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

// SECURITY: the server's own processes really make the call: a store that has synced must be on the
// disk.
static void emit_ignored(struct filter *f)
{
    emit_return(f, f->ignores ? SECCOMP_RET_ERRNO | IGNORED : SECCOMP_RET_ALLOW);
}

static void emit_refusal(struct filter *f, const struct check *c)
{
    if (f->tells && c->told)
        emit_return(f, SECCOMP_RET_USER_NOTIF);
    else if (c->errnum == IGNORED)
        emit_ignored(f);
    else
        emit_errno(f, c->errnum);
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
        emit_refusal(f, c);
        return;
    case CHECK_NONE_OF: // a hit jumps to the return, the last miss jumps over it
        for (unsigned i = 0; i < c->count; i++)
            emit(f, BPF_JMP | BPF_JEQ | BPF_K, c->values[i], (uint8_t)(c->count - 1 - i),
                 i + 1 == c->count);
        emit_refusal(f, c);
        return;
    case CHECK_NO_BITS:
        emit(f, BPF_JMP | BPF_JSET | BPF_K, c->values[0], 0, 1);
        emit_refusal(f, c);
        return;
    case CHECK_AT_MOST:
        emit(f, BPF_JMP | BPF_JGT | BPF_K, c->values[0], 0, 1);
        emit_refusal(f, c);
        return;
    case CHECK_NEVER: emit_refusal(f, c); return;
    }
}

// The same, but only where its condition is met.  A check is far shorter than the 255 instructions
// that a conditional jump reaches.
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
    case ACTION_IGNORE: emit_ignored(f); return;
    case ACTION_TOLD: emit_return(f, SECCOMP_RET_USER_NOTIF); return;
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

// Falls through when the 64-bit argument is at most the memory limit of the box.
static void emit_limit(struct filter *f, unsigned argument)
{
    const uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + argument * 8);
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    emit(f, BPF_LD | BPF_W | BPF_ABS, at + (little ? 4 : 0), 0, 0);
    emit(f, BPF_JMP | BPF_JGT | BPF_K, FILTER_LIMIT_HIGH, 3, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, FILTER_LIMIT_HIGH, 0, 3);
    emit(f, BPF_LD | BPF_W | BPF_ABS, at + (little ? 0 : 4), 0, 0);
    emit(f, BPF_JMP | BPF_JGT | BPF_K, FILTER_LIMIT_LOW, 0, 1);
    emit_errno(f, ENOMEM);
}

static void emit_skip_unless(struct filter *f, uint16_t code, uint32_t k, size_t skips[], size_t *n)
{
    skips[(*n)++] = f->count;
    emit(f, code, k, 0, 0);
}

static void end_skips(struct filter *f, const size_t skips[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (skips[i] < FILTER_MAX)
            f->code[skips[i]].jf = (uint8_t)(f->count - skips[i] - 1);
}

// One allocation of more than all memory of the box cannot succeed.  ENOMEM, which Python raises as
// MemoryError, is better than the end of the box at the first touch.  Only what malloc() does:
// private memory to write to that is not marked as a mere reservation, and its growth.  This is no
// wall; the control group is.  The number was loaded, and is loaded when this falls through.
static void emit_memory(struct filter *f)
{
    const uint32_t kind = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t skips[3], n = 0;
    emit_skip_unless(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, skips, &n);
    emit_load(f, 2, 0);
    emit_skip_unless(f, BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, skips, &n);
    emit_load(f, 3, kind);
    emit_skip_unless(f, BPF_JMP | BPF_JEQ | BPF_K, MAP_PRIVATE | MAP_ANONYMOUS, skips, &n);
    emit_limit(f, 1);
    end_skips(f, skips, n);
    emit(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    n = 0;
    emit_skip_unless(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, skips, &n);
    emit_limit(f, 2);
    end_skips(f, skips, n);
    emit(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static void emit_abi(struct filter *f)
{
    // SECURITY: another ABI has other numbers; i386 has socketcall, whose family no filter sees.
    emit(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    emit_return(f, SECCOMP_RET_KILL_PROCESS);
}

#ifdef __x86_64__
// After the number was loaded.
static void emit_x32(struct filter *f)
{
    // SECURITY: x32 shares the audit architecture; its numbers carry bit 30.  -1 is spared: it is
    // what a tracer writes to skip a call, and it gets ENOSYS like every unknown number.
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 2, 0);
    emit(f, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    emit_return(f, SECCOMP_RET_KILL_PROCESS);
}
#endif

int filter_build(enum filter_kind kind, struct filter *ret, struct err *e)
{
    struct call calls[ARRAY_LEN(policy)];
    struct range ranges[2 * ARRAY_LEN(policy) + 1];
    size_t n = ranges_make(ranges, calls, resolve(kind, calls), kind);

    ret->count = 0;
    ret->tells = tells(kind);
    ret->ignores = is_of_box(kind);
    // The last halves need not ask again: of two filters the kernel takes the stricter answer, and
    // the first one's is to kill, which nothing outranks.
    if (!is_last(kind))
        emit_abi(ret);
    emit(ret, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
#ifdef __x86_64__
    if (!is_last(kind))
        emit_x32(ret);
#endif
    if (is_last(kind))
        emit_memory(ret);
    emit_tree(ret, ranges, n);
    if (ret->count > FILTER_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL,
                       "the system call filter has %zu instructions, at most %d fit", ret->count,
                       FILTER_MAX);
    filter_shorten(ret);
    return 0;
}

static const char *errno_name(int errnum)
{
    static const struct {
        int errnum;
        const char *name;
    } names[] = {
#define NAME(errnum) {errnum, #errnum}
        NAME(EPERM),           NAME(ENOTTY),          NAME(EAFNOSUPPORT),
        NAME(ESOCKTNOSUPPORT), NAME(EPROTONOSUPPORT), NAME(ENOPROTOOPT),
        NAME(EOPNOTSUPP),      NAME(EINVAL),          {IGNORED, "ignored"},
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
        [CHECK_NEVER] = "never",
    };
    char mask[16] = "";
    if (c->mask)
        snprintf(mask, sizeof mask, "&%#x", c->mask);
    fprintf(out, "arg%u%s %s", c->argument, mask, words[c->op]);
    for (unsigned i = 0; i < c->count; i++)
        fprintf(out, "%s%#" PRIx32, i ? "," : " ", c->values[i]);
    fprintf(out, " else %s%s", errno_name(c->errnum), c->told ? ", told" : "");
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
        [ACTION_ALLOW] = "allow",         [ACTION_EPERM] = "errno:EPERM",
        [ACTION_ENOSYS] = "errno:ENOSYS", [ACTION_CHECK] = "args",
        [ACTION_IGNORE] = "ignore",       [ACTION_TOLD] = "told", // of halves only
    };
    struct call calls[ARRAY_LEN(policy)];
    size_t n = resolve(kind, calls);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "{\"nr\": %d, \"name\": \"%s\", \"action\": \"%s\"", calls[i].nr,
                calls[i].row->name, actions[calls[i].row->action]);
        if (calls[i].row->action == ACTION_CHECK)
            dump_checks(out, calls[i].row->rule);
        if (calls[i].row->told)
            fputs(", \"told\": true", out);
        fputs("}\n", out);
    }
}

// ---- what is answered ---------------------------------------------------------------------------

static bool holds(const struct check *c, const uint64_t args[6])
{
    uint32_t value = (uint32_t)args[c->argument], when = (uint32_t)args[c->when.argument];
    bool among = false;
    if (c->when.set && (c->when.mask ? when & c->when.mask : when) != c->when.value)
        return true;
    value &= c->mask ? c->mask : ~0U;
    for (unsigned i = 0; i < c->count; i++)
        among |= value == c->values[i];
    switch (c->op) {
    case CHECK_END: return true;
    case CHECK_ANY_OF: return among;
    case CHECK_NONE_OF: return !among;
    case CHECK_NO_BITS: return !(value & c->values[0]);
    case CHECK_AT_MOST: return value <= c->values[0];
    case CHECK_NEVER: return false;
    }
    return false;
}

static const struct row *find_row(enum filter_kind kind, int nr)
{
    static struct call calls[FILTER_KIND_MAX][ARRAY_LEN(policy)];
    static size_t counts[FILTER_KIND_MAX];
    if (kind >= FILTER_KIND_MAX)
        return NULL;
    if (!counts[kind])
        counts[kind] = resolve(kind, calls[kind]);
    const struct call key = {.nr = nr},
                      *found = bsearch(&key, calls[kind], counts[kind], sizeof key, call_compare);
    return found ? found->row : NULL;
}

// SECURITY: this never returns 0. A call that no filter reports gets EPERM.
int filter_errno(enum filter_kind kind, int nr, const uint64_t args[6])
{
    const struct row *row = find_row(kind, nr);
    if (row && row->action == ACTION_ENOSYS)
        return ENOSYS;
    for (size_t i = 0; row && row->action == ACTION_CHECK && i < CHECKS_MAX; i++)
        if (!holds(&rules[row->rule][i], args) && rules[row->rule][i].errnum != IGNORED)
            return rules[row->rule][i].errnum;
    return EPERM;
}

const char *filter_name(int nr)
{
    const struct row *row = find_row(FILTER_BOX, nr);
    return row ? row->name : NULL;
}
