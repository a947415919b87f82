// SPDX-License-Identifier: Apache-2.0
//
// pages: see pages.h.

#include "box/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/maps.h"

enum {
    AREAS_MAX = 1024,
    RANGES_MAX = 4096,
    // Each makes two mappings more, of which a process may have 65,530 by default.
    SPLITS_MAX = 24 << 10,
};

struct area {
    uintptr_t start, end;
    bool writable, file;
};

struct range {
    uintptr_t start;
    size_t length;
    bool written; // or only read
};

struct set {
    struct range ranges[RANGES_MAX];
    size_t count;
};

// One for boxes made ahead, one for those in a hurry.
static struct set sets[2];

// Shared with the child that rehearses: its writes to other memory are what it reports.
// SECURITY: gone before the first box.
static struct desk {
    struct area areas[AREAS_MAX];
    size_t area_count;
    struct set found;
} * desk;

static size_t page_size;

// ---- looking ------------------------------------------------------------------------------------

int pages_begin(void)
{
    struct maps maps;
    struct mapping m;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    if (!desk) {
        void *room =
            mmap(NULL, sizeof *desk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            return -errno;
        desk = room;
    }
    desk->area_count = desk->found.count = 0;
    int r = maps_open(&maps);
    if (r < 0)
        return r;
    while (maps_next(&maps, &m)) {
        // Not the stack: the steps that make a box have written to it by then.
        bool private = m.mode[0] == 'r' && m.mode[3] == 'p';
        if (private && strcmp(m.name, "[stack]") != 0 && strncmp(m.name, "[v", 2) != 0 &&
            desk->area_count < AREAS_MAX)
            desk->areas[desk->area_count++] =
                (struct area){m.start, m.end, m.mode[1] == 'w', m.file};
    }
    return maps.failed ? -EIO : 0;
}

typedef void (*page_fn)(const struct area *a, uintptr_t page, uint64_t entry);

// Calls `each` for the pages that are present.
static int look(page_fn each)
{
    uint64_t entries[512];
    _cleanup_close_ int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        return -errno;
    for (const struct area *a = desk->areas; a < desk->areas + desk->area_count; a++)
        for (uintptr_t at = a->start; at < a->end;) {
            size_t want = (a->end - at) / page_size;
            size_t bytes = (want < 512 ? want : 512) * sizeof *entries;
            ssize_t n = pread(pagemap, entries, bytes, (off_t)(at / page_size * sizeof *entries));
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            for (size_t i = 0; i < (size_t)n / sizeof *entries; i++, at += page_size)
                if (entries[i] & PAGE_PRESENT)
                    each(a, at, entries[i]);
        }
    return 0;
}

// Drops pages of the file, which come back when they are read; written pages stay.
static void forget(const struct area *a, uintptr_t page, uint64_t entry)
{
    if (a->file && (entry & PAGE_FILE_OR_SHARED))
        (void)madvise((void *)page, page_size, MADV_DONTNEED);
}

// ---- the rehearsing child -----------------------------------------------------------------------

// When a page is read the kernel maps its neighbours too, as far as the mapping goes.  So this
// makes each page a mapping of its own, by setting MADV_DONTDUMP on every second one.  The flag has
// no other effect here, because there are no core dumps.
void pages_watch(void)
{
    size_t splits = 0;
    (void)look(forget);
    for (const struct area *a = desk->areas; a < desk->areas + desk->area_count; a++)
        for (uintptr_t at = a->start; a->file && at < a->end; at += 2 * page_size)
            if (splits++ == SPLITS_MAX || madvise((void *)at, page_size, MADV_DONTDUMP) < 0)
                return; // there can be only so many
}

static void add_page(struct set *s, uintptr_t page, bool written)
{
    struct range *last = s->count ? &s->ranges[s->count - 1] : NULL;
    if (last && page == last->start + last->length && written == last->written)
        last->length += page_size;
    else if (s->count < RANGES_MAX)
        s->ranges[s->count++] = (struct range){page, page_size, written};
}

// Pages of a file that are there were read.  Others that are no longer shared with the zygote were
// written to.
static void consider(const struct area *a, uintptr_t page, uint64_t entry)
{
    if (entry & PAGE_FILE_OR_SHARED)
        add_page(&desk->found, page, false);
    else if (a->writable && (entry & PAGE_EXCLUSIVE))
        add_page(&desk->found, page, true);
}

int pages_report(void)
{
    return look(consider);
}

// ---- the zygote, and stems ----------------------------------------------------------------------

void pages_take(bool hurry)
{
    memcpy(sets[hurry].ranges, desk->found.ranges,
           desk->found.count * sizeof desk->found.ranges[0]);
    sets[hurry].count = desk->found.count;
}

static const struct area *area_of(uintptr_t page)
{
    for (const struct area *a = desk->areas; a < desk->areas + desk->area_count; a++)
        if (page >= a->start && page < a->end)
            return a;
    return NULL;
}

// Each page is touched by a fault, which takes 1.6 us; MADV_POPULATE_WRITE takes 2.7 us for a
// single page and gains nothing for two or three.  The write changes nothing, and reads nothing
// first: a read would be one more fault.
static void touch(const struct range *r)
{
    static volatile char nothing; // so that the compiler does not see what is written
    const char zero = nothing;
    volatile char *end = (volatile char *)r->start + r->length;
    for (volatile char *at = (volatile char *)r->start; at < end; at += page_size) {
        if (r->written)
            (void)__atomic_fetch_or(at, zero, __ATOMIC_RELAXED);
        else
            (void)*at;
    }
}

// Just these pages and none of their neighbours: see pages_watch().
static void map_exactly(const struct range *r)
{
    void *at = (void *)r->start;
    if (madvise(at, r->length, MADV_DONTDUMP) < 0)
        return;
    touch(r);
    (void)madvise(at, r->length, MADV_DODUMP);
}

// Writes to one page in each page table.  Without a private page a fork does not copy the entries
// of a mapping; and where there is no table yet, a read maps a large page if the address is in one.
static void make_own(const struct area *a, uintptr_t page)
{
    static uintptr_t last;
    const uintptr_t table = page / page_size / (page_size / sizeof(uint64_t)) + 1;
    if (table != last && a->writable)
        map_exactly(&(struct range){page, page_size, true});
    last = table;
}

static void map_what_is_read(void)
{
    const struct range *end = sets[true].ranges + sets[true].count;
    if (sets[true].count == 0 || pages_begin() < 0)
        return;
    for (int pass = 0; pass < 2; pass++) {
        for (const struct range *r = sets[true].ranges; r < end; r++) {
            const struct area *a = area_of(r->start);
            if (!a || !a->file)
                continue;
            if (pass == 0)
                make_own(a, r->start);
            else if (!r->written)
                map_exactly(r);
        }
        if (pass == 0)
            (void)look(forget);
    }
}

void pages_end(void)
{
    if (desk)
        (void)munmap(desk, sizeof *desk);
    desk = NULL;
}

void pages_map(void)
{
    map_what_is_read();
    pages_end();
}

void pages_touch(bool hurry, bool mapped)
{
    const struct range *end = sets[hurry].ranges + sets[hurry].count;
    for (const struct range *r = sets[hurry].ranges; r < end; r++)
        if (r->written || !hurry || !mapped) // else the fork has brought them
            touch(r);
}
