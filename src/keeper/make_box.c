// SPDX-License-Identifier: Apache-2.0
//
// make_box: asks for a new box, from its descriptors and groups to the message to its stem or to
// the zygote, and reads their answers: part of stock.h.  Runs in the keeper.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "box/stem.h"
#include "keeper/backend.h"
#include "keeper/poller.h"
#include "keeper/stock.h"

#define MORE_FILES                                                                                 \
    "close sessions that are not needed, or raise the limit of open files (ulimit -n)"

// Descriptors that boxes in the making will add, this one included: a pidfd, a scratch folder, a
// listener, the broker's sockets.  A stem's socket exists before its box.
static int fds_to_come(const struct stock *s)
{
    return STOCK_FDS_SPARE + 3 * (int)s->counts[BOX_MAKING] +
           WIRE_NET_FDS *
               (int)(s->kinds[KIND_NETWORK].making + s->kinds[KIND_READONLY_NETWORK].making);
}

// The far end of the socket of a new stem for this slot, or a negative errno.
static int make_stem(struct stock *s, int slot)
{
    int sock[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return -errno;
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_STEM, (uint64_t)slot)};
    int r = fd_set_nonblock(sock[0], true);
    if (r == 0 && poller_ctl(s->epoll, EPOLL_CTL_ADD, sock[0], &ev) < 0)
        r = -errno;
    if (r < 0) {
        fd_close(&sock[0]);
        fd_close(&sock[1]);
        return r;
    }
    stems_add(&s->stems, slot, sock[0]);
    return sock[1];
}

// `fds` has room for the socket of a stem.
static int ask_zygote(struct stock *s, const struct box *b, int slot, union wire_message *m,
                      int *fds, size_t count)
{
    if (!b->has_stem)
        return wire_send(s->zygote_sock, WIRE_SPAWN, m, fds, count);
    int far = make_stem(s, slot);
    if (far < 0)
        return far;
    fds[count] = far;
    m->spawn.stem = 1;
    int r = wire_send(s->zygote_sock, WIRE_SPAWN, m, fds, count + 1);
    fd_close(&far);
    if (r < 0)
        stems_end(&s->stems, slot);
    return r;
}

// The native backend: asks the slot's stem, or else the zygote.
static int ask(struct stock *s, struct box *b, int slot, int *fds, unsigned groups, struct err *e)
{
    union wire_message m;
    m.spawn = (struct wire_spawn){
        .box = b->id,
        .uid_slot = slots_have_uids(&s->caps->slots) ? (uint32_t)slot : 0,
        .cgroup_fds = groups,
        .cgroup_kind = b->cg.root->driver->kind,
        .flags = stock_walls(s, b) | (b->terms.wheel_files ? BOX_WHEEL_FILES : 0) |
                 (s->kinds[b->kind].request_count || b->ticket ? BOX_HURRY : 0),
        .landlock_abi = s->caps->landlock_abi,
        .slot = (uint32_t)slot,
        .limits = b->limits,
    };
    b->has_stem = !s->stemless && stem_may_make(m.spawn.flags);
    int stem = b->has_stem ? stems_wake(&s->stems, slot) : -1;
    int r = stem < 0 ? -EPIPE : wire_send(stem, WIRE_SPAWN, &m, fds, 1 + groups);
    if (r == -EPIPE || r == -ECONNRESET) // no stem, or it has just died
        r = ask_zygote(s, b, slot, &m, fds, 1 + groups);
    if (r == -EMFILE || r == -ENFILE)
        return err_set(e, ERR_BUSY, -r, MORE_FILES, "cannot make a box");
    return r < 0 ? err_set(e, ERR_ZYGOTE, -r, "run it again",
                           "the zygote, which makes boxes, does not answer")
                 : 0;
}

static void interrupt_init(const struct box *b)
{
    (void)sys_pidfd_send_signal(b->pidfd, SIGINT); // it passes the signal on
}

static int check_zygote(struct stock *s, struct err *e)
{
    return s->zygote_sock < 0 ? err_set(e, ERR_ZYGOTE, 0, NULL, "there is no zygote") : 0;
}

const struct backend native_backend = {.name = "native",
                                       .network = true,
                                       .of_zygote = true,
                                       .has_stems = true,
                                       .begin = ask,
                                       .interrupt = interrupt_init,
                                       .check = check_zygote};

