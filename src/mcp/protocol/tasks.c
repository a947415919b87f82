// SPDX-License-Identifier: Apache-2.0
//
// tasks: see tasks.h.  Called by tools.c (mcp_task_begin), client_request.c (mcp_task_ask) and the
// dispatch.
//
// A task is the outlet of a call: whatever the call sends ends up here instead of at a client.
//
// Invariants:
//   1. A task that runs has a call; one that ended has none, and its status is final.
//   2. A task is in at most one of two queues: `ended`, or `waiting` for the client's answers. Both
//      are ordered by deadline, because every deadline is TASK_TTL_MS after the task joined; so the
//      timer looks at two heads only.
//   3. A task that ended is also in its owner's queue, the oldest first.
//   4. createdAt + ttlMs, as last told, is never later than the removal, unless room was needed for
//      new tasks.

#include "mcp/protocol/tasks.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"
#include "mcp/protocol/subscriptions.h"
#include "json/encode.h"

enum {
    TASKS_MAX = 1024,
    TASKS_PER_OWNER = 256,
    TASK_TTL_MS = 3600 * 1000, // after the end, or after a question
    TASK_POLL_MS = 1000,
    TASK_ID_LENGTH = 32, // 192 bits
    TASK_MESSAGE_MAX = 256,
};

static const size_t RESULTS_MAX = 64U << 20; // bytes of all stored results, as JSON

enum task_status { TASK_WORKING, TASK_INPUT_REQUIRED, TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED };

static const char *const status_names[] = {
    [TASK_WORKING] = "working",     [TASK_INPUT_REQUIRED] = "input_required",
    [TASK_COMPLETED] = "completed", [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
};

enum queue_kind {
    QUEUE_TIMED,
    QUEUE_OWNER,
    QUEUE_KINDS
}; // the two kinds of queues a task can be in

struct task_queue {
    struct mcp_task *first, *last;
};

struct task_owner {
    char name[MCP_OWNER_MAX + 1];
    unsigned count;
    size_t bytes; // of its results
    struct task_queue ended;
    TAILQ_ENTRY(task_owner) entry;
};

struct mcp_task {
    struct mcp_outlet outlet; // first: the outlet is the task
    struct mcp *mcp;
    struct task_owner *owner;
    char id[TASK_ID_LENGTH + 1];
    enum task_status status;
    char message[TASK_MESSAGE_MAX];
    int64_t created_ms, updated_ms; // by the wall clock, for the client
    int64_t started_ms, ended_ms;   // by the steady clock; ended_ms 0: it runs
    int64_t deadline_ms;
    struct mcp_call *call;
    json_t *outcome; // "result" or "error" of the call
    size_t bytes;    // of the outcome
    // The open question.
    json_t *requests; // key on the wire -> {"method", "params"}, those without an answer
    json_t *keys;     // key on the wire -> key of the handler
    json_t *answers;  // key of the handler -> answer
    void (*then)(struct mcp_call *c, json_t *answers);
    unsigned rounds;
    struct task_queue *queue[QUEUE_KINDS];
    struct mcp_task *before[QUEUE_KINDS], *after[QUEUE_KINDS];
};

struct mcp_tasks {
    struct mcp *mcp;
    void *by_id, *owners; // tsearch trees
    TAILQ_HEAD(, task_owner) owner_list;
    unsigned count;
    size_t bytes;
    struct task_queue ended, waiting;
    struct timer timer;
    bool closing;
};

// ---- queues -------------------------------------------------------------------------------------

static void queue_append(struct task_queue *q, enum queue_kind kind, struct mcp_task *t)
{
    t->queue[kind] = q;
    t->before[kind] = q->last;
    t->after[kind] = NULL;
    *(q->last ? &q->last->after[kind] : &q->first) = t;
    q->last = t;
}

static void queue_remove(enum queue_kind kind, struct mcp_task *t)
{
    struct task_queue *q = t->queue[kind];
    if (!q)
        return;
    *(t->before[kind] ? &t->before[kind]->after[kind] : &q->first) = t->after[kind];
    *(t->after[kind] ? &t->after[kind]->before[kind] : &q->last) = t->before[kind];
    t->queue[kind] = NULL;
}

static void on_timer(void *argument);

static void set_timer(struct mcp_tasks *all)
{
    const struct mcp_task *next = all->ended.first;
    if (all->waiting.first && (!next || all->waiting.first->deadline_ms < next->deadline_ms))
        next = all->waiting.first;
    if (!next) {
        timer_stop(&all->timer);
        return;
    }
    int64_t left = next->deadline_ms - clock_ms();
    if (left < 10)
        left = 10;
    (void)timer_set(&all->timer, all->mcp->base, (uint64_t)left, on_timer, all);
}

static void begin_deadline(struct mcp_task *t, struct task_queue *q)
{
    struct mcp_tasks *all = t->mcp->tasks;
    queue_remove(QUEUE_TIMED, t);
    t->deadline_ms = clock_ms() + TASK_TTL_MS;
    queue_append(q, QUEUE_TIMED, t);
    if (q->first == t) // else the timer runs for an earlier task
        set_timer(all);
}

// ---- what a client sees of a task ---------------------------------------------------------------

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// The fields of every task.  ttlMs counts from the creation but runs out only after the end, so it
// grows while the task runs.
static json_t *describe(const struct mcp_task *t)
{
    char created[TEXT_TIME_MAX], updated[TEXT_TIME_MAX];
    text_format_time(t->created_ms, created);
    text_format_time(t->updated_ms, updated);
    int64_t lived = (t->ended_ms ? t->ended_ms : clock_ms()) - t->started_ms;
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:i}", "taskId", t->id, "status",
                  status_names[t->status], "createdAt", created, "lastUpdatedAt", updated, "ttlMs",
                  (json_int_t)(lived + TASK_TTL_MS), "pollIntervalMs", TASK_POLL_MS);
    if (o && t->message[0])
        (void)json_object_set_new(o, "statusMessage", json_string(t->message));
    return o;
}

