// SPDX-License-Identifier: Apache-2.0
//
// packages: see packages.h.  SECURITY: the code in the box is ours, but its output is hostile, as
// of any box: names and versions are bounded and cleaned, and at most PACKAGES_BASE_MAX are taken.

#include "env/packages.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/timer.h"
#include "env/envs.h"
#include "keeper/keeper.h"
#include "run/gate.h"
#include "run/run.h"
#include "json/whole.h"

enum {
    BASE_FRESH_MS = 5 * 60 * 1000, // for which the interpreter's list is cached
    BASE_WALL_MS = 20000,
    BASE_OUTPUT_MAX = 1 << 20,
    NAME_MAX_SHOWN = 128,
};

struct packages {
    struct gate *gate;
    char environment[ENV_NAME_MAX + 1];
    json_t *own; // of envs_describe(); NULL: no environments
    struct run *run;
    struct timer soon;
    packages_done on_done;
    void *argument;
};

// The interpreter's packages, cached; a process has one gate.
static struct {
    const struct gate *gate;
    json_t *list;
    int64_t until_ms;
} base;

static const char base_code[] =
    "import importlib.metadata, json\n"
    "found = {}\n"
    "for item in importlib.metadata.distributions():\n"
    "    try:\n"
    "        name, version = item.metadata['Name'], item.version\n"
    "    except Exception:\n"
    "        continue\n"
    "    if name and version:\n"
    "        found.setdefault(name, version)\n"
    "print(json.dumps(sorted(found.items(), key=lambda item: item[0].lower())[:4000]))\n";

void packages_normal_name(const char *name, char *buf, size_t cap)
{
    size_t at = 0;
    for (bool gap = false; *name && at + 1 < cap; name++) {
        if (strchr("-_.", *name)) {
            gap = at > 0;
            continue;
        }
        if (gap && at + 2 < cap)
            buf[at++] = '-';
        gap = false;
        buf[at++] = (char)tolower((unsigned char)*name);
    }
    buf[at] = '\0';
}

json_t *packages_set(struct gate *g, const json_t *text_or_list, struct err *e)
{
    json_t *list = envs_requirements(text_or_list, e);
    if (!list || g->envs)
        return list;
    json_decref(list);
    err_set(e, ERR_STATE_FOLDER, 0, "start the server with --state and a folder that it can use",
            "packages cannot be installed here: there is no state folder");
    return NULL;
}

// ---- the answer ---------------------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    const char *x = json_string_value(json_object_get(*(json_t *const *)a, "name"));
    const char *y = json_string_value(json_object_get(*(json_t *const *)b, "name"));
    return strcasecmp(x ? x : "", y ? y : "");
}

static json_t *sorted(json_t *list)
{
    size_t count = json_array_size(list), i;
    json_t *item, *out = json_array();
    _cleanup_free_ json_t **items = calloc(count + 1, sizeof *items);
    int failed = !items || !out;
    if (!failed) {
        json_array_foreach (list, i, item)
            items[i] = item;
        qsort(items, count, sizeof *items, compare);
        for (i = 0; i < count; i++)
            failed |= json_array_append(out, items[i]);
    }
    json_decref(list);
    return json_whole(out, failed);
}

static int add(json_t *list, json_t *seen, json_t *item, bool is_base)
{
    const char *name = json_string_value(json_object_get(item, "name"));
    char normal[NAME_MAX_SHOWN + 1];
    if (!name)
        return 0;
    packages_normal_name(name, normal, sizeof normal);
    if (json_object_get(seen, normal))
        return 0; // the environment's package hides the interpreter's
    return json_object_set_new(seen, normal, json_true()) |
           json_array_append_new(
               list, json_pack("{s:O, s:O, s:b}", "name", json_object_get(item, "name"), "version",
                               json_object_get(item, "version"), "base", is_base));
}

static json_t *make_answer(const struct packages *p)
{
    json_t *list = json_array(), *seen = json_object(), *item;
    const struct interp *interp = p->gate->facts->interp;
    int failed = !list || !seen;
    size_t i;
    json_array_foreach (json_object_get(p->own, "lock"), i, item)
        failed |= add(list, seen, item, false);
    json_array_foreach (base.list, i, item)
        failed |= add(list, seen, item, true);
    json_decref(seen);
    if (failed) {
        json_decref(list);
        return NULL;
    }
    list = sorted(list);
    return json_pack("{s:s, s:s, s:o, s:I}", "environment", p->environment, "python",
                     interp ? interp->version : "", "packages", list, "count",
                     (json_int_t)json_array_size(list));
}

