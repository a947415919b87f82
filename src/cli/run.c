// SPDX-License-Identifier: Apache-2.0
//
// run: `constrictor run`.  cmd_run() works in the first process: it reads the source with the
// rights of the user, then hands over to the keeper; run_gate() is the gate's side, with one
// client: this terminal.  What the code made is shown there (terminal.c) and saved (saver.c).

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/load_source.h"
#include "cli/network.h"
#include "cli/saver.h"
#include "cli/single_run.h"
#include "cli/terminal.h"
#include "keeper/keeper.h"
#include "run/display.h"
#include "run/events.h"
#include "run/result.h"
#include "run/source.h"
#include "json/encode.h"

struct job {
    const struct config *config;
    char *code;
    size_t code_length;
    char *filename; // as tracebacks show it
    json_t *argv;
    struct saver saver;
    struct terminal terminal;

    // In the gate.
    struct single_run single;
    json_t *files;    // path -> what became of it; null: it is the script
    json_t *pictures; // entries for the object's "files"
    unsigned left;    // files that the code left behind
    unsigned unsaved; // what could not be saved
    // The file that is on its way: it is compared with the script, saved, or neither.
    char file[SCRATCH_PATH_MAX + 1];
    uint64_t file_size;
    bool comparing, saving;
};

// ---- the source ---------------------------------------------------------------------------------

static int read_source(struct job *job, const struct config *c, char **argv, struct err *e)
{
    struct source_text in;
    int r = load_source(c, argv[0], &in, e);
    job->code = in.text;
    job->code_length = in.length;
    return r < 0 ? r : source_check(job->code, job->code_length, in.name, c->source_bytes, e);
}

// What tracebacks call it, and sys.argv.
static int name_source(struct job *job, const struct config *c, int argc, char **argv,
                       struct err *e)
{
    job->argv = json_array();
    for (int i = 0; i < argc; i++) {
        size_t n = 0;
        _cleanup_free_ char *clean = utf8_clean(argv[i], strlen(argv[i]), &n);
        (void)json_array_append_new(job->argv, json_stringn_nocheck(clean ? clean : "", n));
    }
    job->filename = strdup(c->code ? "<code>" : strcmp(argv[0], "-") == 0 ? "<stdin>" : argv[0]);
    return job->argv && job->filename ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the run");
}

// ---- the gate's side ----------------------------------------------------------------------------

// Why output of the code could not be passed on, which ends the run; 0: it could.
static int unwritten;

// Streams through to our own stdout and stderr.  A closed pipe there ends the run.
static int on_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
{
    (void)x;
    int fd = stream == RUN_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    // A reader that is slow must not hold up the clock: what it does not take now waits in the
    // buffer, which the output limit bounds, and PIPE_BUF bytes are what a ready pipe takes at
    // once.
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    while (evbuffer_get_length(data) > 0 && poll(&ready, 1, 0) > 0) {
        int n = evbuffer_write_atmost(data, fd, PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            unwritten = errno;
            return -1;
        }
    }
    return 0;
}

// The rest, however slow the reader is: the run is over.
static void flush_output(struct run *r)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        int fd = i == RUN_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        while (evbuffer_get_length(r->output[i]) > 0 && poll(&ready, 1, -1) > 0)
            if (evbuffer_write_atmost(r->output[i], fd, PIPE_BUF) < 0 && errno != EINTR &&
                errno != EAGAIN) {
                unwritten = errno;
                break;
            }
    }
}

// A preload that is missing is no reason to fail, but somebody asked for it.
static void warn_of_preloads(const struct keeper_facts *facts)
{
    json_t *report = json_loads(facts->zygote_report, 0, NULL), *entry;
    size_t i;
    json_array_foreach (json_object_get(report, "failed"), i, entry)
        fprintf(stderr, "constrictor: warning: preload '%s' failed: %s\n",
                json_string_value(json_object_get(entry, "name")),
                json_string_value(json_object_get(entry, "error")));
    json_decref(report);
}

// ---- files --------------------------------------------------------------------------------------

// The only descriptor of the plan; gate_enter() has given it another number.
static int saver_of(const struct job *job)
{
    return job->single.gate.own.keep_count ? job->single.gate.own.keep[0] : -1;
}

// {"saved": place} or {"error": why}.
static json_t *outcome(struct job *job, const struct saver_answer *a)
{
    char place[SAVER_PATH_MAX];
    if (!a->ok) {
        job->unsaved++;
        return json_pack("{s:s}", "error", a->error);
    }
    saver_path(job->config->out, a->saved, place);
    size_t n = 0;
    _cleanup_free_ char *clean = utf8_clean(place, strlen(place), &n);
    return json_pack("{s:o}", "saved", json_stringn_nocheck(clean ? clean : "", clean ? n : 0));
}