// The same plus the fields of its status: "DetailedTask".
static json_t *describe_all(const struct mcp_task *t)
{
    json_t *o = describe(t);
    if (!o)
        return NULL;
    int bad = 0;
    if (t->status == TASK_INPUT_REQUIRED)
        bad = json_object_set(o, "inputRequests", t->requests);
    else if (t->status == TASK_COMPLETED)
        bad = json_object_set(o, "result", t->outcome);
    else if (t->status == TASK_FAILED)
        bad = json_object_set(o, "error", t->outcome);
    if (bad) { // incomplete: send nothing
        json_decref(o);
        return NULL;
    }
    return o;
}

static void set_status(struct mcp_task *t, enum task_status status)
{
    t->status = status;
    t->updated_ms = wall_ms();
}

static void tell(struct mcp_task *t)
{
    if (t->mcp->tasks->closing || !mcp_task_is_watched(t->mcp, t->id))
        return;
    json_auto_t *o = describe_all(t);
    if (o)
        mcp_task_updated(t->mcp, t->owner->name, t->id, o);
}

// Foreign text: cut between characters.
static void set_message(struct mcp_task *t, const char *text)
{
    size_t length = strnlen(text, sizeof t->message - 1);
    length = utf8_valid_length(text, length);
    memcpy(t->message, text, length);
    t->message[length] = '\0';
}

// ---- the life of a task -------------------------------------------------------------------------

static int compare_tasks(const void *a, const void *b)
{
    return strcmp(((const struct mcp_task *)a)->id, ((const struct mcp_task *)b)->id);
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(((const struct task_owner *)a)->name, ((const struct task_owner *)b)->name);
}

static void clear_question(struct mcp_task *t)
{
    json_decref(TAKE_PTR(t->requests));
    json_decref(TAKE_PTR(t->keys));
    json_decref(TAKE_PTR(t->answers));
    t->then = NULL;
}

static void owner_release(struct mcp_tasks *all, struct task_owner *o)
{
    if (o->count)
        return;
    (void)tdelete(o, &all->owners, compare_owners);
    TAILQ_REMOVE(&all->owner_list, o, entry);
    free(o);
}

// Only for a task without a call.
static void task_free(struct mcp_task *t)
{
    struct mcp_tasks *all = t->mcp->tasks;
    queue_remove(QUEUE_TIMED, t);
    queue_remove(QUEUE_OWNER, t);
    (void)tdelete(t, &all->by_id, compare_tasks);
    all->count--;
    all->bytes -= t->bytes;
    t->owner->bytes -= t->bytes;
    t->owner->count--;
    owner_release(all, t->owner);
    clear_question(t);
    json_decref(t->outcome);
    free(t);
}

