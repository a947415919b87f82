// SPDX-License-Identifier: Apache-2.0
//
// run_show: see run_show.h.

#include "cli/run_show.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/saver.h"
#include "cli/single_run.h"
#include "run/display.h"
#include "run/events.h"
#include "run/result.h"
#include "json/encode.h"

// ---- output -------------------------------------------------------------------------------------

// Why output of the code could not be written (errno), which ends the run.  0: all was written.
static int unwritten;

// Copies output to our stdout and stderr.  A closed pipe ends the run.
int run_show_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
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

// ---- files --------------------------------------------------------------------------------------

// The saver's socket: the first descriptor of the plan; gate_enter() renumbers it.
static int saver_of(const struct run_show *w)
{
    return w->gate->own.keep[0];
}

// {"saved": path} or {"error": reason}.
static json_t *outcome(struct run_show *w, const struct saver_answer *a)
{
    char path[SAVER_PATH_MAX];
    if (!a->ok) {
        w->unsaved++;
        return json_pack("{s:s}", "error", a->error);
    }
    saver_path(w->config->out, a->saved, path);
    size_t n = 0;
    _cleanup_free_ char *clean = utf8_clean(path, strlen(path), &n);
    return json_pack("{s:o}", "saved", json_stringn_nocheck(clean ? clean : "", clean ? n : 0));
}

// Whether it may be the unchanged copy of the script that the runner made.
static bool may_be_script(const struct run_show *w, const struct scratch_file *file)
{
    const char *slash = w->filename ? strrchr(w->filename, '/') : NULL;
    return w->filename && w->filename[0] != '<' &&
           strcmp(file->path, slash ? slash + 1 : w->filename) == 0 && file->size == w->code_length;
}

static void begin_saving(struct run_show *w)
{
    w->left++;
    w->saving = w->config->out[0];
    if (w->saving)
        saver_begin(saver_of(w), w->file, w->file_size);
}

// It is not the script after all.  The bytes before `offset` were equal, so they come from ours.
static void stop_comparing(struct run_show *w, uint64_t offset)
{
    w->comparing = false;
    begin_saving(w);
    if (w->saving)
        saver_data(saver_of(w), w->code, (size_t)offset, 0);
}

static int on_file(struct exec *x, const struct scratch_file *file, struct err *e)
{
    struct single_run *single = x->request.argument;
    struct run_show *w = single->argument;
    (void)e;
    snprintf(w->file, sizeof w->file, "%s", file->path);
    w->file_size = file->size;
    w->saving = false;
    w->comparing = may_be_script(w, file);
    if (!w->comparing)
        begin_saving(w);
    return !w->comparing && !w->saving;
}

static int on_file_data(struct exec *x, const void *data, size_t length, uint64_t offset,
                        struct err *e)
{
    struct single_run *single = x->request.argument;
    struct run_show *w = single->argument;
    (void)e;
    if (w->comparing && memcmp(w->code + offset, data, length) != 0)
        stop_comparing(w, offset);
    if (w->saving)
        saver_data(saver_of(w), data, length, offset);
    // The saver refuses a file larger than all it may save, and reports that at the end.
    bool hopeless = w->file_size > w->config->scratch_bytes + DISPLAY_BYTES_MAX;
    return hopeless || (!w->comparing && !w->saving);
}

static void on_file_end(struct exec *x, uint64_t size, const struct err *error)
{
    struct single_run *single = x->request.argument;
    struct run_show *w = single->argument;
    struct saver_answer a;
    if (w->comparing && !error && size < w->code_length) // it became shorter
        stop_comparing(w, size);
    if (w->comparing && !error) {
        (void)json_object_set_new(w->files, w->file, json_null());
    } else if (w->saving && error) {
        saver_drop(saver_of(w));
    } else if (w->saving) {
        saver_finish(saver_of(w), size, &a);
        (void)json_object_set_new(w->files, w->file, outcome(w, &a));
    }
}

const struct exec_taker run_show_taker = {
    .begin = on_file, .data = on_file_data, .end = on_file_end};

