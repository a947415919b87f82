// SPDX-License-Identifier: Apache-2.0
//
// text: see text.h.  All arithmetic is on unsigned integers with overflow checks; there is no
// floating point, so "1e30" and "nan" cannot mean anything here.

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/utf8.h"

/* ---- Numbers ---- */

struct unit {
    const char *suffix;
    uint64_t factor;
};

// Formatting takes the last row that divides the value, so the preferred spelling of a factor comes
// last.
static const struct unit size_units[] = {
    {"", 1},           {"k", TEXT_KIB},   {"KB", TEXT_KIB},  {"KiB", TEXT_KIB}, {"K", TEXT_KIB},
    {"m", TEXT_MIB},   {"MB", TEXT_MIB},  {"MiB", TEXT_MIB}, {"M", TEXT_MIB},   {"g", TEXT_GIB},
    {"GB", TEXT_GIB},  {"GiB", TEXT_GIB}, {"G", TEXT_GIB},   {"t", TEXT_TIB},   {"TB", TEXT_TIB},
    {"TiB", TEXT_TIB}, {"T", TEXT_TIB},
};

static const struct unit duration_units[] = {
    {"", TEXT_SECOND_MS},  {"ms", 1},           {"s", TEXT_SECOND_MS},
    {"m", TEXT_MINUTE_MS}, {"h", TEXT_HOUR_MS},
};

// Six digits keep fraction * factor below 2^64 for every factor up to 2^40.
enum { FRACTION_DIGITS = 6 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Reads the digits at *s and moves *s behind them.
static int parse_digits(const char **s, uint64_t *ret)
{
    uint64_t v = 0;
    const char *p = *s;
    if (!is_digit(*p))
        return -EINVAL;
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return -ERANGE;
    *s = p;
    *ret = v;
    return 0;
}

// Reads ".25" at *s as 25 of 100; digits after the sixth are dropped.  Without a dot it is 0 of 1.
static int parse_fraction(const char **s, uint64_t *ret, uint64_t *ret_scale)
{
    uint64_t v = 0, scale = 1;
    const char *p = *s;
    if (*p == '.') {
        if (!is_digit(*++p))
            return -EINVAL;
        for (int n = 0; is_digit(*p); p++, n++) {
            if (n >= FRACTION_DIGITS)
                continue;
            v = v * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    *s = p;
    *ret = v;
    *ret_scale = scale;
    return 0;
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *suffix)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].suffix, suffix) == 0)
            return &units[i];
    return NULL;
}

static int check_bounds(uint64_t v, uint64_t min, uint64_t max, uint64_t *ret)
{
    if (v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

// digits [ '.' digits ] suffix, as a whole multiple of the smallest unit.
static int parse_with_unit(const char *s, const struct unit *units, size_t count, uint64_t *ret)
{
    uint64_t whole, fraction, scale, v;
    int r = parse_digits(&s, &whole);
    if (r < 0)
        return r;
    bool has_point = *s == '.';
    r = parse_fraction(&s, &fraction, &scale);
    if (r < 0)
        return r;
    const struct unit *u = find_unit(units, count, s);
    if (!u || (has_point && u->factor == 1)) // there is no half byte
        return -EINVAL;
    if (__builtin_mul_overflow(whole, u->factor, &v) ||
        __builtin_add_overflow(v, fraction * u->factor / scale, &v))
        return -ERANGE;
    *ret = v;
    return 0;
}

int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    int r = parse_digits(&s, &v);
    if (r < 0)
        return r;
    return *s ? -EINVAL : check_bounds(v, min, max, ret);
}

int text_parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret_bytes)
{
    uint64_t v;
    int r = parse_with_unit(s, size_units, ARRAY_LEN(size_units), &v);
    return r < 0 ? r : check_bounds(v, min, max, ret_bytes);
}

int text_parse_duration(const char *s, uint64_t min, uint64_t max, uint64_t *ret_ms)
{
    uint64_t v;
    int r = parse_with_unit(s, duration_units, ARRAY_LEN(duration_units), &v);
    return r < 0 ? r : check_bounds(v, min, max, ret_ms);
}

int text_parse_scaled(const char *s, uint64_t factor, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    int r = parse_with_unit(s, &(struct unit){"", factor}, 1, &v);
    return r < 0 ? r : check_bounds(v, min, max, ret);
}

