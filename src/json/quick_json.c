// SPDX-License-Identifier: Apache-2.0
//
// quick_json: see quick_json.h.  SECURITY: the text is hostile.  Every read is bounded by `end`,
// recursion by DEPTH_MAX, and a text in doubt is not plain.

#include "json/quick_json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { DEPTH_MAX = 32, KEY_MAX = 63, DIGITS_MAX = 18 };

struct reader {
    const char *at, *end;
    unsigned depth;
};

static json_t *read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

// Is `sign` next?  Then it is skipped.
static bool take(struct reader *r, char sign)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != sign)
        return false;
    r->at++;
    return true;
}

// ---- strings ------------------------------------------------------------------------------------

// The raw bytes of a string between its quotes.
struct piece {
    const char *at;
    size_t length;
    bool escapes, ascii;
};

static bool read_piece(struct reader *r, struct piece *ret)
{
    unsigned char all = 0;
    if (!take(r, '"'))
        return false;
    *ret = (struct piece){.at = r->at};
    for (; r->at < r->end; r->at++) {
        unsigned char sign = (unsigned char)*r->at;
        if (sign == '"') {
            ret->length = (size_t)(r->at++ - ret->at);
            ret->ascii = !(all & 0x80);
            return true;
        }
        if (sign < ' ')
            return false;
        all |= sign;
        if (sign != '\\')
            continue;
        ret->escapes = true;
        if (++r->at == r->end)
            return false;
    }
    return false;
}

static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";

// The length of the decoded string; -1: another kind of escape.
static ssize_t unescape(const struct piece *p, char *to)
{
    const char *from = p->at, *end = p->at + p->length;
    char *begin = to;
    while (from < end) {
        const char *next = memchr(from, '\\', (size_t)(end - from));
        size_t plain = (size_t)((next ? next : end) - from);
        memcpy(to, from, plain);
        to += plain;
        if (!next)
            break;
        const char *letter = next + 1 < end && next[1] ? strchr(letters, next[1]) : NULL;
        if (!letter)
            return -1;
        *to++ = meanings[letter - letters];
        from = next + 2;
    }
    return to - begin;
}

static json_t *make_string(const char *text, size_t length, bool ascii)
{
    return ascii ? json_stringn_nocheck(text, length) : json_stringn(text, length);
}

static json_t *read_string(struct reader *r)
{
    struct piece p;
    if (!read_piece(r, &p))
        return NULL;
    if (!p.escapes)
        return make_string(p.at, p.length, p.ascii);
    _cleanup_free_ char *text = malloc(p.length);
    ssize_t length = text ? unescape(&p, text) : -1;
    return length < 0 ? NULL : make_string(text, (size_t)length, p.ascii);
}

// ---- the rest -----------------------------------------------------------------------------------

static json_t *read_number(struct reader *r)
{
    bool negative = *r->at == '-';
    r->at += negative;
    const char *first = r->at;
    json_int_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - first < DIGITS_MAX; r->at++)
        value = value * 10 + (*r->at - '0');
    ptrdiff_t digits = r->at - first;
    if (digits < 1 || (*first == '0' && (digits > 1 || negative)) || r->at == r->end ||
        memchr(".eE0123456789", *r->at, 13))
        return NULL;
    return json_integer(negative ? -value : value);
}

static json_t *read_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(r->end - r->at) < length || memcmp(r->at, words[i], length) != 0)
            continue;
        r->at += length;
        return i == 0 ? json_true() : i == 1 ? json_false() : json_null();
    }
    return NULL;
}

static bool read_member(struct reader *r, json_t *object)
{
    char key[KEY_MAX + 1];
    struct piece p;
    if (!read_piece(r, &p) || p.escapes || !p.ascii || p.length > KEY_MAX || !take(r, ':'))
        return false;
    memcpy(key, p.at, p.length);
    key[p.length] = '\0';
    if (json_object_get(object, key))
        return false; // a key twice: left to jansson
    json_t *value = read_value(r);
    return value && json_object_set_new_nocheck(object, key, value) == 0;
}

static bool read_item(struct reader *r, json_t *array)
{
    json_t *value = read_value(r);
    return value && json_array_append_new(array, value) == 0;
}

// An object or an array, after its first sign.
static json_t *read_many(struct reader *r, json_t *into, char last,
                         bool (*read)(struct reader *r, json_t *into))
{
    bool ok = into && ++r->depth <= DEPTH_MAX;
    if (ok && !take(r, last)) {
        while ((ok = read(r, into)) && take(r, ','))
            ;
        ok = ok && take(r, last);
    }
    r->depth--;
    if (ok)
        return into;
    json_decref(into);
    return NULL;
}

static json_t *read_value(struct reader *r)
{
    skip_blanks(r);
    if (r->at == r->end)
        return NULL;
    switch (*r->at) {
    case '"': return read_string(r);
    case '{': r->at++; return read_many(r, json_object(), '}', read_member);
    case '[': r->at++; return read_many(r, json_array(), ']', read_item);
    case 't':
    case 'f':
    case 'n': return read_word(r);
    default: return *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? read_number(r) : NULL;
    }
}

json_t *quick_json_plain(const char *data, size_t length)
{
    struct reader r = {.at = data, .end = data + length};
    skip_blanks(&r);
    if (r.at == r.end || (*r.at != '{' && *r.at != '['))
        return NULL;
    json_t *value = read_value(&r);
    skip_blanks(&r);
    if (r.at == r.end)
        return value;
    json_decref(value);
    return NULL;
}

enum quick_json_fit quick_json_measure(const char *data, size_t length, size_t values_max,
                                       size_t depth_max)
{
    size_t values = 0, depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = data[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        if (in_string)
            continue;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth)
            depth--;
        values += c == ',' || c == '{' || c == '[';
        if (depth > depth_max)
            return QUICK_JSON_TOO_DEEP;
        if (values > values_max)
            return QUICK_JSON_TOO_MANY;
    }
    return QUICK_JSON_FITS;
}

json_t *quick_json_load(const char *data, size_t length, size_t flags, json_error_t *error)
{
    json_t *value = quick_json_plain(data, length);
    return value ? value : json_loadb(data, length, flags, error);
}
