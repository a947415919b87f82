// SPDX-License-Identifier: Apache-2.0
//
// check: see check.h.
//
//   check_start() -> wait for the restricted package -> cached? -> the owner's checker: its queue
//   -> its box, one at a time -> on_done
//
// A checker exists as long as it has a box, waits for one, or has work.  SECURITY: everything that
// comes out of the box is hostile: check_take() takes only what an answer has.

#include "check/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "config/code_policy.h"
#include "env/restricted_package.h"
#include "keeper/keeper.h"
#include "run/gate.h"
#include "run/live.h"
#include "run/run.h"

enum { BOX_WAIT_MS = 60000 };
enum { CPU_MS = 4 * (CHECK_BUSY_MS + CHECK_WALL_MS) }; // of a box: the limits on time come first

TAILQ_HEAD(check_list, check);

struct checker {
    struct checks *all;
    char owner[65];
    struct link_request box_request;
    struct live_box *box;
    struct check_list waiting;
    unsigned count;      // of `waiting`
    struct check *now;   // in the box; NULL: none, or it was freed meanwhile
    bool busy;           // the box checks a source
    bool overdue;        // the box was released because it took too long
    bool releasing;      // the box was released, and its end is awaited
    bool ending;         // in on_ended()
    unsigned uses;       // of this box
    uint64_t busy_us;    // of this box
    int64_t begin_us;    // of the current source
    char *source, *meta; // the current source: lent to live_send()
    size_t length;
    int exit_status;
    bool has_exit;
    struct timer timer;
    TAILQ_ENTRY(checker) list; // least lately used first
};

struct checks {
    struct gate *gate;
    struct check_cache *cache;
    size_t waiting_bytes;
    unsigned count;
    TAILQ_HEAD(, checker) checkers;
};

static void go_on(struct checker *k);

// ---- the end of a check -------------------------------------------------------------------------

static void leave(struct check *c)
{
    struct checker *k = TAKE_PTR(c->checker);
    if (!k)
        return;
    if (k->now == c) {
        k->now = NULL;
        return;
    }
    TAILQ_REMOVE(&k->waiting, c, list);
    k->count--;
    k->all->waiting_bytes -= c->length;
}

static void stop_waiting(struct check *c)
{
    c->wait = NULL;
    if (c->gate->checks)
        c->gate->checks->waiting_bytes -= c->length;
}

void check_free(struct check *c)
{
    if (!c)
        return;
    leave(c);
    if (c->wait) {
        restricted_package_cancel(c->wait);
        stop_waiting(c);
    }
    json_decref(c->policy);
    timer_stop(&c->soon);
    json_decref(c->answer);
    free(c->source);
    free(c->meta);
    free(c);
}

// Takes `answer`; NULL: c->error says why.
static void finish(struct check *c, json_t *answer)
{
    leave(c);
    c->answer = answer;
    if (!answer && !c->error.message[0])
        err_memory(&c->error);
    c->on_done(c);
}

static void on_soon(void *argument)
{
    struct check *c = argument;
    finish(c, TAKE_PTR(c->answer));
}

// finish() comes later: check_start() has not returned `c` yet.
static bool finish_soon(struct check *c)
{
    return timer_set(&c->soon, c->gate->base, 0, on_soon, c);
}

// ---- the box ------------------------------------------------------------------------------------

static void on_timer(void *argument);

static bool set_timer(struct checker *k, uint64_t ms)
{
    return timer_set(&k->timer, k->all->gate->base, ms, on_timer, k);
}

static void forget_work(struct checker *k)
{
    if (k->busy)
        k->all->gate->checking--;
    k->busy = false;
    free(TAKE_PTR(k->source));
    free(TAKE_PTR(k->meta));
}

static void drop_box(struct checker *k)
{
    struct live_box *b = TAKE_PTR(k->box);
    if (b) {
        link_let_go(&k->all->gate->link, b->id);
        live_free(b);
    }
    forget_work(k);
    k->uses = 0;
    k->busy_us = 0;
    k->releasing = k->overdue = k->ending = k->has_exit = false;
}

static void checker_free(struct checker *k)
{
    struct checks *all = k->all;
    link_cancel(&all->gate->link, &k->box_request);
    drop_box(k);
    timer_stop(&k->timer);
    TAILQ_REMOVE(&all->checkers, k, list);
    all->count--;
    free(k);
}

static void release(struct checker *k, enum wire_end end)
{
    if (k->releasing || !k->box)
        return;
    k->releasing = true;
    timer_stop(&k->timer);
    (void)link_release(&k->all->gate->link, k->box->id, end, false);
}

