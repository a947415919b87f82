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
        for (const char *p = covered[i].at; *p; p++)
            covered_inodes += *p == '/';
    }
    return 0;
}

static int make_folders(char *path)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        int r = mkdir(path, 0755);
        *p = '/';
        if (r < 0 && errno != EEXIST)
            return -1;
    }
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

// SECURITY: the same mounts, read-only as they are; the box has no right to change that.
int mounts_uncover(void)
{
    for (size_t i = 0; i < covered_count; i++)
        if (mount(covered[i].from, covered[i].at, NULL, MS_BIND | MS_REC, NULL) < 0)
            return -1;
    return 0;
}

int mounts_scratch(uint64_t bytes, uint32_t inodes)
{
    char options[128];
    // Its own folders and the root are inodes too; the limit is what the code may make.
    snprintf(options, sizeof options,
             "size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=0755,uid=%d,gid=%d", bytes,
             (uint64_t)inodes + 4 + covered_inodes, BOX_UID, BOX_UID);
    if (mount("scratch", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return -1;
    if (mkdir("/mnt/data", 0755) < 0 || mkdir("/mnt/tmp", 01777) < 0)
        return -1;
    if (mkdir("/mnt/shm", 01777) < 0) // /tmp and /dev/shm are links to these two
        return -1;
    for (size_t i = 0; i < covered_count; i++)
        if (make_folders(covered[i].at) < 0)
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

// SECURITY: the operator's folder is for installations (with --source-builds that includes a package's own build);
// what callers run has no business there.
// It cannot be unmounted: it came with the zygote's tree.
int mounts_hide_wheels(void)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    int r = mount("nowheels", JAIL_WHEELS, "tmpfs", flags, "size=4k,nr_inodes=2,mode=0555");
    return r < 0 && errno == ENOENT ? 0 : r; // there is none
}

int mounts_proc(bool without)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    // SECURITY: whatever happens, the zygote's /proc with its pids must be covered.
    if (without)
        return mount("noproc", "/proc", "tmpfs", flags, "size=4k,nr_inodes=2,mode=0555");
    // subset=pid leaves out everything that is not a process: no kcore, keys, sys, cmdline, ...
    return mount("proc", "/proc", "proc", flags, "subset=pid,hidepid=2");
}
