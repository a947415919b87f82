// SPDX-License-Identifier: Apache-2.0
//
// answer: see answer.h.  Runs in the gate.  SECURITY: whatever user code wrote into the object is
// hostile, and as long as the limits of a run allow.
//
//   head       an error: the line that failed, the message, how it came there, a hint
//   sections   stdout, stderr, result, each under its label; with details the whole traceback
//   display    one line for each picture, the text of anything else: answer_display.c
//   state      files, variables, checkpoints: answer_state.c
//   foot       what is unusual, in one line; with details verdict, exit code, usage and id
//
// Head and foot are short and always there.  The sections share the rest of the budget: short ones
// take what they need, long ones get equal parts.  A long one keeps the first 40 % and the last 60
// % of its part.

#include "mcp/tools/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "mcp/tools/answer_display.h"
#include "mcp/tools/answer_internal.h"
#include "mcp/tools/answer_state.h"
#include "mcp/tools/tools.h"
#include "json/whole.h"

enum {
    SECTIONS = 4,
    NOTE_ROOM = 130,      // characters of the note about left-out text
    SHORT_NOTE_ROOM = 42, // without a URI
    SHORT_BUDGET = 1000,  // below it, only the shortest form
    HEAD_PERCENT = 40,
    TYPE_MAX = 200, // characters of error fields in the object
    LINE_MAX = 500,
    TABLE_MAX = 2000,      // characters of a table that replaces a result
    TRACE_LONG = 8000,     // bytes of a traceback that is kept to be read
    RESULT_LINE_MAX = 200, // a result up to this long follows its label on one line
};

// ---- characters ---------------------------------------------------------------------------------

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

// How many characters tools.c writes for the one that begins at `at`; 0: no character begins there.
static size_t width(const char *text, size_t length, size_t at)
{
    size_t shown;
    if ((unsigned char)text[at] < 0x80)
        return 1;
    return utf8_hidden(text + at, length - at, &shown) ? shown : begins_character(text[at]);
}

static size_t count_characters(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += width(text, length, i);
    return n;
}

// Offset after the first `count` characters.
static size_t skip_characters(const char *text, size_t length, size_t count)
{
    size_t at = 0;
    for (size_t n; at < length; at++) {
        n = width(text, length, at);
        if (n > count)
            break;
        count -= n;
    }
    return at;
}

// Offset of the last `count` characters.
static size_t last_characters(const char *text, size_t length, size_t count)
{
    size_t at = length;
    for (size_t i = length, n; i > 0 && count > 0;) {
        n = width(text, length, --i);
        if (n > count)
            break;
        count -= n;
        at = n ? i : at;
    }
    return at;
}

static bool is_broken(unsigned char c, bool all)
{
    if (!all)
        return c == 0;
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
}

// The symbols for control characters begin at U+2400; DEL has U+2421.  C1 controls (U+0080..U+009F)
// become U+FFFD.
char *answer_clean(const char *text, size_t length, bool all, size_t *ret_length)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t more = 0, at = 0;
    for (size_t i = 0; i < length; i++)
        more += is_broken(s[i], all) ? 2 : all && s[i] == 0xc2;
    char *copy = malloc(length + more + 1);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        if (is_broken(s[i], all)) {
            copy[at++] = (char)0xe2;
            copy[at++] = (char)0x90;
            copy[at++] = (char)(s[i] == 0x7f ? 0xa1 : 0x80 + s[i]);
        } else if (all && s[i] == 0xc2 && i + 1 < length && s[i + 1] < 0xa0) {
            memcpy(copy + at, "\xef\xbf\xbd", 3);
            at += 3;
            i++;
        } else {
            copy[at++] = text[i];
        }
    }
    copy[at] = '\0';
    *ret_length = at;
    return copy;
}

json_t *answer_clip(const char *text, size_t length, size_t max)
{
    size_t head = skip_characters(text, length, max), clean = 0;
    _cleanup_free_ char *copy = answer_clean(text, head, false, &clean);
    if (!copy)
        return NULL;
    if (head == length)
        return json_stringn_nocheck(copy, clean);
    return json_sprintf("%s\xe2\x80\xa6 [%zu characters left out]", copy,
                        count_characters(text + head, length - head));
}

// ---- sections -----------------------------------------------------------------------------------

