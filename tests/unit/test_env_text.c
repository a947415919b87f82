// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of env/env_text: names of environments, requirements, lists of packages.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/env_text.h"
#include "env/envs.h"

static struct err e;

// The requirements in `text` (JSON), with '|' between them, or "!" and the reason.
static const char *read_all(const char *text)
{
    static char shown[ERR_MESSAGE_MAX + 2];
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL), *item;
    size_t i, at = 0;
    assert_non_null(value);
    json_t *list = envs_requirements(value, &e);
    json_decref(value);
    shown[0] = '\0';
    if (!list) {
        assert_true(e.hint[0]);
        snprintf(shown, sizeof shown, "!%s", e.message);
        return shown;
    }
    json_array_foreach (list, i, item)
        at += (size_t)snprintf(shown + at, sizeof shown - at, "%s%s", i ? "|" : "",
                               json_string_value(item));
    json_decref(list);
    return shown;
}

static void reads_what_people_write(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"numpy\"", "numpy"},
        {"\"numpy pandas  matplotlib>=3\"", "numpy|pandas|matplotlib>=3"},
        {"\"numpy, pandas\"", "numpy|pandas"},
        {"\"numpy>=1,<2 pandas\"", "numpy>=1,<2|pandas"},
        {"\"numpy >= 1, pandas\"", "numpy >= 1|pandas"},
        {"\"pandas[excel, xml]>=2 x\"", "pandas[excel, xml]>=2|x"},
        {"\"a (>=1, <2) b\"", "a (>=1, <2)|b"},
        {"[\"a\", \"b==1.0+local\"]", "a|b==1.0+local"},
        {"[\"a; python_version < '3.12' and (os_name == \\\"posix\\\" or extra in 'x')\"]",
         "a; python_version < '3.12' and (os_name == \"posix\" or extra in 'x')"},
        {"[\" a \"]", "a"},
        {"\"a===weird b!=1.*\"", "a===weird|b!=1.*"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(read_all(cases[i][0]), cases[i][1]);
}

static void refuses_what_is_smuggled(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"--index-url http://x\"", "option"},
        {"\"numpy --index-url=http://x\"", "options"},
        {"[\"numpy --target /\"]", "options"},
        {"[\"-e .\"]", "option"},
        {"[\"-r /etc/passwd\"]", "option"},
        {"\"pip install numpy\"", "command"},
        {"[\"python -m pip install numpy\"]", "command"},
        {"\"!pip install numpy\"", "command"},
        {"[\"./x\"]", "path"},
        {"[\"/etc/x.whl\"]", "path"},
        {"[\"~/x\"]", "path"},
        {"[\"a/b\"]", "path"},
        {"[\"..\"]", "path"},
        {"[\"git+https://x/y\"]", "address"},
        {"[\"https://x/y.whl\"]", "address"},
        {"[\"file:x\"]", "address"},
        {"[\"a @ https://x/y.whl\"]", "address"},
        {"[\"a; rm -rf /\"]", "marker"},
        {"[\"a; python_version\"]", "marker"},
        {"[\"a; os_name == 'x\"]", "end"},
        {"[\"a b\"]", "left over"},
        {"[\"a,b\"]", "left over"},
        {"[\"a\\nb\"]", "line break"},
        {"\"a\\r\\nb\"", "line break"},
        {"[\"a\\u0000b\"]", "NUL"},
        {"[\"a$(x)\"]", "'$'"},
        {"[\"a`x`\"]", "'`'"},
        {"[\"a|b\"]", "'|'"},
        {"[\"a&b\"]", "'&'"},
        {"[\"a\\\\b\"]", "backslash"},
        {"[\"\\u00e4\"]", "ASCII"},
        {"[\"a=1\"]", "'=='"},
        {"[\"a>=\"]", "version"},
        {"[\"a[\"]", "extras"},
        {"[\"a[b\"]", "extras"},
        {"[\"a(>=1\"]", "')'"},
        {"[\"a-\"]", "end with"},
        {"[\"\"]", "empty"},
        {"\"   \"", "empty"},
        {"[]", "no package"},
        {"[1]", "not a text"},
        {"{}", "list of texts"},
        {"[\"a;((((((((((((os_name=='x'))))))))))))\"]", "nested"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *said = read_all(cases[i][0]);
        if (said[0] != '!' || !strstr(said, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], said);
        assert_int_equal(e.code, ERR_BAD_REQUIREMENT);
    }
}

