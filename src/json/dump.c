// SPDX-License-Identifier: Apache-2.0
//
// dump: see dump.h.  Unusual values (nested too deep, text that is not UTF-8) are left to jansson,
// which decides about them.

#include "json/dump.h"

#include <endian.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
    DEPTH_MAX = 128, // SECURITY: an untrusted value must not exhaust the stack
    SHARED_MAX = 4,
    FLAGS = JSON_COMPACT | JSON_ENCODE_ANY,
    BLOCK = 4096,    // bytes of a text written per check of the free space
    SMALL = 64,      // the same, while the buffer may be full
    WORST = 6,       // bytes that one byte becomes: \u001F
    SLACK = 16,      // for a word written whole, and a character past the block
    LARGE = 1 << 20, // from this size on a sink grows by less than twice
};

static struct shared {
    json_t *value;
    char *text;
    size_t length;
} shared[SHARED_MAX];
static size_t next_shared;

struct sink {
    char *data;
    size_t size, length; // `length` counts on when `data` is full
    bool grows;          // the sink owns `data`
    struct dump_hole *holes;
    size_t hole_count;
};

// Is there space for `length` bytes?  When memory is out, there is none for the rest either.
static bool has_space(struct sink *s, size_t length)
{
    if (s->length <= s->size && length <= s->size - s->length)
        return true;
    size_t size = s->length + length;
    size += size < LARGE ? size : size / 4;
    char *data = s->grows && s->length <= s->size ? realloc(s->data, size) : NULL;
    if (!data)
        return false;
    s->data = data;
    s->size = size;
    return true;
}

static void put(struct sink *s, const char *text, size_t length)
{
    if (length && has_space(s, length))
        memcpy(s->data + s->length, text, length);
    s->length += length;
}

static void put_char(struct sink *s, char c)
{
    if (has_space(s, 1))
        s->data[s->length] = c;
    s->length++;
}

// ---- numbers ------------------------------------------------------------------------------------

static void put_digits(struct sink *s, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    put(s, digits + at, sizeof digits - at);
}

static void put_integer(struct sink *s, json_int_t n)
{
    if (n < 0)
        put_char(s, '-');
    put_digits(s, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

// Most numbers are times in thousandths.  If the decimal's nearest double is the value itself, it
// is exact and shorter than seventeen digits.
static bool put_thousandths(struct sink *s, double value)
{
    if (!(value >= 0 && value < 1e12) || signbit(value))
        return false;
    uint64_t n = (uint64_t)(value * 1000 + 0.5);
    if ((double)n / 1000 != value)
        return false;
    put_digits(s, n / 1000);
    char digits[4] = {'.', (char)('0' + n / 100 % 10), (char)('0' + n / 10 % 10),
                      (char)('0' + n % 10)};
    put(s, digits, digits[3] != '0' ? 4 : digits[2] != '0' ? 3 : 2);
    return true;
}

static bool put_real(struct sink *s, json_t *value)
{
    char text[64];
    if (put_thousandths(s, json_real_value(value)))
        return true;
    size_t n = json_dumpb(value, text, sizeof text, FLAGS);
    if (n == 0 || n > sizeof text)
        return false;
    put(s, text, n);
    return true;
}

// ---- texts --------------------------------------------------------------------------------------

// 0: as it is; 'u': as a number; else the letter behind the backslash.
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return c < 0x20 ? 'u' : 0;
    }
}

// Of eight bytes: the high bit of each that needs escaping or is not ASCII.  Only the lowest such
// bit is certain: a borrow sets others.
static uint64_t specials(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    // The usual test for a zero byte, and for one below a number; bytes from 0x80 on are special
    // anyway.
    return ((word - ones * 0x20) | (quote - ones) | (slash - ones) | word) & high;
}

// Writes the character at text[*at].  Returns the end of the output; NULL: it is not UTF-8, and
// `mend` is false.
static char *escape_one(char *out, const char *text, size_t length, size_t *at, bool mend)
{
    static const char hex[] = "0123456789ABCDEF", replacement[] = "\xef\xbf\xbd";
    unsigned char c = (unsigned char)text[*at];
    if (c >= 0x80) {
        size_t n = utf8_sequence((const unsigned char *)text + *at, length - *at);
        if (n == 0 && !mend)
            return NULL;
        size_t written = n ? n : sizeof replacement - 1;
        memcpy(out, n ? text + *at : replacement, written);
        *at += n ? n : 1;
        return out + written;
    }
    char letter = escape_of(c);
    ++*at;
    if (letter)
        *out++ = '\\';
    *out++ = letter ? letter : (char)c;
    if (letter == 'u') {
        memcpy(out, (char[]){'0', '0', hex[c >> 4], hex[c & 15]}, 4);
        out += 4;
    }
    return out;
}

// Writes the bytes from *at to `end`, and the rest of the last character; `out` has space for the
// worst case.
static char *escape(char *out, const char *text, size_t length, size_t *at, size_t end, bool mend)
{
    while (out && *at < end) {
        uint64_t word;
        if (end - *at >= sizeof word) {
            memcpy(&word, text + *at, sizeof word);
            memcpy(out, &word, sizeof word);
            word = specials(le64toh(word));
            size_t plain = word ? (size_t)__builtin_ctzll(word) / 8 : sizeof word;
            *at += plain;
            out += plain;
            if (!word)
                continue;
        }
        out = escape_one(out, text, length, at, mend);
    }
    return out;
}

