// SPDX-License-Identifier: Apache-2.0
//
// problem: see problem.h.

#include "http/problem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { TITLE_MAX = 64, INSTANCE_MAX = 2048 };

bool problem_is_for(const char *path)
{
    // Also for the clients of compat/kernels.c, which read "detail".
    return strncmp(path, "/api/", 5) == 0 || strcmp(path, "/api") == 0 ||
           strncmp(path, "/ai/", 4) == 0;
}

json_t *problem_error(const char *code, const char *message, const char *hint)
{
    return json_pack("{s:{s:s, s:s, s:s*}}", "error", "code", code, "message",
                     message ? message : "", "hint", hint && hint[0] ? hint : NULL);
}

// "session_not_found": "Session not found".  The same for every occurrence, as the RFC wants it.
static json_t *title(const char *code)
{
    char text[TITLE_MAX];
    snprintf(text, sizeof text, "%s", code);
    for (char *p = text; *p; p++)
        if (*p == '_')
            *p = ' ';
    text[0] = (char)toupper((unsigned char)text[0]);
    return json_string(text);
}

// SECURITY: a path is untrusted text: only characters that RFC 3986 allows stay as they are.  One
// that does not fit is left out.
static json_t *instance(const char *path)
{
    static const char digits[] = "0123456789ABCDEF", plain[] = "-._~/!$&'()*+,;=:@";
    char text[INSTANCE_MAX];
    size_t at = 0;
    for (const unsigned char *p = (const unsigned char *)path; p && *p; p++) {
        if (at + 4 > sizeof text)
            return NULL;
        if (*p < 128 && (isalnum(*p) || strchr(plain, *p))) {
            text[at++] = (char)*p;
            continue;
        }
        text[at++] = '%';
        text[at++] = digits[*p >> 4];
        text[at++] = digits[*p & 15];
    }
    text[at] = '\0';
    return at ? json_string(text) : NULL;
}

static bool set(json_t *body, const char *key, json_t *value)
{
    if (!value)
        return false;
    if (!json_object_get(body, key))
        return json_object_set_new(body, key, value) == 0;
    json_decref(value);
    return true;
}

bool problem_dress(json_t *body, int status, const char *path)
{
    json_t *error = json_object_get(body, "error"), *hint = json_object_get(error, "hint");
    const char *code = json_string_value(json_object_get(error, "code"));
    json_t *message = json_object_get(error, "message");
    if (!code || !json_is_string(message))
        return false;
    json_t *where = instance(path);
    bool done = set(body, "type", json_sprintf(PROBLEM_PREFIX "%s", code)) &&
                set(body, "title", title(code)) && set(body, "status", json_integer(status)) &&
                set(body, "detail", json_incref(message)) && set(body, "code", json_string(code));
    if (where)
        done &= set(body, "instance", where);
    if (json_is_string(hint))
        done &= set(body, "hint", json_incref(hint));
    return done;
}
