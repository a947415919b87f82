// SPDX-License-Identifier: Apache-2.0
//
// procs: see procs.h.  Runs in the sampler.

#include "keeper/procs.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "keeper/overhead.h"

enum { PROCESSES_MAX = 4096 };

// How closely a box is looked at: dearer from one to the next, so only when it matters.
enum closeness {
    LOOK_ROUGH,    // pages count for each process that has them; how many mappings there could be
    LOOK_MAPPINGS, // mappings are counted
    LOOK_EXACT,    // pages are divided among the processes that share them
    LOOK_MAX
};

struct sum {
    uint64_t anonymous_kb, shared_kb, tables_kb, user_ticks, system_ticks, threads;
    uint64_t shared_one_kb; // of the process that has the most: it is there, whatever they share
    uint64_t overhead_bytes, possible_bytes;
    uint64_t ran_ns;       // by all: another one at the next look when any has run, or has gone
    uint64_t enough_bytes; // nothing is counted further above it
    unsigned alive;
    bool nameless; // some process has shared memory without a name; not known of a rough look
    enum closeness closeness;
};

// "Name:   123 kB" lines of /proc/PID/status; 0 when there is no such line.
static uint64_t status_kb(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

// What one process holds.  Page tables are memory too; file pages of the interpreter are not the
// box's.  The keeper's uid made the user namespace, so the sampler may read the exact figures.
static void add_memory(pid_t pid, const char *status, struct sum *sum)
{
    char path[64], text[4096];
    sum->tables_kb += status_kb(status, "\nVmPTE:");
    if (sum->closeness == LOOK_ROUGH)
        sum->possible_bytes += overhead_mappings_most(status);
    else if (sum->overhead_bytes <= sum->enough_bytes)
        sum->overhead_bytes +=
            overhead_mappings(pid, sum->enough_bytes - sum->overhead_bytes, &sum->nameless);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (sum->closeness == LOOK_EXACT && file_read_at(AT_FDCWD, path, text, sizeof text) > 0) {
        sum->anonymous_kb += status_kb(text, "\nPss_Anon:");
        sum->shared_kb += status_kb(text, "\nPss_Shmem:");
    } else {
        sum->anonymous_kb += status_kb(status, "\nRssAnon:");
        uint64_t shared_kb = status_kb(status, "\nRssShmem:");
        sum->shared_kb += shared_kb;
        if (shared_kb > sum->shared_one_kb)
            sum->shared_one_kb = shared_kb;
    }
}

static bool is_over(const char *status)
{
    return strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX");
}

// SECURITY: a process whose first thread has left is shown as a zombie without memory while its
// other threads go on and have it all.  Finds one of them and reads its status.
static pid_t find_living_thread(pid_t pid, char *text, size_t size)
{
    char path[64];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && !found && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "%.20s/status", entry->d_name);
        if (entry->d_name[0] != '.' && file_read_at(dirfd(threads), path, text, size) > 0 &&
            !is_over(text))
            found = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    if (threads)
        (void)closedir(threads);
    return found ? found : pid;
}

// The clock of any process has a number that is made of its pid (clock_getcpuclockid(3)).
static uint64_t ran_ns(pid_t pid)
{
    enum { CLOCK_EXACT = 2 };
    struct timespec t;
    if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | CLOCK_EXACT), &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void add_process(pid_t pid, bool shares_memory, struct sum *sum)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) > 0) {
        uint64_t threads = status_kb(text, "\nThreads:");
        pid_t holder =
            is_over(text) && threads > 1 ? find_living_thread(pid, text, sizeof text) : pid;
        sum->threads += threads;
        sum->alive += !is_over(text) || threads > 1;
        sum->overhead_bytes += overhead_bytes(holder, text);
        if (!shares_memory)
            add_memory(holder, text, sum);
    }
    sum->ran_ns += ran_ns(pid);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) > 0) {
        char *p = strrchr(text, ')');
        for (int field = 2; p && field < 14; field++)
            p = strchr(p + 1, ' ');
        if (p) { // utime stime cutime cstime
            uint64_t t[4] = {0};
            for (int i = 0; i < 4; i++)
                t[i] = strtoull(p + 1, &p, 10);
            sum->user_ticks += t[0] + t[2];
            sum->system_ticks += t[1] + t[3];
        }
    }
}

