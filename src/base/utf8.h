// SPDX-License-Identifier: Apache-2.0
//
// utf8: bytes that claim to be text.  Output of code may be anything; JSON wants UTF-8.

#ifndef CONSTRICTOR_BASE_UTF8_H
#define CONSTRICTOR_BASE_UTF8_H

#include <stddef.h>

// Length of the valid UTF-8 sequence at `s` (1-4), or 0 when there is none.  Overlong forms,
// surrogates and values above U+10FFFF are not valid.
size_t utf8_sequence(const unsigned char *s, size_t len);

// Offset of the first byte that is not UTF-8, or `len`.
// Characters of a text that is UTF-8; pure.
size_t utf8_count(const char *s, size_t len);

size_t utf8_valid_length(const char *s, size_t len);

// A copy in which each byte that is not UTF-8 became U+FFFD.  Not terminated; the caller frees.
char *utf8_clean(const char *s, size_t len, size_t *ret_len);

// Characters that cannot be seen, and that change the order in which others are seen or carry text
// that only programs read: overrides, embeddings and isolates of writing direction, characters of
// no width, tags.
//
// Not among them: U+200C and U+200D, U+200E, U+200F and U+061C.  Persian and Indic text, emoji,
// Arabic and Hebrew need them, and they cannot turn letters round: a mark of direction only says to
// which side a neutral neighbour belongs.
enum { UTF8_HIDDEN_TEXT = 12 }; // bytes of the longest that utf8_reveal() writes for one

// Bytes of the one at `s`, and how many it takes to write it; 0: there is none here.
size_t utf8_hidden(const char *s, size_t len, size_t *ret_shown);

// Offset of the first, or `len`.
size_t utf8_find_hidden(const char *s, size_t len);

// A copy in which each is written as in JSON: \u202e.  Terminated; the caller frees.
char *utf8_reveal(const char *s, size_t len, size_t *ret_len);

#endif
