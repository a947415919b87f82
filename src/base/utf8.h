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

#endif
