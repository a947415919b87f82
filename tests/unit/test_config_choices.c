// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of config: how a choice may be written.

#include "unit.h"

#include <string.h>

#include "config/config.h"

static struct config config; // large

// Other servers write true and false where there are three choices here.
static void a_flag_is_a_choice_where_on_and_off_are(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int choice; // -1: none
    } cases[] = {{"auto", 0}, {"on", 1},    {"off", 2},    {"true", 1}, {"false", 2},
                 {"1", 1},    {"0", 2},     {"yes", 1},    {"no", 2},   {"", -1},
                 {"2", -1},   {"both", -1}, {"on|off", -1}};
    struct config_origin env = {.source = CONFIG_FROM_ENV, .env = 1};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        config_init(&config);
        int r = config_set(&config, CONFIG_KEY_network, cases[i].text, env, &e);
        assert_true((r == 0) == (cases[i].choice >= 0));
        if (r == 0)
            assert_int_equal(config.network, cases[i].choice);
        else
            assert_non_null(strstr(e.message, "SANDBOX_ENABLE_NETWORK"));
    }
    // Elsewhere it is not.
    config_init(&config);
    assert_true(config_set(&config, CONFIG_KEY_consent, "true", env, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_is_a_choice_where_on_and_off_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
