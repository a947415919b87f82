// SPDX-License-Identifier: Apache-2.0
//
// net/path: paths that servers could read in two ways, and globs.

#include "short_rules.h"

#include <stdlib.h>
#include <time.h>

static void globs_match(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *path;
        bool matches;
    } cases[] = {
        {"/a", "/a", true},          {"/a", "/ab", false},
        {"/a", "/", false},          {"*", "/", true},
        {"*", "/a/b", true},         {"/a/*", "/a/", true},
        {"/a/*", "/a/b/c", true},    {"/a/*", "/a", false},
        {"/a*", "/a", true},         {"*.js", "/x/y.js", true},
        {"*.js", "/x/y.jsx", false}, {"/a*b*c", "/abc", true},
        {"/a*b*c", "/axbxxc", true}, {"/a*b*c", "/axcxb", false},
        {"/a*a", "/a", false},       {"/a*a", "/aa", true},
        {"/**b", "/xb", true},       {"/a*bb*b", "/abbb", true},
        {"/a*bb*b", "/abb", false},  {"/a*bb*bb", "/abbb", false},
        {"/*/x", "/a/b/x", true},    {"/*", "", false},
        {"/a", "/A", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (net_path_matches(cases[i].glob, cases[i].path) != cases[i].matches)
            fail_msg("%s and %s", cases[i].glob, cases[i].path);
}

// Against the plain definition.
static bool slowly(const char *glob, const char *path)
{
    if (*glob == '*')
        return slowly(glob + 1, path) || (*path && slowly(glob, path + 1));
    return *glob == *path && (!*glob || slowly(glob + 1, path + 1));
}

static void globs_match_as_defined(void **state)
{
    (void)state;
    srandom(11);
    for (int i = 0; i < 200000; i++) {
        char glob[10], path[12];
        size_t g = (size_t)random() % sizeof glob, p = (size_t)random() % sizeof path;
        for (size_t k = 0; k < g; k++)
            glob[k] = "ab*"[random() % 3];
        for (size_t k = 0; k < p; k++)
            path[k] = "ab"[random() % 2];
        glob[g] = path[p] = '\0';
        if (net_path_matches(glob, path) != slowly(glob, path))
            fail_msg("%s and %s", glob, path);
    }
}

static void matching_is_linear(void **state)
{
    (void)state;
    char glob[NET_PATH_MAX + 1], path[NET_PATH_SEEN_MAX];
    for (size_t i = 0; i < NET_PATH_MAX; i++)
        glob[i] = i % 2 ? 'a' : '*';
    memcpy(glob + NET_PATH_MAX - 1, "b", 2);
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    clock_t begin = clock();
    for (int i = 0; i < 1000; i++)
        assert_false(net_path_matches(glob, path));
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
}

static void paths_have_one_reading(void **state)
{
    (void)state;
    static const struct {
        const char *path, *reduced; // NULL: refused
    } cases[] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a/", "/a/"},
        {"/%61%2D%7e", "/a-~"},
        {"/a%20b", "/a%20b"},
        {"/a%c3%bc", "/a%C3%BC"},
        {"/a;b=c", "/a;b=c"},
        {"/...", "/..."},
        {"/.a", "/.a"},
        {"/a..", "/a.."},
        {"/:@!$&'()*+,=", "/:@!$&'()*+,="},
        {"", NULL},
        {"a", NULL},
        {"*", NULL},
        {"http://a.test/", NULL},
        {"//", NULL},
        {"//a", NULL},
        {"/a//b", NULL},
        {"/a//", NULL},
        {"/.", NULL},
        {"/..", NULL},
        {"/a/./b", NULL},
        {"/a/../b", NULL},
        {"/a/..", NULL},
        {"/%2e%2e/a", NULL},
        {"/%2E./a", NULL},
        {"/..;/a", NULL},
        {"/..;x=y/a", NULL},
        {"/..%3b/a", NULL},
        {"/.;x/a", NULL},
        {"/a%2fb", NULL},
        {"/a%2Fb", NULL},
        {"/a%5cb", NULL},
        {"/a\\b", NULL},
        {"/a%00", NULL},
        {"/a%0d%0a", NULL},
        {"/a%7f", NULL},
        {"/a%252e", NULL},
        {"/a%", NULL},
        {"/a%4", NULL},
        {"/a%4g", NULL},
        {"/a b", NULL},
        {"/a\tb", NULL},
        {"/a#b", NULL},
        {"/a?b", NULL},
        {"/\xc3\xbc", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[64];
        const char *why = NULL;
        int r = net_path_reduce(cases[i].path, strlen(cases[i].path), out, sizeof out, &why);
        if ((r == 0) != (cases[i].reduced != NULL) || (r < 0) != (why != NULL))
            fail_msg("%s gave %d, %s", cases[i].path, r, why ? why : out);
        if (r == 0)
            assert_string_equal(out, cases[i].reduced);
    }
    char out[4];
    const char *why;
    assert_int_equal(net_path_reduce("/ab", 3, out, sizeof out, &why), 0);
    assert_int_equal(net_path_reduce("/abc", 4, out, sizeof out, &why), -1);
    assert_int_equal(net_path_reduce("/%20", 4, out, sizeof out, &why), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_match),
        cmocka_unit_test(globs_match_as_defined),
        cmocka_unit_test(matching_is_linear),
        cmocka_unit_test(paths_have_one_reading),
    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
