// SPDX-License-Identifier: Apache-2.0
//
// envs: see envs.h: listing, describing, creating and deleting environments, and their folders for
// runs.  env_job.c has the jobs.

#include "env/envs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "env/env_jobs.h"
#include "env/env_text.h"
#include "env/warm_boxes.h"
#include "files/dbfolder.h"
#include "run/import_names.h"

enum { USED_EVERY_MS = 60000, PATHS_MAX = 10000, SHOWN_MAX = 20, JOBS_SHOWN = 10, LEFT_MAX = 4096 };

#define WHEELS "/opt/wheels/"

int64_t env_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int env_no_memory(struct err *e)
{
    return err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
}

void env_forget_paths(struct envs *v)
{
    (void)json_object_clear(v->paths);
    warm_boxes_changed(v->gate);
}

// ---- opening and closing ------------------------------------------------------------------------

void env_end_left_jobs(struct envs *v, bool own_too)
{
    json_t *left = env_db_jobs(v->db, NULL, NULL, LEFT_MAX), *item;
    size_t i;
    json_array_foreach (left, i, item) {
        json_t *status = json_object_get(item, "status");
        unsigned server = (unsigned)json_integer_value(json_object_get(item, "server"));
        if (server == v->share.number ? !own_too : env_share_is_alive(&v->share, server))
            continue;
        (void)json_object_set_new(status, "state", json_string("failed"));
        (void)json_object_set_new(
            status, "error",
            json_pack("{s:s, s:s, s:n, s:n, s:s}", "code", "interrupted", "message",
                      "the server ended before the job was done; the environment is unchanged",
                      "requirement", "resolver_says", "hint", "start it again"));
        (void)env_db_put_job(v->db, json_string_value(json_object_get(item, "id")),
                             json_string_value(json_object_get(item, "owner")),
                             json_string_value(json_object_get(item, "name")), server, true, status,
                             env_now_ms(), NULL);
    }
    json_decref(left);
}

static int open_db(struct envs *v, struct err *e)
{
    const struct keeper_facts *f = v->gate->facts;
    struct err damage;
    if (!f->environments)
        return err_set(e, ERR_STATE_FOLDER, 0,
                       "use 'serve' or 'stdio' with a state folder that can be written (--state)",
                       "there are no environments, because there is no state folder");
    if (f->environments->folder < 0 || f->environments_rows < 0) {
        *e = f->environments->error;
        return -1;
    }
    if (dbfolder_use(f->state_folder, e) < 0)
        return -1;
    (void)umask(0007); // as root, other servers write the rows by their group
    dbfolder_also(ENV_DB_PREFIX, f->environments_rows);
    if (env_share_open(&v->share, f->environments_rows, f->environments->number, e) < 0)
        return -1;
    v->db = env_db_open(f->environments_rows, !env_share_is_alone(&v->share), &damage, e);
    if (damage.message[0])
        log_line(LOG_ERROR, "the list of environments was damaged; a new one is started: %s",
                 damage.message);
    if (v->db) {
        (void)env_db_put_server(v->db, v->share.number,
                                0); // env_tidy.c, later: adopted sessions are old
        env_end_left_jobs(v, true);
        env_share_opened(&v->share);
    } else {
        env_share_close(&v->share);
    }
    return v->db ? 0 : -1;
}

// Reports the operator's mistakes at the start, not with the first installation.
static int check_constraints(const struct config *c, struct err *e)
{
    json_auto_t *list = json_array();
    for (size_t i = 0; i < c->constraints.count; i++)
        (void)json_array_append_new(list, json_string(c->constraints.items[i]));
    json_auto_t *checked = json_array_size(list) ? envs_requirements(list, e) : json_incref(list);
    return !checked ? err_wrap(e, "--constraint") : 0;
}

