// SPDX-License-Identifier: Apache-2.0
//
// jail: see jail.h.  The keeper's side clones and writes the id maps; the child's side builds the
// tree with the capabilities of a user namespace that owns nothing else.
//
// The child's order, and why:
//   1  wait for the id map: without it the child has no identity in its namespace
//   2  private mounts: nothing that follows may be seen outside
//   3  open every part of the tree while still the caller's own user, who can reach a folder under
//      a private home; detached copies, so later steps need no path of the host
//   4  become uid 0 of the namespace: only a mapped uid can own files of the new root
//   5  build, pivot, drop the old root, turn everything read-only
//   6  exec: the interpreter starts with descriptors 0-5 and a fixed environment

#include "box/jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/sys.h"
#include "box/mount_api.h"
#include "box/spawn.h"

static const struct {
    const char *layer, *text;
} steps[JAIL_STEP_MAX] = {
#define X(name, layer, what) [name] = {layer, what},
    JAIL_STEP_MAP(X)
#undef X
};

#define JAIL_EMPTY "/opt/empty"

struct failure {
    uint32_t step;
    int32_t errnum;
    char what[PATH_MAX];
};

// ---- the child ----------------------------------------------------------------------------------

static int report_fd = -1;
static bool report_as_text;

void jail_report_to(int fd, bool as_text)
{
    report_fd = fd;
    report_as_text = as_text;
}

void jail_die(enum jail_step step, const char *what)
{
    struct failure f = {.step = step, .errnum = errno};
    if (report_as_text) {
        (void)dprintf(report_fd, "layer '%s': %s ('%s'): %s\n", steps[step].layer, steps[step].text,
                      what, strerror(errno));
        _exit(1);
    }
    snprintf(f.what, sizeof f.what, "%s", what);
    (void)!write(report_fd, &f, sizeof f);
    _exit(1);
}

// Devices that every Unix program may expect; they hold no state that boxes could share.
static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};

static const struct {
    const char *path, *text;
    enum { ALWAYS, WITH_NETWORK, WITHOUT_NETWORK } when;
} files[] = {
    {"etc/passwd",
     "root:x:0:0:root:/:/bin/false\nuser:x:1000:1000:user:/mnt/data:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/:/bin/false\n",
     ALWAYS},
    {"etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", ALWAYS},
    {"etc/hostname", "box\n", ALWAYS},
    {"etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n", ALWAYS},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n", WITHOUT_NETWORK},
    // The broker answers there.  Its answers fit one datagram, and come at once or after it has
    // asked.
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", WITH_NETWORK},
    {"etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:3 attempts:2\n", WITH_NETWORK},
    // For ports by name, getservbyname() and getprotobyname(): those that clients in Python know.
    {"etc/protocols", "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\n", ALWAYS},
    {"etc/services",
     "ftp 21/tcp\nssh 22/tcp\ntelnet 23/tcp\nsmtp 25/tcp mail\ndomain 53/tcp\ndomain 53/udp\n"
     "http 80/tcp www\npop3 110/tcp\nntp 123/udp\nimap2 143/tcp imap\nldap 389/tcp\n"
     "https 443/tcp\nsubmissions 465/tcp smtps\nsubmission 587/tcp\nldaps 636/tcp\n"
     "imaps 993/tcp\npop3s 995/tcp\nmysql 3306/tcp\npostgresql 5432/tcp\namqp 5672/tcp\n"
     "redis 6379/tcp\n",
     ALWAYS},
    // Without it fc-list, which matplotlib asks for fonts, complains on stderr.
    {"etc/fonts/fonts.conf",
     "<fontconfig><dir>/usr/share/fonts</dir>"
     "<cachedir>/tmp/.fontconfig</cachedir></fontconfig>\n",
     ALWAYS},
};

