// SPDX-License-Identifier: Apache-2.0
//
// making: the order for a new box, from its descriptors and groups to the message to the zygote: part of
// stock.h.  Runs in the keeper.

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/stock.h"

// What boxes in the making will bring, this one included: a pidfd, a scratch folder, a listener, the broker's
// sockets.
static int fds_to_come(const struct stock *s)
{
    return STOCK_FDS_SPARE + 3 * (int)s->counts[BOX_MAKING] +
           WIRE_NET_FDS *
               (int)(s->kinds[KIND_NETWORK].making + s->kinds[KIND_READONLY_NETWORK].making);
}

// Descriptors and groups of a new box, and the order to the zygote.
static int begin(struct stock *s, struct box *b, int slot, struct err *e)
{
    int sock[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int r = cgroup_make(&s->caps->cgroups, &b->cg, b->id, &b->limits, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0 ||
        pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
        fd_is_scarce(err[1], fds_to_come(s))) {
        r = err_set(
            e, ERR_BUSY, errno,
            "close sessions that are not needed, or raise the limit of open files (ulimit -n)",
            "make a box");
        for (int i = 0; i < 2; i++) {
            fd_close(&sock[i]);
            fd_close(&out[i]);
            fd_close(&err[i]);
        }
        return r;
    }
    b->control = sock[0];
    b->out = out[0];
    b->err = err[0];
    if (slots_have_uids(&s->caps->slots)) {
        // So that the box can open its own /dev/stdout.  Best effort: the descriptors work anyway.
        uid_t uid = (uid_t)s->caps->slots.uid_first + (uid_t)slot;
        (void)!fchown(out[1], uid, (gid_t)-1);
        (void)!fchown(err[1], uid, (gid_t)-1);
    }
    // Before the order goes out: a failure after it would leave a box that nobody knows.
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_BOX, b->id)};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, b->control, &ev) < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
        fd_close(&sock[1]);
        fd_close(&out[1]);
        fd_close(&err[1]);
        return r;
    }

    int fds[3 + BOX_CGROUP_FDS_MAX] = {sock[1], out[1], err[1]};
    int groups = b->cg.root->driver->attach_fds(&b->cg, fds + 3);
    union wire_message m;
    m.spawn = (struct wire_spawn){
        .box = b->id,
        .uid_slot = slots_have_uids(&s->caps->slots) ? (uint32_t)slot : 0,
        .cgroup_fds = groups < 0 ? 0 : (uint32_t)groups,
        .cgroup_kind = b->cg.root->driver->kind,
        .flags = s->caps->box_flags | (b->kind & KIND_NETWORK ? BOX_NETWORK : 0) |
                 (b->limits.readonly ? BOX_READONLY : 0) | (b->terms.wheels ? BOX_WHEELS : 0) |
                 (s->kinds[b->kind].order_count || b->ticket ? BOX_HURRY : 0),
        .landlock_abi = s->caps->landlock_abi,
        .net_slot = (uint32_t)slot,
        .limits = b->limits,
    };
    r = groups < 0 ? groups : wire_send(s->zygote_sock, WIRE_SPAWN, &m, fds, 3 + (size_t)groups);
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
    if (r < 0)
        return err_set(e, ERR_ZYGOTE, -r, NULL, "ask the zygote for a box");
    b->since_ms = clock_ms();
    return 0;
}

int stock_make(struct stock *s, enum box_kind kind, const struct wire_limits *limits,
               uint64_t ticket, const struct box_terms *terms, struct err *e)
{
    if (s->zygote_sock < 0)
        return err_set(e, ERR_ZYGOTE, 0, NULL, "there is no zygote");
    int slot = slots_take(&s->caps->slots);
    if (slot < 0)
        return err_set(e, ERR_BUSY, 0, "wait until runs end", "all %d boxes are in use",
                       SLOT_BOXES);
    struct box *b = calloc(1, sizeof *b);
    if (!b) {
        slots_give(&s->caps->slots, slot);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make a box");
    }
    *b = (struct box){.id = ++s->generation * SLOTS + (uint64_t)slot,
                      .kind = kind,
                      .limits = *limits,
                      .ticket = ticket,
                      .terms = *terms,
                      .control = -1,
                      .out = -1,
                      .err = -1,
                      .scratch = -1,
                      .pidfd = -1,
                      .listener = -1,
                      .cg = {.root = &s->caps->cgroups, .dir = {-1, -1, -1}}};
    b->limits.readonly = kind & KIND_READONLY ? 1 : 0;
    s->by_slot[slot] = b;
    stock_enlist(s, b, BOX_MAKING);
    if (ticket)
        s->by_ticket[ticket % STOCK_TICKETS].box = b;
    int r = begin(s, b, slot, e);
    if (r < 0)
        stock_forget(s, b);
    return r;
}
