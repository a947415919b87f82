// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/protocol/subscriptions: subscriptions of both eras, with the resources and
// tools of the conformance fixtures.

#include "mcp_client.h"

#include "mcp/protocol/subscriptions.h"

#define WATCHED "test://watched-resource"

static json_t *last(struct client_outlet *c)
{
    return client_message(c, client_count(c) - 1);
}

static void listen_as(struct client_outlet *c, struct mcp_client *client, const char *owner,
                      json_t *filter)
{
    client_open(c);
    client_send(c, client, owner, true, client_all(), "subscriptions/listen",
                json_pack("{s:o}", "notifications", filter));
}

static void expect_ack(struct client_outlet *c, json_t *honoured)
{
    assert_int_equal(client_count(c), 1);
    json_t *m = client_message(c, 0), *params = json_object_get(m, "params");
    assert_string_equal(client_text(m, "method"), "notifications/subscriptions/acknowledged");
    assert_true(json_equal(json_object_get(params, "notifications"), honoured));
    assert_true(
        json_is_integer(json_object_get(json_object_get(params, "_meta"), MCP_META_SUBSCRIPTION)));
    json_decref(honoured);
}

static void expect_last(struct client_outlet *c, size_t count, const char *method)
{
    assert_int_equal(client_count(c), count);
    assert_string_equal(client_text(last(c), "method"), method);
    json_t *meta = json_object_get(json_object_get(last(c), "params"), "_meta");
    assert_non_null(json_object_get(meta, MCP_META_SUBSCRIPTION));
}

static void end(struct client_outlet *c)
{
    if (c->call)
        mcp_cancel(c->call);
    client_close(c);
}

static void test_filter(void **state)
{
    (void)state;
    struct client_outlet tools, uris, none;
    listen_as(&tools, NULL, "",
              json_pack("{s:b, s:b}", "toolsListChanged", 1, "promptsListChanged", 0));
    expect_ack(&tools, json_pack("{s:b}", "toolsListChanged", 1));
    listen_as(
        &uris, NULL, "",
        json_pack("{s:[s,s,s]}", "resourceSubscriptions", WATCHED, "test://nothing", WATCHED));
    expect_ack(&uris, json_pack("{s:[s]}", "resourceSubscriptions", WATCHED));
    listen_as(&none, NULL, "", json_object());
    expect_ack(&none, json_object());

    mcp_list_changed(&client_mcp, MCP_LIST_TOOLS, NULL);
    expect_last(&tools, 2, "notifications/tools/list_changed");
    mcp_list_changed(&client_mcp, MCP_LIST_PROMPTS, NULL);
    mcp_list_changed(&client_mcp, MCP_LIST_RESOURCES, NULL);
    assert_int_equal(client_count(&tools), 2);
    mcp_resource_updated(&client_mcp, WATCHED, NULL);
    expect_last(&uris, 2, "notifications/resources/updated");
    assert_string_equal(client_text(json_object_get(last(&uris), "params"), "uri"), WATCHED);
    mcp_resource_updated(&client_mcp, "test://static-text", NULL);
    assert_int_equal(client_count(&uris), 2);
    assert_int_equal(client_count(&none), 1);

    end(&tools);
    mcp_list_changed(&client_mcp, MCP_LIST_TOOLS, NULL); // to no client
    end(&uris);
    end(&none);
    assert_int_equal(client_mcp.calls, 0);
}

static int listen_code(json_t *params, json_t *capabilities)
{
    return client_code(client_ask_with("", capabilities, "subscriptions/listen", params));
}

