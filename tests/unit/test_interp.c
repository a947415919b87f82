// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/interp: answers of programs that are no Python, or a strange one.  What an
// answer gets through here is mounted into every box.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/interp.h"

#define GOOD                                                                                       \
    "constrictor 1\nname cpython\nversion 3.11.2\ngil True\nexecutable /usr/bin/python3.11\n"

static char top[] = "/var/tmp/constrictor-test-XXXXXX"; // a box has a /tmp of its own
static struct interp in;                                // large, and only one is needed at a time
static struct err e;

static const char *below(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, PATH_MAX, "%s/%s", top, name);
    return p;
}

static int make_tree(void **state)
{
    (void)state;
    if (!mkdtemp(top))
        return -1;
    const char *const folders[] = {"a",    "a/lib", "a/lib/python3.11", "ab", "home", "home/env",
                                   "many", "cache"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(below(folders[i]), 0700) < 0)
            return -1;
    for (int i = 0; i < INTERP_PATHS_MAX + 1; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/%d", i);
        if (mkdir(below(name), 0700) < 0)
            return -1;
    }
    return setenv("HOME", below("home"), 1) || setenv("XDG_CACHE_HOME", below("cache"), 1);
}

static int remove_tree(void **state)
{
    (void)state;
    char command[PATH_MAX];
    snprintf(command, sizeof command, "%s", top);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", command, (char *)NULL);
        _exit(1);
    }
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

// Parses `head`, then `count` lines "path VALUE".  From a block of just the right size.
static int parse(const char *head, const char *const *paths, size_t count)
{
    size_t n = strlen(head) + 1;
    for (size_t i = 0; i < count; i++)
        n += strlen(paths[i]) + 6;
    char *text = malloc(n), *p = text;
    assert_non_null(text);
    p += snprintf(p, n, "%s", head);
    for (size_t i = 0; i < count; i++)
        p += snprintf(p, n - (size_t)(p - text), "path %s\n", paths[i]);
    e = (struct err){.code = ERR_CODE_MAX};
    int r = interp_parse(text, &in, &e);
    free(text);
    assert_true(r <= 0 && in.path_count <= INTERP_PATHS_MAX);
    assert_true(r == 0 || e.code < ERR_CODE_MAX);
    return r;
}

static int parse_one(const char *path)
{
    return parse(GOOD, &path, 1);
}

static void a_good_answer(void **state)
{
    (void)state;
    assert_int_equal(parse(GOOD, NULL, 0), 0);
    assert_string_equal(in.executable, "/usr/bin/python3.11");
    assert_string_equal(in.version, "3.11.2");
    assert_int_equal(in.path_count, 0);
    assert_int_equal(parse_one(below("a")), 0);
    assert_int_equal(in.path_count, 1);
    assert_string_equal(in.paths[0], below("a"));
}

static void what_the_jail_has_or_nobody_has_is_left_out(void **state)
{
    (void)state;
    const char *const paths[] = {
        "/usr",  "/usr/lib/python3", "/lib",     "/lib64",    "/bin",
        "/sbin", "/nonexistent",     "relative", "",          ".",
        "..",    "/etc/passwd",      "~/x",      "/dev/null", below("none")};
    assert_int_equal(parse(GOOD, paths, ARRAY_LEN(paths)), 0);
    assert_int_equal(in.path_count, 0);
}

static void folders_of_packages_are_taken_once_and_bounded(void **state)
{
    (void)state;
    char answer[8192] = GOOD "packages /usr/lib/python3/dist-packages\n"
                             "packages /usr/lib/python3/dist-packages\n"
                             "packages relative\npackages /usr/../etc\npackages //etc\n";
    assert_int_equal(interp_parse(answer, &in, &e), 0);
    assert_int_equal(in.packages_count, 1);
    assert_string_equal(in.packages[0], "/usr/lib/python3/dist-packages");
    size_t n = (size_t)snprintf(answer, sizeof answer, GOOD);
    for (int i = 0; i < 2 * INTERP_PACKAGES_MAX; i++)
        n += (size_t)snprintf(answer + n, sizeof answer - n, "packages /p%d\n", i);
    assert_int_equal(interp_parse(answer, &in, &e), 0);
    assert_int_equal(in.packages_count, INTERP_PACKAGES_MAX);
}

