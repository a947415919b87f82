// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/protocol/tasks, with the task tools of the conformance fixtures.  The clock can
// be moved on, and long timers fire soon, so that an hour passes in a moment.

#include "mcp_client.h"
#include "moved_clock.h"

#include <time.h>

int __real_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait)
{
    struct timeval soon = {.tv_usec = 20000};
    return __real_event_add(ev, wait && wait->tv_sec > 700 ? &soon : wait);
}

static int begin(void **state)
{
    ahead_s = 0;
    return client_begin(state);
}

static json_t *call_tool(const char *owner, const char *name, json_t *arguments)
{
    return client_ask(owner, "tools/call",
                      json_pack("{s:s, s:o}", "name", name, "arguments", arguments));
}

static json_t *slow(const char *owner, double seconds)
{
    return call_tool(owner, "slow_compute",
                     json_pack("{s:f, s:s}", "seconds", seconds, "label", "x"));
}

static json_t *of_task(const char *owner, const char *method, const char *id)
{
    return client_ask(owner, method, json_pack("{s:s}", "taskId", id));
}

static void expect_status(const char *owner, const char *id, const char *status)
{
    json_t *r = of_task(owner, "tasks/get", id);
    assert_string_equal(client_text(r, "status"), status);
    assert_string_equal(client_text(r, "resultType"), "complete");
    assert_string_equal(client_text(r, "taskId"), id);
    json_decref(r);
}

static void test_life(void **state)
{
    (void)state;
    json_t *made = slow("", 0.05);
    assert_string_equal(client_text(made, "resultType"), "task");
    assert_string_equal(client_text(made, "status"), "working");
    assert_null(json_object_get(made, "result"));
    assert_null(json_object_get(made, "task"));
    assert_true(json_integer_value(json_object_get(made, "ttlMs")) >= 3600000);
    assert_true(json_is_integer(json_object_get(made, "pollIntervalMs")));
    const char *created = client_text(made, "createdAt");
    assert_int_equal(strlen(created), strlen("2026-11-16T01:02:03.456Z"));
    const char *id = client_text(made, "taskId");
    assert_true(strlen(id) >= 22); // 128 bits in base64url
    expect_status("", id, "working");
    client_wait(120);
    json_t *r = of_task("", "tasks/get", id);
    assert_string_equal(client_text(r, "status"), "completed");
    assert_true(json_is_array(json_object_get(json_object_get(r, "result"), "content")));
    assert_true(json_integer_value(json_object_get(r, "ttlMs")) >= 3600000);
    json_decref(r);
    json_decref(made);
}

static void test_errors(void **state)
{
    (void)state;
    json_t *made = call_tool("", "protocol_error_job", json_object());
    client_wait(300);
    json_t *r = of_task("", "tasks/get", client_text(made, "taskId"));
    assert_string_equal(client_text(r, "status"), "failed");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "error"), "code")),
                     -32603);
    assert_null(json_object_get(r, "result"));
    assert_true(strlen(client_text(r, "statusMessage")) > 0);
    json_decref(r);
    json_decref(made);
}

static void test_cancel(void **state)
{
    (void)state;
    json_t *made = slow("", 600);
    const char *id = client_text(made, "taskId");
    for (int i = 0; i < 2; i++) { // the second time it has ended already
        json_t *r = of_task("", "tasks/cancel", id);
        assert_string_equal(client_text(r, "resultType"), "complete");
        assert_null(json_object_get(r, "taskId"));
        json_decref(r);
        expect_status("", id, "cancelled");
    }
    assert_int_equal(client_mcp.calls, 0);
    json_decref(made);
}

static void test_unknown(void **state)
{
    (void)state;
    json_t *made = slow("alice", 600);
    const char *id = client_text(made, "taskId");
    char almost[64];
    snprintf(almost, sizeof almost, "%s", id);
    almost[5] = almost[5] == 'A' ? 'B' : 'A';
    const char *const methods[] = {"tasks/get", "tasks/cancel"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_code(of_task("bob", methods[i], id)), -32602);
        assert_int_equal(client_code(of_task("", methods[i], id)), -32602);
        assert_int_equal(client_code(of_task("alice", methods[i], almost)), -32602);
        assert_int_equal(client_code(of_task("alice", methods[i], "")), -32602);
        assert_int_equal(client_code(client_ask("alice", methods[i], NULL)), -32602);
        assert_int_equal(
            client_code(client_ask("alice", methods[i], json_pack("{s:i}", "taskId", 5))), -32602);
    }
    expect_status("alice", id, "working");
    json_decref(made);
}

static void test_undeclared(void **state)
{
    (void)state;
    json_t *e = client_ask_with("", json_object(), "tasks/get", json_pack("{s:s}", "taskId", "x"));
    json_t *wanted =
        json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", MCP_EXTENSION_TASKS);
    assert_true(json_equal(json_object_get(e, "data"), wanted));
    json_decref(wanted);
    assert_int_equal(client_code(e), -32021);
    e = client_ask_with("", json_object(), "tools/call",
                        json_pack("{s:s, s:{}}", "name", "failing_job", "arguments"));
    assert_int_equal(client_code(e), -32021);
}

static json_t *answer(const char *id, const char *key, json_t *value)
{
    return client_ask("", "tasks/update",
                      json_pack("{s:s, s:{s:o}}", "taskId", id, "inputResponses", key, value));
}

