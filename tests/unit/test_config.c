// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the configuration: the table itself, each source, which source wins, the texts of
// errors, and that the two committed files made from the table are current.  The tests run in a
// folder of their own, so that no .env of the developer is read.

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sys.h"
#include "cli/cli.h"
#include "config/config.h"

static struct config config;
static struct err error;
static char source_root[PATH_MAX];
static char folder[] = "/tmp/constrictor-test-XXXXXX";

/* ---- Helpers ---- */

static int fresh(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
        for (size_t k = 0; k < CONFIG_ENV_MAX && config_options[i].env[k].name; k++)
            unsetenv(config_options[i].env[k].name);
    (void)unlink(".env");
    (void)rmdir(".env");
    (void)unlink("file.conf");
    memset(&error, 0, sizeof error);
    config_init(&config);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    _cleanup_fclose_ FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
}

enum { ARGS_MAX = 16 };

// The arguments of the last load(), and what is left of them.
static char *args[ARGS_MAX + 1];
static char **rest;
static int rest_count;

// Loads for `command` with the given arguments (NULL ends them), all sources included.
static int load(unsigned command, ...)
{
    va_list ap;
    rest_count = 0;
    rest = args;
    memset(args, 0, sizeof args);
    va_start(ap, command);
    for (char *arg; rest_count < ARGS_MAX && (arg = va_arg(ap, char *));)
        args[rest_count++] = arg;
    va_end(ap);
    config_init(&config);
    return config_load(&config, command, &rest_count, &rest, &error);
}

#define NONE ((char *)NULL)

static void expect_error(int r, enum err_code code, const char *message)
{
    assert_true(r < 0);
    assert_string_equal(error.message, message);
    assert_int_equal(error.code, code);
    assert_int_equal(err_exit_status(error.code), 64);
}

#define EXPECT_CODE(r, expected) assert_int_equal((r) < 0 ? (int)error.code : -1, (int)(expected))

/* ---- The table ---- */

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_string_equal(config.python, "python3");
    assert_int_equal(config.preload.count, 0);
    assert_int_equal(config.wall_ms, 30000);
    assert_int_equal(config_cpu_ms(&config, 0, 40000), 40000 * sys_cores());
    assert_int_equal(config_cpu_ms(&config, 7, 40000), 7);
    assert_int_equal(config.memory_bytes, 512 * TEXT_MIB);
    assert_int_equal(config.processes, 256);
    assert_int_equal(config.scratch_bytes, 256 * TEXT_MIB);
    assert_int_equal(config.inodes, 16384);
    assert_int_equal(config.files, 256);
    assert_int_equal(config.file_size_bytes, 256 * TEXT_MIB);
    assert_int_equal(config.output_bytes, 1048576);
    assert_int_equal(config.source_bytes, 8 * TEXT_MIB);
    assert_int_equal(config.stock, 4);
    assert_int_equal(config.uid_base, 1900000000);
    assert_int_equal(config.allow_degraded.count, 0);
    assert_int_equal(config.log_level, LOG_WARN);
    assert_string_equal(config.config_file, "");
    assert_null(config.code);
    assert_false(config.json);
}

// The variable that is ours is CONSTRICTOR_ and the key.
static void check_own_variable(const struct config_option *o)
{
    char name[64];
    snprintf(name, sizeof name, "CONSTRICTOR_%s", o->key);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    if (o->from & 1U << CONFIG_FROM_ENV)
        assert_string_equal(o->env[0].name, name);
    else
        assert_null(o->env[0].name);
}

