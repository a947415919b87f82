// SPDX-License-Identifier: Apache-2.0
//
// broker_reach: a server outside, for tests of broker_process.h that reach it.  Used by
// test_broker.c and test_broker_life.c.

#ifndef CONSTRICTOR_BROKER_REACH_H
#define CONSTRICTOR_BROKER_REACH_H

#include "broker_process.h"

static void listen_by_asking(const char *name)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    assert_int_equal(box_lookup(name, address), 0);
    snprintf(question, sizeof question, "connect %s %u wait", address, port);
    box_ask(question, answer);
    assert_string_equal(answer, "ok");
}

// For the tests below: connected, both ends.
static int reach(const char *name, int *ret_far)
{
    listen_by_asking(name);
    return box_reach(name, port, listener, ret_far);
}

#endif
