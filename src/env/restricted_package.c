// SPDX-License-Identifier: Apache-2.0
//
// restricted_package: see restricted_package.h.  Called by exec_packages.c, exec.c, check.c and
// gate.c.
//
//   restricted_package_wait() -> wait for the zygote's report -> the interpreter has the package?
//   else envs_need() -> all on_ready

#include "env/restricted_package.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/timer.h"
#include "config/code_policy.h"
#include "env/envs.h"
#include "run/gate.h"

// SECURITY: versions of RestrictedPython before 8 allow `except*`, which escapes the restrictions.
static const struct {
    enum code_mode mode;
    const char *requirement;
} needs[] = {{CODE_RESTRICTED, "RestrictedPython>=8"}};

enum { RETRY_MS = 5000 }; // after a failure, before the next try; until then the error is repeated

TAILQ_HEAD(policy_waits, policy_wait);

struct policy_wait {
    struct policy_waits *in; // NULL: after restricted_package_close()
    policy_ready on_ready;
    void *argument;
    TAILQ_ENTRY(policy_wait) list;
};

struct restricted_package {
    struct gate *gate;
    struct policy_waits waits, told; // `told`: those that tell_all() calls now
    struct timer soon;
    struct env_wait *install; // NULL: nothing is installed
    bool ahead;               // install it even if nothing waits
    bool asked, has_own;      // the interpreter has the package; `asked`: that is known
    json_t *path;             // NULL: not installed
    struct err error;
    int64_t failed_ms; // when the installation failed; 0: it did not
};

// ---- what is known ------------------------------------------------------------------------------

static bool ask_interpreter(struct restricted_package *p)
{
    if (p->asked)
        return p->has_own;
    json_auto_t *report = json_loads(p->gate->facts->zygote_report, 0, NULL);
    p->asked = true;
    p->has_own = json_is_true(json_object_get(report, "transformer"));
    return p->has_own;
}

static struct restricted_package *package_of(struct gate *g)
{
    if (g->restricted_package)
        return g->restricted_package;
    struct restricted_package *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->gate = g;
    TAILQ_INIT(&p->waits);
    TAILQ_INIT(&p->told);
    static const struct gate_part part = {.on_state = restricted_package_on_state,
                                          .close = restricted_package_close};
    gate_attach(g, &part);
    return g->restricted_package = p;
}

// Nothing to wait for: the package is there, or cannot be installed (then the box reports that).
static bool is_settled(struct restricted_package *p)
{
    const struct gate *g = p->gate;
    if (!g->envs || g->facts->state == KEEPER_FAILED)
        return true;
    return g->facts->state == KEEPER_READY && (ask_interpreter(p) || p->path);
}

bool restricted_package_is_awaited(struct gate *g, const char *mode)
{
    const char *restricted = code_mode_names[CODE_RESTRICTED];
    if (code_policy_mode(g->facts->config) != CODE_RESTRICTED &&
        (!mode || strcmp(mode, restricted) != 0))
        return false;
    struct restricted_package *p = g->envs ? package_of(g) : NULL;
    return g->envs && (!p || !is_settled(p));
}

json_t *restricted_package_path(struct gate *g, const json_t *policy)
{
    const char *mode = json_string_value(json_object_get(policy, "mode"));
    struct restricted_package *p = g->restricted_package;
    if (!p || !p->path || !mode || strcmp(mode, code_mode_names[CODE_RESTRICTED]) != 0 ||
        ask_interpreter(p))
        return NULL;
    return json_incref(p->path);
}

// ---- the installation ---------------------------------------------------------------------------

// on_ready may cancel other waits, and may start new ones, which on_soon() serves.
static void tell_all(struct restricted_package *p, const struct err *error)
{
    struct err e = error ? *error : (struct err){0};
    struct policy_wait *w;
    p->ahead = false;
    TAILQ_CONCAT(&p->told, &p->waits, list);
    TAILQ_FOREACH (w, &p->told, list)
        w->in = &p->told;
    while ((w = TAILQ_FIRST(&p->told))) {
        struct policy_wait done = *w;
        restricted_package_cancel(w);
        done.on_ready(error ? &e : NULL, done.argument);
    }
}