void run_show_mark_files(struct run_show *w, json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *entry = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(entry, "path"));
        (void)json_object_set_new(entry, "uri", json_null()); // the box ends with the command
        json_t *found = path ? json_object_get(w->files, path) : NULL;
        if (json_is_null(found))
            (void)json_array_remove(list, i);
        else if (found)
            (void)json_object_update(entry, found);
    }
    (void)json_array_extend(list, w->pictures);
    (void)json_array_clear(w->pictures);
}

// ---- pictures -----------------------------------------------------------------------------------

static const struct {
    const char *mime_type, *extension;
} extensions[] = {{"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}};

static void save_picture(struct run_show *w, size_t item, unsigned number, const char *mime_type,
                         const void *data, size_t size)
{
    struct saver_answer a;
    char name[32];
    const char *extension = "bin";
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcmp(mime_type, extensions[i].mime_type) == 0)
            extension = extensions[i].extension;
    snprintf(name, sizeof name, "image-%u.%s", number, extension);
    saver_save_bytes(saver_of(w), name, data, size, &a);
    json_t *entry = json_pack("{s:s, s:I, s:s, s:I}", "path", name, "size", (json_int_t)size,
                              "mime_type", mime_type, "display", (json_int_t)item);
    json_auto_t *more = outcome(w, &a);
    (void)json_object_update(entry, more);
    (void)json_array_append_new(w->pictures, entry);
}

// Saves the picture of one display item in its original size.
static bool save_item(struct run_show *w, json_t *o, size_t i, unsigned number)
{
    struct picture p;
    json_t *original = display_original(o, i),
           *item = json_array_get(json_object_get(o, "display"), i);
    if ((original && display_picture(original, &p)) || display_picture(item, &p)) {
        size_t size = 0;
        _cleanup_free_ unsigned char *data = decode_base64(p.base64, strlen(p.base64), &size);
        if (data)
            save_picture(w, i, number, p.mime_type, data, size);
        return true;
    }
    json_t *svg = json_object_get(item, "image/svg+xml");
    if (svg)
        save_picture(w, i, number, "image/svg+xml", json_string_value(svg),
                     json_string_length(svg));
    return svg != NULL;
}

static void save_pictures(struct run_show *w, json_t *o)
{
    for (size_t i = 0; i < json_array_size(json_object_get(o, "display")); i++)
        w->saved_images += w->config->out[0] && save_item(w, o, i, w->saved_images + 1);
}

static void show_picture(struct run_show *w, const struct picture *p, unsigned number)
{
    char what[128];
    if (terminal_show(&w->terminal, p, stdout) || w->config->out[0])
        return;
    display_describe(p, what, sizeof what);
    (void)fflush(stdout);
    fprintf(stderr, "constrictor: image %u: %s; %s\n", number, what,
            w->talks ? "start with --out DIR to save pictures"
                     : "save it with --out DIR or print it with --json");
    if (w->config->images == IMAGES_SIXEL && !terminal_has_sixel() && number == 1)
        fprintf(stderr, "constrictor: this program was built without libsixel and libpng\n");
}

// Shows pictures if the terminal can, else names them.  Text passed to display() is printed.
static void print_display(struct run_show *w, json_t *o)
{
    json_t *item;
    size_t i;
    json_array_foreach (json_object_get(o, "display"), i, item) {
        struct picture p;
        json_t *text = json_object_get(item, "text/plain");
        if (display_picture(item, &p)) {
            show_picture(w, &p, ++w->images);
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

// The value of the last expression, as an interactive Python prints it.  One that was shown as a
// picture is the last item of what was displayed, and has no text there.
static void print_value(json_t *o)
{
    struct picture p;
    json_t *value = json_object_get(o, "result"), *shown = json_object_get(o, "display");
    json_t *last = json_array_get(shown, json_array_size(shown) - 1); // NULL of an empty one
    if (!json_is_string(value) ||
        (last && !json_object_get(last, "text/plain") && display_picture(last, &p)))
        return;
    (void)fwrite(json_string_value(value), 1, json_string_length(value), stdout);
    (void)putchar('\n');
    (void)fflush(stdout);
}

// ---- the end ------------------------------------------------------------------------------------

// The option that sets each limit: a hint of a run names none, for it is the same in REST and MCP.
static const char *const limit_options[LIMIT_MAX] = {
    [LIMIT_WALL] = " (--wall)",       [LIMIT_CPU] = " (--cpu)",
    [LIMIT_MEMORY] = " (--memory)",   [LIMIT_PROCESSES] = " (--processes)",
    [LIMIT_SCRATCH] = " (--scratch)", [LIMIT_INODES] = " (--inodes)",
    [LIMIT_FILES] = " (--files)",     [LIMIT_FILE_SIZE] = " (--file-size)",
    [LIMIT_OUTPUT] = " (--output)",
};

static void print_error(const struct exec *x)
{
    const struct result *res = &x->result;
    json_t *error = json_object_get(x->run->result, "error");
    const char *text = json_string_value(json_object_get(error, "text"));
    // `reported`: the code's own sys.excepthook has printed it.
    if (text && !json_is_true(json_object_get(error, "reported"))) {
        fputs(text, stderr);
        if (text[0] && text[strlen(text) - 1] != '\n')
            fputc('\n', stderr);
    }
    if (res->verdict == VERDICT_OK || (res->verdict == VERDICT_ERROR && text && !res->hint[0]))
        return;
    const char *option = res->hint[0] ? limit_options[res->limit] ?: "" : "";
    if (res->verdict != VERDICT_ERROR || res->signal)
        fprintf(stderr, "constrictor: %s%s%s%s\n", result_verdict_name(res->verdict),
                res->hint[0] ? ": " : "", res->hint, option);
    else if (res->hint[0])
        fprintf(stderr, "constrictor: hint: %s%s\n", res->hint, option);
}

void run_show_files(const struct run_show *w, json_t *o)
{
    json_t *omitted = json_object_get(o, "files_omitted");
    const char *error = json_string_value(json_object_get(o, "files_error"));
    if (w->left && !w->config->out[0])
        fprintf(stderr, "constrictor: the code left %u file%s; save %s with --out DIR\n", w->left,
                w->left == 1 ? "" : "s", w->left == 1 ? "it" : "them");
    if (omitted)
        fprintf(stderr, "constrictor: %lld files left out: at most %d are collected\n",
                (long long)json_integer_value(omitted), EXEC_FILES_MAX);
    if (error)
        fprintf(stderr, "constrictor: files: %s\n", error);
}

// A script that misses what stands beside it on the disk: a box has a copy of the script alone.
static void print_missing(const struct run_show *w, const struct exec *x)
{
    const char *type =
        json_string_value(json_object_get(json_object_get(x->run->result, "error"), "type"));
    if (w->filename && w->filename[0] != '<' && !w->config->with_folders.count &&
        !w->config->in_paths.count && x->result.verdict == VERDICT_ERROR && type &&
        (strcmp(type, "ModuleNotFoundError") == 0 || strcmp(type, "FileNotFoundError") == 0))
        fprintf(stderr, "constrictor: hint: the box has no files of yours but the script; --with "
                        "DIR copies the modules and files of its folder, --in PATH others\n");
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

json_t *run_show_result(struct run_show *w, struct exec *x)
{
    bool json = w->config->json;
    if (!json)
        flush_output(x->run);
    json_t *o = exec_json(x);
    if (o && !json)
        print_display(w, o);
    // Code on the command line is like a line at a prompt.
    if (o && !json && (w->values || (w->config->code && isatty(STDOUT_FILENO))))
        print_value(o);
    if (o)
        save_pictures(w, o);
    return o;
}

void run_show_error(const struct run_show *w, const struct exec *x, json_t *o)
{
    print_error(x);
    print_missing(w, x);
    if (strcmp(x->result.phase, "security_check") != 0) // else that was the error
        print_denials(o);
}

int run_show_unwritten(void)
{
    return unwritten == EPIPE ? 0 : unwritten; // a reader may stop early
}

int run_show_open(struct run_show *w, const struct config *c, struct err *e)
{
    w->config = c;
    w->files = json_object();
    w->pictures = json_array();
    terminal_look(STDOUT_FILENO, c->json ? IMAGES_NONE : (enum terminal_images)c->images,
                  &w->terminal);
    return w->files && w->pictures ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the run");
}
