// SPDX-License-Identifier: Apache-2.0
//
// gate_link: the porter's ends of its two sockets: the keeper brings gates, the gate brings
// requests.

#ifndef CONSTRICTOR_PORTER_GATE_LINK_H
#define CONSTRICTOR_PORTER_GATE_LINK_H

#include "porter/state.h"

// Sleeps until there is something to hear.
void gate_link_wait(struct porter *p);
// Takes what has come; does not wait.
void gate_link_receive(struct porter *p);
// Takes `o` (NULL: there was no memory for it); borrows `fd` (-1: none).  Waits for a gate that
// does not read.
void gate_link_answer(struct porter *p, json_t *o, int fd);
void gate_link_fail(struct porter *p, int64_t number, const struct err *e);
// May be lost.
void gate_link_progress(struct porter *p, int64_t number, uint64_t bytes, uint64_t total);

void request_free(struct request *q); // that is not in the queue
void gate_link_close(struct porter *p);

#endif
