// SPDX-License-Identifier: Apache-2.0
//
// mail: messages of the keeper to a process that may be busy for a moment, the gate or the broker:
// they go out now or, in order, when there is room.  A full socket must neither lose an answer nor
// stop the keeper.

#ifndef CONSTRICTOR_KEEPER_SEND_QUEUE_H
#define CONSTRICTOR_KEEPER_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "wire/wire.h"

struct queued;

struct send_queue {
    int sock;  // borrowed; -1: there is nobody, and what is sent is gone
    int epoll; // where the socket is watched, with `tag`
    uint64_t tag;
    unsigned waiting;
    STAILQ_HEAD(, queued) messages;
    // Descriptors of a message about a box that has them anyway, asked for when it goes out: of a
    // thousand boxes there need not be copies.  How many, or -1: the box is gone, and so is the
    // message.
    int (*fds_of)(void *argument, const union wire_message *m, int *ret_fds);
    void *argument;
};

void send_queue_init(struct send_queue *q, uint64_t tag);

// Borrows the descriptors.  False: it is lost, there was no memory for it.
bool send_queue_add(struct send_queue *q, enum wire_type type, union wire_message *m,
                    const int *fds, size_t count);
// The same with descriptors from fds_of().
bool send_queue_add_for_box(struct send_queue *q, enum wire_type type, union wire_message *m);

// When the socket can be written to again.
void send_queue_flush(struct send_queue *q);

// Whoever it was for is gone; so is what waits.
void send_queue_drop(struct send_queue *q);

#endif
