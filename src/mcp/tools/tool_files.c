// SPDX-License-Identifier: Apache-2.0
//
// tool_files: tools for files of sessions and runs: list_files, read_file, write_file, delete_file.
// See tool_shared.h.  Called by tools.c in the gate.  SECURITY: names and contents of files come
// from user code.
//
//   text       its characters, cut between characters
//   picture    an image block, if the whole file was asked for
//   the rest   base64, as an embedded resource

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "exec/exec_input.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/file_access.h"
#include "mcp/tools/file_resources.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/schema_words.h"
#include "mcp/tools/tool_shared.h"
#include "run/gate.h"
#include "json/encode.h"

enum {
    PICTURE_MAX = 512 << 10, // bytes of a picture that is shown
    LENGTH_MAX = 4 << 20,    // bytes of one part
    URL_MAX = 4096,
    SHOWN_MAX = 100, // files that the text of list_files names
};

static void refuse(struct mcp_call *c, const struct err *e)
{
    tool_error(c, err_code_name(e->code), e->hint, "%s", e->message);
}

// The link of an artifact: text, or null without a web server.
static json_t *url_json(const struct mcp_call *c, const struct artifact *a)
{
    char url[URL_MAX] = "";
    const struct gate *g = c->mcp->gate;
    if (a && g->file_url)
        g->file_url(g, a, url, sizeof url);
    return url[0] ? json_string(url) : json_null();
}

// {"path", "size", "mime_type", "last_modified", "uri", "url"}: new.
static json_t *file_json(const struct mcp_call *c, const char *holder, const char *path,
                         uint64_t size, int64_t modified_ms, const char *mime_type,
                         const struct artifact *a)
{
    char uri[FILE_URI_MAX], time[TEXT_TIME_MAX];
    exec_file_uri(holder, path, uri, sizeof uri);
    text_format_time(modified_ms, time);
    return json_pack("{s:s, s:I, s:s, s:s, s:s, s:o}", "path", path, "size", (json_int_t)size,
                     "mime_type", mime_type, "last_modified", time, "uri", uri, "url",
                     url_json(c, a));
}

// ---- list_files ---------------------------------------------------------------------------------

static json_t *live_files(const struct mcp_call *c, const char *holder,
                          const struct scratch_list *list, const struct artifact *artifacts,
                          size_t count)
{
    json_t *files = json_array();
    size_t at = 0; // both are sorted by path
    for (size_t i = 0; i < list->count; i++) {
        const struct scratch_file *f = &list->files[i];
        if (f->folder)
            continue;
        while (at < count && strcmp(artifacts[at].path, f->path) < 0)
            at++;
        const struct artifact *a = at < count ? &artifacts[at] : NULL;
        if (a && (strcmp(a->path, f->path) != 0 || a->size != f->size ||
                  a->modified_ms != f->mtime_ns / 1000000))
            a = NULL;
        (void)json_array_append_new(files,
                                    file_json(c, holder, f->path, f->size, f->mtime_ns / 1000000,
                                              a ? a->mime_type : mime_type(f->path, NULL, 0), a));
    }
    return files;
}

static json_t *stored_files(const struct mcp_call *c, const char *holder,
                            const struct artifact *artifacts, size_t count)
{
    json_t *files = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct artifact *a = &artifacts[i];
        (void)json_array_append_new(
            files, file_json(c, holder, a->path, a->size, a->modified_ms, a->mime_type, a));
    }
    return files;
}

static void write_line(FILE *f, json_t *file)
{
    char path[SCRATCH_PATH_MAX + 1], size[FILE_SIZE_TEXT_MAX];
    const char *url = json_string_value(json_object_get(file, "url"));
    snprintf(path, sizeof path, "%s", json_string_value(json_object_get(file, "path")));
    text_sanitize(path);
    file_describe_size((uint64_t)json_integer_value(json_object_get(file, "size")), size);
    fprintf(f, "- %s (%s, %s)%s%s\n", path, size,
            json_string_value(json_object_get(file, "mime_type")), url ? ": " : "", url ? url : "");
}

