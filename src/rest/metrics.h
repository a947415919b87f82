// SPDX-License-Identifier: Apache-2.0
//
// metrics: GET /metrics, in the text format that Prometheus reads.  It needs a key like every
// route; with several keys, the one that is named "metrics" (door.h).

#ifndef CONSTRICTOR_REST_METRICS_H
#define CONSTRICTOR_REST_METRICS_H

#include "http/http.h"
#include "run/gate.h"
#include "wire/wire.h"

// Asks the keeper for the number of boxes; `then` gets them, or NULL: it did not answer.  0: `then`
// will be called, unless metrics_forget() is; -1: too many ask.
int metrics_ask(void (*then)(const struct wire_status_reply *m, void *argument), void *argument);
void metrics_forget(const void *argument);

// Adds the route.
void rest_metrics_open(struct gate *g, struct http *h);
void rest_metrics_close(void);

#endif
