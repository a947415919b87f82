// SPDX-License-Identifier: Apache-2.0
//
// env_move: environments as one file, for machines without an index.  The porter writes and reads
// the file; this makes and checks its manifest.  Runs in the gate, on its event loop.
//
// SECURITY: such a file may come from an attacker.  Its wheels get a scope of their own and never
// become shared wheels (porter/archive.c), and its manifest is checked like the answer of a box.

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_jobs.h"
#include "env/env_text.h"
#include "files/tempfile.h"

enum {
    FORMAT = 1,
    MANIFEST_SMALL = 96 * 1024, // bytes that fit into a request beside the list of wheels
    FILE_OVERHEAD = 512,        // of a file in an archive: its path and its sizes
    ARCHIVE_OVERHEAD = 16 << 20,
};

// "linux-x86_64": compiled packages run on one platform only.
static void platform_of_here(char ret[100])
{
    struct utsname here;
    snprintf(ret, 100, "linux-%.64s", uname(&here) == 0 ? here.machine : "unknown");
}

// ---- files on their way -------------------------------------------------------------------------

int envs_file(struct gate *g, struct err *e)
{
    if (!g->envs || !g->envs->db)
        return g->envs ? (*e = g->envs->error, -1)
                       : err_set(e, ERR_STATE_FOLDER, 0, NULL,
                                 "there are no environments, because there is no state folder");
    return tempfile_open(g->facts->environments_rows, e);
}

uint64_t envs_file_max(const struct config *c)
{
    return c->install_bytes + (uint64_t)c->install_files * FILE_OVERHEAD + ARCHIVE_OVERHEAD;
}

// ---- out ----------------------------------------------------------------------------------------

struct env_export {
    struct env_ask *ask;
    env_exported on_done;
    void *argument;
};

static void on_exported(const json_t *said, const struct err *error, void *argument)
{
    struct env_export m = *(struct env_export *)argument;
    free(argument);
    json_int_t bytes = json_integer_value(json_object_get(said, "bytes"));
    m.on_done(bytes > 0 ? (uint64_t)bytes : 0, error, m.argument);
}

void envs_export_cancel(struct env_export *m)
{
    if (!m)
        return;
    env_porter_forget(m->ask);
    free(m);
}

// Leaves `top_level` out of a large manifest.
static void make_small(json_t *lock)
{
    json_t *item;
    size_t i;
    if (json_dumpb(lock, NULL, 0, JSON_COMPACT) > MANIFEST_SMALL)
        json_array_foreach (lock, i, item)
            (void)json_object_del(item, "top_level");
}

static json_t *question_of(const struct env_row *row)
{
    json_t *found = json_array(), *lock = json_array(), *item;
    char platform[100];
    size_t i;
    platform_of_here(platform);
    json_array_foreach (row->lock, i, item) {
        json_t *plain = json_copy(item);
        (void)json_object_del(plain, "wheel"); // an ID of this server only
        (void)json_array_append_new(lock, plain);
        (void)json_array_append_new(found, json_pack("{s:O, s:O}", "sha256",
                                                     json_object_get(item, "sha256"), "wheel",
                                                     json_object_get(item, "wheel")));
    }
    make_small(lock);
    return json_pack("{s:s, s:{s:i, s:s, s:s, s:O, s:o}, s:o}", "op", "export", "manifest",
                     "format", FORMAT, "python", row->python, "platform", platform, "requirements",
                     row->requirements, "lock", lock, "wheels", found);
}

