// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of json/encode: there and back, and one text for each value.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "json/encode.h"

static void there_and_back(void **state)
{
    (void)state;
    unsigned char data[256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t n = 0; n <= sizeof data; n++) {
        char *plain = encode_base64(data, n), *url = encode_base64url(data, n);
        size_t a = 0, b = 0;
        unsigned char *x = decode_base64(plain, strlen(plain), &a);
        unsigned char *y = decode_base64url(url, strlen(url), &b);
        assert_non_null(x);
        assert_non_null(y);
        assert_int_equal(a, n);
        assert_int_equal(b, n);
        assert_memory_equal(x, data, n);
        assert_memory_equal(y, data, n);
        free(plain);
        free(url);
        free(x);
        free(y);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const plain[] = {
        "A", "AA", "AA=", "AB==", "AA==AA==", " AA=", "AA=\n", "A-==", "====", "=AAA", "AAAA AAAA"};
    static const char *const url[] = {"A", "AA==", "AB", "A+", "A/A", "AAA=", "AAAA\n"};
    size_t n;
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        assert_null(decode_base64(plain[i], strlen(plain[i]), &n));
    for (size_t i = 0; i < ARRAY_LEN(url); i++)
        assert_null(decode_base64url(url[i], strlen(url[i]), &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
