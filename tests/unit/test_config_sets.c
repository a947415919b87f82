// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of config: tool sets and the defaults that they bring along.  The tests run in a
// folder of their own, so that no .env of the developer is read.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "config/config.h"

static struct config config; // large
static struct err error;
static char folder[] = "/tmp/constrictor-test-XXXXXX";

static int fresh(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
        for (size_t k = 0; k < CONFIG_ENV_MAX && config_options[i].env[k].name; k++)
            unsetenv(config_options[i].env[k].name);
    (void)unlink(".env");
    memset(&error, 0, sizeof error);
    config_init(&config);
    return 0;
}

// Loads for `command` with the given arguments (NULL ends them), all sources included.
static int load(unsigned command, ...)
{
    enum { ARGS_MAX = 8 };
    char *args[ARGS_MAX + 1] = {0}, **rest = args;
    int count = 0;
    va_list ap;
    va_start(ap, command);
    for (char *arg; count < ARGS_MAX && (arg = va_arg(ap, char *));)
        args[count++] = arg;
    va_end(ap);
    config_init(&config);
    return config_load(&config, command, &count, &rest, &error);
}

#define NONE ((char *)NULL)
#define EXPECT_CODE(r, expected) assert_int_equal((r) < 0 ? (int)error.code : -1, (int)(expected))

static void write_dotenv(const char *text)
{
    _cleanup_fclose_ FILE *f = fopen(".env", "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
}

static char *values_text(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    config_print_values(out, &config);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void tool_sets_have_names(void **state)
{
    (void)state;
    static const char *const known[] = {"default", "executor",   "kernels", "restricted",
                                        "checker", "containers", "all"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(load(CONFIG_STDIO, "--tools", (char *)known[i], NONE), 0);
        assert_int_equal(config.tools.count, 1);
    }
    assert_int_equal(load(CONFIG_SERVE, "--tools=default,executor", "--tools=checker", NONE), 0);
    assert_int_equal(config.tools.count, 3);
    static const char *const unknown[] = {"nonsense", "Default", "executor;all"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        EXPECT_CODE(load(CONFIG_STDIO, "--tools", (char *)unknown[i], NONE), ERR_BAD_VALUE);
        assert_non_null(strstr(error.message, unknown[i]));
        assert_non_null(strstr(error.message,
                               "these words: default, full, executor, kernels, restricted, "
                               "checker, containers, all"));
        assert_non_null(strstr(error.hint, "default,kernels"));
    }
    EXPECT_CODE(load(CONFIG_SERVE, "--tools=default,other", NONE), ERR_BAD_VALUE);
}

static void defaults_of_tool_sets_are_within_bounds(void **state)
{
    (void)state;
    for (const struct config_set_default *d = config_set_defaults; d->set; d++) {
        struct config_origin origin = {.source = CONFIG_FROM_SET};
        assert_int_equal(config_set(&config, d->key, d->value, origin, &error), 0);
        assert_int_equal(load(CONFIG_STDIO, "--tools", (char *)d->set, NONE), 0); // it is a set
        // SECURITY: nothing that lets others in or code out, whatever server it is the default of.
        static const enum config_key never[] = {CONFIG_KEY_host,           CONFIG_KEY_allow_public,
                                                CONFIG_KEY_network,        CONFIG_KEY_allow_hosts,
                                                CONFIG_KEY_allow_degraded, CONFIG_KEY_api_keys,
                                                CONFIG_KEY_published_on};
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            assert_int_not_equal(d->key, never[i]);
    }
}

static void a_tool_set_brings_its_defaults(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_SERVE, NONE), 0);
    assert_int_equal(config.wall_ms, 30000);
    assert_false(config.legacy_sse);
    assert_int_equal(load(CONFIG_SERVE, "--tools", "executor", NONE), 0);
    assert_int_equal(config.wall_ms, 60000);
    assert_true(config.legacy_sse);
    assert_string_equal(config.host, "127.0.0.1");
    // Every place that a person writes to is stronger, and so is false.
    assert_int_equal(load(CONFIG_SERVE, "--tools", "executor", "--wall=7s", NONE), 0);
    assert_int_equal(config.wall_ms, 7000);
    setenv("MAX_EXECUTION_TIME", "8", 1);
    assert_int_equal(load(CONFIG_SERVE, "--tools", "executor", NONE), 0);
    assert_int_equal(config.wall_ms, 8000);
    unsetenv("MAX_EXECUTION_TIME");
    write_dotenv("CONSTRICTOR_LEGACY_SSE=false\nCONSTRICTOR_TOOLS=executor\n");
    assert_int_equal(load(CONFIG_SERVE, NONE), 0);
    assert_int_equal(config.wall_ms, 60000);
    assert_false(config.legacy_sse);
    (void)unlink(".env");
    // The first of several; shown with the place it comes from.
    assert_int_equal(load(CONFIG_SHOW, "--tools", "containers,executor", NONE), 0);
    assert_int_equal(config.wall_ms, 60000);
    assert_int_equal(config.session_idle_ms, 3600000);
    _cleanup_free_ char *text = values_text();
    assert_non_null(strstr(text, "# the default of the tool set 'executor'\n"));
    assert_non_null(strstr(text, "# the default of the tool set 'containers'\n"));
}