// The row of the environment to export; 0, or negative and `e`.
static int find_row(struct gate *g, const char *owner, const char *name, struct env_row *row,
                    struct err *e)
{
    struct envs *v = g->envs;
    if (!v || !v->db) {
        if (v)
            *e = v->error;
        return v ? -1
                 : err_set(e, ERR_STATE_FOLDER, 0, NULL,
                           "there are no environments, because there is no state folder");
    }
    if (env_check_name(name, e) < 0)
        return -1;
    int r = default_env_get(v, owner, name, row, e);
    if (r < 0 || (r > 0 && json_array_size(row->lock)))
        return r < 0 ? r : 0;
    bool is_there = r > 0 || strcmp(name, ENV_BASE) == 0;
    env_row_clear(row);
    return err_set(
        e, is_there ? ERR_CONFLICT : ERR_ENV_UNKNOWN, 0,
        is_there ? "install packages into it first" : "list the environments to see their names",
        is_there ? "nothing is installed in the environment '%s'" : "there is no environment '%s'",
        name);
}

struct env_export *envs_export(struct gate *g, const char *owner, const char *name, int fd,
                               env_exported on_done, void *argument, struct err *e)
{
    struct env_row row;
    if (find_row(g, owner, name, &row, e) < 0)
        return NULL;
    struct env_export *m = malloc(sizeof *m);
    json_t *question = question_of(&row);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    env_row_clear(&row);
    bool ready = m && question && own >= 0;
    if (ready) {
        *m = (struct env_export){.on_done = on_done, .argument = argument};
        m->ask = env_porter_ask(g, question, own, on_exported, m); // takes both
        if (m->ask)
            return m;
    } else {
        json_decref(question);
        if (own >= 0)
            (void)close(own);
    }
    free(m);
    (void)err_set(e, ERR_SYSTEM, 0, "try again later",
                  "the environment '%s' is too large to export, or the server is out of memory",
                  name);
    return NULL;
}

// ---- in -----------------------------------------------------------------------------------------

// The wheel that the porter unpacked for this SHA-256.
static const json_t *wheel_for(const json_t *have, const char *sha256)
{
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)have, i, item) {
        const char *own = json_string_value(json_object_get(item, "sha256"));
        if (own && strcmp(own, sha256) == 0)
            return item;
    }
    return NULL;
}

static int take_wheel(struct env_job *j, json_t *entry, const json_t *have, struct err *e)
{
    struct env_wheel w = {0};
    const char *sha256 = json_string_value(json_object_get(entry, "sha256"));
    const json_t *found = wheel_for(have, sha256);
    const char *id = json_string_value(json_object_get(found, "wheel"));
    if (!id || strlen(id) != ENV_WHEEL_ID)
        return err_set(e, ERR_BAD_ARCHIVE, 0, "export the environment again",
                       "the file does not have the package '%s'",
                       json_string_value(json_object_get(entry, "name")));
    snprintf(w.id, sizeof w.id, "%s", id);
    snprintf(w.sha256, sizeof w.sha256, "%s", sha256);
    snprintf(w.scope, sizeof w.scope, "file-%s", id);
    w.bytes = (uint64_t)json_integer_value(json_object_get(found, "bytes"));
    w.files = (uint64_t)json_integer_value(json_object_get(found, "files"));
    if (env_db_add_wheel(j->all->db, &w, env_now_ms(), e) < 0)
        return -1;
    return json_object_set_new(entry, "wheel", json_string(w.id)) |
                   json_object_set_new(entry, "unpacked", json_integer((json_int_t)w.bytes)) |
                   json_object_set_new(entry, "files", json_integer((json_int_t)w.files))
               ? env_no_memory(e)
               : 0;
}

static int check_python(const struct env_job *j, const char *python, struct err *e)
{
    const struct interp *interp = j->all->gate->facts->interp;
    const char *own = interp ? interp->version : "";
    size_t n = 0;
    for (unsigned dots = 0; own[n] && (own[n] != '.' || ++dots < 2); n++)
        ;
    if (python && strncmp(own, python, n) == 0 && (python[n] == '.' || python[n] == '\0'))
        return 0;
    (void)err_set(e, ERR_BAD_ARCHIVE, 0, "export it from a server with the same version of Python",
                  "the file is for Python %.32s, and this is Python %s", python ? python : "?",
                  own);
    text_sanitize(e->message);
    return -1;
}

