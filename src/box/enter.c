// SPDX-License-Identifier: Apache-2.0
//
// enter: the recipe.  Begins in a child of the zygote, with all capabilities of a user namespace
// that owns nothing but this slot, and ends in a box with none.  No user code runs before the last
// step.
//
// The order, and its reasons.  First what all boxes of a slot share, by box_settle(), in their stem
// (stem.h):
//   1  id map first: a process without a mapped id owns nothing that it makes, such as a tmpfs
//   2  ids while there are capabilities for it
//   3  bounding set and secure bits while there is CAP_SETPCAP; only CAP_SYS_ADMIN is left now
//   4  no_new_privs, which Landlock and seccomp require
//   5  not dumpable, after step 1 had to turn it on
// Then, by box_enter(), in the box itself:
//   6  cgroup, so that every later page and process is charged to the box
//   7  pages and cgroup namespace after the attach, so that its root is the box's own group
//   8  scratch while there is the capability for mounts
//   9  /proc after the pid namespace exists
//  10  descriptors and limits: only Landlock's rules open a file by name after this.  The limit of
//      open files comes after READY, see limit_files() in init.c
//  11  capabilities after the last step that needs one
//  12  Landlock, which forbids mounting
//  13  seccomp last, so that it need not allow what the steps above use
//  14  posture: ask the kernel for what can be asked again (ids, capabilities, filter, ...), the
//      slot's part too, and fail closed
//  15  only then split off the process that will run user code

#include "box/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sys.h"
#include "box/checkpoint.h"
#include "box/creds.h"
#include "box/init.h"
#include "box/landlock.h"
#include "box/mounts.h"
#include "box/pages.h"
#include "wire/frame.h"

// Since Linux 5.19; older headers lack it.
enum { WAIT_KILLABLE_RECV = 1 << 5 };

static const struct {
    const char *layer, *text;
} steps[STEP_MAX] = {
#define X(name, layer, what) [name] = {layer, what},
    BOX_STEP_MAP(X)
#undef X
};

const char *box_step_layer(uint32_t step)
{
    return step < STEP_MAX ? steps[step].layer : "unknown";
}

const char *box_step_text(uint32_t step)
{
    return step < STEP_MAX ? steps[step].text : "an unknown step";
}

// Where the control socket is at the moment; step_fds() moves it.
static int control = -1;
static struct init_extras extras = {.listener = -1};

static _Noreturn void die_step(enum box_step step, int errnum)
{
    struct frame_failed failed = {.step = step, .errnum = errnum};
    struct frame_piece piece = {&failed, sizeof failed};
    size_t offset = 0;
    (void)frame_send(control, FRAME_FAILED, &piece, 1, &offset);
    _exit(1);
}

#define STEP(step, call)                                                                           \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            die_step(step, errno);                                                                 \
    } while (0)

uint64_t box_clone_flags(uint32_t box_flags)
{
    // The network and ipc namespaces are the slot's, see enter_namespaces() in spawn.c.
    // SECURITY: sockets die with their processes, but System V objects, message queues and keys do
    // not: the next caller's box would find what one box left.  So only boxes under the filter
    // share a slot's namespaces.  The half of it that the zygote loads before the first box refuses
    // every call that could make, find or change an object of the first two kinds (test_filter.c
    // names them), and each box's own half refuses those for keys; the posture checks both halves.
    // A box cannot mount an mqueue; /proc/sys, /proc/sysvipc and /proc/keys are not in a box's
    // /proc.
    return CLONE_NEWPID | CLONE_NEWNS | (box_flags & BOX_WITHOUT_SECCOMP ? CLONE_NEWIPC : 0);
}

long box_clone(const struct box_plan *plan, uint64_t flags, int *ret_pidfd)
{
    void *tid = init_tid_address();
    struct sys_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    if (tid) { // libc must know the child's own thread id: raise() and abort() use it
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = (uint64_t)(uintptr_t)tid;
    }
    if (ret_pidfd) {
        args.flags |= CLONE_PIDFD;
        args.pidfd = (uint64_t)(uintptr_t)ret_pidfd;
    }
    if (ret_pidfd && plan->cgroup_kind == BOX_CGROUP_V2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->cgroup_fd[0];
    }
    long pid = sys_clone3(&args);
    return pid < 0 ? -errno : pid;
}