static void has_bounds(void **state)
{
    (void)state;
    char text[20000] = "[", *at = text + 1;
    for (int i = 0; i < ENV_REQUIREMENTS_MAX; i++)
        at += snprintf(at, 8, "%s\"a\"", i ? "," : "");
    memcpy(at, "]", 2);
    assert_int_equal(read_all(text)[0], 'a');
    memcpy(at, ",\"a\"]", 6);
    assert_non_null(strstr(read_all(text), "more than"));
    snprintf(text, sizeof text, "[\"%0500d\"]", 1);
    assert_non_null(strstr(read_all(text), "too long"));
    snprintf(text, sizeof text, "\"%0500d\"", 1);
    assert_non_null(strstr(read_all(text), "too long"));
}

static void names_of_environments(void **state)
{
    (void)state;
    static const char *const good[] = {"base", "a", "A.b_c-1", "0"}, *const bad[] = {
                                                                         "",     "-a",  ".a",
                                                                         "a b",  "a/b", "a;b",
                                                                         "$(x)", "..",  "a\n"};
    char longest[ENV_NAME_MAX + 2];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(env_check_name(good[i], &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(env_check_name(bad[i], &e) < 0);
    memset(longest, 'a', sizeof longest);
    longest[ENV_NAME_MAX + 1] = '\0';
    assert_true(env_check_name(longest, &e) < 0);
    longest[ENV_NAME_MAX] = '\0';
    assert_int_equal(env_check_name(longest, &e), 0);
}

static void keys(void **state)
{
    (void)state;
    char key[ENV_REQUIREMENT_MAX + 1];
    env_key_of("Lab_.Good[x]>=2", key);
    assert_string_equal(key, "lab-good");
    env_key_of(" a ; os_name == 'x'", key);
    assert_string_equal(key, "a");
    env_key_of("", key);
    assert_string_equal(key, "");
}

static json_t *list(const char *text)
{
    json_t *l = json_loads(text, 0, NULL);
    assert_non_null(l);
    return l;
}

static void merges(void **state)
{
    (void)state;
    json_t *had = list("[\"numpy>=1\", \"Pandas\"]"), *added = list("[\"NumPy==2\", \"x\"]"),
           *names = list("[\"pandas\"]"), *merged = env_merge(had, added),
           *left = env_without(had, names);
    char *text = json_dumps(merged, JSON_COMPACT);
    assert_string_equal(text, "[\"Pandas\",\"NumPy==2\",\"x\"]");
    free(text);
    text = json_dumps(left, JSON_COMPACT);
    assert_string_equal(text, "[\"numpy>=1\"]");
    free(text);
    assert_true(env_names_package(had, "pandas"));
    assert_false(env_names_package(had, "panda"));
    json_decref(had);
    json_decref(added);
    json_decref(names);
    json_decref(merged);
    json_decref(left);
}

static void lists_of_the_operator(void **state)
{
    (void)state;
    static struct config c;
    config_init(&c);
    assert_int_equal(env_check_allowed(&c, "anything", &e), 0);
    assert_int_equal(text_list_add(&c.deny_packages, "Bad_Thing,evil-*"), 0);
    assert_true(env_check_allowed(&c, "bad-thing", &e) < 0);
    assert_int_equal(e.code, ERR_PACKAGE_DENIED);
    assert_true(env_check_allowed(&c, "evil-twin", &e) < 0);
    assert_int_equal(env_check_allowed(&c, "good", &e), 0);
    assert_int_equal(text_list_add(&c.allow_packages, "good,lab-*,evil-twin"), 0);
    assert_int_equal(env_check_allowed(&c, "lab-x", &e), 0);
    assert_true(env_check_allowed(&c, "other", &e) < 0);
    assert_true(env_check_allowed(&c, "evil-twin", &e) < 0); // deny wins
    json_t *wanted = list("[\"good>=1\", \"Other\"]");
    assert_true(env_check_all_allowed(&c, wanted, &e) < 0);
    assert_non_null(strstr(e.message, "other"));
    json_decref(wanted);
}

// ' @ https://host' of a host that the operator named, and nothing that could mean another one.
static void addresses(void **state)
{
    (void)state;
    static const char hash[] =
        "#sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"x @ https://files.example.org/a/x-1-py3-none-any.whl", true},
        {"X[y]@https://FILES.example.org/x-1-py3-none-any.whl ; python_version < '4'", true},
        {"x @ https://a.b.below.example.org/x-1%2Bcpu-py3-none-any.whl", true},
        {"x @ https://below.example.org/x-1-py3-none-any.whl", false},
        {"x @ https://xbelow.example.org/x-1-py3-none-any.whl", false},
        {"x @ https://other.example.org/x-1-py3-none-any.whl", false},
        {"x @ https://files.example.org@other.example.org/x-1-py3-none-any.whl", false},
        {"x @ https://files.example.org:443/x-1-py3-none-any.whl", false},
        {"x @ https://files.example.org", false},
        {"x @ https://files.example.org/", false},
        {"x @ https://files.example.org/x.whl?y", false},
        {"x @ https://files.example.org/../x.whl", false},
        {"x @ https://files.example.org/x.whl#sha256=00", false},
        {"x @ https://files.example.org/x.whl --index-url=y", false},
        {"x @ http://files.example.org/x.whl", false},
        {"x @ ", false},
        {"x @", false},
    };
    static struct config c;
    char text[512];
    config_init(&c);
    assert_int_equal(text_list_add(&c.allow_urls, "files.example.org,*.below.example.org"), 0);
    for (unsigned allowed = 0; allowed < 2; allowed++) {
        env_allow_urls(allowed ? &c.allow_urls : NULL);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            json_t *one = json_pack("[s]", cases[i].text), *got = envs_requirements(one, &e);
            if (!got != !(allowed && cases[i].good))
                fail_msg("%s: %s", cases[i].text, got ? "taken" : e.message);
            if (!got)
                assert_int_equal(e.code, ERR_BAD_REQUIREMENT);
            json_decref(got);
            json_decref(one);
        }
    }
    snprintf(text, sizeof text, "%s%s", cases[0].text, hash);
    json_t *one = json_string(text), *got = envs_requirements(one, &e);
    assert_int_equal(json_array_size(got), 1);
    json_decref(got);
    json_decref(one);
    env_allow_urls(NULL);
}

