// SPDX-License-Identifier: Apache-2.0
//
// run_input: see run_input.h.

#include "cli/run_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "exec/exec.h"

// Adds NAME=VALUE, or NAME with the value that the caller has.
static int add_env_var(json_t *env_vars, const char *text, struct err *e)
{
    size_t n = strcspn(text, "=");
    const char *value = text[n] ? text + n + 1 : NULL;
    char *name = strndup(text, n), shown[80];
    if (!name)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read --env-var");
    snprintf(shown, sizeof shown, "%.60s", name);
    text_sanitize(shown);
    if (!value)
        value = getenv(name);
    int r = 0;
    if (!value)
        r = err_set(e, ERR_BAD_VALUE, 0, "write NAME=VALUE, or set the variable before the command",
                    "--env-var: there is no variable '%s' in your environment", shown);
    // SECURITY: the message must not have the value.
    else if (utf8_valid_length(name, n) < n ||
             utf8_valid_length(value, strlen(value)) < strlen(value))
        r = err_set(e, ERR_BAD_VALUE, 0, "bring other bytes along as a file",
                    "--env-var: '%s' is not UTF-8", shown);
    else if (json_object_set_new(env_vars, name, json_string(value)) < 0)
        r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read --env-var");
    free(name);
    return r;
}

int run_env_vars(const struct config *c, json_t **ret, struct err *e)
{
    *ret = NULL;
    if (!c->env_vars.count)
        return 0;
    json_t *env_vars = json_object();
    int r = env_vars ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read --env-var");
    for (size_t i = 0; r == 0 && i < c->env_vars.count; i++)
        r = add_env_var(env_vars, c->env_vars.items[i], e);
    if (r == 0)
        r = exec_check_env_vars(env_vars, e);
    if (r == 0)
        *ret = env_vars;
    else
        json_decref(env_vars);
    return r;
}
