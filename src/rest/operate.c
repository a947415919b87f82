// SPDX-License-Identifier: Apache-2.0
//
// operate: what an operator does and checks from the page: stop a run, the layers of boxes, the
// self-test.  Handlers of rest/route.c; run in the gate.

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "check/selftest.h"
#include "keeper/keeper.h"
#include "rest/call.h"
#include "rest/execute.h"
#include "run/result.h"

enum { SELF_TEST_MS = 60000 };

// ---- DELETE /runs/{id} --------------------------------------------------------------------------

static struct exec *find_run(struct rest_call *c)
{
    struct exec *x;
    bool any = http_may_operate(c->x);
    TAILQ_FOREACH (x, &c->rest->gate->execs, list)
        if (strcmp(x->id, c->id) == 0 && (any || strcmp(x->owner, c->owner) == 0) &&
            !x->request.look && !x->request.install)
            return x;
    return NULL;
}

void rest_stop_run(struct rest_call *c)
{
    struct exec *x = find_run(c);
    if (!x) {
        rest_fail(c, 404, "run_not_found", "GET /api/v1/overview lists the runs that are under way",
                  "no run of this id is under way; it may have ended");
        return;
    }
    json_t *answer = json_pack("{s:s, s:b}", "execution_id", x->id, "stopped", 1);
    exec_cancel(x);
    rest_answer(c, 200, answer);
}

// ---- GET /doctor --------------------------------------------------------------------------------

static json_t *clean(const char *text)
{
    char buf[CAPS_TEXT_MAX];
    snprintf(buf, sizeof buf, "%s", text);
    text_sanitize(buf);
    return json_string(buf);
}

void rest_doctor(struct rest_call *c)
{
    static const char *const states[] = {"live", "partial", "degraded", "missing"};
    const struct keeper_facts *facts = c->rest->gate->facts;
    json_t *list = json_array();
    bool ok = facts->state != KEEPER_FAILED;
    for (int i = 0; i < LAYER_MAX; i++) {
        enum layer_state state = facts->caps->layer[i].state;
        ok &= !layers[i].mandatory || state == LAYER_LIVE || state == LAYER_PARTIAL;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:b, s:s, s:o, s:o, s:s}", "name", layers[i].name, "mandatory",
                            layers[i].mandatory, "state", states[state], "text",
                            clean(facts->caps->layer[i].text), "fix",
                            clean(facts->caps->layer[i].fix), "stops", layers[i].what));
    }
    rest_answer(c, 200,
                json_pack("{s:b, s:o, s:o}", "ok", ok, "layers", list, "interpreter",
                          result_interpreter(facts)));
}

// ---- POST /self-test ----------------------------------------------------------------------------

static json_t *looks(json_t *answer, bool *ret_ok)
{
    json_t *list = json_array();
    for (int i = 0; i < LAYER_MAX; i++) {
        const char *text;
        if (!json_object_get(answer, layers[i].name))
            continue;
        int holds = selftest_look(answer, (enum layer)i, &text);
        *ret_ok &= holds != 0;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:o}", "name", layers[i].name, "held",
                            holds < 0 ? json_null() : json_boolean(holds), "text", clean(text)));
    }
    return list;
}

static void finish(struct rest_call *c, struct exec *x)
{
    json_t *answer = x->run ? json_object_get(x->run->result, "result_json") : NULL;
    if (x->error.message[0]) {
        rest_fail_err(c, &x->error);
    } else if (x->result.verdict != VERDICT_OK || !json_is_object(answer)) {
        rest_fail(c, 503, "self_test_failed", "run 'constrictor doctor --self-test' on the server",
                  "the test ended as '%s'", result_verdict_name(x->result.verdict));
    } else {
        json_t *o = selftest_judge(answer);
        bool ok = json_integer_value(json_object_get(o, "held")) ==
                  json_integer_value(json_object_get(o, "total"));
        (void)json_object_set_new(o, "layers", looks(answer, &ok));
        (void)json_object_set_new(o, "ok", json_boolean(ok));
        rest_answer(c, 200, o);
    }
}

// Limits that leave room for the probes, whatever is configured.
static struct wire_limits test_limits(const struct config *config)
{
    struct wire_limits l = keeper_limits(config);
    l.processes = l.processes < 16 ? 16 : l.processes > 128 ? 128 : l.processes;
    l.open_files = l.open_files < 64 ? 64 : l.open_files;
    l.inodes = l.inodes < 256 ? 256 : l.inodes;
    l.memory_bytes = l.memory_bytes < 128 * TEXT_MIB ? 128 * TEXT_MIB : l.memory_bytes;
    l.scratch_bytes = l.scratch_bytes < TEXT_MIB ? TEXT_MIB : l.scratch_bytes;
    l.file_bytes = l.file_bytes < TEXT_MIB ? TEXT_MIB : l.file_bytes;
    return l;
}

void rest_self_test(struct rest_call *c)
{
    struct gate *g = c->rest->gate;
    const struct exec *x;
    if (!http_may_operate(c->x)) {
        rest_fail(c, 403, "not_the_operator",
                  "ask the operator, whose key is named 'operator' in the file of keys",
                  "only an operator's key may test the walls");
        return;
    }
    TAILQ_FOREACH (x, &g->execs, list)
        if (x->request.code == selftest_code) {
            rest_fail(c, 409, err_code_name(ERR_BUSY), "wait for its end, a few seconds",
                      "a self-test is under way already");
            return;
        }
    static struct config config; // large
    struct exec_request request = {.action = EXEC_RUN,
                                   .code = selftest_code,
                                   .code_length = strlen(selftest_code),
                                   .filename = "<doctor>",
                                   .limits = test_limits(g->facts->config),
                                   .wall_ms = SELF_TEST_MS,
                                   .cpu_ms = SELF_TEST_MS,
                                   .network = json_false(),
                                   .plain = true};
    config = *g->facts->config;
    config.processes = request.limits.processes;
    config.scratch_bytes = request.limits.scratch_bytes;
    request.argv = selftest_argv(&config, g->facts->interp, true);
    rest_start(c, &request, finish);
}