static void write_list(FILE *f, json_t *o)
{
    json_t *files = json_object_get(o, "files"), *item;
    size_t i, count = json_array_size(files);
    const char *state = json_string_value(json_object_get(o, "state"));
    json_int_t more = json_integer_value(json_object_get(o, "files_omitted"));
    json_int_t odd = json_integer_value(json_object_get(o, "other_entries"));
    bool live = state && strcmp(state, "open") == 0;
    fprintf(f, "%zu %s%s\n", count, count == 1 ? "file" : "files",
            live ? " in /mnt/data" : " kept; the box that made them is gone");
    json_array_foreach (files, i, item) {
        if (i == SHOWN_MAX)
            break;
        write_line(f, item);
    }
    if (count > SHOWN_MAX)
        fprintf(f, "- and %zu more, in the structured answer\n", count - SHOWN_MAX);
    if (more > 0)
        fprintf(f, "- and %" JSON_INTEGER_FORMAT " that are not listed\n", more);
    if (odd > 0)
        fprintf(f,
                "- and %" JSON_INTEGER_FORMAT
                " that are no files (links, pipes and the like) or have "
                "names that cannot be shown\n",
                odd);
}

static void on_listed(struct mcp_call *c, const char *holder, const struct scratch_list *list,
                      const struct artifact *artifacts, size_t count, uint64_t more,
                      const struct err *error)
{
    int64_t when_ms;
    if (error) {
        refuse(c, error);
        return;
    }
    enum session_end end =
        list ? SESSION_OPEN : session_why_ended(c->mcp->gate, c->owner, holder, &when_ms);
    const char *state = list ? "open" : end == SESSION_OPEN ? "finished" : session_end_codes[end];
    json_t *o = json_pack("{s:s, s:s, s:o, s:I, s:I}", "session", holder, "state", state, "files",
                          list ? live_files(c, holder, list, artifacts, count)
                               : stored_files(c, holder, artifacts, count),
                          "files_omitted", (json_int_t)(list ? list->left_out : more),
                          "other_entries", (json_int_t)(list ? list->odd : 0));
    _cleanup_free_ char *text = NULL;
    size_t length = 0;
    FILE *f = o ? open_memstream(&text, &length) : NULL;
    if (f) {
        write_list(f, o);
        if (fclose(f) != 0)
            length = 0;
    }
    tool_answer(c, length ? json_pack("[o]", tool_text_n(text, length - 1)) : NULL, o, false);
}

static void list_files(struct mcp_call *c, json_t *arguments)
{
    const char *session = tool_string(c, arguments, "session");
    if (session)
        file_access_list(c, session, on_listed);
}

// ---- read_file ----------------------------------------------------------------------------------

static bool is_picture(const char *mime_type)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(types[i], mime_type) == 0)
            return true;
    return false;
}

// The part of a file that was asked for.
struct part {
    const struct found_file *file;
    const char *mime_type;
    char *data;
    uint64_t offset;
    size_t length;
    bool at_end;
    bool may_be_text; // its first bytes are
};

// For bytes that may end within a character.
static bool begins_as_text(const char *data, size_t length)
{
    size_t valid = utf8_valid_length(data, length);
    return length - valid <= 3 && mcp_is_text(data, valid) && (valid || !length);
}

// Cuts a text between characters.  False: it is not text, and nothing was cut.
static bool cut_text(struct part *p)
{
    if (!p->may_be_text)
        return false;
    size_t begin = 0, most = p->length < 3 ? p->length : 3;
    if (p->offset) // the rest of a character that began before
        while (begin < most && ((unsigned char)p->data[begin] & 0xc0) == 0x80)
            begin++;
    const char *text = p->data + begin;
    size_t length = p->length - begin, valid = utf8_valid_length(text, length);
    if (valid < length && (p->at_end || length - valid > 3))
        return false;
    if (!mcp_is_text(text, valid) || (valid == 0 && p->length > 0))
        return false;
    memmove(p->data, text, valid);
    p->offset += begin;
    p->length = valid;
    return true;
}