static void rows_are_sound(void **state)
{
    (void)state;
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++) {
        const struct config_option *o = &config_options[key];
        struct config_origin origin = {.source = CONFIG_FROM_FLAG};
        assert_true(o->min <= o->max);
        assert_true(o->type != CONFIG_INT || o->max <= UINT32_MAX);
        assert_true(o->type == CONFIG_ENUM ? o->choices != NULL
                                           : !o->choices || o->type == CONFIG_LIST);
        assert_true(!o->secret || !(o->from & CONFIG_FLAG_ONLY));
        assert_true((o->type == CONFIG_BOOL) == (o->value == NULL));
        assert_true(o->type == CONFIG_STRING || o->type == CONFIG_PATH ? o->max <= CONFIG_TEXT_MAX
                                                                       : true);
        assert_true(o->help && o->from && o->commands && o->group);
        check_own_variable(o);
        if (o->fallback && config_set(&config, key, o->fallback, origin, &error) < 0)
            fail_msg("%s: %s", o->key, error.message);
        for (enum config_key other = 0; other < key; other++)
            assert_string_not_equal(o->key, config_options[other].key);
    }
}

static void every_limit_refuses_nonsense(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1", "1e30", "lots", "", "nan", " 1", "99999999999999999999"};
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++) {
        enum config_type type = config_options[key].type;
        struct config_origin origin = {.source = CONFIG_FROM_FLAG};
        if (type != CONFIG_SIZE && type != CONFIG_DURATION && type != CONFIG_INSTANT &&
            type != CONFIG_INT)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
            assert_true(config_set(&config, key, bad[i], origin, &error) < 0);
        if (config_options[key].min > 0)
            assert_true(config_set(&config, key, "0", origin, &error) < 0);
        assert_int_equal(config.origins[key].source, CONFIG_FROM_DEFAULT);
    }
}

/* ---- Command line ---- */

static void flags_take_values_in_both_forms(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_RUN, "--memory", "64M", "--wall=1.5s", "--json", "a.py", NONE), 0);
    assert_int_equal(config.memory_bytes, 64 * TEXT_MIB);
    assert_int_equal(config.wall_ms, 1500);
    assert_true(config.json);
    assert_int_equal(config.origins[CONFIG_KEY_memory_bytes].source, CONFIG_FROM_FLAG);
    assert_int_equal(rest_count, 1);
    assert_string_equal(rest[0], "a.py");
}

static void the_last_flag_wins_and_lists_add_up(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_RUN, "--files", "20", "--files", "30", "--preload", "a,b",
                          "--preload=c", "--allow-degraded=landlock,cgroup", NONE),
                     0);
    assert_int_equal(config.files, 30);
    assert_int_equal(config.preload.count, 3);
    assert_string_equal(config.preload.items[2], "c");
    assert_true(text_list_has(&config.allow_degraded, "cgroup"));
}

static void options_end_at_the_file(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_RUN, "--json", "a.py", "--memory", "--", "-c", NONE), 0);
    assert_int_equal(rest_count, 4);
    assert_string_equal(rest[1], "--memory");
    assert_int_equal(load(CONFIG_RUN, "-", "--json", NONE), 0);
    assert_false(config.json);
    assert_int_equal(rest_count, 2);
    assert_int_equal(load(CONFIG_RUN, "--", "--json", "-c", NONE), 0);
    assert_false(config.json);
    assert_null(config.code);
    assert_string_equal(rest[0], "--json");
}

static void options_end_behind_the_code(void **state)
{
    (void)state;
    assert_int_equal(load(CONFIG_RUN, "-c", "print(1)", "--json", "--", "x", NONE), 0);
    assert_string_equal(config.code, "print(1)");
    assert_false(config.json);
    assert_int_equal(rest_count, 4);
    assert_string_equal(rest[0], "-c");
    assert_string_equal(rest[1], "--json");
    assert_int_equal(load(CONFIG_RUN, "-cprint(1)", "x", NONE), 0);
    assert_string_equal(config.code, "print(1)");
    assert_int_equal(rest_count, 2);
    assert_string_equal(rest[0], "-c");
    assert_int_equal(load(CONFIG_RUN, "--code=", NONE), 0);
    assert_string_equal(config.code, "");
    assert_int_equal(rest_count, 1);
}

