// SPDX-License-Identifier: Apache-2.0
//
// mcp: the server's side of the Model Context Protocol, both eras, without any transport.
//
//   transport --- mcp_receive() ---> dispatch (dispatch.c) ---> handler of a method
//        ^                                                        |
//        +---- outlet <--- mcp_answer(), mcp_fail(), mcp_progress() ...
//
// A call is one request from its arrival to its answer.  A handler either answers at once or sets
// `cancel` and `work` and answers later; it ends every call exactly once, by mcp_answer() or
// mcp_fail(), and must not touch it afterwards.  When a call is cancelled, its `cancel` is called,
// which stops the work for good; nothing is sent and the call is gone.
//
// Everything runs in the gate, on one event loop.

#ifndef CONSTRICTOR_MCP_PROTOCOL_MCP_H
#define CONSTRICTOR_MCP_PROTOCOL_MCP_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/timer.h"
#include "config/config.h"
#include "mcp/protocol/rpc.h"

struct gate;
struct mcp_call;
struct mcp_client;
struct mcp_tasks;         // tasks.c
struct mcp_subscriptions; // subscriptions.c
struct mcp_outputs;       // outputs.c
struct mcp_tools;         // tools.c

enum { MCP_OWNER_MAX = 64, MCP_SECRET_SIZE = 32, MCP_CALLS_MAX = 1024, MCP_CLIENT_CALLS_MAX = 256 };

struct mcp {
    struct event_base *base;
    struct gate *gate; // NULL in unit tests and fuzzers: nothing can run
    const struct config *config;
    bool is_local;     // stdio: the folders of the client are folders of this machine
    bool lists_change; // a tool set announces changes of tools, resources and prompts
    unsigned char secret[MCP_SECRET_SIZE]; // seals requestState and cursors; of this process only
    const struct mcp_method *methods;      // ends with a row without a name
    // Is there such a resource for this owner?
    bool (*resource_exists)(struct mcp *m, const char *uri, const char *owner);
    struct mcp_tools *tools;
    struct mcp_tasks *tasks;
    struct mcp_subscriptions *subscriptions;
    struct mcp_outputs *outputs;
    void *clients; // tsearch tree by id: client.c
    struct mcp_client *oldest, *newest;
    unsigned client_count;
    struct timer client_timer;
    unsigned calls;                 // in flight, all transports
    unsigned lasting;               // of them tasks and subscriptions, which have their own bounds
    void (*on_idle)(struct mcp *m); // called when the last call in flight ended, or NULL
    void *idle_argument;            // for on_idle
};

// ---- outlets: where messages go ----------------------------------------------------------------

// Implemented by the transports.  A call has one; a client may have one for messages of no call.
struct mcp_outlet {
    // Sends a message, which is borrowed.  `last`: it is the answer; the call does not use the
    // outlet again.
    void (*send)(struct mcp_outlet *o, json_t *message, bool last);
    // The call was cancelled: no answer comes; the call does not use the outlet again.
    void (*drop)(struct mcp_outlet *o);
    // Sends an answer that is text already.  NULL: send() gets it parsed.
    void (*send_text)(struct mcp_outlet *o, json_t *id, const char *result, size_t length);
};

// ---- from the transport ------------------------------------------------------------------------

// The sender of a message and the way back; borrowed during mcp_receive().
struct mcp_from {
    struct mcp_client *client; // NULL: modern HTTP
    struct mcp_outlet *outlet; // for the answer
    const char *owner;         // name of the key, "" without keys
    enum mcp_version version;  // legacy: of the header or the client; modern: checked
    // HTTP only, else NULL: checks the headers that mirror arguments of a tool call (SEP-2243) once
    // the tool is known.  0, or -1 and the refusal.
    int (*check_params)(void *argument, json_t *input_schema, json_t *arguments,
                        struct rpc_refusal *no);
    void *argument;
};

// Serves one sorted request, notification or response (not a batch).  Takes the message.  A request
// is answered through the outlet, now or later.  Returns the call while it is in flight, for
// mcp_cancel() when the client disconnects; NULL if it has ended.  The call is valid until its
// outlet sees `last` or `drop`.
struct mcp_call *mcp_receive(struct mcp *m, const struct mcp_from *from,
                             struct rpc_message *message);

// The row of a method, or NULL when this era does not have it.
struct mcp_method {
    const char *name;
    bool legacy, modern;
    const char *name_param; // modern: the parameter that the header Mcp-Name mirrors, or NULL
    bool cached;            // modern: the result carries ttlMs and cacheScope
    void (*handle)(struct mcp_call *c);
};
const struct mcp_method *mcp_method_find(const struct mcp *m, const char *name, bool modern);

// ---- calls, for the handlers -------------------------------------------------------------------

enum mcp_level { // of syslog and of the protocol, least important first
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    MCP_LEVEL_MAX
};
int mcp_level_find(const char *name); // or -1
extern const char *const mcp_level_names[MCP_LEVEL_MAX];

