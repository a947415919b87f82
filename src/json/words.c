// SPDX-License-Identifier: Apache-2.0
//
// words: see words.h.

#include "json/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"

bool json_has_type(json_t *value, const char *type)
{
    static const struct {
        const char *name;
        unsigned types; // bits of json_type
    } table[] = {
        {"object", 1U << JSON_OBJECT},
        {"array", 1U << JSON_ARRAY},
        {"string", 1U << JSON_STRING},
        {"number", 1U << JSON_INTEGER | 1U << JSON_REAL},
        {"boolean", 1U << JSON_TRUE | 1U << JSON_FALSE},
        {"null", 1U << JSON_NULL},
    };
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value) ||
               (json_is_real(value) && trunc(json_real_value(value)) == json_real_value(value));
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(type, table[i].name) == 0)
            return table[i].types & 1U << json_typeof(value);
    return true;
}

void json_quote(const char *text, size_t length, size_t max, char *buf, size_t cap)
{
    size_t at = 0;
    for (size_t n = 0; at < length && n < max; n++) {
        size_t step = utf8_sequence((const unsigned char *)text + at, length - at);
        at += step ? step : 1;
    }
    snprintf(buf, cap, "%.*s", (int)at, text);
    size_t whole = strnlen(buf, cap); // shorter if it has a NUL
    text_sanitize(buf);
    if (whole < length)
        snprintf(buf + whole, cap - whole, "...");
}

void json_describe(json_t *value, size_t max, const char *open, const char *close,
                   char buf[JSON_WORDS_SIZE])
{
    const size_t cap = JSON_WORDS_SIZE;
    char text[JSON_WORDS_MAX * 4 + 8];
    switch (json_typeof(value)) {
    case JSON_OBJECT: snprintf(buf, cap, "an object"); return;
    case JSON_ARRAY: snprintf(buf, cap, "an array of %zu items", json_array_size(value)); return;
    case JSON_STRING:
        json_quote(json_string_value(value), json_string_length(value), max, text, sizeof text);
        snprintf(buf, cap, "%s%s%s", open, text, close);
        return;
    case JSON_INTEGER:
        snprintf(buf, cap, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return;
    case JSON_REAL: snprintf(buf, cap, "%.15g", json_real_value(value)); return;
    case JSON_TRUE: snprintf(buf, cap, "true"); return;
    case JSON_FALSE: snprintf(buf, cap, "false"); return;
    case JSON_NULL: snprintf(buf, cap, "null"); return;
    }
}
