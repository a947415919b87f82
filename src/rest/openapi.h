// SPDX-License-Identifier: Apache-2.0
// openapi: the OpenAPI 3.1 document of the REST API, made from the tables of routes and of fields.

#ifndef CONSTRICTOR_REST_OPENAPI_H
#define CONSTRICTOR_REST_OPENAPI_H

#include <jansson.h>

#include "config/config.h"
#include "rest/route.h"

// The exact document: a request is valid by it if, and only if, the server takes it.  New; NULL:
// memory is out.
json_t *openapi_json(const struct rest_route *routes, const struct config *c, const char *base_url);

// The same in plain words, for generators of clients (openapi_plain.c), new: each valid request is
// valid here, too.
json_t *openapi_plain(const json_t *exact);

// The schemas of all answers, by name (openapi_answers.c), and a reference to a schema; new.
json_t *openapi_answers(void);
json_t *openapi_reference(const char *name);

#endif
