// SPDX-License-Identifier: Apache-2.0
//
// checkpoint: see checkpoint.h.  Below the bar "init's side" everything runs as pid 1 and uses
// sys_raw() only.

#include "box/checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/sys.h"
#include "box/init.h"
#include "wire/frame.h"

// What a sleeper waits for.
enum sleeper_command { COMMAND_SLEEP, COMMAND_GO, COMMAND_COPY };

struct sleeper {
    _Atomic uint32_t command;
    _Atomic uint32_t kind; // enum checkpoint_kind
    _Atomic int32_t pid;
    uint32_t fork_number;
    uint32_t serial; // a higher one is younger
    uint32_t keep;
};

struct board {
    uint32_t length;
    char data[CHECKPOINT_BOARD_MAX];
};

static struct area {
    struct init_mailbox mailbox;
    _Atomic int32_t active;
    uint32_t fork_number; // of the active process
    uint32_t why;         // enum checkpoint_why of the last change
    uint32_t previous;    // the one before it
    int32_t status;
    _Atomic uint32_t settling; // 1 + number of the one that was woken and has not settled yet
    struct sleeper sleepers[CHECKPOINT_SLEEPERS];
    // The valid one of two: a process that dies while writing leaves the other.
    _Atomic uint32_t board;
    struct board boards[2];
    // Address space; pages come when they are used, and those of a large run go after it.
    _Alignas(4096) char result[FRAME_RESULT_MAX];
    _Alignas(4096) char request[FRAME_RUN_MAX];
} * area;

static uint64_t memory_limit;
static uint32_t process_limit;

