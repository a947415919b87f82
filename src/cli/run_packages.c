// SPDX-License-Identifier: Apache-2.0
//
// run_packages: see run_packages.h.

#include "cli/run_packages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/code_policy.h"
#include "env/envs.h"
#include "exec/exec_packages.h"
#include "installer/installer.h"
#include "porter/porter.h"

enum run_packages run_packages_needed(const struct config *c, const char *code, size_t length)
{
    if (c->run_env[0] || c->run_packages.count || exec_has_metadata(code, length))
        return RUN_PACKAGES_MUST;
    return code_policy_mode(c) == CODE_RESTRICTED ? RUN_PACKAGES_MAYBE : RUN_PACKAGES_NONE;
}

void run_packages_add_to_plan(enum run_packages need, struct keeper_plan *plan)
{
    if (need == RUN_PACKAGES_NONE)
        return;
    plan->state = true;
    plan->porter = porter_main;
    plan->cold = false; // a cold interpreter does not report what it lacks for a policy
}

int run_packages_open(enum run_packages need, struct gate *g, struct err *e)
{
    if (need == RUN_PACKAGES_NONE)
        return 0;
    int r = envs_open(g, &env_installer, e);
    return need == RUN_PACKAGES_MUST ? r : 0; // else the run reports what it lacks
}

// The list was split at every comma, also in "numpy>=2,<3" and "pandas[excel,html]": an item that
// begins with a comparison, or follows an open bracket, is joined to the item before.
int run_packages_list(const struct config *c, json_t **ret, struct err *e)
{
    _cleanup_free_ char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bool inside = false;
    for (size_t i = 0; f && i < c->run_packages.count; i++) {
        const char *item = c->run_packages.items[i];
        const char *opened = strrchr(item, '['), *closed = strrchr(item, ']');
        bool joined = i > 0 && (inside || strchr("<>=!~", item[0]));
        (void)fprintf(f, "%s%s", i == 0 ? "" : joined ? "," : " ", item);
        inside = opened ? !closed || closed < opened : inside && !closed;
    }
    if (!f || fclose(f) != 0)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "list the packages");
    json_auto_t *whole = json_string(text);
    *ret = envs_requirements(whole, e);
    return *ret ? 0 : -1;
}
