// SPDX-License-Identifier: Apache-2.0
//
// warm: see warm.h.

#include "box/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef MADV_POPULATE_READ // Linux 5.14
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

// Bits of /proc/self/pagemap that need no privilege.
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_FILE_OR_SHARED (UINT64_C(1) << 61)
#define PAGE_EXCLUSIVE (UINT64_C(1) << 56)

enum { RANGES_MAX = 4096 };

struct range {
    uintptr_t start;
    size_t length;
    int advice;
};

// One for boxes that nobody waits for yet, one for those in a hurry.
static struct {
    struct range ranges[RANGES_MAX];
    size_t count;
} sets[2];

// Of the child that rehearses: what it finds.
static struct range ranges[RANGES_MAX];
static size_t range_count;

static void add_page(uintptr_t page, size_t size, int advice)
{
    struct range *last = range_count ? &ranges[range_count - 1] : NULL;
    if (last && page == last->start + last->length && advice == last->advice)
        last->length += size;
    else if (range_count < RANGES_MAX)
        ranges[range_count++] = (struct range){page, size, advice};
}

// Private memory: pages that are no longer shared with the zygote were written to.  Files (the code
// of the interpreter, the zygote's image): pages that are there were used, and a fork does not bring
// them along.
static void consider(uint64_t entry, uintptr_t page, size_t size, bool writable)
{
    if (!(entry & PAGE_PRESENT))
        return;
    if (entry & PAGE_FILE_OR_SHARED)
        add_page(page, size, MADV_POPULATE_READ);
    else if (writable && (entry & PAGE_EXCLUSIVE))
        add_page(page, size, MADV_POPULATE_WRITE);
}

static int add_mapping(int pagemap, uintptr_t start, uintptr_t end, size_t size, bool writable)
{
    uint64_t entries[512];
    for (uintptr_t at = start; at < end;) {
        size_t want = (end - at) / size;
        if (want > 512)
            want = 512;
        ssize_t n =
            pread(pagemap, entries, want * sizeof *entries, (off_t)(at / size * sizeof *entries));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        for (size_t i = 0; i < (size_t)n / sizeof *entries; i++, at += size)
            consider(entries[i], at, size, writable);
    }
    return 0;
}

int warm_report(int fd)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    _cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
    _cleanup_close_ int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char line[4096 + 256];
    if (!maps || pagemap < 0)
        return -errno;
    range_count = 0;
    while (fgets(line, sizeof line, maps)) {
        uintptr_t start, end;
        char mode[5];
        // The stack is left out: a box's own steps have written to it by the time this is used.
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, mode) != 3 ||
            strstr(line, "[stack]") || strstr(line, "[v"))
            continue;
        bool writable = mode[1] == 'w';
        if (mode[0] != 'r' || mode[3] != 'p')
            continue;
        int r = add_mapping(pagemap, start, end, size, writable);
        if (r < 0)
            return r;
    }
    return fd_write_all(fd, ranges, range_count * sizeof ranges[0]);
}

int warm_take(int fd, bool hurry)
{
    size_t have = 0;
    ssize_t n;
    while ((n = read(fd, (char *)sets[hurry].ranges + have, sizeof sets[hurry].ranges - have)) > 0)
        have += (size_t)n;
    sets[hurry].count = have / sizeof ranges[0];
    return n < 0 ? -errno : 0;
}

void warm_touch(bool hurry)
{
    const struct range *r = sets[hurry].ranges;
    for (size_t i = 0; i < sets[hurry].count; i++) {
        if (hurry && r[i].advice == MADV_POPULATE_READ)
            continue; // mapping 1,150 pages of code costs more than the 55 faults that it saves
        if (madvise((void *)r[i].start, r[i].length, r[i].advice) < 0 && errno == EINVAL)
            return; // an older kernel: pages are copied when they are written to
    }
}

void warm_map(void)
{
    const struct range *r = sets[true].ranges;
    for (size_t i = 0; i < sets[true].count; i++)
        if (madvise((void *)r[i].start, r[i].length, MADV_POPULATE_READ) < 0 && errno == EINVAL)
            return;
}
