// SPDX-License-Identifier: Apache-2.0
//
// alone: see alone.h.

#include "box/alone.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/cleanup.h"
#include "base/sys.h"
#include "box/checkpoint.h"
#include "box/creds.h"
#include "box/enter.h"
#include "box/init.h"
#include "box/mounts.h"

static struct init_extras extras = {.listener = -1, .alone = true};

// ---- the thread id ------------------------------------------------------------------------------

// gVisor has no PR_GET_TID_ADDRESS.  libc keeps the id of the calling thread in the thread's own
// block, and a fork writes the child's there: so the one word of that block that was the parent's
// id and is the child's afterwards is the place.
static void *find_tid(void)
{
    enum { WORDS = 256 }; // of a block of some 2300 bytes
    const int *block = (const int *)(uintptr_t)pthread_self();
    const int mine = (int)syscall(SYS_gettid);
    int before[WORDS], fds[2], at = -1;
    memcpy(before, block, sizeof before);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        const int own = (int)syscall(SYS_gettid);
        for (int i = 0; i < WORDS && at != -2; i++)
            if (before[i] == mine && block[i] == own)
                at = at == -1 ? i : -2; // two of them: neither
        _exit(write(fds[1], &at, sizeof at) == sizeof at ? 0 : 1);
    }
    (void)close(fds[1]);
    if (pid < 0 || read(fds[0], &at, sizeof at) != sizeof at)
        at = -1;
    (void)close(fds[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return at >= 0 && at < WORDS ? (void *)(block + at) : NULL;
}

// ---- the steps ----------------------------------------------------------------------------------

static int write_file(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

// The limit of processes: gVisor's own controller, where nothing shows it any more.  The init is
// one of them.  It is mounted alone: with several hierarchies gVisor (February 2026) charges one
// that it picks at random (chargeLocked() in pkg/sentry/kernel/task_cgroup.go).
static int step_processes(const struct wire_limits *limits)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    char text[24];
    snprintf(text, sizeof text, "%u", limits->processes + 1);
    if (umount2("/sys", MNT_DETACH) < 0 || mount("cgroup", "/sys", "cgroup", flags, "pids") < 0 ||
        mkdir("/sys/box", 0755) < 0 || write_file("/sys/box/pids.max", text) < 0 ||
        write_file("/sys/box/cgroup.procs", "0") < 0)
        return -1;
    return mount("nothing", "/sys", "tmpfs", flags | MS_RDONLY, "size=4k,mode=0555");
}

static int over(const char *from, const char *at, bool readonly)
{
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (mount(from, at, NULL, MS_BIND, NULL) < 0)
        return -1;
    return readonly ? mount(NULL, at, NULL, flags, NULL) : 0;
}

// One tmpfs for all that the box may write, as in a native box.
static int step_scratch(const struct wire_limits *limits)
{
    static const char *const folders[] = {"/mnt/data", "/mnt/tmp", "/mnt/shm"};
    if (mounts_scratch(limits->scratch_bytes, 0) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) // a native box makes them as their owner
        if (chown(folders[i], BOX_UID, BOX_UID) < 0)
            return -1;
    if (over("/mnt/tmp", "/tmp", limits->readonly) < 0 ||
        over("/mnt/shm", "/dev/shm", limits->readonly) < 0)
        return -1;
    return 0;
}

static int make_output(int ret[2])
{
    return pipe2(ret, O_CLOEXEC) < 0 ? -1 : fcntl(ret[0], F_SETFL, O_NONBLOCK);
}

// As step_fds() of enter.c: 0 /dev/null, 1 and 2 the output, 3 the control socket, 4 and 5 the ends
// of the output for init, 6 the scratch folder, 7 the way to write to a frozen one.
static int step_fds(int writer)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int scratch = open("/mnt/data", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int out[2], err[2];
    if (null < 0 || scratch < 0 || make_output(out) < 0 || make_output(err) < 0)
        return -1;
    int from[] = {null, out[1], err[1], BOX_CONTROL_FD, out[0], err[0], scratch, writer};
    const size_t count = ARRAY_LEN(from) - (writer < 0);
    for (size_t i = 0; i < count; i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, ARRAY_LEN(from))) < 0)
            return -1;
    for (size_t i = 0; i < count; i++)
        if (dup3(from[i], (int)i, i > 2 ? O_CLOEXEC : 0) < 0)
            return -1;
    return sys_close_range((unsigned)count, ~0U);
}

