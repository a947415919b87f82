// SPDX-License-Identifier: Apache-2.0
//
// dump: the text of a JSON value, without spaces.  The same as jansson's json_dumpb() and
// json_dumps() with JSON_COMPACT | JSON_ENCODE_ANY, in a fifth of the time: jansson notes each open
// object in a table and passes each comma to a callback.  Called for every answer.

#ifndef CONSTRICTOR_JSON_DUMP_H
#define CONSTRICTOR_JSON_DUMP_H

#include <jansson.h>
#include <stddef.h>

// As json_dumpb(): returns the length of the text.  If that is more than `size`, the buffer is
// unusable; 0: the value cannot be written.
size_t dump_json(json_t *value, char *buffer, size_t size);

// As json_dumps(): a new text with a NUL behind it, or NULL.
char *dump_text(json_t *value);
char *dump_text_n(json_t *value, size_t *ret_length); // the same, and its length

// A value inside of another that is left out; the caller inserts its text at `at`.
struct dump_hole {
    const json_t *value;
    size_t at; // set; SIZE_MAX: the value was not found
};
// As dump_text_n(), with holes.  NULL also for what dump_text() leaves to jansson.
char *dump_text_holes(json_t *value, struct dump_hole *holes, size_t count, size_t *ret_length);

// `head`, a text as it is in a JSON string, without the quotes, `tail`; new.  What is not UTF-8
// becomes U+FFFD, a byte each, as in utf8_clean(): one pass over output instead of four.  NULL:
// memory is out.
char *dump_around(const char *head, const char *text, size_t length, const char *tail,
                  size_t *ret_length);

// A value that is in many answers and never changes: its text is cached and copied from now on.  It
// stays referenced until dump_forget(), or until others replace it.
void dump_share(json_t *value);
void dump_forget(json_t *value);

#endif