// How to read on, or nothing.
static void write_rest(FILE *f, const struct part *p, json_t *url)
{
    uint64_t next = p->offset + p->length;
    char size[FILE_SIZE_TEXT_MAX];
    if (p->offset == 0 && next >= p->file->size)
        return;
    file_describe_size(p->file->size, size);
    fprintf(f, "\n[bytes %llu to %llu of %llu (%s)", (unsigned long long)p->offset,
            (unsigned long long)next, (unsigned long long)p->file->size, size);
    if (next < p->file->size)
        fprintf(f, "; read on with offset=%llu", (unsigned long long)next);
    if (json_is_string(url))
        fprintf(f, "; all of it: %s", json_string_value(url));
    fputs("]", f);
}

static json_t *text_block(const struct part *p, bool is_text, json_t *url)
{
    char *text = NULL, size[FILE_SIZE_TEXT_MAX], path[SCRATCH_PATH_MAX + 1];
    size_t length = 0, clean = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    _cleanup_free_ char *shown = is_text ? answer_clean(p->data, p->length, true, &clean) : NULL;
    if (shown) {
        (void)fwrite(shown, 1, clean, f);
        if (p->file->size == 0)
            fputs("[the file is empty]", f);
    } else {
        snprintf(path, sizeof path, "%s", p->file->path);
        text_sanitize(path);
        file_describe_size(p->file->size, size);
        fprintf(f, "%s: %s, %s", path, p->mime_type, size);
    }
    write_rest(f, p, url);
    json_t *block = fclose(f) == 0 ? tool_text_n(text, length) : NULL;
    free(text);
    return block;
}

// Fills in content and object; 0 or -1.
static int present(struct part *p, json_t *object, json_t *content, bool whole_picture)
{
    const char *uri = json_string_value(json_object_get(object, "uri"));
    json_t *url = json_object_get(object, "url");
    bool is_text = !whole_picture && cut_text(p);
    uint64_t next = p->offset + p->length;
    int failed = json_array_append_new(content, text_block(p, is_text, url));
    if (is_text) {
        failed |= json_object_set_new(object, "text", json_stringn_nocheck(p->data, p->length));
    } else {
        _cleanup_free_ char *coded = encode_base64(p->data, p->length);
        if (!coded)
            return -1;
        failed |=
            whole_picture
                ? json_array_append_new(content, tool_image(coded, p->mime_type))
                : json_array_append_new(
                      content, json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource",
                                         "uri", uri, "mimeType", p->mime_type, "blob", coded)) |
                      json_object_set_new(object, "base64", json_string(coded));
    }
    failed |= json_object_set_new(object, "encoding",
                                  json_string(is_text         ? "utf-8"
                                              : whole_picture ? "image"
                                                              : "base64"));
    failed |= json_object_set_new(object, "offset", json_integer((json_int_t)p->offset));
    failed |= json_object_set_new(object, "length", json_integer((json_int_t)p->length));
    failed |= json_object_set_new(
        object, "next_offset", next < p->file->size ? json_integer((json_int_t)next) : json_null());
    return failed;
}

static const char *type_of(const struct found_file *f)
{
    return f->has_link ? f->artifact.mime_type : mime_type(f->path, f->head, f->head_length);
}

// A whole picture becomes an image block.
static bool is_shown(const struct mcp_call *c, const struct found_file *f)
{
    json_t *arguments = tool_arguments(c);
    return !json_object_get(arguments, "offset") && !json_object_get(arguments, "length") &&
           is_picture(type_of(f)) && f->size <= PICTURE_MAX;
}

static void want_part(const struct mcp_call *c, const struct found_file *f, uint64_t *ret_offset,
                      size_t *ret_length)
{
    json_t *arguments = tool_arguments(c), *length = json_object_get(arguments, "length");
    *ret_offset = (uint64_t)json_number_value(json_object_get(arguments, "offset"));
    *ret_length = length           ? (size_t)json_number_value(length)
                  : is_shown(c, f) ? PICTURE_MAX
                                   : (size_t)c->mcp->config->text_budget;
}

