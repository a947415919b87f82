// SPDX-License-Identifier: Apache-2.0
//
// path: paths of HTTP requests against the globs of rules.  Called for rules when they are parsed
// and by the broker for each request of a host whose paths are bounded.
//
// SECURITY: servers decode, merge and shorten paths in different ways: /v1/%2e%2e/admin,
// /v1//../admin, /v1/..;/admin, /v1/..%5cadmin, %252e.  Paths that two servers could read in two
// ways are refused; only the others are compared.

#include <string.h>

#include "net/rule.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c > 0 && strchr("-._~", c));
}

// "." and "..", also with parameters behind a ';' that some servers cut off.
static bool is_dots(const char *segment, size_t n)
{
    const char *end = memchr(segment, ';', n);
    const char *coded = memmem(segment, n, "%3B", 3);
    if (coded && (!end || coded < end))
        end = coded;
    if (end)
        n = (size_t)(end - segment);
    return (n == 1 && segment[0] == '.') || (n == 2 && segment[0] == '.' && segment[1] == '.');
}

static const char *check_segments(const char *path)
{
    for (const char *s = path; *s == '/';) {
        size_t n = strcspn(++s, "/");
        if (n == 0 && s[0])
            return "it has two slashes in a row";
        if (is_dots(s, n))
            return "it has '.' or '..' as a part";
        s += n;
    }
    return NULL;
}

// One character or one sequence of the path at `s`; returns how much was read, 0: refused.
static size_t reduce_one(const char *s, size_t left, char out[3], size_t *ret_n,
                         const char **ret_why)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char c = (unsigned char)s[0];
    if (c <= ' ' || c >= 0x7f || c == '\\' || c == '#' || c == '?') {
        *ret_why = "it has a character that paths do not have";
        return 0;
    }
    if (c != '%') {
        out[0] = s[0];
        *ret_n = 1;
        return 1;
    }
    int high = left > 2 ? hex(s[1]) : -1, low = left > 2 ? hex(s[2]) : -1;
    if (high < 0 || low < 0) {
        *ret_why = "a '%' is not followed by two hexadecimal digits";
        return 0;
    }
    int value = high * 16 + low;
    if (value < ' ' || value == 0x7f || value == '/' || value == '\\' || value == '%') {
        *ret_why = "it has a slash, backslash, percent sign or control character in percent code";
        return 0;
    }
    if (is_unreserved(value)) {
        out[0] = (char)value;
        *ret_n = 1;
    } else {
        out[0] = '%';
        out[1] = digits[high];
        out[2] = digits[low];
        *ret_n = 3;
    }
    return 3;
}

int net_path_reduce(const char *path, size_t length, char *ret, size_t cap, const char **ret_why)
{
    size_t n = 0;
    if (length == 0 || path[0] != '/') {
        *ret_why = "it does not begin with '/'";
        return -1;
    }
    for (size_t i = 0; i < length;) {
        char out[3];
        size_t made = 0, used = reduce_one(path + i, length - i, out, &made, ret_why);
        if (used == 0)
            return -1;
        if (made >= cap - n) {
            *ret_why = "it is too long";
            return -1;
        }
        memcpy(ret + n, out, made);
        n += made;
        i += used;
    }
    ret[n] = '\0';
    *ret_why = check_segments(ret);
    return *ret_why ? -1 : 0;
}

// The pieces between stars are searched from left to right, each at its first match: if the glob
// matches at all, this finds it.  memmem() is linear, and no byte is searched for two pieces.
bool net_path_matches(const char *glob, const char *path)
{
    size_t left = strlen(path), n = strcspn(glob, "*");
    if (n > left || memcmp(glob, path, n) != 0)
        return false;
    glob += n;
    path += n;
    left -= n;
    if (!*glob)
        return left == 0;
    for (;;) {
        glob += strspn(glob, "*");
        n = strcspn(glob, "*");
        if (!glob[n]) // the last piece, which ends the path
            return n <= left && memcmp(glob, path + left - n, n) == 0;
        const char *found = memmem(path, left, glob, n);
        if (!found)
            return false;
        left -= (size_t)(found + n - path);
        path = found + n;
        glob += n;
    }
}
