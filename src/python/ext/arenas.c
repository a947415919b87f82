// SPDX-License-Identifier: Apache-2.0
//
// arenas: see arenas.h.  As in large.c: not in the limited API, but the same since 3.4.

#include "python/ext/arenas.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/maps.h"

enum { ARENAS_MAX = 1024 }; // 256 MiB at least; further ones are not recorded

// PyObjectArenaAllocator.
struct allocator {
    void *context;
    void *(*alloc)(void *context, size_t size);
    void (*free)(void *context, void *arena, size_t size);
};

typedef void (*access_fn)(struct allocator *allocator);

static struct allocator before;
static bool watching;
static struct image_area known[ARENAS_MAX];
static size_t known_count;

static void *take(void *context, size_t size)
{
    void *arena = before.alloc(context, size);
    if (arena && known_count < ARENAS_MAX)
        known[known_count++] = (struct image_area){(uintptr_t)arena, (uintptr_t)arena + size};
    return arena;
}

static void give_back(void *context, void *arena, size_t size)
{
    for (size_t i = 0; i < known_count; i++)
        if (known[i].start == (uintptr_t)arena) {
            known[i] = known[--known_count];
            break;
        }
    before.free(context, arena, size);
}

static access_fn find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    return (access_fn)function;
}

void arenas_watch(void)
{
    access_fn get = find("PyObject_GetArenaAllocator"), set = find("PyObject_SetArenaAllocator");
    if (watching || !get || !set)
        return;
    get(&before);
    set(&(struct allocator){before.context, take, give_back});
    watching = true;
}

// The head of a pool, at the start of a page; the same since 3.9 except for the size of a pool.
struct pool {
    uint64_t used;
    uintptr_t free_block, next, previous;
    uint32_t arena, size_index, next_offset, last_offset;
};

enum { POOL = 16 << 10, STEP = 16, SIZES = 32, ARENA_INDEX_MAX = 1 << 16 };

static bool is_pool(uintptr_t at)
{
    const struct pool *p = (const struct pool *)at;
    uint32_t size = (p->size_index + 1) * STEP;
    return p->size_index < SIZES && p->arena < ARENA_INDEX_MAX && p->last_offset == POOL - size &&
           p->next_offset <= POOL && p->next_offset >= sizeof *p + size &&
           (p->next_offset - sizeof *p) % size == 0 && p->used &&
           p->used <= (POOL - sizeof *p) / size &&
           (!p->free_block || (p->free_block >= at + sizeof *p && p->free_block < at + POOL));
}

// Reading memory that was never used maps it, and every fork then copies the entries.
static bool is_used(uintptr_t at)
{
    unsigned char there = 0;
    return mincore((void *)at, 1, &there) == 0 && (there & 1);
}

static void add_early(uintptr_t start, uintptr_t end)
{
    uintptr_t at = (start + POOL - 1) & ~(uintptr_t)(POOL - 1);
    for (; at + POOL <= end; at += POOL) {
        bool have = false;
        for (size_t i = 0; i < known_count && !have; i++)
            have = at < known[i].end && at + POOL > known[i].start;
        if (have || !is_used(at) || !is_pool(at))
            continue;
        if (known_count && known[known_count - 1].end == at)
            known[known_count - 1].end += POOL;
        else if (known_count < ARENAS_MAX)
            known[known_count++] = (struct image_area){at, at + POOL};
    }
}

static void find_early(void)
{
    struct maps maps;
    struct mapping m;
    if (maps_open(&maps) < 0)
        return;
    while (maps_next(&maps, &m))
        if (!*m.name && strcmp(m.mode, "rw-p") == 0)
            add_early(m.start, m.end);
}

size_t arenas_known(const struct image_area **areas)
{
    struct allocator now;
    *areas = known;
    if (!watching)
        return 0;
    find("PyObject_GetArenaAllocator")(&now);
    if (now.alloc != take)
        return 0; // a preload put its own allocator on top of ours, and may use arenas in its own
                  // way
    find("PyObject_SetArenaAllocator")(&before);
    watching = false;
    find_early();
    return known_count;
}
