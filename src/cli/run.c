// SPDX-License-Identifier: Apache-2.0
//
// run: `constrictor run`.  cmd_run() reads the source in the first process, with the rights of the
// user, and starts the keeper.  run_gate() is the gate's side: it runs the code, prints the output
// and images to the terminal (terminal.c), and saves files (saver.c).

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
#include "cli/run_input.h"
#include "cli/saver.h"
#include "cli/single_run.h"
#include "cli/terminal.h"
#include "keeper/keeper.h"
#include "run/display.h"
#include "run/events.h"
#include "run/result.h"
#include "run/source.h"
#include "json/encode.h"

struct run_command {
    const struct config *config;
    char *code;
    size_t code_length;
    char *filename; // for tracebacks
    json_t *argv;
    json_t *env_vars;
    struct run_files input;
    struct saver saver;
    struct terminal terminal;

    // In the gate.
    struct single_run single;
    json_t *files;    // path -> {"saved"} or {"error"}; null: it is the script
    json_t *pictures; // entries for "files" of the result
    unsigned left;    // files that the code left
    unsigned unsaved; // files that could not be saved
    // The file being received: it is compared with the script, saved, or neither.
    char file[SCRATCH_PATH_MAX + 1];
    uint64_t file_size;
    bool comparing, saving;
};

// ---- the source ---------------------------------------------------------------------------------

static int read_source(struct run_command *cmd, const struct config *c, char **argv, struct err *e)
{
    struct source_text in;
    int r = load_source(c, argv[0], &in, e);
    cmd->code = in.text;
    cmd->code_length = in.length;
    return r < 0 ? r : source_check(cmd->code, cmd->code_length, in.name, c->source_bytes, e);
}

// Sets the name for tracebacks, and sys.argv.
static int name_source(struct run_command *cmd, const struct config *c, int argc, char **argv,
                       struct err *e)
{
    cmd->argv = json_array();
    for (int i = 0; i < argc; i++) {
        size_t n = 0;
        _cleanup_free_ char *clean = utf8_clean(argv[i], strlen(argv[i]), &n);
        (void)json_array_append_new(cmd->argv, json_stringn_nocheck(clean ? clean : "", n));
    }
    cmd->filename = strdup(c->code || c->module        ? "<code>"
                           : strcmp(argv[0], "-") == 0 ? "<stdin>"
                                                       : argv[0]);
    return cmd->argv && cmd->filename ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the run");
}

// ---- the gate's side ----------------------------------------------------------------------------

// The errno that kept output of the code from being written; it ends the run.  0: none.
static int unwritten;

