// SPDX-License-Identifier: Apache-2.0
//
// result: see result.h.
//
// Which source is trusted for what:
//   the keeper    why the box ended, usage, whether a limit was met
//   the gate      wall time, amount of output
//   the code      its value, its error, its exit code: about itself only

#include "run/result.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "run/display.h"
#include "run/events.h"
#include "run/import_names.h"
#include "json/dump.h"
#include "json/whole.h"

static const struct {
    const char *name;
    int status;
} verdicts[VERDICT_MAX] = {
#define X(name_, text, status_) [name_] = {text, status_},
    VERDICT_MAP(X)
#undef X
};

const char *result_verdict_name(enum verdict verdict)
{
    return verdicts[verdict].name;
}

int result_exit_status(const struct result *result)
{
    if (verdicts[result->verdict].status >= 0)
        return verdicts[result->verdict].status;
    if (result->signal)
        return 128 + result->signal;
    return result->has_exit_code ? result->exit_code & 0xff : result->verdict == VERDICT_OK ? 0 : 1;
}

// ---- the verdict --------------------------------------------------------------------------------

static bool scratch_is_full(const struct wire_usage *u, bool *ret_inodes)
{
    *ret_inodes = u->scratch_free_inodes == 0;
    return *ret_inodes || u->scratch_free_bytes == 0;
}

static const char *error_type(const struct run *r)
{
    return json_string_value(json_object_get(json_object_get(r->result, "error"), "type"));
}

static json_int_t error_errno(const struct run *r)
{
    return json_integer_value(json_object_get(json_object_get(r->result, "error"), "errno"));
}

// Without cgroups the limits are rlimits, which answer with an errno or an exception.
static bool is_watched(const struct run *r)
{
    return r->gate->facts->caps->cgroups.driver == &watch_driver;
}

static bool is_sandbox(const struct run *r)
{
    return r->request.limits.isolation != ISOLATION_NATIVE;
}

// Without cgroups or in a sandbox no refused fork is counted; the exception is the only sign.
static bool process_limit_was_met(const struct run *r, const char *type)
{
    const char *message =
        json_string_value(json_object_get(json_object_get(r->result, "error"), "message"));
    if ((!is_watched(r) && !is_sandbox(r)) || !type || !message)
        return false;
    return (strcmp(type, "BlockingIOError") == 0 && error_errno(r) == EAGAIN) ||
           (strcmp(type, "RuntimeError") == 0 && strstr(message, "start new thread"));
}

// A run that failed may have failed because a limit answered with an errno.
static void judge_failure(const struct run *r, struct result *res)
{
    const struct wire_usage *u = &r->ended.usage;
    const char *type = error_type(r);
    bool inodes;
    res->verdict = VERDICT_ERROR;
    // One allocation was refused.  mmap and fork answer with ENOMEM, and an exception of another
    // type.
    if ((type && strcmp(type, "MemoryError") == 0) || error_errno(r) == ENOMEM) {
        res->verdict = VERDICT_OUT_OF_MEMORY;
        res->limit = LIMIT_MEMORY;
    } else if (error_errno(r) == EFBIG) {
        res->verdict = VERDICT_DISK_FULL;
        res->limit = LIMIT_FILE_SIZE;
    } else if (scratch_is_full(u, &inodes)) {
        res->verdict = VERDICT_DISK_FULL;
        res->limit = inodes ? LIMIT_INODES : LIMIT_SCRATCH;
    } else if (error_errno(r) == ENOSPC) {
        // Only the code says so: a hint, no verdict.  The keeper does not see a sandbox's scratch.
        res->limit = LIMIT_SCRATCH;
        if (is_sandbox(r))
            res->verdict = VERDICT_DISK_FULL;
    } else if ((u->process_hits && !is_watched(r)) || process_limit_was_met(r, type)) {
        res->verdict = VERDICT_TOO_MANY_PROCESSES;
        res->limit = LIMIT_PROCESSES;
    } else if (error_errno(r) == EMFILE) {
        res->limit = LIMIT_FILES;
    }
}