static void on_opened(struct mcp_call *c, const struct found_file *f, const struct err *error)
{
    if (error) {
        refuse(c, error);
        return;
    }
    if (f->offset > 0 && f->offset >= f->size) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "use a smaller offset",
                   "argument 'offset': the file has %llu bytes", (unsigned long long)f->size);
        return;
    }
    struct part p = {.file = f,
                     .mime_type = type_of(f),
                     .data = f->data,
                     .offset = f->offset,
                     .length = f->length,
                     .at_end = f->offset + f->length >= f->size,
                     .may_be_text = begins_as_text(f->head, f->head_length)};
    json_t *content = json_array(),
           *object = file_json(c, f->holder, f->path, f->size, f->modified_ms, p.mime_type,
                               f->has_link ? &f->artifact : NULL);
    if (!object || !content || present(&p, object, content, is_shown(c, f)) != 0) {
        json_decref(content);
        content = NULL; // memory is out
    }
    if (mcp_tool_is_brief(c->mcp, "read_file")) { // the content has it
        (void)json_object_del(object, "text");
        (void)json_object_del(object, "base64");
    }
    tool_answer(c, content, object, false);
}

static void read_file(struct mcp_call *c, json_t *arguments)
{
    const char *session = tool_string(c, arguments, "session");
    const char *path = session ? tool_string(c, arguments, "path") : NULL;
    if (path)
        file_access_read(c, session, path, want_part, on_opened);
}

// ---- write_file ---------------------------------------------------------------------------------

// The contents, new; NULL: the call was answered.
static char *take_body(struct mcp_call *c, json_t *arguments, size_t *ret_length)
{
    json_t *text = json_object_get(arguments, "text"),
           *coded = json_object_get(arguments, "base64");
    char *data = NULL;
    if (!text == !coded) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "give one of them",
                   "pass the contents in argument 'text' or 'base64', not both");
        return NULL;
    }
    if (coded) {
        data =
            (char *)decode_base64(json_string_value(coded), json_string_length(coded), ret_length);
        if (!data)
            tool_error(c, err_code_name(ERR_BAD_VALUE),
                       "use the standard alphabet with padding, no line breaks",
                       "argument 'base64' is not base64");
        return data;
    }
    *ret_length = json_string_length(text);
    data = malloc(*ret_length + 1);
    if (data)
        memcpy(data, json_string_value(text), *ret_length + 1);
    else
        tool_error(c, err_code_name(ERR_SYSTEM), "send less at once",
                   "the server is out of memory");
    return data;
}

static void on_written(struct mcp_call *c, const struct scratch_file *file, const struct err *error)
{
    struct err e;
    char size[FILE_SIZE_TEXT_MAX], line[SCRATCH_PATH_MAX + 128];
    json_t *arguments = tool_arguments(c);
    const struct session *s =
        error ? NULL
              : session_find(c->mcp->gate, c->owner,
                             json_string_value(json_object_get(arguments, "session")), &e);
    if (!s) {
        refuse(c, error ? error : &e);
        return;
    }
    json_t *o = file_json(c, s->id, file->path, file->size, file->mtime_ns / 1000000,
                          mime_type(file->path, NULL, 0), NULL);
    if (o)
        (void)json_object_set_new(o, "session", json_string(s->id));
    file_describe_size(file->size, size);
    snprintf(line, sizeof line, "wrote /mnt/data/%s, %s", file->path, size);
    text_sanitize(line);
    file_resources_tell_one(c->mcp, c->owner, json_string_value(json_object_get(o, "uri")));
    tool_answer(c, json_pack("[o]", tool_text(line)), o, false);
}

// A session that is opened for its first file.
struct first {
    struct mcp_call *call; // NULL: cancelled
    char id[SESSION_ID_SIZE];
};

static void write_now(struct mcp_call *c, struct session *s)
{
    json_t *arguments = tool_arguments(c);
    size_t length = 0;
    char *data = take_body(c, arguments, &length);
    if (data)
        file_access_write(c, s, json_string_value(json_object_get(arguments, "path")), data, length,
                          on_written);
}

