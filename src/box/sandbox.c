// SPDX-License-Identifier: Apache-2.0
//
// sandbox: see sandbox.h.
//
// The child's order, and why:
//   1  wait for the id map; enter the control groups, while the descriptors are there
//   2  private mounts; open every part, while still the caller's own user
//   3  become uid 0 of the namespace, which is the slot's uid outside: runsc needs the capabilities
//      of a user namespace, and this one owns nothing else
//   4  build the new root: runsc, its configuration, its state, and the box's tree at /rootfs
//   5  pivot, drop the old root: neither runsc nor a sandbox that breaks out of gVisor sees the
//   host 6  exec runsc with descriptors 0 to 3

#include "box/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/sys.h"
#include "box/mount_api.h"

#define ROOTFS "rootfs"
#define EMPTY "empty"

static int open_part(const char *path, uint64_t attributes)
{
    struct stat st;
    struct mount_attr attr = {.attr_set = attributes};
    if (stat(path, &st) < 0)
        jail_die(JAIL_OPEN, path);
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                          OPEN_TREE_CLONE | O_CLOEXEC | (S_ISDIR(st.st_mode) ? AT_RECURSIVE : 0));
    if (fd < 0)
        jail_die(JAIL_OPEN, path);
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        jail_die(JAIL_READONLY, path);
    return fd;
}

static void attach(int fd, const char *at)
{
    if (syscall(SYS_move_mount, fd, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        jail_die(JAIL_ROOT, at);
    (void)close(fd);
}

static void make_file(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
        jail_die(JAIL_ROOT, path);
}

static void enter_groups(const struct jail_sandbox *s)
{
    for (unsigned i = 0; i < s->group_count; i++)
        if (write(s->group_fds[i], "0", 1) != 1)
            jail_die(JAIL_MAP, "control group");
}

// SECURITY: folders that boxes do not see, such as the host's packages.  Their names are looked up
// as the box does: a link in them must not lead out of its tree.
static void hide(const struct jail_plan *plan, int root)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    for (size_t i = 0; i < plan->hidden_count; i++) {
        char path[64];
        _cleanup_close_ int at = (int)syscall(SYS_openat2, root, plan->hidden[i], &how, sizeof how);
        if (at < 0 && (errno == ENOENT || errno == ENOTDIR))
            continue;
        if (at < 0)
            jail_die(JAIL_ROOT, plan->hidden[i]);
        snprintf(path, sizeof path, "/proc/self/fd/%d", at);
        if (!jail_has_entries(path))
            continue;
        int fd = open_part("/" EMPTY, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        if (syscall(SYS_move_mount, fd, "", at, "",
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
            jail_die(JAIL_ROOT, plan->hidden[i]);
        (void)close(fd);
    }
}

// In the folder that becomes the root.
static void build_root(const struct jail_plan *plan, int runsc, int image, int python_side)
{
    static const char *const folders[] = {ROOTFS, "bundle", "state", "proc", "dev",
                                          "tmp",  "etc",    "sys",   "old",  EMPTY};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(folders[i], 0755) < 0)
            jail_die(JAIL_ROOT, folders[i]);
    make_file("bundle/config.json", plan->sandbox->spec);
    make_file("runsc", "");
    attach(runsc, "runsc");
    if (image >= 0) {
        attach(image, ROOTFS);
        attach(python_side, ROOTFS "/opt/constrictor"); // which `image add` made
        return;
    }
    if (mount(ROOTFS, ROOTFS, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755") < 0 ||
        chdir(ROOTFS) < 0)
        jail_die(JAIL_ROOT, ROOTFS);
    jail_build(plan);
    if (chdir("..") < 0)
        jail_die(JAIL_ROOT, "..");
}

static void pivot(const struct jail_plan *plan)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        jail_die(JAIL_PROC, "/proc");
    if (syscall(SYS_pivot_root, ".", "old") < 0 || chdir("/") < 0 ||
        umount2("/old", MNT_DETACH) < 0 || rmdir("/old") < 0)
        jail_die(JAIL_PIVOT, "/");
    _cleanup_close_ int root = open("/" ROOTFS, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        jail_die(JAIL_ROOT, ROOTFS);
    if (!plan->sandbox->image)
        hide(plan, root);
    if (syscall(SYS_mount_setattr, root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        jail_die(JAIL_READONLY, ROOTFS);
}

// 0 and 1 /dev/null, 2 the log, 3 the control socket.  SECURITY: nothing of the keeper stays open.
static void pass_fds(const struct jail_plan *plan, int null)
{
    int from[] = {null, null, plan->log_fd, plan->socket_fd};
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16)) < 0)
            jail_die(JAIL_FDS, "dup");
    for (int i = 0; i < (int)ARRAY_LEN(from); i++)
        if (dup2(from[i], i) < 0)
            jail_die(JAIL_FDS, "dup2");
    jail_report_to(2, true);
    if (sys_close_range(SANDBOX_CONTROL_FD + 1, ~0U) < 0)
        jail_die(JAIL_FDS, "close_range");
}

// SECURITY: as box_limit_all() of enter.c: a core_pattern that is a pipe ignores 0, and would start
// a helper on the host, as the host's root, for a process that hostile code has made to crash.
static void limit_core(void)
{
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}) < 0)
        jail_die(JAIL_FDS, "RLIMIT_CORE");
}

