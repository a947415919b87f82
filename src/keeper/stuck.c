// SPDX-License-Identifier: Apache-2.0
//
// stuck: see stuck.h.  Runs in the keeper, on its own children only: their files in /proc hold no
// box's locks.

#include "keeper/stuck.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"

static uint64_t cpu_ns(pid_t pid)
{
    struct timespec t = {0};
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) == 0)
        (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// 'R' when the state is unknown: then it is not stuck.
static char state_of(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 'R';
    const char *p = strrchr(text, ')');
    return p && p[1] == ' ' ? p[2] : 'R';
}

int64_t stuck_ms(struct stuck *s, pid_t pid, int64_t now_ms)
{
    uint64_t ns = cpu_ns(pid);
    s->state = state_of(pid);
    if (s->state == 'R' || ns != s->cpu_ns) {
        s->cpu_ns = ns;
        s->since_ms = now_ms;
    }
    return now_ms - s->since_ms;
}