static const struct {
    const char *target, *path;
} links[] = {
    {"/proc/self/fd", "dev/fd"},
    {"/proc/self/fd/0", "dev/stdin"},
    {"/proc/self/fd/1", "dev/stdout"},
    {"/proc/self/fd/2", "dev/stderr"},
    // Folders of the one file system that a box may write to.  Links cost it nothing, where mounts
    // would be two more to make and to end in each.
    {"/mnt/tmp", "tmp"},
    {"/mnt/shm", "dev/shm"},
};

// Parts of the host that exist on most machines; a missing one is simply not there.
static const char *const optional[] = {"/usr", "/etc/ld.so.cache", "/etc/alternatives"};

// The one of these that a box without network needs: Debian's requests and pip open it when they
// are imported.
// SECURITY: the file alone; the folder may hold the host's own certificate, with its name.
static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";

// The same for boxes with network: the certificates that TLS clients trust, in the folders of the
// distributions.
// SECURITY: only public files; never /etc/ssl/private or /etc/pki/tls/private.
static const char *const optional_network[] = {"/etc/ssl/certs",
                                               "/etc/ssl/cert.pem",
                                               "/etc/ssl/openssl.cnf",
                                               "/etc/pki/tls/certs",
                                               "/etc/pki/tls/openssl.cnf",
                                               "/etc/pki/tls/cert.pem",
                                               "/etc/ca-certificates/extracted",
                                               "/etc/pki/ca-trust/extracted"};

// Top-level names that merged-/usr systems have as links and others as folders.
static const char *const merged[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

struct part {
    const char *path; // target, absolute
    int fd;           // detached mount
    bool is_dir;
    bool device;
};

enum { PARTS_MAX = JAIL_PATHS_MAX + JAIL_SHARES_MAX + 32 };
static struct part parts[PARTS_MAX];
static size_t part_count;

// `more`: attributes besides those of every part.
static void part_open_with(const char *source, const char *target, bool must, bool device,
                           uint64_t more)
{
    struct stat st;
    if (stat(source, &st) < 0) {
        if (must)
            jail_die(JAIL_OPEN, source);
        return;
    }
    if (part_count == PARTS_MAX) {
        errno = E2BIG;
        jail_die(JAIL_OPEN, source);
    }
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, source,
                          OPEN_TREE_CLONE | O_CLOEXEC | (S_ISDIR(st.st_mode) ? AT_RECURSIVE : 0));
    if (fd < 0)
        jail_die(JAIL_OPEN, source);
    // SECURITY: recursive, so that no submount below stays writable; setuid files and device nodes
    // of the host mean nothing inside.
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                          (device ? 0 : MOUNT_ATTR_NODEV) | more};
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        jail_die(JAIL_READONLY, source);
    parts[part_count++] =
        (struct part){.path = target, .fd = fd, .is_dir = S_ISDIR(st.st_mode), .device = device};
}

static void part_open(const char *source, const char *target, bool must, bool device)
{
    part_open_with(source, target, must, device, 0);
}

// SECURITY: a process that may write to a parent folder (the porter, a user of the host) could have
// put a link or another folder there since the keeper looked, and boxes would see that one.  A
// detached mount does not change any more; so the last part must be the folder that the keeper
// opened.
static void check_part(const char *path, dev_t device, ino_t inode)
{
    struct stat st;
    if (fstat(parts[part_count - 1].fd, &st) < 0)
        jail_die(JAIL_OPEN, path);
    if (st.st_dev != device || st.st_ino != inode) {
        errno = ESTALE;
        jail_die(JAIL_OPEN, path);
    }
}

// Folders of the user.  SECURITY: read-only and without setuid and devices as every part, and no
// program in them can be executed.  A link in them is followed in the box's tree, not in the
// host's.
static void open_shares(const struct jail_plan *plan)
{
    for (size_t i = 0; i < plan->share_count; i++) {
        const struct jail_share *s = &plan->shares[i];
        part_open_with(s->path, s->at, true, false, MOUNT_ATTR_NOEXEC);
        check_part(s->path, s->device, s->inode);
    }
}