// v2 needs nothing: clone3 made the process in its group.  On v1 a single-threaded process that
// moves itself is the one way that does not wait for an RCU grace period (5-15 ms, measured).
static int step_cgroup(const struct box_plan *plan)
{
    if (plan->cgroup_kind != BOX_CGROUP_V1)
        return 0;
    for (uint32_t i = 0; i < plan->cgroup_fds; i++)
        if (write(plan->cgroup_fd[i], "0", 1) != 1)
            return -1;
    return 0;
}

static int write_proc(int self, const char *path, const char *text)
{
    _cleanup_close_ int fd = openat(self, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

// Maps one uid and one gid to this slot.  The zygote took the slot's ids before the clone, so the
// kernel lets the child write its own map.
// SECURITY: deny setgroups first: else a process could drop a group that denies access.
static int step_id_map(const struct box_plan *plan)
{
    char map[64];
    // A change of uid made the memory "not dumpable", which hides /proc/self from its own process.
    // box_settle() turns it off again.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return -1;
    snprintf(map, sizeof map, "%d %u 1", BOX_UID, plan->uid_slot);
    _cleanup_close_ int self = openat(plan->proc_fd, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0 || write_proc(self, "setgroups", "deny") < 0)
        return -1;
    if (write_proc(self, "uid_map", map) < 0)
        return -1;
    return write_proc(self, "gid_map", map);
}

// The two processes of the box set RLIMIT_NOFILE themselves, after they sent their last descriptor.
static int plan_open_files(const struct box_plan *plan)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return -1;
    extras.open_files =
        plan->limits.open_files < now.rlim_max ? plan->limits.open_files : now.rlim_max;
    return 0;
}

static int limit_set(int resource, rlim_t value)
{
    struct rlimit now;
    if (setrlimit((__rlimit_resource_t)resource, &(struct rlimit){value, value}) == 0)
        return 0;
    // Raising needs a capability that even root may lack; the highest that may be is low enough.
    if (errno != EPERM || getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return -1;
    return setrlimit((__rlimit_resource_t)resource, &(struct rlimit){now.rlim_max, now.rlim_max});
}

int box_limit_all(void)
{
    static const struct {
        int resource;
        rlim_t value;
    } table[] = {
        // 1, not 0: a core_pattern that is a pipe ignores 0, and would start a helper on the host.
        {RLIMIT_CORE, 1},        {RLIMIT_MEMLOCK, 0}, {RLIMIT_MSGQUEUE, 0},
        {RLIMIT_STACK, 8 << 20}, {RLIMIT_NICE, 0},    {RLIMIT_RTPRIO, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (limit_set(table[i].resource, table[i].value) < 0)
            return -errno;
    return 0;
}

// The filter makes mmap refuse one allocation beyond the memory limit (emit_memory() in filter.c).
// libc then tries the heap of brk.  So one page is mapped in the heap's way, a little below the
// limit, because free space in the heap counts too.  This is no wall: it may fail, and a program
// that the box starts has a heap without it.
static void bound_heap(uint64_t memory_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = (uintptr_t)sys_raw(SYS_brk, 0, 0, 0, 0, 0, 0);
    end = (end + memory_bytes - memory_bytes / 32) & ~(page - 1);
    (void)sys_raw(SYS_mmap, (long)end, (long)page, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

// What differs from box to box; the rest is inherited, see box_limit_all().
static int step_rlimits(const struct box_plan *plan)
{
    const struct {
        int resource;
        rlim_t value;
        uint32_t only_with; // flag that must be set, 0: always
    } table[] = {
        // Queued signals are kernel memory.  SECURITY: not the zygote's, as the others: the kernel
        // would apply the zygote's limit to the sum over all user namespaces that it makes, and
        // without uid slots one box could use up the share of all boxes.
        {RLIMIT_SIGPENDING, 1024, 0},
        {RLIMIT_FSIZE, plan->limits.file_bytes, 0},
        // Counted per user namespace since Linux 5.14, so it is a limit of this box alone.  The
        // init is one of the processes, and the stem.
        {RLIMIT_NPROC, (rlim_t)plan->limits.processes + 1 + plan->has_stem, BOX_NPROC},
        // Stacks of threads are reserved, not used; what is used is summed by the keeper.
        {RLIMIT_AS,
         plan->base_as_bytes + plan->limits.memory_bytes +
             (rlim_t)plan->limits.processes * (8 << 20),
         BOX_ADDRESS_SPACE},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if ((!table[i].only_with || (plan->flags & table[i].only_with)) &&
            limit_set(table[i].resource, table[i].value) < 0)
            return -1;
    bound_heap(plan->limits.memory_bytes);
    return plan_open_files(plan);
}

// What mounts_freeze_scratch() gave; step_fds() moves it to BOX_WRITER_FD.
static int scratch_writer = -1;

static int step_freeze(const struct box_plan *plan)
{
    if (!(plan->flags & BOX_READONLY))
        return 0;
    scratch_writer = mounts_freeze_scratch();
    extras.frozen = scratch_writer >= 0;
    return extras.frozen ? 0 : -1;
}

static int make_output(int ret[2])
{
    // Init must not block in a read: code can open its end of a pipe for reading and read first.
    return pipe2(ret, O_CLOEXEC) < 0 ? -1 : fcntl(ret[0], F_SETFL, O_NONBLOCK);
}

// 0 /dev/null, 1 and 2 the output pipes, 3 the control socket, 4 and 5 the read ends of the pipes
// (for init), 6 the scratch folder (for the keeper), 7 the way to write to a frozen one; user code
// has none of those from 3 on. The pipes are made here, so that they belong to the box's user and
// are charged to its group.
// SECURITY: close everything that the zygote had open (CVE-2024-21626: a leaked directory
// descriptor is a way out).
static int step_fds(const struct box_plan *plan)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int scratch = open("/mnt/data", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int out[2], err[2];
    if (null < 0 || scratch < 0 || make_output(out) < 0 || make_output(err) < 0)
        return -1;
    // Move what is in the way above the target numbers first, so that no dup3 hits a source.
    int from[] = {null, out[1], err[1], plan->control_fd, out[0], err[0], scratch, scratch_writer};
    const size_t count = ARRAY_LEN(from) - (scratch_writer < 0);
    for (size_t i = 0; i < count; i++) {
        if (from[i] < (int)ARRAY_LEN(from))
            from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, ARRAY_LEN(from));
        if (from[i] < 0)
            return -1;
    }
    for (size_t i = 0; i < count; i++)
        if (dup3(from[i], (int)i, i > 2 ? O_CLOEXEC : 0) < 0 && errno != EINVAL)
            return -1;
    control = BOX_CONTROL_FD;
    return sys_close_range((unsigned)count, ~0U);
}

static int step_seccomp(const struct box_plan *plan)
{
    // With WAIT_KILLABLE a signal does not restart a call that the keeper works on: else a denied
    // call could be reported twice, or fail with EINTR.
    static const unsigned ways[] = {SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV,
                                    SECCOMP_FILTER_FLAG_NEW_LISTENER};
    if (plan->flags & BOX_WITHOUT_SECCOMP)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(ways) && !(plan->flags & BOX_QUIET) && extras.listener < 0;
         i++)
        extras.listener =
            (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ways[i], &plan->telling_filter);
    if (extras.listener >= 0)
        return 0;
    // An old kernel, or a container whose own filter has the one listener that there can be.  The
    // box is as safe: the filter still denies with an errno, but denials are not reported.
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &plan->filter, 0, 0);
}

// SECURITY: the first half refuses shmget: so nothing stays in the ipc namespace, which the slot's
// next box will share.  Without a filter a size of 0 is EINVAL, and makes nothing.
static bool leaves_nothing(void)
{
    return sys_raw(SYS_shmget, 0, 0, 0, 0, 0, 0) == -ENOSYS;
}

// Tries calls that the filter must refuse.  Only calls that it refuses without a notification,
// because nothing answers one yet: clone3 is in the last half, as unshare is.
static bool nothing_nests(void)
{
    long pid = sys_raw(SYS_clone3, 0, 0, 0, 0, 0, 0);
    return pid == -ENOSYS && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 && errno == EPERM;
}

// SECURITY: verify that scratch is read-only before any user code exists.
static bool is_frozen(void)
{
    static const char *const paths[] = {"/mnt/data/x", "/mnt/tmp/x", "/mnt/x", "/tmp/x",
                                        "/dev/shm/x"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (mkdir(paths[i], 0700) == 0 || errno != EROFS)
            return false;
    return true;
}

static int expect(bool holds)
{
    if (!holds)
        errno = EPROTO;
    return holds ? 0 : -1;
}

// Asks the kernel whether the steps above had their effect.  The bounding set was checked when it
// was emptied; namespaces, Landlock and cgroups have no such question.
static int step_posture(const struct box_plan *plan)
{
    bool holds = getuid() == BOX_UID && geteuid() == BOX_UID && getgid() == BOX_UID &&
                 getpid() == 1 && creds_are_empty() &&
                 prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE) == 0 &&
                 fcntl(BOX_WRITER_FD + extras.frozen + (extras.listener >= 0), F_GETFD) < 0;
    if (holds && !(plan->flags & BOX_WITHOUT_SECCOMP))
        // The filter is really there.
        holds = prctl(PR_GET_SECCOMP) == 2 && nothing_nests() && leaves_nothing();
    if (holds && plan->flags & BOX_READONLY)
        holds = is_frozen();
    return expect(holds);
}

void box_settle(const struct box_plan *plan)
{
    control = plan->control_fd;
    STEP(STEP_ID_MAP, step_id_map(plan));
    STEP(STEP_IDS, creds_become(BOX_UID));
    STEP(STEP_BOUNDING, creds_settle());
    STEP(STEP_BOUNDING, expect(creds_bounding_is_empty()));
    STEP(STEP_NO_NEW_PRIVS, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    // SECURITY: a stem has a capability, and the init of a box shares the memory of user code:
    // neither may be read or traced by others, and nothing here may dump core.
    STEP(STEP_POSTURE, prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

void box_enter(const struct box_plan *plan)
{
    control = plan->control_fd;
    (void)umask(0);
    STEP(STEP_CGROUP, step_cgroup(plan));
    // Not a layer: pages that the run will need, charged to the box.
    pages_touch(plan->flags & BOX_HURRY, plan->has_stem);
    STEP(STEP_CGROUP_NS, unshare(CLONE_NEWCGROUP));
    STEP(STEP_SCRATCH, mounts_scratch(plan->limits.scratch_bytes, plan->limits.inodes));
    STEP(STEP_SCRATCH, step_freeze(plan));
    STEP(STEP_SCRATCH, plan->flags & BOX_WHEEL_FILES ? 0 : mounts_hide_wheel_files());
    STEP(STEP_PROC, mounts_proc(plan->flags & BOX_WITHOUT_PROC));
    STEP(STEP_FDS, step_fds(plan));
    STEP(STEP_RLIMITS, step_rlimits(plan));
    (void)umask(022);
    // SECURITY: no controlling terminal, ever (CVE-2017-5226), and a process group of its own:
    // kill(0, ...) reaches no stem.  Fails only if the process is a leader already.
    (void)setsid();
    STEP(STEP_SCRATCH, chdir("/mnt/data"));
    STEP(STEP_CAPABILITIES, creds_drop_effective());
    STEP(STEP_LANDLOCK, landlock_restrict(plan->landlock_abi, box_has_inet(plan->flags)));
    STEP(STEP_SECCOMP, step_seccomp(plan));
    STEP(STEP_POSTURE, step_posture(plan));
    checkpoint_set_limits(plan->limits.memory_bytes, plan->limits.processes);
    STEP(STEP_SPLIT, init_split(&extras));
}
