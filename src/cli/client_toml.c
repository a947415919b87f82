// SPDX-License-Identifier: Apache-2.0
//
// client_toml: the TOML half of client_merge.h.  The scanner checks the form of every statement and
// knows of each which table it changes; what it does not understand is refused.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/client_merge.h"

enum { DEPTH_MAX = 32 };

static const char table_name[] = "mcp_servers", our_name[] = "constrictor";

// The first two parts of a dotted key.
struct key {
    size_t count;
    const char *part[2];
    size_t length[2];
};

struct scan {
    const char *p;
    struct key table;        // of the last header
    bool in_ours;            // that header is ours, or of a table in it
    const char *begin, *end; // our section, from its header to its last statement
    bool is_foreign;         // our entry is written in another way
    const char *line;        // where the statement begins
};

// ---- values -------------------------------------------------------------------------------------

static void skip_blanks(struct scan *s)
{
    s->p += strspn(s->p, " \t");
}

// Reads the end of a line and what cannot be seen before it.
static bool read_line_end(struct scan *s)
{
    skip_blanks(s);
    if (*s->p == '#')
        s->p += strcspn(s->p, "\n");
    if (s->p[0] == '\r' && s->p[1] == '\n')
        s->p++;
    if (*s->p && *s->p != '\n')
        return false;
    s->p += *s->p != '\0';
    return true;
}

static void skip_lines(struct scan *s)
{
    const char *before;
    do {
        before = s->p;
        s->p += strspn(s->p, " \t\r\n");
        if (*s->p == '#')
            s->p += strcspn(s->p, "\n");
    } while (s->p != before);
}

static bool read_string(struct scan *s)
{
    char quote = *s->p;
    bool is_long = s->p[1] == quote && s->p[2] == quote;
    for (s->p += is_long ? 3 : 1; *s->p; s->p++) {
        if (quote == '"' && *s->p == '\\' && s->p[1]) {
            s->p++;
        } else if (*s->p == quote && (!is_long || (s->p[1] == quote && s->p[2] == quote))) {
            s->p += is_long ? 3 : 1;
            // Up to two quotes may stand before the three that end a long text.
            for (int i = 0; is_long && i < 2 && *s->p == quote; i++)
                s->p++;
            return true;
        } else if ((unsigned char)*s->p < ' ' && *s->p != '\t' &&
                   !(is_long && strchr("\r\n", *s->p))) {
            return false;
        }
    }
    return false;
}

