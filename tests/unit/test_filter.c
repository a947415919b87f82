// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of box/filter: the emitted program is interpreted here, call by call, and compared
// with what filter_dump() says and with the argument rules, which are written down a second time
// below.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "box/filter.h"
#include "filter_expect.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

enum {
    NR_MAX = 600,
    MAP_FLAGS_ALL = 0x13d87b,  // what mmap may be given, together
    KINDS = FILTER_PORTER + 1, // whole ones
    PROGRAMS = FILTER_KIND_MAX,
    DENIED = SECCOMP_RET_ERRNO | EPERM,
    UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS
};

static struct filter programs[PROGRAMS]; // by enum filter_kind
static struct {
    char name[40], action[24];
    bool told;
} dump[NR_MAX + 1];

// ---- the machine that the kernel has: loads, jumps, and, return ---------------------------------

static uint32_t interpret(const struct filter *f, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0;; pc++) {
        assert_true(pc < f->count);
        const struct sock_filter *i = &f->code[pc];
        bool hit;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(i->k % 4 == 0 && i->k + 4 <= sizeof *data);
            memcpy(&a, (const char *)data + i->k, sizeof a);
            continue;
        case BPF_ALU | BPF_AND | BPF_K: a &= i->k; continue;
        case BPF_RET | BPF_K: return i->k;
        case BPF_JMP | BPF_JA: pc += i->k; continue;
        case BPF_JMP | BPF_JEQ | BPF_K: hit = a == i->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: hit = a >= i->k; break;
        case BPF_JMP | BPF_JGT | BPF_K: hit = a > i->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: hit = (a & i->k) != 0; break;
        default: fail_msg("instruction %zu has the code %#x", pc, i->code); return 0;
        }
        pc += hit ? i->jt : i->jf;
    }
}

// ---- what it should say -------------------------------------------------------------------------

static uint32_t expect(enum filter_kind kind, uint32_t nr, const __u64 *args)
{
    const char *name = nr <= NR_MAX ? dump[nr].name : "";
    const char *action = nr <= NR_MAX ? dump[nr].action : "";
    static const char *const gate_never[] = {"execve", "execveat",     "fork",   "vfork",
                                             "clone",  "memfd_create", "socket", "connect",
                                             "bind",   "listen"};
    static const size_t broker_never = 6; // those that start something
    size_t never = kind == FILTER_GATE     ? ARRAY_LEN(gate_never)
                   : kind == FILTER_BROKER ? broker_never
                                           : 0;
    for (size_t i = 0; i < never; i++)
        if (strcmp(name, gate_never[i]) == 0)
            return DENIED;
    static const char *const porter_never[] = {
        "execve", "execveat", "fork",    "vfork",  "clone",    "memfd_create", "socket",
        "bind",   "connect",  "listen",  "accept", "link",     "socketpair",   "accept4",
        "linkat", "symlink",  "mknodat", "mknod",  "symlinkat"};
    for (size_t i = 0; kind == FILTER_PORTER && i < ARRAY_LEN(porter_never); i++)
        if (strcmp(name, porter_never[i]) == 0)
            return DENIED;
    if (kind == FILTER_PORTER && strcmp(name, "syncfs") == 0)
        return SECCOMP_RET_ALLOW;
    if (kind == FILTER_BOX_WATCHED && strcmp(name, "memfd_create") == 0)
        return UNKNOWN;
    if (strcmp(action, "allow") == 0)
        return SECCOMP_RET_ALLOW;
    if (strcmp(action, "errno:EPERM") == 0)
        return DENIED;
    const uint32_t ignored = kind < FILTER_GATE ? (uint32_t)IGNORED : SECCOMP_RET_ALLOW;
    if (strcmp(action, "ignore") == 0)
        return ignored;
    if (strcmp(action, "args") == 0)
        return expect_ignored(name, args) ? ignored : expect_args(kind, name, args);
    assert_true(action[0] == '\0' || strcmp(action, "errno:ENOSYS") == 0);
    return UNKNOWN;
}

// As src/box/spawn_message.c does for a box.
static void put_limit(struct filter *f, uint64_t bytes)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->code[i].k == FILTER_LIMIT_HIGH)
            f->code[i].k = (uint32_t)(bytes >> 32);
        else if (f->code[i].k == FILTER_LIMIT_LOW)
            f->code[i].k = (uint32_t)bytes;
}

