// SPDX-License-Identifier: Apache-2.0
//
// keeper_broker: the broker's process (broker/broker.h) as the keeper sees it: a helper that is
// told of boxes and of files.
//
// While there is no broker, boxes with network are still made and handed out: their requests wait
// in their sockets, of which the keeper has copies, for the next broker.

#ifndef CONSTRICTOR_KEEPER_BROKER_H
#define CONSTRICTOR_KEEPER_BROKER_H

#include <stdbool.h>

#include "keeper/helper.h"

struct keeper_broker {
    struct helper helper;
    int network_file, audit_file;
};

// Opens the files, while the keeper has its rights.  Does nothing when no box has network.
int keeper_broker_open(struct keeper_broker *b, const struct keeper_plan *plan, struct stock *stock,
                       int epoll, struct err *e);

// `facts` are the keeper's own; the files are filled in here.
int keeper_broker_start(struct keeper_broker *b, const struct keeper_facts *facts, struct err *e);

// Which kind of box to make ahead: the kind that a request gets by default.
enum box_kind keeper_broker_first_kind(const struct keeper_plan *plan);

// Can a box have network?  From the first call on the broker is needed, and so started.
bool keeper_broker_serves(struct keeper_broker *b, struct err *e);

// SIGHUP: `fd` is --network-file, opened again; borrowed.
void keeper_broker_file(struct keeper_broker *b, int fd);

void keeper_broker_close(struct keeper_broker *b);

#endif