// The installer works with the host's pip where there is neither uv nor a wheel of pip.
static void open_pip(const struct jail_plan *plan)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < plan->hidden_count; i++) {
        if (snprintf(path, sizeof path, "%s/pip/__main__.py", plan->hidden[i]) >= PATH_MAX ||
            access(path, R_OK) < 0)
            continue;
        *strrchr(path, '/') = '\0';
        part_open(path, JAIL_PIP "/pip", true, false);
        return;
    }
}

void jail_open_parts(const struct jail_plan *plan)
{
    static char device_paths[ARRAY_LEN(devices)][32];
    for (size_t i = 0; i < ARRAY_LEN(optional); i++)
        part_open(optional[i], optional[i], false, false);
    if (!plan->network)
        part_open(bundle, bundle, false, false);
    for (size_t i = 0; plan->network && i < ARRAY_LEN(optional_network); i++)
        part_open(optional_network[i], optional_network[i], false, false);
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        struct stat st;
        if (lstat(merged[i], &st) == 0 && S_ISDIR(st.st_mode))
            part_open(merged[i], merged[i], true, false);
    }
    for (size_t i = 0; i < plan->path_count; i++)
        part_open(plan->paths[i], plan->paths[i], true, false);
    part_open(plan->python_side, "/opt/constrictor", true, false);
    open_pip(plan);
    if (plan->wheel_files)
        part_open(plan->wheel_files, JAIL_WHEEL_FILES, true, false);
    if (plan->wheels) {
        part_open(plan->wheels, "/opt/wheels", true, false);
        check_part(plan->wheels, plan->wheels_device, plan->wheels_inode);
    }
    open_shares(plan);
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        snprintf(device_paths[i], sizeof device_paths[i], "/dev/%s", devices[i]);
        part_open(device_paths[i], device_paths[i], true, true);
    }
}

// Creates every folder above `path` (relative to the new root, which is the current folder).
static int make_parents(const char *path)
{
    char buf[PATH_MAX];
    if ((size_t)snprintf(buf, sizeof buf, "%s", path) >= sizeof buf) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *p = strchr(buf + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(buf, 0755) < 0 && errno != EEXIST && errno != EROFS)
            return -1;
        *p = '/';
    }
    return 0;
}

static int make_file(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    return fd_write_all(fd, text, strlen(text));
}

// The names under which code starts Python: the box's own, whatever the host has under them.
static void make_commands(const struct jail_plan *plan)
{
    static const char *const pythons[] = {"opt/bin/python", "opt/bin/python3"};
    static const char *const pips[] = {"opt/bin/pip", "opt/bin/pip3"};
    for (size_t i = 0; i < ARRAY_LEN(pythons); i++)
        if (!plan->is_virtual && symlink(plan->executable, pythons[i]) < 0)
            jail_die(JAIL_ROOT, pythons[i]);
    // What it does there is in python/runner/pip_here.py.
    for (size_t i = 0; i < ARRAY_LEN(pips); i++)
        if (make_file(pips[i], "#!/bin/sh\nexec python3 -m pip \"$@\"\n") < 0 ||
            chmod(pips[i], 0755) < 0)
            jail_die(JAIL_ROOT, pips[i]);
}

