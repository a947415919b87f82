// SPDX-License-Identifier: Apache-2.0
//
// meter: see meter.h.  The files come in the order of meter_files in keeper/cgroup1.c and
// cgroup2.c.

#include "run/meter.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"

enum { SLACK_BYTES = 16 << 20, TEXT_MAX = 1024 }; // the kernel charges memory in batches

// The number after `key`, in text that the kernel wrote.
static bool find_number(const char *text, const char *key, uint64_t *ret)
{
    const char *at = strstr(text, key);
    if (!at)
        return false;
    *ret = strtoull(at + strlen(key), NULL, 10);
    return true;
}

static bool read_v1(const struct meter *m, struct wire_usage *ret)
{
    uint64_t total, system;
    if (file_read_u64(m->fd[0], &total) < 0 || file_read_u64(m->fd[1], &system) < 0 ||
        file_read_u64(m->fd[2], &ret->peak_memory_bytes) < 0 ||
        file_read_u64(m->fd[3], &ret->peak_processes) < 0)
        return false;
    system = system < total ? system : total;
    ret->cpu_user_us = (total - system) / 1000;
    ret->cpu_system_us = system / 1000;
    return true;
}

static bool read_v2(const struct meter *m, struct wire_usage *ret)
{
    char text[TEXT_MAX];
    ssize_t n = pread(m->fd[0], text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return find_number(text, "user_usec ", &ret->cpu_user_us) &&
           find_number(text, "system_usec ", &ret->cpu_system_us) &&
           file_read_u64(m->fd[1], &ret->peak_memory_bytes) == 0 &&
           file_read_u64(m->fd[2], &ret->peak_processes) == 0;
}

static bool read_all(const struct meter *m, struct wire_usage *ret)
{
    *ret = (struct wire_usage){.scratch_free_bytes = UINT64_MAX, .scratch_free_inodes = UINT64_MAX};
    if (m->kind == BOX_CGROUP_V1 && m->count == 4)
        return read_v1(m, ret);
    return m->kind == BOX_CGROUP_V2 && m->count == 3 && read_v2(m, ret);
}

void meter_open(struct meter *m, enum box_cgroup_kind kind, const int *fds, size_t count)
{
    struct wire_usage now;
    *m = (struct meter){.kind = kind, .count = (unsigned)count};
    memcpy(m->fd, fds, count * sizeof *fds);
    if (!count)
        return;
    if (!read_all(m, &now)) {
        meter_close(m);
        return;
    }
    m->cpu_user_us = now.cpu_user_us;
    m->cpu_system_us = now.cpu_system_us;
}

void meter_close(struct meter *m)
{
    for (unsigned i = 0; i < m->count; i++)
        fd_close(&m->fd[i]);
    m->count = 0;
}

bool meter_peek(const struct meter *m, struct wire_usage *ret)
{
    if (!m->count || !read_all(m, ret))
        return false;
    ret->cpu_user_us -= ret->cpu_user_us > m->cpu_user_us ? m->cpu_user_us : ret->cpu_user_us;
    ret->cpu_system_us -=
        ret->cpu_system_us > m->cpu_system_us ? m->cpu_system_us : ret->cpu_system_us;
    return true;
}

static uint64_t take_step(uint64_t *before, uint64_t now)
{
    uint64_t step =
        now > *before ? now - *before : 0; // user and system are sampled, and may go back
    *before = now;
    return step;
}

bool meter_read(struct meter *m, const struct wire_limits *limits, struct wire_usage *ret)
{
    if (!m->count || !read_all(m, ret))
        return false;
    ret->cpu_user_us = take_step(&m->cpu_user_us, ret->cpu_user_us);
    ret->cpu_system_us = take_step(&m->cpu_system_us, ret->cpu_system_us);
    m->most_bytes = ret->peak_memory_bytes;
    ret->peak_processes -= ret->peak_processes > 0; // the box's init does not count
    return ret->peak_memory_bytes + SLACK_BYTES < limits->memory_bytes &&
           ret->peak_processes <= limits->processes;
}
