// SPDX-License-Identifier: Apache-2.0
//
// call: one request to the REST API from its head to its answer: what the handlers share.
//
//   1. A call is in the list of its server from the request until rest_free().
//   2. call->x is NULL as soon as the client is gone or has its answer; nothing is sent then.
//   3. Whatever goes on for a call (exec, op, timer) is its own and ends with it; only an exec, and
//   a session
//      that is being opened, outlive their client for a moment; and a call with a key
//      (rest/keys.h), which goes on to its end: rest_is_wanted().

#ifndef CONSTRICTOR_REST_CALL_H
#define CONSTRICTOR_REST_CALL_H

#include <event2/event.h>
#include <jansson.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "check/check.h"
#include "config/config.h"
#include "exec/exec.h"
#include "files/scratch.h"
#include "http/http.h"
#include "rest/route.h"
#include "run/gate.h"
#include "session/session.h"

struct batch;
struct batches;
struct keys;
struct ndjson;
struct rest_job;      // environments.c
struct rest_moving;   // environment_files.c
struct rest_download; // session_files.c

// A table of routes that the HTTP server knows.
struct rest_mount {
    struct rest *rest;
    struct rest_table table;
    struct http_route rows[4];
    char open_path[64], prefix[64];
};

struct rest {
    struct gate *gate;
    struct http *http;
    const struct config *config;
    int64_t since_ms;
    size_t held; // bytes of bodies that were read and are still needed
    json_t *openapi;
    struct keys *keys;       // of the header Idempotency-Key
    struct batches *batches; // batch.c; NULL: there was none yet
    TAILQ_HEAD(, rest_call) calls;
};

struct rest_call {
    struct rest *rest;
    struct http_exchange *x;
    const struct rest_route *route;
    char owner[65];
    char id[SESSION_NAME_MAX + 1];   // {id}
    char path[SCRATCH_PATH_MAX + 1]; // {path}, normalised
    char job_id[ROUTE_JOB_MAX + 1];  // {job}
    json_t *body;                    // BODY_JSON, checked
    json_t *network;                 // a layer: what field 'network' asks for
    size_t held;                     // its share of rest->held
    // What goes on.
    struct exec *exec;
    struct check *check;
    struct scratch_op *op;
    struct session_visit *visit;
    struct event *timer;
    struct ndjson *stream;
    struct rest_job *job;
    struct rest_moving *moving;
    struct rest_download *download;
    struct batch *batch;
    struct rest_key *key;       // its answer is kept for who repeats it
    struct rest_key *waits_for; // it repeats one that goes on
    struct session_plan plan;
    char opening[SESSION_ID_SIZE]; // a session that is being opened for this call
    char session[SESSION_ID_SIZE]; // the one whose files are looked at
    void (*then)(struct rest_call *c, struct session *s); // goes on when the session is there
    void (*look)(struct rest_call *c, struct session *s); // the same, when its files are there
    void (*finish)(struct rest_call *c, struct exec *x);  // answers when the execution is done
    void (*whole)(struct rest_call *c, struct exec *x);   // POST /execute: not a stream, but this
    int64_t until_ms;
    TAILQ_ENTRY(rest_call) list, waiters;
};

void rest_handle(struct http_exchange *x, void *mount); // every route: of a struct rest_mount
// Of bodies that go into a file; for http.h.
int rest_body_file(const struct http_exchange *x, void *rest, uint64_t *ret_max);
void rest_moving_free(struct rest_moving *m);
void rest_download_free(struct rest_download *d);
void rest_free(struct rest_call *c);
bool rest_is_wanted(const struct rest_call *c); // somebody listens, or will ask again
void rest_drop_body(struct rest_call *c);       // it only waits for the answer of another
// The exchange is about to end: the call forgets it.
struct http_exchange *rest_let_go(struct rest_call *c);

// ---- answers; the call is gone afterwards -------------------------------------------------------

void rest_answer(struct rest_call *c, int status, json_t *body); // taken; NULL: memory is out
void rest_fail(struct rest_call *c, int status, const char *code, const char *hint, const char *fmt,
               ...) __attribute__((format(printf, 5, 6)));
void rest_fail_err(struct rest_call *c, const struct err *e);
// A session of this name is not there: 404, or 409 and what became of it.
void rest_fail_session(struct rest_call *c, const char *text, const struct err *e);

// The HTTP status for an error.
int rest_status(const struct err *e);

// ---- sessions -----------------------------------------------------------------------------------

// Calls `then` with the session of c->id when it is open; `create`: a name that is not there is
// opened. Answers itself when there is none.
void rest_with_session(struct rest_call *c, bool create,
                       void (*then)(struct rest_call *c, struct session *s));
// The same, and its files are the ones that its box shows (a fork has others).
void rest_with_files(struct rest_call *c, bool create,
                     void (*then)(struct rest_call *c, struct session *s));
// Opens one by c->plan; the same.
void rest_open_session(struct rest_call *c, void (*then)(struct rest_call *c, struct session *s));
// Fills c->plan from the configuration and the fields of a body.  -1: answered.
int rest_make_plan(struct rest_call *c, const char *name);

// ---- handlers -----------------------------------------------------------------------------------

void rest_execute(struct rest_call *c);
void rest_batch(struct rest_call *c);
void rest_validate(struct rest_call *c);
void rest_list_sessions(struct rest_call *c);
void rest_post_session(struct rest_call *c);
void rest_get_session(struct rest_call *c);
void rest_delete_session(struct rest_call *c);
void rest_interrupt(struct rest_call *c);
void rest_undo(struct rest_call *c);
void rest_checkpoint(struct rest_call *c);
void rest_fork(struct rest_call *c);
void rest_list_files(struct rest_call *c);
void rest_put_file(struct rest_call *c);
void rest_get_file(struct rest_call *c);
void rest_delete_file(struct rest_call *c);
void rest_list_artifacts(struct rest_call *c);
void rest_delete_artifacts(struct rest_call *c);
void rest_health(struct rest_call *c);
void rest_openapi(struct rest_call *c);

// A query parameter: 0 absent, 1 in buf, -1 answered.
int rest_query(struct rest_call *c, const char *name, char *buf, size_t cap);
// The same for a number of seconds, as JSON writes numbers, in milliseconds.
int rest_query_seconds(struct rest_call *c, const char *name, unsigned most, uint64_t *ret_ms);

#endif
