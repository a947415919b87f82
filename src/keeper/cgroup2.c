// SPDX-License-Identifier: Apache-2.0
//
// cgroup2: the driver for the unified hierarchy.
//
// The kernel gives controllers only to groups whose parent holds no processes, and lets a process
// into a group only if its maker may write the common ancestor.  So our group is made
//   - inside our own group, after moving ourselves into a leaf of it, if no other process is there
//     (a service with Delegate=yes), or
//   - beside our own group, when that one is shared with other processes but the parent is
//     delegated to us (a terminal inside a user's delegated slice), or
//   - inside our own group as it is, when it is the root or has the controllers already.
// Zygotes are born in a group of their own in ours, so that the common ancestor of a zygote and its
// boxes is our group, whose cgroup.procs the zygote's uid may write.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "keeper/cgroup.h"

static const char *const needed[] = {"memory", "pids"};

static bool lists(int dir, const char *file, const char *word)
{
    char text[512];
    size_t n = strlen(word);
    if (file_read_at(dir, file, text, sizeof text) < 0)
        return false;
    for (char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0'))
            return true;
    return false;
}

static bool children_have_controllers(int dir)
{
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!lists(dir, "cgroup.subtree_control", needed[i]))
            return false;
    return true;
}

static int enable_controllers(int dir)
{
    if (children_have_controllers(dir))
        return 0;
    return file_write_at(dir, "cgroup.subtree_control", "+memory +pids");
}

// Makes our group below `parent` with the controllers on for the groups in it.  Takes `parent`.
static int make_group(struct cgroup_root *root, int parent)
{
    _cleanup_close_ int up = parent;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!lists(up, "cgroup.controllers", needed[i]))
            return -ENOENT;
    int r = enable_controllers(up);
    if (r < 0)
        return r;
    _cleanup_close_ int dir = cgroup_make_dir(up, root->name);
    if (dir < 0) {
        r = dir;
        dir = -1;
        return r;
    }
    r = enable_controllers(dir);
    if (r < 0) {
        (void)unlinkat(up, root->name, AT_REMOVEDIR);
        return r;
    }
    root->parent[0] = TAKE_FD(up);
    root->dir[0] = TAKE_FD(dir);
    root->count = 1;
    return 0;
}

// The zygote clones with the uid of the box's slot, and that uid must be allowed to write both the
// box's cgroup.procs and that of the common ancestor, our group.  SECURITY: for every other process
// the common ancestor lies further up, so the open mode gives nothing; boxes see no cgroup file
// system.
static int open_to_slots(const struct cgroup_root *root, int dir)
{
    if (root->zygote_uid == geteuid())
        return 0;
    return fchmodat(dir, "cgroup.procs", 0666, 0) < 0 ? -errno : 0;
}

// Into a leaf, so that `own` holds no process and may give controllers to its children.
static int move_to_leaf(int own)
{
    _cleanup_close_ int leaf = cgroup_make_dir(own, "supervisor");
    if (leaf < 0)
        return leaf;
    return file_write_at(leaf, "cgroup.procs", "0");
}