int envs_open(struct gate *g, const struct env_installer *installer, struct err *e)
{
    struct envs *v = calloc(1, sizeof *v);
    if (!v || !(v->paths = json_object())) {
        free(v);
        return env_no_memory(e);
    }
    v->gate = g;
    v->installer = installer;
    v->share.fd = -1;
    static const struct gate_part porter = {.on_porter_link = env_porter_link,
                                            .close = env_porter_close};
    gate_attach(g, &porter);
    TAILQ_INIT(&v->jobs);
    g->envs = v;
    int r = open_db(v, &v->error);
    if (r < 0) {
        *e = v->error;
        return r;
    }
    env_allow_urls(&g->facts->config->allow_urls);
    if (check_constraints(g->facts->config, e) < 0) {
        v->error = *e;
        env_db_close(TAKE_PTR(v->db));
        env_share_close(&v->share);
        return -1;
    }
    env_tidy_open(v);
    warm_boxes_open(g);
    return 0;
}

void envs_close(struct gate *g)
{
    warm_boxes_close(g); // stores what it has learned, in the database
    struct envs *v = TAKE_PTR(g->envs);
    if (!v)
        return;
    env_tidy_close(v);
    default_env_close(v);
    while (!TAILQ_EMPTY(&v->jobs))
        env_job_free(TAILQ_FIRST(&v->jobs));
    v->installer->close(v);
    timer_stop(&v->soon);
    json_decref(v->index);
    json_decref(v->paths);
    env_db_close(v->db);
    env_share_close(&v->share); // last: the locks end with it
    free(v);
}

static struct envs *usable(struct gate *g, struct err *e)
{
    struct envs *v = g->envs;
    if (!v)
        (void)err_set(e, ERR_STATE_FOLDER, 0, NULL,
                      "there are no environments, because there is no state folder");
    else if (!v->db)
        *e = v->error;
    return v && v->db ? v : NULL;
}

// ---- for runs -----------------------------------------------------------------------------------

static const char *python_of(const struct gate *g)
{
    return g->facts->interp ? g->facts->interp->version : "";
}

// "3.11.4" and "3.11.9" can use the same packages.
static bool same_python(const char *a, const char *b)
{
    size_t n = 0;
    for (unsigned dots = 0; a[n] && (a[n] != '.' || ++dots < 2); n++)
        ;
    return strncmp(a, b, n) == 0 && (b[n] == '\0' || b[n] == '.');
}

bool envs_fits_python(const struct envs *v, const struct env_row *row)
{
    const char *own = python_of(v->gate);
    return !row->python[0] || !own[0] || !json_array_size(row->lock) ||
           same_python(row->python, own);
}

static int unknown(struct envs *v, const char *owner, const char *name, struct err *e)
{
    char names[ERR_HINT_MAX - 64] = ENV_BASE;
    json_t *list = env_db_list(v->db, owner, NULL), *item;
    size_t i, at = strlen(names), shown = 0;
    json_array_foreach (list, i, item) {
        const char *one = json_string_value(json_object_get(item, "name"));
        if (!one || strcmp(one, ENV_BASE) == 0 || strncmp(one, ENV_SET_PREFIX, 4) == 0 ||
            shown++ >= SHOWN_MAX || at + strlen(one) + 3 >= sizeof names)
            continue;
        at += (size_t)snprintf(names + at, sizeof names - at, ", %s", one);
    }
    json_decref(list);
    int r = err_set(e, ERR_ENV_UNKNOWN, 0, "", "there is no environment '%s'", name);
    err_hint(e, "create it first, or use one of: %s", names);
    return r;
}

static json_t *path_of(const struct env_row *row)
{
    char text[sizeof WHEELS + ENV_WHEEL_ID];
    json_t *path = json_array(), *item;
    size_t i;
    json_array_foreach (row->lock, i, item) {
        const char *id = json_string_value(json_object_get(item, "wheel"));
        if (!path || !id || strlen(id) != ENV_WHEEL_ID ||
            strspn(id, "0123456789abcdef") != ENV_WHEEL_ID)
            continue;
        snprintf(text, sizeof text, WHEELS "%s", id);
        (void)json_array_append_new(path, json_string(text));
    }
    return path;
}

