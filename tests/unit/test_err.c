// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/err: codes, texts that are too long, and absent arguments.

#include "unit.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static void returns_the_errno_and_appends_its_text(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(err_set(&e, ERR_SYSTEM, ENOENT, "look", "open '%s'", "x"), -ENOENT);
    assert_int_equal(e.code, ERR_SYSTEM);
    assert_int_equal(e.errnum, ENOENT);
    assert_string_equal(e.message, "open 'x': No such file or directory");
    assert_string_equal(e.hint, "look");
}

static void without_an_errno_it_is_minus_one(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(err_set(&e, ERR_USAGE, 0, NULL, "no"), -1);
    assert_int_equal(e.errnum, 0);
    assert_string_equal(e.message, "no");
    assert_string_equal(e.hint, "");
    assert_int_equal(err_set(&e, ERR_USAGE, -5, NULL, "no"), -1);
    assert_int_equal(e.errnum, 0);
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_SYSTEM, EPERM, NULL, "x"), -EPERM);
    assert_int_equal(err_set(NULL, ERR_SYSTEM, 0, NULL, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
    err_hint(NULL, "x");
}

static void wrapping_puts_the_context_first(void **state)
{
    (void)state;
    struct err e;
    err_set(&e, ERR_SYSTEM, EACCES, "hint", "open");
    assert_int_equal(err_wrap(&e, "box %d", 7), -EACCES);
    assert_string_equal(e.message, "box 7: open: Permission denied");
    assert_string_equal(e.hint, "hint");
    err_set(&e, ERR_INTERNAL, 0, NULL, "inner");
    assert_int_equal(err_wrap(&e, "outer"), -1);
    assert_string_equal(e.message, "outer: inner");
    err_hint(&e, "try %s", "this");
    assert_string_equal(e.hint, "try this");
}

// Every length around the size of the field, with and without an errno text to append.
static void texts_that_are_too_long_are_cut(void **state)
{
    (void)state;
    static char text[ERR_MESSAGE_MAX * 2];
    for (size_t n = ERR_MESSAGE_MAX - 40; n < ERR_MESSAGE_MAX + 40; n++) {
        struct {
            struct err e;
            char guard[8];
        } s;
        memset(text, 'a', n);
        text[n] = '\0';
        memset(s.guard, 'G', sizeof s.guard);
        assert_int_equal(err_set(&s.e, ERR_SYSTEM, ENOENT, text, "%s", text), -ENOENT);
        assert_true(strnlen(s.e.message, ERR_MESSAGE_MAX) < ERR_MESSAGE_MAX);
        assert_true(strnlen(s.e.hint, ERR_HINT_MAX) == ERR_HINT_MAX - 1);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(err_wrap(&s.e, "%s", i ? text : "context"), -ENOENT);
            assert_true(strnlen(s.e.message, ERR_MESSAGE_MAX) < ERR_MESSAGE_MAX);
        }
        err_hint(&s.e, "%s%s", text, text);
        assert_true(strnlen(s.e.hint, ERR_HINT_MAX) == ERR_HINT_MAX - 1);
        assert_memory_equal(s.guard, "GGGGGGGG", sizeof s.guard);
    }
}

static void every_code_has_a_name_of_its_own_and_a_status(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_CODE_MAX; i++) {
        const char *name = err_code_name((enum err_code)i);
        assert_true(name && name[0]);
        for (const char *p = name; *p; p++)
            assert_true(islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '_');
        for (int k = 0; k < i; k++)
            assert_string_not_equal(name, err_code_name((enum err_code)k));
        int status = err_exit_status((enum err_code)i);
        assert_true(status == 64 || status == 65 || status == 66 || status == 69 || status == 70 ||
                    status == 73);
    }
}

// A code comes over the wire as any 32-bit number.
static void foreign_codes_are_internal_errors(void **state)
{
    (void)state;
    const unsigned foreign[] = {ERR_CODE_MAX, ERR_CODE_MAX + 1U, 0x7fffffff, 0x80000000,
                                0xffffffff};
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        assert_string_equal(err_code_name((enum err_code)foreign[i]), "internal");
        assert_int_equal(err_exit_status((enum err_code)foreign[i]), 70);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_errno_and_appends_its_text),
        cmocka_unit_test(without_an_errno_it_is_minus_one),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(wrapping_puts_the_context_first),
        cmocka_unit_test(texts_that_are_too_long_are_cut),
        cmocka_unit_test(every_code_has_a_name_of_its_own_and_a_status),
        cmocka_unit_test(foreign_codes_are_internal_errors),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
