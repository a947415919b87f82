// SPDX-License-Identifier: Apache-2.0
//
// locks: see locks.h.  Runs in the sampler.

#include "keeper/locks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
    READS_MAX = 400,     // of a page each, some 60 locks; each walks all before it in the kernel
    HOLDERS_MAX = 4096,  // processes with locks; a power of two
    PARENTS_MAX = 40000, // looks at a process, of all holders together
    DEPTH_MAX = 1024,    // of one
};

struct count {
    pid_t pid; // 0: free
    uint64_t locks;
};

static struct count holders[HOLDERS_MAX], inits[HOLDERS_MAX];

static void add(struct count *table, pid_t pid, uint64_t locks)
{
    for (unsigned i = 0; i < HOLDERS_MAX; i++) {
        struct count *c = &table[((unsigned)pid + i) % HOLDERS_MAX];
        if (c->pid != 0 && c->pid != pid)
            continue;
        c->pid = pid;
        c->locks += locks;
        return;
    }
}

// "1: POSIX  ADVISORY  READ 1234 00:1a:567 0 0"; one that waits has "->" behind its number.
static pid_t holder_of(const char *line)
{
    char kind[16];
    int pid, end = 0;
    if (sscanf(line, "%*u: %15s %*s %*s %d%n", kind, &pid, &end) != 2 || end == 0)
        return 0;
    return strcmp(kind, "->") == 0 || pid <= 0 ? 0 : pid;
}

// How many there were.
static uint64_t add_lines(char *text)
{
    uint64_t lines = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        *end = '\0';
        pid_t pid = holder_of(line);
        if (pid)
            add(holders, pid, 1);
    }
    return lines;
}

// Is it the first process of a pid namespace below ours?  "NSpid:	1234	1"
static bool is_init(const char *status)
{
    const char *line = strstr(status, "\nNSpid:");
    size_t length = line ? strcspn(line + 1, "\n") : 0;
    return length > 2 && line[length] == '1' && line[length - 1] == '\t' &&
           strchr(line, '\t') != line + length - 1;
}

// The init of the box of this keeper that a process is in; 0: it is in none.
// SECURITY: another program's container may have many locks; a box must not hide behind it.
static pid_t init_of(pid_t pid, unsigned *looks)
{
    char path[64], status[4096];
    const pid_t keeper = getppid();
    pid_t init = 0;
    for (int depth = 0; pid > 1 && depth < DEPTH_MAX && (*looks)++ < PARENTS_MAX; depth++) {
        if (pid == keeper)
            return init;
        snprintf(path, sizeof path, "/proc/%d/status", pid);
        if (file_read_at(AT_FDCWD, path, status, sizeof status) <= 0)
            return 0;
        if (!init && is_init(status))
            init = pid;
        const char *parent = strstr(status, "\nPPid:");
        pid = parent ? (pid_t)strtol(parent + strlen("\nPPid:"), NULL, 10) : 0;
    }
    return 0;
}

// Finds the box with the most locks among those read so far.
static void find_most(struct wire_sampled *ret)
{
    unsigned looks = 0;
    memset(inits, 0, sizeof inits);
    for (int i = 0; i < HOLDERS_MAX; i++) {
        pid_t init = holders[i].pid ? init_of(holders[i].pid, &looks) : 0;
        if (init)
            add(inits, init, holders[i].locks);
    }
    for (int i = 0; i < HOLDERS_MAX; i++)
        if (inits[i].locks > ret->locks) {
            ret->locks = inits[i].locks;
            ret->locks_pid = inits[i].pid;
        }
}

// The kernel ends every read with a whole line, and has the newest locks first: a flood is found
// without reading it all.
void locks_look(const struct wire_sample *ask, struct wire_sampled *ret)
{
    char text[16384];
    _cleanup_close_ int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    uint64_t lines = 0, next = ask->locks_max;
    ssize_t n;
    memset(holders, 0, sizeof holders);
    for (int i = 0; fd >= 0 && i < READS_MAX && (n = read(fd, text, sizeof text - 1)) > 0; i++) {
        text[n] = '\0';
        lines += add_lines(text);
        if (lines <= next)
            continue;
        find_most(ret);
        if (ret->locks > ask->locks_max)
            return;
        next = lines + ask->locks_max;
    }
    find_most(ret);
}
