// SPDX-License-Identifier: Apache-2.0
//
// Tests of env/restricted_package.c, and of runs and checks that wait for it: one installation for
// all, the answer when there is none, and that only the server has it.

#include "envs_gate.h"

#include "check/check.h"
#include "config/code_policy.h"
#include "env/restricted_package.h"
#include "exec/exec.h"

#define PACKAGE_OURS PACKAGE("restrictedpython", "8.5", W1)
#define FAILED                                                                                     \
    "{\"ok\":false,\"code\":\"index_unreachable\",\"message\":\"no index\",\"hint\":\"look\"}"

static int calls;
static struct err heard;

static void on_ready(const struct err *error, void *argument)
{
    assert_ptr_equal(argument, &calls);
    calls++;
    heard = error ? *error : (struct err){0};
}

static int begin_layer(void **state)
{
    calls = 0;
    int r = begin_envs(state);
    facts.state = KEEPER_READY;
    snprintf(interp.executable, sizeof interp.executable, "/usr/bin/python3");
    add_wheel(W1, L1);
    return r;
}

static int finish_layer(void **state)
{
    checks_close(&gate);
    restricted_package_close(&gate);
    facts.state = KEEPER_WARMING;
    return finish_envs(state);
}

static struct policy_wait *wait_for_it(void)
{
    struct policy_wait *w = restricted_package_wait(&gate, on_ready, &calls);
    assert_non_null(w);
    assert_true(restricted_package_is_awaited(&gate, "restricted"));
    return w;
}

static void install_it(const char *answer)
{
    struct fake_box *b = give_installer();
    assert_non_null(b);
    json_t *request = told(b);
    json_t *list = json_object_get(request, "requirements");
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "RestrictedPython>=8");
    json_decref(request);
    says(b, answer);
}

static bool path_is_ours(const char *mode)
{
    json_t *policy = json_pack("{s:s}", "mode", mode);
    json_t *path = restricted_package_path(&gate, policy);
    const char *folder_said = json_string_value(json_array_get(path, 0));
    bool ours = folder_said && strcmp(folder_said, "/opt/wheels/" L1) == 0;
    assert_true(ours == (path != NULL));
    json_decref(path);
    json_decref(policy);
    return ours;
}

static void only_restricted_needs_it(void **state)
{
    (void)state;
    assert_false(restricted_package_is_awaited(&gate, NULL));
    assert_false(restricted_package_is_awaited(&gate, "open"));
    assert_false(restricted_package_is_awaited(&gate, "guarded"));
    assert_true(restricted_package_is_awaited(&gate, "restricted"));
    unsigned before = config.policy;
    config.policy = CODE_RESTRICTED + 1; // behind auto
    assert_true(restricted_package_is_awaited(&gate, NULL));
    config.policy = before;
    facts.state = KEEPER_FAILED; // a run that needs a box gets the reason why there is none
    assert_false(restricted_package_is_awaited(&gate, "restricted"));
}

static void the_interpreter_has_it(void **state)
{
    (void)state;
    facts.state = KEEPER_WARMING;
    (void)wait_for_it();
    turn();
    assert_int_equal(calls, 0); // it is not known yet
    facts.state = KEEPER_READY;
    facts.zygote_report = "{\"transformer\": true}";
    restricted_package_on_state(&gate);
    turn();
    assert_int_equal(calls, 1);
    assert_string_equal(heard.message, "");
    assert_null(give_installer());
    assert_false(restricted_package_is_awaited(&gate, "restricted"));
    assert_false(path_is_ours("restricted"));
}

static void installed_once_for_all(void **state)
{
    (void)state;
    (void)wait_for_it();
    struct policy_wait *other = wait_for_it();
    (void)wait_for_it();
    turn();
    restricted_package_cancel(other);
    install_it(OK(PACKAGE_OURS));
    assert_null(give_installer());
    assert_int_equal(calls, 2);
    assert_string_equal(heard.message, "");
    assert_false(restricted_package_is_awaited(&gate, "restricted"));
    assert_true(path_is_ours("restricted"));
    assert_false(path_is_ours("guarded"));
    // No client sees it.
    static const char *const owners[] = {"", "me"};
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        json_t *list = envs_list(&gate, owners[i]);
        assert_int_equal(json_array_size(list), 1); // base
        json_decref(list);
    }
    // And it stays, however long it is unused.
    assert_int_equal(env_db_forget_sets(gate.envs->db, INT64_MAX, env_now_ms()), 0);
    assert_int_equal(env_db_orphans(gate.envs->db, INT64_MAX, (char[1][ENV_WHEEL_ID + 1]){""}, 1),
                     0);
}

static void found_again(void **state)
{
    (void)state;
    (void)wait_for_it();
    turn();
    install_it(OK(PACKAGE_OURS));
    restricted_package_close(&gate);
    close_envs();
    open_envs();
    calls = 0;
    (void)wait_for_it();
    assert_int_equal(calls, 0); // later, never at once
    turn();
    turn();
    assert_int_equal(calls, 1);
    assert_null(give_installer());
    assert_true(path_is_ours("restricted"));
}

static void begun_ahead(void **state)
{
    (void)state;
    facts.state = KEEPER_WARMING;
    restricted_package_begin(&gate);
    turn();
    assert_null(give_installer());
    facts.state = KEEPER_READY;
    restricted_package_on_state(&gate);
    turn();
    (void)wait_for_it(); // of the same
    install_it(OK(PACKAGE_OURS));
    assert_int_equal(calls, 1);
    assert_true(path_is_ours("restricted"));
}