static int build(void **state)
{
    (void)state;
    struct err e;
    char *text = NULL, *save;
    size_t length;
    for (int kind = 0; kind < PROGRAMS; kind++)
        if (filter_build((enum filter_kind)kind, &programs[kind], &e) < 0)
            return -1;
    for (int kind = FILTER_LAST; kind < FILTER_KIND_MAX; kind++)
        put_limit(&programs[kind], UINT64_MAX); // it has a test of its own
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return -1;
    filter_dump(f, FILTER_BOX);
    (void)fclose(f);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int nr, end = 0;
        char name[40], action[24];
        if (sscanf(line, "{\"nr\": %d, \"name\": \"%39[^\"]\", \"action\": \"%23[^\"]\"%n", &nr,
                   name, action, &end) != 3 ||
            !end || nr < 0 || nr > NR_MAX || dump[nr].name[0])
            return -1; // not the promised form, or one number twice
        bool checked = strncmp(line + end, ", \"checks\": [\"arg", 17) == 0;
        bool told = strcmp(line + end, ", \"told\": true}") == 0;
        if (checked != (strcmp(action, "args") == 0) ||
            (told && strncmp(action, "errno", 5) != 0) ||
            (!told && strcmp(line + strlen(line) - (checked ? 3 : 1), checked ? "\"]}" : "}") != 0))
            return -1;
        dump[nr].told = told;
        memcpy(dump[nr].name, name, sizeof name);
        memcpy(dump[nr].action, action, sizeof action);
    }
    free(text);
    return 0;
}

static const uint32_t high_halves[] = {0, 1, 0x80000000, 0xdeadbeef, 0xffffffff};

// Two filters of one process: the kernel takes the strictest answer, and of two errnos the
// younger's.
static uint32_t interpret_halves(enum filter_kind whole, const struct seccomp_data *data)
{
    bool watched = whole == FILTER_BOX_WATCHED, network = whole == FILTER_BOX_NETWORK;
    uint32_t first = interpret(&programs[watched ? FILTER_ZYGOTE_WATCHED : FILTER_ZYGOTE], data);
    uint32_t last = interpret(&programs[network ? FILTER_LAST_NETWORK : FILTER_LAST], data);
    int32_t a = (int32_t)(first & SECCOMP_RET_ACTION_FULL);
    int32_t b = (int32_t)(last & SECCOMP_RET_ACTION_FULL);
    return a < b ? first : last;
}

// The same with a last half that tells, and an answer from the table: code sees no difference.
static uint32_t interpret_told(enum filter_kind whole, const struct seccomp_data *data)
{
    bool watched = whole == FILTER_BOX_WATCHED, network = whole == FILTER_BOX_NETWORK;
    uint64_t args[6];
    uint32_t first = interpret(&programs[watched ? FILTER_ZYGOTE_WATCHED : FILTER_ZYGOTE], data);
    uint32_t last = interpret(&programs[network ? FILTER_TELL_NETWORK : FILTER_TELL], data);
    int32_t a = (int32_t)(first & SECCOMP_RET_ACTION_FULL);
    int32_t b = (int32_t)(last & SECCOMP_RET_ACTION_FULL);
    uint32_t got = a < b ? first : last;
    if (got != SECCOMP_RET_USER_NOTIF)
        return got;
    for (int i = 0; i < 6; i++)
        args[i] = data->args[i];
    int errnum = filter_errno(network ? FILTER_LAST_NETWORK : FILTER_LAST, data->nr, args);
    return SECCOMP_RET_ERRNO | (uint32_t)errnum;
}

// What a program says, and where it is a box's, what its halves say together.
static void is_same_in_halves(enum filter_kind kind, const struct seccomp_data *data, uint32_t want)
{
    assert_int_equal(interpret(&programs[kind], data), want);
    if (kind < FILTER_GATE) {
        assert_int_equal(interpret_halves(kind, data), want);
        assert_int_equal(interpret_told(kind, data), want);
    }
}

static void check(enum filter_kind kind, const struct seccomp_data *data)
{
    uint32_t got = interpret(&programs[kind], data);
    is_same_in_halves(kind, data, got);
    uint32_t want = expect(kind, (uint32_t)data->nr, data->args);
    if (got != want)
        fail_msg("filter %d: call %d '%s' with %llx %llx %llx: %#x instead of %#x", kind, data->nr,
                 data->nr >= 0 && data->nr <= NR_MAX ? dump[data->nr].name : "",
                 (unsigned long long)data->args[0], (unsigned long long)data->args[1],
                 (unsigned long long)data->args[2], got, want);
}