static void unknown_flags_name_the_nearest(void **state)
{
    (void)state;
    expect_error(load(CONFIG_RUN, "--memroy", "1G", "--json", NONE), ERR_UNKNOWN_OPTION,
                 "unknown option '--memroy'");
    assert_non_null(strstr(error.hint, "did you mean --memory?"));
    assert_true(config.json); // it says how to report the mistake
    expect_error(load(CONFIG_RUN, "--quick", NONE), ERR_UNKNOWN_OPTION, "unknown option '--quick'");
    assert_non_null(strstr(error.hint, "is an option of other commands"));
    expect_error(load(CONFIG_RUN, "--zzzzzz=1", NONE), ERR_UNKNOWN_OPTION,
                 "unknown option '--zzzzzz'");
    assert_null(strstr(error.hint, "did you mean"));
    expect_error(load(CONFIG_RUN, "-x", NONE), ERR_UNKNOWN_OPTION, "unknown option '-x'");
    expect_error(load(CONFIG_RUN, "-hx", NONE), ERR_UNKNOWN_OPTION, "unknown option '-hx'");
    expect_error(load(CONFIG_RUN, "--=5", NONE), ERR_UNKNOWN_OPTION, "unknown option '--'");
    expect_error(load(CONFIG_RUN, "--python2", NONE), ERR_UNKNOWN_OPTION,
                 "unknown option '--python2'");
    expect_error(load(CONFIG_DOCTOR, "-c", "1", NONE), ERR_UNKNOWN_OPTION, "unknown option '-c'");
}

static void flags_without_their_value(void **state)
{
    (void)state;
    expect_error(load(CONFIG_RUN, "--memory", NONE), ERR_USAGE,
                 "the option '--memory' needs a value: SIZE");
    expect_error(load(CONFIG_RUN, "-c", NONE), ERR_USAGE, "the option '-c' needs a value: CODE");
    expect_error(load(CONFIG_RUN, "--json=perhaps", NONE), ERR_BAD_VALUE,
                 "json 'perhaps' from the option --json is not true or false");
}

static void help_is_not_stopped_by_a_bad_environment(void **state)
{
    (void)state;
    setenv("CONSTRICTOR_MEMORY", "lots", 1);
    assert_int_equal(load(CONFIG_RUN, "--help", NONE), 0);
    assert_true(config.help);
    assert_true(load(CONFIG_RUN, NONE) < 0);
}

/* ---- Environment ---- */

static void variables_of_other_servers_have_units(void **state)
{
    (void)state;
    setenv("SANDBOX_TIMEOUT", "5", 1);
    setenv("MAX_MEMORY_MB", "100", 1);
    setenv("SANDBOX_MAX_OUTPUT_SIZE", "2048", 1);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(config.wall_ms, 5000);
    assert_int_equal(config.memory_bytes, 100 * TEXT_MIB);
    assert_int_equal(config.output_bytes, 2048);
    (void)fresh(NULL);
    setenv("SANDBOX_DEFAULT_MEMORY_LIMIT", "128m", 1);
    setenv("MAX_EXECUTION_TIME", "0.5", 1);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(config.memory_bytes, 128 * TEXT_MIB);
    assert_int_equal(config.wall_ms, 500);
}

static void our_variable_wins_over_theirs(void **state)
{
    (void)state;
    setenv("CONSTRICTOR_MEMORY", "64M", 1);
    setenv("MAX_MEMORY_MB", "100", 1);
    setenv("SANDBOX_DEFAULT_MEMORY_LIMIT", "128m", 1);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(config.memory_bytes, 64 * TEXT_MIB);
    unsetenv("CONSTRICTOR_MEMORY");
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(config.memory_bytes, 100 * TEXT_MIB);
}

