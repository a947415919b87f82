// SPDX-License-Identifier: Apache-2.0
//
// mounts: see mounts.h.  Runs with the capabilities of the box's own user namespace.

#include "box/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "box/enter.h"
#include "box/jail.h"

static struct {
    char from[32], at[PATH_MAX];
} covered[JAIL_PATHS_MAX];
static size_t covered_count;
static uint64_t covered_inodes;

// The folders above it that no earlier one has, and its own link.  /mnt and /mnt/tmp are there
// anyway.
static uint64_t inodes_of(size_t i)
{
    uint64_t count = 1;
    const char *at = covered[i].at, *first = strncmp(at, "/mnt/tmp/", 9) == 0 ? at + 9 : at + 5;
    for (const char *p = strchr(first, '/'); p; p = strchr(p + 1, '/')) {
        size_t length = (size_t)(p - at) + 1, j = 0;
        while (j < i && strncmp(covered[j].at, at, length) != 0)
            j++;
        count += j == i;
    }
    return count;
}

int mounts_find_covered(void)
{
    covered_count = covered_inodes = 0;
    for (size_t i = 0; i < ARRAY_LEN(covered); i++) {
        char link[40];
        snprintf(covered[i].from, sizeof covered[i].from, "%s/%zu", JAIL_COVERED, i);
        snprintf(link, sizeof link, "%s.at", covered[i].from);
        ssize_t n = readlink(link, covered[i].at, sizeof covered[i].at - 1);
        if (n < 0)
            return errno == ENOENT ? 0 : -errno;
        covered[i].at[n] = '\0';
        covered_count++;
        covered_inodes += inodes_of(i);
    }
    return 0;
}

// SECURITY: a link, and not a mount: Landlock's rule that scratch can be written would hold for
// what is mounted there too, and a pipe in a read-only folder can be written to.
static int link_covered(size_t i)
{
    char *at = covered[i].at;
    for (char *p = strchr(at + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        int r = mkdir(at, 0755);
        *p = '/';
        if (r < 0 && errno != EEXIST)
            return -1;
    }
    return symlink(covered[i].from, at);
}

int mounts_scratch(uint64_t bytes, uint32_t inodes)
{
    char options[128];
    // Its own folders and the root are inodes too; the limit is what the code may make.
    if (inodes)
        snprintf(options, sizeof options,
                 "size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=0755,uid=%d,gid=%d", bytes,
                 (uint64_t)inodes + 4 + covered_inodes, BOX_UID, BOX_UID);
    else
        snprintf(options, sizeof options, "size=%" PRIu64 ",mode=0755,uid=%d,gid=%d", bytes,
                 BOX_UID, BOX_UID);
    if (mount("scratch", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return -1;
    if (mkdir("/mnt/data", 0755) < 0 || mkdir("/mnt/tmp", 01777) < 0)
        return -1;
    if (mkdir("/mnt/shm", 01777) < 0) // /tmp and /dev/shm are links to these two
        return -1;
    for (size_t i = 0; i < covered_count; i++)
        if (link_covered(i) < 0)
            return -1;
    return 0;
}

int mounts_freeze_scratch(void)
{
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    _cleanup_close_ int writer = open("/mnt/data", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (writer < 0 || mount("/mnt", "/mnt", NULL, MS_BIND, NULL) < 0)
        return -1;
    if (mount(NULL, "/mnt", NULL, flags, NULL) < 0)
        return -1;
    return TAKE_FD(writer);
}

// SECURITY: the operator's folder is for the installer (with --source-builds also for a package's
// build), not for code that callers run.  It cannot be unmounted: it came with the zygote's tree.
int mounts_hide_wheel_files(void)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    int r = mount("nowheels", JAIL_WHEEL_FILES, "tmpfs", flags, "size=4k,nr_inodes=2,mode=0555");
    return r < 0 && errno == ENOENT ? 0 : r; // there is none
}

int mounts_proc(bool without)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    // SECURITY: cover the zygote's /proc, which shows its pids, in any case.
    if (without)
        return mount("noproc", "/proc", "tmpfs", flags, "size=4k,nr_inodes=2,mode=0555");
    // subset=pid leaves out everything that is not a process: no kcore, keys, sys, cmdline, ...
    return mount("proc", "/proc", "proc", flags, "subset=pid,hidepid=2");
}
