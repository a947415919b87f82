// SPDX-License-Identifier: Apache-2.0
//
// cgroup: see cgroup.h.

#include "keeper/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"

// ---- finding the keeper's group -----------------------------------------------------------------

// Does a comma list hold the word?
static bool has_word(const char *list, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p < list + len;) {
        const char *end = memchr(p, ',', (size_t)(list + len - p));
        size_t k = end ? (size_t)(end - p) : (size_t)(list + len - p);
        if (k == n && memcmp(p, word, n) == 0)
            return true;
        p += k + 1;
    }
    return false;
}

// /proc/self/cgroup: "ID:controllers:/path"; v2 is "0::/path".
static int own_group(const char *controller, char *ret, size_t cap)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 256];
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        size_t len = (size_t)(path - list - 1);
        if (controller ? has_word(list + 1, len, controller) : len == 0) {
            path[strcspn(path, "\n")] = '\0';
            return (size_t)snprintf(ret, cap, "%s", path + 1) < cap ? 0 : -ENAMETOOLONG;
        }
    }
    return -ENOENT;
}

// /proc/self/mountinfo: "... ROOT MOUNTPOINT opts ... - TYPE SOURCE SUPEROPTS".
static int mount_point(const char *controller, char *ret_root, char *ret_point, size_t cap)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    while (f && getline(&line, &room, f) > 0) {
        char root[PATH_MAX], point[PATH_MAX], type[64], super[1024];
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(dash + 3, "%63s %*s %1023s", type, super) != 2)
            continue;
        bool hit = controller
                       ? strcmp(type, "cgroup") == 0 && has_word(super, strlen(super), controller)
                       : strcmp(type, "cgroup2") == 0;
        if (!hit)
            continue;
        if ((size_t)snprintf(ret_root, cap, "%s", root) >= cap ||
            (size_t)snprintf(ret_point, cap, "%s", point) >= cap)
            return -ENAMETOOLONG;
        return 0;
    }
    return -ENOENT;
}

int cgroup_own_path(const char *controller, char *ret, size_t cap)
{
    char group[PATH_MAX], root[PATH_MAX], point[PATH_MAX];
    int r = own_group(controller, group, sizeof group);
    if (r < 0)
        return r;
    r = mount_point(controller, root, point, sizeof root);
    if (r < 0)
        return r;
    // In a container the mount shows only a part of the hierarchy, beginning at `root`.
    const char *rest = group;
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, n) == 0)
        rest += n;
    return (size_t)snprintf(ret, cap, "%s%s", point, strcmp(rest, "/") == 0 ? "" : rest) < cap
               ? 0
               : -ENAMETOOLONG;
}

int cgroup_make_dir(int parent, const char *name)
{
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// ---- leftovers ----------------------------------------------------------------------------------

// Start time of a process in clock ticks, 0 when there is none: pids are used again, this pair is
// not.
static uint64_t start_time(pid_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    char *p = strrchr(text, ')'); // the name may hold anything, also ')' and blanks
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static void remove_group(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            (void)unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
    (void)closedir(d);
    (void)unlinkat(parent, name, AT_REMOVEDIR); // still busy: the next start tries again
}

void cgroup_sweep(int parent)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));) {
        int pid;
        uint64_t started;
        if (sscanf(entry->d_name, "constrictor.%d.%" SCNu64, &pid, &started) == 2 && pid > 0 &&
            start_time(pid) != started)
            remove_group(parent, entry->d_name);
    }
    (void)closedir(d);
}

// ---- the drivers, in order of preference --------------------------------------------------------