static void bad_values_name_key_value_place_and_bounds(void **state)
{
    (void)state;
    setenv("MAX_MEMORY_MB", "lots", 1);
    expect_error(load(CONFIG_RUN, NONE), ERR_BAD_VALUE,
                 "memory 'lots' from the environment variable MAX_MEMORY_MB is not a number of MiB "
                 "between 16 and 1048576");
    assert_string_equal(error.hint, "write a plain number; MAX_MEMORY_MB counts in MiB");
    unsetenv("MAX_MEMORY_MB");
    setenv("SANDBOX_TIMEOUT", "0", 1);
    expect_error(
        load(CONFIG_RUN, NONE), ERR_BAD_VALUE,
        "wall '0' from the environment variable SANDBOX_TIMEOUT is not a number of seconds "
        "between 0.01 and 86400");
    unsetenv("SANDBOX_TIMEOUT");
    expect_error(load(CONFIG_RUN, "--memory=1e30", NONE), ERR_BAD_VALUE,
                 "memory '1e30' from the option --memory is not a size between 16M and 1T");
    expect_error(load(CONFIG_RUN, "--cpu", "nan", NONE), ERR_BAD_VALUE,
                 "cpu 'nan' from the option --cpu is not a duration between 10ms and 24h");
    expect_error(load(CONFIG_RUN, "--stock", "-1", NONE), ERR_BAD_VALUE,
                 "stock '-1' from the option --stock is not a whole number between 0 and 4096");
    expect_error(
        load(CONFIG_RUN, "--log-level", "loud", NONE), ERR_BAD_VALUE,
        "log-level 'loud' from the option --log-level is not one of error, warn, info, debug");
    expect_error(load(CONFIG_RUN, "--python=", NONE), ERR_BAD_VALUE,
                 "python '' from the option --python is not a text of 1 to 4095 characters without "
                 "control characters");
    expect_error(
        load(CONFIG_RUN, "--preload=a,,b", NONE), ERR_BAD_VALUE,
        "preload 'a,,b' from the option --preload is not a comma-separated list of at most "
        "64 names of 1 to 256 characters");
}

static void long_values_are_cut_in_messages(void **state)
{
    (void)state;
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    assert_true(load(CONFIG_RUN, "--memory", text, NONE) < 0);
    assert_non_null(strstr(error.message, "x...' from the option --memory is not a size"));
    assert_true(load(CONFIG_RUN, "--python", text, NONE) < 0);
    assert_true(load(CONFIG_RUN, "--preload", text, NONE) < 0);
    memcpy(text, "--", 2);
    assert_true(load(CONFIG_RUN, text, NONE) < 0);
    assert_int_equal(error.code, ERR_UNKNOWN_OPTION);
}

/* ---- Files ---- */

static void files_have_keys_comments_and_quotes(void **state)
{
    (void)state;
    write_file("file.conf", "# comment\n"
                            "\n"
                            "  memory = 64M   # half of it\r\n"
                            "python=\"/opt/my python # 3/bin/python\" # quoted\n"
                            "preload = a, b\n"
                            "preload = c\n"
                            "file-size\t=\t'4K'");
    assert_int_equal(load(CONFIG_RUN, "--config", "file.conf", NONE), 0);
    assert_int_equal(config.memory_bytes, 64 * TEXT_MIB);
    assert_string_equal(config.python, "/opt/my python # 3/bin/python");
    assert_int_equal(config.preload.count, 3);
    assert_int_equal(config.file_size_bytes, 4096);
    assert_int_equal(config.origins[CONFIG_KEY_file_size_bytes].line, 7);
}