// False: the text is not UTF-8, and `mend` is false.
static bool put_escaped(struct sink *s, const char *text, size_t length, bool mend)
{
    char small[WORST * SMALL + SLACK];
    if (length > BLOCK) // grow once
        (void)has_space(s, length + length / 8 + WORST * BLOCK + SLACK);
    for (size_t at = 0; at < length;) {
        size_t block = length - at < BLOCK ? length - at : BLOCK;
        bool direct = has_space(s, WORST * block + SLACK);
        if (!direct && block > SMALL)
            block = SMALL;
        char *begin = direct ? s->data + s->length : small;
        char *end = escape(begin, text, length, &at, at + block, mend);
        if (!end)
            return false;
        if (direct)
            s->length += (size_t)(end - begin);
        else
            put(s, small, (size_t)(end - begin));
    }
    return true;
}

static bool put_string(struct sink *s, const char *text, size_t length)
{
    put_char(s, '"');
    if (!put_escaped(s, text, length, false))
        return false;
    put_char(s, '"');
    return true;
}

// ---- values -------------------------------------------------------------------------------------

static bool put_value(struct sink *s, json_t *value, int depth);

static bool put_array(struct sink *s, json_t *value, int depth)
{
    size_t count = json_array_size(value);
    put_char(s, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            put_char(s, ',');
        if (!put_value(s, json_array_get(value, i), depth - 1))
            return false;
    }
    put_char(s, ']');
    return true;
}

static bool put_object(struct sink *s, json_t *value, int depth)
{
    bool first = true;
    put_char(s, '{');
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        const char *key = json_object_iter_key(at);
        if (!first)
            put_char(s, ',');
        first = false;
        if (!put_string(s, key, strlen(key)))
            return false;
        put_char(s, ':');
        if (!put_value(s, json_object_iter_value(at), depth - 1))
            return false;
    }
    put_char(s, '}');
    return true;
}

static bool put_shared(struct sink *s, const json_t *value)
{
    for (size_t i = 0; i < SHARED_MAX; i++)
        if (shared[i].value == value) {
            put(s, shared[i].text, shared[i].length);
            return true;
        }
    return false;
}

static bool is_hole(struct sink *s, const json_t *value)
{
    for (size_t i = 0; i < s->hole_count; i++)
        if (s->holes[i].value == value) {
            s->holes[i].at = s->length;
            return true;
        }
    return false;
}

static bool put_value(struct sink *s, json_t *value, int depth)
{
    if (!value || depth < 0)
        return false;
    if (s->hole_count && is_hole(s, value))
        return true;
    switch (json_typeof(value)) {
    case JSON_OBJECT: return put_shared(s, value) || put_object(s, value, depth);
    case JSON_ARRAY: return put_array(s, value, depth);
    case JSON_STRING: return put_string(s, json_string_value(value), json_string_length(value));
    case JSON_INTEGER: put_integer(s, json_integer_value(value)); return true;
    case JSON_REAL: return put_real(s, value);
    case JSON_TRUE: put(s, "true", 4); return true;
    case JSON_FALSE: put(s, "false", 5); return true;
    case JSON_NULL: put(s, "null", 4); return true;
    }
    return false;
}

size_t dump_json(json_t *value, char *buffer, size_t size)
{
    struct sink s = {.data = buffer, .size = size};
    return put_value(&s, value, DEPTH_MAX) ? s.length : json_dumpb(value, buffer, size, FLAGS);
}

static struct sink open_sink(void)
{
    enum { FIRST = 512 };
    struct sink s = {.data = malloc(FIRST), .grows = true};
    s.size = s.data ? FIRST : 0;
    return s;
}

// The sink's text with a NUL; NULL: memory is out.
static char *close_sink(struct sink *s, size_t *ret_length)
{
    *ret_length = s->length;
    put_char(s, '\0');
    if (s->data && s->length <= s->size)
        return s->data;
    free(s->data);
    return NULL;
}

char *dump_text_n(json_t *value, size_t *ret_length)
{
    struct sink s = open_sink();
    if (put_value(&s, value, DEPTH_MAX))
        return close_sink(&s, ret_length);
    free(s.data);
    char *text = json_dumps(value, FLAGS);
    *ret_length = text ? strlen(text) : 0;
    return text;
}

char *dump_text_holes(json_t *value, struct dump_hole *holes, size_t count, size_t *ret_length)
{
    struct sink s = open_sink();
    s.holes = holes;
    s.hole_count = count;
    for (size_t i = 0; i < count; i++)
        holes[i].at = SIZE_MAX;
    if (put_value(&s, value, DEPTH_MAX))
        return close_sink(&s, ret_length);
    free(s.data);
    return NULL;
}

char *dump_text(json_t *value)
{
    size_t length;
    return dump_text_n(value, &length);
}

char *dump_around(const char *head, const char *text, size_t length, const char *tail,
                  size_t *ret_length)
{
    struct sink s = open_sink();
    put(&s, head, strlen(head));
    (void)put_escaped(&s, text, length, true);
    put(&s, tail, strlen(tail));
    return close_sink(&s, ret_length);
}

// ---- those that are shared ----------------------------------------------------------------------

static void clear(struct shared *s)
{
    json_decref(s->value);
    free(s->text);
    *s = (struct shared){0};
}

void dump_share(json_t *value)
{
    char *text = json_is_object(value) ? dump_text(value) : NULL;
    if (!text)
        return;
    struct shared *s = &shared[next_shared++ % SHARED_MAX];
    clear(s);
    *s = (struct shared){.value = json_incref(value), .text = text, .length = strlen(text)};
}

void dump_forget(json_t *value)
{
    for (size_t i = 0; i < SHARED_MAX; i++)
        if (value && shared[i].value == value)
            clear(&shared[i]);
}
