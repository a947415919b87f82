// SPDX-License-Identifier: Apache-2.0
//
// large: see large.h.  CPython's own interface for this is not a part of its limited API, but its
// symbols and its struct have been the same since 3.5, so they are looked up by name.

#include "python/ext/large.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 4 << 20, DOMAIN_RAW = 0 }; // large objects come from this domain

// PyMemAllocatorEx.
struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *p, size_t size);
    void (*free)(void *context, void *p);
};

typedef void (*access_fn)(int domain, struct allocator *allocator);

static struct allocator before;

// Called before the memory is touched: pages that exist stay small.
static void *advise(void *p, size_t size)
{
    if (!p || size < LARGE)
        return p;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)p + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)p + size) & ~(page - 1);
    (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
    return p;
}

static void *take(void *context, size_t size)
{
    return advise(before.malloc(context, size), size);
}

// Zeroed memory stays in small pages: often only a few of them are written to.
static void *take_zeroes(void *context, size_t count, size_t size)
{
    return before.calloc(context, count, size);
}

static void *take_more(void *context, void *p, size_t size)
{
    return advise(before.realloc(context, p, size), size);
}

static void give_back(void *context, void *p)
{
    before.free(context, p);
}

void large_begin(void)
{
    static bool begun;
    void *get = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator"),
         *set = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    if (begun || !get || !set)
        return;
    begun = true;
    ((access_fn)get)(DOMAIN_RAW, &before);
    struct allocator ours = {before.context, take, take_zeroes, take_more, give_back};
    ((access_fn)set)(DOMAIN_RAW, &ours);
}