static void sse_is_another_name(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_SERVE, "--sse", "--port", "3000", NONE), 0);
    assert_true(config.legacy_sse);
    assert_int_equal(config.port, 3000);
    EXPECT_CODE(load(CONFIG_STDIO, "--sse", NONE), ERR_UNKNOWN_OPTION);
}

static void dotenv_may_repeat_a_default_and_tighten(void **state)
{
    (void)state;
    write_dotenv("HOST=localhost\nCONSTRICTOR_PYTHON=python3\nSANDBOX_ENABLE_NETWORK=False\n"
                 "SANDBOX_CONTAINER_IMAGE=python-sandbox:latest\n");
    assert_int_equal(load(CONFIG_SERVE, NONE), 0);
    assert_string_equal(config.host, "localhost");
    assert_int_equal(config.network, 2); // off
    static const char *const hosts[] = {
        "0.0.0.0", "::", "example.org", "127.0.0.1|localhost", "127.0.0.1,0.0.0.0", ""};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char line[64];
        snprintf(line, sizeof line, "HOST=%s\n", hosts[i]);
        write_dotenv(line);
        (void)fresh(NULL);
        write_dotenv(line);
        assert_int_equal(load(CONFIG_SERVE, NONE), 0);
        assert_string_equal(config.host, "127.0.0.1");
    }
    write_dotenv("SANDBOX_ENABLE_NETWORK=true\n");
    EXPECT_CODE(load(CONFIG_SERVE, NONE), ERR_BAD_CONFIG_FILE);
    write_dotenv("CONSTRICTOR_TOOLS=maybe\nHOST=0.0.0.0\n");
    assert_int_equal(load(CONFIG_RUN, NONE), 0); // uses neither
}

static void variables_of_other_programs_stop_nothing(void **state)
{
    (void)state;
    setenv("DEBUG", "app:*", 1);
    setenv("CONSTRICTOR_PORT", "tcp://10.0.0.1:8000", 1);
    setenv("API_KEY", "None", 1);
    assert_int_equal(load(CONFIG_SERVE, NONE), 0);
    assert_int_equal(config.port, 8000);
    assert_int_equal(config.api_keys.count, 0);
    assert_false(config.debug);
    setenv("CONSTRICTOR_PORT", "many", 1);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    EXPECT_CODE(load(CONFIG_SERVE, NONE), ERR_BAD_VALUE);
}

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    (void)unlink(".env");
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tool_sets_have_names, fresh),
        cmocka_unit_test_setup(defaults_of_tool_sets_are_within_bounds, fresh),
        cmocka_unit_test_setup(a_tool_set_brings_its_defaults, fresh),
        cmocka_unit_test_setup(sse_is_another_name, fresh),
        cmocka_unit_test_setup(dotenv_may_repeat_a_default_and_tighten, fresh),
        cmocka_unit_test_setup(variables_of_other_programs_stop_nothing, fresh),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
