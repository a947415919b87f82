// SPDX-License-Identifier: Apache-2.0
//
// commands: the table of the commands; each is defined in the file of its name.

#include "base/text.h"
#include "cli/cli.h"

const struct command *const commands[] = {
    &command_run,
    &command_check,
    &command_env,
    &command_serve,
    &command_stdio,
    &command_client_config,
    &command_doctor,
    &command_config,
    &command_bench,
    &command_help,
    NULL,
};

static void hint_all(struct err *e)
{
    char names[256] = "";
    size_t n = 0;
    for (size_t i = 0; commands[i] && n < sizeof names; i++)
        n +=
            (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", commands[i]->name);
    err_hint(e, "the commands are: %s", names);
}

const struct command *command_find(const char *name, struct err *e)
{
    const struct command *near = NULL;
    unsigned near_distance = 3; // beyond this it is no typo
    for (size_t i = 0; commands[i]; i++) {
        unsigned d = text_distance(name, commands[i]->name);
        if (d == 0)
            return commands[i];
        if (d < near_distance) {
            near = commands[i];
            near_distance = d;
        }
    }
    (void)err_set(e, ERR_USAGE, 0, NULL, "unknown command '%.80s'", name);
    if (near)
        err_hint(e, "did you mean '%s'? 'constrictor --help' lists the commands", near->name);
    else if (name[0] == '-')
        err_hint(e, "options stand behind the command: 'constrictor run %.80s ...'", name);
    else
        hint_all(e);
    return NULL;
}