// The oldest ended task, but not `except`, of the owner with most of them (in number or bytes), so
// that no owner pushes out tasks of one that has less.
static struct mcp_task *find_victim(struct mcp_tasks *all, bool by_bytes,
                                    const struct mcp_task *except)
{
    struct mcp_task *victim = NULL;
    size_t most = 0;
    struct task_owner *o;
    TAILQ_FOREACH (o, &all->owner_list, entry) {
        struct mcp_task *t = o->ended.first;
        if (t && t == except)
            t = t->after[QUEUE_OWNER];
        size_t has = by_bytes ? o->bytes : o->count;
        if (t && (!victim || has > most)) {
            victim = t;
            most = has;
        }
    }
    return victim;
}

// Makes room for results: the oldest go.
static void limit_bytes(struct mcp_tasks *all, const struct mcp_task *newest)
{
    struct mcp_task *t;
    while (all->bytes > RESULTS_MAX && (t = find_victim(all, true, newest)))
        task_free(t);
}

static void task_end(struct mcp_task *t, enum task_status status, json_t *outcome)
{
    struct mcp_tasks *all = t->mcp->tasks;
    if (t->call)
        t->mcp->lasting--;
    t->call = NULL;
    clear_question(t);
    t->outcome = outcome;
    t->bytes = outcome ? json_dumpb(outcome, NULL, 0, JSON_COMPACT) : 0;
    all->bytes += t->bytes;
    t->owner->bytes += t->bytes;
    t->ended_ms = clock_ms();
    set_status(t, status);
    begin_deadline(t, &all->ended);
    queue_append(&t->owner->ended, QUEUE_OWNER, t);
    limit_bytes(all, t);
    tell(t);
}

static void on_answer(struct mcp_task *t, json_t *message)
{
    json_t *result = json_object_get(message, "result");
    json_t *error = json_object_get(message, "error");
    if (result) {
        t->message[0] = '\0'; // the progress is out of date
        task_end(t, TASK_COMPLETED, json_incref(result));
        return;
    }
    const char *text = json_string_value(json_object_get(error, "message"));
    set_message(t, text ? text : "the call failed");
    task_end(t, TASK_FAILED, json_incref(error));
}

// Progress of the call becomes the message of the task.
static void on_notification(struct mcp_task *t, json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *params = json_object_get(message, "params");
    if (!method || strcmp(method, "notifications/progress") != 0)
        return;
    const char *text = json_string_value(json_object_get(params, "message"));
    char plain[64];
    if (!text) {
        double done = json_number_value(json_object_get(params, "progress"));
        json_t *total = json_object_get(params, "total");
        if (total)
            snprintf(plain, sizeof plain, "%g of %g", done, json_number_value(total));
        else
            snprintf(plain, sizeof plain, "%g", done);
    }
    set_message(t, text ? text : plain);
    t->updated_ms = wall_ms();
    tell(t);
}

static void outlet_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct mcp_task *t = (struct mcp_task *)(void *)o;
    if (last)
        on_answer(t, message);
    else
        on_notification(t, message);
}

static void outlet_drop(struct mcp_outlet *o)
{
    struct mcp_task *t = (struct mcp_task *)(void *)o;
    set_message(t, "cancelled");
    task_end(t, TASK_CANCELLED, NULL);
}

// The client did not answer a question: end the work.
static void give_up(struct mcp_task *t)
{
    mcp_cancel(t->call); // ends the task as cancelled
    json_t *error = json_pack("{s:i, s:s}", "code", MCP_INTERNAL_ERROR, "message",
                              "the question was not answered in time; the work was ended");
    if (!error)
        return;
    set_message(t, "the question was not answered in time");
    t->outcome = error;
    set_status(t, TASK_FAILED);
    tell(t);
}

static void on_timer(void *argument)
{
    struct mcp_tasks *all = argument;
    int64_t now = clock_ms();
    while (all->ended.first && all->ended.first->deadline_ms <= now)
        task_free(all->ended.first);
    while (all->waiting.first && all->waiting.first->deadline_ms <= now)
        give_up(all->waiting.first);
    set_timer(all);
}

// ---- creation ---------------------------------------------------------------------------------

static struct task_owner *owner_find(struct mcp_tasks *all, const char *name)
{
    struct task_owner *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    snprintf(o->name, sizeof o->name, "%s", name);
    struct task_owner **node = tsearch(o, &all->owners, compare_owners);
    if (!node || *node != o)
        free(o);
    else
        TAILQ_INSERT_TAIL(&all->owner_list, o, entry);
    return node ? *node : NULL;
}

// Makes room by dropping an old finished task.  False: all of them run.
static bool make_room(struct mcp_tasks *all, struct task_owner *o)
{
    if (o->count >= TASKS_PER_OWNER) {
        if (!o->ended.first)
            return false;
        task_free(o->ended.first); // the owner has more tasks and stays
    }
    if (all->count >= TASKS_MAX) {
        struct mcp_task *t = find_victim(all, false, NULL);
        if (!t)
            return false;
        // This owner must survive the loss of its last task.
        o->count++;
        task_free(t);
        o->count--;
    }
    return true;
}