static void attach_at(const struct part *p, const char *at)
{
    struct stat st;
    if (make_parents(at) < 0)
        jail_die(JAIL_ROOT, p->path);
    if (stat(at, &st) < 0) { // it may exist already below a part that was attached before
        int r = p->is_dir ? mkdir(at, 0755) : make_file(at, "");
        if (r < 0)
            jail_die(JAIL_ROOT, p->path);
    }
    if (syscall(SYS_move_mount, p->fd, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        jail_die(JAIL_ROOT, p->path);
}

// Where it belongs, without links: /tmp is one to a folder of /mnt.  NULL: boxes do not cover it.
static const char *covered_path(const char *path, char *buf, size_t cap)
{
    const bool tmp = strncmp(path, "/tmp/", 5) == 0;
    if (!tmp && strncmp(path, "/mnt/", 5) != 0)
        return NULL;
    snprintf(buf, cap, "%s%s", tmp ? "/mnt" : "", path);
    return buf;
}

static void attach(const struct part *p)
{
    static unsigned covered;
    char target[PATH_MAX + 8], name[64];
    if (!covered_path(p->path, target, sizeof target)) {
        attach_at(p, p->path + 1); // relative to the new root
        return;
    }
    snprintf(name, sizeof name, "%s/%u", JAIL_COVERED + 1, covered);
    attach_at(p, name);
    snprintf(name, sizeof name, "%s/%u.at", JAIL_COVERED + 1, covered++);
    if (symlink(target, name) < 0)
        jail_die(JAIL_ROOT, p->path);
}

// The zygote's own sight of them.
static void show_covered(void)
{
    char target[PATH_MAX + 8], name[64];
    for (size_t i = 0, n = 0; i < part_count; i++) {
        if (!covered_path(parts[i].path, target, sizeof target))
            continue;
        snprintf(name, sizeof name, "%s/%zu", JAIL_COVERED, n++);
        if (make_parents(target + 1) < 0 || symlink(name, target + 1) < 0)
            jail_die(JAIL_ROOT, parts[i].path);
    }
}

void jail_build(const struct jail_plan *plan)
{
    static const char *const folders[] = {"etc",     "etc/fonts", "dev", "proc",    "mnt",
                                          "mnt/tmp", "mnt/shm",   "opt", "opt/bin", JAIL_EMPTY + 1};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(folders[i], 0755) < 0)
            jail_die(JAIL_ROOT, folders[i]);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (files[i].when != (plan->network ? WITHOUT_NETWORK : WITH_NETWORK) &&
            make_file(files[i].path, files[i].text) < 0)
            jail_die(JAIL_ROOT, files[i].path);
    for (size_t i = 0; i < ARRAY_LEN(links) && !plan->sandbox; i++)
        if (symlink(links[i].target, links[i].path) < 0)
            jail_die(JAIL_ROOT, links[i].path);
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        char target[64];
        ssize_t n = readlink(merged[i], target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (symlink(target, merged[i] + 1) < 0)
            jail_die(JAIL_ROOT, merged[i]);
    }
    make_commands(plan);
    for (size_t i = 0; i < part_count; i++)
        attach(&parts[i]);
    if (plan->sandbox) { // it mounts its own /tmp, /dev and /proc
        if (mkdir("tmp", 0755) < 0 || mkdir("sys", 0755) < 0)
            jail_die(JAIL_ROOT, "/tmp");
        return;
    }
    // For what preloads write while they are imported; it goes before the first box.  SECURITY:
    // nothing but /tmp: the link /dev/shm leads to a folder that is read-only, or locks that a
    // preload makes would be memory that all boxes share.
    if (mount("tmp", JAIL_TMP + 1, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=0777") < 0)
        jail_die(JAIL_ROOT, "/tmp");
    show_covered();
    // A fully visible /proc must be in the tree or the kernel refuses a box its own ("mount too
    // revealing").  It shows this zygote's pid namespace only, and boxes cover it.
    if (!plan->without_proc &&
        mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        jail_die(JAIL_PROC, "/proc");
}

void jail_become_root(const struct jail_plan *plan)
{
    // Only a namespace with more than the caller's own id may change groups; there they must go.
    if ((plan->ids.count > 1 || plan->ids.exact) && setgroups(0, NULL) < 0)
        jail_die(JAIL_MAP, "setgroups");
    // SECURITY: a server that the scheduler prefers (nice below 0, a real-time class) does not pass
    // that on to hostile code, which could starve the machine with it.  Here, so that boxes pay
    // nothing.
    int scheduler = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    if ((scheduler == SCHED_FIFO || scheduler == SCHED_RR) &&
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}) < 0)
        jail_die(JAIL_MAP, "sched_setscheduler");
    if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
        jail_die(JAIL_MAP, "setpriority");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        jail_die(JAIL_MAP, "setresuid");
    // After the change of uid, which clears it.  The keeper's death is also seen as the end of the
    // socket; this covers a zygote that hangs in a preload.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        jail_die(JAIL_MAP, "PR_SET_PDEATHSIG");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        jail_die(JAIL_MAP, "PR_SET_NO_NEW_PRIVS");
}

static void pivot(void)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        jail_die(JAIL_PIVOT, "/");
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr) < 0)
        jail_die(JAIL_READONLY, "/");
    if (sethostname("box", 3) < 0)
        jail_die(JAIL_ROOT, "hostname");
}