// Killed although it was within its own limit, while the kernel was making room.
static bool fell_to_the_machine(const struct run *r)
{
    bool killed =
        !r->has_exit || (WIFSIGNALED(r->exit_status) && WTERMSIG(r->exit_status) == SIGKILL);
    return killed && r->ended.usage.machine_oom;
}

static void judge_exit(const struct run *r, struct result *res)
{
    if (fell_to_the_machine(r)) {
        res->verdict = VERDICT_OUT_OF_MEMORY;
        res->signal = SIGKILL;
        return;
    }
    if (!r->has_exit) {
        // No EXIT frame came: the box's init was killed from outside.
        res->verdict = VERDICT_LOST;
        return;
    }
    if (WIFSIGNALED(r->exit_status)) {
        res->signal = WTERMSIG(r->exit_status);
        judge_failure(r, res);
        if (res->verdict == VERDICT_ERROR && res->signal == SIGSYS)
            res->verdict = VERDICT_DENIED;
        return;
    }
    res->has_exit_code = true;
    res->exit_code = WEXITSTATUS(r->exit_status);
    res->verdict = VERDICT_OK;
    if (res->exit_code)
        judge_failure(r, res);
}

static void judge_result(const struct run *r, struct result *res)
{
    json_t *code = json_object_get(r->result, "exit_code");
    const char *phase = json_string_value(json_object_get(r->result, "phase"));
    if (phase && strcmp(phase, "syntax_check") == 0)
        res->phase = "syntax_check";
    bool refused = phase && strcmp(phase, "security_check") == 0;
    res->has_exit_code = true;
    res->exit_code = (int)(json_integer_value(code) & 0xff);
    res->verdict = VERDICT_OK;
    bool failed = json_is_object(json_object_get(r->result, "error"));
    if (failed && !res->exit_code)
        res->exit_code = 1; // the runner never reports an error with exit code 0
    if (refused) {
        res->phase = "security_check"; // refused by policy before any of it ran
        res->verdict = VERDICT_DENIED;
    } else if (res->exit_code) {
        judge_failure(r, res);
    }
}

// Time was up; a limit that the code met before may be the reason.
static void judge_timeout(const struct run *r, struct result *res, enum verdict verdict,
                          enum limit limit)
{
    bool inodes;
    res->verdict = verdict;
    res->limit = limit;
    if (r->ended.usage.process_hits) {
        res->verdict = VERDICT_TOO_MANY_PROCESSES;
        res->limit = LIMIT_PROCESSES;
    } else if (scratch_is_full(&r->ended.usage, &inodes)) {
        res->verdict = VERDICT_DISK_FULL;
        res->limit = inodes ? LIMIT_INODES : LIMIT_SCRATCH;
    }
}

static bool misses_module(const struct run *r, const struct result *res)
{
    const char *type = error_type(r);
    return res->verdict == VERDICT_ERROR && type && strcmp(type, "ModuleNotFoundError") == 0;
}

// SECURITY: the message is the code's; only a name that is one is taken from it.
bool result_missing_package(const struct run *r, const struct result *res,
                            struct missing_package *ret)
{
    char key[RESULT_PACKAGE_MAX] = "";
    *ret = (struct missing_package){0};
    if (!misses_module(r, res))
        return false;
    json_t *error = json_object_get(r->result, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *name = message ? strchr(message, '\'') : NULL;
    size_t n = name ? strspn(++name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_")
                    : 0;
    if (n > 0 && n < sizeof ret->name && strchr("'.", name[n]))
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)n, name);
    for (size_t i = 0; ret->name[i]; i++)
        key[i] = ret->name[i] == '_' ? '-' : (char)tolower((unsigned char)ret->name[i]);
    const struct import_name *found = import_name_find(key);
    if (found)
        snprintf(ret->name, sizeof ret->name, "%s", found->package);
    ret->is_known = found != NULL;
    return true;
}