static void on_open(struct session *s, const struct err *error, void *argument)
{
    struct first *w = argument;
    struct mcp_call *c = w->call;
    free(w);
    if (!c)
        return;
    c->work = NULL;
    c->cancel = NULL;
    if (s)
        write_now(c, s);
    else
        refuse(c, error);
}

static void cancel_first(struct mcp_call *c)
{
    struct first *w = c->work;
    struct err e;
    w->call = NULL;
    struct session *s = session_find(c->mcp->gate, c->owner, w->id, &e);
    if (s)
        session_close(s, SESSION_CLOSED); // on_open() follows
}

static void open_first(struct mcp_call *c, json_t *arguments, const char *name)
{
    struct session_plan plan;
    struct err e;
    struct first *w = calloc(1, sizeof *w);
    tool_session_plan(c->mcp, arguments, &plan);
    snprintf(plan.name, sizeof plan.name, "%s", name);
    const struct session *s =
        w ? session_open(c->mcp->gate, c->owner, &plan, on_open, w, &e) : NULL;
    if (!w)
        err_set(&e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    if (!s) {
        free(w);
        refuse(c, &e);
        return;
    }
    w->call = c;
    memcpy(w->id, s->id, sizeof w->id);
    c->work = w;
    c->cancel = cancel_first;
}

static void write_file(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    char clean[SCRATCH_PATH_MAX + 1];
    json_t *path = json_object_get(arguments, "path");
    const char *session = tool_string(c, arguments, "session");
    size_t length = 0;
    if (!session)
        return;
    if (!c->mcp->gate || !c->mcp->gate->sessions) {
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server has no sessions");
        return;
    }
    if (scratch_path(json_string_value(path), json_string_length(path), clean, &e) < 0) {
        (void)err_wrap(&e, "argument 'path'");
        refuse(c, &e);
        return;
    }
    // Check before opening a session.
    _cleanup_free_ char *data = take_body(c, arguments, &length);
    if (!data)
        return;
    struct session *s = session_find(c->mcp->gate, c->owner, session, &e);
    if (s)
        file_access_write(c, s, clean, TAKE_PTR(data), length, on_written);
    else if (session_is_id(session) || session_check_name(session, strlen(session), &e) < 0)
        refuse(c, &e);
    else
        open_first(c, arguments, session);
}

// ---- delete_file --------------------------------------------------------------------------------

static void on_deleted(struct mcp_call *c, const struct scratch_file *file, const struct err *error)
{
    json_t *arguments = tool_arguments(c), *path = json_object_get(arguments, "path");
    struct err e;
    char clean[SCRATCH_PATH_MAX + 1], line[SCRATCH_PATH_MAX + 64], uri[FILE_URI_MAX];
    const char *holder = json_string_value(json_object_get(arguments, "session"));
    (void)file;
    if (error) {
        refuse(c, error);
        return;
    }
    const struct session *s = session_find(c->mcp->gate, c->owner, holder, &e);
    if (scratch_path(json_string_value(path), json_string_length(path), clean, &e) < 0)
        snprintf(clean, sizeof clean, "?"); // cannot happen: it was checked
    snprintf(line, sizeof line, "deleted /mnt/data/%s", clean);
    text_sanitize(line);
    exec_file_uri(s ? s->id : holder, clean, uri, sizeof uri);
    file_resources_tell_one(c->mcp, c->owner, uri);
    tool_answer(
        c, json_pack("[o]", tool_text(line)),
        json_pack("{s:s, s:s, s:b}", "session", s ? s->id : holder, "path", clean, "deleted", 1),
        false);
}

static void delete_file(struct mcp_call *c, json_t *arguments)
{
    const char *session = tool_string(c, arguments, "session");
    const char *path = session ? tool_string(c, arguments, "path") : NULL;
    if (path)
        file_access_delete(c, session, path, on_deleted);
}

// ---- schemas ------------------------------------------------------------------------------------

// clang-format off

#define INPUT(required, fields)                                                                    \
    "{\"type\": \"object\", \"properties\": {" fields "}, \"required\": [" required "], "          \
    "\"additionalProperties\": false}"
#define PLACE SESSION_ARGUMENT("Handle or name of the session, or execution_id of a run without " \
    "one.")
