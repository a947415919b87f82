// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/utf8: every sequence of up to three bytes and the border of the four-byte ones
// against a decoder that is written the other way round (decode first, then ask what it is).

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

// Length by the definition: the one encoding that this code point has, or 0.
static size_t expected(const unsigned char *s, size_t len)
{
    static const struct {
        unsigned mask, lead;
        uint32_t min;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4 && n <= len; n++) {
        if ((s[0] & forms[n - 1].mask) != forms[n - 1].lead)
            continue;
        uint32_t point = s[0] & ~forms[n - 1].mask & 0xff;
        for (size_t i = 1; i < n; i++) {
            if (s[i] >> 6 != 2)
                return 0;
            point = point << 6 | (s[i] & 0x3f);
        }
        bool surrogate = point >= 0xd800 && point <= 0xdfff;
        return point >= forms[n - 1].min && point <= 0x10ffff && !surrogate ? n : 0;
    }
    return 0;
}

static void sequences_of_up_to_three_bytes(void **state)
{
    (void)state;
    unsigned char s[3];
    for (unsigned i = 0; i < 1U << 24; i++) {
        s[0] = (unsigned char)(i >> 16);
        s[1] = (unsigned char)(i >> 8);
        s[2] = (unsigned char)i;
        if (utf8_sequence(s, 3) != expected(s, 3))
            fail_msg("%02x %02x %02x", s[0], s[1], s[2]);
        if (s[2] == 0 && utf8_sequence(s, 2) != expected(s, 2))
            fail_msg("%02x %02x", s[0], s[1]);
        if (s[1] == 0 && s[2] == 0 && utf8_sequence(s, 1) != expected(s, 1))
            fail_msg("%02x", s[0]);
    }
    assert_int_equal(utf8_sequence(s, 0), 0);
}

static void sequences_of_four_bytes(void **state)
{
    (void)state;
    static const unsigned char tails[] = {0x00, 0x41, 0x7f, 0x80, 0x81, 0x8f,
                                          0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    for (unsigned a = 0xe0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t c = 0; c < sizeof tails; c++)
                for (size_t d = 0; d < sizeof tails; d++) {
                    unsigned char s[4] = {(unsigned char)a, (unsigned char)b, tails[c], tails[d]};
                    if (utf8_sequence(s, 4) != expected(s, 4))
                        fail_msg("%02x %02x %02x %02x", s[0], s[1], s[2], s[3]);
                }
}

// Each input in a block of just its size, so that reading on is seen.
static char *exact(const char *s, size_t n)
{
    char *p = malloc(n ? n : 1);
    assert_non_null(p);
    if (n)
        memcpy(p, s, n);
    return p;
}

static void texts(void **state)
{
    (void)state;
#define BAD "\xef\xbf\xbd"
#define CASE(in, valid, out)                                                                       \
    {                                                                                              \
        in, sizeof(in) - 1, valid, out, sizeof(out) - 1                                            \
    }
    static const struct {
        const char *in;
        size_t length, valid;
        const char *out;
        size_t out_length;
    } cases[] = {
        CASE("", 0, ""),
        CASE("plain", 5, "plain"),
        CASE("a\0b", 3, "a\0b"),
        CASE("\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8d", 9, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8d"),
        CASE("ab\xff", 2, "ab" BAD),
        CASE("\xff\xfe", 0, BAD BAD),
        CASE("\xc3", 0, BAD),                                    // cut off
        CASE("x\xe2\x82", 1, "x" BAD BAD),                       // cut off
        CASE("\xf0\x9f\x90", 0, BAD BAD BAD),                    // cut off
        CASE("\xc0\xaf", 0, BAD BAD),                            // overlong '/'
        CASE("\xe0\x80\xaf", 0, BAD BAD BAD),                    // overlong '/'
        CASE("\xed\xa0\x80", 0, BAD BAD BAD),                    // surrogate
        CASE("\xf4\x90\x80\x80", 0, BAD BAD BAD BAD),            // above U+10FFFF
        CASE("\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf"),         // U+10FFFF
        CASE("\xe2\x82\xe2\x82\xac", 0, BAD BAD "\xe2\x82\xac"), // a new one begins inside
        CASE("\x80 ok", 0, BAD " ok"),
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *in = exact(cases[i].in, cases[i].length);
        size_t n = 99;
        assert_int_equal(utf8_valid_length(in, cases[i].length), cases[i].valid);
        char *out = utf8_clean(in, cases[i].length, &n);
        assert_non_null(out);
        assert_int_equal(n, cases[i].out_length);
        assert_memory_equal(out, cases[i].out, n);
        free(out);
        free(in);
    }
}

static void cleaned_bytes_are_always_text(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252ULL;
    for (int round = 0; round < 2000; round++) {
        char data[64];
        size_t len = (size_t)round % sizeof data, n = 0;
        for (size_t i = 0; i < len; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            data[i] = (char)(random & 1 ? 0x80 | (random >> 8 & 0x7f) : random >> 8 & 0x7f);
        }
        char *in = exact(data, len), *out = utf8_clean(in, len, &n);
        assert_non_null(out);
        assert_true(n >= len && n <= 3 * len);
        assert_int_equal(utf8_valid_length(out, n), n);
        free(out);
        free(in);
    }
}

static void a_length_that_cannot_be_is_refused(void **state)
{
    (void)state;
    size_t n = 99;
    assert_null(utf8_clean("", SIZE_MAX, &n));
    assert_null(utf8_clean("", SIZE_MAX / 3 + 1, &n));
    assert_int_equal(n, 99);
}

static void check_reveal(const char *text, const char *wanted)
{
    size_t length, n = strlen(text);
    char *found = utf8_reveal(text, n, &length);
    assert_string_equal(found, wanted);
    assert_int_equal(length, strlen(wanted));
    assert_int_equal(utf8_find_hidden(text, n) == n, strcmp(text, wanted) == 0);
    free(found);
}

static void what_cannot_be_seen_is_written_out(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain text, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82",
         "plain text, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"a\xe2\x80\xae"
         "b",
         "a\\u202eb"},                                                       // override
        {"\xe2\x80\xaa\xe2\x81\xa6x\xe2\x81\xa9", "\\u202a\\u2066x\\u2069"}, // embedding, isolate
        {"\xef\xbb\xbfx\xe2\x80\x8b\xc2\xad", "\\ufeffx\\u200b\\u00ad"},
        {"\xf3\xa0\x81\x81\xf3\xa0\x81\xbf\xf3\xa0\x84\x80",
         "\\udb40\\udc41\\udb40\\udc7f\\udb40\\udd00"}, // tags
        // What Hebrew, Arabic, Persian and emoji need.
        {"\xd7\xa9\xe2\x80\x8f! \xe2\x80\x8e \xd8\x9c \xe2\x80\x8c\xe2\x80\x8d \xef\xb8\x8f",
         "\xd7\xa9\xe2\x80\x8f! \xe2\x80\x8e \xd8\x9c \xe2\x80\x8c\xe2\x80\x8d \xef\xb8\x8f"},
        {"\xe2\x80", "\xe2\x80"}, // half a character
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_reveal(rows[i][0], rows[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_seen_is_written_out),
        cmocka_unit_test(sequences_of_up_to_three_bytes),
        cmocka_unit_test(sequences_of_four_bytes),
        cmocka_unit_test(texts),
        cmocka_unit_test(cleaned_bytes_are_always_text),
        cmocka_unit_test(a_length_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
