// SPDX-License-Identifier: Apache-2.0
//
// clock: time that only goes forward, for deadlines and durations.

#ifndef CONSTRICTOR_BASE_CLOCK_H
#define CONSTRICTOR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t clock_ms(void)
{
    return clock_us() / 1000;
}

#endif