static void names_of_sets(void **state)
{
    (void)state;
    char one[40], other[40];
    json_t *a = list("[\"numpy >=1\", \"pandas\"]"), *b = list("[\"Pandas\", \"numpy>= 1\"]"),
           *c = list("[\"pandas\"]");
    // Neither the order nor case nor blanks make another set.
    assert_int_equal(env_set_name(a, "3.11.2", one), 0);
    assert_int_equal(env_set_name(a, "3.12.1", other), 0);
    assert_string_not_equal(one, other);
    assert_int_equal(env_set_name(b, "3.11.9", other), 0);
    assert_string_equal(one, other);
    assert_int_equal(env_set_name(c, "3.11.2", other), 0);
    assert_string_not_equal(one, other);
    assert_int_equal(strncmp(one, ENV_SET_PREFIX, 4), 0);
    assert_int_equal(env_check_name(one, &e), 0);
    json_decref(a);
    json_decref(b);
    json_decref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_people_write),
        cmocka_unit_test(refuses_what_is_smuggled),
        cmocka_unit_test(has_bounds),
        cmocka_unit_test(names_of_environments),
        cmocka_unit_test(keys),
        cmocka_unit_test(merges),
        cmocka_unit_test(lists_of_the_operator),
        cmocka_unit_test(addresses),
        cmocka_unit_test(names_of_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
