// SPDX-License-Identifier: Apache-2.0
//
// words: what a validator says about a hostile JSON value, and the types of JSON schema.  The
// tables of exec/fields.c and the schemas of tools are checked with them.  Pure.

#ifndef CONSTRICTOR_JSON_WORDS_H
#define CONSTRICTOR_JSON_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// `type` is a word of JSON schema; an unknown one accepts all.  5.0 is an integer too, as is every
// double from 2^53 on.
bool json_has_type(json_t *value, const char *type);

// The first `max` characters of a text, printable; "..." after them when there are more.  A
// character takes up to 4 bytes.
void json_quote(const char *text, size_t length, size_t max, char *buf, size_t cap);

enum { JSON_WORDS_MAX = 80, JSON_WORDS_SIZE = JSON_WORDS_MAX * 4 + 32 };

// "an array of 3 items", "null", "5", or at most `max` characters of a string between the two
// marks.
void json_describe(json_t *value, size_t max, const char *open, const char *close,
                   char buf[JSON_WORDS_SIZE]);

#endif
