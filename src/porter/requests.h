// SPDX-License-Identifier: Apache-2.0
//
// requests: what the gate can ask the porter for; wire/porter.h has the words.

#ifndef CONSTRICTOR_PORTER_REQUESTS_H
#define CONSTRICTOR_PORTER_REQUESTS_H

#include "porter/state.h"

// NULL: unknown.
const struct request_kind *requests_kind(const char *op);
size_t requests_fds_min(const struct request_kind *kind);
size_t requests_fds_max(const struct request_kind *kind);

// Works on the first request of the queue and answers it.
void requests_do_next(struct porter *p);

// Drops stores that wait for the sync: their gate is gone.
void requests_forget(struct porter *p);

#endif
