// SPDX-License-Identifier: Apache-2.0
//
// installer: the main part of a job: a box resolves, downloads and unpacks packages
// (python/install/installer.py), the porter stores its bundles, and the result is a lock.  Runs in
// the gate, on its event loop.
//
// SECURITY: everything that the box says is hostile.  The SHA-256 of a wheel is its word, so shared
// wheels are written only from boxes in which no code of a package can have run.  With source
// builds, the wheels have the job as their scope, and no other environment gets them.

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "installer/installer_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "env/env_jobs.h"
#include "files/tempfile.h"
#include "net/login.h"
#include "net/policy.h"
#include "run/network.h"
#include "json/whole.h"

enum {
    PACKAGES_MAX = 200,
    OUTPUT_MAX = 16 << 20,
    LINE_MAX_BYTES = 4096,
    INODES = 65536,
    PROCESSES = 128,
    OPEN_FILES = 1024,
};

static void run_installer(struct env_job *j);

static void fail(struct env_job *j, enum err_code code, const char *message, const char *hint)
{
    struct err e;
    (void)err_set(&e, code, 0, hint, "%s", message);
    env_job_fail(j, NULL, &e);
}

static int ignore_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
{
    (void)x;
    (void)stream;
    (void)evbuffer_drain(data, evbuffer_get_length(data));
    return 0;
}

static void stop(struct env_job *j)
{
    for (size_t i = 0; i < j->bundle_count; i++)
        fd_close(&j->bundles[i].fd);
    j->bundle_count = 0;
    fd_close(&j->bundle.fd);
    for (size_t i = 0; i < j->ask_count; i++)
        if (j->asks[i].ask) {
            env_porter_forget(TAKE_PTR(j->asks[i].ask));
            j->all->swept = false; // the porter may write it even so: a wheel without a row
        }
    j->ask_count = 0;
    fd_close(&j->fd);
    if (j->exec) {
        struct exec *x = TAKE_PTR(j->exec);
        x->request.on_done = exec_free;
        x->request.on_output = ignore_output;
        x->request.taker = NULL;
        x->request.collect = false;
        exec_cancel(x);
    }
}

// ---- wheels -------------------------------------------------------------------------------------

static const char *scope_of(const struct env_job *j)
{
    return j->source_builds ? j->id : "";
}

static int set_wheel(struct env_job *j, size_t index, const struct env_wheel *w)
{
    return env_wheel_set(json_array_get(j->lock, index), w);
}

static int take_stored(struct env_job *j, size_t index, const json_t *said, struct err *e)
{
    struct env_wheel w = {0};
    const char *id = json_string_value(json_object_get(said, "wheel")),
               *sha256 =
                   json_string_value(json_object_get(json_array_get(j->lock, index), "sha256"));
    if (!id || strlen(id) != ENV_WHEEL_ID)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the porter returned no wheel");
    snprintf(w.id, sizeof w.id, "%s", id);
    snprintf(w.sha256, sizeof w.sha256, "%s", sha256);
    snprintf(w.scope, sizeof w.scope, "%s", scope_of(j));
    w.bytes = (uint64_t)json_integer_value(json_object_get(said, "bytes"));
    w.files = (uint64_t)json_integer_value(json_object_get(said, "files"));
    int r = env_db_add_wheel(j->all->db, &w, env_now_ms(), e);
    return r < 0 ? r : set_wheel(j, index, &w) ? env_no_memory(e) : 0;
}

static void on_stored(const json_t *said, const struct err *error, void *argument)
{
    struct env_store *a = argument;
    struct env_job *j = a->job;
    size_t index = a->index;
    struct err e;
    a->ask = NULL;
    if (error) {
        env_job_fail(j, NULL, error);
        return;
    }
    if (take_stored(j, index, said, &e) < 0) {
        env_job_fail(j, NULL, &e);
        return;
    }
    j->asks_left--;
    env_job_tell(j, ENV_STORING, 0.99 - 0.09 * (double)j->asks_left / (double)j->ask_count, NULL);
    if (j->asks_left == 0)
        env_job_finish(j);
}

static int bundle_of(struct env_job *j, const char *name)
{
    for (size_t i = 0; i < j->bundle_count; i++)
        if (strcmp(j->bundles[i].name, name) == 0)
            return TAKE_FD(j->bundles[i].fd);
    return -1;
}

