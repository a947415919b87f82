// SPDX-License-Identifier: Apache-2.0
//
// stem: see stem.h.

#include "box/stem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "box/pages.h"
#include "box/spawn.h"
#include "box/spawn_message.h"

// In memory that a fork leaves out, like the zygote's bookkeeping: a page shared with a box would
// be copied for each.  SECURITY: so no box finds here what belongs to the box before it, which was
// another caller's.
static struct bookkeeping {
    union wire_message request, reply;
    struct rusage usage;
    int status;
} * bookkeeping;

static void tell(enum wire_type type, const int *fds, size_t count)
{
    if (wire_send(ZYGOTE_SOCKET_FD, type, &bookkeeping->reply, fds, count) < 0)
        _exit(0); // the keeper is gone
}

// One box, from its clone to its end.  Returns 1 in the box.
static int make(const struct box_plan *plan)
{
    int pidfd = -1;
    long pid = box_clone(plan, box_clone_flags(plan->flags), &pidfd);
    if (pid == 0) {
        box_enter(plan);
        return 1;
    }
    bookkeeping->reply.spawned =
        (struct wire_spawned){.box = plan->box, .error = pid < 0 ? (int)-pid : 0};
    tell(WIRE_SPAWNED, &pidfd, pid < 0 ? 0 : 1);
    if (sys_close_range(ZYGOTE_SOCKET_FD + 1, ~0U) < 0)
        _exit(1);
    if (pid < 0)
        return 0;
    while (wait4((pid_t)pid, &bookkeeping->status, 0, &bookkeeping->usage) < 0)
        if (errno != EINTR)
            _exit(1);
    spawn_message_exited(plan->box, bookkeeping->status, &bookkeeping->usage,
                         &bookkeeping->reply.exited);
    tell(WIRE_EXITED, NULL, 0);
    return 0;
}

int stem_serve(const struct box_plan *first, int sock)
{
    struct box_plan plan = *first;
    plan.has_stem = true;
    box_settle(&plan);
    // SECURITY: to look at its own memory it must be dumpable for a moment, in which its slot has
    // no box.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0)
        pages_map();
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        _exit(1);
    // Replaces the zygote's socket, which a stem must not have.
    bookkeeping = spawn_message_bookkeeping(sizeof *bookkeeping);
    if (!bookkeeping || dup3(sock, ZYGOTE_SOCKET_FD, O_CLOEXEC) < 0)
        _exit(1);
    for (int r = make(&plan);;) {
        int fds[FD_PASS_MAX];
        size_t count = 0;
        if (r == 1)
            return 1;
        union wire_message *m = &bookkeeping->request;
        if (wire_recv(ZYGOTE_SOCKET_FD, m, fds, ARRAY_LEN(fds), &count) <= 0 ||
            m->h.type != WIRE_SPAWN || m->spawn.stem || m->spawn.slot != first->slot ||
            m->spawn.uid_slot != first->uid_slot || !stem_may_make(m->spawn.flags) ||
            spawn_message_plan(&m->spawn, fds, count, &plan) < 0)
            _exit(0);
        plan.has_stem = true;
        r = make(&plan);
    }
}
