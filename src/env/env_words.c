// SPDX-License-Identifier: Apache-2.0
//
// env_words: see env_words.h.  SECURITY: names and log lines come out of boxes and indexes; no
// control character of theirs reaches a terminal.

#include "env/env_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

enum {
    LINE_MAX_SHOWN = 400, // bytes of a foreign line
    LOG_SHOWN = 12,       // lines of a log, the last ones
    NAMED_MAX = 200,      // packages that are named one by one
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

// A foreign text in one line, cleaned and cut.
static void put(FILE *f, const char *text)
{
    char line[LINE_MAX_SHOWN + 1];
    size_t n = strlen(text);
    snprintf(line, sizeof line, "%s", text);
    text_sanitize(line);
    fputs(line, f);
    if (n > LINE_MAX_SHOWN)
        fputs("...", f);
}

static void put_lines(FILE *f, const char *indent, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[LINE_MAX_SHOWN + 1];
        snprintf(line, sizeof line, "%.*s", (int)(n < LINE_MAX_SHOWN ? n : LINE_MAX_SHOWN), text);
        fputs(indent, f);
        put(f, line);
        fputc('\n', f);
        text += n + (text[n] == '\n');
    }
}

static char *finish(FILE *f, char **text)
{
    if (fclose(f) == 0)
        return *text;
    free(*text);
    return NULL;
}

// ---- jobs ---------------------------------------------------------------------------------------

bool env_status_is_ready(const json_t *status)
{
    return strcmp(text_of(status, "state"), "ready") == 0;
}

// The hash of a package built from source matches no file on an index.
char *env_words_lock(json_t *one)
{
    char *text = NULL;
    size_t length, i;
    json_t *item;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    fprintf(f, "# Python %s\n", text_of(one, "python"));
    json_array_foreach (json_object_get(one, "lock"), i, item) {
        put(f, text_of(item, "name"));
        fputs("==", f);
        put(f, text_of(item, "version"));
        fprintf(f, " \\\n    --hash=sha256:%.64s\n", text_of(item, "wheel"));
    }
    return finish(f, &text);
}

bool env_status_is_over(const json_t *status)
{
    const char *state = text_of(status, "state");
    return strcmp(state, "ready") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0 || strcmp(state, "not_found") == 0;
}

static double number_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

// "numpy 2.1.0, pandas 2.2.3"; entries are texts or objects with name and version.
static void put_packages(FILE *f, const char *label, json_t *list)
{
    json_t *item;
    size_t i;
    if (json_array_size(list) == 0)
        return;
    fprintf(f, "%s: ", label);
    json_array_foreach (list, i, item) {
        const char *name = json_is_string(item) ? json_string_value(item) : text_of(item, "name");
        const char *version = text_of(item, "version");
        if (i == NAMED_MAX) {
            fprintf(f, " and %zu more", json_array_size(list) - i);
            break;
        }
        fputs(i ? ", " : "", f);
        put(f, name);
        if (version[0]) {
            fputc(' ', f);
            put(f, version);
        }
    }
    fputc('\n', f);
}

static void put_log(FILE *f, json_t *log)
{
    size_t count = json_array_size(log), first = count > LOG_SHOWN ? count - LOG_SHOWN : 0;
    if (count)
        fputs("log:\n", f);
    for (size_t i = first; i < count; i++)
        put_lines(f, "  ", json_string_value(json_array_get(log, i)) ?: "");
}

static void put_failure(FILE *f, const json_t *status)
{
    const json_t *error = json_object_get(status, "error");
    const char *code = text_of(error, "code");
    fprintf(f, "environment '%s' is as it was: ", text_of(status, "environment"));
    put(f, text_of(error, "message")[0] ? text_of(error, "message") : "the job was cancelled");
    fputc('\n', f);
    if (text_of(error, "requirement")[0]) {
        fputs("requirement: ", f);
        put(f, text_of(error, "requirement"));
        fputc('\n', f);
    }
    if (text_of(error, "resolver_says")[0]) {
        fputs("the resolver says:\n", f);
        put_lines(f, "  ", text_of(error, "resolver_says"));
    }
    if (text_of(error, "hint")[0]) {
        fputs("hint: ", f);
        put(f, text_of(error, "hint"));
        fputc('\n', f);
    }
    if (code[0])
        fprintf(f, "code: %s\n", code);
}

static void put_ready(FILE *f, const json_t *status)
{
    json_t *added = json_object_get(status, "added"), *removed = json_object_get(status, "removed");
    if (json_array_size(added) == 0 && json_array_size(removed) == 0)
        fprintf(f, "environment '%s' has all of it already; nothing was changed\n",
                text_of(status, "environment"));
    else
        fprintf(f, "environment '%s' is ready, after %.1f s\n", text_of(status, "environment"),
                number_of(status, "elapsed_seconds"));
    put_packages(f, "installed", added);
    put_packages(f, "removed", removed);
    put_packages(f, "warnings", json_object_get(status, "warnings"));
}