// Why the box ended during a check.
static void explain(const struct checker *k, const struct wire_ended *m, char *buf, size_t cap)
{
    if (k->overdue || m->end == END_CPU)
        snprintf(buf, cap, "parsing the code takes more than %d seconds", CHECK_WALL_MS / 1000);
    else if (m->end == END_MEMORY || (m->usage.memory_hits && m->usage.memory_hits != UINT64_MAX))
        snprintf(buf, cap, "parsing the code takes more memory than a box has");
    else if (k->has_exit && WIFSIGNALED(k->exit_status))
        snprintf(buf, cap, "the code crashes the parser (signal %d)", WTERMSIG(k->exit_status));
    else
        snprintf(buf, cap, "the box ended while it parsed the code");
}

// Earlier sources may have broken the box: tries once more, in a fresh one.
static bool try_again(struct checker *k, struct check *c)
{
    if (c->again || k->uses <= 1)
        return false;
    c->again = true;
    c->source = TAKE_PTR(k->source);
    c->meta = TAKE_PTR(k->meta);
    TAILQ_INSERT_HEAD(&k->waiting, c, list);
    c->checker = k;
    k->count++;
    k->all->waiting_bytes += c->length;
    return true;
}

static void on_ended(struct live_box *b, const struct wire_ended *m)
{
    struct checker *k = b->owner;
    struct check *c;
    char why[160];
    k->ending = true;
    live_read(b); // an EXIT may still be unread; a RESULT takes `now` away
    c = TAKE_PTR(k->now);
    explain(k, m, why, sizeof why);
    json_t *answer = NULL;
    if (c)
        c->checker = NULL;
    if (c && try_again(k, c))
        c = NULL;
    if (c)
        answer = check_crashed(k->source ? k->source : "", k->length, why,
                               c->gate->facts->interp ? c->gate->facts->interp->version : "");
    drop_box(k);
    timer_stop(&k->timer);
    go_on(k); // may free it
    if (c)
        finish(c, answer);
}

static void on_garbage(struct live_box *b)
{
    release(b->owner, END_PROTOCOL);
}

static void on_exit_frame(struct live_box *b, int status)
{
    struct checker *k = b->owner;
    k->has_exit = true;
    k->exit_status = status;
}

static void on_result(struct live_box *b, const char *data, size_t length, unsigned flags)
{
    struct checker *k = b->owner;
    struct checks *all = k->all;
    (void)flags;
    if (!k->busy || k->releasing)
        return;
    struct check *c = TAKE_PTR(k->now);
    if (c)
        c->checker = NULL;
    k->busy_us += (uint64_t)(clock_us() - k->begin_us);
    timer_stop(&k->timer);
    json_auto_t *report = c ? run_parse_result(data, length) : NULL;
    json_t *answer = c ? check_take(report) : NULL;
    if (c && !answer) {
        // Not an answer: an error about a bad policy, or hostile code controls the box.
        const char *why =
            json_string_value(json_object_get(json_object_get(report, "error"), "message"));
        char text[256];
        snprintf(text, sizeof text, "%s", why ? why : "the box returned an invalid answer");
        text_sanitize(text);
        bool policy = strncmp(text, "policy.", 7) == 0; // a name in it is not an identifier
        err_set(&c->error, policy ? ERR_BAD_VALUE : ERR_INTERNAL, 0,
                policy ? "give names of modules, such as [\"math\", \"os.path\"]"
                       : "try again, or check less at once",
                "check the code: %s", text);
        release(k, END_PROTOCOL);
    } else if (c && answer) {
        check_cache_put(all->cache, c->key, answer, length, clock_ms());
    }
    forget_work(k);
    if (!k->releasing && (k->uses >= CHECK_BOX_USES || k->busy_us >= CHECK_BUSY_MS * 1000ULL))
        release(k, END_DONE);
    go_on(k); // does not free `k`, which has a box
    if (c)
        finish(c, answer); // may start a check that frees `k` to make room
}

static const struct live_user user = {
    .on_result = on_result,
    .on_exit = on_exit_frame,
    .on_garbage = on_garbage,
    .on_ended = on_ended,
};

// Ends all waiting checks with this error, and frees the checker.
static void refuse_all(struct checker *k, const struct err *e)
{
    struct check *c;
    // on_done comes later: one may free another check.
    while ((c = TAILQ_FIRST(&k->waiting))) {
        leave(c);
        c->error = *e;
        if (!finish_soon(c))
            finish(c, NULL);
    }
    checker_free(k);
}