static struct mcp_task *task_new(struct mcp *m, struct task_owner *o)
{
    struct mcp_tasks *all = m->tasks;
    struct mcp_task *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct mcp_task){
        .outlet = {.send = outlet_send, .drop = outlet_drop}, .mcp = m, .owner = o};
    if (encode_random_id(t->id, TASK_ID_LENGTH) < 0 || !tsearch(t, &all->by_id, compare_tasks)) {
        free(t);
        return NULL;
    }
    t->created_ms = t->updated_ms = wall_ms();
    t->started_ms = clock_ms();
    all->count++;
    o->count++;
    return t;
}

struct mcp_call *mcp_task_begin(struct mcp_call *c)
{
    struct mcp *m = c->mcp;
    struct task_owner *o = owner_find(m->tasks, c->owner);
    if (o && !make_room(m->tasks, o)) {
        owner_release(m->tasks, o);
        mcp_fail(
            c, MCP_INTERNAL_ERROR, NULL,
            "too many tasks are running: at most %d for one client, %d in all; wait for one to end "
            "or cancel it with tasks/cancel, then call again",
            TASKS_PER_OWNER, TASKS_MAX);
        return NULL;
    }
    struct mcp_task *t = o ? task_new(m, o) : NULL;
    json_t *created = t ? describe(t) : NULL;
    struct mcp_call *fork = created ? mcp_call_fork(c, &t->outlet) : NULL;
    if (!fork || json_object_set_new(created, "resultType", json_string("task")) < 0) {
        if (fork)
            mcp_cancel(fork); // ends the task; the client does not know it, and it expires
        else if (t)
            task_free(t);
        else if (o)
            owner_release(m->tasks, o);
        json_decref(created);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a task; try again later");
        return NULL;
    }
    t->call = fork;
    m->lasting++;
    fork->task = t;
    fork->progress_token = json_true(); // any value: outlet_send() consumes it
    mcp_answer(c, created);
    return fork;
}

// ---- questions ----------------------------------------------------------------------------------

// Keys must be unique in the life of a task, so later rounds add a number.
static int add_question(struct mcp_task *t, const struct mcp_question *q)
{
    char key[128];
    if (t->rounds > 1)
        snprintf(key, sizeof key, "%.100s-%u", q->key, t->rounds);
    else
        snprintf(key, sizeof key, "%.100s", q->key);
    json_t *request = json_pack("{s:s}", "method", q->method);
    if (q->params && json_object_set(request, "params", q->params) < 0) {
        json_decref(request);
        return -1;
    }
    if (json_object_set_new(t->requests, key, request) < 0 ||
        json_object_set_new(t->keys, key, json_string(q->key)) < 0)
        return -1;
    return 0;
}

void mcp_task_ask(struct mcp_call *c, const struct mcp_question *questions, size_t count,
                  void (*then)(struct mcp_call *c, json_t *answers))
{
    struct mcp_task *t = c->task;
    int bad = 0;
    clear_question(t);
    t->rounds++;
    t->requests = json_object();
    t->keys = json_object();
    t->answers = json_object();
    t->then = then;
    for (size_t i = 0; i < count; i++)
        bad |= add_question(t, &questions[i]);
    if (bad || !t->answers || json_object_size(t->requests) == 0) {
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a question");
        return;
    }
    set_status(t, TASK_INPUT_REQUIRED);
    begin_deadline(t, &t->mcp->tasks->waiting);
    tell(t);
}

// Takes the answers that were asked for, ignores others.  -1: one is not an object.
static int take_answers(struct mcp_task *t, json_t *responses, const char **ret_bad)
{
    const char *key;
    json_t *request;
    void *next;
    json_object_foreach (t->requests, key, request) {
        json_t *answer = json_object_get(responses, key);
        if (answer && !json_is_object(answer)) {
            *ret_bad = key;
            return -1;
        }
    }
    json_object_foreach_safe (t->requests, next, key, request) {
        json_t *answer = json_object_get(responses, key);
        if (!answer)
            continue;
        const char *name = json_string_value(json_object_get(t->keys, key));
        if (json_object_set(t->answers, name, answer) == 0)
            (void)json_object_del(t->requests, key);
    }
    return 0;
}