// Copies output to our stdout and stderr.  A closed pipe ends the run.
static int on_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
{
    (void)x;
    int fd = stream == RUN_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    // A slow reader must not block the event loop and its timers: what it does not take stays in
    // the buffer, which the output limit bounds.  A ready pipe takes PIPE_BUF bytes at once.
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

// Writes the rest, however slow the reader is: the run is over.
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

// A failed preload does not fail the run, but the user asked for it.
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

// The saver's socket: the only descriptor of the plan; gate_enter() renumbers it.
static int saver_of(const struct run_command *cmd)
{
    return cmd->single.gate.own.keep_count ? cmd->single.gate.own.keep[0] : -1;
}

// {"saved": path} or {"error": reason}.
static json_t *outcome(struct run_command *cmd, const struct saver_answer *a)
{
    char path[SAVER_PATH_MAX];
    if (!a->ok) {
        cmd->unsaved++;
        return json_pack("{s:s}", "error", a->error);
    }
    saver_path(cmd->config->out, a->saved, path);
    size_t n = 0;
    _cleanup_free_ char *clean = utf8_clean(path, strlen(path), &n);
    return json_pack("{s:o}", "saved", json_stringn_nocheck(clean ? clean : "", clean ? n : 0));
}

// Whether it may be the unchanged copy of the script that the runner made.
static bool may_be_script(const struct run_command *cmd, const struct scratch_file *file)
{
    const char *slash = strrchr(cmd->filename, '/');
    return cmd->filename[0] != '<' && strcmp(file->path, slash ? slash + 1 : cmd->filename) == 0 &&
           file->size == cmd->code_length;
}

static void begin_saving(struct run_command *cmd)
{
    cmd->left++;
    cmd->saving = cmd->config->out[0];
    if (cmd->saving)
        saver_begin(saver_of(cmd), cmd->file, cmd->file_size);
}

// It is not the script after all.  The bytes before `offset` were equal, so they come from ours.
static void stop_comparing(struct run_command *cmd, uint64_t offset)
{
    cmd->comparing = false;
    begin_saving(cmd);
    if (cmd->saving)
        saver_data(saver_of(cmd), cmd->code, (size_t)offset, 0);
}

static int on_file(struct exec *x, const struct scratch_file *file, struct err *e)
{
    struct single_run *single = x->request.argument;
    struct run_command *cmd = single->argument;
    (void)e;
    snprintf(cmd->file, sizeof cmd->file, "%s", file->path);
    cmd->file_size = file->size;
    cmd->saving = false;
    cmd->comparing = may_be_script(cmd, file);
    if (!cmd->comparing)
        begin_saving(cmd);
    return !cmd->comparing && !cmd->saving;
}

static int on_file_data(struct exec *x, const void *data, size_t length, uint64_t offset,
                        struct err *e)
{
    struct single_run *single = x->request.argument;
    struct run_command *cmd = single->argument;
    (void)e;
    if (cmd->comparing && memcmp(cmd->code + offset, data, length) != 0)
        stop_comparing(cmd, offset);
    if (cmd->saving)
        saver_data(saver_of(cmd), data, length, offset);
    // The saver refuses a file larger than all it may save, and reports that at the end.
    bool hopeless = cmd->file_size > cmd->config->scratch_bytes + DISPLAY_BYTES_MAX;
    return hopeless || (!cmd->comparing && !cmd->saving);
}

static void on_file_end(struct exec *x, uint64_t size, const struct err *error)
{
    struct single_run *single = x->request.argument;
    struct run_command *cmd = single->argument;
    struct saver_answer a;
    if (cmd->comparing && !error && size < cmd->code_length) // it became shorter
        stop_comparing(cmd, size);
    if (cmd->comparing && !error) {
        (void)json_object_set_new(cmd->files, cmd->file, json_null());
    } else if (cmd->saving && error) {
        saver_drop(saver_of(cmd));
    } else if (cmd->saving) {
        saver_finish(saver_of(cmd), size, &a);
        (void)json_object_set_new(cmd->files, cmd->file, outcome(cmd, &a));
    }
}

static const struct exec_taker taker = {.begin = on_file, .data = on_file_data, .end = on_file_end};

// Adds to each file how it was saved, and removes the script, which the code did not make.
static void mark_files(const struct run_command *cmd, json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *entry = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(entry, "path"));
        json_t *found = path ? json_object_get(cmd->files, path) : NULL;
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

static void save_picture(struct run_command *cmd, size_t item, unsigned number,
                         const char *mime_type, const void *data, size_t size)
{
    struct saver_answer a;
    char name[32];
    const char *extension = "bin";
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcmp(mime_type, extensions[i].mime_type) == 0)
            extension = extensions[i].extension;
    snprintf(name, sizeof name, "image-%u.%s", number, extension);
    saver_save_bytes(saver_of(cmd), name, data, size, &a);
    json_t *entry = json_pack("{s:s, s:I, s:s, s:I}", "path", name, "size", (json_int_t)size,
                              "mime_type", mime_type, "display", (json_int_t)item);
    json_t *more = outcome(cmd, &a);
    (void)json_object_update(entry, more);
    json_decref(more);
    (void)json_array_append_new(cmd->pictures, entry);
}