// No box came, a source takes too long, or the box was idle too long.
static void on_timer(void *argument)
{
    struct checker *k = argument;
    struct err e;
    if (!k->box) {
        err_set(&e, ERR_BUSY, ETIMEDOUT, "try again, or send fewer runs at once",
                "no box was free in time");
        refuse_all(k, &e);
        return;
    }
    k->overdue = k->busy;
    release(k, k->busy ? END_WALL : END_DONE);
}

static void look_at_next(struct checker *k)
{
    struct check *c = TAILQ_FIRST(&k->waiting);
    leave(c);
    c->checker = k;
    k->now = c;
    k->source = TAKE_PTR(c->source);
    k->meta = TAKE_PTR(c->meta);
    k->length = c->length;
    k->busy = true;
    k->all->gate->checking++;
    k->uses++;
    k->begin_us = clock_us();
    struct frame_run head = {.meta_length = (uint32_t)c->meta_length,
                             .code_length = (uint32_t)c->length};
    struct frame_piece pieces[] = {
        {&head, sizeof head}, {k->meta, c->meta_length}, {k->source, c->length}};
    if (!set_timer(k, CHECK_WALL_MS) || live_send(k->box, FRAME_RUN, pieces, 3, false) < 0)
        release(k, END_CANCELLED);
}

static void on_box(struct link_request *o, const struct wire_box *m, const int *fds)
{
    struct checker *k = (struct checker *)((char *)o - offsetof(struct checker, box_request));
    struct gate *g = k->all->gate;
    struct wire_limits limits = keeper_limits(g->facts->config);
    limits.isolation = ISOLATION_NATIVE;
    struct err e = {0};
    if (fds)
        k->box = live_new(g, m->box, &limits, false, fds[0]);
    if (k->box) {
        k->box->direct = true;
        link_hold(&g->link, k->box);
        live_listen(k->box, &user, k);
        timer_stop(&k->timer);
        go_on(k);
        return;
    }
    if (fds) {
        link_give_back(&g->link, m->box);
        err_memory(&e);
    } else {
        err_set(&e, (enum err_code)m->error_code, 0, m->hint, "%s", m->error);
    }
    refuse_all(k, &e);
}

// Starts the checker's next step; frees a checker with no box and no work.
static void go_on(struct checker *k)
{
    struct gate *g = k->all->gate;
    struct check *c;
    if (k->busy || k->releasing || k->ending || k->box_request.ticket)
        return;
    if (k->box) {
        if (k->count)
            look_at_next(k);
        else
            (void)set_timer(k, CHECK_IDLE_MS);
        return;
    }
    struct wire_acquire m = {.cpu_ms = CPU_MS, .limits = keeper_limits(g->facts->config)};
    m.limits.isolation = ISOLATION_NATIVE; // it runs no code of a caller
    struct err e;
    k->box_request.on_box = on_box;
    while ((c = TAILQ_FIRST(&k->waiting)) && link_acquire(&g->link, &k->box_request, &m, &e) < 0) {
        c->error = e;
        leave(c);
        if (!finish_soon(c))
            finish(c, NULL);
    }
    if (k->box_request.ticket)
        (void)set_timer(k, BOX_WAIT_MS);
    else
        checker_free(k);
}

// ---- the beginning ------------------------------------------------------------------------------

static struct checks *checks_of(struct gate *g)
{
    if (g->checks)
        return g->checks;
    struct checks *all = calloc(1, sizeof *all);
    if (all)
        *all = (struct checks){.gate = g, .cache = check_cache_new()};
    if (!all || !all->cache) {
        free(all);
        return NULL;
    }
    TAILQ_INIT(&all->checkers);
    static const struct gate_part part = {.close = checks_close};
    gate_attach(g, &part);
    return g->checks = all;
}

void checks_close(struct gate *g)
{
    struct checks *all = TAKE_PTR(g->checks);
    if (!all)
        return;
    for (struct checker *k; (k = TAILQ_FIRST(&all->checkers));) {
        for (struct check *c; (c = TAILQ_FIRST(&k->waiting));)
            leave(c);
        if (k->now)
            leave(k->now);
        checker_free(k);
    }
    check_cache_free(all->cache);
    free(all);
}

// At the cap, frees the checker that has been idle longest.
static bool make_room(struct checks *all)
{
    struct checker *k;
    if (all->count < CHECK_BOXES_MAX)
        return true;
    TAILQ_FOREACH (k, &all->checkers, list)
        if (k->box && !k->busy && !k->count && !k->releasing && !k->ending) {
            (void)link_release(&all->gate->link, k->box->id, END_DONE, false);
            checker_free(k);
            return true;
        }
    return false;
}

