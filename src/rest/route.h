// SPDX-License-Identifier: Apache-2.0
// route: the table of all routes of the REST API, and how a request finds its row.  The OpenAPI
// document is made from it (rest/openapi.c): to extend the API, add a row.

#ifndef CONSTRICTOR_REST_ROUTE_H
#define CONSTRICTOR_REST_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "exec/fields.h"
#include "files/scratch.h"
#include "http/http.h"
#include "session/session.h"

struct rest_call;

#define REST_BASE "/api/v1"

enum { ROUTE_ERRORS_MAX = 12, ROUTE_PATH_MAX = SCRATCH_PATH_MAX, ROUTE_JOB_MAX = 32 };

enum { SHARE_MAX_S = 7 * 24 * 3600 }; // how long a link of POST /sessions/{id}/share may live
enum { OVERVIEW_MAX = 200 };          // entries of a list of GET /overview

// The kind of a body.
enum route_body { BODY_NONE, BODY_JSON, BODY_JSON_OPTIONAL, BODY_RAW };

struct rest_route {
    enum http_method method; // GET includes HEAD
    const char *path; // below REST_BASE; {id}, {name} and {job} are one segment, {path} all the
                      // rest; NULL ends the table
    bool open;        // no key needed
    bool keyed;       // honours the header Idempotency-Key: see keys.h
    enum route_body body;
    const struct field *fields; // BODY_JSON
    const struct field *query;  // NULL: none
    int status;                 // of success
    const char *answer;         // name of a schema in openapi.c, or a MIME type
    short errors[ROUTE_ERRORS_MAX];
    const char *operation, *summary;
    void (*handle)(struct rest_call *c);
};

// The routes below one base.  Rooms above this one fill tables of their own: rest_open().
struct rest_table {
    const char *base; // NULL ends a list of tables
    const struct rest_route *routes;
};

extern const struct rest_route rest_routes[];
extern const struct rest_table rest_table; // of them

struct route_match {
    const struct rest_route *route;
    char id[SESSION_NAME_MAX + 1]; // {id} of a session, or {name} of an environment
    char job[ROUTE_JOB_MAX + 1];
    char path[ROUTE_PATH_MAX + 1]; // decoded, not yet checked
};

enum route_found {
    ROUTE_FOUND,
    ROUTE_UNKNOWN,  // no such path
    ROUTE_METHOD,   // the path has other methods: *ret_allow
    ROUTE_ENCODING, // '%' without two hexadecimal digits, or a control character
    ROUTE_TOO_LONG,
};

// Finds the row for a path as it was sent, still encoded, without query.  An encoded '/' within a
// segment belongs to the name; in {path} it separates like any other.
enum route_found route_find(const struct rest_table *table, enum http_method method,
                            const char *path, size_t length, struct route_match *ret,
                            unsigned *ret_allow);
// The row for a request whose body is lines of JSON: a batch may come like that.
const struct rest_route *route_of_lines(const struct rest_route *r);
// The methods of a path of rest_routes; 0: the path is unknown.
unsigned route_methods(const char *path, size_t length);

#endif