// For the tools of other servers; exec/exec_hint.c says it for our own interfaces.
static void hint_package(const struct run *r, struct result *res)
{
    struct missing_package p;
    if (!result_missing_package(r, res, &p))
        return;
    const char *name = p.name[0] ? p.name : "NAME";
    snprintf(
        res->hint, sizeof res->hint,
        "if the name is right, install the package that has it: the tool install_package (MCP), "
        "POST /api/v1/environments/base/packages (REST), or 'constrictor env install base %s' "
        "and 'run --package %s' (command line)",
        name, name);
}

// os.openpty(), and what the module pty makes of its failure.
static bool wants_terminal(const struct run *r, const struct result *res)
{
    json_t *error = json_object_get(r->result, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *line = json_string_value(json_object_get(error, "code_line"));
    return res->verdict == VERDICT_ERROR && message && line && strstr(line, "pty") &&
           (strcmp(message, "[Errno 2] No such file or directory") == 0 ||
            strcmp(message, "out of pty devices") == 0);
}

static void set_hint(const struct run *r, struct result *res)
{
    char value[32];
    const struct run_request *q = &r->request;
    switch (res->limit) {
    case LIMIT_NONE:
        if (res->verdict == VERDICT_DENIED && strcmp(res->phase, "security_check") == 0 &&
            !json_array_size(json_object_get(r->result, "violations")))
            snprintf(res->hint, sizeof res->hint,
                     "nothing ran: the policy of this run cannot be applied here, and the error "
                     "says why");
        else if (res->verdict == VERDICT_DENIED && strcmp(res->phase, "security_check") == 0)
            snprintf(res->hint, sizeof res->hint,
                     "nothing ran: the policy of this run does not allow the code; change what "
                     "'violations' names, or ask for another policy (the policy only guides code: "
                     "the box isolates the code with any policy)");
        else if (res->verdict == VERDICT_DENIED)
            snprintf(
                res->hint, sizeof res->hint,
                "the code called the kernel in a way that boxes do not allow (32-bit or x32 system "
                "calls); use 64-bit programs and libraries");
        else if (res->verdict == VERDICT_OUT_OF_MEMORY)
            snprintf(res->hint, sizeof res->hint,
                     "the machine, or the container around the server, ran out of memory, and the "
                     "kernel ended the code; "
                     "work in smaller pieces, or ask the operator for more memory or fewer runs at "
                     "once");
        else if (res->verdict == VERDICT_LOST && r->ended.end == END_STALL)
            snprintf(res->hint, sizeof res->hint,
                     "the box was ended because it stalled the server; use fewer processes and "
                     "threads at once, and smaller mappings of memory");
        else if (res->verdict == VERDICT_LOST)
            snprintf(res->hint, sizeof res->hint, "the box was ended from outside; run it again");
        else if (res->signal)
            snprintf(res->hint, sizeof res->hint, "the code's process was ended by %s",
                     strsignal(res->signal));
        else if (wants_terminal(r, res))
            snprintf(res->hint, sizeof res->hint,
                     "boxes have no terminals, so os.openpty() and the module pty cannot work; "
                     "give the program pipes, as subprocess.run() does");
        else
            hint_package(r, res);
        return;
    case LIMIT_WALL:
        text_format_duration(q->wall_ms, value, sizeof value);
        snprintf(res->hint, sizeof res->hint,
                 "stopped after %s of wall time; do less at once, or allow more time", value);
        return;
    case LIMIT_CPU:
        text_format_duration(q->cpu_ms, value, sizeof value);
        snprintf(res->hint, sizeof res->hint,
                 "stopped after %s of processor time; do less at once, or allow more", value);
        return;
    case LIMIT_MEMORY:
        text_format_size(q->limits.memory_bytes, value, sizeof value);
        snprintf(
            res->hint, sizeof res->hint,
            "needed more than %s of memory (files in scratch, file locks and buffers of sockets "
            "count too); work in smaller pieces, or allow more",
            value);
        return;
    case LIMIT_PROCESSES:
        snprintf(res->hint, sizeof res->hint,
                 "more than %u processes and threads at once; use fewer workers, or allow more",
                 q->limits.processes);
        return;
    case LIMIT_SCRATCH:
        text_format_size(q->limits.scratch_bytes, value, sizeof value);
        snprintf(res->hint, sizeof res->hint,
                 "/mnt/data, /tmp and /dev/shm hold %s together; delete files, or allow more",
                 value);
        return;
    case LIMIT_INODES:
        snprintf(res->hint, sizeof res->hint,
                 "at most %u files and folders; write fewer, or allow more", q->limits.inodes);
        return;
    case LIMIT_FILES:
        snprintf(res->hint, sizeof res->hint,
                 "at most %u open files per process; close some, or allow more",
                 q->limits.open_files);
        return;
    case LIMIT_FILE_SIZE:
        text_format_size(q->limits.file_bytes, value, sizeof value);
        snprintf(res->hint, sizeof res->hint,
                 "one file may hold at most %s; split it, or allow more", value);
        return;
    case LIMIT_OUTPUT:
        text_format_size(q->output_bytes, value, sizeof value);
        snprintf(res->hint, sizeof res->hint,
                 "printed more than %s; print less, or write to a file in /mnt/data", value);
        return;
    case LIMIT_MAX: return;
    }
}

void result_judge(const struct run *r, struct result *res)
{
    *res = (struct result){.phase = "execution"};
    enum wire_end end = r->has_ended ? (enum wire_end)r->ended.end : r->end;
    if (r->end == END_OUTPUT && (end == END_DONE || end == END_OWN))
        end = END_OUTPUT; // noticed after the box was released
    if (!r->request.session && r->soft == END_WALL && (end == END_DONE || end == END_OWN))
        end = END_WALL; // it was interrupted, and ended then
    if (r->ended.usage.memory_hits)
        end = END_MEMORY; // even if another limit was noticed first
    switch (end) {
    case END_OWN:
        // The box of a run that answered may exit before the gate releases it.
        if (r->result)
            judge_result(r, res);
        else
            judge_exit(r, res);
        break;
    case END_DONE: judge_result(r, res); break;
    case END_WALL: judge_timeout(r, res, VERDICT_TIMEOUT_WALL, LIMIT_WALL); break;
    case END_CPU: judge_timeout(r, res, VERDICT_TIMEOUT_CPU, LIMIT_CPU); break;
    case END_OUTPUT:
        res->verdict = VERDICT_OUTPUT_LIMIT;
        res->limit = LIMIT_OUTPUT;
        break;
    case END_CANCELLED: res->verdict = VERDICT_CANCELLED; break;
    case END_MEMORY:
        res->verdict = VERDICT_OUT_OF_MEMORY;
        res->limit = LIMIT_MEMORY;
        break;
    case END_PROCESSES:
        res->verdict = VERDICT_TOO_MANY_PROCESSES;
        res->limit = LIMIT_PROCESSES;
        break;
    case END_STALL:
    case END_PROTOCOL:
    case END_MAX: res->verdict = VERDICT_LOST; break;
    }
    set_hint(r, res);
}

// ---- the object ---------------------------------------------------------------------------------

static json_t *text_of(const struct run *r, enum run_stream stream)
{
    struct evbuffer *buffer = r->output[stream];
    size_t n = r->output_lent ? 0 : evbuffer_get_length(buffer), clean = 0;
    const char *data = n ? (const char *)evbuffer_pullup(buffer, -1) : "";
    if (!data)
        return NULL; // no memory to join its parts
    if (utf8_valid_length(data, n) == n)
        return json_stringn_nocheck(data, n);
    _cleanup_free_ char *copy = utf8_clean(data, n, &clean);
    return copy ? json_stringn_nocheck(copy, clean) : NULL;
}

static json_t *milliseconds(uint64_t us)
{
    return us == UINT64_MAX ? json_null() : json_real((double)us / 1000.0);
}

static json_t *count(uint64_t n)
{
    return n == UINT64_MAX ? json_null() : json_integer((json_int_t)n);
}

static json_t *usage_json(const struct run *r)
{
    const struct wire_usage *u = &r->ended.usage;
    uint64_t box = r->t_box_us ? r->t_box_us : r->t_end_us;
    const struct {
        const char *name;
        json_t *value;
    } fields[] = {
        {"wall_ms", milliseconds(r->t_end_us - box)},
        {"queue_ms", milliseconds(r->parked ? box - r->t_begin_us : 0)},
        {"start_ms", milliseconds(r->parked ? 0 : box - r->t_begin_us)},
        {"cpu_user_ms", milliseconds(u->cpu_user_us)},
        {"cpu_system_ms", milliseconds(u->cpu_system_us)},
        {"peak_memory_bytes", count(u->peak_memory_bytes)},
        {"processes", count(u->peak_processes)},
        {"output_bytes", count(r->output_total[0] + r->output_total[1])},
    };
    json_t *o = json_object();
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        failed |= json_object_set_new_nocheck(o, fields[i].name, fields[i].value);
    return json_whole(o, failed);
}

static json_t *limit_json(const struct run *r, enum limit limit)
{
    const struct wire_limits *l = &r->request.limits;
    const struct {
        const char *name, *unit;
        uint64_t value;
    } table[LIMIT_MAX] = {
        [LIMIT_WALL] = {"wall", "ms", r->request.wall_ms},
        [LIMIT_CPU] = {"cpu", "ms", r->request.cpu_ms},
        [LIMIT_MEMORY] = {"memory", "bytes", l->memory_bytes},
        [LIMIT_PROCESSES] = {"processes", "processes", l->processes},
        [LIMIT_SCRATCH] = {"scratch", "bytes", l->scratch_bytes},
        [LIMIT_INODES] = {"inodes", "files", l->inodes},
        [LIMIT_FILES] = {"files", "open files", l->open_files},
        [LIMIT_FILE_SIZE] = {"file-size", "bytes", l->file_bytes},
        [LIMIT_OUTPUT] = {"output", "bytes", r->request.output_bytes},
    };
    if (limit == LIMIT_NONE)
        return json_null();
    return json_pack("{s:s, s:I, s:s}", "name", table[limit].name, "value",
                     (json_int_t)table[limit].value, "unit", table[limit].unit);
}

static json_t *truncated_json(const struct run *r, enum verdict verdict)
{
    static const char *const names[RUN_STREAMS] = {"stdout", "stderr"};
    json_t *o = json_object();
    for (int i = 0; i < RUN_STREAMS && (verdict == VERDICT_OUTPUT_LIMIT || r->output_cut); i++)
        (void)json_object_set_new(o, names[i],
                                  json_pack("{s:I, s:I}", "kept",
                                            (json_int_t)evbuffer_get_length(r->output[i]), "total",
                                            (json_int_t)r->output_total[i]));
    return o;
}

json_t *result_interpreter(const struct keeper_facts *facts)
{
    json_auto_t *report = json_loads(facts->zygote_report, 0, NULL);
    char python[PATH_MAX], version[sizeof facts->interp->version];
    snprintf(python, sizeof python, "%s", facts->interp->executable);
    snprintf(version, sizeof version, "%s", facts->interp->version);
    text_sanitize(python); // a path is bytes, JSON wants text
    text_sanitize(version);
    json_t *o = json_pack("{s:s, s:s}", "python", python, "version", version);
    json_t *loaded = json_object_get(report, "preloaded"), *bad = json_object_get(report, "failed");
    int failed = json_object_set_new(o, "preloaded",
                                     json_is_array(loaded) ? json_incref(loaded) : json_array()) |
                 json_object_set_new(o, "preload_failed",
                                     json_is_array(bad) ? json_incref(bad) : json_array());
    return json_whole(o, failed);
}

enum { VALUE_DEPTH_MAX = 64 }; // the runner sends no more than 32

// SECURITY: the length of the text grows with depth times items, so depth is bounded before
// anything is printed.
bool result_is_shallow(json_t *value, int depth)
{
    size_t i;
    const char *key;
    json_t *item;
    if (!json_is_array(value) && !json_is_object(value))
        return true;
    if (depth == 0)
        return false;
    json_array_foreach (value, i, item)
        if (!result_is_shallow(item, depth - 1))
            return false;
    json_object_foreach (value, key, item)
        if (!result_is_shallow(item, depth - 1))
            return false;
    return true;
}

static json_t *take_error(json_t *error)
{
    static const struct {
        const char *name;
        json_type type;
        bool needed;
    } fields[] = {
        {"type", JSON_STRING, true},       {"message", JSON_STRING, true},
        {"line", JSON_INTEGER, false},     {"column", JSON_INTEGER, false},
        {"code_line", JSON_STRING, false}, {"traceback", JSON_ARRAY, true},
        {"text", JSON_STRING, false},      {"errno", JSON_INTEGER, false},
    };
    if (!json_is_object(error))
        return json_null();
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(error, fields[i].name);
        bool fits = value && json_typeof(value) == fields[i].type && result_is_shallow(value, 3);
        // Clients rely on these members.
        json_t *instead = !fields[i].needed              ? json_null()
                          : fields[i].type == JSON_ARRAY ? json_array()
                                                         : json_string("unknown");
        json_t *taken = fits ? json_incref(value) : json_incref(instead);
        json_decref(instead);
        if (json_object_set_new(o, fields[i].name, taken) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

struct field {
    const char *name;
    json_type type;
};

// The fields of a table that are there with the right type; anything else is dropped.  New.
static json_t *take_fields(json_t *from, const struct field *fields, size_t count)
{
    json_t *o = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, fields[i].name);
        if (value && json_typeof(value) == fields[i].type && result_is_shallow(value, 2) &&
            json_object_set(o, fields[i].name, value) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

enum { VARIABLES_MAX = 50, SHAPE_MAX = 16, VIOLATIONS_MAX = 100 };

// Names that the run added, changed, removed.
static json_t *take_variables(json_t *from)
{
    static const struct field fields[] = {{"name", JSON_STRING},    {"change", JSON_STRING},
                                          {"type", JSON_STRING},    {"shape", JSON_ARRAY},
                                          {"length", JSON_INTEGER}, {"text", JSON_STRING}};
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach (from, i, item) {
        if (i >= VARIABLES_MAX)
            break;
        json_t *o = json_is_object(item) ? take_fields(item, fields, ARRAY_LEN(fields)) : NULL;
        json_t *shape = json_object_get(o, "shape"), *n;
        size_t k;
        bool fits = json_array_size(shape) <= SHAPE_MAX;
        json_array_foreach (shape, k, n)
            fits = fits && json_is_integer(n);
        if (!fits)
            (void)json_object_del(o, "shape");
        if (json_object_get(o, "name") && json_object_get(o, "change"))
            (void)json_array_append(list, o);
        json_decref(o);
    }
    return list;
}

static int take_state(json_t *object, json_t *report)
{
    static const struct field fields[] = {{"state", JSON_STRING},    {"reason", JSON_STRING},
                                          {"name", JSON_STRING},     {"kept", JSON_INTEGER},
                                          {"dropped", JSON_INTEGER}, {"available", JSON_INTEGER}};
    json_t *checkpoint = json_object_get(report, "checkpoint"),
           *count = json_object_get(report, "execution_count"),
           *omitted = json_object_get(report, "variables_omitted");
    int failed = json_object_set_new(object, "variables",
                                     take_variables(json_object_get(report, "variables")));
    if (json_is_integer(omitted))
        failed |= json_object_set(object, "variables_omitted", omitted);
    if (json_is_integer(count))
        failed |= json_object_set(object, "execution_count", count);
    if (json_is_object(checkpoint))
        failed |= json_object_set_new(object, "checkpoint",
                                      take_fields(checkpoint, fields, ARRAY_LEN(fields)));
    return failed;
}

// What the policy refused in code that did not run.
static int take_violations(json_t *object, json_t *report)
{
    static const struct field fields[] = {{"kind", JSON_STRING},   {"target", JSON_STRING},
                                          {"line", JSON_INTEGER},  {"column", JSON_INTEGER},
                                          {"reason", JSON_STRING}, {"hint", JSON_STRING},
                                          {"layer", JSON_STRING}};
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach (json_object_get(report, "violations"), i, item) {
        json_t *o = i < VIOLATIONS_MAX && json_is_object(item)
                        ? take_fields(item, fields, ARRAY_LEN(fields))
                        : NULL;
        if (json_object_get(o, "kind") && json_object_get(o, "target") &&
            json_object_get(o, "reason"))
            (void)json_array_append(list, o);
        json_decref(o);
    }
    return json_object_set_new(object, "violations", list);
}

// Fields of the code's own report, taken over by name and type; anything else is dropped.
static int take_over(json_t *object, const struct run *r)
{
    json_t *value = json_object_get(r->result, "result");
    json_t *plain = json_object_get(r->result, "result_json");
    int failed =
        json_object_set(object, "result", json_is_string(value) ? value : json_null()) |
        json_object_set_new(object, "error", take_error(json_object_get(r->result, "error")));
    if (plain && result_is_shallow(plain, VALUE_DEPTH_MAX))
        failed |= json_object_set(object, "result_json", plain);
    return failed | take_state(object, r->result) | display_take(object, r->result);
}

// The same in every result, so made once: making it takes a third of the time of a short run.
static json_t *shared_isolation(struct gate *g, const struct wire_limits *limits)
{
    if (limits->isolation == ISOLATION_GVISOR)
        return result_sandbox(g->facts->caps);
    if (!g->isolation) {
        g->isolation = result_isolation(g->facts->caps);
        dump_share(g->isolation);
    }
    return json_incref(g->isolation);
}

static json_t *shared_interpreter(struct gate *g)
{
    if (!g->interpreter) {
        g->interpreter = result_interpreter(g->facts);
        dump_share(g->interpreter);
    }
    return json_incref(g->interpreter);
}

// Not json_pack(), which reads a format and checks each name: every run comes through here.
static json_t *verdict_json(const struct run *r, const struct result *res, const char *id)
{
    json_t *o = json_object();
    int failed =
        json_object_set_new_nocheck(o, "execution_id", json_string(id)) |
        json_object_set_new_nocheck(o, "verdict", json_string(verdicts[res->verdict].name)) |
        json_object_set_new_nocheck(o, "success", json_boolean(res->verdict == VERDICT_OK)) |
        json_object_set_new_nocheck(
            o, "exit_code", res->has_exit_code ? json_integer(res->exit_code) : json_null()) |
        json_object_set_new_nocheck(o, "signal",
                                    res->signal ? json_integer(res->signal) : json_null()) |
        json_object_set_new_nocheck(o, "phase", json_string(res->phase)) |
        json_object_set_new_nocheck(o, "stdout", text_of(r, RUN_STDOUT)) |
        json_object_set_new_nocheck(o, "stderr", text_of(r, RUN_STDERR));
    return json_whole(o, failed);
}

json_t *result_json(const struct run *r, const struct result *res, const char *id)
{
    json_t *o = verdict_json(r, res, id);
    if (!o)
        return NULL;
    int failed = take_over(o, r);
    if (strcmp(res->phase, "security_check") == 0)
        failed |= take_violations(o, r->result);
    failed |= json_object_set_new(o, "usage", usage_json(r));
    failed |= events_add(o, r);
    failed |= json_object_set_new(o, "isolation", shared_isolation(r->gate, &r->request.limits));
    failed |= json_object_set_new(o, "truncated", truncated_json(r, res->verdict));
    failed |= json_object_set_new(o, "limit", limit_json(r, res->limit));
    failed |= json_object_set_new(o, "environment", shared_interpreter(r->gate));
    failed |= json_object_set_new(o, "hint", res->hint[0] ? json_string(res->hint) : json_null());
    return json_whole(o, failed);
}
