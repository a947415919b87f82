// SPDX-License-Identifier: Apache-2.0
//
// compare: see compare.h.  SECURITY: both texts are hostile; each is read once, from its beginning.

#include "rest/compare.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 64 };

struct text {
    const char *p, *end;
};

enum compare_mode compare_mode_of(const char *word)
{
    return !word || strcmp(word, "exact") == 0 ? COMPARE_EXACT
           : strcmp(word, "tokens") == 0       ? COMPARE_TOKENS
                                               : COMPARE_FLOAT;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool next_word(struct text *t, struct text *ret)
{
    while (t->p < t->end && is_blank(*t->p))
        t->p++;
    ret->p = t->p;
    while (t->p < t->end && !is_blank(*t->p))
        t->p++;
    ret->end = t->p;
    return ret->p < ret->end;
}

static bool is_same(struct text a, struct text b)
{
    return a.end - a.p == b.end - b.p && memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0;
}

// Decimal numbers only: not what strtod() takes besides.
static bool read_number(struct text t, double *ret)
{
    char word[NUMBER_MAX + 1], *end;
    size_t n = (size_t)(t.end - t.p);
    if (n > NUMBER_MAX)
        return false;
    memcpy(word, t.p, n);
    word[n] = '\0';
    if (strspn(word, "+-.0123456789eE") != n)
        return false;
    *ret = strtod(word, &end);
    return end == word + n && *ret - *ret == 0;
}

static bool is_near(struct text a, struct text b, double tolerance)
{
    double x, y;
    if (!read_number(a, &x) || !read_number(b, &y))
        return false;
    double scale = x * x > y * y ? x : y, gap = x - y;
    scale = scale < 0 ? -scale : scale;
    return (gap < 0 ? -gap : gap) <= tolerance * (scale > 1 ? scale : 1);
}

bool compare_texts(enum compare_mode mode, double tolerance, const char *got, size_t got_length,
                   const char *expected, size_t expected_length)
{
    struct text a = {got, got + got_length}, b = {expected, expected + expected_length}, x, y;
    if (mode == COMPARE_EXACT) {
        while (a.end > a.p && a.end[-1] == '\n')
            a.end--;
        while (b.end > b.p && b.end[-1] == '\n')
            b.end--;
        return is_same(a, b);
    }
    for (;;) {
        bool more = next_word(&a, &x);
        if (more != next_word(&b, &y))
            return false;
        if (!more)
            return true;
        if (!is_same(x, y) && !(mode == COMPARE_FLOAT && is_near(x, y, tolerance)))
            return false;
    }
}
