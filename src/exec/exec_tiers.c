// SPDX-License-Identifier: Apache-2.0
//
// exec_tiers: see exec_tiers.h.  Runs in the gate.

#include "exec/exec_tiers.h"

#include <errno.h>
#include <stdio.h>

#include "config/code_policy.h"

int exec_apply_tiers(struct exec *x, const json_t *policy)
{
    const struct config *c = x->gate->facts->config;
    struct exec_request *q = &x->request;
    q->limits.readonly = !q->plain && (q->limits.readonly || code_policy_freezes(c, policy));
    if (q->plain || code_policy_has_network(c, policy))
        return 0;
    if (json_is_object(q->network))
        return err_set(&x->error, ERR_NETWORK_NOT_ALLOWED, 0,
                       "leave the argument 'network' out, or ask the operator to enable the tier "
                       "'network' (--tiers, or --network on)",
                       "the policy of this run has no network");
    json_decref(q->network);
    q->network = json_false();
    return 0;
}

// SECURITY: a session with writable scratch may have a thread of earlier code that goes on writing,
// so a run that must not write files cannot use it.
int exec_check_tiers(struct exec *x, const struct session *s)
{
    if (x->request.action != EXEC_RUN || !x->request.limits.readonly || s->plan.limits.readonly)
        return 0;
    return err_set(
        &x->error, ERR_CONFLICT, 0,
        "use a new session name, so that this policy opens the session; or ask the operator to "
        "enable the tier 'filesystem' (--enable-filesystem)",
        "the policy of this run does not let code write files, and this session was opened "
        "without it");
}

int exec_check_sandbox(struct exec *x, const struct session *s)
{
    if (x->request.limits.isolation > s->plan.limits.isolation)
        return err_set(&x->error, ERR_CONFLICT, 0,
                       "leave 'isolation' out, or use a new session name",
                       "this session was opened with isolation 'native'");
    if (s->plan.limits.isolation == ISOLATION_NATIVE || x->request.action == EXEC_RUN)
        return 0;
    return err_set(&x->error, ERR_BAD_VALUE, 0, "use a session with isolation 'native' for these",
                   "a session with isolation 'gvisor' has no checkpoints, undo, forks or looks");
}

void exec_hint_at_files(struct exec *x)
{
    json_t *error = json_object_get(x->run->result, "error");
    if (x->result.verdict == VERDICT_ERROR && !x->result.hint[0] &&
        x->run->request.limits.readonly &&
        json_integer_value(json_object_get(error, "errno")) == EROFS)
        snprintf(x->result.hint, sizeof x->result.hint,
                 "files cannot be written under the policy of this run: send files with the run, "
                 "print results, or ask the operator to enable the tier 'filesystem' "
                 "(--enable-filesystem)");
}