static void wide_folders_replace_narrow_ones(void **state)
{
    (void)state;
    char a[PATH_MAX], lib[PATH_MAX], deep[PATH_MAX], ab[PATH_MAX];
    snprintf(a, sizeof a, "%s", below("a"));
    snprintf(lib, sizeof lib, "%s", below("a/lib"));
    snprintf(deep, sizeof deep, "%s", below("a/lib/python3.11"));
    snprintf(ab, sizeof ab, "%s", below("ab"));
    const char *const orders[][5] = {{a, lib, deep, ab, a},
                                     {deep, lib, a, ab, deep},
                                     {lib, ab, deep, a, lib},
                                     {ab, deep, a, lib, ab}};
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        assert_int_equal(parse(GOOD, orders[i], 5), 0);
        assert_int_equal(in.path_count, 2); // "ab" is not below "a"
        bool first = strcmp(in.paths[0], a) == 0;
        assert_string_equal(in.paths[first ? 0 : 1], a);
        assert_string_equal(in.paths[first ? 1 : 0], ab);
    }
}

static void a_prefix_that_is_the_whole_system_is_refused(void **state)
{
    (void)state;
    const char *const wide[] = {"/",    "/home", "/root", "/etc", "/var",  "/tmp", "/opt",
                                "/srv", "/mnt",  "/run",  "/dev", "/proc", "/sys", below("home")};
    for (size_t i = 0; i < ARRAY_LEN(wide); i++) {
        struct stat st;
        if (stat(wide[i], &st) < 0)
            continue; // a missing folder shows no files
        if (parse_one(wide[i]) == 0)
            fail_msg("'%s' was taken", wide[i]);
        assert_int_equal(e.code, ERR_INTERPRETER);
        assert_true(e.hint[0] != '\0');
    }
    assert_int_equal(parse_one(below("home/env")), 0); // a venv in the home folder is fine
    assert_int_equal(in.path_count, 1);
}

// The same folders under other names.
static void a_whole_home_spelled_differently_is_refused(void **state)
{
    (void)state;
    char slash[PATH_MAX], dot[PATH_MAX], up[PATH_MAX], link[PATH_MAX];
    snprintf(slash, sizeof slash, "%s/", below("home"));
    snprintf(dot, sizeof dot, "%s/.", below("home"));
    snprintf(up, sizeof up, "%s/env/..", below("home"));
    snprintf(link, sizeof link, "%s", below("link"));
    assert_int_equal(symlink(below("home"), link), 0);
    const char *const wide[] = {"//",     "/.",    "/tmp/",   "/tmp/.", "/etc/",
                                "/./etc", "//etc", "/tmp/..", "/root/", "/proc/self/root",
                                slash,    dot,     up,        link};
    unsigned taken = 0;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        if (parse_one(wide[i]) == 0 && in.path_count) {
            print_message("# '%s' was taken\n", wide[i]);
            taken++;
        }
    assert_int_equal(taken, 0);
}

static void a_folder_that_contains_the_home_is_refused(void **state)
{
    (void)state;
    assert_true(parse_one(top) < 0);
    assert_int_equal(setenv("HOME", below("home/"), 1), 0); // and with a slash at its end
    int r = parse_one(below("home"));
    assert_int_equal(setenv("HOME", below("home"), 1), 0);
    assert_true(r < 0);
}

static void versions(void **state)
{
    (void)state;
    const struct {
        const char *name, *version;
        enum err_code code; // ERR_CODE_MAX: accepted
    } cases[] = {
        {"cpython", "3.9.0", ERR_CODE_MAX},
        {"cpython", "3.14.0", ERR_CODE_MAX},
        {"cpython", "3.100.0", ERR_CODE_MAX},
        {"cpython", "3.8.20", ERR_INTERPRETER_TOO_OLD},
        {"cpython", "2.7.18", ERR_INTERPRETER_TOO_OLD},
        {"cpython", "0.0.0", ERR_INTERPRETER_TOO_OLD},
        {"cpython", "3.-1.0", ERR_INTERPRETER_TOO_OLD},
        {"cpython", "3", ERR_INTERPRETER},
        {"cpython", "three.eleven", ERR_INTERPRETER},
        {"cpython", "", ERR_INTERPRETER},
        {"cpython", "\x1b[31m", ERR_INTERPRETER},
        {"pypy", "3.11.2", ERR_INTERPRETER},
        {"", "3.11.2", ERR_INTERPRETER},
        {"cpythoncpythoncpythoncpythoncpythoncpython", "3.11.2", ERR_INTERPRETER},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "constrictor 1\nexecutable /x\nname %s\nversion %s\n",
                 cases[i].name, cases[i].version);
        int r = parse(text, NULL, 0);
        if ((r == 0) != (cases[i].code == ERR_CODE_MAX) || (r < 0 && e.code != cases[i].code))
            fail_msg("%s %s gave %d, %s", cases[i].name, cases[i].version, r, e.message);
    }
}

