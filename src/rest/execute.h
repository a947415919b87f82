// SPDX-License-Identifier: Apache-2.0
// execute: POST /execute, and how other handlers start an execution.

#ifndef CONSTRICTOR_REST_EXECUTE_H
#define CONSTRICTOR_REST_EXECUTE_H

#include "rest/call.h"

// Starts an execution for a call, and fills in what all requests have in common.  Takes what the
// request owns.  `finish` answers, in on_done; it is not called when the client is gone.
void rest_start(struct rest_call *c, struct exec_request *request,
                void (*finish)(struct rest_call *c, struct exec *x));

// Makes c->plan for a session that this names, and checks that what the call asks of it can be.
// -1: answered.
int rest_check_session(struct rest_call *c, const char *session);

#endif
