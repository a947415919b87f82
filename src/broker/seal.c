// SPDX-License-Identifier: Apache-2.0
//
// seal: see seal.h.  The same steps as the gate's (run/gate.c), but for sockets of TCP and UDP.

#include "broker/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

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

// SECURITY: in this order, so that no step can be undone by a later one.
int seal_identity(const struct keeper_facts *facts, int *sock, int *network_file, int *audit_file,
                  struct err *e)
{
    const struct slots *slots = &facts->caps->slots;
    int *fds[3] = {sock}, count = 1;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN); // c-ares writes without MSG_NOSIGNAL
    if (*network_file >= 0)
        fds[count++] = network_file;
    if (*audit_file >= 0)
        fds[count++] = audit_file;
    int r = close_others(fds, count, e);
    if (r < 0)
        return r;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    creds_drop_bounding();
    if (slots_may_give(slots)) {
        uid_t uid = (uid_t)slots->uid_first + SLOT_BROKER;
        if (setgroups(0, NULL) < 0 || creds_become(uid) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "become uid %u", uid);
    }
    if (creds_drop_effective() < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "drop the broker's capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'no_new_privs': set it for the broker");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != facts->keeper)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the keeper is gone");
    return 0;
}

int seal_rest(const struct keeper_facts *facts, struct err *e)
{
#ifndef CONSTRICTOR_SANITIZED // sanitizers start a process of their own at the end, and read /proc
    // What c-ares reads again; a link is followed to where the file lies.
    static const char *const files[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                        NULL};
    if (landlock_seal_network(facts->caps->landlock_abi, files) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'landlock': shut the broker in");
    if (facts->caps->box_flags & BOX_WITHOUT_SECCOMP)
        return 0; // the operator allowed that this kernel lacks it
    struct filter filter;
    int r = filter_build(FILTER_BROKER, &filter, e);
    if (r < 0)
        return r;
    struct sock_fprog program = {.len = (unsigned short)filter.count, .filter = filter.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno, NULL, "load the broker's system call filter");
#else
    (void)facts, (void)e;
#endif
    return 0;
}