// Saves the picture of one display item in its original size.
static bool save_item(struct run_command *cmd, json_t *o, size_t i, unsigned number)
{
    struct picture p;
    json_t *original = display_original(o, i),
           *item = json_array_get(json_object_get(o, "display"), i);
    if ((original && display_picture(original, &p)) || display_picture(item, &p)) {
        size_t size = 0;
        _cleanup_free_ unsigned char *data = decode_base64(p.base64, strlen(p.base64), &size);
        if (data)
            save_picture(cmd, i, number, p.mime_type, data, size);
        return true;
    }
    json_t *svg = json_object_get(item, "image/svg+xml");
    if (svg)
        save_picture(cmd, i, number, "image/svg+xml", json_string_value(svg),
                     json_string_length(svg));
    return svg != NULL;
}

static void save_pictures(struct run_command *cmd, json_t *o)
{
    unsigned number = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(o, "display")); i++)
        number += cmd->config->out[0] && save_item(cmd, o, i, number + 1);
}

static void show_picture(struct run_command *cmd, const struct picture *p, unsigned number)
{
    char what[128];
    if (terminal_show(&cmd->terminal, p, stdout) || cmd->config->out[0])
        return;
    display_describe(p, what, sizeof what);
    (void)fflush(stdout);
    fprintf(stderr, "constrictor: image %u: %s; save it with --out DIR or print it with --json\n",
            number, what);
    if (cmd->config->images == IMAGES_SIXEL && !terminal_has_sixel() && number == 1)
        fprintf(stderr, "constrictor: this program was built without libsixel and libpng\n");
}

// Shows pictures if the terminal can, else names them.  Text passed to display() is printed.
static void print_display(struct run_command *cmd, json_t *o)
{
    json_t *item;
    size_t i;
    unsigned number = 0;
    json_array_foreach (json_object_get(o, "display"), i, item) {
        struct picture p;
        json_t *text = json_object_get(item, "text/plain");
        if (display_picture(item, &p)) {
            show_picture(cmd, &p, ++number);
        } else if (text) {
            (void)fwrite(json_string_value(text), 1, json_string_length(text), stdout);
            (void)putchar('\n');
        }
    }
    (void)fflush(stdout); // before what follows on stderr
    json_t *omitted = json_object_get(o, "display_omitted");
    if (omitted)
        fprintf(stderr, "constrictor: %lld display items left out: too many or too large\n",
                (long long)json_integer_value(omitted));
}

// ---- the end ------------------------------------------------------------------------------------

static void print_error(const struct run_command *cmd)
{
    const struct result *res = &cmd->single.exec->result;
    json_t *error = json_object_get(cmd->single.exec->run->result, "error");
    const char *text = json_string_value(json_object_get(error, "text"));
    // `reported`: the code's own sys.excepthook has printed it.
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

// Prints what was not saved, and how to save it.
static void print_files(const struct run_command *cmd, json_t *o)
{
    json_t *omitted = json_object_get(o, "files_omitted");
    const char *error = json_string_value(json_object_get(o, "files_error"));
    if (cmd->left && !cmd->config->out[0])
        fprintf(stderr, "constrictor: the code left %u file%s; save %s with --out DIR\n", cmd->left,
                cmd->left == 1 ? "" : "s", cmd->left == 1 ? "it" : "them");
    if (omitted)
        fprintf(stderr, "constrictor: %lld files left out: at most %d are collected\n",
                (long long)json_integer_value(omitted), EXEC_FILES_MAX);
    if (error)
        fprintf(stderr, "constrictor: files: %s\n", error);
}

// Prints each kind of denial once; the exception, if any, may have another cause.
static void print_denials(json_t *o)
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
        fprintf(stderr, "constrictor: %lld more denials left out\n",
                (long long)json_integer_value(omitted));
    if (why)
        fprintf(stderr, "constrictor: %s\n", why);
}

static int print_object(const struct run_command *cmd, json_t *o)
{
    json_t *files = json_object_get(o, "files");
    mark_files(cmd, files);
    (void)json_array_extend(files, cmd->pictures);
    if (json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
        struct err e;
        err_set(&e, ERR_SYSTEM, errno, NULL, "write the result");
        return cli_fail(&e, false);
    }
    return cli_finish();
}