struct section {
    const char *label;
    enum output_part part;
    json_t *holder; // the object that has the text under `key`
    const char *key;
    const char *text; // of `value`, which the section owns
    json_t *value;
    json_t *whole;        // what the section shows in fewer words; NULL: nothing
    size_t length, count; // bytes, characters
    size_t room;          // characters for it and its note
    bool cut, instead;    // instead: the text replaces a longer one, which the object has
    size_t head, tail;    // offsets: end of the first piece, begin of the last
    size_t left_out;      // characters
    bool kept;
    char uri[OUTPUT_URI_MAX];
};

static void add_section(struct section *list, size_t *n, const char *label, enum output_part part,
                        json_t *holder, const char *key)
{
    json_t *value = json_object_get(holder, key), *folded = NULL;
    if (json_string_length(value) == 0)
        return;
    if (part == OUTPUT_STDOUT || part == OUTPUT_STDERR)
        folded = answer_fold(value, part == OUTPUT_STDERR);
    list[*n] = (struct section){.label = label,
                                .part = part,
                                .holder = holder,
                                .key = key,
                                .whole = folded ? json_incref(value) : NULL,
                                .value = folded ? folded : json_incref(value),
                                .text = json_string_value(folded ? folded : value),
                                .length = json_string_length(folded ? folded : value)};
    list[*n].count = count_characters(list[*n].text, list[*n].length);
    (*n)++;
}

// A section that needs less than an equal part leaves the rest to the others.
static void share_out(struct section *list, size_t n, size_t room)
{
    size_t left = n;
    for (bool changed = true; changed && left;) {
        changed = false;
        size_t part = room / left;
        for (size_t i = 0; i < n; i++)
            if (!list[i].room && list[i].count <= part) {
                list[i].room = list[i].count;
                room -= list[i].count;
                left--;
                changed = true;
                break; // the part has grown
            }
    }
    for (size_t i = 0; i < n; i++)
        if (!list[i].room) {
            list[i].room = room / left;
            list[i].cut = true;
        }
}

static size_t last_line(const char *text, size_t length)
{
    size_t at = length && text[length - 1] == '\n' ? length - 1 : length;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return at;
}

// Decides which pieces of a long text stay.
static void cut(struct section *s, size_t note_room)
{
    size_t room = s->room > note_room ? s->room - note_room : 0;
    size_t tail_room = room - room * HEAD_PERCENT / 100;
    size_t last = last_line(s->text, s->length);
    size_t last_count = count_characters(s->text + last, s->length - last);
    if (last_count > tail_room && last_count <= room)
        tail_room = last_count; // keep the last line whole if possible
    s->tail = last_characters(s->text, s->length, tail_room);
    s->head = skip_characters(s->text, s->length, room - tail_room);
    // Cut between lines if a line ends nearby.
    const char *line = s->head ? memrchr(s->text, '\n', s->head) : NULL;
    if (line && (size_t)(line - s->text) + 1 >= s->head - s->head / 4)
        s->head = (size_t)(line - s->text) + 1;
    size_t near = (s->length - s->tail) / 4;
    line = s->tail < last ? memchr(s->text + s->tail, '\n', near) : NULL;
    if (line && s->text[s->tail - 1] != '\n')
        s->tail = (size_t)(line - s->text) + 1;
    s->left_out = count_characters(s->text + s->head, s->tail - s->head);
}

static void write_note(FILE *f, const struct section *s, bool brief)
{
    fprintf(f, "[\xe2\x80\xa6 %zu characters left out", s->left_out);
    if (!brief && s->kept)
        fprintf(f, "; full text: %s", s->uri);
    else if (!s->kept)
        fprintf(f, brief ? ", not kept" : "; they could not be kept");
    fputs("]\n", f);
}

static int write_clean(FILE *f, const char *text, size_t length, bool all)
{
    size_t clean = 0;
    _cleanup_free_ char *copy = answer_clean(text, length, all, &clean);
    if (!copy)
        return -1;
    (void)fwrite(copy, 1, clean, f);
    return 0;
}

static int write_pieces(FILE *f, const struct section *s, bool all, bool brief)
{
    if (!s->cut)
        return write_clean(f, s->text, s->length, all);
    if (write_clean(f, s->text, s->head, all) < 0)
        return -1;
    if (s->head && s->text[s->head - 1] != '\n')
        fputc('\n', f);
    write_note(f, s, brief);
    return write_clean(f, s->text + s->tail, s->length - s->tail, all);
}

