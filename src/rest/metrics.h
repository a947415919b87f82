// SPDX-License-Identifier: Apache-2.0
//
// metrics: GET /metrics, in the text format that Prometheus reads.  It needs a key like every
// route; with several keys, the one that is named "metrics" (door.h).

#ifndef CONSTRICTOR_REST_METRICS_H
#define CONSTRICTOR_REST_METRICS_H

#include "http/http.h"
#include "run/gate.h"

// Adds the route.
void rest_metrics_open(struct gate *g, struct http *h);
void rest_metrics_close(void);

#endif