static int finish(struct run_command *cmd)
{
    struct exec *x = cmd->single.exec;
    int failed = 0;
    if (x->error.message[0])
        return cli_fail(&x->error, cmd->config->json);
    if (cmd->single.interrupted && x->result.verdict == VERDICT_ERROR)
        x->result.verdict = VERDICT_CANCELLED;
    if (!cmd->config->json)
        flush_output(x->run);
    json_t *o = exec_json(x);
    if (!o) {
        struct err e;
        err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "build the result");
        return cli_fail(&e, cmd->config->json);
    }
    if (!cmd->config->json)
        print_display(cmd, o);
    save_pictures(cmd, o);
    if (cmd->config->json) {
        failed = print_object(cmd, o);
    } else {
        print_files(cmd, o);
        print_error(cmd);
        if (strcmp(x->result.phase, "security_check") != 0) // else that was the error
            print_denials(o);
    }
    json_decref(o);
    if (unwritten && unwritten != EPIPE) { // a reader may stop early
        struct err e;
        err_set(&e, ERR_SYSTEM, unwritten, NULL, "write the output of the code");
        failed = cli_fail(&e, false);
    }
    int status = failed ? failed : result_exit_status(&x->result);
    // A caller that wants the files must not continue as if they were there.
    return status == 0 && cmd->unsaved ? err_exit_status(ERR_OUT_FOLDER) : status;
}

static int run_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct run_command *cmd = argument;
    struct err e;
    cmd->files = json_object();
    cmd->pictures = json_array();
    // Field by field: the struct is large and already zeroed.
    struct single_run *o = &cmd->single;
    o->config = cmd->config;
    o->code = cmd->code;
    o->code_length = cmd->code_length;
    o->filename = cmd->filename;
    o->argv = TAKE_PTR(cmd->argv);
    o->env_vars = TAKE_PTR(cmd->env_vars);
    o->files = &cmd->input;
    o->packages = run_packages_needed(cmd->config, cmd->code, cmd->code_length);
    o->on_output = cmd->config->json ? NULL : on_output;
    o->taker = &taker;
    o->argument = cmd;
    if (!cmd->config->json)
        warn_of_preloads(facts);
    if (single_run(&cmd->single, sock, facts, &e) < 0)
        return cli_fail(&e, cmd->config->json);
    return finish(cmd); // the process ends here and frees everything
}

static bool is_file(const struct run_command *cmd)
{
    return cmd->filename && cmd->filename[0] != '<';
}

static int cmd_run(const struct config *c, int argc, char **argv)
{
    static struct run_command cmd;
    struct err e;
    int status = 0;
    cmd.config = c;
    if (network_check_config(c, c->json, &e) < 0 || read_source(&cmd, c, argv, &e) < 0 ||
        name_source(&cmd, c, argc, argv, &e) < 0 || run_env_vars(c, &cmd.env_vars, &e) < 0 ||
        run_files_read(c, is_file(&cmd) ? cmd.filename : NULL, &cmd.input, &e) < 0 ||
        (c->out[0] && saver_start(&cmd.saver, c, &e) < 0))
        return cli_fail(&e, c->json);
    terminal_look(STDOUT_FILENO, c->json ? IMAGES_NONE : (enum terminal_images)c->images,
                  &cmd.terminal);
    // One run needs one box and a minimal interpreter.
    struct keeper_plan plan = {
        .config = c, .cold = true, .stock = 1, .gate = run_gate, .argument = &cmd};
    run_packages_add_to_plan(run_packages_needed(c, cmd.code, cmd.code_length), &plan);
    network_add_to_plan(&plan);
    if (cmd.saver.pid)
        plan.keep[plan.keep_count++] = cmd.saver.sock;
    int r = keeper_run(&plan, &status, &e);
    saver_end(&cmd.saver, r < 0);
    free(cmd.code);
    free(cmd.filename);
    json_decref(cmd.argv);
    json_decref(cmd.env_vars);
    run_files_clear(&cmd.input);
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
             "run [options] -m MODULE [ARGS...]\n"
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
