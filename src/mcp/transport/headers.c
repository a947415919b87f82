// SPDX-License-Identifier: Apache-2.0
//
// headers: see headers.h.

#include "mcp/transport/headers.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "json/encode.h"

enum {
    DEPTH_MAX = 16,  // of nested properties; ours have up to three
    HEADER_MAX = 64, // of the name after Mcp-Param-
    NUMBER_MAX = 32, // characters of a whole number; 2^53 has 16
    SHOWN_MAX = 64,  // bytes of a foreign value in a message
};

static const char encoded_begin[] = "=?base64?", encoded_end[] = "?=";
static const double safe_max = 9007199254740991.0; // 2^53 - 1: what JavaScript holds exactly

// ---- values -------------------------------------------------------------------------------------

static const char *trim(const char *s, size_t *ret_length)
{
    while (*s == ' ' || *s == '\t')
        s++;
    size_t n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    *ret_length = n;
    return s;
}

// RFC 9110: visible ASCII, blank, tab.
static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || (unsigned char)s[i] > 0x7e)
            return false;
    return true;
}

static bool is_encoded(const char *s, size_t n)
{
    size_t begin = strlen(encoded_begin), end = strlen(encoded_end);
    return n >= begin + end && memcmp(s, encoded_begin, begin) == 0 &&
           memcmp(s + n - end, encoded_end, end) == 0;
}

int header_decode(const char *value, char **ret, size_t *ret_length)
{
    size_t n, length;
    const char *s = trim(value, &n);
    if (!is_plain(s, n))
        return -EINVAL;
    _cleanup_free_ char *out = NULL;
    if (is_encoded(s, n)) {
        size_t begin = strlen(encoded_begin);
        out = (char *)decode_base64(s + begin, n - begin - strlen(encoded_end), &length);
        if (!out || utf8_valid_length(out, length) != length)
            return -EINVAL;
    } else {
        out = strndup(s, n);
        if (!out)
            return -ENOMEM;
        length = n;
    }
    *ret = TAKE_PTR(out);
    *ret_length = length;
    return 0;
}

// ---- refusals -----------------------------------------------------------------------------------

// A foreign value, fit for a message.
static const char *shown(const char *value, char buf[SHOWN_MAX])
{
    size_t n;
    const char *s = trim(value, &n);
    snprintf(buf, SHOWN_MAX, "%.*s", (int)(n < SHOWN_MAX ? n : SHOWN_MAX - 1), s);
    text_sanitize(buf);
    return buf;
}

// Finds the one header of this name.  0 and the value (NULL: there is none), or the refusal.
static int find_one(const struct headers *h, const char *name, json_t *id, const char **ret,
                    struct rpc_refusal *no)
{
    *ret = NULL;
    unsigned count = h->get(h->of, name, ret);
    if (count > 1)
        return rpc_refuse(no, MCP_HEADER_MISMATCH, 400, id, NULL,
                          "header mismatch: the header '%s' occurs %u times; send it once", name,
                          count);
    if (!count)
        *ret = NULL;
    return 0;
}

static int refuse_missing(const char *name, const char *what, json_t *id, struct rpc_refusal *no)
{
    return rpc_refuse(no, MCP_HEADER_MISMATCH, 400, id, NULL,
                      "header mismatch: the header '%s' is missing; it must repeat %s", name, what);
}

static int refuse_other(const char *name, const char *value, const char *what, json_t *id,
                        struct rpc_refusal *no)
{
    char buf[SHOWN_MAX];
    return rpc_refuse(no, MCP_HEADER_MISMATCH, 400, id, NULL,
                      "header mismatch: the header '%s' is '%s', which is not %s", name,
                      shown(value, buf), what);
}

static int refuse_encoding(const char *name, int r, json_t *id, struct rpc_refusal *no)
{
    if (r == -ENOMEM)
        return rpc_refuse(no, MCP_INTERNAL_ERROR, 500, id, NULL, "the server is out of memory");
    return rpc_refuse(no, MCP_HEADER_MISMATCH, 400, id, NULL,
                      "header mismatch: the value of the header '%s' is not plain ASCII and not "
                      "correct '=?base64?...?=' of UTF-8",
                      name);
}

// ---- standard headers ---------------------------------------------------------------------------

static bool is_same(const char *value, const char *text, size_t length)
{
    size_t n;
    const char *s = trim(value, &n);
    return n == length && memcmp(s, text, n) == 0;
}

static bool is_json_text(const char *value, json_t *text)
{
    return json_is_string(text) &&
           is_same(value, json_string_value(text), json_string_length(text));
}

int headers_check_version(const struct headers *h, const struct rpc_message *m,
                          struct rpc_refusal *no)
{
    json_t *version = json_object_get(m->meta, MCP_META_VERSION);
    const char *value;
    if (find_one(h, HEADER_VERSION, m->id, &value, no) < 0)
        return -1;
    if (!value || !json_is_string(version) || is_json_text(value, version))
        return 0;
    return refuse_other(HEADER_VERSION, value, "the protocol version in params._meta", m->id, no);
}