static void answers_that_miss_something(void **state)
{
    (void)state;
    const char *const answers[] = {
        "",
        "\n",
        "\n\n\n\n",
        " ",
        "   \n   \n",
        "constrictor",
        "constrictor 1",
        "name cpython\nversion 3.11.2\nexecutable /x\n",               // not our question's answer
        "constrictor 1\nversion 3.11.2\nexecutable /x\n",              // no name
        "constrictor 1\nname cpython\nexecutable /x\n",                // no version
        "constrictor 1\nname cpython\nversion 3.11.2\n",               // no executable
        "constrictor 1\nname cpython\nversion 3.11.2\nexecutable \n",  // sys.executable may be ""
        "constrictor 1\nname cpython\nversion 3.11.2\nexecutable x\n", // relative
        "constrictor 1\nname cpython\nversion 3.11.2\nexecutable None\n",
        "constrictor1\nname cpython\nversion 3.11.2\nexecutable /x\n",
        "GNU bash, version 5.2.15(1)-release\n",
        "Traceback (most recent call last):\n  File \"<string>\", line 1\n",
        "\x7f"
        "ELF\x02\x01\x01\xff\xfe\xfd \n \xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        if (parse(answers[i], NULL, 0) == 0)
            fail_msg("answer %zu was taken", i);
        assert_int_equal(e.code, ERR_INTERPRETER);
    }
}

static void a_free_threaded_build_is_refused(void **state)
{
    (void)state;
    assert_true(parse("constrictor 1\nexecutable /x\ngil False\nname cpython\nversion 3.13.0\n",
                      NULL, 0) < 0);
    assert_int_equal(e.code, ERR_INTERPRETER);
    assert_non_null(strstr(e.message, "free-threaded"));
}

// Just below, at and far above what a path may have, in each field that takes one.
static void overlong_lines(void **state)
{
    (void)state;
    const size_t lengths[] = {63,           64,           65,       255,          256,
                              PATH_MAX - 2, PATH_MAX - 1, PATH_MAX, PATH_MAX + 1, 60000};
    const char *const keys[] = {"executable", "path",        "version", "name",
                                "gil",        "constrictor", "unknown"};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
            size_t n = lengths[i] + 400;
            char *text = malloc(n), *value = malloc(lengths[i] + 1);
            assert_non_null(text);
            assert_non_null(value);
            memset(value, 'x', lengths[i]);
            value[0] = '/';
            value[lengths[i]] = '\0';
            snprintf(text, n, GOOD "%s %s\n", keys[k], value);
            int r = parse(text, NULL, 0);
            assert_int_equal(in.path_count, 0);
            assert_true(strnlen(in.executable, PATH_MAX) < PATH_MAX);
            assert_true(strnlen(in.version, sizeof in.version) < sizeof in.version);
            if (k == 0 && lengths[i] < PATH_MAX)
                assert_string_equal(in.executable, value); // whole or not at all
            else
                assert_string_equal(in.executable, "/usr/bin/python3.11");
            if (k != 2 && k != 3)
                assert_int_equal(r, 0);
            // A key without end.
            snprintf(text, n, GOOD "%s\n", value);
            assert_int_equal(parse(text, NULL, 0), 0);
            free(text);
            free(value);
        }
}

static void nul_bytes_end_the_answer(void **state)
{
    (void)state;
    static const char text[] = GOOD "path /\0etc\npath /\n";
    char *copy = malloc(sizeof text);
    assert_non_null(copy);
    memcpy(copy, text, sizeof text);
    assert_true(interp_parse(copy, &in, &e) < 0); // "/" came before it
    memcpy(copy, text, sizeof text);
    copy[sizeof GOOD - 1] = '\0';
    assert_int_equal(interp_parse(copy, &in, &e), 0); // and here after it
    assert_int_equal(in.path_count, 0);
    memcpy(copy, text, sizeof text);
    copy[0] = '\0';
    assert_true(interp_parse(copy, &in, &e) < 0);
    free(copy);
}

static void ten_thousand_paths(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    static char names[MANY][80];
    static const char *paths[MANY];
    // Absent ones are dropped, the same one counts once.
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], i % 2 ? "%s/absent-%d" : "%s/a", top, i);
        paths[i] = names[i];
    }
    assert_int_equal(parse(GOOD, paths, MANY), 0);
    assert_int_equal(in.path_count, 1);
    // As many as fit, then one more.
    for (int i = 0; i < MANY; i++)
        snprintf(names[i], sizeof names[i], "%s/many/%d", top, i % (INTERP_PATHS_MAX + 1));
    assert_int_equal(parse(GOOD, paths, INTERP_PATHS_MAX), 0);
    assert_int_equal(in.path_count, INTERP_PATHS_MAX);
    assert_true(parse(GOOD, paths, MANY) < 0);
    assert_int_equal(e.code, ERR_INTERPRETER);
    // A wider one makes room.
    snprintf(names[INTERP_PATHS_MAX], sizeof names[0], "%s/many", top);
    assert_int_equal(parse(GOOD, paths, MANY), 0);
    assert_int_equal(in.path_count, 1);
    assert_string_equal(in.paths[0], names[INTERP_PATHS_MAX]);
}