static _Noreturn void child_main(const struct jail_plan *plan, int go_fd)
{
    static const uint64_t readonly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    // No limit of ours binds gVisor here: the box's group does, and gVisor binds the box.
    static const char *const argv[] = {"runsc", "--root=/state", "--rootless", "--platform=systrap",
                                       "--network=none", "--ignore-cgroups",
                                       // SECURITY: the sandbox itself opens no file of the host;
                                       // a second process, the gofer, does that for it.
                                       "--directfs=false", "--overlay2=none", "--host-uds=none",
                                       "--file-access=exclusive", "--log=/dev/null", "run",
                                       "--pass-fd=3:3", "--bundle=/bundle", "box", NULL};
    static const char *const envp[] = {"PATH=/", "HOME=/", NULL};
    int image = -1, python_side = -1;
    sigset_t none;
    jail_await(go_fd);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    enter_groups(plan->sandbox);
    (void)file_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000"); // as in jail.c
    jail_calm();
    int runsc = open_part(plan->sandbox->runsc, readonly);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        jail_die(JAIL_FDS, "/dev/null");
    if (plan->sandbox->image) {
        image = open_part(plan->sandbox->image, readonly);
        python_side = open_part(plan->python_side, readonly);
    } else {
        jail_open_parts(plan);
    }
    int device = open_part("/dev/null", MOUNT_ATTR_NOSUID);
    jail_become_root(plan);
    if (mount("root", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=0755") < 0 ||
        chdir("/tmp") < 0)
        jail_die(JAIL_ROOT, "/tmp");
    build_root(plan, runsc, image, python_side);
    make_file("dev/null", "");
    attach(device, "dev/null");
    pivot(plan);
    pass_fds(plan, null);
    limit_core();
    execve("/runsc", (char *const *)argv, (char *const *)envp);
    jail_die(JAIL_EXEC, "runsc");
}

int sandbox_begin(const struct jail_plan *plan, struct jail_child *ret, struct err *e)
{
    int go[2], pidfd = -1;
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    _cleanup_close_ int go_read = go[0], go_write = go[1];
    long pid = jail_clone(plan, &pidfd);
    if (pid == 0) {
        jail_report_to(plan->log_fd, true);
        (void)close(go_write);
        child_main(plan, go_read);
    }
    if (pid < 0)
        return jail_clone_failed(errno, e);
    int r = idmap_write(&plan->ids, (pid_t)pid, e);
    if (r < 0) {
        (void)sys_pidfd_send_signal(pidfd, SIGKILL);
        (void)waitpid((pid_t)pid, NULL, 0);
        (void)close(pidfd);
        return r;
    }
    (void)!write(go_write, "g", 1); // a dead child shows as its end
    *ret = (struct jail_child){.pid = (pid_t)pid, .pidfd = pidfd};
    return 0;
}
