// SPDX-License-Identifier: Apache-2.0
//
// What the index answered a short while ago (env/env_known.c): when it is taken, and when it is
// not.

#include "envs_gate.h"

#define L3 "cccccccccccccccccccccccccccccccc"

// No index is asked: it is ready at once.
static void is_known(const char *name, const char *what, const char *wheel)
{
    union wire_message m;
    json_t *path = NULL;
    forget_ended();
    assert_non_null(start_job(ENV_INSTALL, name, what));
    assert_false(hear(WIRE_ACQUIRE, &m));
    assert_int_equal(ended.calls, 1);
    assert_string_equal(state_said(), "ready");
    assert_int_equal(envs_path(&gate, "me", name, &path, &e), 0);
    char text[64];
    snprintf(text, sizeof text, "/opt/wheels/%s", wheel);
    assert_string_equal(json_string_value(json_array_get(path, 0)), text);
    json_decref(path);
}

static void asked_once(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    install("one", "lab-a lab-b>=2",
            OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "2.0", W2)));
    assert_string_equal(state_said(), "ready");
    is_known("two", "lab-a lab-b>=2", L1);
    assert_int_equal(json_array_size(json_object_get(ended.status, "added")), 2);
    is_known("three", "lab-b >=2 Lab-A", L1); // in another order, and written otherwise
    close_envs();
    open_envs();
    is_known("four", "lab-a lab-b>=2", L1); // also after a restart
    // Whatever else is asked goes to a box.
    install("five", "lab-a lab-b>=3", OK(PACKAGE("lab-a", "1.0", W1)));
    install("six", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    install("seven", "lab-b", OK(PACKAGE("lab-b", "2.0", W2)));
    // So does what an environment with other packages in it asks, because they have a say.
    install("seven", "lab-a", OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "2.0", W2)));
}

static void warnings_are_kept(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    install(
        "one", "lab-a",
        "{\"ok\":true,\"packages\":[" PACKAGE("lab-a", "1.0", W1) "],\"warnings\":[\"yanked\"]}");
    is_known("two", "lab-a", L1);
    const json_t *warnings = json_object_get(ended.status, "warnings");
    assert_string_equal(json_string_value(json_array_get(warnings, 0)), "yanked");
}

static void not_for_ever(void **state)
{
    (void)state;
    const char *answer = OK(PACKAGE("lab-a", "1.0", W1));
    add_wheel(W1, L1);
    config.index_age_ms = 1;
    install("one", "lab-a", answer);
    usleep(5000);
    install("two", "lab-a", answer);
    config.index_age_ms = 0; // never
    install("three", "lab-a", answer);
    config.index_age_ms = 60000;
    is_known("four", "lab-a", L1); // that of the second
}

static void other_conditions(void **state)
{
    (void)state;
    const char *answer = OK(PACKAGE("lab-a", "1.0", W1));
    add_wheel(W1, L1);
    install("one", "lab-a", answer);
    config.package_min_age = 7;
    install("two", "lab-a", answer);
    config.package_min_age = 0;
    snprintf(interp.version, sizeof interp.version, "3.11.3");
    install("three", "lab-a", answer);
    snprintf(interp.version, sizeof interp.version, "3.11.2");
    is_known("four", "lab-a", L1);
    snprintf(config.find_links, sizeof config.find_links, "/srv/wheels");
    install("five", "lab-a", answer); // a folder that may have changed
    config.find_links[0] = '\0';
}

static void an_upgrade_asks_and_is_kept(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    install("one", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    json_t *text = json_string("lab-a");
    struct env_job_plan o = {.change = ENV_INSTALL,
                             .owner = "me",
                             .name = "two",
                             .create = true,
                             .upgrade = true,
                             .requirements = text,
                             .on_done = on_ended,
                             .argument = &ended};
    forget_ended();
    assert_non_null(envs_change(&gate, &o, &e));
    json_decref(text);
    turn();
    struct fake_box *b = give_installer();
    assert_non_null(b);
    json_decref(told(b));
    says(b, OK(PACKAGE("lab-a", "2.0", W2)));
    assert_string_equal(state_said(), "ready");
    is_known("three", "lab-a", L2);
}

static void failures_are_not_kept(void **state)
{
    (void)state;
    const char *no = "{\"ok\":false,\"code\":\"package_not_found\",\"message\":\"no\"}";
    install("one", "lab-a", no);
    install("two", "lab-a", no);
}

static void wheels_that_are_gone(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    install("one", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    assert_int_equal(envs_delete(&gate, "me", "one", &e), 0);
    assert_int_equal(env_db_remove_wheel(gate.envs->db, L1, &e), 0);
    forget_ended();
    assert_non_null(start_job(ENV_INSTALL, "two", "lab-a"));
    struct fake_box *b = give_installer(); // which has to bring it again
    assert_non_null(b);
    json_decref(told(b));
    says(b, "{\"ok\":false,\"code\":\"index_unreachable\",\"message\":\"no\"}");
    assert_string_equal(code_said(), "index_unreachable");
}

// SECURITY: a wheel that only one environment may see is given to no other by way of an answer.
static void wheels_of_a_scope(void **state)
{
    (void)state;
    struct env_wheel mine = {.bytes = 10, .files = 1, .id = L3, .sha256 = W1, .scope = "job_1"};
    assert_int_equal(env_db_add_wheel(gate.envs->db, &mine, env_now_ms(), &e), 0);
    add_wheel(W2, L2);
    json_t *lock = json_pack("[{s:s,s:s,s:s,s:s,s:i,s:i}]", "name", "lab-a", "version", "1.0",
                             "sha256", W1, "wheel", L3, "unpacked", 10, "files", 1);
    struct env_row row = {
        .python = "3.11.2", .requirements = json_pack("[s]", "lab-a"), .lock = lock};
    for (int i = 0; i < 2; i++)
        assert_int_equal(env_db_put(gate.envs->db, "me", i ? "two" : "one", &row, env_now_ms(), &e),
                         0);
    env_row_clear(&row);
    const char *both = OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "2.0", W2));
    install("one", "lab-b", both);
    assert_string_equal(state_said(), "ready");
    install("two", "lab-b", both); // no wheel of W1 is shared
    add_wheel(W1, L1);
    assert_int_equal(envs_delete(&gate, "me", "two", &e), 0);
    row = (struct env_row){.python = "3.11.2",
                           .requirements = json_pack("[s]", "lab-a"),
                           .lock = json_pack("[{s:s,s:s,s:s,s:s}]", "name", "lab-a", "version",
                                             "1.0", "sha256", W1, "wheel", L1)};
    assert_int_equal(env_db_put(gate.envs->db, "me", "three", &row, env_now_ms(), &e), 0);
    env_row_clear(&row);
    is_known("three", "lab-b", L1);
}