static int write_section(FILE *f, const struct section *s, bool brief)
{
    bool beside = s->part == OUTPUT_RESULT && s->count <= RESULT_LINE_MAX && !s->cut &&
                  !memchr(s->text, '\n', s->length);
    fprintf(f, "%s:%c", s->label, beside ? ' ' : '\n');
    if (write_pieces(f, s, true, brief) < 0)
        return -1;
    if (s->text[s->length - 1] != '\n')
        fputc('\n', f);
    return 0;
}

// ---- the object ---------------------------------------------------------------------------------

// Notes a shortened text.  A `total` that the run's own output limit noted stays.
static int note_truncated(json_t *object, const char *name, size_t kept, size_t total,
                          const char *uri)
{
    json_t *truncated = json_object_get(object, "truncated");
    if (!json_is_object(truncated)) {
        truncated = json_object();
        if (json_object_set_new(object, "truncated", truncated) < 0)
            return -1;
    }
    json_t *known = json_object_get(json_object_get(truncated, name), "total");
    json_int_t all = json_is_integer(known) ? json_integer_value(known) : (json_int_t)total;
    return json_object_set_new(truncated, name,
                               json_pack("{s:I, s:I, s:s?}", "kept", (json_int_t)kept, "total", all,
                                         "full_output_uri", uri));
}

static const char *whole_text(const struct section *s)
{
    return s->whole ? json_string_value(s->whole) : s->text;
}

static size_t whole_length(const struct section *s)
{
    return s->whole ? json_string_length(s->whole) : s->length;
}

// Replaces a text by its shortened form, or by one without NUL.
static int replace_text(json_t *object, const struct section *s, bool brief)
{
    if (s->instead || (!s->cut && !memchr(s->text, '\0', s->length)))
        return 0;
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return -1;
    int failed = write_pieces(f, s, false, brief);
    failed |= fclose(f);
    if (!failed)
        failed = json_object_set_new(s->holder, s->key, json_stringn_nocheck(text, length));
    free(text);
    if (!failed && s->cut)
        failed = note_truncated(object, output_part_names[s->part], s->head + s->length - s->tail,
                                whole_length(s), s->kept ? s->uri : NULL);
    return failed;
}

static size_t size_of(json_t *value)
{
    return json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
}

// The innermost frames that fit.
static int bound_traceback(json_t *object, json_t *error, size_t budget)
{
    json_t *frames = json_object_get(error, "traceback");
    size_t count = json_array_size(frames), used = 0, kept = 0;
    while (kept < count) {
        used += size_of(json_array_get(frames, count - kept - 1));
        if (used > budget)
            break;
        kept++;
    }
    if (kept == count)
        return 0;
    json_t *some = json_array();
    int failed = !some;
    for (size_t i = count - kept; i < count; i++)
        failed |= json_array_append(some, json_array_get(frames, i));
    failed |= json_object_set_new(error, "traceback", some);
    return failed | note_truncated(object, "traceback", kept, count, NULL);
}

// SECURITY: only the wire format bounds what the box sent beside its output.
static int bound_report(json_t *object, size_t budget)
{
    const struct {
        const char *key;
        size_t max;
    } fields[] = {
        {"type", TYPE_MAX}, {"message", budget / 4}, {"code_line", LINE_MAX}, {"text", budget}};
    json_t *error = json_object_get(object, "error"),
           *plain = json_object_get(object, "result_json");
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(error, fields[i].key);
        if (json_is_string(value) && json_string_length(value) > fields[i].max)
            failed |= json_object_set_new(
                error, fields[i].key,
                answer_clip(json_string_value(value), json_string_length(value), fields[i].max));
    }
    if (json_is_object(error))
        failed |= bound_traceback(object, error, budget / 2);
    size_t size = plain ? size_of(plain) : 0;
    if (size > budget) {
        failed |= note_truncated(object, "result_json", 0, size, NULL);
        failed |= json_object_del(object, "result_json");
    }
    return failed;
}

// ---- head and foot ------------------------------------------------------------------------------

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && text[0] ? text : NULL;
}

// One line of foreign text, at most `max` characters of it.
static void write_line(FILE *f, const char *text, size_t max)
{
    text += strspn(text, " \t\r\n"); // some messages begin with an empty line
    size_t length = strcspn(text, "\n"), head = skip_characters(text, length, max);
    (void)write_clean(f, text, head, true); // without memory there is no line
    fputs(text[head] ? "\xe2\x80\xa6\n" : "\n", f);
}