struct mcp_call {
    struct mcp *mcp;
    struct mcp_client *client; // NULL: modern HTTP, or a task whose client is gone
    struct mcp_outlet *outlet;
    const struct mcp_method *method;
    enum mcp_version version;
    bool modern;
    char owner[MCP_OWNER_MAX + 1];
    struct rpc_message request;  // owned; request.params and .meta are what handlers read
    json_t *capabilities;        // the client's; borrowed, never NULL
    json_t *progress_token;      // borrowed or NULL
    double progress;             // last sent
    int64_t progress_us;         // when
    int log_level;               // least important level the client wants, MCP_LEVEL_MAX: none
    json_t *answers;             // modern retry: params.inputResponses, else NULL; borrowed
    json_t *state;               // modern retry: the handler's requestState; owned
    const struct mcp_from *from; // only while the handler's first call lasts
    bool *ended;                 // set when the call ends during the handler's first call
    // For a handler that answers after it returned.
    void *work;
    void (*cancel)(struct mcp_call *c);
    // Bookkeeping of call.c, client_request.c and client.c.
    struct mcp_questions *questions; // open ones of a legacy client
    struct mcp_task *task;           // it runs as this task
    char key[RPC_ID_MAX + 8];        // id as text, for the client's table
};

// Answers.  Takes `result`, an object (NULL: out of memory, an internal error is sent).  Adds what
// the era demands: resultType, _meta.serverInfo, cache hints.
void mcp_answer(struct mcp_call *c, json_t *result);

// An answer that many calls of one revision share: made once, sent as it is.
struct mcp_prepared {
    char *text;
    size_t length;
};
int mcp_prepare(const struct mcp_call *c, json_t *result /* taken */, struct mcp_prepared *ret);
void mcp_answer_prepared(struct mcp_call *c, const struct mcp_prepared *p);
void mcp_prepared_clear(struct mcp_prepared *p);

// An error.  `data` is taken, may be NULL.
void mcp_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// The resource does not exist: -32602 or, legacy, -32002, with data.uri.
void mcp_resource_missing(struct mcp_call *c, const char *uri);
void mcp_resource_missing_because(struct mcp_call *c, const char *uri, const struct err *why);

// Notifications before the answer; each does nothing unless the client asked for it.
void mcp_progress(struct mcp_call *c, double progress, double total, const char *message);
bool mcp_logs(const struct mcp_call *c, enum mcp_level level); // would mcp_log() send it?
void mcp_log(struct mcp_call *c, enum mcp_level level, const char *logger,
             json_t *data /* taken */);
// Any notification on the call's own stream.  Takes params, may be NULL.
void mcp_notify(struct mcp_call *c, const char *method, json_t *params);

// Did the client declare it?  "elicitation", "sampling", "roots", "sampling.tools",
// "extensions/io.modelcontextprotocol/tasks" (a '/' only behind the first word: one key).
bool mcp_client_can(const struct mcp_call *c, const char *capability);

// For a call that stays open: frees the parameters of its request except name, progress token and
// capabilities.  The handler must not use what it borrowed of them.
void mcp_call_trim(struct mcp_call *c);

// Ends a call without an answer.
void mcp_cancel(struct mcp_call *c);

// A second call for the same request, with another outlet: for a task that goes on after the first
// was answered.  The handler is not called.
struct mcp_call *mcp_call_fork(struct mcp_call *c, struct mcp_outlet *outlet);

// ---- questions to the client (client_request.c) ------------------------------------------------

struct mcp_question {
    const char *key;    // names the answer
    const char *method; // "elicitation/create", "sampling/createMessage", "roots/list"
    json_t *params;     // taken; NULL for roots/list
    bool may_refuse;    // legacy: an error in place of an answer is the answer null
};

enum { MCP_QUESTIONS_MAX = 8 };

// Asks, and goes on with `then`, which gets the answers by key (borrowed).
//   legacy   each question is a request to the client; `then` comes when all are answered; a
//            refusal fails the call
//   modern   if the request brought all answers, `then` is called at once; else the call ends with
//            "input_required", and the client sends the request again.  So a handler runs from its
//            beginning each time, and must have no effect before it asks.
//   task     the task waits in state input_required
// A capability that the client did not declare ends the call with MCP_MISSING_CAPABILITY.
// `state` (taken, may be NULL) comes back as c->state with the answers, unforgeable.
void mcp_ask(struct mcp_call *c, const struct mcp_question *questions, size_t count, json_t *state,
             void (*then)(struct mcp_call *c, json_t *answers));

// A legacy client answered a question.  Called by dispatch.c.
void mcp_client_answered(struct mcp_client *client, const struct rpc_message *m);
void mcp_questions_free(struct mcp_call *c); // when the call ends

// (request_state.c) Seals `state` for this call: method, arguments, owner and time are bound to it.
// Caller frees.
char *mcp_state_seal(struct mcp_call *c, json_t *state);
// Opens params.requestState into c->state.  0, or -1: forged, of another call, or too old.
int mcp_state_open(struct mcp_call *c, const char *text);

// ---- lists (cursor.c) --------------------------------------------------------------------------

enum { MCP_PAGE = 50 };

// Reads params.cursor of list `name` into the number of the first item.  0, or -1: the cursor is
// not ours, and the call was failed.
int mcp_page_begin(struct mcp_call *c, const char *name, size_t *ret_first);
// Adds nextCursor to a result when there is more.
void mcp_page_next(struct mcp_call *c, const char *name, json_t *result, size_t next, size_t total);

#endif