// Is the wheel there already, in this environment or shared?
static bool has_wheel(struct env_job *j, const char *sha256, struct env_wheel *ret)
{
    json_t *item;
    size_t i;
    json_array_foreach (j->row.lock, i, item) {
        const char *own = json_string_value(json_object_get(item, "sha256")),
                   *id = json_string_value(json_object_get(item, "wheel"));
        if (!own || !id || strcmp(own, sha256) != 0 || !env_db_has_wheel(j->all->db, id))
            continue;
        *ret = (struct env_wheel){0};
        snprintf(ret->id, sizeof ret->id, "%s", id);
        ret->bytes = (uint64_t)json_integer_value(json_object_get(item, "unpacked"));
        ret->files = (uint64_t)json_integer_value(json_object_get(item, "files"));
        return true;
    }
    return !j->source_builds && env_db_find_wheel(j->all->db, sha256, "", ret);
}

static int store_one(struct env_job *j, size_t index, const json_t *package, struct err *e)
{
    const struct config *c = j->all->gate->facts->config;
    const char *sha256 = json_string_value(json_object_get(package, "sha256")),
               *name = json_string_value(json_object_get(package, "bundle"));
    struct env_wheel w;
    if (has_wheel(j, sha256, &w))
        return set_wheel(j, index, &w) ? env_no_memory(e) : 0;
    int fd = name ? bundle_of(j, name) : -1;
    if (fd < 0 && j->bundle_error.message[0]) {
        *e = j->bundle_error;
        return -1;
    }
    if (fd < 0)
        return err_set(e, ERR_INTERNAL, 0, "try again",
                       "the installer returned no bundle for the package '%s'",
                       json_string_value(json_object_get(package, "name")));
    json_t *o = json_pack("{s:s, s:s, s:I, s:I}", "op", "store", "sha256", sha256, "bytes_max",
                          (json_int_t)c->install_bytes, "files_max", (json_int_t)c->install_files);
    if (o && scope_of(j)[0])
        (void)json_object_set_new(o, "scope", json_string(scope_of(j)));
    if (!o) {
        fd_close(&fd);
        return env_no_memory(e);
    }
    struct env_store *a = &j->asks[index];
    *a = (struct env_store){.job = j, .index = index};
    a->ask = env_porter_ask(j->all->gate, o, fd, on_stored, a);
    if (!a->ask)
        return env_no_memory(e);
    j->asks_left++;
    return 0;
}

// The requirement for an entry of a client's lock.
static json_t *pin_of(const json_t *entry)
{
    return json_sprintf("%s==%s", json_string_value(json_object_get(entry, "name")),
                        json_string_value(json_object_get(entry, "version")));
}

static int make_lock(struct env_job *j, const json_t *packages, struct err *e)
{
    json_t *package;
    size_t i;
    if (!json_is_array(packages) || json_array_size(packages) > PACKAGES_MAX)
        return err_set(e, ERR_INTERNAL, 0, "try again",
                       "the installer returned no packages, or too many");
    if (!(j->lock = json_array()))
        return env_no_memory(e);
    json_array_foreach ((json_t *)packages, i, package) {
        json_t *entry = env_lock_entry(j, package, e);
        if (!entry)
            return -1;
        if (json_array_append_new(j->lock, entry) < 0 ||
            (j->lock_text && json_array_append_new(j->wanted, pin_of(entry)) < 0))
            return env_no_memory(e);
    }
    return 0;
}

static int store_all(struct env_job *j, const json_t *packages, struct err *e)
{
    json_t *package;
    uint64_t bytes = 0;
    size_t i;
    j->ask_count = json_array_size(packages);
    j->asks = calloc(j->ask_count ? j->ask_count : 1, sizeof *j->asks);
    if (!j->asks) {
        j->ask_count = 0;
        return env_no_memory(e);
    }
    json_array_foreach ((json_t *)packages, i, package) {
        json_int_t unpacked = json_integer_value(json_object_get(package, "unpacked"));
        if (json_is_string(json_object_get(package, "bundle")) && unpacked > 0)
            bytes += (uint64_t)unpacked;
    }
    if (env_make_room(j->all, bytes, e) < 0)
        return -1;
    json_array_foreach ((json_t *)packages, i, package) {
        if (store_one(j, i, package, e) < 0)
            return -1;
    }
    return 0;
}

// ---- answers of the box -------------------------------------------------------------------------

static json_t *bounded_text(const json_t *o, const char *name, size_t most)
{
    const char *text = json_string_value(json_object_get(o, name));
    char shown[ENV_TEXT_MAX + 1];
    if (!text || !text[0])
        return json_null();
    snprintf(shown, most < sizeof shown ? most : sizeof shown, "%s", text);
    for (char *c = shown; *c; c++)
        if (*c == '\n')
            *c = '\1';
    text_sanitize(shown);
    for (char *c = shown; *c; c++)
        if (*c == '?' && text[c - shown] == '\n')
            *c = '\n';
    return json_string(shown);
}

