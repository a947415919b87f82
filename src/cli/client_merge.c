// SPDX-License-Identifier: Apache-2.0
//
// client_merge: the JSON half of client_merge.h.  jansson decides whether the text is JSON; the
// scanner below only finds places in a text that is.  In the end jansson reads the new text, which
// has to be the old value with our entry, or nothing is changed.

#include "cli/client_merge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char blanks[] = " \t\r\n";
static const char unchanged[] =
    "nothing was changed; put the settings in by hand: the same command "
    "without --write prints them";

// ---- places in a text that is JSON --------------------------------------------------------------

static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

static const char *skip_value(const char *p)
{
    size_t depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        if (*p == '}' || *p == ']')
            depth--;
        p += depth || strchr("}]", *p) ? 1 : strcspn(p, ",}] \t\r\n");
    } while (*p && depth);
    return p;
}

// An object's member, and what a new one needs.
struct span {
    const char *value, *value_end; // NULL: there is no such member
    const char *last;              // behind the last member, or behind '{'
    const char *first;             // the first member's key, or NULL
};

static struct span find_member(const char *object, const char *key)
{
    struct span ret = {.last = object + 1};
    size_t n = strlen(key);
    const char *p = object + 1 + strspn(object + 1, blanks);
    while (*p == '"') {
        const char *name = p + 1;
        if (!ret.first)
            ret.first = p;
        p = skip_string(p);
        bool same = (size_t)(p - name) == n + 1 && memcmp(name, key, n) == 0;
        p += strspn(p, " \t\r\n:");
        const char *value = p;
        p = skip_value(p);
        if (same) {
            ret.value = value;
            ret.value_end = p;
        }
        ret.last = p;
        p += strspn(p, " \t\r\n,");
    }
    return ret;
}

// ---- writing ------------------------------------------------------------------------------------

// The blanks that the file indents a member of its outermost object with.
static void find_unit(const char *text, const char *first, char ret[16])
{
    size_t n = 0;
    snprintf(ret, 16, "  ");
    while (first && first - n > text && n < 15 && strchr(" \t", first[-(long)n - 1]))
        n++;
    if (first && n && first - n > text && first[-(long)n - 1] == '\n')
        snprintf(ret, 16, "%.*s", (int)n, first - n);
}

static void put_indent(FILE *out, const char *unit, size_t depth)
{
    while (depth--)
        fputs(unit, out);
}

// `value`, whose own lines are `depth` deep.
static void put_value(FILE *out, const json_t *value, const char *unit, size_t depth)
{
    _cleanup_free_ char *text = json_dumps(value, JSON_INDENT(1));
    for (const char *p = text ? text : ""; *p; p++) {
        putc(*p, out);
        if (*p != '\n')
            continue;
        size_t own = strspn(p + 1, " ");
        put_indent(out, unit, depth + own);
        p += own;
    }
}

struct splice {
    const char *from, *to; // what is replaced
    const char *key;       // a new member; NULL: a value in the place of another
    bool follows;          // other members stand before it
    size_t depth;          // of the member
    const json_t *value;
};

static char *write_text(const char *text, const char *unit, const struct splice *s)
{
    char *ret = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&ret, &n);
    if (!out)
        return NULL;
    (void)fwrite(text, 1, (size_t)(s->from - text), out);
    if (s->key) {
        fputs(s->follows ? ",\n" : "\n", out);
        put_indent(out, unit, s->depth);
        fprintf(out, "\"%s\": ", s->key);
    }
    put_value(out, s->value, unit, s->depth);
    if (s->key && !s->follows) {
        putc('\n', out);
        put_indent(out, unit, s->depth - 1);
    }
    fputs(s->key && !s->follows ? s->to + strspn(s->to, blanks) : s->to, out);
    if (fclose(out) == 0)
        return ret;
    free(ret);
    return NULL;
}

static char *splice(const char *text, const char *servers, const json_t *snippet)
{
    char unit[16];
    const json_t *ours = json_object_get(snippet, servers);
    const char *top = text + strspn(text, blanks);
    struct span outer = find_member(top, servers);
    find_unit(text, outer.first, unit);
    struct splice s = {.from = outer.last, .to = outer.last, .key = servers, .depth = 1};
    s.follows = outer.first;
    s.value = ours;
    if (outer.value) {
        struct span inner = find_member(outer.value, "constrictor");
        s = (struct splice){.from = inner.value ? inner.value : inner.last,
                            .to = inner.value ? inner.value_end : inner.last,
                            .key = inner.value ? NULL : "constrictor",
                            .follows = inner.first,
                            .depth = 2,
                            .value = json_object_get(ours, "constrictor")};
    }
    return write_text(text, unit, &s);
}

// ---- merging ------------------------------------------------------------------------------------

static json_t *read_json(const char *text, size_t length, json_error_t *why)
{
    return json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, why);
}

static int refuse(const char *what, struct err *e)
{
    return err_set(e, ERR_BAD_CONFIG_FILE, 0, unchanged, "%s", what);
}

// `old` with our entry.
static json_t *merge_values(const json_t *old, const char *servers, const json_t *snippet)
{
    json_t *ret = json_deep_copy(old);
    json_t *list = json_object_get(ret, servers);
    const json_t *ours = json_object_get(snippet, servers);
    if (list)
        (void)json_object_set(list, "constrictor", json_object_get(ours, "constrictor"));
    else
        (void)json_object_set(ret, servers, (json_t *)ours);
    return ret;
}

int client_merge_json(const char *text, size_t length, const json_t *snippet, char **ret,
                      struct err *e)
{
    json_error_t why;
    const char *servers = json_object_iter_key(json_object_iter((json_t *)snippet));
    bool is_empty = strspn(text, blanks) == length;
    json_auto_t *old = is_empty ? json_object() : read_json(text, length, &why);
    if (!old)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, unchanged,
                       "it is not valid JSON: line %d: %.200s", why.line, why.text);
    const json_t *list = json_object_get(old, servers);
    if (!json_is_object(old) || (list && !json_is_object(list)))
        return refuse("it does not have the form of this client's settings", e);
    json_auto_t *wanted = merge_values(old, servers, snippet);
    _cleanup_free_ char *merged = splice(is_empty ? "{}\n" : text, servers, snippet);
    json_auto_t *got = merged ? read_json(merged, strlen(merged), &why) : NULL;
    if (!merged || !wanted)
        return err_memory(e);
    if (!got || !json_equal(got, wanted))
        return refuse("the place for our entry was not found in it", e);
    *ret = TAKE_PTR(merged);
    return 0;
}