// SECURITY: answers are shared by all keys: one for another question must not be stored.
// Outside of quotes case and blanks mean nothing; what a marker compares with is taken as it is
// written.
static void markers_as_they_are_written(void **state)
{
    (void)state;
    const char *both = OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "2.0", W2));
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    // On no machine: so nothing but lab-a is there.
    install("one", "lab-a lab-b; platform_system == 'linux'", OK(PACKAGE("lab-a", "1.0", W1)));
    install("two", "lab-a lab-b; platform_system == 'Linux'", both);
    install("three", "lab-a lab-b; platform_system == \"Li nux\"", OK(PACKAGE("lab-a", "1.0", W1)));
    is_known("four", "lab-a Lab-B;platform_system=='Linux'", L1);
    assert_int_equal(json_array_size(json_object_get(ended.status, "added")), 2);
}

// SECURITY: a box in which a package's own code has run has no say in which hosts installations can
// reach.
static void builds_name_no_hosts(void **state)
{
    (void)state;
    json_t *text = json_string("lab-a");
    struct env_job_plan o = {.change = ENV_INSTALL,
                             .owner = "me",
                             .name = "one",
                             .create = true,
                             .source_builds = true,
                             .requirements = text,
                             .on_done = on_ended,
                             .argument = &ended};
    union wire_message m;
    config.source_builds = true;
    forget_ended();
    assert_non_null(envs_change(&gate, &o, &e));
    json_decref(text);
    turn();
    struct fake_box *b = give_installer();
    assert_non_null(b);
    json_decref(told(b));
    says(b, "{\"ok\":false,\"code\":\"x\",\"message\":\"no\",\"hosts\":[\"evil.example.org\"]}");
    assert_false(hear(WIRE_ACQUIRE, &m));
    assert_string_equal(state_said(), "failed");
    assert_int_equal(json_array_size(json_object_get(gate.envs->index, "allow")), 1);
    config.source_builds = false;
}

// SECURITY: the broker learns NET_LEARNED_MAX in its life and refuses all of a list with more.  So
// a page that names many must not end the installations of all.
static void only_so_many_hosts(void **state)
{
    (void)state;
    char answer[2048];
    for (int job = 0; job < 4; job++) {
        char name[16];
        snprintf(name, sizeof name, "env-%d", job);
        forget_ended();
        assert_non_null(start_job(ENV_INSTALL, name, "lab-a"));
        struct fake_box *b;
        for (int round = 0; (b = give_installer()); round++) {
            int n = snprintf(answer, sizeof answer,
                             "{\"ok\":false,\"code\":\"x\",\"message\":\"no\",\"hosts\":[");
            for (int i = 0; i < 8; i++)
                n += snprintf(answer + n, sizeof answer - (size_t)n, "%s\"h%d-%d-%d.example.org\"",
                              i ? "," : "", job, round, i);
            snprintf(answer + n, sizeof answer - (size_t)n, "]}");
            assert_true(round < 8);
            json_decref(told(b));
            says(b, answer);
        }
        assert_string_equal(state_said(), "failed");
    }
    assert_int_equal(json_array_size(json_object_get(gate.envs->index, "allow")),
                     1 + NET_LEARNED_MAX);
}

static void only_so_many(void **state)
{
    (void)state;
    struct env_db *d = gate.envs->db;
    json_t *said = json_pack("{s:[]}", "packages");
    char key[32];
    for (int i = 0; i < 400; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        assert_int_equal(env_db_keep_answer(d, key, said, 1000 + i, 0), 0);
    }
    json_decref(said);
    assert_null(env_db_known_answer(d, "key-100", 0));
    json_t *last = env_db_known_answer(d, "key-399", 1399);
    assert_non_null(last);
    json_decref(last);
    assert_null(env_db_known_answer(d, "key-399", 1400));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin_envs, finish_envs)
    const struct CMUnitTest tests[] = {
        T(asked_once),
        T(warnings_are_kept),
        T(not_for_ever),
        T(other_conditions),
        T(failures_are_not_kept),
        T(an_upgrade_asks_and_is_kept),
        T(wheels_that_are_gone),
        T(wheels_of_a_scope),
        T(only_so_many),
        T(markers_as_they_are_written),
        T(builds_name_no_hosts),
        T(only_so_many_hosts),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_ended();
    return failed;
}
