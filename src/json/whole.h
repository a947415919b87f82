// SPDX-License-Identifier: Apache-2.0
//
// whole: the end of a function that builds a JSON value in steps: all or nothing.

#ifndef CONSTRICTOR_JSON_WHOLE_H
#define CONSTRICTOR_JSON_WHOLE_H

#include <jansson.h>

// The value, or NULL if a step failed: then it is freed.
static inline json_t *json_whole(json_t *value, int failed)
{
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

#endif