static void a_failure_is_told(void **state)
{
    (void)state;
    (void)wait_for_it();
    (void)wait_for_it();
    turn();
    install_it(FAILED);
    assert_int_equal(calls, 2);
    assert_int_equal(heard.code, ERR_RESTRICTED);
    assert_string_equal(err_code_name(heard.code), "restricted_missing");
    assert_non_null(strstr(heard.message, "no index"));
    assert_non_null(strstr(heard.message, "/usr/bin/python3"));
    assert_non_null(strstr(heard.hint, "/usr/bin/python3 -m pip install RestrictedPython"));
    assert_non_null(strstr(heard.hint, "look"));
    heard = (struct err){0};
    (void)wait_for_it(); // soon after: the same, without another installation
    turn();
    assert_int_equal(calls, 3);
    assert_int_equal(heard.code, ERR_RESTRICTED);
    assert_null(give_installer());
}

static void closed_while_some_wait(void **state)
{
    (void)state;
    struct policy_wait *w = wait_for_it();
    turn();
    struct fake_box *b = give_installer();
    assert_non_null(b);
    restricted_package_close(&gate);
    restricted_package_cancel(w);
    json_decref(told(b));
    says(b, OK(PACKAGE_OURS)); // for no job
    assert_int_equal(calls, 0);
}

// ---- runs and checks ----------------------------------------------------------------------------

static struct exec *done_run;
static struct check *done_check;

static void on_run(struct exec *x)
{
    assert_null(done_run);
    done_run = x;
}

static void on_check(struct check *c)
{
    assert_null(done_check);
    done_check = c;
}

static struct exec *start_run(void)
{
    struct exec_request request = {
        .owner = "me", .code = "1", .code_length = 1, .policy = "restricted", .on_done = on_run};
    done_run = NULL;
    struct exec *x = exec_start(&gate, &request);
    assert_non_null(x);
    turn();
    return x;
}

static struct check *start_check(const char *mode, bool tier_modules)
{
    json_t *policy = json_pack("{s:s, s:b}", "mode", mode, "tier_modules", tier_modules);
    struct check_request request = {
        .owner = "me", .source = "1", .length = 1, .policy = policy, .on_done = on_check};
    done_check = NULL;
    struct check *c = check_start(&gate, &request);
    json_decref(policy);
    assert_non_null(c);
    turn();
    return c;
}

static void runs_that_wait_can_be_cancelled(void **state)
{
    (void)state;
    struct exec *x = start_run(), *gone;
    assert_null(done_run);
    exec_cancel(x);
    turn();
    assert_ptr_equal(done_run, x);
    assert_int_equal(x->error.code, ERR_CANCELLED);
    exec_free(x);
    gone = start_run();
    exec_free(gone);
    struct fake_box *b = give_installer();
    assert_non_null(b);
    json_decref(told(b));
    says(b, OK(PACKAGE_OURS));
}

static void runs_and_checks_are_told(void **state)
{
    (void)state;
    struct exec *x = start_run();
    struct check *c = start_check("restricted", false), *gone = start_check("restricted", false);
    check_free(gone);
    install_it(FAILED);
    assert_ptr_equal(done_run, x);
    assert_ptr_equal(done_check, c);
    assert_int_equal(x->error.code, ERR_RESTRICTED);
    assert_int_equal(c->error.code, ERR_RESTRICTED);
    assert_null(c->answer);
    exec_free(x);
    check_free(c);
}

// What a box is told; the meta comes before the source.
static void assert_told(struct fake_box *b, const char *text, bool is)
{
    static char frame[65536];
    ssize_t n = recv(b->control, frame, sizeof frame, MSG_DONTWAIT);
    assert_true(n > 0);
    assert_true((memmem(frame, (size_t)n, text, strlen(text)) != NULL) == is);
}

static struct fake_box *give_any(void)
{
    union wire_message m;
    int control;
    if (!hear(WIRE_ACQUIRE, &m))
        return NULL;
    struct fake_box *b = make_box(&control);
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .box = b->id, .parked = 1}};
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, &control, 1), 0);
    fd_close(&control);
    turn();
    return b;
}

static void boxes_are_told_where_it_is(void **state)
{
    static const char ours[] = "\"transformer\":[\"/opt/wheels/" L1 "\"]";
    (void)state;
    struct check *c = start_check("restricted", true); // says what there is, now
    struct fake_box *b = give_any();
    assert_non_null(b);
    assert_told(b, "transformer", false);
    check_free(c);
    checks_close(&gate);
    struct exec *x = start_run();
    install_it(OK(PACKAGE_OURS));
    assert_null(done_run);
    b = give_any();
    assert_non_null(b);
    assert_told(b, ours, true);
    exec_free(x);
    turn();
    c = start_check("restricted", false);
    b = give_any();
    assert_non_null(b);
    assert_told(b, ours, true);
    check_free(c);
    checks_close(&gate);
    c = start_check("guarded", false);
    b = give_any();
    assert_non_null(b);
    assert_told(b, "transformer", false);
    check_free(c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin_layer, finish_layer)
    const struct CMUnitTest tests[] = {
        T(only_restricted_needs_it),
        T(the_interpreter_has_it),
        T(installed_once_for_all),
        T(found_again),
        T(begun_ahead),
        T(a_failure_is_told),
        T(closed_while_some_wait),
        T(runs_that_wait_can_be_cancelled),
        T(runs_and_checks_are_told),
        T(boxes_are_told_where_it_is),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_ended();
    return failed;
}
