// SPDX-License-Identifier: Apache-2.0
//
// watch: the driver for hosts that give us no cgroups: an ordinary user without delegation.
//
// rlimits bound what one process can do (address space, number of processes per user namespace, size
// of files); this driver sums over the processes of a box what /proc tells everybody, and the keeper
// ends the box when the sum is above the limit.  It sees what is there when it looks, every few
// milliseconds while a run is active; doctor says so.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "keeper/cgroup.h"

enum { PROCESSES_MAX = 4096 };

static int watch_open(struct cgroup_root *root, struct err *e)
{
    (void)e;
    root->count = 0;
    return 0;
}

static int watch_make(const struct cgroup_root *root, struct cgroup *cg, struct err *e)
{
    (void)root;
    (void)cg;
    (void)e;
    return 0;
}

static int watch_attach_fds(const struct cgroup *cg, int *fds)
{
    (void)cg;
    (void)fds;
    return 0;
}

struct sum {
    uint64_t anonymous_kb, shared_kb, tables_kb, user_ticks, system_ticks, threads;
    unsigned alive;
    bool exact; // divide pages among the processes that share them: dear, so only when it matters
};

// "Name:   123 kB" lines of /proc/PID/status; 0 when there is no such line.
static uint64_t status_kb(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

// What one process holds.  Page tables are memory too; file pages of the interpreter are not the
// box's.  The keeper made the user namespace, so it may read the exact figures.
static void add_memory(pid_t pid, const char *status, struct sum *sum)
{
    char path[64], text[4096];
    sum->tables_kb += status_kb(status, "\nVmPTE:");
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (sum->exact && file_read_at(AT_FDCWD, path, text, sizeof text) > 0) {
        sum->anonymous_kb += status_kb(text, "\nPss_Anon:");
        sum->shared_kb += status_kb(text, "\nPss_Shmem:");
    } else {
        sum->anonymous_kb += status_kb(status, "\nRssAnon:");
        sum->shared_kb += status_kb(status, "\nRssShmem:");
    }
}

static bool is_over(const char *status)
{
    return strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX");
}

// SECURITY: a process whose first thread has left is shown as a zombie without memory while its other threads go
// on and have it all.  Finds one of them and reads its status.
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
        if (!shares_memory)
            add_memory(holder, text, sum);
    }
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

// SECURITY: the init shares its memory with the user process, until that calls exec: from then on the init alone
// holds the old memory.  Where the kernel cannot say, they share it, as they did at the start.
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

// SECURITY: the time of a child that nobody waits for is gone with it.  So what has been seen is kept when the
// sum falls and stays down; once is not enough, since a child may be waited for while its parent is looked at.
static void count_time(struct cgroup_time *t, uint64_t now_us)
{
    if (now_us >= t->high_us) {
        t->high_us = now_us;
        t->falls = 0;
    } else if (++t->falls == 2) {
        t->lost_us += t->high_us - now_us;
        t->high_us = now_us;
        t->falls = 0;
    }
}

// Scratch holds memory whether or not a process has it mapped.
static uint64_t memory_bytes(const struct cgroup *cg, const struct sum *sum)
{
    struct statfs fs;
    uint64_t scratch = 0, shared = sum->shared_kb * 1024;
    if (cg->scratch >= 0 && fstatfs(cg->scratch, &fs) == 0)
        scratch = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return (sum->anonymous_kb + sum->tables_kb) * 1024 + (shared > scratch ? shared : scratch);
}

static void watch_usage(struct cgroup *cg, struct wire_usage *ret)
{
    struct sum sum = {0};
    uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    if (cg->pid > 0)
        walk(cg->pid, &sum);
    uint64_t memory = memory_bytes(cg, &sum);
    if (memory > cg->limits.memory_bytes) {
        // Forked processes share most of their pages: count again, each page once.
        sum = (struct sum){.exact = true};
        walk(cg->pid, &sum);
        memory = memory_bytes(cg, &sum);
    }
    if (memory > cg->peak_memory_bytes)
        cg->peak_memory_bytes = memory;
    cg->strays = sum.alive > 2 ? sum.alive - 2 : 0;
    if (sum.threads > cg->peak_processes)
        cg->peak_processes = sum.threads;
    if (sum.threads > cg->limits.processes)
        cg->process_hits =
            1; // at the limit, which is allowed; whether a fork was refused is not seen
    count_time(&cg->user, sum.user_ticks * tick_us);
    count_time(&cg->system, sum.system_ticks * tick_us);
    ret->cpu_user_us = cg->user.lost_us + cg->user.high_us;
    ret->cpu_system_us = cg->system.lost_us + cg->system.high_us;
    ret->peak_memory_bytes = cg->peak_memory_bytes;
    ret->peak_processes = cg->peak_processes;
    ret->process_hits = cg->process_hits;
    ret->memory_hits = memory > cg->limits.memory_bytes;
}

const struct cgroup_driver watch_driver = {
    .name = "watch",
    .kind = BOX_CGROUP_NONE,
    .box_flags = BOX_NPROC | BOX_ADDRESS_SPACE,
    .open = watch_open,
    .make = watch_make,
    .attach_fds = watch_attach_fds,
    .usage = watch_usage,
};