static int check_name(const struct headers *h, const struct rpc_message *m, const char *param,
                      struct rpc_refusal *no)
{
    json_t *name = json_object_get(m->params, param);
    const char *value;
    char what[SHOWN_MAX];
    snprintf(what, sizeof what, "params.%s", param);
    if (find_one(h, HEADER_NAME, m->id, &value, no) < 0)
        return -1;
    if (!value) // the handler refuses a body without the name
        return json_is_string(name) ? refuse_missing(HEADER_NAME, what, m->id, no) : 0;
    _cleanup_free_ char *text = NULL;
    size_t length;
    int r = header_decode(value, &text, &length);
    if (r < 0)
        return refuse_encoding(HEADER_NAME, r, m->id, no);
    if (!json_is_string(name) || json_string_length(name) != length ||
        memcmp(json_string_value(name), text, length) != 0)
        return refuse_other(HEADER_NAME, value, what, m->id, no);
    return 0;
}

int headers_check_standard(const struct headers *h, const struct rpc_message *m,
                           const struct mcp_method *method, struct rpc_refusal *no)
{
    const char *value;
    if (find_one(h, HEADER_VERSION, m->id, &value, no) < 0)
        return -1;
    if (!value)
        return refuse_missing(HEADER_VERSION, "the protocol version in params._meta", m->id, no);
    if (find_one(h, HEADER_METHOD, m->id, &value, no) < 0)
        return -1;
    if (!value)
        return refuse_missing(HEADER_METHOD, "the method", m->id, no);
    if (!is_same(value, m->method, strlen(m->method)))
        return refuse_other(HEADER_METHOD, value, "the method of the body", m->id, no);
    return method->name_param ? check_name(h, m, method->name_param, no) : 0;
}

// ---- mirrored arguments -------------------------------------------------------------------------

// "42", "-7", "42.0": an optional sign, digits, a point and zeros.
static bool is_number(const char *text, size_t length, double value)
{
    char buf[NUMBER_MAX];
    size_t i = 0, digits;
    if (length >= sizeof buf)
        return false;
    memcpy(buf, text, length);
    buf[length] = '\0';
    i += buf[i] == '-';
    digits = strspn(buf + i, "0123456789");
    i += digits;
    if (!digits)
        return false;
    if (buf[i] == '.') {
        size_t zeros = strspn(buf + i + 1, "0");
        i += zeros ? 1 + zeros : 0;
    }
    double number = strtod(buf, NULL);
    return i == length && fabs(number) <= safe_max && number == value;
}

static bool is_argument(const char *text, size_t length, json_t *argument)
{
    if (json_is_boolean(argument)) {
        const char *word = json_is_true(argument) ? "true" : "false";
        return strlen(word) == length && memcmp(word, text, length) == 0;
    }
    // Beyond 2^53 different integers are the same double.
    if (json_is_number(argument))
        return fabs(json_number_value(argument)) <= safe_max &&
               is_number(text, length, json_number_value(argument));
    return json_is_string(argument) && json_string_length(argument) == length &&
           memcmp(json_string_value(argument), text, length) == 0;
}

static bool is_token(const char *s)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              strchr(marks, *s)))
            return false;
    return true;
}

// Does this property have a header?  Invalid annotations are ignored.
static const char *header_of(json_t *property)
{
    const char *name = json_string_value(json_object_get(property, "x-mcp-header"));
    const char *type = json_string_value(json_object_get(property, "type"));
    if (!name || !*name || strlen(name) > HEADER_MAX || !is_token(name) || !type)
        return NULL;
    bool allowed =
        strcmp(type, "string") == 0 || strcmp(type, "integer") == 0 || strcmp(type, "boolean") == 0;
    return allowed ? name : NULL;
}

static int check_param(const struct headers *h, const char *name, const char *key, json_t *argument,
                       struct rpc_refusal *no)
{
    char header[sizeof HEADER_PARAM + HEADER_MAX], what[SHOWN_MAX + 16];
    const char *value;
    bool is_there = argument && !json_is_null(argument);
    snprintf(header, sizeof header, HEADER_PARAM "%s", name);
    snprintf(what, sizeof what, "the argument '%.60s'", key);
    if (find_one(h, header, NULL, &value, no) < 0)
        return -1;
    if (!value) // a list or object: the schema refuses it
        return is_there && !json_is_object(argument) && !json_is_array(argument)
                   ? refuse_missing(header, what, NULL, no)
                   : 0;
    if (!is_there)
        return rpc_refuse(no, MCP_HEADER_MISMATCH, 400, NULL, NULL,
                          "header mismatch: the header '%s' is there, but %s is not", header, what);
    _cleanup_free_ char *text = NULL;
    size_t length;
    int r = header_decode(value, &text, &length);
    if (r < 0)
        return refuse_encoding(header, r, NULL, no);
    return is_argument(text, length, argument) ? 0 : refuse_other(header, value, what, NULL, no);
}

static int check_properties(const struct headers *h, json_t *schema, json_t *arguments, int depth,
                            struct rpc_refusal *no)
{
    const char *key;
    json_t *property;
    if (depth > DEPTH_MAX)
        return 0;
    json_object_foreach (json_object_get(schema, "properties"), key, property) {
        json_t *argument = json_object_get(arguments, key);
        const char *name = header_of(property);
        if (name && check_param(h, name, key, argument, no) < 0)
            return -1;
        if (check_properties(h, property, argument, depth + 1, no) < 0)
            return -1;
    }
    return 0;
}

int headers_check_params(const struct headers *h, json_t *schema, json_t *arguments,
                         struct rpc_refusal *no)
{
    return check_properties(h, schema, arguments, 0, no);
}
