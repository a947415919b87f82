// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of exec/exec: what a request owns is freed once, on every path.

#include "fake_keeper.h"

#include "exec/exec.h"

enum { OWNED = 6 };

static json_t *things[OWNED];

// A request whose owned fields have one more reference here.
static struct exec_request make_request(void)
{
    for (size_t i = 0; i < OWNED; i++)
        assert_non_null(things[i] = json_array());
    return (struct exec_request){.argv = json_incref(things[0]),
                                 .files = json_incref(things[1]),
                                 .variables = json_incref(things[2]),
                                 .network = json_incref(things[3]),
                                 .packages = json_incref(things[4]),
                                 .install = json_incref(things[5])};
}

static void assert_only_ours(void)
{
    for (size_t i = 0; i < OWNED; i++) {
        assert_int_equal(things[i]->refcount, 1);
        json_decref(things[i]);
    }
}

static void assert_empty(const struct exec_request *q)
{
    assert_null(q->argv);
    assert_null(q->files);
    assert_null(q->variables);
    assert_null(q->network);
    assert_null(q->packages);
    assert_null(q->install);
}

static void clearing_twice_frees_once(void **state)
{
    (void)state;
    struct exec_request request = make_request();
    exec_request_clear(&request);
    assert_empty(&request);
    exec_request_clear(&request);
    assert_only_ours();
}

static unsigned ends;

static void on_end(struct exec *x)
{
    assert_string_equal(err_code_name(x->error.code), err_code_name(ERR_INTERNAL));
    ends++;
}

static void a_start_takes_what_the_request_owns(void **state)
{
    (void)state;
    _cleanup_(exec_request_clear) struct exec_request request = make_request();
    request.owner = "key";
    request.code = "code";
    request.code_length = 4;
    request.session = "a name";
    request.plain = true;
    request.on_done = on_end;
    struct gate without = gate; // no sessions: it cannot begin
    without.sessions = NULL;
    struct exec *x = exec_start(&without, &request);
    assert_non_null(x);
    assert_empty(&request);
    assert_int_equal(ends, 0); // the caller has it before its end
    turn();
    assert_int_equal(ends, 1);
    exec_free(x);
    assert_only_ours();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clearing_twice_frees_once),
        cmocka_unit_test_setup_teardown(a_start_takes_what_the_request_owns, begin, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