/* ---- Words ---- */

int text_parse_bool(const char *s, bool *ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(s, words[i].word) == 0) {
            *ret = words[i].value;
            return 0;
        }
    }
    return -EINVAL;
}

int text_parse_choice(const char *s, const char *choices, int *ret)
{
    size_t len = strlen(s);
    if (len == 0 || strchr(s, '|'))
        return -EINVAL;
    for (int i = 0;; i++) {
        size_t n = strcspn(choices, "|");
        if (n == len && memcmp(s, choices, n) == 0) {
            *ret = i;
            return 0;
        }
        if (!choices[n])
            return -EINVAL;
        choices += n + 1;
    }
}

/* ---- Formatting ---- */

static void format_with_unit(uint64_t v, const struct unit *units, size_t count, char *buf,
                             size_t cap)
{
    const struct unit *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (v % units[i].factor == 0 && (v || units[i].factor == 1))
            best = &units[i];
    if (best)
        snprintf(buf, cap, "%" PRIu64 "%s", v / best->factor, best->suffix);
}

void text_format_size(uint64_t bytes, char *buf, size_t cap)
{
    format_with_unit(bytes, size_units, ARRAY_LEN(size_units), buf, cap);
}

void text_format_duration(uint64_t ms, char *buf, size_t cap)
{
    format_with_unit(ms, duration_units, ARRAY_LEN(duration_units), buf, cap);
}

/* ---- Lists ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int list_add_item(struct text_list *list, const char *s, size_t len)
{
    while (len > 0 && is_blank(*s))
        s++, len--;
    while (len > 0 && is_blank(s[len - 1]))
        len--;
    if (len == 0)
        return -EINVAL;
    if (len > TEXT_ITEM_MAX)
        return -ENAMETOOLONG;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return -EINVAL;
    char item[TEXT_ITEM_MAX + 1] = {0};
    memcpy(item, s, len);
    if (text_list_has(list, item))
        return 0;
    if (list->count == TEXT_LIST_MAX)
        return -E2BIG;
    memcpy(list->items[list->count++], item, sizeof item);
    return 0;
}

int text_list_add(struct text_list *list, const char *s)
{
    if (!*s)
        return 0;
    for (;;) {
        size_t n = strcspn(s, ",");
        int r = list_add_item(list, s, n);
        if (r < 0)
            return r;
        if (!s[n])
            return 0;
        s += n + 1;
    }
}

bool text_list_has(const struct text_list *list, const char *item)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

/* ---- Foreign text ---- */

enum { DISTANCE_MAX = 63 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned text_distance(const char *a, const char *b)
{
    unsigned row[DISTANCE_MAX + 1];
    size_t la = strnlen(a, DISTANCE_MAX + 1), lb = strnlen(b, DISTANCE_MAX + 1);
    if (la > DISTANCE_MAX || lb > DISTANCE_MAX)
        return UINT32_MAX;
    for (unsigned j = 0; j <= lb; j++)
        row[j] = j;
    for (unsigned i = 1; i <= la; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= lb; j++) {
            unsigned above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[lb];
}

// Length of the valid UTF-8 character at s, or 0.  Overlong forms, surrogates and values above
// U+10FFFF are not valid.  The C1 control characters (U+0080..U+009F) are refused as well: a
// terminal may obey them.
static size_t utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char first, last, second_min, second_max, length;
    } forms[] = {
        {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (s[0] < forms[i].first || s[0] > forms[i].last)
            continue;
        if (forms[i].length > 1 && (s[1] < forms[i].second_min || s[1] > forms[i].second_max))
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].length;
    }
    return 0;
}

void text_sanitize(char *s)
{
    char *to = s;
    for (size_t n, shown; *s; s += n ? n : 1) {
        n = utf8_length((const unsigned char *)s);
        if (n == 0 || (n > 1 && utf8_hidden(s, n, &shown))) {
            *to++ = '?';
        } else {
            memmove(to, s, n);
            to += n;
        }
    }
    *to = '\0';
}

void text_format_time(int64_t ms, char buf[TEXT_TIME_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char text[24];
    if (!gmtime_r(&seconds, &parts) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts))
        snprintf(text, sizeof text, "1970-01-01T00:00:00");
    snprintf(buf, TEXT_TIME_MAX, "%s.%03dZ", text, (int)(ms % 1000));
}