static int limit(int resource, rlim_t value)
{
    return setrlimit((__rlimit_resource_t)resource, &(struct rlimit){value, value});
}

static uint64_t own_address_space(void)
{
    unsigned long long pages = 0;
    _cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// The address space of a process: what a run can get at most, and stacks of some threads.  The
// keeper's control group bounds the whole box.
static int step_rlimits(const struct wire_limits *limits)
{
    enum { STACKS = 16, STACK = 8 << 20 };
    uint64_t space = own_address_space() + limits->memory_bytes + (uint64_t)STACKS * STACK;
    if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_STACK, STACK) < 0 ||
        limit(RLIMIT_FSIZE, limits->file_bytes) < 0 || limit(RLIMIT_AS, space) < 0)
        return -1;
    extras.open_files = limits->open_files;
    return 0;
}

static int step_creds(void)
{
    creds_drop_bounding();
    if (!creds_bounding_is_empty() || creds_become(BOX_UID) < 0)
        return -1;
    return creds_empty();
}

// SECURITY: no namespaces in the sandbox.  In one of its own code would have all capabilities of
// gVisor's kernel: it could mount a second scratch without a limit, make a frozen one writable, and
// reach far more of gVisor.  clone3 has its flags in memory; libc falls back to clone.
static int step_namespaces(void)
{
#if defined __x86_64__
    enum { ARCH = AUDIT_ARCH_X86_64 };
#elif defined __aarch64__
    enum { ARCH = AUDIT_ARCH_AARCH64 };
#endif
    static const uint32_t spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                   CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 6, 0), // x32
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, spaces, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = (void *)code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int step_posture(const struct wire_limits *limits)
{
    static const char *const paths[] = {"/mnt/data/x", "/mnt/tmp/x", "/mnt/x", "/tmp/x",
                                        "/dev/shm/x"};
    bool holds = getuid() == BOX_UID && geteuid() == BOX_UID && getgid() == BOX_UID &&
                 creds_are_empty() && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
                 mkdir("/opt/constrictor/x", 0700) < 0 && mkdir("/x", 0700) < 0 &&
                 prctl(PR_GET_SECCOMP) == 2 && unshare(CLONE_NEWUSER) < 0 &&
                 syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0) < 0;
    for (size_t i = 0; i < ARRAY_LEN(paths) && limits->readonly; i++)
        holds = holds && mkdir(paths[i], 0700) < 0 && errno == EROFS;
    if (!holds)
        errno = EPROTO;
    return holds ? 0 : -1;
}

int alone_enter(const struct wire_limits *limits, const char **ret_step)
{
    int writer = -1;
    // Errors of single calls are all that a caller can act on here, so each step is its own name.
#define STEP(name, call)                                                                           \
    do {                                                                                           \
        *ret_step = (name);                                                                        \
        if ((call) < 0)                                                                            \
            return -1;                                                                             \
    } while (0)
    extras.tid_address = find_tid();
    (void)umask(0);
    STEP("limit the processes", step_processes(limits));
    STEP("mount the scratch", step_scratch(limits));
    if (limits->readonly)
        STEP("freeze the scratch", writer = mounts_freeze_scratch());
    extras.frozen = writer >= 0;
    STEP("set the descriptors", step_fds(writer));
    STEP("set the limits", step_rlimits(limits));
    (void)umask(022);
    (void)setsid();
    STEP("go to the scratch", chdir("/mnt/data"));
    STEP("drop all rights", step_creds());
    STEP("forbid namespaces", step_namespaces());
    STEP("check the walls", step_posture(limits));
    checkpoint_set_limits(limits->memory_bytes, limits->processes);
    STEP("start the user process", init_split(&extras));
#undef STEP
    return 0;
}
