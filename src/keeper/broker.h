// SPDX-License-Identifier: Apache-2.0
//
// keeper_broker: the broker's process (broker/broker.h) as the keeper sees it: a helper that is
// told of boxes and of files.
//
// While there is none, boxes with network are made and handed out all the same: what they ask waits
// in their sockets, which the keeper has too, for the next broker.

#ifndef CONSTRICTOR_KEEPER_BROKER_H
#define CONSTRICTOR_KEEPER_BROKER_H

#include <stdbool.h>

#include "keeper/helper.h"

struct keeper_broker {
    struct helper helper;
    int network_file, audit_file;
};

// While there are rights: opens the files.  Does nothing when nobody has network.
int keeper_broker_open(struct keeper_broker *b, const struct keeper_plan *plan, struct stock *stock,
                       int epoll, struct err *e);

// `facts` are the keeper's own; the files are filled in here.
int keeper_broker_start(struct keeper_broker *b, const struct keeper_facts *facts, struct err *e);

// Of which kind boxes are made ahead: of the one that calls get which do not say.
enum box_kind keeper_broker_first_kind(const struct keeper_plan *plan);

// Can an acquire be with network?  A broker that nobody has needed yet is missing from now on.
bool keeper_broker_serves(struct keeper_broker *b, struct err *e);

// SIGHUP: `fd` is --network-file, opened again; borrowed.
void keeper_broker_file(struct keeper_broker *b, int fd);

void keeper_broker_close(struct keeper_broker *b);

#endif
