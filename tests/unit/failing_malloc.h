// SPDX-License-Identifier: Apache-2.0
//
// failing_malloc: allocations of the program's own code that fail when a test says so.  For tests
// that are linked with --wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free, see meson.build.

#ifndef CONSTRICTOR_FAILING_MALLOC_H
#define CONSTRICTOR_FAILING_MALLOC_H

#include <stdbool.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static long live;    // blocks that are not freed
static long fail_at; // 0: nothing fails; else counts down, and what makes it 0 fails

static bool fails(void)
{
    return fail_at && --fail_at == 0;
}

void *__wrap_malloc(size_t n)
{
    void *p = fails() ? NULL : __real_malloc(n);
    live += p != NULL;
    return p;
}

void *__wrap_calloc(size_t count, size_t n)
{
    void *p = fails() ? NULL : __real_calloc(count, n);
    live += p != NULL;
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    void *q = fails() ? NULL : __real_realloc(p, n);
    live += q && !p;
    return q;
}

void __wrap_free(void *p)
{
    live -= p != NULL;
    __real_free(p);
}

#endif