char *env_words_status(json_t *status)
{
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    if (env_status_is_ready(status)) {
        put_ready(f, status);
    } else if (env_status_is_over(status)) {
        put_failure(f, status);
        put_log(f, json_object_get(status, "log"));
    } else {
        fprintf(f, "environment '%s': %s, %.0f %%, %.1f s so far\n", text_of(status, "environment"),
                text_of(status, "state"), number_of(status, "progress") * 100,
                number_of(status, "elapsed_seconds"));
        put_packages(f, "wanted", json_object_get(status, "requirements"));
        put_log(f, json_object_get(status, "log"));
    }
    return finish(f, &text);
}

void env_words_progress(const json_t *status, char *buf, size_t cap)
{
    const json_t *log = json_object_get(status, "log");
    size_t count = json_array_size(log);
    const char *state = text_of(status, "state");
    const char *last = count ? json_string_value(json_array_get(log, count - 1)) : NULL;
    // A line of the log often names the state itself.
    bool named = last && strncmp(last, state, strlen(state)) == 0;
    snprintf(buf, cap, "%s%s%.160s", named ? "" : state, named || !last || !last[0] ? "" : ": ",
             last ? last : "");
    size_t n = strlen(buf);
    while (n > 0 && strchr(": ", buf[n - 1]))
        buf[--n] = '\0';
    text_sanitize(buf);
}

// ---- environments -------------------------------------------------------------------------------

// The interpreter's own packages, or the others.
static void put_some(FILE *f, json_t *list, bool is_base, int width)
{
    json_t *item;
    size_t i, count = 0;
    json_array_foreach (list, i, item)
        count += json_is_true(json_object_get(item, "base")) == is_base;
    fprintf(f, "%s: %zu\n", is_base ? "the interpreter's own" : "installed", count);
    json_array_foreach (list, i, item)
        if (json_is_true(json_object_get(item, "base")) == is_base)
            fprintf(f, "  %-*s %s\n", width, text_of(item, "name"), text_of(item, "version"));
}

char *env_words_packages(json_t *answer)
{
    char *text = NULL;
    size_t length, i;
    FILE *f = open_memstream(&text, &length);
    json_t *list = json_object_get(answer, "packages"), *item;
    int width = 7;
    if (!f)
        return NULL;
    fprintf(f, "environment '%s', Python %s, %zu packages\n", text_of(answer, "environment"),
            text_of(answer, "python"), json_array_size(list));
    json_array_foreach (list, i, item) {
        int n = (int)strlen(text_of(item, "name"));
        width = n > width && n <= 48 ? n : width;
    }
    put_some(f, list, false, width);
    put_some(f, list, true, width);
    return finish(f, &text);
}

static void put_size(FILE *f, double bytes)
{
    if (bytes >= 1024.0 * 1024)
        fprintf(f, "%.1f MiB", bytes / (1024.0 * 1024));
    else
        fprintf(f, "%.1f KiB", bytes / 1024);
}

char *env_words_list(json_t *list)
{
    char *text = NULL;
    size_t length, i;
    FILE *f = open_memstream(&text, &length);
    json_t *item;
    int width = 4;
    if (!f)
        return NULL;
    json_array_foreach (list, i, item) {
        int n = (int)strlen(text_of(item, "name"));
        width = n > width ? n : width;
    }
    json_array_foreach (list, i, item) {
        fprintf(f, "%-*s  Python %-8s  %4.0f packages  ", width, text_of(item, "name"),
                text_of(item, "python"), number_of(item, "packages"));
        put_size(f, number_of(item, "bytes"));
        fprintf(f, "  %s\n", text_of(item, "state"));
    }
    return finish(f, &text);
}

char *env_words_describe(json_t *one)
{
    static const struct {
        const char *key, *label;
    } rows[] = {{"python", "Python"},
                {"state", "state"},
                {"created", "created"},
                {"last_used", "last used"}};
    char *text = NULL;
    size_t length, i;
    FILE *f = open_memstream(&text, &length);
    json_t *item, *lock = json_object_get(one, "lock");
    if (!f)
        return NULL;
    fprintf(f, "environment '%s'\n", text_of(one, "name"));
    for (i = 0; i < ARRAY_LEN(rows); i++)
        if (text_of(one, rows[i].key)[0])
            fprintf(f, "  %s: %s\n", rows[i].label, text_of(one, rows[i].key));
    fputs("  size: ", f);
    put_size(f, number_of(one, "bytes"));
    fputs("\n  ", f);
    put_packages(f, "asked for", json_object_get(one, "requirements"));
    fprintf(f, "%sinstalled: %zu\n",
            json_array_size(json_object_get(one, "requirements")) ? "  " : "",
            json_array_size(lock));
    json_array_foreach (lock, i, item) {
        fputs("    ", f);
        put(f, text_of(item, "name"));
        fputc(' ', f);
        put(f, text_of(item, "version"));
        fputc('\n', f);
    }
    return finish(f, &text);
}
