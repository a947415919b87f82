// SPDX-License-Identifier: Apache-2.0
//
// keeper_porter: see porter.h.

#include "keeper/porter.h"

#include "base/log.h"

void keeper_porter_open(struct keeper_porter *p, const struct keeper_plan *plan,
                        const struct state *state, const struct slots *slots, struct stock *stock,
                        int epoll)
{
    struct err e;
    bool have = plan->porter && state->parent >= 0;
    *p = (struct keeper_porter){.helper = {.name = "porter",
                                           .process = "constrictor-env",
                                           .main = have ? plan->porter : NULL,
                                           .stock = stock,
                                           .queue = &p->queue,
                                           .link = WIRE_PORTER_LINK,
                                           .epoll = epoll}};
    send_queue_init(&p->queue, stock_tag(TAG_PORTER, 0));
    if (have && environments_open(&p->environments, state->parent, state->path, slots, &e) < 0) {
        log_err(LOG_WARN, &e);
        p->helper.main = NULL;
    }
    p->environments.number = state->number;
    helper_init(&p->helper);
}

const struct environments *keeper_porter_environments(const struct keeper_porter *p)
{
    return p->environments.path[0] ? &p->environments : NULL;
}

int keeper_porter_start(struct keeper_porter *p, const struct keeper_facts *facts, struct err *e)
{
    struct keeper_facts own = *facts;
    own.network_file = own.audit_file = own.state_folder = -1;
    own.keep_count = 0;
    own.ledger = NULL;
    own.pulse = NULL;
    return helper_start(&p->helper, &own, e);
}

void keeper_porter_close(struct keeper_porter *p)
{
    helper_close(&p->helper);
    if (keeper_porter_environments(p))
        environments_close(&p->environments);
}
