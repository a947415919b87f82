// SPDX-License-Identifier: Apache-2.0
//
// seal: see seal.h.

#include "box/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sys.h"
#include "box/creds.h"
#include "box/landlock.h"

#define SEE_DOCTOR "see 'constrictor doctor' for the exact cause and fix"

// ---- identity -----------------------------------------------------------------------------------

// The keeper blocks the signals that it reads from a descriptor.  A write into a closed pipe, or
// beyond a limit of file sizes, shall be an error of that write and not end the process.
static void reset_signals(const struct seal_plan *p)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < SEAL_SIGNALS_MAX; i++)
        if (p->ignored_signals[i])
            (void)signal(p->ignored_signals[i], SIG_IGN);
}

static int close_others(struct seal_plan *p, struct err *e)
{
    const int count = (int)p->keep_count;
    if (count > SEAL_KEEP_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the %s keeps too many descriptors", p->name);
    // First to numbers above the final ones, so that none overwrites another.
    for (int i = 0; i < count; i++)
        if ((*p->keep[i] = fcntl(*p->keep[i], F_DUPFD_CLOEXEC, SEAL_FIRST_FD + count)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "keep a descriptor for the %s", p->name);
    for (int i = 0; i < count; i++)
        if ((*p->keep[i] = dup3(*p->keep[i], SEAL_FIRST_FD + i, O_CLOEXEC)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "number a descriptor of the %s", p->name);
    if (sys_close_range((unsigned)(SEAL_FIRST_FD + count), ~0U) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "close the %s's other descriptors", p->name);
    return 0;
}

static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); // fewer connections fit
    }
}

static int become(const struct seal_plan *p, struct err *e)
{
    if (p->id < 0)
        return 0;
    if (p->id == 0 || p->id >= UINT32_MAX) // root, or "leave it" for the kernel
        return err_set(e, ERR_INTERNAL, 0, NULL, "the %s cannot be uid %lld", p->name,
                       (long long)p->id);
    const gid_t group = p->group;
    if (setgroups(group != 0, &group) < 0 || creds_become((uid_t)p->id) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "become uid %u", (unsigned)p->id);
    return 0;
}

int seal_identity(struct seal_plan *p, struct err *e)
{
    // 1. Signals are as at the start of a program.
    reset_signals(p);

    // 2. SECURITY: close the keeper's descriptors: cgroups, the zygote's socket, boxes.  Each of
    // them is a power that neither an identity nor a filter takes away.
    int r = close_others(p, e);
    if (r < 0)
        return r;
    if (p->raises_files)
        raise_files();

    // 3. SECURITY: empty the bounding set, so that no program with file capabilities gives any
    // back.  This needs CAP_SETPCAP, so it comes before the change of uid.  Without that right,
    // step 6 does the same.
    creds_drop_bounding();

    // 4. SECURITY: no group and no uid of the keeper: its files, and signals to its processes.
    // The groups come first: afterwards there is no right to change them.
    if ((r = become(p, e)) < 0)
        return r;

    // 5. SECURITY: drop all capabilities explicitly.  A change from root clears them, but one
    // between two ordinary uids does not (systemd's AmbientCapabilities).  Then ask the kernel.
    if (creds_drop_effective() < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "drop the %s's capabilities", p->name);
    if (!creds_are_empty())
        return err_set(e, ERR_SYSTEM, 0, NULL, "the %s still has capabilities", p->name);

    // 6. SECURITY: setuid programs and file capabilities give nothing.  Steps 9 and 10 require it
    // of a process without CAP_SYS_ADMIN.
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, SEE_DOCTOR,
                       "layer 'no_new_privs': set it for the %s", p->name);

    // 7. SECURITY: no other process of this uid traces this one or reads its memory.
    // After step 4, because the kernel sets it anew when the uid changes.
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);

    // 8. SECURITY: do not outlive the keeper, which bounds this process.  After step 4, because a
    // change of the uid clears the signal.  A keeper that died before shows in the parent's pid.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != p->parent)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the keeper is gone");
    return 0;
}

// ---- reach --------------------------------------------------------------------------------------

static int restrict_files(const struct seal_plan *p)
{
    switch (p->files) {
    case SEAL_FILES_OF_FOLDERS:
        return landlock_seal_both(p->landlock_abi, p->folder, p->other_folder);
    case SEAL_FILES_OF_TREE: return landlock_seal_porter(p->landlock_abi, p->folder);
    case SEAL_FILES_TO_READ: return landlock_seal_network(p->landlock_abi, p->read_files);
    case SEAL_FILES_ALL: return 0;
    }
    errno = EINVAL;
    return -1;
}

static void release(scmp_filter_ctx *ctx)
{
    seccomp_release(*ctx);
}

// The calls of the list, and open for reading only, which makes no file.
static int load_calls(const struct seal_plan *p, struct err *e)
{
    _cleanup_(release) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = ctx ? 0 : -ENOMEM;
    for (const char *const *call = p->calls; r == 0 && *call; call++) {
        int nr = seccomp_syscall_resolve_name(*call);
        if (nr >= 0) // else this architecture does not have it
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    if (r == 0)
        r = seccomp_load(ctx);
    return r < 0 ? err_set(e, ERR_LAYER_MISSING, -r, NULL, "load the %s's system call filter",
                           p->name)
                 : 0;
}

static int load_filter(const struct seal_plan *p, struct err *e)
{
    struct filter filter;
    if (p->without_filter)
        return 0;
    if (p->calls)
        return load_calls(p, e);
    int r = filter_build(p->filter, &filter, e);
    if (r < 0)
        return r;
    struct sock_fprog program = {.len = (unsigned short)filter.count, .filter = filter.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, NULL, "load the %s's system call filter",
                       p->name);
    return 0;
}

int seal_reach_always(const struct seal_plan *p, struct err *e)
{
    // 9. SECURITY: no file but those of the plan.  An ordinary user's server gives up no uid in
    // step 4; this is what keeps that user's files from it.
    if (restrict_files(p) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, SEE_DOCTOR, "layer 'landlock': shut the %s in",
                       p->name);

    // 10. SECURITY: start no program and make no call that this process does not need: less of
    // the kernel to attack.  The filter refuses Landlock's calls and most of prctl(), so it comes
    // after all steps that make them.
    int r = load_filter(p, e);
    if (r < 0)
        return r;

    // 11. Close standard input and output.  Last, so that a caller can report an error before.
    for (int fd = 0; p->closes_standard && fd < SEAL_FIRST_FD; fd++)
        (void)close(fd);
    return 0;
}

int seal_reach(const struct seal_plan *p, struct err *e)
{
#ifdef CONSTRICTOR_SANITIZED
    (void)p, (void)e;
    return 0;
#else
    return seal_reach_always(p, e);
#endif
}

int seal_process(struct seal_plan *p, struct err *e)
{
    int r = seal_identity(p, e);
    return r < 0 ? r : seal_reach(p, e);
}