static void test_bad_filters(void **state)
{
    (void)state;
    assert_int_equal(listen_code(NULL, json_object()), -32602);
    assert_int_equal(listen_code(json_pack("{s:[]}", "notifications"), json_object()), -32602);
    assert_int_equal(listen_code(json_pack("{s:{s:s}}", "notifications", "toolsListChanged", "yes"),
                                 json_object()),
                     -32602);
    assert_int_equal(
        listen_code(json_pack("{s:{s:s}}", "notifications", "resourceSubscriptions", "x"),
                    json_object()),
        -32602);
    assert_int_equal(
        listen_code(json_pack("{s:{s:[i]}}", "notifications", "resourceSubscriptions", 5),
                    json_object()),
        -32602);
    assert_int_equal(
        listen_code(json_pack("{s:{s:[s]}}", "notifications", "taskIds", "x"), json_object()),
        -32021);
    json_t *many = json_array();
    for (int i = 0; i < 1025; i++)
        json_array_append_new(many, json_sprintf("test://template/%d/data", i));
    assert_int_equal(
        listen_code(json_pack("{s:{s:o}}", "notifications", "resourceSubscriptions", many),
                    json_object()),
        -32602);
    assert_int_equal(client_mcp.calls, 0);
}

static void test_total(void **state)
{
    (void)state;
    struct client_outlet c[11];
    for (int i = 0; i < 11; i++) {
        json_t *many = json_array();
        for (int k = 0; k < 1000; k++)
            json_array_append_new(many, json_sprintf("test://template/%d-%d/data", i, k));
        listen_as(&c[i], NULL, "", json_pack("{s:o}", "resourceSubscriptions", many));
        assert_true(c[i].last == (i == 10)); // the eleventh is one too many
    }
    mcp_resource_updated(&client_mcp, "test://template/3-999/data", NULL);
    assert_int_equal(client_count(&c[3]), 2);
    assert_int_equal(client_count(&c[4]), 1);
    c[10].call = NULL;
    for (int i = 0; i < 11; i++)
        end(&c[i]);
}

static void test_tasks(void **state)
{
    (void)state;
    struct client_outlet alice, bob;
    json_t *made = client_ask(
        "alice", "tools/call",
        json_pack("{s:s, s:{s:i}}", "name", "slow_compute", "arguments", "seconds", 600));
    const char *id = client_text(made, "taskId");
    listen_as(&alice, NULL, "alice", json_pack("{s:[s,s]}", "taskIds", id, "unknown"));
    expect_ack(&alice, json_pack("{s:[s]}", "taskIds", id));
    listen_as(&bob, NULL, "bob", json_pack("{s:[s]}", "taskIds", id));
    expect_ack(&bob, json_pack("{s:[]}", "taskIds"));
    json_decref(client_ask("alice", "tasks/cancel", json_pack("{s:s}", "taskId", id)));
    expect_last(&alice, 2, "notifications/tasks");
    json_t *params = json_object_get(last(&alice), "params");
    assert_string_equal(client_text(params, "status"), "cancelled");
    assert_string_equal(client_text(params, "taskId"), id);
    assert_int_equal(client_count(&bob), 1);
    end(&alice);
    end(&bob);
    json_decref(made);
}

static void test_owners(void **state)
{
    (void)state;
    struct client_outlet alice, bob;
    listen_as(&alice, NULL, "alice", json_pack("{s:[s]}", "resourceSubscriptions", WATCHED));
    listen_as(&bob, NULL, "bob", json_pack("{s:[s]}", "resourceSubscriptions", WATCHED));
    mcp_resource_updated(&client_mcp, WATCHED, "bob");
    assert_int_equal(client_count(&alice), 1);
    assert_int_equal(client_count(&bob), 2);
    end(&alice);
    end(&bob);
}

// Listeners do not use up what other requests need, and have a bound of their own.
static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 1025 };
    struct client_outlet *c = calloc(COUNT, sizeof *c);
    assert_non_null(c);
    for (int i = 0; i < COUNT; i++) {
        listen_as(&c[i], NULL, "", json_object());
        assert_true(c[i].last == (i == COUNT - 1));
    }
    c[COUNT - 1].call = NULL;
    json_t *r = client_ask("", "tools/list", NULL);
    assert_non_null(json_object_get(r, "tools"));
    json_decref(r);
    for (int i = 0; i < COUNT; i++)
        end(&c[i]);
    assert_int_equal(client_mcp.lasting, 0);
    free(c);
}

