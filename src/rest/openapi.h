// SPDX-License-Identifier: Apache-2.0
// openapi: the OpenAPI 3.1 document of the REST API, made from the tables of routes and of fields.

#ifndef CONSTRICTOR_REST_OPENAPI_H
#define CONSTRICTOR_REST_OPENAPI_H

#include <jansson.h>

#include "config/config.h"
#include "rest/route.h"

// New; NULL: memory is out.
json_t *openapi_json(const struct rest_route *routes, const struct config *c, const char *base_url);

#endif