// Pure Python packages ("-any.whl") run on every platform.
static bool is_compiled(const char *filename)
{
    size_t n = filename ? strlen(filename) : 0;
    return n < 9 || strcmp(filename + n - 8, "-any.whl") != 0;
}

static int check_platform(const json_t *manifest, struct err *e)
{
    const char *platform = json_string_value(json_object_get(manifest, "platform"));
    json_t *item, *lock = json_object_get(manifest, "lock");
    char here[100];
    size_t i;
    bool compiled = false;
    platform_of_here(here);
    json_array_foreach (lock, i, item)
        compiled |= is_compiled(json_string_value(json_object_get(item, "filename")));
    if (!compiled || (platform && strcmp(platform, here) == 0))
        return 0;
    (void)err_set(e, ERR_BAD_ARCHIVE, 0, "export it from a machine of the same kind",
                  "the file has compiled packages for %.64s, and this is %s",
                  platform ? platform : "another machine", here);
    text_sanitize(e->message);
    return -1;
}

static int take_manifest(struct env_job *j, const json_t *said, struct err *e)
{
    json_t *manifest = json_object_get(said, "manifest"), *have = json_object_get(said, "wheels");
    json_t *lock = json_object_get(manifest, "lock"), *item;
    size_t i;
    if (json_integer_value(json_object_get(manifest, "format")) != FORMAT || !json_is_array(lock) ||
        json_array_size(lock) > ENV_WHEELS_MAX)
        return err_set(e, ERR_BAD_ARCHIVE, 0, "export the environment again, with this version",
                       "the file has no manifest of this format");
    if (check_python(j, json_string_value(json_object_get(manifest, "python")), e) < 0 ||
        check_platform(manifest, e) < 0)
        return -1;
    json_decref(j->wanted);
    j->wanted = envs_requirements(json_object_get(manifest, "requirements"), e);
    if (!j->wanted)
        return err_wrap(e, "the file");
    if (!(j->lock = json_array()))
        return env_no_memory(e);
    json_array_foreach (lock, i, item) {
        if (!json_object_get(item, "sha256")) // files of older versions
            (void)json_object_set(item, "sha256", json_object_get(item, "wheel"));
        json_t *entry = env_lock_entry(j, item, e);
        if (!entry)
            return err_wrap(e, "the file");
        if (json_array_append_new(j->lock, entry) < 0)
            return env_no_memory(e);
        if (take_wheel(j, entry, have, e) < 0)
            return -1;
    }
    return 0;
}

static void on_imported(const json_t *said, const struct err *error, void *argument)
{
    struct env_store *a = argument;
    struct env_job *j = a->job;
    struct err e;
    a->ask = NULL;
    if (error)
        env_job_fail(j, NULL, error);
    else if (take_manifest(j, said, &e) < 0)
        env_job_fail(j, NULL, &e);
    else
        env_job_finish(j);
}

void env_import(struct env_job *j)
{
    const struct config *c = j->all->gate->facts->config;
    json_t *o = json_pack("{s:s, s:I, s:I}", "op", "import", "bytes_max",
                          (json_int_t)c->install_bytes, "files_max", (json_int_t)c->install_files);
    struct err e;
    j->asks = calloc(1, sizeof *j->asks);
    if (o && j->asks && j->fd >= 0) {
        j->ask_count = 1;
        j->asks[0] = (struct env_store){.job = j};
        env_job_tell(j, ENV_STORING, 0.1, "reading the file");
        j->asks[0].ask = env_porter_ask(j->all->gate, o, TAKE_FD(j->fd), on_imported, &j->asks[0]);
        if (j->asks[0].ask)
            return;
    } else {
        json_decref(o);
    }
    (void)env_no_memory(&e);
    env_job_fail(j, NULL, &e);
}
