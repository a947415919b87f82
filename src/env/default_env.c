// SPDX-License-Identifier: Apache-2.0
//
// default_env: see default_env.h.

#include "env/default_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "config/code_policy.h"
#include "env/env_jobs.h"
#include "env/env_text.h"
#include "env/env_words.h"
#include "env/warm_boxes.h"
#include "keeper/interp.h"

static const char operator_[] = ""; // the owner without a key, as of `constrictor env`

enum { TELL_EVERY_MS = 5000 };

// What models import for data analysis.  All have wheels for every Python that is supported.
static const char *const packages[] = {
    "numpy",          "pandas",   "matplotlib", "scipy",    "scikit-learn", "seaborn",
    "statsmodels",    "sympy",    "plotly",     "pillow",   "lxml",         "openpyxl",
    "beautifulsoup4", "requests", "pyyaml",     "networkx", "tabulate",     "xlsxwriter"};
static const char *const modules[] = {"numpy", "pandas", "matplotlib.pyplot"};

static json_t *list_of(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_string(texts[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *data_env_packages(void)
{
    return list_of(packages, ARRAY_LEN(packages));
}

json_t *data_env_modules(void)
{
    return list_of(modules, ARRAY_LEN(modules));
}

// ---- for others ---------------------------------------------------------------------------------

bool default_env_serves(const struct envs *v, const char *name)
{
    return v->default_env[0] && strcmp(name, ENV_BASE) == 0;
}

int default_env_get(struct envs *v, const char *owner, const char *name, struct env_row *ret,
                    struct err *e)
{
    int r = env_db_get(v->db, owner, name, ret, e);
    if (r != 0 || !default_env_serves(v, name))
        return r;
    r = env_db_get(v->db, operator_, v->default_env, ret, e);
    if (r > 0 && !envs_fits_python(v, ret)) {
        env_row_clear(ret); // it is filled again
        *ret = (struct env_row){0};
        r = 0;
    }
    return r;
}

// ---- filling it ---------------------------------------------------------------------------------

static void on_progress(struct env_job *j, const json_t *status, void *argument)
{
    struct envs *v = argument;
    int64_t now_ms = clock_ms();
    (void)j;
    if (now_ms - v->told_ms < TELL_EVERY_MS)
        return;
    v->told_ms = now_ms;
    log_line(LOG_WARN, "environment '%s': %.0f %%, %s", v->default_env,
             100 * json_number_value(json_object_get(status, "progress")),
             json_string_value(json_object_get(status, "state")));
}

static void on_done(struct env_job *j, const json_t *status, void *argument)
{
    struct envs *v = argument;
    const json_t *error = json_object_get(status, "error");
    const char *message = json_string_value(json_object_get(error, "message")),
               *code = json_string_value(json_object_get(error, "code")),
               *hint = json_string_value(json_object_get(error, "hint"));
    (void)j;
    v->filling = NULL;
    if (env_status_is_ready(status)) {
        log_line(LOG_WARN, "environment '%s' is ready after %.0f s: %zu packages", v->default_env,
                 json_number_value(json_object_get(status, "elapsed_seconds")),
                 json_array_size(json_object_get(status, "added")));
        warm_boxes_expect(v->gate, operator_, ENV_BASE);
        return;
    }
    log_line(LOG_ERROR,
             "environment '%s' could not be filled, and code runs without its packages: %s [%s]",
             v->default_env, message ? message : "it failed", code ? code : "internal");
    log_line(LOG_ERROR, "hint: %s; then start the server again",
             hint ? hint
                  : "see --index-url and --find-links for other sources of packages, or import an "
                    "environment that another machine exported: 'constrictor env import'");
}

static int fill(struct envs *v, struct err *e)
{
    json_t *list = data_env_packages();
    struct env_job_plan plan = {.change = ENV_INSTALL,
                                .owner = operator_,
                                .name = v->default_env,
                                .create = true,
                                .requirements = list,
                                .on_progress = on_progress,
                                .on_done = on_done,
                                .argument = v};
    v->filling = list ? envs_change(v->gate, &plan, e) : NULL;
    json_decref(list);
    if (!v->filling)
        return -1;
    log_line(LOG_WARN,
             "environment '%s': its %zu packages are being installed, once; code runs meanwhile",
             v->default_env, ARRAY_LEN(packages));
    return 0;
}

// The environment that the configuration names.  The tier data_science means `data`, unless the
// operator chose an interpreter with packages of its own.
static const char *named(const struct gate *g)
{
    const struct config *c = g->facts->config;
    const struct interp *interp = g->facts->interp;
    bool has_own = c->host_packages || (interp && interp->keeps_packages);
    if (c->environment[0])
        return c->environment;
    return !has_own && code_policy_has_tier(c, "data_science") ? ENV_DATA : "";
}

void default_env_begin(struct gate *g)
{
    struct envs *v = g->envs;
    struct env_row row = {0};
    struct err e;
    const char *name = named(g);
    if (!v || !v->db || !name[0] || strcmp(name, ENV_BASE) == 0)
        return;
    if (env_check_name(name, &e) < 0) {
        (void)err_wrap(&e, "--environment");
        log_err(LOG_ERROR, &e);
        return;
    }
    snprintf(v->default_env, sizeof v->default_env, "%s", name);
    if (strcmp(name, ENV_DATA) == 0 && g->facts->config->memory_bytes < CONFIG_DATA_MEMORY)
        log_line(LOG_WARN,
                 "a run has %llu MiB of memory; scikit-learn, seaborn or statsmodels need about "
                 "%llu MiB: set --memory",
                 (unsigned long long)(g->facts->config->memory_bytes / TEXT_MIB),
                 (unsigned long long)(CONFIG_DATA_MEMORY / TEXT_MIB));
    int r = env_db_get(v->db, operator_, name, &row, &e);
    bool is_filled = r > 0 && json_array_size(row.lock) && envs_fits_python(v, &row);
    env_row_clear(&row);
    if (is_filled)
        warm_boxes_expect(g, operator_, ENV_BASE);
    else if (r >= 0 && strcmp(name, ENV_DATA) == 0)
        r = fill(v, &e);
    else if (r >= 0)
        log_line(LOG_WARN,
                 "--environment: there is no environment '%s' with packages for this Python; "
                 "'constrictor env create %s PACKAGES' makes it",
                 name, name);
    if (r < 0)
        log_err(LOG_ERROR, &e);
}

void default_env_close(struct envs *v)
{
    if (v->filling)
        env_job_forget(v->filling);
    v->filling = NULL;
}
