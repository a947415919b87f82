// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of cli/terminal: the sequences that reach a terminal, and that nothing else does.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "json/encode.h"

// 2x2 pixels, red.
static const char small[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9"
    "i18U1AAAAABJRU5ErkJggg==";

static struct picture png_of(const char *base64)
{
    return (struct picture){
        .mime_type = "image/png", .base64 = base64, .width = 2, .height = 2, .size = 73};
}

// What is written, new; NULL when it cannot be shown.
static char *show(const struct terminal *t, const struct picture *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    bool ok = terminal_show(t, p, out);
    assert_int_equal(fclose(out), 0);
    if (ok)
        return text;
    assert_int_equal(size, 0);
    free(text);
    return NULL;
}

static void kitty_in_chunks(void **state)
{
    (void)state;
    struct terminal t = {.images = IMAGES_KITTY, .columns = 80, .width = 640};
    enum { LENGTH = 10000 };
    char *base64 = calloc(1, LENGTH + 1), *joined = calloc(1, LENGTH + 1);
    assert_non_null(base64);
    assert_non_null(joined);
    memset(base64, 'A', LENGTH);
    struct picture p = png_of(base64);
    char *text = show(&t, &p);
    assert_non_null(text);
    assert_int_equal(strncmp(text, "\033_Ga=T,f=100,q=2,m=1;", 20), 0);
    unsigned chunks = 0;
    for (char *at = text; (at = strstr(at, "\033_G")); chunks++) {
        char *data = strchr(at, ';') + 1, *end = strstr(data, "\033\\");
        assert_non_null(end);
        assert_true(end - data <= 4096);
        assert_true((strstr(at, "m=1;") == data - 4) == (chunks < 2)); // all but the last
        strncat(joined, data, (size_t)(end - data));
        at = end;
    }
    assert_int_equal(chunks, 3);
    assert_string_equal(joined, base64);
    p.width = 2000; // wider than the window
    free(text);
    text = show(&t, &p);
    assert_non_null(strstr(text, "a=T,f=100,c=80,q=2"));
    free(text);
    p.mime_type = "image/jpeg";
    assert_null(show(&t, &p));
    free(joined);
    free(base64);
}

static void iterm_at_once(void **state)
{
    (void)state;
    struct terminal t = {.images = IMAGES_ITERM};
    struct picture p = png_of(small);
    char expected[512], *text = show(&t, &p);
    snprintf(expected, sizeof expected, "\033]1337;File=inline=1;size=73:%s\a\n", small);
    assert_string_equal(text, expected);
    free(text);
}

static void sixel_of_pixels(void **state)
{
    (void)state;
    struct terminal t = {.images = IMAGES_SIXEL};
    struct picture p = png_of(small);
    char *text = show(&t, &p);
    if (!terminal_has_sixel()) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_int_equal(strncmp(text, "\033P", 2), 0);
    assert_string_equal(text + strlen(text) - 3, "\033\\\n");
    assert_non_null(strstr(text, "\"1;1;2;2#0;2;")); // its size, and its one colour
    free(text);
}

// Begins as a PNG does, which is all that display.c looks at.
static void a_broken_picture_is_not_shown(void **state)
{
    (void)state;
    struct terminal t = {.images = IMAGES_SIXEL};
    unsigned char data[73 + 64];
    size_t size = 0;
    unsigned char *whole = decode_base64(small, strlen(small), &size);
    assert_non_null(whole);
    assert_true(size <= sizeof data);
    for (size_t cut = 8; cut < size; cut++) {
        char *base64 = encode_base64(whole, cut);
        struct picture p = png_of(base64);
        free(show(&t, &p)); // some decoders are content without the end; none may fall over
        free(base64);
    }
    for (size_t i = 8; i < size; i++) {
        memcpy(data, whole, size);
        data[i] ^= 0xff;
        char *base64 = encode_base64(data, size);
        struct picture p = png_of(base64);
        free(show(&t, &p));
        free(base64);
    }
    // 65535 x 65535: a dozen gigabytes as pixels.
    memcpy(data, whole, size);
    memcpy(data + 16, "\0\0\xff\xff\0\0\xff\xff", 8);
    char *base64 = encode_base64(data, size);
    struct picture p = png_of(base64);
    assert_null(show(&t, &p));
    free(base64);
    free(whole);
}

static void no_terminal_no_pictures(void **state)
{
    (void)state;
    int pipes[2];
    struct terminal t;
    assert_int_equal(pipe(pipes), 0);
    terminal_look(pipes[1], IMAGES_KITTY, &t);
    assert_int_equal(t.images, IMAGES_NONE);
    struct picture p = png_of(small);
    assert_null(show(&t, &p));
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kitty_in_chunks),         cmocka_unit_test(iterm_at_once),
        cmocka_unit_test(sixel_of_pixels),         cmocka_unit_test(a_broken_picture_is_not_shown),
        cmocka_unit_test(no_terminal_no_pictures),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