static void write_line_of(FILE *f, json_t *error, size_t budget)
{
    const char *code = string_at(error, "code_line");
    json_t *line = json_object_get(error, "line");
    if (json_is_integer(line)) {
        fprintf(f, "line %" JSON_INTEGER_FORMAT "%s", json_integer_value(line), code ? ": " : "\n");
        if (code)
            write_line(f, code, budget / 8 < RESULT_LINE_MAX ? budget / 8 : RESULT_LINE_MAX);
    }
}

static void write_error(FILE *f, json_t *error, size_t budget)
{
    const char *type = string_at(error, "type"), *message = string_at(error, "message");
    write_line_of(f, error, budget);
    char what[TYPE_MAX * 4 + 64];
    snprintf(what, sizeof what, "%s", type ? type : "error");
    text_sanitize(what);
    fprintf(f, "%.*s%s", (int)skip_characters(what, strlen(what), 60), what, message ? ": " : "\n");
    if (message)
        write_line(f, message, budget / 8 < LINE_MAX ? budget / 8 : LINE_MAX);
}

// A long traceback, of which the head has only the gist, can be read as a resource.
static int keep_trace(const struct answer_options *options, json_t *object)
{
    json_t *text = json_object_get(json_object_get(object, "error"), "text");
    const size_t length = json_string_length(text);
    char uri[OUTPUT_URI_MAX];
    if (options->details || length < TRACE_LONG || !options->keep ||
        !options->keep(options->argument, OUTPUT_ERROR, "text/plain", json_string_value(text),
                       length, uri))
        return 0;
    return note_truncated(object, "error", 0, length, uri);
}

static void write_head(FILE *f, json_t *object, const struct answer_options *options)
{
    const size_t budget = options->budget;
    json_t *error = json_object_get(object, "error"), *sig = json_object_get(object, "signal");
    json_t *code = json_object_get(object, "exit_code");
    const char *hint = string_at(object, "hint"), *verdict = string_at(object, "verdict");
    json_t *elapsed = json_object_get(object, "elapsed_ms");
    if (!verdict) {
        fprintf(f, "running for %.1f s\n", json_number_value(elapsed) / 1000);
        return;
    }
    if (answer_timed_out(object)) {
        fprintf(f, "%s in ", verdict); // and not KeyboardInterrupt, which named the line
        write_line_of(f, error, budget);
        if (!options->details)
            answer_trace(f, error, budget / 8 < LINE_MAX ? budget / 8 : LINE_MAX);
    } else if (json_is_object(error)) {
        write_error(f, error, budget);
        if (!options->details)
            answer_trace(f, error, budget / 8 < LINE_MAX ? budget / 8 : LINE_MAX);
    } else if (strcmp(verdict, "ok") != 0) {
        fputs(verdict, f);
        if (json_is_integer(sig))
            fprintf(f, ": signal %" JSON_INTEGER_FORMAT, json_integer_value(sig));
        else if (json_is_integer(code))
            fprintf(f, ": exit code %" JSON_INTEGER_FORMAT, json_integer_value(code));
        fputc('\n', f);
    }
    const char *trace = string_at(json_object_get(json_object_get(object, "truncated"), "error"),
                                  "full_output_uri");
    if (trace && !options->details)
        fprintf(f, "[full text: %s]\n", trace);
    if (hint) {
        fputs("hint: ", f);
        write_line(f, hint, budget / 5);
    }
}

// ---- the whole answer
// ----------------------------------------------------------------------------------

// Head, state and foot, each followed by a NUL; none of them contains one.
static char *make_frame(const struct answer_options *options, json_t *object, bool brief)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    answer_state_head(f, object);
    write_head(f, object, options);
    fputc('\0', f);
    answer_state_body(f, options, object);
    fputc('\0', f);
    answer_foot(f, options, object, brief);
    fputc('\0', f);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    return failed ? (free(text), NULL) : text;
}

static char *make_text(const struct section *list, size_t n, const char *head, const char *shown,
                       const char *state, const char *foot, bool brief, size_t *ret_length)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, ret_length);
    if (!f)
        return NULL;
    int failed = 0;
    fputs(head, f);
    for (size_t i = 0; i < n; i++)
        failed |= write_section(f, &list[i], brief);
    if (n == 0 && !head[0] && !shown && !state[0])
        fputs("no output\n", f);
    if (shown)
        fputs(shown, f);
    fputs(state, f);
    fputs(foot, f);
    failed |= fclose(f);
    return failed ? (free(text), NULL) : text;
}

