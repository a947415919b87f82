// SPDX-License-Identifier: Apache-2.0
//
// send_queue: messages of the keeper to another process, which may be busy for a moment.  They go
// out now or, in order, when there is room.  A full socket must neither lose an answer nor block
// the keeper.

#ifndef CONSTRICTOR_KEEPER_SEND_QUEUE_H
#define CONSTRICTOR_KEEPER_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "wire/wire.h"

struct queued;

struct send_queue {
    int sock;  // borrowed; -1: no receiver, messages are dropped
    int epoll; // where the socket is watched, with `tag`
    uint64_t tag;
    unsigned waiting;
    STAILQ_HEAD(, queued) messages;
    // Gives the descriptors of a message about a box when it goes out, so that queued messages of a
    // thousand boxes need no copies.  How many, or -1: the box is gone, drop the message.
    int (*fds_of)(void *argument, const union wire_message *m, int *ret_fds);
    void *argument;
};

void send_queue_init(struct send_queue *q, uint64_t tag);

// Borrows the descriptors.  False: out of memory, the message is lost.
bool send_queue_add(struct send_queue *q, enum wire_type type, union wire_message *m,
                    const int *fds, size_t count);
// The same with descriptors from fds_of().
bool send_queue_add_for_box(struct send_queue *q, enum wire_type type, union wire_message *m);

// When the socket can be written to again.
void send_queue_flush(struct send_queue *q);

// The receiver is gone: drops what waits.
void send_queue_drop(struct send_queue *q);

#endif