// ---- asking -------------------------------------------------------------------------------------

// Asks a shell script in a process of its own, which gets five seconds.  Returns the error's code,
// ERR_CODE_MAX for success, -1 when it hung.
static int ask_script(const char *body)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", below("script"));
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)alarm(300);
        int r = interp_ask(path, &in, &e);
        _exit(r == 0 ? ERR_CODE_MAX : (int)e.code);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)kill(-pid, SIGKILL); // the script, if it is still there
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void programs_that_are_no_python(void **state)
{
    (void)state;
    assert_int_equal(ask_script("exit 0"), ERR_INTERPRETER);
    assert_int_equal(ask_script("exit 1"), ERR_INTERPRETER);
    assert_int_equal(ask_script("kill -9 $$"), ERR_INTERPRETER);
    assert_int_equal(ask_script("echo hello"), ERR_INTERPRETER);
    assert_int_equal(ask_script("head -c 50000 /dev/zero"), ERR_INTERPRETER);
    assert_int_equal(ask_script("echo Python 2.6.9 >&2"), ERR_INTERPRETER_TOO_OLD);
    assert_int_equal(interp_ask(below("none"), &in, &e), -ENOENT);
    assert_int_equal(e.code, ERR_INTERPRETER);
    assert_true(interp_ask(top, &in, &e) < 0);
    assert_true(interp_ask("/etc/passwd", &in, &e) < 0);
    assert_true(interp_ask("", &in, &e) < 0);
    assert_true(interp_ask("no-such-program-anywhere", &in, &e) < 0);
}

static void a_program_that_prints_without_end_does_not_hang_us(void **state)
{
    (void)state;
    assert_int_equal(ask_script("while :; do echo y; done"), ERR_INTERPRETER);
}

static void a_program_that_ignores_a_closed_pipe_does_not_hang_us(void **state)
{
    (void)state;
    assert_int_equal(ask_script("trap '' PIPE; while :; do echo y; done 2>/dev/null"),
                     ERR_INTERPRETER);
}

static void a_program_that_closes_its_output_and_stays_does_not_hang_us(void **state)
{
    (void)state;
    assert_int_equal(ask_script("exec >&- 2>&-; sleep 60"), ERR_INTERPRETER);
}

// A shim answers for another program, depending on where it is started: its answer is not kept.
static void a_shim_is_believed_but_not_cached(void **state)
{
    (void)state;
    assert_int_equal(ask_script("printf 'constrictor 1\\nname cpython\\nversion 3.12.1\\n'\n"
                                "printf 'executable /bin/sh\\n'"),
                     ERR_CODE_MAX);
    assert_int_equal(access(below("cache/constrictor"), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_answer),
        cmocka_unit_test(what_the_jail_has_or_nobody_has_is_left_out),
        cmocka_unit_test(folders_of_packages_are_taken_once_and_bounded),
        cmocka_unit_test(wide_folders_replace_narrow_ones),
        cmocka_unit_test(a_prefix_that_is_the_whole_system_is_refused),
        cmocka_unit_test(a_whole_home_spelled_differently_is_refused),
        cmocka_unit_test(a_folder_that_contains_the_home_is_refused),
        cmocka_unit_test(versions),
        cmocka_unit_test(answers_that_miss_something),
        cmocka_unit_test(a_free_threaded_build_is_refused),
        cmocka_unit_test(overlong_lines),
        cmocka_unit_test(nul_bytes_end_the_answer),
        cmocka_unit_test(ten_thousand_paths),
        cmocka_unit_test(programs_that_are_no_python),
        cmocka_unit_test(a_program_that_prints_without_end_does_not_hang_us),
        cmocka_unit_test(a_program_that_ignores_a_closed_pipe_does_not_hang_us),
        cmocka_unit_test(a_program_that_closes_its_output_and_stays_does_not_hang_us),
        cmocka_unit_test(a_shim_is_believed_but_not_cached),
    };
    return cmocka_run_group_tests_name("interp", tests, make_tree, remove_tree);
}
