// SPDX-License-Identifier: Apache-2.0
//
// text_value: the value that a text stands for.  Language models, and the programs that pass on
// what they write, send 5, true and ["math"] as "5", "True" and "[\"math\"]".  A validator that
// wants another type than a text asks here before it refuses.  Runs in the gate.  Pure.

#ifndef CONSTRICTOR_JSON_TEXT_VALUE_H
#define CONSTRICTOR_JSON_TEXT_VALUE_H

#include <jansson.h>

// `type` is a word of JSON schema: number, integer, boolean, array, object.  New; NULL: `text` is
// no text, or holds no value of this type.
json_t *text_value(json_t *text, const char *type);

#endif