static void refused(struct env_job *j, const json_t *answer)
{
    const char *code = json_string_value(json_object_get(answer, "code")),
               *message = json_string_value(json_object_get(answer, "message"));
    struct err e;
    (void)err_set(&e, ERR_INSTALL, 0, NULL, "%.700s",
                  message ? message : "the installer gave no reason");
    text_sanitize(e.message);
    if (!j->cancelled)
        j->error = json_pack("{s:s, s:s, s:o, s:o, s:o}", "code",
                             code && strlen(code) < 40 ? code : "internal", "message", e.message,
                             "requirement", bounded_text(answer, "requirement", 400),
                             "resolver_says", bounded_text(answer, "resolver_says", ENV_TEXT_MAX),
                             "hint", bounded_text(answer, "hint", 500));
    env_job_fail(j, NULL, &e);
}

// The box ended without an answer.
static void broke(struct env_job *j, const struct exec *x)
{
    static const struct {
        enum verdict verdict;
        const char *code, *message, *hint;
    } ends[] = {
        {VERDICT_TIMEOUT_WALL, "timeout", "the installation took too long",
         "the index may be slow: try again, or ask for less; the operator sets --install-timeout"},
        {VERDICT_TIMEOUT_CPU, "timeout", "the installation took too much processor time",
         "ask for less; the operator sets --install-timeout"},
        {VERDICT_OUT_OF_MEMORY, "too_large", "the packages need more memory than an install has",
         "ask for less at once; the index may answer with too much; the operator sets "
         "--install-memory"},
        {VERDICT_DISK_FULL, "disk_full", "the packages need more space than an install has",
         "ask for less at once; the operator sets --install-memory and --install-bytes"},
        {VERDICT_CANCELLED, "cancelled", "the installation was cancelled", ""},
    };
    struct err e;
    if (x->error.message[0]) {
        e = x->error;
        env_job_fail(j, NULL, &e);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends[i].verdict == x->result.verdict) {
            (void)err_set(&e, ERR_INSTALL, 0, ends[i].hint, "%s", ends[i].message);
            env_job_fail(j, ends[i].code, &e);
            return;
        }
    (void)err_set(&e, ERR_INSTALL, 0, x->result.hint[0] ? x->result.hint : "try again",
                  "the installer ended without an answer (%s)",
                  result_verdict_name(x->result.verdict));
    env_job_fail(j, "internal", &e);
}

static void on_installed(struct exec *x)
{
    struct env_job *j = x->request.argument;
    json_t *answer = x->run ? json_object_get(x->run->result, "install") : NULL;
    struct err e;
    j->exec = NULL;
    if (j->cancelled || x->error.message[0] || !json_is_object(answer)) {
        broke(j, x);
        exec_free(x);
        return;
    }
    j->answer = json_incref(answer);
    exec_free(x);
    if (!json_is_true(json_object_get(j->answer, "ok"))) {
        if (index_learn(j, j->answer)) { // it can reach more hosts now: try again
            json_decref(TAKE_PTR(j->answer));
            run_installer(j);
        } else {
            refused(j, j->answer);
        }
        return;
    }
    json_t *warnings = json_object_get(j->answer, "warnings");
    if (json_is_array(warnings) && json_array_size(warnings) <= 50)
        j->warnings = json_incref(warnings);
    env_job_tell(j, ENV_STORING, 0.9, "storing the packages");
    const json_t *packages = json_object_get(j->answer, "packages");
    if (make_lock(j, packages, &e) < 0 || store_all(j, packages, &e) < 0) {
        env_job_fail(j, NULL, &e);
        return;
    }
    if (j->asks_left == 0)
        env_job_finish(j);
}

// SECURITY: a bundle is copied into a file of the gate's own: code in the box could lock its file,
// to block the porter, or change it after the porter's check.
static int begin_bundle(struct exec *x, const struct scratch_file *file, struct err *e)
{
    struct env_job *j = x->request.argument;
    size_t n = strlen(file->path);
    if (j->bundle_count >= ARRAY_LEN(j->bundles) || n > SCRATCH_NAME_MAX ||
        strchr(file->path, '/') || n < 6 || strcmp(file->path + n - 5, ".cbun") != 0)
        return 1;
    memcpy(j->bundle.name, file->path, n + 1);
    j->bundle.fd = envs_file(x->gate, e);
    return j->bundle.fd < 0 ? -1 : 0;
}