// Wakes all waiters: one that was killed a moment ago, whose place in the table another process has
// now, may still be among them, and waking only one could wake that one.
static void wake(_Atomic uint32_t *word)
{
    (void)sys_raw(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

// ---- the user process's side --------------------------------------------------------------------

void checkpoint_set_limits(uint64_t memory_bytes, uint32_t processes)
{
    memory_limit = memory_bytes;
    process_limit = processes;
}

uint64_t checkpoint_memory_limit(void)
{
    return memory_limit;
}

uint32_t checkpoint_process_limit(void)
{
    return process_limit;
}

// A fork whose child is a child of init.  Raw, because libc's fork() does not know CLONE_PARENT;
// what it does besides is for other threads' sake, of which there are none, and to correct the
// thread's id, which the kernel is asked to do.
static long copy_process(void)
{
    long tid = (long)init_tid_pointer();
    long flags = CLONE_PARENT | SIGCHLD | (tid ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
    (void)madvise(area, sizeof *area, MADV_DOFORK);
#if defined(__x86_64__)
    long pid = sys_raw(SYS_clone, flags, 0, 0, tid, 0, 0);
#else
    long pid =
        sys_raw(SYS_clone, flags, 0, 0, 0, tid, 0); // where the last two are the other way round
#endif
    (void)madvise(area, sizeof *area, MADV_DONTFORK);
    return pid;
}

static bool lies_in(const void *p, uintptr_t start, uintptr_t end)
{
    return (uintptr_t)p >= start && (uintptr_t)p < end;
}

// Frees the memory that stays with init when the user process has moved out: init needs only this
// library and its own stack, which is in it.  The rest would be charged to the box until its end.
static void empty_memory(void)
{
    enum { WORTH_IT = 64 << 10 };
    static struct maps maps;
    struct mapping m;
    if (maps_open(&maps) < 0)
        return;
    while (maps_next(&maps, &m)) {
        // Private, writable and of no file: memory without a name, or the heap.
        bool plain = !*m.name || strcmp(m.name, "[heap]") == 0 || strncmp(m.name, "[anon", 5) == 0;
        if (strcmp(m.mode, "rw-p") != 0 || m.file || !plain || m.end - m.start < WORTH_IT ||
            lies_in(&m, m.start, m.end) || lies_in(&maps, m.start, m.end) ||
            lies_in((const void *)pthread_self(), m.start, m.end))
            continue;
        (void)sys_raw(SYS_madvise, (long)m.start, (long)(m.end - m.start), MADV_DONTNEED, 0, 0, 0);
    }
}

static int make_area(void)
{
    struct area *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a == MAP_FAILED)
        return -errno;
    a->active = (int32_t)getpid();
    area = a; // init sees it too
    int r = init_share(&a->mailbox, a->request, a->result);
    if (r < 0) {
        area = NULL;
        (void)munmap(a, sizeof *a);
    }
    return r;
}

int checkpoint_begin(void)
{
    static bool moved;
    int r = moved || area ? 0 : make_area();
    if (moved || r < 0)
        return r;
    // Signals are blocked here: a copy must not run a handler before it is the active process.
    sigset_t all, before;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    long pid = copy_process();
    if (pid == 0) {
        moved = true;
        atomic_store(&area->active, (int32_t)getpid());
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return 1;
    }
    if (pid > 0) {
        atomic_store(&area->active, (int32_t)pid);
        empty_memory();
        for (;;)
            (void)sys_raw(SYS_exit_group, 0, 0, 0, 0, 0, 0);
    }
    // The process stays where it is, with the shared mailbox; the next attempt may succeed.
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return (int)pid;
}

static int take_slot(uint32_t fork_number, uint32_t serial, enum checkpoint_kind kind, bool keep)
{
    for (int i = 0; i < CHECKPOINT_SLEEPERS; i++) {
        struct sleeper *s = &area->sleepers[i];
        if (atomic_load(&s->kind) != CHECKPOINT_FREE)
            continue;
        s->command = COMMAND_SLEEP;
        s->pid = 0;
        s->fork_number = fork_number;
        s->serial = serial;
        s->keep = keep;
        atomic_store(&s->kind, kind);
        return i;
    }
    return -ENOSPC;
}

// Signals sent to all processes were not meant for one that slept.
static void forget_signals(const sigset_t *all)
{
    const struct timespec now = {0};
    for (int i = 0; i < 64 && sigtimedwait(all, NULL, &now) > 0; i++)
        ;
}

// The life of a sleeper.  All signals are blocked.
static void sleep_in(struct sleeper *s, const sigset_t *all, struct checkpoint_wake *ret)
{
    bool consumed = true;
    for (;;) {
        uint32_t command = atomic_load(&s->command);
        if (command == COMMAND_SLEEP) {
            (void)sys_raw(SYS_futex, (long)&s->command, FUTEX_WAIT, COMMAND_SLEEP, 0, 0, 0);
            continue;
        }
        if (command == COMMAND_GO)
            break;
        atomic_store(&s->command, COMMAND_SLEEP);
        long pid = copy_process();
        if (pid > 0)
            continue;
        // Without a copy the process itself goes on, and is no checkpoint any more.
        consumed = pid < 0;
        break;
    }
    if (consumed)
        atomic_store(&s->kind, CHECKPOINT_FREE);
    atomic_store(&area->active, (int32_t)getpid());
    forget_signals(all);
    *ret = (struct checkpoint_wake){.why = (enum checkpoint_why)area->why,
                                    .status = area->status,
                                    .fork_number = area->previous,
                                    .asked = init_is_asked(),
                                    .consumed = consumed};
}

int checkpoint_park(uint32_t fork_number, uint32_t serial, enum checkpoint_kind kind, bool keep,
                    struct checkpoint_wake *ret)
{
    if (!area)
        return -EINVAL;
    int i = take_slot(fork_number, serial, kind, keep);
    if (i < 0)
        return i;
    struct sleeper *s = &area->sleepers[i];
    sigset_t all, before;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    long pid = copy_process();
    if (pid == 0)
        sleep_in(s, &all, ret);
    else if (pid > 0)
        atomic_store(&s->pid, (int32_t)pid);
    else
        atomic_store(&s->kind, CHECKPOINT_FREE);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return pid < 0 ? (int)pid : pid == 0 ? CHECKPOINT_WOKEN : i;
}

int checkpoint_reserve(uint32_t fork_number, uint32_t serial)
{
    int i = area ? take_slot(fork_number, serial, CHECKPOINT_TIP, false) : -EINVAL;
    if (i >= 0)
        atomic_store(&area->sleepers[i].pid, (int32_t)getpid());
    return i;
}

static struct sleeper *sleeper_at(int i)
{
    return area && i >= 0 && i < CHECKPOINT_SLEEPERS ? &area->sleepers[i] : NULL;
}

bool checkpoint_alive(int number)
{
    struct sleeper *s = sleeper_at(number);
    int32_t pid = s ? atomic_load(&s->pid) : 0;
    return s && atomic_load(&s->kind) != CHECKPOINT_FREE && pid > 0 && kill(pid, 0) == 0;
}

// Both sides: makes the sleeper the active process.
static void call_up(struct sleeper *s, enum checkpoint_why why)
{
    area->why = why;
    area->previous = area->fork_number;
    area->fork_number = s->fork_number;
    atomic_store(&area->settling, (uint32_t)(s - area->sleepers) + 1);
    atomic_store(&area->active, atomic_load(&s->pid));
    atomic_store(&s->command, s->keep ? COMMAND_COPY : COMMAND_GO);
    wake(&s->command);
}

int checkpoint_give_way(int number, enum checkpoint_why why, int own, struct checkpoint_wake *ret)
{
    if (!checkpoint_alive(number))
        return -ESRCH;
    sigset_t all, before;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    struct sleeper *s = sleeper_at(own);
    call_up(sleeper_at(number), why);
    while (!s)
        (void)sys_raw(SYS_exit_group, 0, 0, 0, 0, 0, 0);
    sleep_in(s, &all, ret);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return 0;
}

void checkpoint_drop(int number)
{
    struct sleeper *s = sleeper_at(number);
    if (!s || atomic_exchange(&s->kind, CHECKPOINT_FREE) == CHECKPOINT_FREE)
        return;
    int32_t pid = atomic_load(&s->pid);
    if (pid > 0 && pid != (int32_t)getpid())
        (void)kill(pid, SIGKILL); // init reaps it
}

void checkpoint_settled(void)
{
    if (area)
        atomic_store(&area->settling, 0);
}

size_t checkpoint_board(const char **ret)
{
    if (!area)
        return 0;
    const struct board *b = &area->boards[atomic_load(&area->board) & 1];
    *ret = b->data;
    return b->length <= CHECKPOINT_BOARD_MAX ? b->length : 0;
}

int checkpoint_board_set(const void *data, size_t length)
{
    if (!area)
        return -EINVAL;
    if (length > CHECKPOINT_BOARD_MAX)
        return -EMSGSIZE;
    uint32_t other = (atomic_load(&area->board) & 1) ^ 1;
    memcpy(area->boards[other].data, data, length);
    area->boards[other].length = (uint32_t)length;
    atomic_store(&area->board, other);
    return 0;
}

// ---- init's side --------------------------------------------------------------------------------

long checkpoint_active(void)
{
    return area ? atomic_load(&area->active) : 0;
}

// The youngest checkpoint of the fork whose process died; else the youngest tip of another fork.
static struct sleeper *find_heir(void)
{
    struct sleeper *best = NULL;
    for (int i = 0; i < CHECKPOINT_SLEEPERS; i++) {
        struct sleeper *s = &area->sleepers[i];
        uint32_t kind = atomic_load(&s->kind);
        if (kind == CHECKPOINT_FREE || atomic_load(&s->pid) <= 0 ||
            (kind == CHECKPOINT_STATE && s->fork_number != area->fork_number))
            continue;
        uint32_t best_kind = best ? atomic_load(&best->kind) : CHECKPOINT_FREE;
        bool better =
            !best || (kind == best_kind ? s->serial > best->serial : kind == CHECKPOINT_STATE);
        if (better)
            best = s;
    }
    return best;
}

bool checkpoint_reaped(long pid, int status)
{
    for (int i = 0; i < CHECKPOINT_SLEEPERS; i++)
        if (atomic_load(&area->sleepers[i].pid) == pid)
            atomic_store(&area->sleepers[i].kind, CHECKPOINT_FREE);
    if (pid != atomic_load(&area->active))
        return true;
    uint32_t settling = atomic_exchange(&area->settling, 0);
    if (settling && settling <= CHECKPOINT_SLEEPERS) { // (4)
        struct sleeper *s = &area->sleepers[settling - 1];
        if (atomic_exchange(&s->kind, CHECKPOINT_FREE) != CHECKPOINT_FREE &&
            atomic_load(&s->pid) > 0)
            (void)sys_raw(SYS_kill, atomic_load(&s->pid), SIGKILL, 0, 0, 0, 0);
    }
    struct sleeper *heir = find_heir();
    if (!heir)
        return false;
    area->status = status;
    call_up(heir, CHECKPOINT_CRASH);
    return true;
}