static void mistakes_in_files_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        enum err_code code;
    } cases[] = {
        {"\nmemory 64M\n", "line 2 of 'file.conf' has no '='", ERR_BAD_CONFIG_FILE},
        {"memroy = 64M\n", "line 1 of 'file.conf': unknown key 'memroy'", ERR_BAD_CONFIG_FILE},
        {"json = true\n", "line 1 of 'file.conf': unknown key 'json'", ERR_BAD_CONFIG_FILE},
        {"config = x\n", "line 1 of 'file.conf': unknown key 'config'", ERR_BAD_CONFIG_FILE},
        {"= 5\n", "line 1 of 'file.conf': unknown key ''", ERR_BAD_CONFIG_FILE},
        {"python = \"x\n",
         "line 1 of 'file.conf': the quotes around the value of python do not match",
         ERR_BAD_CONFIG_FILE},
        {"python = 'x' y\n",
         "line 1 of 'file.conf': the quotes around the value of python do not match",
         ERR_BAD_CONFIG_FILE},
        {"#\n#\nmemory =\n",
         "memory '' from line 3 of 'file.conf' is not a size between 16M and 1T", ERR_BAD_VALUE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_file("file.conf", cases[i].text);
        expect_error(load(CONFIG_RUN, "--config=file.conf", NONE), cases[i].code, cases[i].message);
    }
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    expect_error(load(CONFIG_RUN, "--config", "none.conf", NONE), ERR_BAD_CONFIG_FILE,
                 "read the configuration file 'none.conf': No such file or directory");
    expect_error(load(CONFIG_RUN, "--config", ".", NONE), ERR_BAD_CONFIG_FILE,
                 "read the configuration file '.': Is a directory");
    expect_error(load(CONFIG_RUN, "--config", "/dev/zero", NONE), ERR_BAD_CONFIG_FILE,
                 "read the configuration file '/dev/zero': File too large");
    _cleanup_close_ int fd = open("file.conf", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "files = 20\n\0files = 30\n", 23), 23);
    expect_error(load(CONFIG_RUN, "--config", "file.conf", NONE), ERR_BAD_CONFIG_FILE,
                 "the configuration file 'file.conf' contains a NUL byte");
}

static void dotenv_is_shared_with_other_programs(void **state)
{
    (void)state;
    write_file(".env", "DATABASE_URL=postgres://x\n"
                       "this is no assignment\n"
                       "BROKEN=\"no end\n"
                       "CONSTRICTOR_MEMRY=1G\n"
                       "export SANDBOX_TIMEOUT='7' # seven\n"
                       "CONSTRICTOR_OUTPUT=2K\n"
                       "SANDBOX_MAX_OUTPUT_SIZE=4096\n"
                       "memory = 1G\n");
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(config.wall_ms, 7000);
    assert_int_equal(config.output_bytes, 2048);
    assert_int_equal(config.memory_bytes, 512 * TEXT_MIB);
    write_file(".env", "A=1\nMAX_MEMORY_MB=1\n");
    expect_error(
        load(CONFIG_RUN, NONE), ERR_BAD_VALUE,
        "memory '1' from MAX_MEMORY_MB in line 2 of '.env' is not a number of MiB between 16 "
        "and 1048576");
}

static void dotenv_cannot_weaken_the_wall(void **state)
{
    (void)state;
    static const char *const names[] = {"CONSTRICTOR_PYTHON", "CONSTRICTOR_ALLOW_DEGRADED",
                                        "CONSTRICTOR_UID_BASE", "CONSTRICTOR_CONFIG"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char line[128], message[128];
        snprintf(line, sizeof line, "%s=x\n", names[i]);
        snprintf(message, sizeof message, "line 1 of '.env': %s cannot be set there", names[i]);
        write_file(".env", line);
        expect_error(load(CONFIG_RUN, NONE), ERR_BAD_CONFIG_FILE, message);
    }
}

static void dotenv_may_be_a_folder_or_a_pipe(void **state)
{
    (void)state;
    assert_int_equal(mkdir(".env", 0700), 0);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
    assert_int_equal(rmdir(".env"), 0);
    assert_int_equal(mkfifo(".env", 0600), 0);
    assert_int_equal(load(CONFIG_RUN, NONE), 0);
}

/* ---- All together ---- */

static void stronger_sources_win(void **state)
{
    (void)state;
    write_file(".env", "CONSTRICTOR_FILES=20\nCONSTRICTOR_STOCK=20\nCONSTRICTOR_INODES=20\n"
                       "CONSTRICTOR_PROCESSES=20\nCONSTRICTOR_PRELOAD=a\n");
    write_file("file.conf", "files = 30\nstock = 30\ninodes = 30\npreload = b\n");
    setenv("CONSTRICTOR_CONFIG", "file.conf", 1);
    setenv("CONSTRICTOR_FILES", "40", 1);
    setenv("CONSTRICTOR_STOCK", "40", 1);
    assert_int_equal(load(CONFIG_RUN, "--files", "50", NONE), 0);
    assert_int_equal(config.files, 50);
    assert_int_equal(config.stock, 40);
    assert_int_equal(config.inodes, 30);
    assert_int_equal(config.processes, 20);
    assert_int_equal(config.preload.count, 1);
    assert_string_equal(config.preload.items[0], "b");
    assert_int_equal(load(CONFIG_RUN, "--preload=", NONE), 0);
    assert_int_equal(config.preload.count, 0);
}

