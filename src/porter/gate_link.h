// SPDX-License-Identifier: Apache-2.0
//
// gate_link: the porter's ends of its two sockets: the keeper brings gates, the gate brings jobs.

#ifndef CONSTRICTOR_PORTER_GATE_LINK_H
#define CONSTRICTOR_PORTER_GATE_LINK_H

#include "porter/state.h"

// Sleeps until there is something to hear.
void desk_wait(struct porter *p);
// Takes what has come; does not wait.
void desk_hear(struct porter *p);
// Takes `o` (NULL: there was no memory for it); borrows `fd` (-1: none).  Waits for a gate that
// does not read.
void desk_answer(struct porter *p, json_t *o, int fd);
void desk_fail(struct porter *p, int64_t job, const struct err *e);
// May be lost.
void desk_progress(struct porter *p, int64_t job, uint64_t bytes, uint64_t total);

void desk_job_done(struct job *j); // that is not in the queue
void desk_close(struct porter *p);

#endif