// ---- the tests ----------------------------------------------------------------------------------

static void the_program_is_well_formed(void **state)
{
    (void)state;
    for (int kind = 0; kind < PROGRAMS; kind++) {
        const struct filter *f = &programs[kind];
        assert_true(f->count > 10 && f->count <= FILTER_MAX && f->count <= 4096);
        assert_int_equal(f->code[f->count - 1].code, BPF_RET | BPF_K);
        for (size_t i = 0; i < f->count; i++) {
            const struct sock_filter *c = &f->code[i];
            if (c->code == (BPF_JMP | BPF_JA))
                assert_true(i + 1 + c->k < f->count);
            else if (BPF_CLASS(c->code) == BPF_JMP)
                assert_true(i + 1 + c->jt < f->count && i + 1 + c->jf < f->count);
        }
    }
}

static void every_number_as_the_dump_says(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int nr = 0; nr <= NR_MAX; nr++)
            for (size_t h = 0; h < ARRAY_LEN(high_halves); h++)
                for (uint32_t low = 0; low < 4; low++) {
                    struct seccomp_data data = {.nr = nr, .arch = NATIVE};
                    for (int i = 0; i < 6; i++)
                        data.args[i] =
                            (uint64_t)high_halves[h] << 32 | (low ? ~0U >> (low * 9) : 0);
                    check((enum filter_kind)kind, &data);
                }
}

// Values at which a rule could turn: small ones, each bit, and those that the rules name.
static size_t turning_points(uint32_t *ret)
{
    static const uint32_t named[] = {TCGETS,     TIOCGWINSZ, FIONREAD,   FIONBIO,   FIOCLEX,
                                     FIONCLEX,   TIOCSTI,    0x541c,     TIOCSCTTY, 0x53564d41,
                                     F_SETLEASE, F_NOTIFY,   F_GETLEASE, 1030,      1033,
                                     0xffffffff, 1035,       1038,       102,       MAP_FLAGS_ALL};
    size_t n = 0;
    for (uint32_t i = 0; i < 80; i++)
        ret[n++] = i;
    for (int bit = 6; bit < 32; bit++)
        for (int d = -1; d <= 1; d++)
            ret[n++] = (1U << bit) + (uint32_t)d;
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        for (int d = -1; d <= 1; d++)
            ret[n++] = named[i] + (uint32_t)d;
    return n;
}

static void arguments_with_garbage_in_the_high_half(void **state)
{
    (void)state;
    uint32_t values[80 + 26 * 3 + 20 * 3];
    size_t n = turning_points(values), seen = 0;
    assert_int_equal(n, ARRAY_LEN(values));
    for (int kind = 0; kind < KINDS; kind++)
        for (int nr = 0; nr <= NR_MAX; nr++) {
            if (strcmp(dump[nr].action, "args") != 0)
                continue;
            seen++;
            // All pairs in the first two arguments, where the only rule with two checks looks.
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < n; k++) {
                    uint64_t high = (uint64_t)high_halves[(i + k) % ARRAY_LEN(high_halves)] << 32;
                    struct seccomp_data data = {.nr = nr,
                                                .arch = NATIVE,
                                                .instruction_pointer = ~0ULL,
                                                .args = {high | values[i], ~high << 32 | values[k],
                                                         high | values[k], high | values[i],
                                                         high | values[k], ~0ULL}};
                    check((enum filter_kind)kind, &data);
                }
            // Each value with each high half.
            for (size_t i = 0; i < n; i++)
                for (size_t h = 0; h < ARRAY_LEN(high_halves); h++) {
                    uint64_t v = (uint64_t)high_halves[h] << 32 | values[i];
                    struct seccomp_data data = {
                        .nr = nr, .arch = NATIVE, .args = {v, v, v, v, v, v}};
                    check((enum filter_kind)kind, &data);
                    data.args[0] = AF_UNIX | (uint64_t)high_halves[h] << 32;
                    check((enum filter_kind)kind, &data);
                }
        }
    assert_true(seen >= KINDS * 9);
}

