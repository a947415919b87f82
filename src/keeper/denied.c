// SPDX-License-Identifier: Apache-2.0
//
// denied: see denied.h.  Runs in the keeper.

#include "keeper/denied.h"

#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "box/denial.h"
#include "box/filter.h"
#include "keeper/poller.h"
#include "keeper/stock.h"
#include "keeper/zygote.h"

// ---- telling the gate ---------------------------------------------------------------------------

static void tell(struct stock *s, const struct box *b, int32_t nr, uint32_t detail, uint64_t count)
{
    union wire_message m; // not {...}, which would clear 16 KiB
    m.denied = (struct wire_denied){.box = b->id, .nr = nr, .detail = detail, .count = count};
    stock_send(s, WIRE_DENIED, &m, NULL, 0);
}

void denied_report(struct stock *s, struct box *b)
{
    struct denied *d = b->denied;
    if (!d)
        return;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->rows[i].unsent)
            tell(s, b, d->rows[i].nr, d->rows[i].detail, d->rows[i].unsent);
    if (d->omitted)
        tell(s, b, WIRE_DENIED_OMITTED, 0, d->omitted);
    d->count = 0; // the next run counts anew
    d->omitted = 0;
}

// The first of each kind is reported at once, before the answer: so the gate knows of it when the
// result of the run arrives, and asks for the rest.  Others are only counted: a loop costs no
// messages.
static void note(struct stock *s, struct box *b, int32_t nr, uint32_t detail)
{
    struct denied *d = b->denied;
    if (!d)
        d = b->denied = calloc(1, sizeof *d);
    if (!d)
        return; // it is denied without a report
    for (uint32_t i = 0; i < d->count; i++)
        if (d->rows[i].nr == nr && d->rows[i].detail == detail) {
            d->rows[i].unsent++;
            return;
        }
    if (d->count == DENIED_ROWS) {
        d->omitted++;
        return;
    }
    d->rows[d->count].nr = nr;
    d->rows[d->count].detail = detail;
    d->rows[d->count++].unsent = 0;
    tell(s, b, nr, detail, 1);
}

// ---- the kernel ---------------------------------------------------------------------------------

static void answer(struct stock *s, struct box *b)
{
    union {
        struct seccomp_notif call;
        char room[256];   // a later kernel may write more
    } in = {.room = {0}}; // the kernel wants it empty
    union {
        struct seccomp_notif_resp answer;
        char room[128];
    } out = {.room = {0}};
    uint64_t args[6];
    if (ioctl(b->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
        return; // ENOENT: the caller was killed
    for (int i = 0; i < 6; i++)
        args[i] = in.call.data.args[i];
    int nr = in.call.data.nr;
    note(s, b, nr, denial_detail(nr, args));
    out.answer.id = in.call.id;
    out.answer.error = -filter_errno(zygote_last_filter(box_has_inet(stock_walls(s, b))), nr, args);
    (void)ioctl(b->listener, SECCOMP_IOCTL_NOTIF_SEND, &out); // ENOENT, as above
}

static void listen_for(struct stock *s, struct box *b, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = stock_tag(TAG_DENIED, b->id)};
    (void)poller_ctl(s->epoll, op, b->listener, &ev);
}

void denied_watch(struct stock *s, struct box *b)
{
    if (b->listener >= 0)
        listen_for(s, b, EPOLL_CTL_ADD, EPOLLIN);
}

// ---- the bound ----------------------------------------------------------------------------------

static bool has_budget(struct stock *s, struct box *b)
{
    int64_t window = clock_ms() / DENIED_WINDOW_MS;
    if (s->denied_window != window) {
        s->denied_window = window;
        s->denied_answers = 0;
    }
    if (b->denied_window != window) {
        b->denied_window = window;
        b->denied_answers = 0;
    }
    if (b->denied_answers >= DENIED_PER_BOX || s->denied_answers >= DENIED_PER_WINDOW)
        return false;
    b->denied_answers++;
    s->denied_answers++;
    return true;
}

static void rest(struct stock *s, struct box *b)
{
    listen_for(s, b, EPOLL_CTL_MOD, 0);
    TAILQ_INSERT_TAIL(&s->resting, b, rest);
    b->rests = true;
}

static void wake(struct stock *s, struct box *b)
{
    TAILQ_REMOVE(&s->resting, b, rest);
    b->rests = false;
}

void denied_hear(struct stock *s, uint64_t id, uint32_t events)
{
    struct box *b = stock_find(s, id);
    if (!b || b->listener < 0)
        return;
    if (!(events & EPOLLIN)) { // no process has the filter any more
        denied_forget(s, b);
        return;
    }
    if (has_budget(s, b))
        answer(s, b);
    else if (!b->rests)
        rest(s, b);
}

void denied_resume(struct stock *s)
{
    for (struct box *b; (b = TAILQ_FIRST(&s->resting));) {
        wake(s, b);
        listen_for(s, b, EPOLL_CTL_MOD, EPOLLIN);
    }
}

void denied_forget(struct stock *s, struct box *b)
{
    if (b->rests)
        wake(s, b);
    poller_close(&b->listener); // epoll forgets it: this was the last copy
}