static int cgroup2_open(struct cgroup_root *root, struct err *e)
{
    static const char fix[] = "start it with 'systemd-run --user --scope -p Delegate=yes "
                              "constrictor ...', or as a service "
                              "with Delegate=yes";
    char path[PATH_MAX];
    int r = cgroup_own_path(NULL, path, sizeof path);
    if (r < 0)
        return err_set(e, ERR_LAYER_MISSING, 0, NULL, "cgroup2 is not mounted");
    _cleanup_close_ int own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, fix, "open '%s'", path);
    cgroup_sweep(own);

    r = make_group(root, dup(own));
    if (r < 0) {
        _cleanup_close_ int above = openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (above >= 0 && faccessat(above, "cgroup.procs", W_OK, AT_EACCESS) == 0) {
            cgroup_sweep(above);
            r = make_group(root, TAKE_FD(above));
        }
    }
    if (r == -EBUSY && move_to_leaf(own) == 0) {
        root->left = dup(own); // to go back at the end: else no server could start here again
        r = make_group(root, dup(own));
    }
    if (r == -ENOENT)
        return err_set(e, ERR_LAYER_MISSING, 0, fix,
                       "controller 'memory' or 'pids' is not available in '%s'", path);
    if (r < 0)
        return err_set(e, ERR_LAYER_MISSING, -r, fix, "use '%s'", path);

    // SECURITY: the kernel makes a connection in an interrupt, which belongs to no process, and
    // charges it and its data only when it is accepted.  A box can have thousands for each listener
    // that it never accepts.
    root->look = SAMPLE_SOCKETS;
    root->zygote_dir = cgroup_make_dir(root->dir[0], "zygote");
    if (root->zygote_dir < 0)
        return err_set(e, ERR_LAYER_MISSING, -root->zygote_dir, fix, "make a group in '%s'", path);
    r = open_to_slots(root, root->dir[0]);
    if (r < 0)
        return err_set(e, ERR_LAYER_MISSING, -r, fix, "open '%s/cgroup.procs' to the zygote", path);
    return 0;
}

static int cgroup2_make(const struct cgroup_root *root, struct cgroup *cg, struct err *e)
{
    const struct wire_limits *l = &cg->limits;
    int r = file_write_u64_at(cg->dir[0], "memory.max", l->memory_bytes);
    if (r == 0) {
        r = file_write_at(cg->dir[0], "memory.swap.max", "0");
        r = r == -ENOENT ? 0 : r; // a kernel without swap
    }
    if (r == 0)
        r = file_write_at(cg->dir[0], "memory.oom.group", "1"); // all or nothing
    if (r == 0)
        r = file_write_u64_at(cg->dir[0], "pids.max", (uint64_t)l->processes + 1);
    if (r == 0)
        r = open_to_slots(root, cg->dir[0]);
    return r < 0 ? err_set(e, ERR_SYSTEM, -r, NULL, "set the limits of cgroup '%s'", cg->name) : 0;
}

static int cgroup2_attach_fds(const struct cgroup *cg, int *fds)
{
    fds[0] = cg->dir[0];
    return 1;
}

static void cgroup2_usage(struct cgroup *cg, struct wire_usage *ret)
{
    int dir = cg->dir[0];
    (void)file_read_key_at(dir, "cpu.stat", "user_usec", &ret->cpu_user_us);
    (void)file_read_key_at(dir, "cpu.stat", "system_usec", &ret->cpu_system_us);
    if (file_read_u64_at(dir, "memory.peak", &ret->peak_memory_bytes) < 0) // before Linux 5.19
        (void)file_read_u64_at(dir, "memory.current", &ret->peak_memory_bytes);
    (void)file_read_key_at(dir, "memory.events", "oom_kill", &ret->memory_hits);
    if (file_read_u64_at(dir, "pids.peak", &ret->peak_processes) < 0) // before Linux 6.1
        (void)file_read_u64_at(dir, "pids.current", &ret->peak_processes);
    (void)file_read_key_at(dir, "pids.events", "max", &ret->process_hits);
}

static void cgroup2_close(struct cgroup_root *root)
{
    if (root->dir[0] >= 0)
        (void)unlinkat(root->dir[0], "zygote", AT_REMOVEDIR);
    if (root->left < 0)
        return;
    fd_close(&root->dir[0]);
    (void)unlinkat(root->parent[0], root->name, AT_REMOVEDIR);
    (void)file_write_at(root->left, "cgroup.subtree_control", "-memory -pids");
    (void)file_write_at(root->left, "cgroup.procs", "0");
    (void)unlinkat(root->left, "supervisor", AT_REMOVEDIR);
    fd_close(&root->left);
}

const struct cgroup_driver cgroup2_driver = {
    .name = "v2",
    .kind = BOX_CGROUP_V2,
    .open = cgroup2_open,
    .make = cgroup2_make,
    .attach_fds = cgroup2_attach_fds,
    .usage = cgroup2_usage,
    .meter_files = {{0, "cpu.stat"}, {0, "memory.peak"}, {0, "pids.peak"}},
    .close = cgroup2_close,
};