// Makes the descriptors and groups of a new box, and asks for it.
static int begin(struct stock *s, struct box *b, int slot, struct err *e)
{
    int sock[2] = {-1, -1};
    const struct backend *backend = backend_of(b->kind);
    const struct wire_limits room = backend->room ? backend->room(&b->limits) : b->limits;
    int r = cgroup_make(&s->caps->cgroups, &b->cg, b->id, &room, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0 ||
        fd_is_scarce(sock[1], fds_to_come(s))) {
        r = err_set(e, ERR_BUSY, errno, MORE_FILES, "make a box");
        fd_close(&sock[0]);
        fd_close(&sock[1]);
        return r;
    }
    b->control = sock[0];
    // Before the request goes out: a later failure would leave a box that the keeper does not know.
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_BOX, b->id)};
    if (poller_ctl(s->epoll, EPOLL_CTL_ADD, b->control, &ev) < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
        fd_close(&sock[1]);
        return r;
    }

    int fds[1 + BOX_CGROUP_FDS_MAX + 1] = {sock[1]};
    int groups = b->cg.root->driver->attach_fds(&b->cg, fds + 1);
    r = groups < 0 ? err_set(e, ERR_SYSTEM, -groups, NULL, "enter cgroup '%s'", b->cg.name)
                   : backend->begin(s, b, slot, fds, (unsigned)groups, e);
    fd_close(&fds[0]);
    if (r < 0)
        return r;
    b->since_ms = clock_ms();
    return 0;
}

int stock_make(struct stock *s, enum box_kind kind, const struct wire_limits *limits,
               uint64_t ticket, const struct box_terms *terms, struct err *e)
{
    int r = backend_of(kind)->check(s, e);
    if (r < 0)
        return r;
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
                      .scratch = -1,
                      .pidfd = -1,
                      .log = -1,
                      .listener = -1,
                      .cg = {.root = &s->caps->cgroups, .dir = {-1, -1, -1}}};
    b->limits.readonly = kind & KIND_READONLY ? 1 : 0;
    b->limits.isolation = kind & KIND_GVISOR ? ISOLATION_GVISOR : ISOLATION_NATIVE;
    memcpy(b->limits.image, s->images[kind / KIND_IMAGE], sizeof b->limits.image);
    s->by_slot[slot] = b;
    stock_enlist(s, b, BOX_MAKING);
    if (ticket)
        s->by_ticket[ticket % STOCK_TICKETS].box = b;
    r = begin(s, b, slot, e);
    if (r < 0)
        stock_forget(s, b);
    return r;
}

static bool has_something(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

// A stem died: its box, which only the stem could report, is an orphan.
static void stem_is_gone(struct stock *s, int slot)
{
    struct box *b = s->by_slot[slot];
    stems_end(&s->stems, slot);
    if (!b || !b->has_stem) // a box with network has no stem
        return;
    // The reason, if the box sent one, waits on its control socket.
    if (b->state == BOX_MAKING && has_something(b->control))
        stock_box_speaks(s, b->id);
    stock_orphan(s, b);
}

int stock_hear(struct stock *s, int slot)
{
    union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    int sock = slot == STOCK_NO_SLOT ? s->zygote_sock : s->stems.by_slot[slot].sock;
    if (sock <= 0)
        return 0;
    int r = wire_recv(sock, &m, fds, 1 + WIRE_NET_FDS, &count);
    if (r == -EAGAIN)
        return 0;
    if (r <= 0 && slot == STOCK_NO_SLOT)
        return -1;
    if (r <= 0) {
        stem_is_gone(s, slot);
        return 0;
    }
    // SECURITY: accept a stem's message about its own box only.
    const uint64_t box = m.h.type == WIRE_EXITED ? m.exited.box : m.spawned.box;
    if (slot != STOCK_NO_SLOT && box % SLOTS != (uint64_t)slot)
        m.h.type = 0;
    if (m.h.type == WIRE_SPAWNED) {
        stock_spawned(s, &m.spawned, fds, count);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    if (m.h.type == WIRE_EXITED && m.exited.spent && slot != STOCK_NO_SLOT)
        stems_end(&s->stems, slot); // before the slot is free for the next box
    if (m.h.type == WIRE_EXITED)
        stock_exited(s, &m.exited);
    return 1;
}
