// SPDX-License-Identifier: Apache-2.0
//
// sampler_process: see sampler_process.h.
//
// SECURITY: it has no capabilities, one descriptor, and a list of the system calls that it makes.
// Where boxes have uids and cgroups of their own, it has its own uid too, and reads only the public
// part of /proc.  Without cgroups it keeps the keeper's uid, which owns the user namespaces of the
// boxes and so may read what their processes hold.  It opens files for reading only.

#include "keeper/sampler_process.h"

#include <signal.h>

#include "base/log.h"
#include "box/seal.h"
#include "keeper/locks.h"
#include "keeper/procs.h"
#include "keeper/sockets.h"

// ---- the seal -----------------------------------------------------------------------------------

// Everything that the C library calls for what this process does.
static const char *const calls[] = {"read",
                                    "readv",
                                    "close",
                                    "fstat",
                                    "newfstatat",
                                    "lseek",
                                    "getdents64",
                                    "brk",
                                    "mmap",
                                    "munmap",
                                    "mremap",
                                    "mprotect",
                                    "madvise",
                                    "recvmsg",
                                    "sendmsg",
                                    "kcmp",
                                    "futex",
                                    "getpid",
                                    "getppid",
                                    "getrandom",
                                    "clock_gettime",
                                    "rt_sigreturn",
                                    "exit",
                                    "exit_group",
                                    "restart_syscall",
                                    NULL};

static int seal(const struct keeper_facts *facts, int *sock, struct err *e)
{
    struct seal_plan p = facts_seal_plan(facts, "sampler", SLOT_SAMPLER);
    if (facts->caps->cgroups.look & SAMPLE_PROCESSES)
        p.id = -1; // reading what processes hold takes the owner of their user namespace
    p.keep[p.keep_count++] = sock;
    p.ignored_signals[0] = SIGPIPE;
    p.files = SEAL_FILES_ALL; // /proc of any process
    p.calls = calls;
    p.closes_standard = true;
    return seal_process(&p, e);
}

// ---- looking ------------------------------------------------------------------------------------

static int answer(int sock, const struct wire_sample *ask)
{
    union wire_message m;
    m.sampled = (struct wire_sampled){.box = ask->box};
    // The quickest flood first; a box that will be ended for it need not be counted further.
    if (ask->what & (SAMPLE_SOCKETS | SAMPLE_UNIX))
        sockets_look(ask, &m.sampled);
    if (ask->what & SAMPLE_PROCESSES && m.sampled.socket_bytes <= ask->limit_bytes / 2)
        procs_look(ask, &m.sampled);
    if (ask->what & SAMPLE_LOCKS)
        locks_look(ask, &m.sampled);
    return wire_send(sock, WIRE_SAMPLED, &m, NULL, 0);
}

int sampler_main(int sock, const struct keeper_facts *facts)
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
