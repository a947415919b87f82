// SPDX-License-Identifier: Apache-2.0
//
// exec_network: see exec_network.h.  Runs in the gate.

#include "exec/exec_network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "run/events.h"
#include "run/network.h"

int exec_use_network(struct exec *x, const struct session *s, json_t *call)
{
    if (s && network_fits(s->plan.network, s->networked, call, &x->error) < 0)
        return -1;
    if (!s && x->request.limits.isolation != ISOLATION_NATIVE)
        return network_of_sandbox(call, &x->error);
    const char *key = x->request.network_key ? x->request.network_key : x->owner;
    if (s ? !s->networked : !network_wants(x->gate, key, call))
        return 0;
    x->network = network_run_new(x->gate, key, x->id, s ? s->plan.network : NULL, call);
    return x->network ? 0
                      : err_set(&x->error, ERR_SYSTEM, 0, "try again later",
                                "the server is out of memory");
}

// Did the code fail because it has no network?
static bool wants_network(const struct run *r)
{
    json_t *error = json_object_get(r->result, "error");
    const char *type = json_string_value(json_object_get(error, "type")),
               *message = json_string_value(json_object_get(error, "message"));
    const char *dot = type ? strrchr(type, '.') : NULL; // of "socket.gaierror"
    if (dot)
        type = dot + 1;
    return (type && strcmp(type, "gaierror") == 0) ||
           json_integer_value(json_object_get(error, "errno")) == EAFNOSUPPORT ||
           (message && strstr(message, "network is off"));
}

void exec_hint_at_network(struct exec *x, const struct session *s)
{
    char allowed[NETWORK_TEXT_MAX];
    char *hint = x->result.hint;
    const size_t cap = sizeof x->result.hint;
    if (x->result.verdict != VERDICT_ERROR || hint[0] || !x->run->result)
        return;
    if (x->network) {
        json_t *events = json_array();
        (void)events_take(events, network_run_events(x->network), false);
        (void)events_hint(x->run->result, events, hint, cap);
        json_decref(events);
        return;
    }
    if (!wants_network(x->run))
        return;
    network_describe(x->gate, x->owner, NULL, allowed);
    static const char *const without[] = {
        [EXEC_ELSEWHERE] =
            "code has no network here; send the data as files, or ask the operator to "
            "allow the host with --allow-host or --network-file",
        [EXEC_MCP] =
            "code has no network here; put the data into a file with write_file, or into the "
            "code; only the operator of this server can allow a host (--allow-host)",
        [EXEC_REST] =
            "code has no network here; send the data in the field 'files'; only the operator "
            "of this server can allow a host (--allow-host)",
        [EXEC_CLI] =
            "code has no network here; --allow-host HOST opens one host, --in FILE brings a "
            "file",
    };
    if (!allowed[0])
        snprintf(hint, cap, "%s", without[x->request.surface]);
    else
        snprintf(hint, cap, "%s; this key may reach %.300s",
                 s ? "this session was opened without network: open another one, and name hosts in "
                     "the argument 'network' or leave it out"
                   : "the network was off for this run: leave the argument 'network' out, or name "
                     "hosts in it",
                 allowed);
}
