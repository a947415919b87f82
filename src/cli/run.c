// SPDX-License-Identifier: Apache-2.0
//
// run: `constrictor run`.  cmd_run() works in the first process: it reads the source with the rights
// of the user, then hands over to the keeper; run_gate() is the gate's side, with one client: this
// terminal.

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/once.h"
#include "gate/display.h"
#include "gate/gate.h"
#include "gate/result.h"
#include "gate/run.h"
#include "gate/source.h"
#include "keeper/keeper.h"

struct job {
    const struct config *config;
    char *code;
    size_t code_length;
    char *meta;
    struct once once;
    struct result result;
};

// ---- the source --------------------------------------------------------------------------------------

static int read_source(int fd, const char *name, uint64_t max, struct job *job, struct err *e)
{
    size_t room = 65536;
    job->code = malloc(room);
    for (;;) {
        if (!job->code)
            return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", name);
        ssize_t n = read(fd, job->code + job->code_length, room - job->code_length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_SOURCE_UNREADABLE, errno,
                           "give a file of Python source, or '-' for stdin", "read '%s'", name);
        if (n == 0)
            return 0;
        job->code_length += (size_t)n;
        if (job->code_length > max)
            return source_too_large(name, max, e);
        if (job->code_length == room) {
            room *= 2;
            char *more = realloc(job->code, room);
            if (!more)
                return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", name);
            job->code = more;
        }
    }
}

static int open_source(const char *path, struct err *e)
{
    static const char hint[] = "give a file of Python source, '-c CODE', or '-' for stdin";
    struct stat st;
    // O_NONBLOCK: a pipe without a writer must not hold us up before we know that it is one.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(e, ERR_SOURCE_UNREADABLE, errno, hint, "open '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_SOURCE_UNREADABLE, EISDIR, hint, "open '%s'", path);
    }
    (void)fd_set_nonblock(fd, false);
    return fd;
}

static int load_source(struct job *job, const struct config *c, char **argv, struct err *e)
{
    if (c->code) {
        job->code_length = strlen(c->code);
        job->code = strdup(c->code);
        if (!job->code)
            return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "copy the code");
        return source_check(job->code, job->code_length, "-c", c->source_bytes, e);
    }
    bool from_stdin = strcmp(argv[0], "-") == 0;
    const char *name = from_stdin ? "stdin" : argv[0];
    int fd = from_stdin ? STDIN_FILENO : open_source(argv[0], e);
    if (fd < 0)
        return fd;
    int r = read_source(fd, name, c->source_bytes, job, e);
    if (!from_stdin)
        (void)close(fd);
    return r < 0 ? r : source_check(job->code, job->code_length, name, c->source_bytes, e);
}

static int make_meta(struct job *job, const struct config *c, int argc, char **argv, struct err *e)
{
    json_t *list = json_array();
    for (int i = 0; i < argc; i++) {
        size_t n = 0;
        _cleanup_free_ char *clean = utf8_clean(argv[i], strlen(argv[i]), &n);
        (void)json_array_append_new(list, json_stringn_nocheck(clean ? clean : "", n));
    }
    const char *name = c->code ? "<code>" : strcmp(argv[0], "-") == 0 ? "<stdin>" : argv[0];
    job->meta = source_meta(name, list);
    return job->meta ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the run");
}

// ---- the gate's side -----------------------------------------------------------------------------------

// Streams through to our own stdout and stderr.  A closed pipe there ends the run.
static int on_output(struct run *r, enum run_stream stream, struct evbuffer *data)
{
    (void)r;
    int fd = stream == RUN_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    // A reader that is slow must not hold up the clock: what it does not take now waits in the buffer,
    // which the output limit bounds, and PIPE_BUF bytes are what a ready pipe takes at once.
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    while (evbuffer_get_length(data) > 0 && poll(&ready, 1, 0) > 0) {
        int n = evbuffer_write_atmost(data, fd, PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
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
                errno != EAGAIN)
                break;
    }
}

// A preload that is missing is no reason to fail, but somebody asked for it.
static void warn_of_preloads(const struct keeper_facts *facts)
{
    json_t *report = json_loads(facts->zygote_report, 0, NULL), *entry;
    size_t i;
    json_array_foreach(json_object_get(report, "failed"), i, entry)
        fprintf(stderr, "constrictor: warning: preload '%s' failed: %s\n",
                json_string_value(json_object_get(entry, "name")),
                json_string_value(json_object_get(entry, "error")));
    json_decref(report);
}

// Pictures are named, not printed.  Text that display() was given is output.
static void print_display(const struct run *r)
{
    json_t *o = json_object(), *item;
    char what[128];
    size_t i;
    if (display_take(o, r->result) == 0)
        json_array_foreach(json_object_get(o, "display"), i, item)
        {
            struct picture p;
            json_t *text = json_object_get(item, "text/plain");
            if (display_picture(item, &p)) {
                display_describe(&p, what, sizeof what);
                fprintf(stderr, "constrictor: image %zu: %s; use --json to get it\n", i + 1, what);
            } else if (text) {
                (void)fwrite(json_string_value(text), 1, json_string_length(text), stdout);
                (void)putchar('\n');
            }
        }
    json_t *omitted = json_object_get(o, "display_omitted");
    if (omitted)
        fprintf(stderr, "constrictor: %lld more left out: too many or too large\n",
                (long long)json_integer_value(omitted));
    json_decref(o);
}

static void print_text(const struct job *job)
{
    const struct result *res = &job->result;
    json_t *error = json_object_get(job->once.run->result, "error");
    print_display(job->once.run);
    (void)fflush(stdout); // before what follows on stderr
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

static int finish(struct job *job)
{
    struct run *r = job->once.run;
    if (r->error.message[0])
        return cli_fail(&r->error, job->config->json);
    result_judge(r, &job->result);
    if (job->once.interrupted && job->result.verdict == VERDICT_ERROR)
        job->result.verdict = VERDICT_CANCELLED;
    if (job->config->json) {
        json_t *o = result_json(r, &job->result);
        if (!o || json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
            struct err e;
            err_set(&e, ERR_SYSTEM, errno, NULL, "write the result");
            return cli_fail(&e, false);
        }
        json_decref(o);
        int failed = cli_finish();
        if (failed)
            return failed;
    } else {
        flush_output(r);
        print_text(job);
    }
    return result_exit_status(&job->result);
}

static int run_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct job *job = argument;
    struct err e;
    job->once = (struct once){
        .config = job->config,
        .code = job->code,
        .code_length = job->code_length,
        .meta = job->meta,
        .on_output = job->config->json ? NULL : on_output,
    };
    if (!job->config->json)
        warn_of_preloads(facts);
    if (once_run(&job->once, sock, facts, &e) < 0)
        return cli_fail(&e, job->config->json);
    return finish(job); // no tidying: the process ends here
}

int cmd_run(const struct config *c, int argc, char **argv)
{
    static struct job job;
    struct err e;
    int status = 0;
    job.config = c;
    if (load_source(&job, c, argv, &e) < 0 || make_meta(&job, c, argc, argv, &e) < 0)
        return cli_fail(&e, c->json);
    // One run: one box, with just these limits, and no more than it needs in the interpreter.
    static struct config one;
    one = *c;
    one.stock = 1;
    job.config = &one;
    struct keeper_plan plan = {.config = &one, .cold = true, .gate = run_gate, .argument = &job};
    int r = keeper_run(&plan, &status, &e);
    free(job.code);
    free(job.meta);
    if (r == 0)
        return status;
    caps_explain(&one, &e);
    return cli_fail(&e, c->json);
}
