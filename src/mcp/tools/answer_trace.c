// SPDX-License-Identifier: Apache-2.0
//
// answer_trace: see answer_internal.h.  SECURITY: every line is bounded, and so is their number;
// control characters become visible.

#include "mcp/tools/answer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/tools/answer.h"

enum {
    CALLERS_MAX = 4,
    NOTES_MAX = 10,   // further lines of a message, and notes
    GROUP_LINES = 30, // lines of a group of exceptions
    CAUSES_MAX = 3,
    BLOCK_MAX = 4, // lines that repeat together
    REPEATS_MIN = 3,
};

struct span {
    const char *at, *end;
};

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

// The next line of `from`, which then begins after it.
static bool next_line(struct span *from, struct span *ret)
{
    if (from->at >= from->end)
        return false;
    const char *end = memchr(from->at, '\n', (size_t)(from->end - from->at));
    *ret = (struct span){from->at, end ? end : from->end};
    from->at = end ? end + 1 : from->end;
    return true;
}

static bool begins(struct span s, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(s.end - s.at) >= n && memcmp(s.at, with, n) == 0;
}

static void write_span(FILE *f, struct span s, size_t max)
{
    while (s.at < s.end && strchr(" \t\r", *s.at))
        s.at++;
    size_t length = (size_t)(s.end - s.at), clean = 0, bytes = length < 4 * max ? length : 4 * max;
    size_t shown = 0, at = 0;
    for (; at < bytes && shown <= max; at++)
        shown += ((unsigned char)s.at[at] & 0xc0) != 0x80;
    if (shown > max)
        at--; // where the first character that is too many begins
    while (at < length && at > 0 && ((unsigned char)s.at[at] & 0xc0) == 0x80)
        at--;
    _cleanup_free_ char *copy = answer_clean(s.at, at, true, &clean);
    if (copy)
        (void)fwrite(copy, 1, clean, f);
    if (at < length)
        fputs("\xe2\x80\xa6", f);
}

static void write_text(FILE *f, const char *text, size_t max)
{
    write_span(f, (struct span){text, text + strcspn(text, "\n")}, max);
}

// ---- one traceback ------------------------------------------------------------------------------

// The lines of the exception itself, after the last frame; and that frame's line.
static struct span exception_of(struct span block, struct span *ret_frame)
{
    struct span rest = block, line, found = block;
    bool in_frame = false;
    *ret_frame = (struct span){0};
    while (next_line(&rest, &line)) {
        if (begins(line, "  File \"")) {
            *ret_frame = line;
            in_frame = true;
        } else if (in_frame && !begins(line, "    ") && !begins(line, "  [")) {
            in_frame = false;
            found = (struct span){line.at, block.end};
        }
    }
    return in_frame ? (struct span){block.end, block.end} : found;
}

// `  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode` of a library.
static void write_library(FILE *f, struct span frame, size_t max)
{
    struct span path = {frame.at + 8, NULL};
    if (!frame.at || !(path.end = memchr(path.at, '"', (size_t)(frame.end - path.at))) ||
        *path.at == '<' || begins(path, "/mnt/data/"))
        return;
    struct span name = {path.end, path.end}, rest = {path.end + 1, frame.end};
    for (int slashes = 0; name.at > path.at; name.at--)
        if (name.at[-1] == '/' && ++slashes == 2)
            break;
    if (begins(rest, ", "))
        rest.at += 2;
    fputs("raised in ", f);
    write_span(f, name, max / 2);
    fputs(" ", f);
    write_span(f, rest, max / 2);
    fputc('\n', f);
}

static bool is_same(json_t *a, json_t *b)
{
    return strcmp(string_at(a, "code_line"), string_at(b, "code_line")) == 0 &&
           strcmp(string_at(a, "file"), string_at(b, "file")) == 0;
}

// The user's own frames but the last, nearest first.
static void write_callers(FILE *f, json_t *error, size_t max)
{
    json_t *frames = json_object_get(error, "traceback");
    size_t count = json_array_size(frames), said = 0, left = 0;
    json_t *last = json_array_get(frames, count - 1), *before = last;
    for (size_t i = count > 0 ? count - 1 : 0; i-- > 0;) {
        json_t *frame = json_array_get(frames, i), *line = json_object_get(frame, "line");
        const char *file = string_at(frame, "file");
        if (said == CALLERS_MAX || is_same(frame, before)) {
            left++;
            continue;
        }
        before = frame;
        said++;
        fprintf(f, "called from line %lld", (long long)json_integer_value(line));
        if (strcmp(file, string_at(last, "file")) != 0) {
            fputs(" of ", f);
            write_text(f, file, max / 2);
        }
        fputs(": ", f);
        write_text(f, string_at(frame, "code_line"), max / 2);
        fputc('\n', f);
    }
    if (left)
        fprintf(f, "and %zu more calls\n", left);
}

// ---- earlier exceptions -------------------------------------------------------------------------

// How Python separates tracebacks, and what a later one says of the earlier.
static const struct marker {
    const char *line, *word;
} markers[] = {
    {"The above exception was the direct cause of the following exception:", "caused by "},
    {"During handling of the above exception, another exception occurred:", "while handling "},
};

static const struct marker *marker_of(struct span line)
{
    for (size_t i = 0; i < ARRAY_LEN(markers); i++)
        if (begins(line, markers[i].line) &&
            (size_t)(line.end - line.at) == strlen(markers[i].line))
            return &markers[i];
    return NULL;
}