// Rules whose checks depend on each other: every combination of what could matter.
static void sockets_and_options_by_all_their_arguments(void **state)
{
    (void)state;
    static const uint32_t levels[] = {0,   1,   2,   6,   17,  41,  58,  132,       136,
                                      255, 263, 270, 272, 282, 283, 284, 0xffffffff};
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint32_t family = 0; family <= 50; family++)
            for (uint32_t type = 0; type <= 0x1f; type++)
                for (uint32_t protocol = 0; protocol <= 270; protocol++) {
                    uint64_t high = (uint64_t)(family + type + protocol) << 32;
                    struct seccomp_data data = {
                        .nr = SYS_socket,
                        .arch = NATIVE,
                        .args = {high | family, high | type | SOCK_CLOEXEC, high | protocol}};
                    check((enum filter_kind)kind, &data);
                    int errnum = expect_socket(FILTER_BOX_NETWORK, false, data.args);
                    if (kind == FILTER_BOX_NETWORK) // the same without IPv6
                        assert_int_equal(interpret(&programs[FILTER_LAST_NETWORK4], &data),
                                         errnum ? SECCOMP_RET_ERRNO | (uint32_t)errnum
                                                : (uint32_t)SECCOMP_RET_ALLOW);
                }
        for (size_t i = 0; i < ARRAY_LEN(levels); i++)
            for (uint32_t name = 0; name < 300; name++) {
                struct seccomp_data data = {.nr = SYS_setsockopt,
                                            .arch = NATIVE,
                                            .args = {3, levels[i], 1ULL << 40 | name}};
                check((enum filter_kind)kind, &data);
            }
    }
}

static void an_allocation_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    const uint64_t limit = 5ULL << 32 | 0x20000000;
    struct err e;
    const uint64_t rw = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    const struct {
        int nr;
        uint64_t args[4];
        bool refused;
    } calls[] = {
        {SYS_mmap, {0, limit, rw, kind}, false},
        {SYS_mmap, {0, limit + 1, rw, kind}, true},
        {SYS_mmap, {0, limit + (1ULL << 32), rw, kind | MAP_STACK}, true},
        {SYS_mmap, {0, 0xffffffff, rw, kind}, false}, // its low half alone is large
        {SYS_mmap, {0, UINT64_MAX, rw, kind}, true},
        {SYS_mmap, {0, limit + 1, PROT_READ, kind}, false},
        {SYS_mmap, {0, limit + 1, PROT_NONE, kind}, false},
        {SYS_mmap, {0, limit + 1, rw, kind | MAP_NORESERVE}, false},
        {SYS_mmap, {0, limit + 1, rw, MAP_PRIVATE}, false},
        {SYS_mmap, {0, limit + 1, rw, MAP_SHARED | MAP_ANONYMOUS}, false},
        {SYS_mremap, {1, limit + 1, limit}, false},
        {SYS_mremap, {1, 1, limit + 1}, true},
        {SYS_munmap, {1, UINT64_MAX, UINT64_MAX}, false},
    };
    for (int half = FILTER_LAST; half < FILTER_KIND_MAX; half++) {
        static struct filter f;
        assert_int_equal(filter_build((enum filter_kind)half, &f, &e), 0);
        put_limit(&f, limit);
        for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
            struct seccomp_data data = {.nr = calls[i].nr, .arch = NATIVE};
            memcpy(data.args, calls[i].args, sizeof calls[i].args);
            assert_int_equal(interpret(&f, &data), calls[i].refused
                                                       ? (uint32_t)SECCOMP_RET_ERRNO | ENOMEM
                                                       : (uint32_t)SECCOMP_RET_ALLOW);
        }
    }
}

// A box loads the last half each time: it stays a fraction of the whole.
static void the_last_half_is_short(void **state)
{
    (void)state;
    assert_in_range(programs[FILTER_TELL].count, 10, 130);
    assert_in_range(programs[FILTER_TELL_NETWORK].count, 10, 140);
}