// Sending to one listener ends another, or itself, in the middle of a walk.
static void test_end_while_sending(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    for (int victim = 0; victim < COUNT; victim++) {
        struct client_outlet c[COUNT];
        for (int i = 0; i < COUNT; i++)
            listen_as(&c[i], NULL, "", json_pack("{s:b}", "toolsListChanged", 1));
        for (int i = 0; i < COUNT; i++)
            if (i == (victim + 1) % COUNT)
                c[i].cancel_on_send = c[victim].call;
        if (victim == 0)
            c[1].cancel_on_send = c[1].call; // itself
        mcp_list_changed(&client_mcp, MCP_LIST_TOOLS, NULL);
        int dropped = 0;
        for (int i = 0; i < COUNT; i++) {
            dropped += c[i].dropped;
            assert_true(c[i].dropped || client_count(&c[i]) == 2);
            if (c[i].dropped)
                c[i].call = NULL;
            end(&c[i]);
        }
        assert_int_equal(dropped, 1);
    }
}

static void test_server_ends(void **state)
{
    (void)state;
    struct client_outlet http, stdio;
    struct mcp_client *client = mcp_client_new_private(&client_mcp, "");
    listen_as(&http, NULL, "", json_pack("{s:b}", "toolsListChanged", 1));
    listen_as(&stdio, client, "", json_pack("{s:b}", "toolsListChanged", 1));
    mcp_subscriptions_end_all(&client_mcp);
    assert_true(http.last && stdio.last);
    assert_int_equal(client_count(&http), 2);
    json_t *result = json_object_get(last(&http), "result");
    assert_string_equal(client_text(result, "resultType"), "complete");
    assert_true(json_equal(json_object_get(json_object_get(result, "_meta"), MCP_META_SUBSCRIPTION),
                           json_object_get(last(&http), "id")));
    assert_int_equal(client_count(&stdio), 3);
    json_t *cancelled = client_message(&stdio, 1);
    assert_string_equal(client_text(cancelled, "method"), "notifications/cancelled");
    assert_true(json_equal(json_object_get(json_object_get(cancelled, "params"), "requestId"),
                           json_object_get(last(&stdio), "id")));
    http.call = stdio.call = NULL;
    end(&http);
    end(&stdio);
    mcp_client_end(client);
}

// ---- legacy -------------------------------------------------------------------------------------

static json_t *legacy(struct mcp_client *client, const char *method, json_t *params)
{
    struct client_outlet c;
    client_open(&c);
    client_send(&c, client, "", false, NULL, method, params);
    assert_true(c.last);
    json_t *m = json_incref(last(&c));
    client_close(&c);
    return m;
}

static json_t *subscribe(struct mcp_client *client, const char *uri)
{
    return legacy(client, "resources/subscribe", json_pack("{s:s}", "uri", uri));
}

static int error_code(json_t *m)
{
    int code = (int)json_integer_value(json_object_get(json_object_get(m, "error"), "code"));
    json_decref(m);
    return code;
}

static struct mcp_client *agreed_session(void)
{
    struct mcp_client *client = mcp_client_new(&client_mcp, "");
    assert_non_null(client);
    json_t *m = legacy(client, "initialize",
                       json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", "2025-11-25",
                                 "capabilities", "clientInfo", "name", "unit", "version", "1"));
    assert_non_null(json_object_get(m, "result"));
    json_decref(m);
    return client;
}