static size_t add_children(const char *text, pid_t *queue, size_t tail)
{
    for (const char *p = text; *p && tail < PROCESSES_MAX;) {
        char *end;
        long child = strtol(p, &end, 10);
        if (end == p)
            break;
        queue[tail++] = (pid_t)child;
        p = end + strspn(end, " ");
    }
    return tail;
}

// SECURITY: the init shares its memory with the user process, until that calls exec: from then on
// the init alone holds the old memory.  Where the kernel cannot say, they share it, as they did at
// the start.
static bool holds_own_memory(pid_t init, const pid_t *others, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (syscall(SYS_kcmp, init, others[i], KCMP_VM, 0, 0) <= 0)
            return false;
    return count > 0;
}

// Breadth first below the init.  Orphans are handed to the init, so the tree is complete.
static void walk(pid_t init, struct sum *sum)
{
    static pid_t queue[PROCESSES_MAX];
    static char text[65536];
    size_t head = 0, tail = 0;
    queue[tail++] = init;
    while (head < tail) {
        pid_t pid = queue[head++];
        char path[64];
        add_process(pid, pid == init, sum);
        snprintf(path, sizeof path, "/proc/%d/task", pid);
        DIR *threads = opendir(path);
        // Every thread has children of its own.
        for (struct dirent *entry; threads && (entry = readdir(threads));) {
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%.20s/children", entry->d_name);
            if (file_read_at(dirfd(threads), path, text, sizeof text) > 0)
                tail = add_children(text, queue, tail);
        }
        if (threads)
            (void)closedir(threads);
    }
    char status[4096];
    snprintf(text, sizeof text, "/proc/%d/status", init);
    if (holds_own_memory(init, queue + 1, tail - 1) &&
        file_read_at(AT_FDCWD, text, status, sizeof status) > 0)
        add_memory(init, status, sum);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Scratch holds memory whether or not a process has it mapped.
static uint64_t shared_bytes(const struct sum *sum, const struct wire_sample *ask)
{
    return larger(sum->shared_kb * 1024, ask->scratch_bytes);
}

// At least.  Were it too much, the same memory would later look as if it had just been hidden; see
// watch.c.
static uint64_t shared_least_bytes(const struct sum *sum, const struct wire_sample *ask)
{
    uint64_t kb = sum->closeness == LOOK_EXACT ? sum->shared_kb : sum->shared_one_kb;
    return larger(kb * 1024, ask->scratch_bytes);
}

static uint64_t hidden_bytes(const struct sum *sum, const struct wire_sample *ask)
{
    uint64_t seen = shared_least_bytes(sum, ask);
    return ask->unexplained_bytes > seen ? ask->unexplained_bytes - seen : 0;
}

static uint64_t memory_bytes(const struct sum *sum, const struct wire_sample *ask)
{
    return (sum->anonymous_kb + sum->tables_kb) * 1024 + sum->overhead_bytes +
           ask->scratch_names * OVERHEAD_NAME + shared_bytes(sum, ask);
}

static bool may_be_above(const struct sum *sum, const struct wire_sample *ask)
{
    uint64_t hidden = sum->closeness == LOOK_ROUGH || sum->nameless ? hidden_bytes(sum, ask) : 0;
    return memory_bytes(sum, ask) + sum->possible_bytes + hidden > ask->limit_bytes;
}

// Forked processes share most of their pages, and most have few mappings: a box that may be above
// its limit is looked at again, more closely.  What the kernel holds beside pages gets no smaller
// by that: above the limit it decides, and the mappings, 250,000 perhaps, are not read twice.
static struct sum look(const struct wire_sample *ask)
{
    struct sum sum;
    enum closeness closeness = LOOK_ROUGH;
    do {
        sum = (struct sum){.closeness = closeness, .enough_bytes = ask->limit_bytes};
        walk(ask->pid, &sum);
    } while (may_be_above(&sum, ask) && sum.overhead_bytes <= ask->limit_bytes &&
             ++closeness < LOOK_MAX);
    return sum;
}

void procs_look(const struct wire_sample *ask, struct wire_sampled *ret)
{
    uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    struct sum sum = look(ask);
    ret->memory_bytes = memory_bytes(&sum, ask);
    ret->shared_bytes = shared_least_bytes(&sum, ask);
    ret->nameless = sum.nameless && sum.closeness == LOOK_EXACT;
    ret->ran_ns = sum.ran_ns;
    ret->cpu_user_us = sum.user_ticks * tick_us;
    ret->cpu_system_us = sum.system_ticks * tick_us;
    ret->threads = sum.threads;
    ret->alive = sum.alive;
}
