// SPDX-License-Identifier: Apache-2.0
//
// spawn_message: see spawn_message.h.

#include "box/spawn_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "box/filter.h"
#include "box/mounts.h"
#include "box/spawn.h"

static struct sock_fprog filters[FILTER_PARTS];
static uint64_t base_as_bytes;

// The places in the filters where the memory limit of the next box belongs.
static struct limit_word {
    uint32_t *value;
    bool high;
} limit_words[FILTER_PARTS * 8];
static size_t limit_word_count;

static void find_limit_words(struct sock_filter *code, size_t count)
{
    for (size_t i = 0; i < count && limit_word_count < ARRAY_LEN(limit_words); i++)
        if (code[i].k == FILTER_LIMIT_HIGH || code[i].k == FILTER_LIMIT_LOW)
            limit_words[limit_word_count++] =
                (struct limit_word){&code[i].k, code[i].k == FILTER_LIMIT_HIGH};
}

static void put_limit(uint64_t memory_bytes)
{
    for (size_t i = 0; i < limit_word_count; i++)
        *limit_words[i].value = (uint32_t)(limit_words[i].high ? memory_bytes >> 32 : memory_bytes);
}

// The halves of the filter, see box/filter.h.
static int read_filter(void)
{
    struct filter_head head;
    struct stat st;
    if (fstat(ZYGOTE_FILTER_FD, &st) < 0)
        return -errno;
    if (pread(ZYGOTE_FILTER_FD, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return -EIO;
    size_t all = 0;
    for (size_t i = 0; i < FILTER_PARTS; i++) {
        if (!head.counts[i] || head.counts[i] > FILTER_MAX)
            return -EINVAL;
        all += head.counts[i];
    }
    size_t bytes = all * sizeof(struct sock_filter);
    if (st.st_size != (off_t)(sizeof head + bytes))
        return -EINVAL;
    struct sock_filter *code = malloc(bytes);
    if (!code)
        return -ENOMEM;
    if (pread(ZYGOTE_FILTER_FD, code, bytes, sizeof head) != (ssize_t)bytes) {
        free(code);
        return -EIO;
    }
    for (size_t i = 0; i < FILTER_PARTS; i++) {
        filters[i] = (struct sock_fprog){(unsigned short)head.counts[i], code};
        find_limit_words(code, head.counts[i]);
        code += head.counts[i];
    }
    (void)close(ZYGOTE_FILTER_FD);
    return 0;
}

static int measure_address_space(void)
{
    char text[128];
    ssize_t n = file_read_at(ZYGOTE_PROC_FD, "self/statm", text, sizeof text);
    if (n < 0)
        return (int)n;
    base_as_bytes = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

int spawn_message_prepare(void)
{
    int r = read_filter();
    if (r == 0)
        r = mounts_find_covered();
    return r < 0 ? r : measure_address_space();
}

const struct sock_fprog *spawn_message_first_filter(void)
{
    return &filters[FILTER_PART_FIRST];
}

int spawn_message_plan(const struct wire_spawn *m, const int *fds, size_t count,
                       struct box_plan *ret)
{
    const bool inet = box_has_inet(m->flags);
    if (m->cgroup_fds > BOX_CGROUP_FDS_MAX || count != 1 + m->cgroup_fds + (m->stem ? 1 : 0) ||
        m->slot >= WIRE_SLOTS)
        return -EPROTO;
    *ret = (struct box_plan){
        .box = m->box,
        .slot = m->slot,
        .limits = m->limits,
        .uid_slot = m->uid_slot,
        .flags = m->flags,
        .landlock_abi = m->landlock_abi,
        .cgroup_kind = m->cgroup_kind,
        .cgroup_fds = m->cgroup_fds,
        .control_fd = fds[0],
        .proc_fd = ZYGOTE_PROC_FD,
        .base_as_bytes = base_as_bytes,
        .filter = filters[inet ? FILTER_PART_LAST_NETWORK : FILTER_PART_LAST],
        .telling_filter = filters[inet ? FILTER_PART_TELL_NETWORK : FILTER_PART_TELL],
    };
    put_limit(m->limits.memory_bytes);
    memcpy(ret->cgroup_fd, fds + 1, sizeof(int) * m->cgroup_fds);
    return 0;
}

void *spawn_message_bookkeeping(size_t size)
{
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room == MAP_FAILED || madvise(room, size, MADV_DONTFORK) < 0 ? NULL : room;
}

static uint64_t microseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

void spawn_message_exited(uint64_t box, int status, const struct rusage *usage,
                          struct wire_exited *ret)
{
    ret->box = box;
    ret->status = status;
    ret->spent = 0;
    ret->cpu_user_us = microseconds(usage->ru_utime);
    ret->cpu_system_us = microseconds(usage->ru_stime);
    ret->max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024;
}