// Caches what it finds: {"path": [...], "used": ms}, or null if there is no such environment.
static int look_up(struct envs *v, const char *key, const char *owner, const char *name,
                   json_t **ret, struct err *e)
{
    struct env_row row;
    int r = default_env_get(v, owner, name, &row, e);
    if (r < 0)
        return r;
    if (r > 0 && !envs_fits_python(v, &row)) {
        r = err_set(e, ERR_ENV_BUSY, 0, "reset it and install its packages again",
                    "the environment '%s' was made for Python %s, and this is Python %s", name,
                    row.python, python_of(v->gate));
        env_row_clear(&row);
        return r;
    }
    json_t *entry =
        r ? json_pack("{s:o, s:I}", "path", path_of(&row), "used", (json_int_t)row.used_ms)
          : json_null();
    env_row_clear(&row);
    if (json_object_size(v->paths) >= PATHS_MAX)
        env_forget_paths(v);
    if (!entry || json_object_set_new(v->paths, key, entry) < 0)
        return env_no_memory(e);
    *ret = entry;
    return 0;
}

int envs_path(struct gate *g, const char *owner, const char *name, json_t **ret, struct err *e)
{
    char key[65 + ENV_NAME_MAX + 2];
    bool is_base = strcmp(name, ENV_BASE) == 0;
    *ret = NULL;
    if (is_base && (!g->envs || !g->envs->db))
        return 0;
    struct envs *v = usable(g, e);
    if (!v || env_check_name(name, e) < 0)
        return -1;
    if (env_db_changed(v->db)) {
        env_forget_paths(v);
        v->swept = false; // another server may have left something
    }
    snprintf(key, sizeof key, "%s/%s", owner, name);
    json_t *entry = json_object_get(v->paths, key);
    if (!entry && look_up(v, key, owner, name, &entry, e) < 0)
        return -1;
    if (json_is_null(entry))
        return is_base ? 0 : unknown(v, owner, name, e);
    int64_t now_ms = env_now_ms();
    if (now_ms - json_integer_value(json_object_get(entry, "used")) > USED_EVERY_MS) {
        env_db_use(v->db, owner, name, now_ms);
        (void)json_object_set_new(entry, "used", json_integer(now_ms));
    }
    json_t *path = json_object_get(entry, "path");
    *ret = json_array_size(path) ? json_incref(path) : NULL;
    return 0;
}

// ---- for people ---------------------------------------------------------------------------------

static const char *state_of(struct envs *v, const char *owner, const char *name)
{
    const struct env_job *j;
    TAILQ_FOREACH (j, &v->jobs, list)
        if (j->state < ENV_READY && strcmp(j->owner, owner) == 0 && strcmp(j->name, name) == 0)
            return "installing";
    return env_share_is_taken(&v->share, owner, name) ? "installing" : "ready";
}

static json_t *base_entry(struct gate *g)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:n, s:n}", "name", ENV_BASE, "python", python_of(g),
                     "packages", 0, "bytes", 0, "created", "last_used");
}

json_t *envs_list(struct gate *g, const char *owner)
{
    struct envs *v = g->envs;
    json_t *list = v && v->db ? env_db_list(v->db, owner, NULL) : json_array(), *item;
    bool has_base = false;
    size_t i;
    json_array_foreach (list, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        has_base |= name && strcmp(name, ENV_BASE) == 0;
        (void)json_object_set_new(item, "state", json_string(state_of(v, owner, name ? name : "")));
    }
    if (list && !has_base) {
        json_t *base = base_entry(g);
        struct env_row row = {0};
        struct err ignored;
        if (v && v->db && default_env_get(v, owner, ENV_BASE, &row, &ignored) > 0) {
            (void)json_object_set_new(base, "packages",
                                      json_integer((json_int_t)json_array_size(row.lock)));
            (void)json_object_set_new(base, "bytes", json_integer((json_int_t)row.bytes));
        }
        env_row_clear(&row);
        (void)json_object_set_new(base, "state",
                                  json_string(v && v->db ? state_of(v, owner, ENV_BASE) : "ready"));
        (void)json_array_insert_new(list, 0, base);
    }
    return list;
}

