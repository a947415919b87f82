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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "keeper/cgroup.h"

enum { MEMORY, PIDS, CPUACCT, CONTROLLERS };

static const char *const controllers[CONTROLLERS] = {"memory", "pids", "cpuacct"};

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
        // Being root says nothing (a container may have it read-only): making a group does.
        root->dir[i] = cgroup_make_dir(root->parent[i], root->name);
        if (root->dir[i] < 0) {
            r = root->dir[i];
            root->dir[i] = -1;
            return err_set(e, ERR_LAYER_MISSING, -r, NULL, "make a group in '%s'", path);
        }
        root->count++;
    }
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
    if (r == 0)
        r = file_write_u64_at(cg->dir[PIDS], "pids.max", (uint64_t)l->processes + 1);
    return r < 0 ? err_set(e, ERR_SYSTEM, -r, NULL, "set the limits of cgroup '%s'", cg->name) : 0;
}

static int cgroup1_attach_fds(const struct cgroup *cg, int *fds)
{
    for (int i = 0; i < CONTROLLERS; i++) {
        fds[i] = openat(cg->dir[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (fds[i] < 0) {
            int r = -errno;
            while (i-- > 0)
                fd_close(&fds[i]);
            return r;
        }
    }
    return CONTROLLERS;
}

// The sum is exact; how it divides into user and system is sampled at the timer tick.
static void cgroup1_cpu(struct cgroup *cg, struct wire_usage *ret)
{
    int dir = cg->dir[CPUACCT];
    uint64_t total = 0, system = 0;
    if (file_read_u64_at(dir, "cpuacct.usage", &total) < 0)
        return;
    (void)file_read_u64_at(dir, "cpuacct.usage_sys", &system);
    if (system > total)
        system = total;
    ret->cpu_user_us = (total - system) / 1000;
    ret->cpu_system_us = system / 1000;
}

static void cgroup1_usage(struct cgroup *cg, struct wire_usage *ret)
{
    // Every file costs some microseconds of a run's answer, so those that can only say "no" are left
    // out: far below its limit a box has met none.  (The kernel charges in batches: hence the slack.)
    const uint64_t slack = 16 << 20;
    cgroup1_cpu(cg, ret);
    (void)file_read_u64_at(cg->dir[MEMORY], "memory.max_usage_in_bytes", &ret->peak_memory_bytes);
    if (ret->peak_memory_bytes + slack > cg->limits.memory_bytes ||
        ret->peak_memory_bytes == UINT64_MAX)
        (void)file_read_key_at(cg->dir[MEMORY], "memory.oom_control", "oom_kill",
                               &ret->memory_hits);
    (void)file_read_u64_at(cg->dir[PIDS], "pids.peak", &ret->peak_processes);
    if (ret->peak_processes > cg->limits.processes) // or no such file: UINT64_MAX
        (void)file_read_key_at(cg->dir[PIDS], "pids.events", "max", &ret->process_hits);
}

const struct cgroup_driver cgroup1_driver = {
    .name = "v1",
    .kind = BOX_CGROUP_V1,
    .open = cgroup1_open,
    .make = cgroup1_make,
    .attach_fds = cgroup1_attach_fds,
    .usage = cgroup1_usage,
    .cpu = cgroup1_cpu,
};