// A number, a date or a word.
static bool read_scalar(struct scan *s)
{
    static const char digits[] = "0123456789";
    static const char *const words[] = {"true", "false"};
    const char *from = s->p;
    s->p += strspn(from, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-_.:");
    if (s->p - from == 10 && from[4] == '-' && *s->p == ' ' && strchr(digits, s->p[1]) && s->p[1])
        s->p += 1 + strspn(s->p + 1, "0123456789:.+-Zz");
    size_t n = (size_t)(s->p - from);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (n == strlen(words[i]) && memcmp(from, words[i], n) == 0)
            return true;
    size_t sign = n && strchr("+-", *from);
    if (n == sign + 3 && (memcmp(from + sign, "inf", 3) == 0 || memcmp(from + sign, "nan", 3) == 0))
        return true;
    bool has_base = n > 2 && *from == '0' && strchr("xob", from[1]);
    const char *known = has_base ? "0123456789abcdefABCDEF_xo" : "0123456789+-_.:TtZzeE ";
    return n > sign && strchr(digits, from[sign]) && strspn(from, known) >= n;
}

static bool read_key(struct scan *s, struct key *ret)
{
    *ret = (struct key){0};
    do {
        s->p += ret->count > 0; // the dot
        skip_blanks(s);
        const char *from = s->p;
        bool is_quoted = *from == '"' || *from == '\'';
        if (is_quoted && (from[1] == from[0] ? from[2] == from[0] : false))
            return false;
        if (is_quoted && !read_string(s))
            return false;
        if (!is_quoted)
            s->p +=
                strspn(from, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
        size_t n = (size_t)(s->p - from);
        // "\u0063" could be a letter of our name.
        if (n == 0 || (*from == '"' && memmem(from, n, "\\u", 2)))
            return false;
        if (ret->count < 2) {
            ret->part[ret->count] = from + is_quoted;
            ret->length[ret->count] = n - (is_quoted ? 2 : 0);
        }
        ret->count++;
        skip_blanks(s);
    } while (*s->p == '.');
    return true;
}

static bool read_value(struct scan *s, unsigned depth);

// Behind the bracket: values, or with `in_table` keys and values.
static bool read_list(struct scan *s, bool in_table, unsigned depth)
{
    char close = in_table ? '}' : ']';
    struct key key;
    for (bool first = true;; first = false) {
        in_table ? skip_blanks(s) : skip_lines(s);
        if (*s->p == close && (first || !in_table))
            break;
        if (in_table && (!read_key(s, &key) || *s->p++ != '='))
            return false;
        if (!read_value(s, depth + 1))
            return false;
        in_table ? skip_blanks(s) : skip_lines(s);
        if (*s->p == close)
            break;
        if (*s->p++ != ',')
            return false;
    }
    s->p++;
    return true;
}

static bool read_value(struct scan *s, unsigned depth)
{
    skip_blanks(s);
    if (depth > DEPTH_MAX)
        return false;
    if (*s->p == '"' || *s->p == '\'')
        return read_string(s);
    if (*s->p == '[' || *s->p == '{') {
        bool in_table = *s->p++ == '{';
        return read_list(s, in_table, depth);
    }
    return read_scalar(s);
}

// ---- statements ---------------------------------------------------------------------------------

static bool is_part(const struct key *key, size_t i, const char *name)
{
    return key->count > i && key->length[i] == strlen(name) &&
           memcmp(key->part[i], name, key->length[i]) == 0;
}

static bool read_header(struct scan *s)
{
    bool is_array = s->p[1] == '[';
    s->p += is_array ? 2 : 1;
    if (!read_key(s, &s->table) || *s->p++ != ']' || (is_array && *s->p++ != ']') ||
        !read_line_end(s))
        return false;
    bool in_servers = is_part(&s->table, 0, table_name);
    s->in_ours = in_servers && is_part(&s->table, 1, our_name);
    if (is_array && in_servers && (s->table.count == 1 || (s->in_ours && s->table.count == 2)))
        s->is_foreign = true;
    if (!s->in_ours || s->table.count > 2)
        return true;
    if (s->begin) // a table may be there only once
        return false;
    s->begin = s->line;
    s->end = s->p;
    return true;
}

static bool read_pair(struct scan *s)
{
    struct key key, whole = s->table;
    if (!read_key(s, &key) || *s->p++ != '=' || !read_value(s, 0) || !read_line_end(s))
        return false;
    for (size_t i = 0; i < key.count && i < 2 && whole.count < 2; i++) {
        whole.part[whole.count] = key.part[i];
        whole.length[whole.count++] = key.length[i];
    }
    if (s->in_ours && s->table.count == 2)
        s->end = s->p;
    else if (!s->in_ours && is_part(&whole, 0, table_name) &&
             (whole.count == 1 || is_part(&whole, 1, our_name)))
        s->is_foreign = true;
    return true;
}

static bool scan_text(struct scan *s)
{
    for (;;) {
        skip_lines(s);
        s->line = s->p;
        if (!*s->p)
            return true;
        if (!(*s->p == '[' ? read_header(s) : read_pair(s)))
            return false;
    }
}

// ---- merging ------------------------------------------------------------------------------------

static unsigned line_of(const char *text, const char *at)
{
    unsigned n = 1;
    for (; text < at; text++)
        n += *text == '\n';
    return n;
}

int client_merge_toml(const char *text, const char *section, char **ret, struct err *e)
{
    static const char hint[] = "nothing was changed; put the settings in by hand: the same command "
                               "without --write prints them";
    struct scan s = {.p = text};
    if (!scan_text(&s))
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, hint, "it is not valid TOML: line %u",
                       line_of(text, s.line));
    if (s.is_foreign)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, hint,
                       "it has %s.%s in another form than a section [%s.%s]", table_name, our_name,
                       table_name, our_name);
    size_t length = strlen(text);
    const char *gap = length && text[length - 1] != '\n' ? "\n\n" : length ? "\n" : "";
    int n = s.begin ? asprintf(ret, "%.*s%s%s", (int)(s.begin - text), text, section, s.end)
                    : asprintf(ret, "%s%s%s", text, gap, section);
    return n < 0 ? err_memory(e) : 0;
}
