// SPDX-License-Identifier: Apache-2.0
//
// encode: see encode.h.

#include "json/encode.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"

char *encode_base64(const void *data, size_t length)
{
    if (length > INT_MAX / 2)
        return NULL;
    char *text = malloc((length + 2) / 3 * 4 + 1);
    if (text)
        (void)EVP_EncodeBlock((unsigned char *)text, data, (int)length);
    return text;
}

char *encode_base64url(const void *data, size_t length)
{
    char *text = encode_base64(data, length);
    for (char *p = text; p && *p; p++) {
        if (*p == '=')
            *p-- = '\0';
        else
            *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    }
    return text;
}

int encode_random_id(char *ret, size_t length)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (getrandom(ret, length, 0) != (ssize_t)length)
        return -1;
    for (size_t i = 0; i < length; i++)
        ret[i] = alphabet[(unsigned char)ret[i] & 63];
    ret[length] = '\0';
    return 0;
}

// OpenSSL skips blanks at both ends and ignores bits past the end of the data; encoding the result
// again and comparing leaves one text for each value.
unsigned char *decode_base64(const char *text, size_t length, size_t *ret_length)
{
    if (length % 4 || length > INT_MAX / 2)
        return NULL;
    _cleanup_free_ unsigned char *data = malloc(length / 4 * 3 + 1);
    if (!data)
        return NULL;
    size_t padding = length && text[length - 1] == '=' ? 1 + (text[length - 2] == '=') : 0;
    int n = length ? EVP_DecodeBlock(data, (const unsigned char *)text, (int)length) : 0;
    if (n < 0 || (size_t)n < padding)
        return NULL;
    size_t size = (size_t)n - padding;
    _cleanup_free_ char *again = encode_base64(data, size);
    if (!again || strlen(again) != length || memcmp(again, text, length) != 0)
        return NULL;
    data[size] = '\0';
    *ret_length = size;
    return TAKE_PTR(data);
}

unsigned char *decode_base64url(const char *text, size_t length, size_t *ret_length)
{
    if (length > INT_MAX / 2 || length % 4 == 1)
        return NULL;
    size_t whole = (length + 3) / 4 * 4;
    _cleanup_free_ char *copy = malloc(whole + 1);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < whole; i++) {
        char c = i < length ? text[i] : '=';
        if (i < length && (c == '+' || c == '/' || c == '='))
            return NULL;
        copy[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    return decode_base64(copy, whole, ret_length);
}