static void test_legacy(void **state)
{
    (void)state;
    struct client_outlet stream;
    struct mcp_client *client = agreed_session();
    client_open(&stream);
    mcp_list_changed(&client_mcp, MCP_LIST_TOOLS, NULL); // no client listens at the moment
    client->outlet = &stream.outlet;
    for (int i = 0; i < MCP_LIST_MAX; i++)
        mcp_list_changed(&client_mcp, (enum mcp_list)i, NULL);
    assert_int_equal(client_count(&stream), 3);
    assert_null(json_object_get(last(&stream), "params"));

    assert_int_equal(error_code(subscribe(client, WATCHED)), 0);
    assert_int_equal(error_code(subscribe(client, WATCHED)), 0); // once is enough
    mcp_resource_updated(&client_mcp, WATCHED, NULL);
    assert_int_equal(client_count(&stream), 4);
    assert_string_equal(client_text(json_object_get(last(&stream), "params"), "uri"), WATCHED);

    json_decref(legacy(client, "resources/unsubscribe", json_pack("{s:s}", "uri", WATCHED)));
    json_decref(legacy(client, "resources/unsubscribe", json_pack("{s:s}", "uri", WATCHED)));
    mcp_resource_updated(&client_mcp, WATCHED, NULL);
    assert_int_equal(client_count(&stream), 4);

    assert_int_equal(error_code(subscribe(client, "test://nothing")), -32002);
    assert_int_equal(error_code(legacy(client, "resources/subscribe", NULL)), -32602);
    assert_int_equal(error_code(subscribe(client, "")), -32602);

    assert_int_equal(error_code(subscribe(client, WATCHED)), 0);
    mcp_client_end(client);
    mcp_resource_updated(&client_mcp, WATCHED, NULL); // to no client
    mcp_list_changed(&client_mcp, MCP_LIST_TOOLS, NULL);
    client_close(&stream);
}

static void test_legacy_bound(void **state)
{
    (void)state;
    char uri[64];
    struct mcp_client *client = agreed_session();
    for (int i = 0; i < 1024; i++) {
        snprintf(uri, sizeof uri, "test://template/%d/data", i);
        assert_int_equal(error_code(subscribe(client, uri)), 0);
    }
    assert_int_equal(error_code(subscribe(client, WATCHED)), -32602);
    assert_int_equal(error_code(subscribe(client, uri)), 0); // it has that one
    mcp_client_end(client);
}

// A stream that lasts for days keeps nothing of the request that it does not need.
static void test_little_is_kept(void **state)
{
    (void)state;
    struct client_outlet c;
    json_t *junk = json_array(), *can = client_all();
    for (int i = 0; i < 1000; i++)
        json_array_append_new(junk, json_array());
    json_object_set(can, "junk", junk);
    json_object_set(json_object_get(can, "sampling"), "junk", junk);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "key-%d", i);
        json_object_set_new(json_object_get(can, "roots"), key, json_object());
    }
    client_open(&c);
    client_send(&c, NULL, "", true, can, "subscriptions/listen",
                json_pack("{s:{}, s:O, s:O}", "notifications", "junk", junk, "name", junk));
    expect_ack(&c, json_object());
    assert_non_null(c.call);
    assert_true(json_dumpb(c.call->request.message, NULL, 0, JSON_COMPACT) < 1024);
    assert_true(mcp_client_can(c.call, "extensions/" MCP_EXTENSION_TASKS));
    assert_true(mcp_client_can(c.call, "sampling"));
    assert_int_equal(junk->refcount, 1);
    json_decref(junk);
    end(&c);
}

// With keys, one owner leaves half of the room to others; without, there is only one.
static void test_share(void **state)
{
    static struct client_outlet all[1024];
    (void)state;
    for (int i = 0; i < 512; i++)
        listen_as(&all[i], NULL, "bob", json_object());
    assert_int_equal(client_code(client_ask("bob", "subscriptions/listen",
                                            json_pack("{s:{}}", "notifications"))),
                     -32603);
    for (int i = 512; i < 1024; i++)
        listen_as(&all[i], NULL, i % 2 ? "alice" : "carol", json_object());
    assert_int_equal(client_code(client_ask("dave", "subscriptions/listen",
                                            json_pack("{s:{}}", "notifications"))),
                     -32603);
    for (int i = 0; i < 1024; i++) {
        assert_non_null(all[i].call);
        end(&all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_filter, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_bad_filters, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_total, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_tasks, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_owners, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_many, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_end_while_sending, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_server_ends, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_legacy, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_legacy_bound, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_little_is_kept, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_share, client_begin, client_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
