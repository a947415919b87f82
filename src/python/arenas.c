// SPDX-License-Identifier: Apache-2.0
//
// arenas: see arenas.h.  As in large.c: not in the limited API, but the same since 3.4.

#include "python/arenas.h"

#include <dlfcn.h>
#include <stdbool.h>

enum { ARENAS_MAX = 1024 }; // 256 MiB at least; those beyond are not known

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

size_t arenas_known(const struct image_area **areas)
{
    struct allocator now;
    *areas = known;
    if (!watching)
        return 0;
    find("PyObject_GetArenaAllocator")(&now);
    if (now.alloc != take)
        return 0; // a preload has put another on top of ours: it may do with arenas what it likes
    find("PyObject_SetArenaAllocator")(&before);
    watching = false;
    return known_count;
}
