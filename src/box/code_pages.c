// SPDX-License-Identifier: Apache-2.0
//
// code_pages: see code_pages.h.

#include "box/code_pages.h"

#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/maps.h"

// What x86-64 and arm64 with pages of 4 KiB have.
enum { LARGE = 2 << 20 };

struct span {
    uintptr_t start, end;
};

// What is only read lies before and behind the code, in the same file: with the same rights the
// kernel makes one mapping of the three.  SECURITY: constants can be executed then, inside a box,
// where code may map what it likes as executable anyway.
static int join(struct dl_phdr_info *info, size_t size, void *argument)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    (void)argument;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & (PF_W | PF_X)))
            continue;
        uintptr_t start = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
        uintptr_t end = (info->dlpi_addr + p->p_vaddr + p->p_memsz + page - 1) & ~(page - 1);
        (void)mprotect((void *)start, end - start, PROT_READ | PROT_EXEC);
    }
    return 0;
}

// The large pages that fit into the mapping around `inside`; all of it has the same rights.
static struct span find_large(uintptr_t inside)
{
    struct maps maps;
    struct mapping m;
    struct span found = {0, 0};
    if (maps_open(&maps) < 0)
        return found;
    while (maps_next(&maps, &m))
        if (inside >= m.start && inside < m.end && strcmp(m.mode, "r-xp") == 0)
            found = (struct span){(m.start + LARGE - 1) & ~(uintptr_t)(LARGE - 1),
                                  m.end & ~(uintptr_t)(LARGE - 1)};
    return found;
}

// Did the kernel give large pages?  Small ones would be a thousand entries more for every fork to
// copy.
static bool is_large(const struct span *s)
{
    _cleanup_fclose_ FILE *smaps = fopen("/proc/self/smaps", "re");
    char line[4096 + 256];
    struct span m = {0, 0};
    unsigned long kib;
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (line[0] < 'A' || line[0] > 'Z') // fields begin so, mappings with an address
            (void)sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &m.start, &m.end);
        else if (m.start <= s->start && m.end >= s->end &&
                 sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            return kib >= (s->end - s->start) >> 10;
    }
    return false;
}

// A copy at another address replaces the original in one call; what runs meanwhile is not in
// there, and would find the same bytes.
static void enlarge(const struct span *text)
{
    size_t length = text->end - text->start;
    char *room =
        mmap(NULL, length + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return;
    char *copy = (char *)(((uintptr_t)room + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
    const struct span there = {(uintptr_t)copy, (uintptr_t)copy + length};
    bool moved = false;
    if (madvise(copy, length, MADV_HUGEPAGE) == 0) {
        memcpy(copy, (const void *)text->start, length);
        moved = is_large(&there) && mprotect(copy, length, PROT_READ | PROT_EXEC) == 0 &&
                mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)text->start) !=
                    MAP_FAILED;
    }
    if (!moved) {
        (void)munmap(room, length + LARGE);
        return;
    }
    if (room < copy)
        (void)munmap(room, (size_t)(copy - room));
    if (copy < room + LARGE)
        (void)munmap(copy + length, (size_t)(room + LARGE - copy));
}

void code_pages_prepare(const void *inside)
{
    (void)dl_iterate_phdr(join, NULL);
    struct span text = find_large((uintptr_t)inside);
    if (text.start < text.end)
        enlarge(&text);
}