static void explain(const struct restricted_package *p, const struct err *why, struct err *ret)
{
    const struct interp *interp = p->gate->facts->interp;
    char python[160];
    snprintf(python, sizeof python, "%s",
             interp && interp->executable[0] ? interp->executable : "python");
    text_sanitize(python);
    (void)err_set(
        ret, ERR_RESTRICTED, 0, "",
        "nothing runs: the policy 'restricted' needs RestrictedPython, which the interpreter %s "
        "does not have and the server cannot install: %.400s",
        python, why->message);
    err_hint(
        ret,
        "install it into the interpreter (%s -m pip install RestrictedPython), or let the server "
        "have it from an index (--index-url, --find-links)%s%.160s",
        python, why->hint[0] ? "; " : "", why->hint);
}

static void failed(struct restricted_package *p, const struct err *why)
{
    explain(p, why, &p->error);
    p->failed_ms = clock_ms();
    log_err(LOG_WARN, &p->error);
    tell_all(p, &p->error);
}

static void on_installed(const char *name, const struct err *e, void *argument)
{
    struct restricted_package *p = argument;
    struct err why;
    p->install = NULL;
    if (!name) {
        failed(p, e);
        return;
    }
    int r = envs_path(p->gate, POLICY_OWNER, name, &p->path, &why);
    if (r == 0 && !p->path)
        r = err_set(&why, ERR_INTERNAL, 0, NULL, "its environment is empty");
    if (r < 0) {
        failed(p, &why);
        return;
    }
    p->failed_ms = 0;
    tell_all(p, NULL);
}

static void install(struct restricted_package *p)
{
    json_auto_t *list = json_array();
    struct err e;
    for (size_t i = 0; list && i < ARRAY_LEN(needs); i++)
        (void)json_array_append_new(list, json_string(needs[i].requirement));
    if (json_array_size(list) == ARRAY_LEN(needs))
        p->install = envs_need(p->gate, POLICY_OWNER, list, on_installed, p);
    if (p->install)
        return;
    (void)err_memory(&e);
    failed(p, &e);
}

// The next step for those that wait.
static void on_soon(void *argument)
{
    struct restricted_package *p = argument;
    if ((TAILQ_EMPTY(&p->waits) && !p->ahead) || p->install)
        return;
    if (is_settled(p))
        tell_all(p, NULL);
    else if (p->gate->facts->state != KEEPER_READY)
        return; // restricted_package_on_state()
    else if (p->failed_ms && clock_ms() - p->failed_ms < RETRY_MS)
        tell_all(p, &p->error);
    else
        install(p);
}

static bool go_on_soon(struct restricted_package *p)
{
    return timer_set(&p->soon, p->gate->base, 0, on_soon, p);
}

// ---- for others ---------------------------------------------------------------------------------

struct policy_wait *restricted_package_wait(struct gate *g, policy_ready on_ready, void *argument)
{
    struct restricted_package *p = package_of(g);
    struct policy_wait *w = p ? malloc(sizeof *w) : NULL;
    if (!w || !go_on_soon(p)) {
        free(w);
        return NULL;
    }
    *w = (struct policy_wait){.in = &p->waits, .on_ready = on_ready, .argument = argument};
    TAILQ_INSERT_TAIL(&p->waits, w, list);
    return w;
}

void restricted_package_cancel(struct policy_wait *w)
{
    if (w->in)
        TAILQ_REMOVE(w->in, w, list);
    free(w);
}

void restricted_package_begin(struct gate *g)
{
    struct restricted_package *p = g->envs ? package_of(g) : NULL;
    if (!p)
        return;
    p->ahead = true;
    if (!go_on_soon(p))
        log_line(LOG_WARN, "out of memory: RestrictedPython is not installed ahead");
}

void restricted_package_on_state(struct gate *g)
{
    struct restricted_package *p = g->restricted_package;
    if (!p)
        return;
    p->asked = false; // another interpreter's report, perhaps
    if (!go_on_soon(p))
        log_line(LOG_ERROR, "out of memory: runs that wait for RestrictedPython do not start");
}

void restricted_package_close(struct gate *g)
{
    struct restricted_package *p = TAKE_PTR(g->restricted_package);
    struct policy_wait *w;
    if (!p)
        return;
    TAILQ_CONCAT(&p->waits, &p->told, list);
    TAILQ_FOREACH (w, &p->waits, list)
        w->in = NULL; // its owner cancels, and so frees it
    if (p->install)
        envs_need_cancel(p->install);
    timer_stop(&p->soon);
    json_decref(p->path);
    free(p);
}
