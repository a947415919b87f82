// SPDX-License-Identifier: Apache-2.0
//
// validate: POST /validate: see check/check.h.  Runs in the gate; a handler of rest/route.c.

#include <string.h>

#include "check/check.h"
#include "config/code_policy.h"
#include "rest/call.h"
#include "run/network.h"
#include "run/source.h"

static void on_done(struct check *k)
{
    struct rest_call *c = k->argument;
    c->check = NULL;
    if (k->answer)
        rest_answer(c, 200, json_incref(k->answer));
    else
        rest_fail_err(c, &k->error);
    check_free(k);
}

void rest_validate(struct rest_call *c)
{
    const struct config *config = c->rest->config;
    json_t *code = json_object_get(c->body, "code"), *policy = NULL;
    struct err e;
    // Every other problem is part of the answer.
    int r = json_string_length(code) > config->source_bytes
                ? source_too_large("code", config->source_bytes, &e)
                : code_policy_make(config, field_text(c->body, "policy", NULL),
                                   field_get(c->body, "allowed_imports", NULL),
                                   network_is_allowed(c->rest->gate, c->owner), true, &policy, &e);
    if (r < 0) {
        rest_fail_err(c, &e);
        return;
    }
    struct check_request request = {.owner = c->owner,
                                    .source = json_string_value(code),
                                    .length = json_string_length(code),
                                    .policy = policy,
                                    .lint = json_is_true(field_get(c->body, "lint", NULL)),
                                    .on_done = on_done,
                                    .argument = c};
    c->check = check_start(c->rest->gate, &request);
    json_decref(policy);
    if (!c->check)
        rest_answer(c, 503, NULL);
}