// Does one text hold the other's message, which follows ": "?
static bool repeats(struct span headline, const char *message)
{
    const char *colon = memmem(headline.at, (size_t)(headline.end - headline.at), ": ", 2);
    if (!colon)
        return false;
    size_t length = (size_t)(headline.end - colon) - 2;
    return length && memmem(message, strlen(message), colon + 2, length);
}

// Writes the last earlier ones, and returns where the last traceback begins.  Reads the text once.
static const char *write_causes(FILE *f, struct span all, const char *message, size_t max)
{
    struct {
        struct span block;
        const char *word;
    } causes[CAUSES_MAX];
    size_t count = 0;
    const char *begin = all.at;
    struct span line, frame, headline;
    while (next_line(&all, &line)) {
        const struct marker *marker = marker_of(line);
        if (!marker)
            continue;
        causes[count % CAUSES_MAX].block = (struct span){begin, line.at};
        causes[count++ % CAUSES_MAX].word = marker->word;
        begin = all.at;
    }
    for (size_t i = count > CAUSES_MAX ? count - CAUSES_MAX : 0; i < count; i++) {
        struct span rest = exception_of(causes[i % CAUSES_MAX].block, &frame);
        if (!next_line(&rest, &headline) || repeats(headline, message))
            continue;
        fputs(causes[i % CAUSES_MAX].word, f);
        write_span(f, headline, max);
        fputc('\n', f);
    }
    return begin;
}

static void write_lines(FILE *f, struct span from, size_t count, size_t max)
{
    struct span line;
    while (next_line(&from, &line)) {
        if (count-- == 0) {
            fputs("\xe2\x80\xa6\n", f);
            return;
        }
        write_span(f, line, max);
        fputc('\n', f);
    }
}

void answer_trace(FILE *f, json_t *error, size_t max)
{
    const char *text = string_at(error, "text");
    struct span frame, line, all = {text, text + strlen(text)};
    if (strstr(text, "\n  | ")) { // a group: its tree says which exceptions
        write_lines(f, all, GROUP_LINES, max);
        return;
    }
    _cleanup_free_ char *causes = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&causes, &length);
    if (!memory)
        return;
    const char *last = write_causes(memory, all, string_at(error, "message"), max);
    if (fclose(memory) != 0)
        return;
    struct span own = exception_of((struct span){last, all.end}, &frame);
    if (next_line(&own, &line)) // the headline was written
        write_lines(f, own, NOTES_MAX, max);
    write_callers(f, error, max);
    write_library(f, frame, max);
    fputs(causes, f);
}

// ---- printed text -------------------------------------------------------------------------------

// What a terminal shows of a line: the part after the last carriage return that has something after
// it.
static struct span visible(struct span line)
{
    while (line.end > line.at && line.end[-1] == '\r')
        line.end--;
    const char *at =
        line.end > line.at ? memrchr(line.at, '\r', (size_t)(line.end - line.at)) : NULL;
    return at ? (struct span){at + 1, line.end} : line;
}

static bool equal(struct span a, struct span b)
{
    size_t length = (size_t)(a.end - a.at);
    return length == (size_t)(b.end - b.at) && memcmp(a.at, b.at, length) == 0;
}

// How often the `size` lines at `i` are there, one after the other.
static size_t count_repeats(const struct span *lines, size_t count, size_t i, size_t size)
{
    size_t times = 1;
    for (size_t at = i + size; at + size <= count; at += size, times++)
        for (size_t k = 0; k < size; k++)
            if (!equal(lines[i + k], lines[at + k]))
                return times;
    return times;
}

static void write_folded(FILE *f, const struct span *lines, size_t count, bool repeats)
{
    for (size_t i = 0; i < count;) {
        size_t size = 1, times = 1;
        for (size_t n = 1; repeats && n <= BLOCK_MAX && times < REPEATS_MIN; n++)
            if (i + n * REPEATS_MIN <= count) {
                times = count_repeats(lines, count, i, n);
                size = n;
            }
        if (times < REPEATS_MIN)
            size = times = 1;
        for (size_t k = 0; k < size; k++)
            fprintf(f, "%.*s\n", (int)(lines[i + k].end - lines[i + k].at), lines[i + k].at);
        if (times > 1)
            fprintf(f, "[the last %zu line%s %zu times]\n", size, size > 1 ? "s" : "", times);
        i += size * times;
    }
}

json_t *answer_fold(json_t *text, bool repeats)
{
    const char *s = json_string_value(text);
    size_t length = json_string_length(text), count = 0, room = 1;
    if (!memchr(s, '\r', length) && !repeats)
        return NULL;
    if (memchr(s, '\0', length) || length > INT32_MAX)
        return NULL;
    for (size_t i = 0; i < length; i++)
        room += s[i] == '\n';
    _cleanup_free_ struct span *lines = calloc(room, sizeof *lines);
    struct span rest = {s, s + length};
    while (lines && next_line(&rest, &lines[count])) {
        lines[count] = visible(lines[count]);
        count++;
    }
    char *folded = NULL;
    size_t size = 0;
    FILE *f = lines ? open_memstream(&folded, &size) : NULL;
    if (!f)
        return NULL;
    write_folded(f, lines, count, repeats);
    bool failed = fclose(f) != 0;
    if (!failed && size && s[length - 1] != '\n')
        size--; // the last line had no end
    json_t *result = !failed && size < length ? json_stringn_nocheck(folded, size) : NULL;
    free(folded);
    return result;
}
