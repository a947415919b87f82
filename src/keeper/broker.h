// SPDX-License-Identifier: Apache-2.0
//
// keeper_broker: the broker's process (broker/broker.h) as the keeper sees it: started, watched, started again,
// and told of boxes, of files and of the gate.
//
// While there is none, boxes with network are made and handed out all the same: what they ask waits in their
// sockets, which the keeper has too, for the next broker.

#ifndef CONSTRICTOR_KEEPER_BROKER_H
#define CONSTRICTOR_KEEPER_BROKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "keeper/keeper.h"
#include "keeper/stock.h"

struct keeper_broker {
    const struct keeper_plan *plan;
    struct stock *stock; // its mail for the broker is ours to connect
    int epoll;
    pid_t pid; // 0: there is none
    int sock;
    int network_file, audit_file;
    int64_t since_ms;
    unsigned short_lives;
    bool failed; // it broke too often, or nobody has network
};

// While there are rights: opens the files.  Does nothing when nobody has network.
int keeper_broker_open(struct keeper_broker *b, const struct keeper_plan *plan, struct stock *stock,
                       int epoll, struct err *e);

// `facts` are the keeper's own; the files are filled in here.
int keeper_broker_start(struct keeper_broker *b, const struct keeper_facts *facts, struct err *e);

// Can an acquire be with network?
bool keeper_broker_serves(const struct keeper_broker *b, struct err *e);

// Gate and broker get a new socket to each other; one of them is new.
void keeper_broker_link(struct keeper_broker *b);

// SIGHUP: `fd` is --network-file, opened again; borrowed.
void keeper_broker_file(struct keeper_broker *b, int fd);

// What the socket has to say: there is room, or it is gone.
void keeper_broker_event(struct keeper_broker *b, uint32_t events);
// After each round of events: ends a broker for which too much waits.
void keeper_broker_check(struct keeper_broker *b);

// A child has ended; perhaps it was the broker.
void keeper_broker_reap(struct keeper_broker *b);
// Should it be started?
bool keeper_broker_is_missing(const struct keeper_broker *b);

void keeper_broker_close(struct keeper_broker *b);

#endif