static json_t *accepted(void)
{
    return json_pack("{s:s, s:{s:s}}", "action", "accept", "content", "name", "x");
}

static void test_questions(void **state)
{
    (void)state;
    json_t *made = call_tool("", "multi_input", json_object());
    const char *id = client_text(made, "taskId");
    json_t *r = of_task("", "tasks/get", id);
    assert_string_equal(client_text(r, "status"), "input_required");
    assert_int_equal(json_object_size(json_object_get(r, "inputRequests")), 2);
    json_decref(r);

    // Unknown keys are ignored, what is no answer is refused, one of two keeps the other open.
    json_decref(answer(id, "no-such-key", accepted()));
    assert_int_equal(client_code(answer(id, "first", json_integer(7))), -32602);
    assert_int_equal(client_code(client_ask("", "tasks/update", json_pack("{s:s}", "taskId", id))),
                     -32602);
    json_decref(answer(id, "first", accepted()));
    r = of_task("", "tasks/get", id);
    json_t *open = json_object_get(r, "inputRequests");
    assert_int_equal(json_object_size(open), 1);
    assert_non_null(json_object_get(open, "second"));
    json_decref(r);
    json_decref(answer(id, "first", accepted())); // again: nothing
    expect_status("", id, "input_required");

    r = answer(id, "second", accepted());
    assert_string_equal(client_text(r, "resultType"), "complete");
    assert_null(json_object_get(r, "status"));
    json_decref(r);
    expect_status("", id, "completed");
    json_decref(answer(id, "second", accepted())); // too late: nothing
    json_decref(made);
}

static void test_cancel_a_question(void **state)
{
    (void)state;
    json_t *made = call_tool("", "multi_input", json_object());
    json_decref(of_task("", "tasks/cancel", client_text(made, "taskId")));
    expect_status("", client_text(made, "taskId"), "cancelled");
    json_decref(made);
}

static void test_expiry(void **state)
{
    (void)state;
    json_t *made = slow("", 0.01), *asked = call_tool("", "multi_input", json_object());
    json_t *running = slow("", 600);
    client_wait(60);
    expect_status("", client_text(made, "taskId"), "completed");
    ahead_s = 1800; // not yet
    client_wait(60);
    expect_status("", client_text(made, "taskId"), "completed");
    json_t *r = of_task("", "tasks/get", client_text(running, "taskId"));
    assert_true(json_integer_value(json_object_get(r, "ttlMs")) >= 1800000 + 3600000);
    json_decref(r);
    ahead_s = 3700;
    client_wait(120);
    assert_int_equal(client_code(of_task("", "tasks/get", client_text(made, "taskId"))), -32602);
    // The client did not answer: the work is given up, and that can be seen for another hour.
    expect_status("", client_text(asked, "taskId"), "failed");
    expect_status("", client_text(running, "taskId"), "working");
    ahead_s = 7500;
    client_wait(120);
    assert_int_equal(client_code(of_task("", "tasks/get", client_text(asked, "taskId"))), -32602);
    expect_status("", client_text(running, "taskId"), "working");
    json_decref(made);
    json_decref(asked);
    json_decref(running);
}

static void test_caps(void **state)
{
    (void)state;
    json_t *first = slow("alice", 600), *second = slow("alice", 600);
    for (int i = 2; i < 256; i++)
        json_decref(slow("alice", 600));
    assert_int_equal(client_code(slow("alice", 600)), -32603);
    json_t *other = slow("bob", 600); // others are not disturbed
    assert_string_equal(client_text(other, "resultType"), "task");
    json_decref(other);

    // Ended ones make room, the oldest first.
    json_decref(of_task("alice", "tasks/cancel", client_text(second, "taskId")));
    json_decref(of_task("alice", "tasks/cancel", client_text(first, "taskId")));
    json_decref(slow("alice", 600));
    assert_int_equal(client_code(of_task("alice", "tasks/get", client_text(second, "taskId"))),
                     -32602);
    expect_status("alice", client_text(first, "taskId"), "cancelled");
    json_decref(slow("alice", 600));
    assert_int_equal(client_code(slow("alice", 600)), -32603);
    json_decref(first);
    json_decref(second);
}

static void test_total_cap(void **state)
{
    (void)state;
    char owner[16];
    json_t *kept = slow("early", 600); // ended, and the only one of its owner
    json_decref(of_task("early", "tasks/cancel", client_text(kept, "taskId")));
    json_t *gone = NULL;
    for (int i = 0; i < 1000; i++) {
        snprintf(owner, sizeof owner, "o%d", i / 200);
        json_t *made = slow(owner, 600);
        json_decref(of_task(owner, "tasks/cancel", client_text(made, "taskId")));
        if (!gone)
            gone = json_incref(made);
        json_decref(made);
    }
    for (int i = 0; i < 200; i++)
        json_decref(slow("late", 600));
    // Room comes from the owners that have most.
    expect_status("early", client_text(kept, "taskId"), "cancelled");
    assert_int_equal(client_code(of_task("o0", "tasks/get", client_text(gone, "taskId"))), -32602);
    json_decref(kept);
    json_decref(gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_errors, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_cancel, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_unknown, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_undeclared, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_questions, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_cancel_a_question, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_expiry, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_caps, begin, client_finish),
        cmocka_unit_test_setup_teardown(test_total_cap, begin, client_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
