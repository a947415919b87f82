// SPDX-License-Identifier: Apache-2.0
//
// utf8: see utf8.h.

#include "base/utf8.h"

#include <stdint.h>
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
