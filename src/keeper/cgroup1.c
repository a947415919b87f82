// SPDX-License-Identifier: Apache-2.0
//
// cgroup1: the driver for version 1 hierarchies (memory, pids, cpuacct, each with its own mount).
//
// Writing another process into a group waits for an RCU grace period after a pause; a process that
// writes "0" into `tasks` for itself does not.  So boxes get the opened `tasks` files and move
// themselves as their first act (box/enter.c); the kernel checks the credentials of the opener.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "keeper/cgroup.h"

enum { MEMORY, PIDS, CPUACCT, CONTROLLERS };

// Version 1 charges the buffers of TCP and UDP apart from all other memory, and only where there is
// a limit for them.  It is a soft one: each socket gets its first packet.  So the keeper looks at
// the sum as well (keeper/tick.c).
#define SOCKETS_LIMIT "memory.kmem.tcp.limit_in_bytes"

static const char *const controllers[CONTROLLERS] = {"memory", "pids", "cpuacct"};

// Files that are opened once for each group.  Boxes enter by the first three.
enum {
    IN_MEMORY,
    IN_PIDS,
    IN_CPUACCT,
    PEAK,
    OOM,
    PIDS_NOW,
    PIDS_PEAK,
    PIDS_EVENTS,
    CPU,
    CPU_SYS,
    SOCKETS,
    FILES
};

static const struct {
    int controller;
    const char *name;
    int mode;
    bool optional;
} files[FILES] = {
    [IN_MEMORY] = {MEMORY, "tasks", O_WRONLY, false},
    [IN_PIDS] = {PIDS, "tasks", O_WRONLY, false},
    [IN_CPUACCT] = {CPUACCT, "tasks", O_WRONLY, false},
    [PEAK] = {MEMORY, "memory.max_usage_in_bytes", O_RDWR, false},
    [OOM] = {MEMORY, "memory.oom_control", O_RDONLY, true},
    [PIDS_NOW] = {PIDS, "pids.current", O_RDONLY, false},
    [PIDS_PEAK] = {PIDS, "pids.peak", O_RDONLY, true}, // Linux 6.10
    [PIDS_EVENTS] = {PIDS, "pids.events", O_RDONLY, true},
    [CPU] = {CPUACCT, "cpuacct.usage", O_RDONLY, false},
    [CPU_SYS] = {CPUACCT, "cpuacct.usage_sys", O_RDONLY, true},
    [SOCKETS] = {MEMORY, "memory.kmem.tcp.usage_in_bytes", O_RDONLY, true}, // deprecated since 6.12
};

enum {
    SLACK = 16 << 20,      // the kernel charges in batches, so "near the limit" begins before it
    RESIDUE_MAX = 1 << 20, // what a box may leave behind in a group that is used again
    PROCESSES_ALWAYS = 2,  // init and the user process
    SOCKETS_SHARE = 4,     // of the memory limit is what TCP and UDP may have on top of it
};

static int cgroup1_open(struct cgroup_root *root, struct err *e)
{
    for (int i = 0; i < CONTROLLERS; i++) {
        char path[PATH_MAX];
        int r = cgroup_own_path(controllers[i], path, sizeof path);
        if (r < 0)
            return err_set(e, ERR_LAYER_MISSING, 0, NULL, "controller '%s' is not mounted",
                           controllers[i]);
        root->parent[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root->parent[i] < 0)
            return err_set(e, ERR_LAYER_MISSING, errno, NULL, "open '%s'", path);
        cgroup_sweep(root->parent[i]);
        // Being root proves nothing (in a container it may be read-only): making a group does.
        root->dir[i] = cgroup_make_dir(root->parent[i], root->name);
        if (root->dir[i] < 0) {
            r = root->dir[i];
            root->dir[i] = -1;
            return err_set(e, ERR_LAYER_MISSING, -r, NULL, "make a group in '%s'", path);
        }
        root->count++;
    }
    root->look =
        SAMPLE_SOCKETS; // a connection is charged when it is accepted; some kernels charge none
    return 0;
}