// Can it be the copy of the script that the runner made, as it was?
static bool may_be_script(const struct job *job, const struct scratch_file *file)
{
    const char *slash = strrchr(job->filename, '/');
    return job->filename[0] != '<' && strcmp(file->path, slash ? slash + 1 : job->filename) == 0 &&
           file->size == job->code_length;
}

static void begin_saving(struct job *job)
{
    job->left++;
    job->saving = job->config->out[0];
    if (job->saving)
        saver_begin(saver_of(job), job->file, job->file_size);
}

// It is not the script after all: the bytes before `offset`, which were the same, are saved from
// ours.
static void stop_comparing(struct job *job, uint64_t offset)
{
    job->comparing = false;
    begin_saving(job);
    if (job->saving)
        saver_data(saver_of(job), job->code, (size_t)offset, 0);
}

static int on_file(struct exec *x, const struct scratch_file *file, struct err *e)
{
    struct single_run *single = x->request.argument;
    struct job *job = single->argument;
    (void)e;
    snprintf(job->file, sizeof job->file, "%s", file->path);
    job->file_size = file->size;
    job->saving = false;
    job->comparing = may_be_script(job, file);
    if (!job->comparing)
        begin_saving(job);
    return !job->comparing && !job->saving;
}

static int on_file_data(struct exec *x, const void *data, size_t length, uint64_t offset,
                        struct err *e)
{
    struct single_run *single = x->request.argument;
    struct job *job = single->argument;
    (void)e;
    if (job->comparing && memcmp(job->code + offset, data, length) != 0)
        stop_comparing(job, offset);
    if (job->saving)
        saver_data(saver_of(job), data, length, offset);
    // The saver has refused a file that is larger than everything it may save, and says so at
    // the end.
    bool hopeless = job->file_size > job->config->scratch_bytes + DISPLAY_BYTES_MAX;
    return hopeless || (!job->comparing && !job->saving);
}

static void on_file_end(struct exec *x, uint64_t size, const struct err *error)
{
    struct single_run *single = x->request.argument;
    struct job *job = single->argument;
    struct saver_answer a;
    if (job->comparing && !error && size < job->code_length) // it became shorter
        stop_comparing(job, size);
    if (job->comparing && !error) {
        (void)json_object_set_new(job->files, job->file, json_null());
    } else if (job->saving && error) {
        saver_drop(saver_of(job));
    } else if (job->saving) {
        saver_finish(saver_of(job), size, &a);
        (void)json_object_set_new(job->files, job->file, outcome(job, &a));
    }
}

static const struct exec_taker taker = {.begin = on_file, .data = on_file_data, .end = on_file_end};

// What became of each file goes to it in the object; the script is nothing that the code made.
static void mark_files(const struct job *job, json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *entry = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(entry, "path"));
        json_t *found = path ? json_object_get(job->files, path) : NULL;
        if (json_is_null(found))
            (void)json_array_remove(list, i);
        else if (found)
            (void)json_object_update(entry, found);
    }
}

// ---- pictures -----------------------------------------------------------------------------------

static const struct {
    const char *mime_type, *extension;
} extensions[] = {{"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}};

static void save_picture(struct job *job, size_t item, unsigned number, const char *mime_type,
                         const void *data, size_t size)
{
    struct saver_answer a;
    char name[32];
    const char *extension = "bin";
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcmp(mime_type, extensions[i].mime_type) == 0)
            extension = extensions[i].extension;
    snprintf(name, sizeof name, "image-%u.%s", number, extension);
    saver_save_bytes(saver_of(job), name, data, size, &a);
    json_t *entry = json_pack("{s:s, s:I, s:s, s:I}", "path", name, "size", (json_int_t)size,
                              "mime_type", mime_type, "display", (json_int_t)item);
    json_t *more = outcome(job, &a);
    (void)json_object_update(entry, more);
    json_decref(more);
    (void)json_array_append_new(job->pictures, entry);
}

// The picture of an item of o's display, in the size that the code made it.
static bool save_item(struct job *job, json_t *o, size_t i, unsigned number)
{
    struct picture p;
    json_t *original = display_original(o, i),
           *item = json_array_get(json_object_get(o, "display"), i);
    if ((original && display_picture(original, &p)) || display_picture(item, &p)) {
        size_t size = 0;
        _cleanup_free_ unsigned char *data = decode_base64(p.base64, strlen(p.base64), &size);
        if (data)
            save_picture(job, i, number, p.mime_type, data, size);
        return true;
    }
    json_t *svg = json_object_get(item, "image/svg+xml");
    if (svg)
        save_picture(job, i, number, "image/svg+xml", json_string_value(svg),
                     json_string_length(svg));
    return svg != NULL;
}

static void save_pictures(struct job *job, json_t *o)
{
    unsigned number = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(o, "display")); i++)
        number += job->config->out[0] && save_item(job, o, i, number + 1);
}

