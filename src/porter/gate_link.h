// SPDX-License-Identifier: Apache-2.0
//
// gate_link: the porter's two sockets: the keeper sends a socket to each new gate, the gate sends
// requests.

#ifndef CONSTRICTOR_PORTER_GATE_LINK_H
#define CONSTRICTOR_PORTER_GATE_LINK_H

#include "porter/state.h"

// Sleeps until a message arrives.
void gate_link_wait(struct porter *p);
// Handles the messages that have arrived; does not wait.
void gate_link_receive(struct porter *p);
// Takes `o` (NULL: out of memory); borrows `fd` (-1: none).  Blocks while the gate does not read.
void gate_link_answer(struct porter *p, json_t *o, int fd);
void gate_link_fail(struct porter *p, int64_t number, const struct err *e);
// May be lost.
void gate_link_progress(struct porter *p, int64_t number, uint64_t bytes, uint64_t total);

void request_free(struct request *q); // that is not in the queue
void gate_link_close(struct porter *p);

#endif