static void finish(struct packages *p, const struct err *why)
{
    struct err e;
    json_auto_t *answer = why ? NULL : make_answer(p);
    packages_done on_done = p->on_done;
    void *argument = p->argument;
    if (!why && !answer)
        err_memory(&e);
    else if (why)
        e = *why;
    packages_cancel(p);
    on_done(answer, answer ? NULL : &e, argument);
}

// ---- what the interpreter has -------------------------------------------------------------------

static json_t *clean_text(json_t *value)
{
    char text[NAME_MAX_SHOWN + 1];
    const char *s = json_string_value(value);
    if (!s || !s[0])
        return NULL;
    snprintf(text, sizeof text, "%s", s);
    text_sanitize(text);
    return json_string(text);
}

// [["name", "version"], ...] as a list of objects, new; NULL: it is not that.
static json_t *read_base(const char *data, size_t length)
{
    json_t *raw = json_loadb(data, length, 0, NULL), *list = json_array(), *pair;
    size_t i;
    int failed = !json_is_array(raw) || !list || json_array_size(raw) > PACKAGES_BASE_MAX;
    json_array_foreach (raw, i, pair) {
        json_t *name = clean_text(json_array_get(pair, 0)),
               *version = clean_text(json_array_get(pair, 1));
        if (failed || !name || !version) {
            json_decref(name);
            json_decref(version);
            continue;
        }
        failed |=
            json_array_append_new(list, json_pack("{s:o, s:o}", "name", name, "version", version));
    }
    json_decref(raw);
    return json_whole(list, failed);
}

static void on_run(struct run *r)
{
    struct packages *p = r->request.argument;
    struct evbuffer *out = r->output[RUN_STDOUT];
    size_t length = evbuffer_get_length(out);
    const char *data = length ? (const char *)evbuffer_pullup(out, -1) : NULL;
    json_t *list = data && !r->error.message[0] ? read_base(data, length) : NULL;
    struct err e = r->error;
    if (list) {
        json_decref(base.list);
        base.list = list;
        base.gate = p->gate;
        base.until_ms = clock_ms() + BASE_FRESH_MS;
    } else if (!e.message[0]) {
        err_set(&e, ERR_INTERPRETER, 0,
                "'constrictor run -c \"import importlib.metadata\"' may say why",
                "the interpreter did not list its packages");
    }
    finish(p, list ? NULL : &e);
}

static void on_soon(void *argument)
{
    finish(argument, NULL);
}

static int start(struct packages *p)
{
    struct run_request request = {.code = base_code,
                                  .code_length = sizeof base_code - 1,
                                  .meta = "",
                                  .limits = keeper_limits(p->gate->facts->config),
                                  .wall_ms = BASE_WALL_MS,
                                  .cpu_ms = BASE_WALL_MS,
                                  .output_bytes = BASE_OUTPUT_MAX,
                                  .on_done = on_run,
                                  .argument = p};
    if (base.list && base.gate == p->gate && base.until_ms > clock_ms())
        return timer_set(&p->soon, p->gate->base, 0, on_soon, p) ? 0 : -1;
    p->run = run_start(p->gate, &request);
    return p->run ? 0 : -1;
}

// ---- asking -------------------------------------------------------------------------------------

struct packages *packages_ask(struct gate *g, const char *owner, const char *environment,
                              packages_done on_done, void *argument, struct err *e)
{
    json_t *own = envs_describe(g, owner, environment, e);
    if (!own && strcmp(environment, ENV_BASE) != 0)
        return NULL; // base is listed even without environments
    struct packages *p = calloc(1, sizeof *p);
    if (p) {
        *p = (struct packages){.gate = g, .own = own, .on_done = on_done, .argument = argument};
        snprintf(p->environment, sizeof p->environment, "%s", environment);
    } else {
        json_decref(own);
    }
    if (p && start(p) == 0)
        return p;
    packages_cancel(p);
    err_memory(e);
    return NULL;
}

void packages_cancel(struct packages *p)
{
    if (!p)
        return;
    if (p->run && p->run->state == RUN_DONE) {
        run_free(p->run);
    } else if (p->run) {
        p->run->request.on_done = run_free;
        run_cancel(p->run);
    }
    timer_stop(&p->soon);
    json_decref(p->own);
    free(p);
}
