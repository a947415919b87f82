// SPDX-License-Identifier: Apache-2.0
// docs: GET /docs, the OpenAPI document as a page for people: HTML without script.

#ifndef CONSTRICTOR_REST_DOCS_H
#define CONSTRICTOR_REST_DOCS_H

#include "rest/call.h"

void rest_docs_open(struct rest *rest); // adds the route; the page is made at the first request

#endif
