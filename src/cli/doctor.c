// SPDX-License-Identifier: Apache-2.0
//
// doctor: `constrictor doctor`.  Makes a box, checks every layer from inside it, and prints which
// are live and how to get the others.  If the box starts, doctor_gate() prints, in a gate without
// any rights; else the first process finds the cause, layer by layer, and prints.

#include "cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box/filter.h"
#include "check/selftest.h"
#include "cli/cli.h"
#include "cli/single_run.h"
#include "keeper/keeper.h"
#include "net/policy.h"
#include "run/result.h"

struct visit {
    struct doctor doctor;
    struct config box; // the configuration of the box that is checked
};

// ---- without a box ----------------------------------------------------------------

// Finds the layer at fault: the probes know the cause best, else the failed step names the layer.
static void blame(struct doctor *d)
{
    struct err *e = &d->error;
    if (e->code == ERR_INTERPRETER || e->code == ERR_INTERPRETER_TOO_OLD)
        return;
    if (caps_blame(&d->caps, e))
        return;
    if (strstr(e->hint, "constrictor doctor")) // that is this command
        err_hint(e, "each part works alone: look for a denial in the kernel log");
    enum layer layer = caps_layer_of(e);
    if (layer != LAYER_MAX)
        caps_set(&d->caps, layer, LAYER_MISSING, strstr(e->message, "': ") + strlen("': "),
                 e->hint);
}

// No box started: only failed probes, and what is opened before boxes, are certain.
static void mark_untested(struct doctor *d)
{
    for (int i = 0; i < LAYER_MAX; i++)
        d->untested[i] = d->caps.layer[i].state == LAYER_LIVE;
    d->untested[LAYER_landlock] = false;
    if (d->caps.cgroups.driver)
        d->untested[LAYER_cgroup] = false;
    if (slots_have_uids(&d->caps.slots))
        d->untested[LAYER_uid] = false;
}

static int show_failure(struct doctor *d)
{
    blame(d);
    mark_untested(d);
    return doctor_show(d);
}

// ---- the answer of the box
// --------------------------------------------------------------------------

static void take_looks(struct doctor *d, json_t *answer)
{
    for (int i = 0; i < LAYER_MAX; i++) {
        const char *text;
        int holds = selftest_look(answer, (enum layer)i, &text);
        enum layer_state state = d->caps.layer[i].state;
        bool in_table = json_object_get(answer, layers[i].name) != NULL;
        if (!in_table || state == LAYER_DEGRADED || state == LAYER_MISSING)
            continue;
        if (holds > 0) {
            if (text[0])
                caps_set(&d->caps, (enum layer)i, state, text, d->caps.layer[i].fix);
        } else if (holds < 0 && d->caps.layer[LAYER_proc].state == LAYER_DEGRADED) {
            caps_set(&d->caps, (enum layer)i, state, "cannot be checked without /proc", "");
        } else {
            char why[CAPS_TEXT_MAX];
            snprintf(why, sizeof why,
                     "the box started, but the layer does not hold inside it%s%.200s",
                     text[0] ? ": " : "", text);
            caps_set(&d->caps, (enum layer)i, LAYER_MISSING, why,
                     "this is a bug in Constrictor or in the kernel: please report it");
        }
    }
}

// Takes the answer out of a finished run; on failure fills d->error.
static json_t *take_answer(struct doctor *d, const struct exec *x)
{
    const struct run *run = x->run;
    if (x->error.message[0]) {
        d->error = x->error;
        return NULL;
    }
    struct result result = x->result;
    json_t *answer = json_object_get(run->result, "result_json");
    if (result.verdict == VERDICT_OK && json_is_object(answer))
        return answer;
    const char *text =
        json_string_value(json_object_get(json_object_get(run->result, "error"), "text"));
    err_set(&d->error, ERR_BOX_SETUP, 0, result.hint,
            "a box started, but the check inside it ended as '%s'%s%.300s",
            result_verdict_name(result.verdict), text ? ": " : "", text ? text : "");
    return NULL;
}

static int doctor_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct visit *visit = argument;
    struct doctor *d = &visit->doctor;
    d->error = (struct err){0}; // failed drivers left their reasons in it
    d->caps = *facts->caps;
    d->interp = *facts->interp;
    d->has_interp = true;
    d->report = json_loads(facts->zygote_report, 0, NULL);
    // Probe now, while there are rights; used only if no box starts.
    static struct caps probed;
    probed = d->caps;
    (void)caps_probe_deep(&probed);
    struct single_run single = {
        .config = &visit->box,
        .code = selftest_code,
        .code_length = strlen(selftest_code),
        .filename = "<doctor>",
        .argv = selftest_argv(&visit->box, &d->interp, d->config->self_test),
        .network = json_false(), // checks the box without network, the default
    };
    json_t *answer = NULL;
    if (single_run(&single, sock, facts, &d->error) == 0)
        answer = take_answer(d, single.exec);
    if (!answer) {
        d->caps = probed;
        return show_failure(d);
    }
    take_looks(d, answer);
    if (d->config->self_test)
        d->self_test = selftest_judge(answer);
    return doctor_show(d); // the process ends here and frees everything
}

// ---- the command --------------------------------------------------------------------------------

// Limits that leave room for the checks and probes, whatever is configured.
static void choose_limits(struct config *c)
{
    c->stock = 1;
    c->wall_ms = c->cpu_ms = 2 * TEXT_MINUTE_MS;
    c->processes = c->processes < 16 ? 16 : c->processes > 128 ? 128 : c->processes;
    if (c->files < 64)
        c->files = 64;
    if (c->inodes < 256)
        c->inodes = 256;
    if (c->memory_bytes < 128 * TEXT_MIB)
        c->memory_bytes = 128 * TEXT_MIB;
    if (c->scratch_bytes < TEXT_MIB)
        c->scratch_bytes = TEXT_MIB;
    if (c->file_size_bytes < TEXT_MIB)
        c->file_size_bytes = TEXT_MIB;
}

static int cmd_doctor(const struct config *c, int argc, char **argv)
{
    static struct visit visit; // large
    struct doctor *d = &visit.doctor;
    struct err ignored;
    int status = 1;
    (void)argc;
    (void)argv;
    if (c->dump_policy) {
        filter_dump(stdout,
                    net_is_on(c) || c->loopback == LOOPBACK_ON ? FILTER_BOX_NETWORK : FILTER_BOX);
        return cli_finish();
    }
    d->config = c;
    d->uid = geteuid();
    d->network_is_on = net_is_on(c);
    if (d->network_is_on)
        caps_probe_network(&d->network);
    visit.box = *c;
    choose_limits(&visit.box);
    struct keeper_plan plan = {.config = &visit.box,
                               .cold = true,
                               .own_uids = true,
                               .gate = doctor_gate,
                               .argument = &visit};
    int r = keeper_run(&plan, &status, &d->error);
    if (r == 0)
        return status;
    if (d->error.code == ERR_BAD_VALUE)
        return cli_fail(&d->error, c->json);
    (void)caps_open(&d->caps, c, true, &ignored); // fills what it can
    (void)caps_probe_deep(&d->caps);
    d->has_interp = interp_ask(c->python, &d->interp, &ignored) == 0;
    status = show_failure(d);
    caps_close(&d->caps);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .section = SECTION_INSPECT,
    .summary = "Show which isolation layers work, and how to get the others",
    .usage = "doctor [options]",
    .notes = "Exit status: 0 when all mandatory layers are live and all probes held, else 1.",
    .bit = CONFIG_DOCTOR,
    .function = cmd_doctor,
};