bool jail_has_entries(const char *path)
{
    DIR *d = opendir(path);
    bool found = !d; // a folder that cannot be listed is hidden
    for (const struct dirent *entry; d && !found && (entry = readdir(d));)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (d)
        (void)closedir(d);
    return found;
}

// Puts an empty folder over each.  This comes after the pivot, so that links in the path are
// followed as in a box.  A mount costs each box some microseconds, so a folder without entries gets
// none; nor does a folder that another name has led to before.
static void hide(const struct jail_plan *plan)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    for (size_t i = 0; i < plan->hidden_count; i++) {
        const char *path = plan->hidden[i];
        struct stat st;
        if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
            continue;
        if (!jail_has_entries(path))
            continue;
        int fd = (int)syscall(SYS_open_tree, AT_FDCWD, JAIL_EMPTY, OPEN_TREE_CLONE | O_CLOEXEC);
        if (fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
            syscall(SYS_move_mount, fd, "", AT_FDCWD, path,
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) < 0)
            jail_die(JAIL_ROOT, path);
        (void)close(fd);
    }
}

static void pass_fds(const struct jail_plan *plan, int proc_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int from[] = {null, null, plan->log_fd, plan->socket_fd, plan->filter_fd, proc_fd, report_fd};
    if (null < 0)
        jail_die(JAIL_FDS, "/dev/null");
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
        if (from[i] < 0)
            jail_die(JAIL_FDS, "dup");
    }
    for (int i = 0; i <= ZYGOTE_PROC_FD; i++)
        if (dup2(from[i], i) < 0)
            jail_die(JAIL_FDS, "dup2");
    // The report goes last and closes itself at the exec: that is how the keeper learns of it.
    if (dup3(from[6], ZYGOTE_PROC_FD + 1, O_CLOEXEC) < 0 ||
        sys_close_range(ZYGOTE_PROC_FD + 2, ~0U) < 0)
        jail_die(JAIL_FDS, "close_range");
    report_fd = ZYGOTE_PROC_FD + 1;
}

void jail_await(int go_fd)
{
    char go;
    if (read(go_fd, &go, 1) != 1)
        _exit(1);
}

void jail_calm(void)
{
    // What the caller ignores (nohup, a shell's background job) is no business of a box.  Raw,
    // because libc keeps two signals to itself and would not touch them.
    for (long sig = 1; sig <= 64; sig++) {
        struct {
            void *handler;
            unsigned long flags;
            void *restorer;
            uint64_t mask;
        } initial = {0};
        (void)syscall(SYS_rt_sigaction, sig, &initial, NULL, sizeof initial.mask);
    }
    (void)setsid(); // a terminal's Ctrl-C is for the gate
    (void)umask(0022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        jail_die(JAIL_PRIVATE, "/");
}

static _Noreturn void child_main(const struct jail_plan *plan, int go_fd)
{
    sigset_t mask;
    jail_await(go_fd);
    // SIGCHLD stays blocked across the exec, so that a thread which a preload starts inherits that:
    // in a thread that has it open it would be dropped, and no end of a box would be seen.
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    jail_calm();
    int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0)
        jail_die(JAIL_OPEN, "/proc");
    // Memory files of this pid namespace and those below cannot be executed.  Only the host's root
    // may say so, and it is no boundary (code can be mapped): so best effort.  Linux 6.3.
    (void)file_write_at(proc_fd, "sys/vm/memfd_noexec", "2");
    // When memory runs out the kernel ends a box first, and not the server beside it. All boxes
    // inherit this.
    (void)file_write_at(proc_fd, "self/oom_score_adj", "1000");
    jail_open_parts(plan);
    jail_become_root(plan);
    if (mount("root", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755") < 0 ||
        chdir("/tmp") < 0)
        jail_die(JAIL_ROOT, "/tmp");
    jail_build(plan);
    pivot();
    hide(plan);
    // SECURITY: from here on the zygote's own /proc will do; the host's must not stay open in it.
    if (!plan->without_proc) {
        (void)close(proc_fd);
        proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc_fd < 0)
            jail_die(JAIL_PROC, "/proc");
    }
    pass_fds(plan, proc_fd);
    execve(plan->executable, plan->argv, plan->envp);
    jail_die(JAIL_EXEC, plan->executable);
}

