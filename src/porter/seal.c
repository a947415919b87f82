// SPDX-License-Identifier: Apache-2.0
//
// seal: see seal.h.  The same steps as the broker's (broker/seal.c), but for a folder instead of
// the network.

#include "porter/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sys.h"
#include "box/creds.h"
#include "box/filter.h"
#include "box/landlock.h"

enum { FIRST_FD = 3 };

static int close_others(int **fds, int count, struct err *e)
{
    // First out of the way of each other, then to their places.
    for (int i = 0; i < count; i++)
        if ((*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, FIRST_FD + count)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "keep a descriptor");
    for (int i = 0; i < count; i++)
        if ((*fds[i] = dup3(*fds[i], FIRST_FD + i, O_CLOEXEC)) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "dup3");
    if (sys_close_range((unsigned)(FIRST_FD + count), ~0U) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "close_range");
    return 0;
}

static void quiet_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN); // an export into a pipe
    (void)signal(SIGXFSZ, SIG_IGN); // a file that is larger than somebody allows us: EFBIG will do
}

static int become_owner(const struct keeper_facts *facts, struct err *e)
{
    const struct slots *slots = &facts->caps->slots;
    creds_drop_bounding();
    if (slots_may_give(slots)) {
        uid_t uid = (uid_t)slots->uid_first + SLOT_PORTER;
        if (setgroups(0, NULL) < 0 || creds_become(uid) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "become uid %u", uid);
    }
    if (creds_drop_effective() < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "drop the porter's capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'no_new_privs': set it for the porter");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != facts->keeper)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the keeper is gone");
    return 0;
}

// SECURITY: in this order, so that no step can be undone by a later one.
int seal_porter(const struct keeper_facts *facts, int *sock, int *folder, int *shelves,
                struct err *e)
{
    int *fds[] = {sock, folder, shelves};
    quiet_signals();
    (void)umask(0022); // boxes have other uids, and read what we write
    int r = close_others(fds, ARRAY_LEN(fds), e);
    return r < 0 ? r : become_owner(facts, e);
}

int seal_porter_rest(const struct keeper_facts *facts, int shelves, struct err *e)
{
#ifndef CONSTRICTOR_SANITIZED // sanitizers start a process of their own at the end, and read /proc
    if (landlock_seal_porter(facts->caps->landlock_abi, shelves) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'landlock': shut the porter in");
    if (facts->caps->box_flags & BOX_WITHOUT_SECCOMP)
        return 0; // the operator allowed that this kernel lacks it
    struct filter filter;
    int r = filter_build(FILTER_PORTER, &filter, e);
    if (r < 0)
        return r;
    struct sock_fprog program = {.len = (unsigned short)filter.count, .filter = filter.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, NULL, "load the porter's system call filter");
#else
    (void)facts, (void)shelves, (void)e;
#endif
    return 0;
}
