// SPDX-License-Identifier: Apache-2.0
//
// looks: see looks.h.
//
// SECURITY: it has no capabilities, one descriptor, and a list of the system calls that it makes.
// Where boxes have uids of their own and cgroups it has a uid of its own too, and reads of /proc
// what everybody may read.  Without cgroups it keeps the keeper's uid, which owns the user
// namespaces of the boxes and hence may read what their processes hold; it opens files for reading
// only.

#include "keeper/looks.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sys.h"
#include "box/creds.h"
#include "keeper/locks.h"
#include "keeper/procs.h"
#include "keeper/sockets.h"

enum { SOCK_FD = 3 };

// ---- the seal -----------------------------------------------------------------------------------

static int close_others(int *sock, struct err *e)
{
    if (dup2(*sock, SOCK_FD) < 0 || sys_close_range(SOCK_FD + 1, ~0U) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "keep the sampler's socket");
    *sock = SOCK_FD;
    return 0;
}

static int drop(const struct keeper_facts *facts, struct err *e)
{
    const struct slots *slots = &facts->caps->slots;
    bool needs_owner = facts->caps->cgroups.look & SAMPLE_PROCESSES;
    creds_drop_bounding();
    if (slots_may_give(slots) && !needs_owner) {
        uid_t uid = (uid_t)slots->uid_first + SLOT_SAMPLER;
        if (setgroups(0, NULL) < 0 || creds_become(uid) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "become uid %u", uid);
    }
    if (creds_drop_effective() < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "drop the sampler's capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'no_new_privs': set it for the sampler");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return getppid() == facts->keeper ? 0 : err_set(e, ERR_SYSTEM, 0, NULL, "the keeper is gone");
}

// Everything that the C library calls for what is done here; open() is below.
static const char *const calls[] = {
    "read",          "readv",        "close",   "fstat",      "newfstatat",
    "lseek",         "getdents64",   "brk",     "mmap",       "munmap",
    "mremap",        "mprotect",     "madvise", "recvmsg",    "sendmsg",
    "kcmp",          "futex",        "getpid",  "getppid",    "getrandom",
    "clock_gettime", "rt_sigreturn", "exit",    "exit_group", "restart_syscall",
};

static int load_filter(struct err *e)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = ctx ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(calls); i++) {
        int nr = seccomp_syscall_resolve_name(calls[i]);
        r = nr < 0 ? 0 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    if (r == 0) // for reading, and nothing is made
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r < 0 ? err_set(e, ERR_LAYER_MISSING, -r, NULL, "load the sampler's filter") : 0;
}

static int seal(const struct keeper_facts *facts, int *sock, struct err *e)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    int r = close_others(sock, e);
    if (r == 0)
        r = drop(facts, e);
#ifndef CONSTRICTOR_SANITIZED // sanitizers start a process of their own at the end
    if (r == 0 && !(facts->caps->box_flags & BOX_WITHOUT_SECCOMP))
        r = load_filter(e);
    if (r == 0) {
        (void)close(0);
        (void)close(1);
        (void)close(2);
    }
#else
    (void)load_filter;
#endif
    return r;
}

// ---- looking ------------------------------------------------------------------------------------

static int answer(int sock, const struct wire_sample *ask)
{
    union wire_message m;
    m.sampled = (struct wire_sampled){.box = ask->box};
    // The quickest flood first; a box that is ended for it need not be counted.
    if (ask->what & (SAMPLE_SOCKETS | SAMPLE_UNIX))
        sockets_look(ask, &m.sampled);
    if (ask->what & SAMPLE_PROCESSES && m.sampled.socket_bytes <= ask->limit_bytes / 2)
        procs_look(ask, &m.sampled);
    if (ask->what & SAMPLE_LOCKS)
        locks_look(ask, &m.sampled);
    return wire_send(sock, WIRE_SAMPLED, &m, NULL, 0);
}

int looks_main(int sock, const struct keeper_facts *facts)
{
    static union wire_message m; // large
    struct err e;
    log_init((enum log_level)facts->config->log_level, "constrictor sampler");
    sockets_open();
    if (seal(facts, &sock, &e) < 0) {
        log_err(LOG_ERROR, &e);
        return err_exit_status(e.code);
    }
    while (wire_recv(sock, &m, NULL, 0, NULL) > 0 && m.h.type == WIRE_SAMPLE) {
        struct wire_sample ask = m.sample;
        if (answer(sock, &ask) < 0)
            break;
    }
    return 0;
}
