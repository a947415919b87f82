// SPDX-License-Identifier: Apache-2.0
//
// poller: see poller.h.  Runs in the keeper.

#include "keeper/poller.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/fd.h"

// epoll and poll have the same bits for what is used here.
_Static_assert((int)EPOLLIN == POLLIN && (int)EPOLLOUT == POLLOUT && (int)EPOLLERR == POLLERR &&
                   (int)EPOLLHUP == POLLHUP,
               "events of epoll are events of poll");

// Descriptors that epoll refused.  fds[0] is the epoll descriptor; fds[i + 1] and data[i] are one
// row.
static struct {
    struct pollfd *fds;
    epoll_data_t *data;
    size_t count, room, next; // next: the row that is looked at first
} refused;

static int keep(int fd, const struct epoll_event *ev)
{
    if (refused.count == refused.room) {
        size_t room = refused.room ? 2 * refused.room : 64;
        struct pollfd *fds = realloc(refused.fds, (room + 1) * sizeof *fds);
        if (fds)
            refused.fds = fds;
        epoll_data_t *data = realloc(refused.data, room * sizeof *data);
        if (data)
            refused.data = data;
        if (!fds || !data)
            return -1;
        refused.room = room;
    }
    refused.data[refused.count++] = ev->data;
    refused.fds[refused.count] = (struct pollfd){.fd = fd, .events = (short)ev->events};
    return 0;
}

static struct pollfd *find(int fd)
{
    for (size_t i = 1; i <= refused.count; i++)
        if (refused.fds[i].fd == fd)
            return &refused.fds[i];
    return NULL;
}

static void drop(const struct pollfd *row)
{
    refused.data[row - refused.fds - 1] = refused.data[refused.count - 1];
    refused.fds[row - refused.fds] = refused.fds[refused.count--];
}

int poller_ctl(int epoll, int op, int fd, struct epoll_event *ev)
{
    int r = epoll_ctl(epoll, op, fd, ev);
    if (r < 0 && op == EPOLL_CTL_ADD && (errno == ENOSPC || errno == ENOMEM))
        return keep(fd, ev);
    struct pollfd *row = r < 0 && errno == ENOENT ? find(fd) : NULL;
    if (!row)
        return r;
    if (op == EPOLL_CTL_DEL) {
        drop(row);
    } else {
        row->events = (short)ev->events;
        refused.data[row - refused.fds - 1] = ev->data;
    }
    return 0;
}

// One at a time: a round of events tries it once.
static void offer_last(int epoll)
{
    const struct pollfd *last = &refused.fds[refused.count];
    struct epoll_event ev = {.events = (uint32_t)last->events,
                             .data = refused.data[refused.count - 1]};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, last->fd, &ev) == 0)
        refused.count--;
}

// From another row each time, and at most half of the room: neither side starves the other.
static int take_refused(struct epoll_event *ret, int cap)
{
    int n = 0;
    refused.next = (refused.next + 1) % refused.count;
    for (size_t i = 0; i < refused.count && n < cap; i++) {
        size_t row = (refused.next + i) % refused.count;
        if (refused.fds[row + 1].revents)
            ret[n++] = (struct epoll_event){.events = (uint16_t)refused.fds[row + 1].revents,
                                            .data = refused.data[row]};
    }
    return n;
}

int poller_wait(int epoll, struct epoll_event *ret, int cap)
{
    if (refused.count)
        offer_last(epoll);
    if (!refused.count)
        return epoll_wait(epoll, ret, cap, -1);
    refused.fds[0] = (struct pollfd){.fd = epoll, .events = POLLIN};
    if (poll(refused.fds, refused.count + 1, -1) < 0)
        return -1;
    int n = take_refused(ret, cap / 2), m = epoll_wait(epoll, ret + n, cap - n, 0);
    return n + (m > 0 ? m : 0);
}

void poller_close(int *fd)
{
    struct pollfd *row = refused.count && *fd >= 0 ? find(*fd) : NULL;
    if (row)
        drop(row);
    fd_close(fd);
}