static struct checker *checker_of(struct checks *all, const char *owner, struct err *e)
{
    struct checker *k;
    TAILQ_FOREACH (k, &all->checkers, list)
        if (strcmp(k->owner, owner) == 0)
            break;
    if (k) {
        TAILQ_REMOVE(&all->checkers, k, list);
        TAILQ_INSERT_TAIL(&all->checkers, k, list);
        return k;
    }
    if (!make_room(all)) {
        err_set(e, ERR_BUSY, 0, "try again in a moment", "all %d boxes that check code are busy",
                CHECK_BOXES_MAX);
        return NULL;
    }
    k = calloc(1, sizeof *k);
    if (!k) {
        err_memory(e);
        return NULL;
    }
    k->all = all;
    snprintf(k->owner, sizeof k->owner, "%s", owner);
    TAILQ_INIT(&k->waiting);
    TAILQ_INSERT_TAIL(&all->checkers, k, list);
    all->count++;
    return k;
}

static int is_room(struct checks *all, const struct checker *k, struct check *c)
{
    if ((!k || k->count < CHECK_QUEUE_MAX) && all->waiting_bytes + c->length <= CHECK_WAITING_MAX)
        return 0;
    return err_set(&c->error, ERR_BUSY, 0, "try again in a moment",
                   "too much code is waiting to be checked");
}

static int enqueue(struct checks *all, struct check *c)
{
    struct checker *k = checker_of(all, c->owner, &c->error);
    if (!k || is_room(all, k, c) < 0)
        return -1;
    TAILQ_INSERT_TAIL(&k->waiting, c, list);
    c->checker = k;
    k->count++;
    all->waiting_bytes += c->length;
    go_on(k);
    return 0;
}

static int make_meta(struct check *c)
{
    json_t *transformer = restricted_package_path(c->gate, c->policy);
    json_t *meta = json_pack("{s:s, s:s, s:O, s:b, s:o*, s:o*}", "mode", "session", "op", "check",
                             "policy", c->policy, "lint", c->lint, "transformer", transformer,
                             "from_file", c->from_file ? json_true() : NULL);
    c->meta = meta ? json_dumps(meta, JSON_COMPACT) : NULL;
    json_decref(meta);
    if (!c->meta)
        return -1;
    c->meta_length = strlen(c->meta);
    // SECURITY: the key has the owner, so that a hostile answer never reaches another owner.
    const char *const parts[] = {c->owner, c->meta, c->source};
    const size_t lengths[] = {strlen(c->owner), c->meta_length, c->length};
    return check_cache_key(parts, lengths, ARRAY_LEN(parts), c->key);
}

// True: it waits for a box; false: there is an answer, or c->error, or memory is out.
static bool begin(struct check *c)
{
    struct checks *all = c->gate->checks;
    if (make_meta(c) < 0)
        return false;
    c->answer = json_incref(check_cache_get(all->cache, c->key, clock_ms()));
    return !c->answer && enqueue(all, c) == 0;
}

static void on_policy(const struct err *e, void *argument)
{
    struct check *c = argument;
    stop_waiting(c);
    if (e)
        c->error = *e;
    if (e || !begin(c))
        finish(c, TAKE_PTR(c->answer));
}

// A question about the policy itself (`tier_modules`) needs no package and does not wait.
static bool awaits_policy(struct gate *g, const json_t *policy)
{
    const char *mode = json_string_value(json_object_get(policy, "mode"));
    return mode && strcmp(mode, code_mode_names[CODE_RESTRICTED]) == 0 &&
           !json_is_true(json_object_get(policy, "tier_modules")) &&
           restricted_package_is_awaited(g, mode);
}

static bool wait_for_policy(struct checks *all, struct check *c)
{
    if (is_room(all, NULL, c) < 0)
        return finish_soon(c);
    c->wait = restricted_package_wait(c->gate, on_policy, c);
    if (c->wait)
        all->waiting_bytes += c->length;
    return c->wait != NULL;
}

struct check *check_start(struct gate *g, const struct check_request *q)
{
    struct checks *all = checks_of(g);
    struct check *c = all ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    *c = (struct check){.gate = g,
                        .on_done = q->on_done,
                        .argument = q->argument,
                        .policy = json_incref(q->policy),
                        .lint = q->lint,
                        .from_file = q->from_file,
                        .source = malloc(q->length + 1),
                        .length = q->length};
    if (!c->source) {
        check_free(c);
        return NULL;
    }
    memcpy(c->source, q->source, q->length);
    c->source[q->length] = '\0';
    snprintf(c->owner, sizeof c->owner, "%s", q->owner);
    if (awaits_policy(g, c->policy) ? wait_for_policy(all, c) : begin(c) || finish_soon(c))
        return c;
    check_free(c);
    return NULL;
}
