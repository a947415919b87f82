// SPDX-License-Identifier: Apache-2.0
//
// call: one request to the REST API from its head to its answer: what the handlers share.
//
//   1. A call is in the list of its server from the request until rest_free().
//   2. call->x is NULL once the client is gone or has its answer; nothing is sent after that.
//   3. A call owns its exec, op and timer, and they end with it.  A client that goes away ends the
//      call, except a call with a key (rest/keys.h), which runs to its end.  An exec, or a session
//      that is being opened, may need a moment longer.  See rest_is_wanted().

#ifndef CONSTRICTOR_REST_CALL_H
#define CONSTRICTOR_REST_CALL_H

#include <event2/event.h>
#include <jansson.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/timer.h"
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
struct execution_watch; // executions.c
struct rest_job;        // environments.c
struct rest_moving;     // environment_files.c
struct rest_download;   // session_files.c
struct rest_upload;     // session_files.c

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
    size_t body_bytes; // bytes of request bodies in memory
    json_t *openapi, *openapi_exact;
    char *docs; // the page of docs.c; NULL before its first request
    size_t docs_length;
    struct keys *keys;          // of the header Idempotency-Key
    struct rest_shares *shares; // share.c; NULL before the first one
    struct batches *batches;    // batch.c; NULL before the first batch
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
    json_t *network;                 // the rule set that field 'network' asks for
    size_t body_bytes;               // its share of rest->body_bytes
    // What is under way.
    struct exec *exec;
    struct check *check;
    struct scratch_op *op;
    struct session_visit *visit;
    struct timer timer;
    struct ndjson *stream;
    struct rest_job *job;
    struct rest_moving *moving;
    struct rest_download *download;
    struct rest_upload *upload;
    struct batch *batch;
    struct execution_watch *watch;
    struct rest_key *key;       // its answer is stored for repetitions
    struct rest_key *waits_for; // the call with this key that it repeats and waits for
    struct session_plan plan;
    char opening[SESSION_ID_SIZE]; // a session that is being opened for this call
    char session[SESSION_ID_SIZE]; // the session whose files are read
    void (*then)(struct rest_call *c, struct session *s); // continues when the session is open
    void (*look)(struct rest_call *c, struct session *s); // continues when its files are in place
    void (*finish)(struct rest_call *c, struct exec *x);  // answers when the execution has ended
    void (*whole)(struct rest_call *c,
                  struct exec *x); // POST /execute: answers in place of a stream
    json_t *look_asked;            // look.c
    json_t *compared;              // tree.c: what the box of the first session said
    bool asks_boxes;               // overview.c
    void (*look_then)(struct rest_call *c, json_t *said, bool whole);
    int64_t until_ms;
    TAILQ_ENTRY(rest_call) list, waiters;
};

void rest_handle(struct http_exchange *x, void *mount); // every route: of a struct rest_mount
// Whether the handler takes the body in pieces; for http.h.
bool rest_streams_body(const struct http_exchange *x, void *rest, uint64_t *ret_max);
// Of POST /executions: executions.h.
enum {
    EXECUTION_WATCHERS_MAX = 16, // calls that wait for one execution, or read its output
    REST_EXECUTION_WAIT_S = 600,
    WEBHOOK_URL_MAX = 2048,
    WEBHOOK_SECRET_MAX = 256,
};

void rest_watch_free(struct execution_watch *w);
void rest_moving_free(struct rest_moving *m);
void rest_download_free(struct rest_download *d);
void rest_upload_free(struct rest_upload *u);
void rest_free(struct rest_call *c);
bool rest_is_wanted(const struct rest_call *c); // the client listens, or may repeat the call
void rest_drop_body(struct rest_call *c);       // for a call that waits for another one's answer
// Detaches the call from its exchange, which is about to end.
struct http_exchange *rest_let_go(struct rest_call *c);

// ---- answers; the call is gone afterwards -------------------------------------------------------

void rest_answer(struct rest_call *c, int status, json_t *body); // taken; NULL: memory is out
void rest_fail(struct rest_call *c, int status, const char *code, const char *hint, const char *fmt,
               ...) __attribute__((format(printf, 5, 6)));
void rest_fail_err(struct rest_call *c, const struct err *e);
// There is no such session: 404, or 409 with the reason if it has ended.
void rest_fail_session(struct rest_call *c, const char *text, const struct err *e);

// The HTTP status for an error.
int rest_status(const struct err *e);

// ---- sessions -----------------------------------------------------------------------------------

// Calls `then` with the session c->id once it is open; with `create` it opens an unknown name.
// Answers the call if there is no session.
void rest_with_session(struct rest_call *c, bool create,
                       void (*then)(struct rest_call *c, struct session *s));
// The same, once the box shows the files of this session and not those of a fork.
void rest_with_files(struct rest_call *c, bool create,
                     void (*then)(struct rest_call *c, struct session *s));
// Opens a session by c->plan, then calls `then`.
void rest_open_session(struct rest_call *c, void (*then)(struct rest_call *c, struct session *s));
// Answers with the state of a session.
void rest_show_session(struct rest_call *c, struct session *s);
// Fills c->plan from the configuration and the fields of a body.  -1: answered.
int rest_make_plan(struct rest_call *c, const char *name);

// ---- handlers -----------------------------------------------------------------------------------

void rest_execute(struct rest_call *c);
void rest_post_execution(struct rest_call *c);
void rest_list_executions(struct rest_call *c);
void rest_get_execution(struct rest_call *c);
void rest_read_execution(struct rest_call *c);
void rest_delete_execution(struct rest_call *c);
void rest_batch(struct rest_call *c);
void rest_batch_lines(struct rest_call *c);
void rest_validate(struct rest_call *c);
void rest_list_sessions(struct rest_call *c);
void rest_post_session(struct rest_call *c);
void rest_get_session(struct rest_call *c);
void rest_delete_session(struct rest_call *c);
void rest_interrupt(struct rest_call *c);
void rest_input(struct rest_call *c);
void rest_undo(struct rest_call *c);
void rest_checkpoint(struct rest_call *c);
void rest_fork(struct rest_call *c);
void rest_variables(struct rest_call *c);
void rest_complete(struct rest_call *c);
void rest_inspect(struct rest_call *c);
void rest_tree(struct rest_call *c);
void rest_compare(struct rest_call *c);
void rest_rename(struct rest_call *c);
void rest_overview(struct rest_call *c);
void rest_stop_run(struct rest_call *c);
void rest_doctor(struct rest_call *c);
void rest_self_test(struct rest_call *c);
void rest_share(struct rest_call *c);
void rest_unshare(struct rest_call *c);
void rest_report(struct rest_call *c);
void rest_history(struct rest_call *c);
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
// The same for true or false: the value; 0: absent or false.
int rest_query_switch(struct rest_call *c, const char *name);
// The same for a JSON number of seconds, in milliseconds.
int rest_query_seconds(struct rest_call *c, const char *name, unsigned most, uint64_t *ret_ms);
// The same for a whole number.
int rest_query_number(struct rest_call *c, const char *name, uint64_t least, uint64_t most,
                      uint64_t *ret);

#endif
