// SPDX-License-Identifier: Apache-2.0
//
// watch: the driver for hosts without cgroups for the server: an ordinary user without delegation.
//
// rlimits bound what one process can do (address space, number of processes per user namespace,
// size of files); the sampler sums over the processes of a box what /proc says (keeper/procs.h),
// and the keeper ends the box when the sum is above the limit.  The sampler sees only what exists
// when it looks, every few milliseconds while a run is active; doctor says so.
//
// SECURITY: the keeper itself reads only clocks, which no box can hold up.  So the usage of a run
// is known without waiting: the last sample, and the exact clocks of the init and of the
// interpreter.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/file.h"
#include "keeper/cgroup.h"

static int watch_open(struct cgroup_root *root, struct err *e)
{
    (void)e;
    root->count = 0;
    root->look = SAMPLE_PROCESSES | SAMPLE_SOCKETS | SAMPLE_UNIX;
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

// ---- clocks -------------------------------------------------------------------------------------

// The clocks of any process have numbers made of its pid (clock_getcpuclockid(3)).
enum process_clock { CLOCK_BOTH, CLOCK_USER, CLOCK_EXACT };

static uint64_t clock_of(pid_t pid, enum process_clock clock)
{
    struct timespec t;
    clockid_t id = (clockid_t)(~(unsigned)pid << 3 | clock);
    if (pid <= 0 || clock_gettime(id, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

// The interpreter is the init's first child, for as long as there is a box.
static pid_t first_child(pid_t init)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", init, init);
    return file_read_at(AT_FDCWD, path, text, sizeof text) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

// The whole is exact; how it divides into user and system is sampled at the timer tick.
static void add_clocks(pid_t pid, uint64_t *user_us, uint64_t *system_us)
{
    uint64_t all = clock_of(pid, CLOCK_EXACT);
    uint64_t both = clock_of(pid, CLOCK_BOTH), user = clock_of(pid, CLOCK_USER);
    uint64_t system = both > user ? both - user : 0;
    if (system > all)
        system = all;
    *system_us += system;
    *user_us += all - system;
}

// ---- usage --------------------------------------------------------------------------------------

// SECURITY: the time of a child that is not waited for is lost with it.  So keep what was seen when
// the sum falls and stays down; one look is not enough, since a child may be waited for while its
// parent is looked at.
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

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// ---- shared memory without a name ---------------------------------------------------------------

// Shared memory without a name (MAP_SHARED and MAP_ANONYMOUS) keeps its size as long as any page of
// it is mapped, and pages in no page table show in no figure of any process.
// SECURITY: but the host's sum shows it.  Growth of that sum while a box works, for which no box
// accounts, counts as this box's if it has such memory.  Other programs may fill a tmpfs meanwhile:
// then a box that has such memory and works just then may be ended too early.
static uint64_t accounted_bytes; // shared memory and scratch of all boxes

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// Takes about 20 us; no box can hold it up.
static uint64_t host_shared_bytes(void)
{
    uint64_t kb = 0;
    (void)file_read_key_at(AT_FDCWD, "/proc/meminfo", "Shmem:", &kb);
    return kb * 1024;
}

static void watch_start(struct cgroup *cg)
{
    struct cgroup_shared *s = &cg->shared;
    s->hidden_bytes = s->floor_bytes = less(host_shared_bytes(), accounted_bytes);
}

static void watch_ask(struct cgroup *cg, struct wire_sample *ask)
{
    struct cgroup_shared *s = &cg->shared;
    s->host_bytes = host_shared_bytes();
    ask->unexplained_bytes =
        less(s->host_bytes, accounted_bytes - s->accounted_bytes + s->floor_bytes);
}

static void look_for_nameless(struct cgroup_shared *s, const struct wire_sampled *m)
{
    accounted_bytes += m->shared_bytes - s->accounted_bytes;
    s->accounted_bytes = m->shared_bytes;
    uint64_t hidden = less(s->host_bytes, accounted_bytes);
    if (hidden < s->floor_bytes)
        s->floor_bytes = hidden;
    else if (m->ran_ns == s->ran_ns)
        s->floor_bytes += less(hidden, s->hidden_bytes); // the box was idle meanwhile
    s->ran_ns = m->ran_ns;
    s->hidden_bytes = hidden;
}

// Its shared memory is gone with it.
static void watch_gone(struct cgroup *cg)
{
    accounted_bytes -= cg->shared.accounted_bytes;
    cg->shared.accounted_bytes = 0;
}

// -------------------------------------------------------------------------------------------------

static void watch_sampled(struct cgroup *cg, const struct wire_sampled *m)
{
    uint64_t sockets = m->socket_bytes > cg->limits.memory_bytes / 2 ? m->socket_bytes : 0;
    uint64_t memory = m->memory_bytes;
    if (m->threads) // else there were too many sockets, and the look ended there
        look_for_nameless(&cg->shared, m);
    if (m->nameless)
        memory += less(cg->shared.hidden_bytes, cg->shared.floor_bytes);
    cg->peak_memory_bytes = larger(cg->peak_memory_bytes, memory + sockets);
    cg->peak_processes = larger(cg->peak_processes, m->threads);
    cg->strays = m->alive > 2 ? m->alive - 2 : 0;
    if (m->threads > cg->limits.processes)
        cg->process_hits = 1; // at the limit, which is allowed; a refused fork is not visible
    cg->memory_hits = memory > cg->limits.memory_bytes;
    count_time(&cg->user, m->cpu_user_us);
    count_time(&cg->system, m->cpu_system_us);
}

static void watch_usage(struct cgroup *cg, struct wire_usage *ret)
{
    uint64_t user_us = 0, system_us = 0;
    if (cg->pid > 0 && cg->child <= 0)
        cg->child = first_child(cg->pid);
    add_clocks(cg->pid, &user_us, &system_us);
    add_clocks(cg->child, &user_us, &system_us);
    ret->cpu_user_us = larger(cg->user.lost_us + cg->user.high_us, user_us);
    ret->cpu_system_us = larger(cg->system.lost_us + cg->system.high_us, system_us);
    if (cg->peak_memory_bytes)
        ret->peak_memory_bytes = cg->peak_memory_bytes;
    if (cg->peak_processes)
        ret->peak_processes = cg->peak_processes;
    ret->process_hits = cg->process_hits;
    ret->memory_hits = cg->memory_hits;
}

const struct cgroup_driver watch_driver = {
    .name = "watch",
    .kind = BOX_CGROUP_NONE,
    .box_flags = BOX_NPROC | BOX_ADDRESS_SPACE,
    .open = watch_open,
    .make = watch_make,
    .attach_fds = watch_attach_fds,
    .usage = watch_usage,
    .start = watch_start,
    .ask = watch_ask,
    .gone = watch_gone,
    .sampled = watch_sampled,
};