static void overridden_values_are_checked_too(void **state)
{
    (void)state;
    setenv("CONSTRICTOR_FILES", "lots", 1);
    expect_error(
        load(CONFIG_RUN, "--files", "50", NONE), ERR_BAD_VALUE,
        "files 'lots' from the environment variable CONSTRICTOR_FILES is not a whole number "
        "between 16 and 1048576");
}

static char *print_to_text(void (*print)(FILE *out, const void *arg), const void *arg)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print(out, arg);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void print_values(FILE *out, const void *arg)
{
    config_print_values(out, arg);
}

static void print_env(FILE *out, const void *arg)
{
    (void)arg;
    config_print_env(out, NULL);
}

static void print_docs(FILE *out, const void *arg)
{
    (void)arg;
    config_print_docs(out, NULL);
}

static void print_help(FILE *out, const void *arg)
{
    help_print_command(out, arg, true);
}

static void printed_values_can_be_loaded(void **state)
{
    (void)state;
    static struct config before;
    assert_int_equal(load(CONFIG_RUN, "--memory=100M", "--preload=a,b", "--wall=90", "--python",
                          "/a b/'python' #3", NONE),
                     0);
    before = config;
    _cleanup_free_ char *text = print_to_text(print_values, &config);
    assert_non_null(strstr(text, "memory = 100M"));
    assert_non_null(strstr(text, "# the option --memory\n"));
    write_file("file.conf", text);
    assert_int_equal(load(CONFIG_RUN, "--config=file.conf", NONE), 0);
    assert_int_equal(config.memory_bytes, before.memory_bytes);
    assert_int_equal(config.wall_ms, 90000);
    assert_string_equal(config.python, before.python);
    assert_memory_equal(&config.preload, &before.preload, sizeof config.preload);
}

/* ---- Secrets and sets ---- */

static void secrets_are_no_flags(void **state)
{
    (void)state;
    EXPECT_CODE(load(CONFIG_SERVE, "--api-key", "hunter2", NONE), ERR_UNKNOWN_OPTION);
    assert_non_null(strstr(error.hint, "CONSTRICTOR_API_KEY"));
    assert_non_null(strstr(error.hint, "--api-key-file"));
    EXPECT_CODE(load(CONFIG_SERVE, "--api-key=hunter2", NONE), ERR_UNKNOWN_OPTION);
    assert_null(strstr(error.message, "hunter2"));
    static const struct command command = {
        .name = "serve", .summary = "S", .usage = "serve", .bit = CONFIG_SERVE};
    _cleanup_free_ char *text = print_to_text(print_help, &command);
    assert_null(strstr(text, "--api-key "));
    assert_non_null(strstr(text, "--api-key-file "));
}

static void secrets_are_never_printed(void **state)
{
    (void)state;
    setenv("CONSTRICTOR_API_KEY", "alice:hunter2,bob:hunter3", 1);
    assert_int_equal(load(CONFIG_SHOW, NONE), 0);
    assert_int_equal(config.api_keys.count, 2);
    _cleanup_free_ char *text = print_to_text(print_values, &config);
    assert_null(strstr(text, "hunter"));
    assert_non_null(strstr(text, "#api-key = (set)"));
    assert_non_null(strstr(text, "# the environment variable CONSTRICTOR_API_KEY\n"));
    // What is printed can be loaded, and does not set the key "(set)".
    unsetenv("CONSTRICTOR_API_KEY");
    write_file("file.conf", text);
    assert_int_equal(load(CONFIG_SHOW, "--config=file.conf", NONE), 0);
    assert_int_equal(config.api_keys.count, 0);
    // Neither in an error.
    setenv("CONSTRICTOR_API_KEY", "hunter2,,hunter3", 1);
    EXPECT_CODE(load(CONFIG_SERVE, NONE), ERR_BAD_VALUE);
    assert_null(strstr(error.message, "hunter"));
    assert_null(strstr(error.hint, "hunter"));
}