static int add_to_bundle(struct exec *x, const void *data, size_t length, uint64_t offset,
                         struct err *e)
{
    struct env_job *j = x->request.argument;
    int r = fd_write_sparse(j->bundle.fd, data, length, offset);
    return r < 0 ? tempfile_failed(-r, e) : 0;
}

// A bundle that could not be read is missing; bundle_error says why.
static void end_bundle(struct exec *x, uint64_t size, const struct err *error)
{
    struct env_job *j = x->request.argument;
    bool whole = !error && ftruncate(j->bundle.fd, (off_t)size) == 0;
    if (whole)
        j->bundles[j->bundle_count++] = j->bundle;
    else if (error)
        j->bundle_error = *error;
    else
        (void)tempfile_failed(errno, &j->bundle_error);
    if (!whole)
        fd_close(&j->bundle.fd);
    j->bundle.fd = -1;
}

static const struct exec_taker bundle_taker = {
    .begin = begin_bundle, .data = add_to_bundle, .end = end_bundle};

static void on_line(struct env_job *j, const char *line, size_t length)
{
    static const struct {
        const char *name;
        enum env_state state;
        double from, to;
    } steps[] = {{"resolving", ENV_RESOLVING, 0.02, 0.1},
                 {"downloading", ENV_DOWNLOADING, 0.1, 0.5},
                 {"unpacking", ENV_UNPACKING, 0.5, 0.85},
                 {"bundling", ENV_UNPACKING, 0.85, 0.9}};
    json_auto_t *o = length < LINE_MAX_BYTES ? json_loadb(line, length, 0, NULL) : NULL;
    const char *state = json_string_value(json_object_get(o, "state"));
    const char *text = json_string_value(json_object_get(o, "text"));
    json_int_t done = json_integer_value(json_object_get(o, "done")),
               total = json_integer_value(json_object_get(o, "total"));
    double part = total > 0 && done > 0 && done <= total ? (double)done / (double)total : 0;
    for (size_t i = 0; state && i < ARRAY_LEN(steps); i++)
        if (strcmp(state, steps[i].name) == 0) {
            char shown[256];
            bool says = text && text[0]; // else only progress, no line for the log
            snprintf(shown, sizeof shown, "%s: %.200s", state, says ? text : "");
            env_job_tell(j, steps[i].state, steps[i].from + part * (steps[i].to - steps[i].from),
                         says ? shown : NULL);
        }
}

static int on_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
{
    struct env_job *j = x->request.argument;
    size_t length;
    if (stream != RUN_STDOUT) {
        (void)evbuffer_drain(data, evbuffer_get_length(data));
        return 0;
    }
    for (char *line; (line = evbuffer_readln(data, &length, EVBUFFER_EOL_LF));) {
        on_line(j, line, length);
        free(line);
    }
    if (evbuffer_get_length(data) > LINE_MAX_BYTES)
        (void)evbuffer_drain(data, evbuffer_get_length(data));
    return 0;
}

// ---- the request to the box ---------------------------------------------------------------------

static json_t *list_json(const struct text_list *l)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < l->count; i++)
        (void)json_array_append_new(list, json_string(l->items[i]));
    return list;
}

static json_t *sha256s_of(const json_t *lock)
{
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach ((json_t *)lock, i, item)
        (void)json_array_append(list, json_object_get(item, "sha256"));
    return list;
}

static json_t *current_of(const json_t *lock)
{
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach ((json_t *)lock, i, item)
        (void)json_array_append_new(list, json_pack("{s:O, s:O, s:O}", "name",
                                                    json_object_get(item, "name"), "version",
                                                    json_object_get(item, "version"), "sha256",
                                                    json_object_get(item, "sha256")));
    return list;
}

// The operator's constraints, which apply to all clients, and those of the call.
static json_t *constraints_of(const struct config *c, json_t *asked)
{
    json_t *list = list_json(&c->constraints);
    if (list && asked)
        (void)json_array_extend(list, asked);
    return list;
}

// The address for the box.  One with a login becomes plain HTTP: the broker adds login and TLS.
static json_t *address_of(const char *url)
{
    char plain[CONFIG_TEXT_MAX];
    return json_string(net_login_address(url, plain, sizeof plain) ? plain : url);
}

static json_t *addresses_of(const struct text_list *l)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < l->count; i++)
        (void)json_array_append_new(list, address_of(l->items[i]));
    return list;
}