static void resume(struct mcp_task *t)
{
    void (*then)(struct mcp_call *, json_t *) = t->then;
    json_auto_t *answers = TAKE_PTR(t->answers);
    queue_remove(QUEUE_TIMED, t);
    clear_question(t);
    set_status(t, TASK_WORKING);
    tell(t);
    then(t->call, answers);
}

// ---- methods ------------------------------------------------------------------------------------

static int require_extension(struct mcp_call *c)
{
    if (mcp_client_can(c, "extensions/" MCP_EXTENSION_TASKS))
        return 0;
    mcp_task_missing(c);
    return -1;
}

void mcp_task_missing(struct mcp_call *c)
{
    mcp_fail(c, MCP_MISSING_CAPABILITY,
             json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", MCP_EXTENSION_TASKS),
             "%s needs the extension '%s', which the client did not declare on this request",
             c->method ? c->method->name : "this request", MCP_EXTENSION_TASKS);
}

static struct mcp_task *find(struct mcp *m, const char *owner, const char *id)
{
    struct mcp_task key;
    if (strlen(id) != TASK_ID_LENGTH)
        return NULL;
    memcpy(key.id, id, sizeof key.id);
    struct mcp_task **node = tfind(&key, &m->tasks->by_id, compare_tasks);
    // SECURITY: knowing an id is not enough: the owner must match.
    return node && strcmp((*node)->owner->name, owner) == 0 ? *node : NULL;
}

bool mcp_task_exists(struct mcp *m, const char *owner, const char *id)
{
    return find(m, owner, id) != NULL;
}

// The task that the request names; NULL: the call was failed.
static struct mcp_task *find_or_fail(struct mcp_call *c)
{
    if (require_extension(c) < 0)
        return NULL;
    const char *id = json_string_value(json_object_get(c->request.params, "taskId"));
    if (!id) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'taskId' is missing or not a string");
        return NULL;
    }
    struct mcp_task *t = find(c->mcp, c->owner, id);
    if (!t)
        mcp_fail(
            c, MCP_INVALID_PARAMS, NULL,
            "no such task: it never existed, belongs to another client, or expired (%d minutes "
            "after its end)",
            TASK_TTL_MS / 60000);
    return t;
}

void mcp_handle_tasks_get(struct mcp_call *c)
{
    const struct mcp_task *t = find_or_fail(c);
    if (t)
        mcp_answer(c, describe_all(t));
}

void mcp_handle_tasks_update(struct mcp_call *c)
{
    struct mcp_task *t = find_or_fail(c);
    const char *bad = NULL;
    if (!t)
        return;
    json_t *responses = json_object_get(c->request.params, "inputResponses");
    if (!json_is_object(responses)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'inputResponses' must be an object: key of the request -> answer");
        return;
    }
    bool asked = t->status == TASK_INPUT_REQUIRED;
    if (asked && take_answers(t, responses, &bad) < 0) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'inputResponses.%s' must be an object", bad);
        return;
    }
    char id[sizeof t->id], owner[sizeof c->owner];
    struct mcp *m = c->mcp;
    memcpy(id, t->id, sizeof id);
    memcpy(owner, c->owner, sizeof owner);
    mcp_answer(c, json_object());
    // Sending may have ended the task, so look it up again.
    t = find(m, owner, id);
    if (!asked || !t || t->status != TASK_INPUT_REQUIRED)
        return;
    if (json_object_size(t->requests) == 0)
        resume(t);
}

void mcp_handle_tasks_cancel(struct mcp_call *c)
{
    struct mcp_task *t = find_or_fail(c);
    if (!t)
        return;
    if (t->call)
        mcp_cancel(t->call);
    mcp_answer(c, json_object());
}

// ---- the module --------------------------------------------------------------------------------

int mcp_tasks_open(struct mcp *m, struct err *e)
{
    struct mcp_tasks *all = calloc(1, sizeof *all);
    if (!all)
        return err_set(e, ERR_SYSTEM, 0, NULL, "no memory for tasks");
    all->mcp = m;
    TAILQ_INIT(&all->owner_list);
    m->tasks = all;
    return 0;
}

void mcp_tasks_close(struct mcp *m)
{
    struct mcp_tasks *all = m->tasks;
    if (!all)
        return;
    all->closing = true;
    while (all->by_id) { // a node of the tree begins with the pointer to its task
        struct mcp_task *t = *(struct mcp_task **)all->by_id;
        if (t->call)
            mcp_cancel(t->call); // ends it
        task_free(t);
    }
    timer_stop(&all->timer);
    free(all);
    m->tasks = NULL;
}