static json_t *make_content(const struct answer_options *options, const struct section *list,
                            size_t n, const struct answer_display *shown, json_t *object,
                            const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == '\n')
        length--;
    json_t *content = json_array();
    int failed = json_array_append_new(content, tool_text_n(text, length));
    if (shown->media)
        failed |= json_array_extend(content, shown->media);
    for (size_t i = 0; i < n; i++)
        if (options->links && list[i].kept) {
            char name[32];
            snprintf(name, sizeof name, "full %s", output_part_names[list[i].part]);
            failed |= json_array_append_new(
                content, tool_link(list[i].uri, name, "text/plain", (json_int_t)list[i].length));
        }
    if (options->links && shown->links)
        failed |= json_array_extend(content, shown->links);
    json_auto_t *files = options->links ? answer_state_links(object) : NULL;
    if (options->links)
        failed |= json_array_extend(content, files);
    return json_whole(content, failed);
}

static json_t *answer_from_sections(const struct answer_options *options, json_t *object,
                                    struct section *list, size_t n,
                                    const struct answer_display *shown)
{
    bool brief = options->budget < SHORT_BUDGET;
    _cleanup_free_ char *head = make_frame(options, object, brief);
    if (!head)
        return NULL;
    const char *state = head + strlen(head) + 1, *foot = state + strlen(state) + 1;
    size_t used = count_characters(head, strlen(head)) + count_characters(foot, strlen(foot)) +
                  count_characters(state, strlen(state)) +
                  (shown->text ? count_characters(shown->text, strlen(shown->text)) : 0);
    for (size_t i = 0; i < n; i++)
        used += strlen(list[i].label) + 3; // colon and two line feeds
    share_out(list, n, options->budget > used ? options->budget - used : 0);
    int failed = bound_report(object, options->budget);
    for (size_t i = 0; i < n; i++) {
        if (list[i].cut) {
            cut(&list[i], brief ? SHORT_NOTE_ROOM : NOTE_ROOM);
            list[i].kept = !list[i].instead && options->keep &&
                           options->keep(options->argument, list[i].part, "text/plain",
                                         whole_text(&list[i]), whole_length(&list[i]), list[i].uri);
        }
        failed |= replace_text(object, &list[i], brief);
    }
    size_t length = 0;
    _cleanup_free_ char *text =
        failed ? NULL : make_text(list, n, head, shown->text, state, foot, brief, &length);
    return text ? make_content(options, list, n, shown, object, text, length) : NULL;
}

// When the value of the last expression is a table, a readable text replaces its repr, which stays
// in the object, bounded.
static int say_table(const struct answer_options *options, json_t *object, struct section *result)
{
    json_t *table = answer_display_value(object);
    if (!table || result->part != OUTPUT_RESULT)
        return 0;
    int failed = 0;
    char uri[OUTPUT_URI_MAX];
    if (result->count > options->budget / 2) {
        bool kept = options->keep && options->keep(options->argument, OUTPUT_RESULT, "text/plain",
                                                   result->text, result->length, uri);
        failed |= note_truncated(object, "result", options->budget / 2, result->length,
                                 kept ? uri : NULL);
        failed |= json_object_set_new(
            object, "result", answer_clip(result->text, result->length, options->budget / 2));
    }
    json_t *text = answer_clip(json_string_value(table), json_string_length(table), TABLE_MAX);
    if (!text)
        return -1;
    json_decref(result->value);
    result->value = text;
    result->text = json_string_value(text);
    result->length = json_string_length(text);
    result->count = count_characters(result->text, result->length);
    result->instead = true;
    return failed;
}

json_t *answer_make(const struct answer_options *options, json_t *object)
{
    struct section list[SECTIONS];
    size_t n = 0;
    if (options->details && options->budget >= SHORT_BUDGET)
        add_section(list, &n, "traceback", OUTPUT_ERROR, json_object_get(object, "error"), "text");
    add_section(list, &n, "stdout", OUTPUT_STDOUT, object, "stdout");
    add_section(list, &n, "stderr", OUTPUT_STDERR, object, "stderr");
    add_section(list, &n, "result", OUTPUT_RESULT, object, "result");
    struct answer_display shown;
    json_t *content = NULL;
    int failed = n ? say_table(options, object, &list[n - 1]) : 0;
    failed |= keep_trace(options, object);
    if (answer_display(options, object, &shown) == 0 && !failed)
        content = answer_from_sections(options, object, list, n, &shown);
    answer_display_clear(&shown);
    for (size_t i = 0; i < n; i++) {
        json_decref(list[i].value);
        json_decref(list[i].whole);
    }
    return content;
}
