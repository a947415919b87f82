// SPDX-License-Identifier: Apache-2.0
//
// execute: POST /execute, and what other handlers need to have something executed.

#ifndef CONSTRICTOR_REST_EXECUTE_H
#define CONSTRICTOR_REST_EXECUTE_H

#include "rest/call.h"

// Starts an execution for a call, and fills in what all requests have in common.  Takes what the
// request owns.  `finish` answers, in on_done; it is not called when the client is gone.
void rest_start(struct rest_call *c, struct exec_request *request,
                void (*finish)(struct rest_call *c, struct exec *x));

// Takes files and variables of the body into a request.  -1: answered.
int rest_bring(struct rest_call *c, struct exec_request *request);

// The same for any object with these fields: 0, or a negative code and `e`.
int rest_check_brought(struct gate *g, json_t *body, struct err *e);
int rest_read_packages(struct gate *g, const char *owner, json_t *body, json_t **ret,
                       struct err *e);
// What a run has of a configuration and of the fields of a body.
void rest_set_limits(const struct config *config, json_t *body, struct exec_request *request);
json_t *rest_make_argv(json_t *body); // new

// Checks fields 'environment' and 'packages' of the body; the second goes into c->packages.  -1:
// answered.
int rest_take_packages(struct rest_call *c);

// Takes field 'network' of the body into c->network.  -1: answered.
int rest_take_network(struct rest_call *c);

#endif