static void show_picture(struct job *job, const struct picture *p, unsigned number)
{
    char what[128];
    if (terminal_show(&job->terminal, p, stdout) || job->config->out[0])
        return;
    display_describe(p, what, sizeof what);
    (void)fflush(stdout);
    fprintf(stderr, "constrictor: image %u: %s; use --out DIR or --json to get it\n", number, what);
    if (job->config->images == IMAGES_SIXEL && !terminal_has_sixel() && number == 1)
        fprintf(stderr, "constrictor: this program was built without libsixel and libpng\n");
}

// Pictures are shown where the terminal can, else named.  Text that display() was given is output.
static void print_display(struct job *job, json_t *o)
{
    json_t *item;
    size_t i;
    unsigned number = 0;
    json_array_foreach (json_object_get(o, "display"), i, item) {
        struct picture p;
        json_t *text = json_object_get(item, "text/plain");
        if (display_picture(item, &p)) {
            show_picture(job, &p, ++number);
        } else if (text) {
            (void)fwrite(json_string_value(text), 1, json_string_length(text), stdout);
            (void)putchar('\n');
        }
    }
    (void)fflush(stdout); // before what follows on stderr
    json_t *omitted = json_object_get(o, "display_omitted");
    if (omitted)
        fprintf(stderr, "constrictor: %lld more left out: too many or too large\n",
                (long long)json_integer_value(omitted));
}

// ---- the end ------------------------------------------------------------------------------------

static void print_error(const struct job *job)
{
    const struct result *res = &job->single.exec->result;
    json_t *error = json_object_get(job->single.exec->run->result, "error");
    const char *text = json_string_value(json_object_get(error, "text"));
    // `reported`: the code's own sys.excepthook has printed it already.
    if (text && !json_is_true(json_object_get(error, "reported"))) {
        fputs(text, stderr);
        if (text[0] && text[strlen(text) - 1] != '\n')
            fputc('\n', stderr);
    }
    if (res->verdict == VERDICT_OK || (res->verdict == VERDICT_ERROR && text && !res->hint[0]))
        return;
    if (res->verdict != VERDICT_ERROR || res->signal)
        fprintf(stderr, "constrictor: %s%s%s\n", result_verdict_name(res->verdict),
                res->hint[0] ? ": " : "", res->hint);
    else if (res->hint[0])
        fprintf(stderr, "constrictor: hint: %s\n", res->hint);
}

// What there is to say about files: what is missing, and how to get what there is.
static void print_files(const struct job *job, json_t *o)
{
    json_t *omitted = json_object_get(o, "files_omitted");
    const char *error = json_string_value(json_object_get(o, "files_error"));
    if (job->left && !job->config->out[0])
        fprintf(stderr, "constrictor: the code left %u file%s; use --out DIR to keep %s\n",
                job->left, job->left == 1 ? "" : "s", job->left == 1 ? "it" : "them");
    if (omitted)
        fprintf(stderr, "constrictor: %lld more files left out: %d are collected\n",
                (long long)json_integer_value(omitted), EXEC_FILES_MAX);
    if (error)
        fprintf(stderr, "constrictor: files: %s\n", error);
}

// What the code was kept from, once each; the exception, if there was one, may be about something
// else.
static void print_refusals(json_t *o)
{
    json_t *event, *omitted = json_object_get(o, "security_events_omitted");
    const char *why = json_string_value(json_object_get(o, "network_error")),
               *told = json_string_value(json_object_get(o, "hint"));
    size_t i;
    json_array_foreach (json_object_get(o, "security_events"), i, event) {
        char text[1024];
        events_describe(event, text, sizeof text);
        if (!told || !strstr(told, text))
            fprintf(stderr, "constrictor: %s\n", text);
    }
    if (omitted)
        fprintf(stderr, "constrictor: %lld more refusals left out\n",
                (long long)json_integer_value(omitted));
    if (why)
        fprintf(stderr, "constrictor: %s\n", why);
}

