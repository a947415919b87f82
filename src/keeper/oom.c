// SPDX-License-Identifier: Apache-2.0
//
// oom: see oom.h.  /proc/vmstat counts every out-of-memory kill, of whatever control group, and can
// be read without any right in every container.  memory.events of our own group would be exact, and
// is often not to be seen.

#include "keeper/oom.h"

#include <fcntl.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/file.h"

enum { EVERY_MS = 1000, RECENT_MS = 2000 };

static struct {
    uint64_t kills;
    int64_t looked_ms; // 0: never
    int64_t rose_ms;   // 0: it did not, as far as we saw
} seen;

static void look(int64_t now_ms)
{
    uint64_t kills = 0;
    if (file_read_key_at(AT_FDCWD, "/proc/vmstat", "oom_kill", &kills) < 0)
        return;
    // After a long pause it says nothing about now.
    if (kills > seen.kills && seen.looked_ms && now_ms - seen.looked_ms <= RECENT_MS)
        seen.rose_ms = now_ms;
    seen.kills = kills;
    seen.looked_ms = now_ms;
}

void oom_look(void)
{
    int64_t now_ms = clock_ms();
    if (!seen.looked_ms || now_ms - seen.looked_ms >= EVERY_MS)
        look(now_ms);
}

bool oom_was_recent(void)
{
    int64_t now_ms = clock_ms();
    look(now_ms);
    return seen.rose_ms && now_ms - seen.rose_ms <= RECENT_MS;
}
