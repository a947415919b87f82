// SPDX-License-Identifier: Apache-2.0
//
// send_queue: see send_queue.h.  Runs in the keeper.

#include "keeper/send_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/poller.h"

struct queued {
    STAILQ_ENTRY(queued) list;
    bool of_box; // its descriptors come from fds_of()
    enum wire_type type;
    size_t fd_count;
    int fds[FD_PASS_MAX];
    size_t length;
    char bytes[]; // of a union wire_message, which is larger than most messages
};

void send_queue_init(struct send_queue *q, uint64_t tag)
{
    *q = (struct send_queue){.sock = -1, .epoll = -1, .tag = tag};
    STAILQ_INIT(&q->messages);
}

static void want_room(struct send_queue *q, bool on)
{
    struct epoll_event ev = {.events = EPOLLIN | (on ? EPOLLOUT : 0), .data.u64 = q->tag};
    if (q->sock >= 0)
        (void)poller_ctl(q->epoll, EPOLL_CTL_MOD, q->sock, &ev);
}

// True: it must wait.  After another error the receiver is gone and needs no message.
static bool is_full(int r)
{
    return r == -EAGAIN || r == -ETOOMANYREFS; // too many descriptors are under way
}

static int post(struct send_queue *q, enum wire_type type, union wire_message *m, bool of_box,
                const int *fds, size_t count)
{
    int own[FD_PASS_MAX];
    if (q->sock < 0)
        return 0;
    if (of_box) {
        int n = q->fds_of(q->argument, m, own);
        if (n < 0)
            return 0;
        fds = own;
        count = (size_t)n;
    }
    return wire_send(q->sock, type, m, fds, count);
}

static void queued_free(struct send_queue *q, struct queued *l)
{
    STAILQ_REMOVE_HEAD(&q->messages, list);
    q->waiting--;
    for (size_t i = 0; i < l->fd_count; i++)
        fd_close(&l->fds[i]);
    free(l);
}

void send_queue_flush(struct send_queue *q)
{
    union wire_message m;
    for (struct queued *l; (l = STAILQ_FIRST(&q->messages));) {
        memcpy(&m, l->bytes, l->length);
        if (is_full(post(q, l->type, &m, l->of_box, l->fds, l->fd_count)))
            return;
        queued_free(q, l);
    }
    want_room(q, false);
}

void send_queue_drop(struct send_queue *q)
{
    q->sock = -1;
    for (struct queued *l; (l = STAILQ_FIRST(&q->messages));)
        queued_free(q, l);
}

static bool send_later(struct send_queue *q, enum wire_type type, union wire_message *m,
                       bool of_box, const int *fds, size_t count)
{
    if (STAILQ_EMPTY(&q->messages) && !is_full(post(q, type, m, of_box, fds, count)))
        return true;
    size_t length = wire_length(type, m);
    struct queued *l = malloc(sizeof *l + length);
    if (!l) {
        log_line(LOG_ERROR, "no memory for a message of type %d", type);
        return false;
    }
    *l = (struct queued){.of_box = of_box, .type = type, .length = length};
    memcpy(l->bytes, m, length);
    for (size_t i = 0; i < count && i < ARRAY_LEN(l->fds); i++)
        l->fds[l->fd_count++] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    STAILQ_INSERT_TAIL(&q->messages, l, list);
    q->waiting++;
    want_room(q, true);
    return true;
}

bool send_queue_add(struct send_queue *q, enum wire_type type, union wire_message *m,
                    const int *fds, size_t count)
{
    return send_later(q, type, m, false, fds, count);
}

bool send_queue_add_for_box(struct send_queue *q, enum wire_type type, union wire_message *m)
{
    return send_later(q, type, m, true, NULL, 0);
}