// What is told of, and that nothing is which ordinary programs do by the way.
static void notifications_are_for_loud_denials_only(void **state)
{
    (void)state;
    static const int loud[] = {SYS_mount,  SYS_ptrace,          SYS_bpf,        SYS_unshare,
                               SYS_setns,  SYS_perf_event_open, SYS_kexec_load, SYS_userfaultfd,
                               SYS_keyctl, 425 /* io_uring */,  SYS_reboot,     SYS_init_module};
    static const char *const quiet[] = {
        "clone3",  "mlock", "splice",        "setxattr", "inotify_init1",     "memfd_secret",
        "shmget",  "prctl", "sched_setattr", "mbind",    "landlock_add_rule", "sync",
        "seccomp", "ioctl", "setpriority",   "fcntl",    "name_to_handle_at", "set_mempolicy"};
    for (size_t i = 0; i < ARRAY_LEN(loud); i++) {
        struct seccomp_data data = {.nr = loud[i], .arch = NATIVE};
        assert_int_equal(interpret(&programs[FILTER_TELL], &data), SECCOMP_RET_USER_NOTIF);
        assert_int_equal(interpret(&programs[FILTER_ZYGOTE], &data), SECCOMP_RET_ALLOW);
        assert_true(dump[loud[i]].told);
    }
    for (int nr = 0; nr <= NR_MAX; nr++) {
        struct seccomp_data data = {.nr = nr, .arch = NATIVE};
        for (size_t i = 0; i < ARRAY_LEN(quiet); i++)
            if (strcmp(dump[nr].name, quiet[i]) == 0)
                assert_false(interpret(&programs[FILTER_TELL], &data) == SECCOMP_RET_USER_NOTIF &&
                             interpret(&programs[FILTER_ZYGOTE], &data) == SECCOMP_RET_ALLOW);
        // Only what is denied is ever told of: an allowed call must not wait.
        if (strcmp(dump[nr].action, "allow") == 0)
            assert_int_equal(interpret(&programs[FILTER_TELL], &data), SECCOMP_RET_ALLOW);
    }
    // What libraries look around with.
    struct seccomp_data ipv6 = {
        .nr = SYS_socket, .arch = NATIVE, .args = {AF_INET6, SOCK_STREAM, 0}};
    assert_int_equal(interpret(&programs[FILTER_TELL], &ipv6), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    struct seccomp_data tcp = {.nr = SYS_socket, .arch = NATIVE, .args = {AF_INET, SOCK_STREAM, 0}};
    assert_int_equal(interpret(&programs[FILTER_TELL], &tcp), SECCOMP_RET_USER_NOTIF);
    struct seccomp_data netlink = {.nr = SYS_socket, .arch = NATIVE, .args = {16, 3, 0}};
    assert_int_equal(interpret(&programs[FILTER_TELL_NETWORK], &netlink),
                     SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    assert_int_equal(interpret(&programs[FILTER_TELL], &netlink), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

// An ipc namespace is a slot's and outlives its box (box/spawn.c): nothing may be left in it.  So
// the zygote's half refuses these, and not the last one, whatever their arguments are.
static void nothing_is_left_in_an_ipc_namespace(void **state)
{
    (void)state;
    static const int calls[] = {
        SYS_shmget,          SYS_shmat,      SYS_shmdt,        SYS_shmctl,    SYS_semget,
        SYS_semop,           SYS_semctl,     SYS_msgget,       SYS_msgsnd,    SYS_msgrcv,
        SYS_msgctl,          SYS_semtimedop, SYS_mq_open,      SYS_mq_unlink, SYS_mq_timedsend,
        SYS_mq_timedreceive, SYS_mq_notify,  SYS_mq_getsetattr};
    static const uint64_t values[] = {0, 1, 01666, 0x7fffffff, ~0ULL};
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            struct seccomp_data data = {.nr = calls[i], .arch = NATIVE};
            for (int a = 0; a < 6; a++)
                data.args[a] = values[v];
            assert_int_equal(interpret(&programs[FILTER_ZYGOTE], &data), UNKNOWN);
            assert_int_equal(interpret(&programs[FILTER_ZYGOTE_WATCHED], &data), UNKNOWN);
        }
}

// Whatever is asked, also what no filter would ask: never 0.
static void an_answer_is_never_success(void **state)
{
    (void)state;
    static const enum filter_kind kinds[] = {FILTER_LAST, FILTER_LAST_NETWORK, FILTER_LAST_NETWORK4,
                                             FILTER_KIND_MAX};
    static const uint64_t args[][6] = {
        {0}, {1, 1, 0}, {2, 1, 6}, {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL}};
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        for (int nr = -2; nr <= NR_MAX; nr++)
            for (size_t a = 0; a < ARRAY_LEN(args); a++)
                assert_in_range(filter_errno(kinds[k], nr, args[a]), 1, 200);
}

static void foreign_architectures_are_killed(void **state)
{
    (void)state;
    const uint32_t foreign[] = {
        AUDIT_ARCH_I386,       AUDIT_ARCH_ARM,        AUDIT_ARCH_MIPS, 0,          0xffffffff,
        NATIVE & ~0x80000000U, NATIVE & ~0x40000000U, NATIVE + 1,      NATIVE - 1,
#ifdef __x86_64__
        AUDIT_ARCH_AARCH64
#else
        AUDIT_ARCH_X86_64
#endif
    };
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
            for (int nr = -1; nr <= NR_MAX; nr++) {
                struct seccomp_data data = {.nr = nr, .arch = foreign[i]};
                is_same_in_halves((enum filter_kind)kind, &data, SECCOMP_RET_KILL_PROCESS);
            }
}

#ifdef __x86_64__
static void x32_is_killed(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint32_t nr = 0; nr <= NR_MAX; nr++)
            for (uint32_t top = 0x40000000; top; top += 0x40000000) {
                struct seccomp_data data = {.nr = (int)(top + nr), .arch = NATIVE};
                is_same_in_halves((enum filter_kind)kind, &data, SECCOMP_RET_KILL_PROCESS);
            }
        const uint32_t edges[] = {0x40000000, 0x7fffffff, 0x80000000, 0xfffffffe};
        for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
            struct seccomp_data data = {.nr = (int)edges[i], .arch = NATIVE};
            is_same_in_halves((enum filter_kind)kind, &data, SECCOMP_RET_KILL_PROCESS);
        }
    }
}
#endif

