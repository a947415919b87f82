// SPDX-License-Identifier: Apache-2.0
//
// lost_boxes: boxes whose zygote or stem has ended: part of stock.h.  Runs in the keeper.

#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "keeper/backend.h"
#include "keeper/gvisor.h"
#include "keeper/poller.h"
#include "keeper/stock.h"

static void lose(struct stock *s, struct box *b, const struct err *e)
{
    struct wire_usage usage;
    if (b->state == BOX_MAKING && b->ticket)
        stock_refuse(s, b->ticket, e);
    stock_look(b, &usage);
    if (!backend_of(b->kind)->of_zygote)
        gvisor_end_now(s, b); // it does not end with the zygote
    if ((stock_is_handed_out(b) || b->state == BOX_DYING) && !b->answered)
        stock_answer(s, b, &usage);
    stock_forget(s, b);
}

// The box's stem cannot report its end any more.  The keeper kills its init, and the zygote reaps
// it.  If the init was not reported yet, it ends when it finds its socket closed; then no code has
// run in it.  Until the pidfd or the socket shows its end, its slot stays taken.
void stock_orphan(struct stock *s, struct box *b)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_ORPHAN, b->id)};
    struct wire_usage usage;
    struct err e;
    if (b->state == BOX_MAKING) {
        err_set(&e, ERR_ZYGOTE, 0, "run it again; if it happens often, see the log",
                "the process that makes boxes ended");
        // Once is an accident: make another box.  If it goes on, fail the requests, so that none
        // waits for ever.
        if (b->ticket || ++s->kinds[b->kind].lost >= STOCK_LOST_MAX) {
            log_err(LOG_WARN, &e);
            stock_fail(s, b, &e);
        } else {
            stock_give_up(s, b);
        }
    } else if (b->state != BOX_DYING) {
        stock_look(b, &usage); // before the end: without cgroups there is nothing to see afterwards
        (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
        if (stock_is_handed_out(b) && !b->answered)
            stock_answer(s, b, &usage);
        b->answered = true;
        stock_move(s, b, BOX_DYING);
    }
    // If this fails, for want of kernel memory, the slot is not used again.
    (void)poller_ctl(s->epoll, EPOLL_CTL_ADD, b->pidfd < 0 ? b->control : b->pidfd, &ev);
}

void stock_orphan_speaks(struct stock *s, uint64_t id)
{
    struct box *b = stock_find(s, id);
    struct wire_usage usage;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    char frame[64];
    if (!b)
        return;
    if (b->pidfd < 0 && fd_recv(b->control, frame, sizeof frame, fds, 2, &count) > 0) {
        for (size_t i = 0; i < count; i++)
            (void)close(fds[i]); // it was ready, and will find its socket closed
        return;
    }
    stock_look(b, &usage);
    if (!b->answered)
        stock_answer(s, b, &usage);
    struct stock_kind *kind = &s->kinds[b->kind];
    stock_forget(s, b);
    kind->failing |= kind->lost >= STOCK_LOST_MAX; // until the next request
}

void stock_zygote_lost(struct stock *s)
{
    struct err e;
    err_set(&e, ERR_ZYGOTE, 0, "run it again; if it happens often, see the log",
            "the zygote ended");
    s->zygote_sock = -1;
    stems_end_all(&s->stems);
    for (int i = 0; i < KIND_MAX; i++) {
        stock_refuse_requests(s, (enum box_kind)i, &e);
        for (struct box *b; (b = TAILQ_FIRST(&s->kinds[i].parked));)
            lose(s, b, &e);
    }
    for (int state = 0; state < BOX_STATE_MAX; state++)
        for (struct box *b; (b = TAILQ_FIRST(&s->lists[state]));)
            lose(s, b, &e);
}
