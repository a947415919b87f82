// SPDX-License-Identifier: Apache-2.0
//
// quick_json: reads plain JSON in a third of jansson's time.  A text that is not plain (other
// escapes than those of one letter, fractions, keys twice, deep nesting, mistakes) is read by
// json_loadb() from the beginning, so jansson alone decides what is accepted and words the errors.
//
// Runs in the gate, for bodies of requests and results of boxes.  Pure.

#ifndef CONSTRICTOR_JSON_QUICK_JSON_H
#define CONSTRICTOR_JSON_QUICK_JSON_H

#include <jansson.h>
#include <stddef.h>

// What one request may contain: jansson spends about 70 bytes and 150 ns on each value, and stack
// on each level.
enum { QUICK_JSON_VALUES_MAX = 100000, QUICK_JSON_DEPTH_MAX = 128 };
enum quick_json_fit { QUICK_JSON_FITS, QUICK_JSON_TOO_MANY, QUICK_JSON_TOO_DEEP };

// Counts values and levels before any reader sees the text, and stops at the bound.  The contents
// of strings do not count.  SECURITY: for every text of a client or a box that may be long.
enum quick_json_fit quick_json_measure(const char *data, size_t length, size_t values_max,
                                       size_t depth_max);

// As json_loadb(), for an object or an array at the top.
json_t *quick_json_load(const char *data, size_t length, size_t flags, json_error_t *error);

// The quick half alone, for tests.  NULL: the text needs jansson.
json_t *quick_json_plain(const char *data, size_t length);

#endif
