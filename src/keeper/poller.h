// SPDX-License-Identifier: Apache-2.0
//
// poller: the keeper's epoll, which still works when the kernel has no watch left.
//
// SECURITY: watches are counted per user (fs.epoll.max_user_watches).  Where boxes have the
// keeper's uid they can take all of them, and EPOLL_CTL_ADD fails with ENOSPC.  The poller waits
// with poll() for descriptors that epoll refuses, until epoll takes them.  There is one keeper in a
// process, and one such table.

#ifndef CONSTRICTOR_KEEPER_POLLER_H
#define CONSTRICTOR_KEEPER_POLLER_H

#include <sys/epoll.h>

// As epoll_ctl().
int poller_ctl(int epoll, int op, int fd, struct epoll_event *ev);

// As epoll_wait() without a time limit.
int poller_wait(int epoll, struct epoll_event *ret, int cap);

// Closes a descriptor that may still be watched, and sets it to -1; -1: does nothing.
void poller_close(int *fd);

#endif
