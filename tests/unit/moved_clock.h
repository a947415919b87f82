// SPDX-License-Identifier: Apache-2.0
//
// moved_clock: a clock that a test moves on.  For tests that are linked with --wrap=clock_gettime,
// see meson.build.

#ifndef CONSTRICTOR_MOVED_CLOCK_H
#define CONSTRICTOR_MOVED_CLOCK_H

#include <stdint.h>
#include <time.h>

static int64_t ahead_s; // seconds that are added to every clock

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int r = __real_clock_gettime(id, t);
    t->tv_sec += ahead_s;
    return r;
}

#endif