int cgroup_open(struct cgroup_root *ret, uid_t zygote_uid, char *ret_why, size_t why_size,
                struct err *e)
{
    static const struct cgroup_driver *const drivers[] = {&cgroup2_driver, &cgroup1_driver,
                                                          &watch_driver};
    size_t n = 0;
    ret_why[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
        *ret = (struct cgroup_root){.driver = drivers[i],
                                    .dir = {-1, -1, -1},
                                    .parent = {-1, -1, -1},
                                    .left = -1,
                                    .zygote_dir = -1,
                                    .zygote_uid = zygote_uid};
        snprintf(ret->name, sizeof ret->name, "constrictor.%d.%" PRIu64, getpid(),
                 start_time(getpid()));
        if (drivers[i]->open(ret, e) == 0)
            return 0;
        cgroup_close(ret);
        int k = snprintf(ret_why + n, why_size - n, "%s%s: %s", n ? "; " : "", drivers[i]->name,
                         e->message);
        if (k > 0 && (size_t)k < why_size - n)
            n += (size_t)k;
    }
    return -1;
}

static void close_files(int *file)
{
    for (int i = 0; i < CGROUP_FILES_MAX; i++)
        fd_close(&file[i]);
}

static int remove_dirs(const struct cgroup_root *root, const char *name)
{
    int r = 0;
    for (unsigned i = 0; i < root->count; i++)
        if (unlinkat(root->dir[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            r = -errno;
    return r;
}

void cgroup_close(struct cgroup_root *root)
{
    while (root->spare_count) {
        struct cgroup_spare *spare = &root->spare[--root->spare_count];
        close_files(spare->file);
        (void)remove_dirs(root, spare->name); // still busy: the next start sweeps it
    }
    if (root->driver && root->driver->close)
        root->driver->close(root);
    for (unsigned i = 0; i < CGROUP_DIRS_MAX; i++) {
        fd_close(&root->dir[i]);
        if (root->parent[i] >= 0)
            (void)unlinkat(root->parent[i], root->name, AT_REMOVEDIR);
        fd_close(&root->parent[i]);
    }
    fd_close(&root->zygote_dir);
}

// ---- one group ----------------------------------------------------------------------------------
//
// Making and removing groups takes a tenth of a box's CPU time, most of it in the kernel's workers.
// So a group that its box left unchanged is reused (the driver's clear() decides).
// SECURITY: only after the box's init was reaped.  The inside of a box shows nothing of a group: it
// is the root of the cgroup namespace, and the tree has no cgroup file system.

static bool take_spare(struct cgroup_root *root, struct cgroup *ret)
{
    for (unsigned i = root->spare_count; i-- > 0;) { // the newest: the caches know it
        struct cgroup_spare *spare = &root->spare[i];
        if (spare->memory_bytes != ret->limits.memory_bytes ||
            spare->processes != ret->limits.processes)
            continue;
        memcpy(ret->name, spare->name, sizeof ret->name);
        memcpy(ret->file, spare->file, sizeof ret->file);
        *spare = root->spare[--root->spare_count];
        return true;
    }
    return false;
}

static bool keep_spare(struct cgroup *cg)
{
    struct cgroup_root *root = cg->root;
    if (!root->driver->clear || root->spare_count == CGROUP_SPARES_MAX || cg->file[0] < 0 ||
        !root->driver->clear(cg))
        return false;
    struct cgroup_spare *spare = &root->spare[root->spare_count++];
    *spare = (struct cgroup_spare){.memory_bytes = cg->limits.memory_bytes,
                                   .processes = cg->limits.processes};
    memcpy(spare->name, cg->name, sizeof spare->name);
    memcpy(spare->file, cg->file, sizeof spare->file);
    for (int i = 0; i < CGROUP_FILES_MAX; i++)
        cg->file[i] = -1;
    return true;
}

static void close_dirs(struct cgroup *cg)
{
    for (unsigned i = 0; i < CGROUP_DIRS_MAX; i++)
        fd_close(&cg->dir[i]);
}

int cgroup_make(struct cgroup_root *root, struct cgroup *ret, uint64_t box,
                const struct wire_limits *limits, struct err *e)
{
    *ret = (struct cgroup){.root = root, .dir = {-1, -1, -1}, .scratch = -1, .limits = *limits};
    for (int i = 0; i < CGROUP_FILES_MAX; i++)
        ret->file[i] = -1;
    if (take_spare(root, ret))
        return 0;
    snprintf(ret->name, sizeof ret->name, "box-%" PRIx64, box);
    for (unsigned i = 0; i < root->count; i++) {
        ret->dir[i] = cgroup_make_dir(root->dir[i], ret->name);
        if (ret->dir[i] < 0) {
            int r = err_set(e, ERR_SYSTEM, -ret->dir[i], NULL, "make cgroup '%s'", ret->name);
            ret->dir[i] = -1;
            (void)cgroup_destroy(ret);
            return r;
        }
    }
    int r = root->driver->make(root, ret, e);
    if (r < 0)
        (void)cgroup_destroy(ret);
    return r;
}

// The sum only grows.  How it divides does not: where the kernel samples the system's share, the
// user's can fall below what it was, in a group that many boxes were in by more than a run's whole
// time.
static void subtract_base(const struct cgroup *cg, struct wire_usage *u)
{
    uint64_t base_us = cg->cpu_base_user_us + cg->cpu_base_system_us;
    uint64_t total_us = u->cpu_user_us + u->cpu_system_us;
    total_us = total_us > base_us ? total_us - base_us : 0;
    uint64_t system_us =
        u->cpu_system_us > cg->cpu_base_system_us ? u->cpu_system_us - cg->cpu_base_system_us : 0;
    u->cpu_system_us = system_us < total_us ? system_us : total_us;
    u->cpu_user_us = total_us - u->cpu_system_us;
}

void cgroup_usage(struct cgroup *cg, struct wire_usage *ret)
{
    *ret = (struct wire_usage){
        .cpu_user_us = UINT64_MAX,
        .cpu_system_us = UINT64_MAX,
        .peak_memory_bytes = UINT64_MAX,
        .peak_processes = UINT64_MAX,
        .scratch_free_bytes = UINT64_MAX,
        .scratch_free_inodes = UINT64_MAX,
    };
    cg->root->driver->usage(cg, ret);
    if (ret->cpu_user_us != UINT64_MAX && ret->cpu_system_us != UINT64_MAX)
        subtract_base(cg, ret);
    // The init is not user code's.
    if (ret->peak_processes != UINT64_MAX && ret->peak_processes > 0)
        ret->peak_processes--;
}

unsigned cgroup_open_meter(const struct cgroup *cg, int ret[WIRE_METER_FDS])
{
    const struct cgroup_meter *files = cg->root->driver->meter_files;
    unsigned n = 0;
    for (; n < WIRE_METER_FDS && files[n].name; n++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", cg->name, files[n].name);
        ret[n] = openat(cg->root->dir[files[n].dir], path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (ret[n] >= 0)
            continue;
        while (n > 0)
            fd_close(&ret[--n]);
        return 0; // a kernel without one of them: the keeper is asked instead
    }
    return n;
}

void cgroup_begin(struct cgroup *cg)
{
    struct wire_usage u = {.cpu_user_us = UINT64_MAX, .cpu_system_us = UINT64_MAX};
    const struct cgroup_driver *driver = cg->root->driver;
    (driver->cpu ? driver->cpu : driver->usage)(cg, &u);
    cg->cpu_base_user_us = u.cpu_user_us == UINT64_MAX ? 0 : u.cpu_user_us;
    cg->cpu_base_system_us = u.cpu_system_us == UINT64_MAX ? 0 : u.cpu_system_us;
}

void cgroup_start(struct cgroup *cg)
{
    if (cg->root->driver->start)
        cg->root->driver->start(cg);
}

int cgroup_destroy(struct cgroup *cg)
{
    if (cg->root && cg->root->driver->gone)
        cg->root->driver->gone(cg);
    if (!cg->name[0] || keep_spare(cg))
        return 0;
    close_files(cg->file);
    close_dirs(cg);
    return remove_dirs(cg->root, cg->name);
}
