// SPDX-License-Identifier: Apache-2.0
//
// keeper_porter: the porter's process (porter/porter.h) as the keeper sees it: a helper with the
// environments folder.

#ifndef CONSTRICTOR_KEEPER_PORTER_H
#define CONSTRICTOR_KEEPER_PORTER_H

#include "keeper/environments.h"
#include "keeper/helper.h"
#include "keeper/state.h"

struct keeper_porter {
    struct helper helper;
    struct send_queue queue;
    struct environments environments;
};

// Opens the folder, while the keeper has its rights.  A failure is logged and is no error: code
// then runs without packages.
void keeper_porter_open(struct keeper_porter *p, const struct keeper_plan *plan,
                        const struct state *state, const struct slots *slots, struct stock *stock,
                        int epoll);

// For facts and for the jail: NULL when the plan has none, or before it was opened.
const struct environments *keeper_porter_environments(const struct keeper_porter *p);

int keeper_porter_start(struct keeper_porter *p, const struct keeper_facts *facts, struct err *e);
void keeper_porter_close(struct keeper_porter *p);

#endif