static void unknown_numbers_are_not_implemented(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct seccomp_data data = {.nr = -1,
                                    .arch = NATIVE}; // what a tracer writes to skip a call
        is_same_in_halves((enum filter_kind)kind, &data, UNKNOWN);
        for (uint32_t nr = NR_MAX; nr < 0x40000000; nr += nr / 3 + 1) {
            data.nr = (int)nr;
            is_same_in_halves((enum filter_kind)kind, &data, UNKNOWN);
        }
        data.nr = 0x3fffffff;
        is_same_in_halves((enum filter_kind)kind, &data, UNKNOWN);
    }
}

// The dump and the program come from one table; these rows must be in it whatever it says.
static void the_rows_that_matter_most(void **state)
{
    (void)state;
    const struct {
        int nr;
        uint32_t box, gate; // the broker as the gate, but for those that reach out
    } rows[] = {
        {SYS_read, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
        {SYS_exit_group, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
        {SYS_execve, SECCOMP_RET_ALLOW, DENIED},
        {SYS_memfd_create, SECCOMP_RET_ALLOW, DENIED},
        {SYS_connect, SECCOMP_RET_ALLOW, DENIED},
        {SYS_accept4, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
        {SYS_ptrace, DENIED, DENIED},
        {SYS_bpf, DENIED, DENIED},
        {SYS_mount, DENIED, DENIED},
        {SYS_unshare, DENIED, DENIED},
        {SYS_setns, DENIED, DENIED},
        {SYS_userfaultfd, DENIED, DENIED},
        {SYS_splice, DENIED, DENIED},
        {SYS_pidfd_getfd, DENIED, DENIED},
        {SYS_perf_event_open, DENIED, DENIED},
        {SYS_open_by_handle_at, DENIED, DENIED},
        {SYS_seccomp, DENIED, DENIED},
        {SYS_clone3, UNKNOWN, UNKNOWN},
        {SYS_io_uring_setup, UNKNOWN, UNKNOWN},
        {SYS_io_uring_enter, UNKNOWN, UNKNOWN},
        {SYS_keyctl, UNKNOWN, UNKNOWN},
        {SYS_process_vm_writev, UNKNOWN, UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct seccomp_data data = {.nr = rows[i].nr, .arch = NATIVE};
        assert_int_equal(interpret(&programs[FILTER_BOX], &data), rows[i].box);
        assert_int_equal(interpret(&programs[FILTER_GATE], &data), rows[i].gate);
        assert_int_equal(interpret(&programs[FILTER_BOX_NETWORK], &data), rows[i].box);
        assert_int_equal(interpret(&programs[FILTER_BROKER], &data),
                         rows[i].nr == SYS_connect ? SECCOMP_RET_ALLOW : rows[i].gate);
    }
    struct seccomp_data data = {.nr = SYS_clone, .arch = NATIVE, .args = {SIGCHLD}};
    assert_int_equal(interpret(&programs[FILTER_BOX], &data), SECCOMP_RET_ALLOW);
    assert_int_equal(interpret(&programs[FILTER_GATE], &data), DENIED);
    data.args[0] = CLONE_NEWUSER | SIGCHLD | 0xffffffff00000000ULL;
    assert_int_equal(interpret(&programs[FILTER_BOX], &data), DENIED);
}

// Our own processes keep stores: what boxes only seem to do, these really do.
static void stores_reach_the_disk(void **state)
{
    (void)state;
    static const int calls[] = {SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_msync};
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct seccomp_data data = {.nr = calls[i], .arch = NATIVE, .args = {0, 0, MS_SYNC}};
        assert_int_equal(interpret(&programs[FILTER_BOX], &data), IGNORED);
        assert_int_equal(interpret(&programs[FILTER_BOX_WATCHED], &data), IGNORED);
        assert_int_equal(interpret(&programs[FILTER_BOX_NETWORK], &data), IGNORED);
        assert_int_equal(interpret(&programs[FILTER_GATE], &data), SECCOMP_RET_ALLOW);
        assert_int_equal(interpret(&programs[FILTER_PORTER], &data), SECCOMP_RET_ALLOW);
        assert_int_equal(interpret(&programs[FILTER_BROKER], &data), SECCOMP_RET_ALLOW);
    }
}

// What is ignored or limited by its arguments is so in the half that is loaded once, not in the one
// of each box.
static void new_limits_cost_a_box_nothing(void **state)
{
    (void)state;
    static const char *const calls[] = {"mmap",  "madvise",   "msync",       "memfd_create",
                                        "fsync", "fallocate", "fadvise64",   "fdatasync",
                                        "fcntl", "ioctl",     "setpriority", "sched_setaffinity"};
    for (int nr = 0; nr <= NR_MAX; nr++) {
        struct seccomp_data data = {.nr = nr, .arch = NATIVE, .args = {~0ULL, ~0ULL, ~0ULL, ~0ULL}};
        for (size_t i = 0; i < ARRAY_LEN(calls); i++)
            if (strcmp(dump[nr].name, calls[i]) == 0) {
                uint32_t first = interpret(&programs[FILTER_ZYGOTE], &data);
                assert_int_equal(first & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
                assert_int_equal(interpret(&programs[FILTER_LAST], &data), SECCOMP_RET_ALLOW);
            }
    }
}

// The kernel's own checker, and one call of each kind, in a child that is gone afterwards.
static void the_kernel_takes_the_program(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct sock_fprog program = {.len = (unsigned short)programs[kind].count,
                                         .filter = programs[kind].code};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(1);
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
                _exit(2);
            if (syscall(SYS_unshare, 0) != -1 || errno != EPERM)
                _exit(3);
            if (syscall(SYS_keyctl, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS)
                _exit(4);
            if (syscall(SYS_getppid) <= 0)
                _exit(5);
            // Ignored in a box; made elsewhere, where this descriptor is not open.
            long synced = syscall(SYS_fsync, -1);
            if (kind < FILTER_GATE ? synced != 0 : synced != -1 || errno != EBADF)
                _exit(6);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_is_well_formed),
        cmocka_unit_test(every_number_as_the_dump_says),
        cmocka_unit_test(arguments_with_garbage_in_the_high_half),
        cmocka_unit_test(sockets_and_options_by_all_their_arguments),
        cmocka_unit_test(an_allocation_beyond_the_limit_is_refused),
        cmocka_unit_test(the_last_half_is_short),
        cmocka_unit_test(notifications_are_for_loud_denials_only),
        cmocka_unit_test(nothing_is_left_in_an_ipc_namespace),
        cmocka_unit_test(an_answer_is_never_success),
        cmocka_unit_test(foreign_architectures_are_killed),
#ifdef __x86_64__
        cmocka_unit_test(x32_is_killed),
#endif
        cmocka_unit_test(unknown_numbers_are_not_implemented),
        cmocka_unit_test(the_rows_that_matter_most),
        cmocka_unit_test(stores_reach_the_disk),
        cmocka_unit_test(new_limits_cost_a_box_nothing),
        cmocka_unit_test(the_kernel_takes_the_program),
    };
    return cmocka_run_group_tests_name("filter", tests, build, NULL);
}