json_t *envs_jobs(struct gate *g, const char *owner, size_t most)
{
    struct envs *v = g->envs;
    json_t *list = json_array(), *over, *status;
    const struct env_job *j;
    size_t i;
    if (!v || !v->db)
        return list;
    TAILQ_FOREACH (j, &v->jobs, list)
        if (strcmp(j->owner, owner) == 0 && json_array_size(list) < most)
            (void)json_array_append_new(list, env_job_status(j));
    size_t active = json_array_size(list);
    over = env_db_jobs(v->db, owner, NULL, most);
    json_array_foreach (over, i, status) {
        bool known = false;
        for (size_t k = 0; k < active; k++)
            known |= json_equal(json_object_get(json_array_get(list, k), "job"),
                                json_object_get(status, "job"));
        if (!known && json_array_size(list) < most)
            (void)json_array_append(list, status);
    }
    json_decref(over);
    return list;
}

static json_t *describe_row(struct envs *v, const char *owner, const char *name,
                            const struct env_row *row)
{
    char created[TEXT_TIME_MAX], used[TEXT_TIME_MAX];
    json_t *lock = json_array(), *item;
    size_t i;
    json_array_foreach (row->lock, i, item) {
        json_t *one = json_object();
        static const char *const names[] = {"name", "version", "filename", "size"};
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            if (json_object_get(item, names[k]))
                (void)json_object_set(one, names[k], json_object_get(item, names[k]));
        (void)json_object_set(one, "wheel", json_object_get(item, "sha256"));
        // SECURITY: never the ID of the unpacked wheel: code that knows it can read the wheel.
        (void)json_array_append_new(lock, one);
    }
    text_format_time(row->created_ms, created);
    text_format_time(row->used_ms, used);
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:O, s:o, s:o}", "name", name, "python",
                     row->python, "packages", (json_int_t)json_array_size(row->lock), "bytes",
                     (json_int_t)row->bytes, "created", created, "last_used", used, "state",
                     state_of(v, owner, name), "requirements", row->requirements, "lock", lock,
                     "jobs", env_db_jobs(v->db, owner, name, JOBS_SHOWN));
}

json_t *envs_describe(struct gate *g, const char *owner, const char *name, struct err *e)
{
    struct envs *v = usable(g, e);
    struct env_row row;
    if (!v || env_check_name(name, e) < 0)
        return NULL;
    int r = default_env_get(v, owner, name, &row, e);
    bool is_base = strcmp(name, ENV_BASE) == 0;
    if (r == 0 && !is_base)
        (void)unknown(v, owner, name, e);
    if (r < 0 || (r == 0 && !is_base))
        return NULL;
    json_t *o = NULL;
    if (r == 0) {
        o = base_entry(g);
        (void)json_object_set_new(o, "state", json_string(state_of(v, owner, name)));
        (void)json_object_set_new(o, "requirements", json_array());
        (void)json_object_set_new(o, "lock", json_array());
        (void)json_object_set_new(o, "jobs", env_db_jobs(v->db, owner, name, JOBS_SHOWN));
    } else {
        o = describe_row(v, owner, name, &row);
    }
    env_row_clear(&row);
    if (o)
        warm_boxes_describe(g, owner, name, o);
    else
        (void)env_no_memory(e);
    return o;
}

static int check_python(const struct gate *g, const char *python, struct err *e)
{
    const char *own = python_of(g);
    if (!python || !python[0] || same_python(python, own))
        return 0;
    int r = err_set(e, ERR_CONFLICT, 0, "", "there is no Python %.32s here", python);
    text_sanitize(e->message);
    err_hint(e, "leave it out: this server has Python %s", own[0] ? own : "(not known yet)");
    return r;
}