static int cgroup1_make(const struct cgroup_root *root, struct cgroup *cg, struct err *e)
{
    const struct wire_limits *l = &cg->limits;
    (void)root;
    // The plain limit before the one with swap: the kernel refuses memsw < memory.
    int r = file_write_u64_at(cg->dir[MEMORY], "memory.limit_in_bytes", l->memory_bytes);
    if (r == 0) {
        r = file_write_u64_at(cg->dir[MEMORY], "memory.memsw.limit_in_bytes", l->memory_bytes);
        if (r == -ENOENT) // a kernel without swap accounting
            r = file_write_u64_at(cg->dir[MEMORY], "memory.swappiness", 0);
    }
    if (r == 0) {
        r = file_write_u64_at(cg->dir[MEMORY], SOCKETS_LIMIT, l->memory_bytes / SOCKETS_SHARE);
        r = r == -ENOENT ? 0 : r; // a kernel that does not charge them: the sampler counts
    }
    if (r == 0)
        r = file_write_u64_at(cg->dir[PIDS], "pids.max", (uint64_t)l->processes + 1);
    if (r < 0)
        return err_set(e, ERR_SYSTEM, -r, NULL, "set the limits of cgroup '%s'", cg->name);
    for (int i = 0; i < FILES; i++) {
        cg->file[i] =
            openat(cg->dir[files[i].controller], files[i].name, files[i].mode | O_CLOEXEC);
        if (cg->file[i] < 0 && !(files[i].optional && errno == ENOENT))
            return err_set(e, ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                           "open '%s' of cgroup '%s'", files[i].name, cg->name);
    }
    for (int i = 0; i < CONTROLLERS; i++)
        fd_close(&cg->dir[i]);
    return 0;
}

static int cgroup1_attach_fds(const struct cgroup *cg, int *fds)
{
    for (int i = 0; i < CONTROLLERS; i++)
        fds[i] = cg->file[i];
    return CONTROLLERS;
}

// How often a limit was met; 0 when the kernel does not say.
static uint64_t hits(const struct cgroup *cg, int file, const char *key)
{
    uint64_t value = 0;
    (void)file_read_key(cg->file[file], key, &value);
    return value;
}

// The sum is exact; how it divides into user and system is sampled at the timer tick.
static void cgroup1_cpu(struct cgroup *cg, struct wire_usage *ret)
{
    uint64_t total = 0, system = 0;
    if (file_read_u64(cg->file[CPU], &total) < 0)
        return;
    (void)file_read_u64(cg->file[CPU_SYS], &system);
    if (system > total)
        system = total;
    ret->cpu_user_us = (total - system) / 1000;
    ret->cpu_system_us = system / 1000;
}

static bool is_near_limit(const struct cgroup *cg, uint64_t peak_bytes)
{
    return peak_bytes == UINT64_MAX || peak_bytes + SLACK > cg->limits.memory_bytes;
}

static void cgroup1_usage(struct cgroup *cg, struct wire_usage *ret)
{
    // Every file costs some microseconds of a run's answer, so skip those that can only say "no":
    // far below its limit a box has not met it.
    cgroup1_cpu(cg, ret);
    (void)file_read_u64(cg->file[PEAK], &ret->peak_memory_bytes);
    if (is_near_limit(cg, ret->peak_memory_bytes))
        ret->memory_hits = hits(cg, OOM, "oom_kill");
    (void)file_read_u64(cg->file[PIDS_PEAK], &ret->peak_processes);
    if (ret->peak_processes > cg->limits.processes) // or no such file: UINT64_MAX
        ret->process_hits = hits(cg, PIDS_EVENTS, "max");
}

static uint64_t cgroup1_socket_bytes(const struct cgroup *cg)
{
    uint64_t bytes = 0;
    (void)file_read_u64(cg->file[SOCKETS], &bytes);
    return bytes;
}

// Counters that cannot be reset (pids.peak, pids.events, oom_kill) must have the values of a fresh
// box; the others are reset, or counted from their current value.
static bool cgroup1_clear(const struct cgroup *cg)
{
    uint64_t now = UINT64_MAX, processes = UINT64_MAX, peak = UINT64_MAX, residue = UINT64_MAX;
    (void)file_read_u64(cg->file[PIDS_NOW], &now);
    (void)file_read_u64(cg->file[PIDS_PEAK], &processes);
    (void)file_read_u64(cg->file[PEAK], &peak);
    if (now != 0 || processes > PROCESSES_ALWAYS || is_near_limit(cg, peak) ||
        // A box for one process meets its limit with as many as are in every box; and where there
        // is swap, one can be out of memory with little of it in use.
        cgroup1_socket_bytes(cg) != 0 || hits(cg, PIDS_EVENTS, "max") != 0 ||
        hits(cg, OOM, "oom_kill") != 0 || pwrite(cg->file[PEAK], "0", 1, 0) != 1)
        return false;
    (void)file_read_u64(cg->file[PEAK], &residue);
    return residue <= RESIDUE_MAX;
}

const struct cgroup_driver cgroup1_driver = {
    .name = "v1",
    .kind = BOX_CGROUP_V1,
    .open = cgroup1_open,
    .make = cgroup1_make,
    .attach_fds = cgroup1_attach_fds,
    .clear = cgroup1_clear,
    .usage = cgroup1_usage,
    .cpu = cgroup1_cpu,
    .socket_bytes = cgroup1_socket_bytes,
    .meter_files = {{CPUACCT, "cpuacct.usage"},
                    {CPUACCT, "cpuacct.usage_sys"},
                    {MEMORY, "memory.max_usage_in_bytes"},
                    {PIDS, "pids.peak"}},
};