// ---- the keeper's side --------------------------------------------------------------------------

int jail_clone_failed(int errnum, struct err *e)
{
    const char *hint = "see 'constrictor doctor' for the exact cause and fix";
    if (errnum == ENOSPC || errnum == EUSERS)
        hint = "a limit in /proc/sys/user/max_*_namespaces is reached: raise it with sysctl";
    else if (errnum == ENOSYS)
        hint =
            "clone3 is hidden, as Docker's default seccomp profile does: see 'constrictor doctor'";
    return err_set(e, ERR_LAYER_MISSING, errnum, hint,
                   "layer 'user_ns': make the namespaces of a jail");
}

long jail_clone(const struct jail_plan *plan, int *ret_pidfd)
{
    struct sys_clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .exit_signal = SIGCHLD,
    };
    if (plan->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->cgroup_fd;
    }
    return sys_clone3(&args);
}

int jail_start(const struct jail_plan *plan, struct jail_child *ret, struct err *e)
{
    int go[2], report[2], pidfd = -1;
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    _cleanup_close_ int go_read = go[0], go_write = go[1];
    if (pipe2(report, O_CLOEXEC) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    _cleanup_close_ int report_read = report[0];
    int report_write = report[1];

    long pid = jail_clone(plan, &pidfd);
    if (pid == 0) {
        report_fd = report_write;
        (void)close(go_write);
        child_main(plan, go_read);
    }
    int errnum = errno;
    (void)close(report_write);
    if (pid < 0)
        return jail_clone_failed(errnum, e);

    struct failure f;
    ssize_t n = -1;
    int r = idmap_write(&plan->ids, (pid_t)pid, e);
    if (r == 0) {
        (void)!write(go_write, "g", 1); // a dead child shows in the read below
        do
            n = read(report_read, &f, sizeof f);
        while (n < 0 && errno == EINTR);
    }
    if (n == 0) { // closed by a successful exec
        *ret = (struct jail_child){.pid = (pid_t)pid, .pidfd = pidfd};
        return 0;
    }
    if (r == 0 && n == (ssize_t)sizeof f && f.step < JAIL_STEP_MAX) {
        f.what[sizeof f.what - 1] = '\0';
        const char *hint = "see 'constrictor doctor' for the exact cause and fix";
        if (f.step == JAIL_PROC)
            hint =
                "/proc is masked, as container engines do: start the container with "
                "'--security-opt "
                "systempaths=unconfined' (Docker), 'unmask=ALL' (Podman) or 'procMount: Unmasked' "
                "(Kubernetes), or accept boxes without /proc with --allow-degraded=proc";
        else if (f.step == JAIL_EXEC)
            hint =
                "the interpreter or its loader is not readable by other users, or lies outside its "
                "own prefix";
        r = err_set(e, f.step == JAIL_EXEC ? ERR_INTERPRETER : ERR_LAYER_MISSING, f.errnum, hint,
                    "layer '%s': %s ('%s')", steps[f.step].layer, steps[f.step].text, f.what);
    } else if (r == 0) {
        r = err_set(e, ERR_ZYGOTE, 0, NULL, "the zygote ended before it started");
    }
    (void)sys_pidfd_send_signal(pidfd, SIGKILL);
    (void)waitpid((pid_t)pid, NULL, 0);
    (void)close(pidfd);
    return r;
}