// By a job of this server, which has the lock then.
static bool is_own(const struct envs *v, const char *owner, const char *name)
{
    const struct env_job *j;
    TAILQ_FOREACH (j, &v->jobs, list)
        if (j->started && strcmp(j->owner, owner) == 0 && strcmp(j->name, name) == 0)
            return true;
    return false;
}

static int changing(const char *name, struct err *e)
{
    return err_set(e, ERR_ENV_BUSY, 0, "wait until that is done, or cancel it",
                   "packages are being installed into the environment '%s'", name);
}

static int create(struct envs *v, const char *owner, const char *name, struct err *e)
{
    struct env_row row;
    int r = env_db_get(v->db, owner, name, &row, e);
    env_row_clear(&row);
    if (r < 0)
        return r;
    if (r > 0 || strcmp(name, ENV_BASE) == 0)
        return err_set(e, ERR_ENV_EXISTS, 0, "use it, or choose another name",
                       "there is an environment '%s' already", name);
    if (env_db_count(v->db, owner) >= ENV_OWNER_MAX)
        return err_set(e, ERR_QUOTA, 0, "delete some", "there are %d environments already",
                       ENV_OWNER_MAX);
    row = (struct env_row){.requirements = json_array(), .lock = json_array()};
    snprintf(row.python, sizeof row.python, "%s", python_of(v->gate));
    r = row.requirements && row.lock ? env_db_put(v->db, owner, name, &row, env_now_ms(), e)
                                     : env_no_memory(e);
    env_row_clear(&row);
    env_forget_paths(v);
    return r;
}

int envs_create(struct gate *g, const char *owner, const char *name, const char *python,
                struct err *e)
{
    struct envs *v = usable(g, e);
    if (!v || env_check_name(name, e) < 0 || check_python(g, python, e) < 0)
        return -1;
    if (strncmp(name, ENV_SET_PREFIX, sizeof ENV_SET_PREFIX - 1) == 0)
        return err_set(e, ERR_BAD_VALUE, 0, "choose another name",
                       "names that begin with '" ENV_SET_PREFIX "' belong to sets of packages");
    bool own = is_own(v, owner, name);
    if (!own && !env_share_take(&v->share, owner, name))
        return changing(name, e);
    int r = create(v, owner, name, e);
    if (!own)
        env_share_give(&v->share, owner, name);
    return r;
}

int envs_delete(struct gate *g, const char *owner, const char *name, struct err *e)
{
    struct envs *v = usable(g, e);
    if (!v || env_check_name(name, e) < 0)
        return -1;
    if (strcmp(name, ENV_BASE) == 0)
        return err_set(e, ERR_BAD_VALUE, 0, "reset it to remove its packages",
                       "the environment '" ENV_BASE "' cannot be deleted");
    if (strcmp(state_of(v, owner, name), "ready") != 0 || !env_share_take(&v->share, owner, name))
        return changing(name, e);
    int r = env_db_delete(v->db, owner, name, env_now_ms(), e);
    env_share_give(&v->share, owner, name);
    if (r >= 0)
        warm_boxes_forget(g, owner, name); // a new one of this name starts from nothing
    env_forget_paths(v);
    return r == 0 ? unknown(v, owner, name, e) : r < 0 ? r : 0;
}

// ---- jobs, as people see them -------------------------------------------------------------------

static bool is_about(const json_t *status, const char *key)
{
    json_t *item, *added = json_object_get(status, "added");
    size_t i;
    if (env_names_package(json_object_get(status, "requirements"), key))
        return true;
    json_array_foreach (added, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, key) == 0)
            return true;
    }
    return false;
}

