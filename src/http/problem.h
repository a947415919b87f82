// SPDX-License-Identifier: Apache-2.0
//
// problem: errors as problem details (RFC 9457), for every path below /api/: the members of the RFC
// beside the object `error` that clients of this server know.
//
//   {"type": "urn:constrictor:problem:bad_value", "title": "Bad value", "status": 400, "detail":
//   "...",
//    "instance": "/api/v1/execute", "code": "bad_value", "hint": "...", "error": {"code",
//    "message", "hint"}}
//
// Pure: touches nothing but its arguments.  Called by http/exchange.c, http/conn.c and rest/call.c.

#ifndef CONSTRICTOR_HTTP_PROBLEM_H
#define CONSTRICTOR_HTTP_PROBLEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define PROBLEM_TYPE "application/problem+json"
#define PROBLEM_PREFIX "urn:constrictor:problem:"

// Are errors of this path problem details?
bool problem_is_for(const char *path);

// {"error": {"code", "message", "hint"}}, new; NULL: memory is out.  `hint` may be NULL or "".
json_t *problem_error(const char *code, const char *message, const char *hint);

// Adds the members of the RFC to an object that has an `error`, from that.  `path`: of the request,
// decoded; NULL: not known.  Existing members stay.  False: there is no `error`, or memory is out.
bool problem_dress(json_t *body, int status, const char *path);

#endif
