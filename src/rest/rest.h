// SPDX-License-Identifier: Apache-2.0
//
// rest: the REST API below /api/v1, on top of exec, sessions, scratch and the store.  docs/rest.md
// is for its users.  Runs in the gate; opened by cli/serve.c.

#ifndef CONSTRICTOR_REST_REST_H
#define CONSTRICTOR_REST_REST_H

#include "base/err.h"
#include "config/config.h"
#include "http/http.h"
#include "rest/route.h"
#include "run/gate.h"

// Adds all routes, and those of the list `more` (NULL: none).  The gate's sessions and store are
// open already.  A gate calls this once.
int rest_open(struct gate *g, struct http *h, const struct config *c, const struct rest_table *more,
              struct err *e);
// Ends the calls that are under way.  To be called before http_close().
void rest_close(void);

// "starting", "ok" or "unavailable".
const char *rest_status_word(const struct gate *g);

#endif