static bool is_over(const json_t *status)
{
    const char *state = json_string_value(json_object_get(status, "state"));
    return state && (strcmp(state, "ready") == 0 || strcmp(state, "failed") == 0 ||
                     strcmp(state, "cancelled") == 0);
}

// A job of another server, which may have been killed, or one that has ended.
static json_t *stored_status(struct envs *v, const char *owner, const char *job)
{
    json_t *status = env_db_get_job(v->db, owner, job);
    if (!status || is_over(status))
        return status;
    json_decref(status);
    env_end_left_jobs(v, false);
    return env_db_get_job(v->db, owner, job);
}

json_t *envs_status(struct gate *g, const char *owner, const char *job, struct err *e)
{
    struct envs *v = usable(g, e);
    const struct env_job *j;
    if (!v)
        return NULL;
    TAILQ_FOREACH (j, &v->jobs, list)
        if (strcmp(j->id, job) == 0 && strcmp(j->owner, owner) == 0)
            return env_job_status(j);
    json_t *status = stored_status(v, owner, job);
    if (!status) {
        (void)err_set(e, ERR_JOB_UNKNOWN, 0, "ask for the status by environment or package instead",
                      "there is no installation '%.40s'", job);
        text_sanitize(e->message);
    }
    return status;
}

// The status of a package that no job names, but that is installed because another one needs it.
static json_t *installed_status(struct envs *v, const char *owner, const char *name,
                                const char *key)
{
    struct env_row row;
    json_t *status = NULL, *item;
    size_t i;
    struct err ignored;
    if (default_env_get(v, owner, name, &row, &ignored) <= 0)
        return NULL;
    json_array_foreach (row.lock, i, item) {
        const char *own = json_string_value(json_object_get(item, "name"));
        if (own && strcmp(own, key) == 0)
            status =
                json_pack("{s:n, s:s, s:s, s:f, s:f, s:[], s:[s], s:[{s:s, s:O}], s:[], s:n}",
                          "job", "environment", name, "state", "ready", "progress", 1.0,
                          "elapsed_seconds", 0.0, "log", "requirements", key, "added", "name", key,
                          "version", json_object_get(item, "version"), "removed", "error");
    }
    env_row_clear(&row);
    return status;
}

json_t *envs_status_of(struct gate *g, const char *owner, const char *name, const char *package,
                       struct err *e)
{
    struct envs *v = usable(g, e);
    char key[ENV_REQUIREMENT_MAX + 1] = "";
    json_t *found = NULL, *item, *jobs;
    const struct env_job *j;
    size_t i;
    if (!v || env_check_name(name, e) < 0)
        return NULL;
    if (package)
        env_key_of(package, key);
    const struct import_name *module = import_name_find(key);
    if (module && !module->is_taken)
        snprintf(key, sizeof key, "%s", module->package);
    TAILQ_FOREACH (j, &v->jobs, list)
        if (strcmp(j->owner, owner) == 0 && strcmp(j->name, name) == 0 &&
            (!key[0] || env_names_package(j->requirements, key))) {
            json_decref(found);
            found = env_job_status(j); // the newest is the last
        }
    jobs = found ? NULL : env_db_jobs(v->db, owner, name, 200);
    if (json_array_size(jobs) && !is_over(json_array_get(jobs, 0))) {
        json_decref(jobs);
        env_end_left_jobs(v, false);
        jobs = env_db_jobs(v->db, owner, name, 200);
    }
    json_array_foreach (jobs, i, item) {
        if (!found && (!key[0] || is_about(item, key)))
            found = json_incref(item);
    }
    json_decref(jobs);
    if (!found && key[0])
        found = installed_status(v, owner, name, key);
    if (!found)
        (void)err_set(e, ERR_JOB_UNKNOWN, 0, "install it first",
                      key[0] ? "nothing is known of the package '%s%s%s'"
                             : "nothing was ever installed into the environment '%s%s%s'",
                      key[0] ? key : name, key[0] ? "' in the environment '" : "",
                      key[0] ? name : "");
    return found;
}