static int print_object(const struct job *job, json_t *o)
{
    json_t *files = json_object_get(o, "files");
    mark_files(job, files);
    (void)json_array_extend(files, job->pictures);
    if (json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
        struct err e;
        err_set(&e, ERR_SYSTEM, errno, NULL, "write the result");
        return cli_fail(&e, false);
    }
    return cli_finish();
}

static int finish(struct job *job)
{
    struct exec *x = job->single.exec;
    int failed = 0;
    if (x->error.message[0])
        return cli_fail(&x->error, job->config->json);
    if (job->single.interrupted && x->result.verdict == VERDICT_ERROR)
        x->result.verdict = VERDICT_CANCELLED;
    if (!job->config->json)
        flush_output(x->run);
    json_t *o = exec_json(x);
    if (!o) {
        struct err e;
        err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "make the result");
        return cli_fail(&e, job->config->json);
    }
    if (!job->config->json)
        print_display(job, o);
    save_pictures(job, o);
    if (job->config->json) {
        failed = print_object(job, o);
    } else {
        print_files(job, o);
        print_error(job);
        if (strcmp(x->result.phase, "security_check") != 0) // else that was the error
            print_refusals(o);
    }
    json_decref(o);
    if (unwritten && unwritten != EPIPE) { // a reader that has enough is no failure
        struct err e;
        err_set(&e, ERR_SYSTEM, unwritten, NULL, "pass on what the code printed");
        failed = cli_fail(&e, false);
    }
    int status = failed ? failed : result_exit_status(&x->result);
    // A script that wants its files must not go on as if they were there.
    return status == 0 && job->unsaved ? err_exit_status(ERR_OUT_FOLDER) : status;
}

static int run_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct job *job = argument;
    struct err e;
    job->files = json_object();
    job->pictures = json_array();
    // Field by field, for it is large, and all zeroes.
    struct single_run *o = &job->single;
    o->config = job->config;
    o->code = job->code;
    o->code_length = job->code_length;
    o->filename = job->filename;
    o->argv = TAKE_PTR(job->argv);
    o->packages = run_packages_needed(job->config, job->code, job->code_length);
    o->on_output = job->config->json ? NULL : on_output;
    o->taker = &taker;
    o->argument = job;
    if (!job->config->json)
        warn_of_preloads(facts);
    if (single_run(&job->single, sock, facts, &e) < 0)
        return cli_fail(&e, job->config->json);
    return finish(job); // no tidying: the process ends here
}

static int cmd_run(const struct config *c, int argc, char **argv)
{
    static struct job job;
    struct err e;
    int status = 0;
    job.config = c;
    if (network_check_config(c, c->json, &e) < 0 || read_source(&job, c, argv, &e) < 0 ||
        name_source(&job, c, argc, argv, &e) < 0 ||
        (c->out[0] && saver_start(&job.saver, c, &e) < 0))
        return cli_fail(&e, c->json);
    terminal_look(STDOUT_FILENO, c->json ? IMAGES_NONE : (enum terminal_images)c->images,
                  &job.terminal);
    // One run: one box, with just these limits, and no more than it needs in the interpreter.
    struct keeper_plan plan = {
        .config = c, .cold = true, .stock = 1, .gate = run_gate, .argument = &job};
    run_packages_add_to_plan(run_packages_needed(c, job.code, job.code_length), &plan);
    network_add_to_plan(&plan);
    if (job.saver.pid)
        plan.keep[plan.keep_count++] = job.saver.sock;
    int r = keeper_run(&plan, &status, &e);
    saver_end(&job.saver, r < 0);
    free(job.code);
    free(job.filename);
    json_decref(job.argv);
    if (r == 0)
        return status;
    caps_explain(c, &e);
    return cli_fail(&e, c->json);
}

const struct command command_run = {
    .name = "run",
    .section = SECTION_RUN,
    .summary = "Run Python code once, in a fresh box",
    .usage = "run [options] FILE [ARGS...]\n"
             "run [options] -c CODE [ARGS...]\n"
             "run [options] - [ARGS...]",
    .notes = "A file can list the packages it needs in a '# /// script' block (PEP 723).\n"
             "Exit status: that of the code (0, n after sys.exit(n), 1 after an exception,\n"
             "128+n after signal n); else\n"
             "  64 bad option or value      65 unusable source      66 unreadable source\n"
             "  69 no isolation or no interpreter                   70 internal error\n"
             "  73 cannot write to the folder of --out\n"
             "  121 too many processes      122 disk full           123 too much output\n"
             "  124 time limit              125 box lost            126 denied\n"
             "  130 cancelled               137 out of memory",
    .bit = CONFIG_RUN,
    .operands_min = 1,
    .operands_max = INT_MAX,
    .function = cmd_run,
};
