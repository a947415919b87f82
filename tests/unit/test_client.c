// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/protocol/client: whose session makes room when there are too many.

#include "mcp_client.h"

enum { MANY = 100 }; // client_begin()

static struct mcp_client *all[MANY];

static void fill(const char *owner, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        assert_non_null(all[i] = mcp_client_new(&client_mcp, owner));
}

static bool is_there(const char *id, const char *owner)
{
    return mcp_client_find(&client_mcp, id, owner) != NULL;
}

static void test_own_ones_go_first(void **state)
{
    char alice[MCP_SESSION_ID_LENGTH + 1], bob[MCP_SESSION_ID_LENGTH + 1];
    (void)state;
    fill("alice", 0, 1);
    memcpy(alice, all[0]->id, sizeof alice);
    fill("bob", 1, MANY);
    memcpy(bob, all[1]->id, sizeof bob);
    for (int i = 0; i < 3 * MANY; i++)
        assert_non_null(mcp_client_new(&client_mcp, "bob"));
    assert_int_equal(client_mcp.client_count, MANY);
    assert_false(is_there(bob, "bob"));
    assert_true(is_there(alice, "alice"));
}

static void test_somebody_new_gets_in(void **state)
{
    char first[MCP_SESSION_ID_LENGTH + 1];
    (void)state;
    fill("bob", 0, MANY);
    memcpy(first, all[0]->id, sizeof first);
    assert_non_null(mcp_client_new(&client_mcp, "carol"));
    assert_false(is_there(first, "bob"));
    assert_int_equal(client_mcp.client_count, MANY);
}

// Old ones with open calls do not block new ones.
static void test_busy_ones_stay(void **state)
{
    (void)state;
    fill("bob", 0, MANY);
    for (size_t i = 0; i < MANY - 1; i++)
        all[i]->call_count = 1;
    char idle[MCP_SESSION_ID_LENGTH + 1];
    memcpy(idle, all[MANY - 1]->id, sizeof idle);
    struct mcp_client *fresh = mcp_client_new(&client_mcp, "bob");
    assert_non_null(fresh);
    assert_false(is_there(idle, "bob"));
    fresh->call_count = 1;
    assert_null(mcp_client_new(&client_mcp, "bob")); // all are at work
    fresh->call_count = 0;
    for (size_t i = 0; i < MANY - 1; i++)
        all[i]->call_count = 0;
    assert_non_null(mcp_client_new(&client_mcp, "bob"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_own_ones_go_first, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_somebody_new_gets_in, client_begin, client_finish),
        cmocka_unit_test_setup_teardown(test_busy_ones_stay, client_begin, client_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
