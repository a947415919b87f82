// SPDX-License-Identifier: Apache-2.0
//
// kernels: the paths and answers of another server, for its clients: POST execute, POST
// execute_sync, and sessions with files that are fetched by URL, below /ai/sandbox/v1/api.  They
// are there when the tool set 'kernels' is on.

#ifndef CONSTRICTOR_COMPAT_KERNELS_H
#define CONSTRICTOR_COMPAT_KERNELS_H

#include "http/http.h"
#include "rest/call.h"

#define KERNELS_BASE "/ai/sandbox/v1/api"

// Adds the routes, if the configuration wants them.
void rest_kernels_open(struct rest *rest, struct http *h);

#endif
