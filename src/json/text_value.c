// SPDX-License-Identifier: Apache-2.0
//
// text_value: see text_value.h.  SECURITY: texts are hostile; what one may hold is bounded before
// it is read, as for a whole request.

#include "json/text_value.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "json/quick_json.h"
#include "json/words.h"

json_t *text_value(json_t *text, const char *type)
{
    const char *s = json_string_value(text);
    size_t length = json_string_length(text);
    bool flag;
    if (!s || !length || strcmp(type, "string") == 0 || strcmp(type, "null") == 0)
        return NULL;
    if (strcmp(type, "boolean") == 0)
        return strlen(s) == length && text_parse_bool(s, &flag) == 0 ? json_boolean(flag) : NULL;
    if (quick_json_measure(s, length, QUICK_JSON_VALUES_MAX, QUICK_JSON_DEPTH_MAX) !=
        QUICK_JSON_FITS)
        return NULL;
    json_t *value = json_loadb(s, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (value && json_has_type(value, type))
        return value;
    json_decref(value);
    return NULL;
}