#define PATH                                                                                       \
    "\"path\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 1024, \"description\": " \
        "\"Below " \
    "/mnt/data, such as report.csv or /mnt/data/plots/a.png.\"}"

static const char list_input[] = INPUT("\"session\"", PLACE);

static const char read_input[] = INPUT("\"session\", \"path\"",
    PLACE ", " PATH ", "
    "\"offset\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1125899906842624, "
        "\"description\": "
        "\"First byte; default 0.\"}, "
    "\"length\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 4194304, \"description\": "
        "\"Maximum "
        "bytes; default as many as fit the answer.\"}");

static const char write_input[] = INPUT("\"session\", \"path\"",
    SESSION_ARGUMENT("Handle or name of the session; a new name opens one.") ", " PATH ", "
    "\"text\": {\"type\": \"string\", \"description\": \"Contents as text.\"}, "
    "\"base64\": {\"type\": \"string\", \"description\": \"Contents as base64, instead of "
        "text.\"}");

static const char delete_input[] = INPUT("\"session\", \"path\"", PLACE ", " PATH);

#define ENTRY FILE_FIELDS ", " FIELD("last_modified", STRING)

static const char list_output[] = OBJECT("\"session\", \"state\", \"files\"",
    FIELD("session", STRING) ", " FIELD("state", STRING) ", "
    FIELD("files", LIST(OBJECT("\"path\", \"size\", \"mime_type\"", ENTRY))) ", "
    FIELD("files_omitted", INTEGER) ", " FIELD("other_entries", INTEGER));

static const char read_output[] = OBJECT("\"path\", \"size\", \"mime_type\", \"encoding\", "
    "\"offset\", \"length\"",
    ENTRY ", "
    FIELD("encoding", "{\"type\": \"string\", \"enum\": [\"utf-8\", \"base64\", \"image\"]}") ", "
    FIELD("text", STRING) ", " FIELD("base64", STRING) ", "
    FIELD("offset", INTEGER) ", " FIELD("length", INTEGER) ", "
    FIELD("next_offset", NULLABLE(INTEGER)));

static const char write_output[] = OBJECT("\"session\", \"path\", \"size\"",
    FIELD("session", STRING) ", " ENTRY);

static const char delete_output[] = OBJECT("\"session\", \"path\", \"deleted\"",
    FIELD("session", STRING) ", " FIELD("path", STRING) ", " FIELD("deleted", BOOLEAN));

// clang-format on

// ---- the table ----------------------------------------------------------------------------------

const struct mcp_tool file_tools[] = {
    {
        .name = "list_files",
        .title = "List files",
        .description =
            "List the files in /mnt/data of a session, with size, type and link. For a session "
            "that ended, or a run without one (by its execution_id): the files it left, while "
            "they are kept.",
        .input_schema = list_input,
        .output_schema = list_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_files,
    },
    {
        .name = "read_file",
        .title = "Read a file",
        .description =
            "Read a file of a session, or a part of it: text as text, a picture as an image, "
            "anything else as base64. What does not fit in the answer is cut; next_offset says "
            "where to read on.",
        .input_schema = read_input,
        .output_schema = read_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = read_file,
    },
    {
        .name = "write_file",
        .title = "Write a file",
        .description =
            "Write a file to the working folder /mnt/data of a session for code to read. "
            "Creates folders and replaces an existing file. A new session name opens the "
            "session.",
        .input_schema = write_input,
        .output_schema = write_output,
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        .handle = write_file,
    },
    {
        .name = "delete_file",
        .title = "Delete a file",
        .description =
            "Delete a file of a session, or a folder with all its contents, and the links to "
            "them.",
        .input_schema = delete_input,
        .output_schema = delete_output,
        .hints = TOOL_DESTRUCTIVE,
        .handle = delete_file,
    },
    {0},
};
