// SPDX-License-Identifier: Apache-2.0
//
// encode: base64 in both alphabets, on OpenSSL's.  Results are new and the caller frees them; NULL
// when memory is out, or, for the decoder, when the text is not exactly what the encoder makes.

#ifndef CONSTRICTOR_JSON_ENCODE_H
#define CONSTRICTOR_JSON_ENCODE_H

#include <stddef.h>

char *encode_base64(const void *data, size_t length);
char *encode_base64url(const void *data, size_t length); // without padding
// An unguessable id: `length` characters of base64url, six random bits each, and a NUL.  0 or -1.
int encode_random_id(char *ret, size_t length);
unsigned char *decode_base64(const char *text, size_t length, size_t *ret_length);
unsigned char *decode_base64url(const char *text, size_t length, size_t *ret_length);

#endif
