// SPDX-License-Identifier: Apache-2.0
//
// text_value: see text_value.h.  SECURITY: texts are hostile; what one may hold is bounded before
// it is read, as for a whole request.

#include "json/text_value.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "json/quick_json.h"

static bool is_of_type(json_t *value, const char *type)
{
    double d = json_number_value(value);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value) || (json_is_real(value) && trunc(d) == d);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    return strcmp(type, "object") == 0 && json_is_object(value);
}

json_t *text_value(json_t *text, const char *type)
{
    const char *s = json_string_value(text);
    size_t length = json_string_length(text);
    bool flag;
    if (!s || !length || strcmp(type, "string") == 0)
        return NULL;
    if (strcmp(type, "boolean") == 0)
        return strlen(s) == length && text_parse_bool(s, &flag) == 0 ? json_boolean(flag) : NULL;
    if (quick_json_measure(s, length, QUICK_JSON_VALUES_MAX, QUICK_JSON_DEPTH_MAX) !=
        QUICK_JSON_FITS)
        return NULL;
    json_t *value = json_loadb(s, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (value && is_of_type(value, type))
        return value;
    json_decref(value);
    return NULL;
}