static void help_lists_the_options_of_the_command(void **state)
{
    (void)state;
    static const struct command command = {
        .name = "doctor", .summary = "S", .usage = "doctor A\ndoctor B", .bit = CONFIG_DOCTOR};
    _cleanup_free_ char *text = print_to_text(print_help, &command);
    assert_non_null(strstr(text, "Usage: constrictor doctor A\n       constrictor doctor B\n"));
    assert_non_null(strstr(text, "  --memory SIZE "));
    assert_non_null(strstr(text, "between 16M and 1T; default 512M)\n"));
    assert_non_null(strstr(text, "  --self-test "));
    assert_null(strstr(text, "--quick"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
}

/* ---- Committed files ---- */

static void check_committed(const char *name, const char *option, char *expected)
{
    char path[PATH_MAX + 64];
    _cleanup_free_ char *found = calloc(1, 1 << 20);
    snprintf(path, sizeof path, "%s/%s", source_root, name);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f)
        fail_msg("cannot open %s", path);
    (void)!fread(found, 1, (1 << 20) - 1, f);
    if (strcmp(found, expected) != 0)
        fail_msg("%s is out of date: run 'build/constrictor config --print %s > %s'", name, option,
                 name);
}

static void env_example_is_current(void **state)
{
    (void)state;
    _cleanup_free_ char *text = print_to_text(print_env, NULL);
    check_committed(".env.example", "env", text);
}

static void configuration_page_is_current(void **state)
{
    (void)state;
    _cleanup_free_ char *text = print_to_text(print_docs, NULL);
    check_committed("docs/configuration.md", "docs", text);
}

static int set_up(void **state)
{
    (void)state;
    // The source tree is where this file is; the compiler may have named it relative to the folder
    // that it, and therefore the test, was started in.
    char here[] = __FILE__;
    char up[sizeof here + 8];
    snprintf(up, sizeof up, "%s/../..", dirname(here));
    if (!realpath(up, source_root) || !mkdtemp(folder))
        return -1;
    return chdir(folder);
}

static int tear_down(void **state)
{
    (void)fresh(state);
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_of_the_contract),
        TEST(rows_are_sound),
        TEST(every_limit_refuses_nonsense),
        TEST(flags_take_values_in_both_forms),
        TEST(the_last_flag_wins_and_lists_add_up),
        TEST(options_end_at_the_file),
        TEST(options_end_behind_the_code),
        TEST(unknown_flags_name_the_nearest),
        TEST(flags_without_their_value),
        TEST(help_is_not_stopped_by_a_bad_environment),
        TEST(variables_of_other_servers_have_units),
        TEST(our_variable_wins_over_theirs),
        TEST(bad_values_name_key_value_place_and_bounds),
        TEST(long_values_are_cut_in_messages),
        TEST(files_have_keys_comments_and_quotes),
        TEST(mistakes_in_files_name_the_line),
        TEST(files_that_cannot_be_read),
        TEST(dotenv_is_shared_with_other_programs),
        TEST(dotenv_cannot_weaken_the_wall),
        TEST(dotenv_may_be_a_folder_or_a_pipe),
        TEST(stronger_sources_win),
        TEST(overridden_values_are_checked_too),
        TEST(printed_values_can_be_loaded),
        TEST(secrets_are_no_flags),
        TEST(secrets_are_never_printed),
        TEST(help_lists_the_options_of_the_command),
        TEST(env_example_is_current),
        TEST(configuration_page_is_current),
    };
    return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
