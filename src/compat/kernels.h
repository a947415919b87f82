// SPDX-License-Identifier: Apache-2.0
//
// kernels: the REST paths and answers of the kernels server, for its clients: POST execute, POST
// execute_sync, and sessions with files that are fetched by URL, below /ai/sandbox/v1/api.

#ifndef CONSTRICTOR_COMPAT_KERNELS_H
#define CONSTRICTOR_COMPAT_KERNELS_H

#include "config/config.h"
#include "rest/route.h"

#define KERNELS_BASE "/ai/sandbox/v1/api"

// For rest_open(); NULL: the tool set 'kernels' is off.
const struct rest_table *kernels_tables(const struct config *c);

#endif