// The hosts of addresses with a login: plain HTTP to them is safe.
static json_t *guarded_of(const struct config *c)
{
    json_t *list = json_array();
    char plain[CONFIG_TEXT_MAX];
    for (size_t i = 0; list && i <= c->extra_index_urls.count; i++)
        if (net_login_address(i ? c->extra_index_urls.items[i - 1] : c->index_url, plain,
                              sizeof plain)) {
            const char *host = plain + strlen("http://");
            (void)json_array_append_new(list, json_stringn(host, strcspn(host, "/?#")));
        }
    return list;
}

static json_t *request_of(const struct env_job *j)
{
    const struct config *c = j->all->gate->facts->config;
    json_t *o = json_pack(
        "{s:O, s:o, s:o, s:{s:I, s:I, s:i}, s:f, s:o, s:o, s:o, s:b, s:b, s:b, s:i}",
        "requirements", j->wanted, "current", current_of(j->row.lock), "known",
        j->source_builds ? sha256s_of(j->row.lock) : env_db_known(j->all->db, ENV_KNOWN_MAX),
        "limits", "bytes", (json_int_t)c->install_bytes, "files", (json_int_t)c->install_files,
        "packages", PACKAGES_MAX, "timeout", (double)c->install_ms / 1000 * 0.95,
        "extra_index_urls", addresses_of(&c->extra_index_urls), "allow",
        list_json(&c->allow_packages), "deny", list_json(&c->deny_packages), "offline", c->offline,
        "upgrade", j->upgrade, "source_builds", j->source_builds, "min_age_days",
        (int)c->package_min_age);
    int failed = !o;
    if (c->index_url[0])
        failed |= json_object_set_new(o, "index_url", address_of(c->index_url));
    failed |= json_object_set_new(o, "login_hosts", guarded_of(c));
    if (c->find_links[0])
        failed |= json_object_set_new(o, "find_links", json_string("/opt/wheel-files"));
    failed |= json_object_set_new(o, "constraints", constraints_of(c, j->constraints));
    if (j->lock_text)
        failed |= json_object_set_new(o, "lock", json_string(j->lock_text));
    if (c->allow_urls.count)
        failed |= json_object_set_new(o, "allow_urls", json_true());
    if (j->change == ENV_UNINSTALL)
        failed |= json_object_set(o, "remove", j->requirements);
    return json_whole(o, failed);
}

static void run_installer(struct env_job *j)
{
    const struct config *c = j->all->gate->facts->config;
    json_t *told = request_of(j);
    if (told && !c->offline)
        (void)json_object_set_new(told, "hosts", index_hosts(j));
    _cleanup_(exec_request_clear) struct exec_request request = {
        .owner = j->owner,
        .code = "",
        .install = told,
        .plain = true,
        .network = c->offline ? json_false() : json_incref(j->all->index),
        .network_key = NET_INSTALLER,
        .limits = {.memory_bytes = c->install_memory_bytes,
                   .scratch_bytes = c->install_memory_bytes,
                   .file_bytes = c->install_memory_bytes,
                   .processes = PROCESSES,
                   .inodes = INODES,
                   .open_files = OPEN_FILES},
        .wall_ms = c->install_ms,
        .cpu_ms = 4 * c->install_ms,
        .output_bytes = OUTPUT_MAX,
        .collect = true,
        .files_max = ENV_WHEELS_MAX,
        .on_output = on_output,
        .taker = &bundle_taker,
        .on_done = on_installed,
        .argument = j};
    env_job_tell(j, ENV_RESOLVING, 0.01, NULL);
    if (request.install)
        j->exec = exec_start(j->all->gate, &request);
    if (!j->exec)
        fail(j, ERR_SYSTEM, "the server is out of memory", "try again later");
}

static void install(struct env_job *j)
{
    json_auto_t *told = request_of(j);
    bool known = env_known_find(j, told);
    if (known) {
        env_job_finish(j);
        return;
    }
    struct err e;
    int r = index_ask(j, &e);
    if (r > 0)
        run_installer(j);
    else if (r < 0)
        env_job_fail(j, NULL, &e);
    // else installer_go_on()
}

void installer_go_on(struct env_job *j, const struct err *e)
{
    if (e)
        env_job_fail(j, NULL, e);
    else
        run_installer(j);
}

static void close_envs(struct envs *v)
{
    if (v->asking)
        exec_free(v->asking);
    v->asking = NULL;
}

static void cancel(struct env_job *j)
{
    exec_cancel(j->exec); // on_installed() follows
}

const struct env_installer env_installer = {
    .install = install,
    .stop = stop,
    .cancel = cancel,
    .close = close_envs,
};
