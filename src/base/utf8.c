// SPDX-License-Identifier: Apache-2.0
//
// utf8: see utf8.h.

#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t utf8_sequence(const unsigned char *s, size_t len)
{
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

size_t utf8_count(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

// How many bytes from here on are ASCII, in steps of eight: most text is.
static size_t ascii_length(const char *s, size_t len)
{
    size_t i = 0;
    for (uint64_t word; len - i >= sizeof word; i += sizeof word) {
        memcpy(&word, s + i, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

size_t utf8_valid_length(const char *s, size_t len)
{
    size_t i = ascii_length(s, len);
    while (i < len) {
        size_t n = utf8_sequence((const unsigned char *)s + i, len - i);
        if (n == 0)
            break;
        i += n;
        if (n == 1)
            i += ascii_length(s + i, len - i);
    }
    return i;
}

char *utf8_clean(const char *s, size_t len, size_t *ret_len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    if (len > (SIZE_MAX - 1) / 3)
        return NULL;
    size_t bad = 0, at = 0;
    for (size_t i = 0; (i += utf8_valid_length(s + i, len - i)) < len; i++)
        bad++;
    char *out = malloc(len + 2 * bad + 1);
    for (size_t i = 0; out; i++) {
        size_t n = utf8_valid_length(s + i, len - i);
        memcpy(out + at, s + i, n);
        at += n;
        i += n;
        if (i >= len)
            break;
        memcpy(out + at, replacement, 3);
        at += 3;
    }
    if (out)
        *ret_len = at;
    return out;
}

// ---- characters that cannot be seen -------------------------------------------------------------

static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x00ad, 0x00ad},   // soft hyphen
    {0x180e, 0x180e},   // Mongolian vowel separator
    {0x200b, 0x200b},   // space of no width
    {0x202a, 0x202e},   // embeddings and overrides of direction
    {0x2060, 0x2064},   // word joiner, invisible operators
    {0x2066, 0x206f},   // isolates of direction, and format characters of old
    {0xfeff, 0xfeff},   // byte order mark
    {0xfff9, 0xfffb},   // interlinear annotation
    {0xe0000, 0xe0fff}, // tags and variation selectors
};

static uint32_t code_point(const unsigned char *s, size_t n)
{
    uint32_t c = n == 2 ? s[0] & 0x1f : n == 3 ? s[0] & 0x0f : s[0] & 0x07;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

// The code point of a hidden character of `*ret` bytes, or 0.
static uint32_t hidden_at(const char *text, size_t len, size_t *ret)
{
    const unsigned char *s = (const unsigned char *)text;
    // The first bytes of all of them: most text is decided here.
    if (len == 0 || !(s[0] == 0xc2 || s[0] == 0xe1 || s[0] == 0xe2 || s[0] == 0xef || s[0] == 0xf3))
        return 0;
    size_t n = utf8_sequence(s, len);
    uint32_t c = n > 1 ? code_point(s, n) : 0;
    for (size_t i = 0; c && i < sizeof hidden / sizeof hidden[0]; i++)
        if (c >= hidden[i].first && c <= hidden[i].last) {
            *ret = n;
            return c;
        }
    return 0;
}

size_t utf8_hidden(const char *s, size_t len, size_t *ret_shown)
{
    size_t n = 0;
    uint32_t c = hidden_at(s, len, &n);
    *ret_shown = c > 0xffff ? 12 : 6;
    return c ? n : 0;
}

size_t utf8_find_hidden(const char *s, size_t len)
{
    size_t n;
    for (size_t i = ascii_length(s, len); i < len; i++)
        if (hidden_at(s + i, len - i, &n))
            return i;
    return len;
}

char *utf8_reveal(const char *s, size_t len, size_t *ret_len)
{
    size_t more = 0, at = 0, n, shown;
    for (size_t i = 0; i < len; i++)
        if ((n = utf8_hidden(s + i, len - i, &shown)))
            more += shown - n;
    char *out = malloc(len + more + 1);
    if (!out)
        return NULL;
    for (size_t i = 0; i < len; i += n) {
        uint32_t c = hidden_at(s + i, len - i, &n);
        if (!c) {
            n = 1;
            out[at++] = s[i];
        } else if (c <= 0xffff) {
            at += (size_t)snprintf(out + at, 7, "\\u%04x", c);
        } else {
            at += (size_t)snprintf(out + at, 13, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
                                   0xdc00 + (c & 0x3ff));
        }
    }
    out[at] = '\0';
    *ret_len = at;
    return out;
}
