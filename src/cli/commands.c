// SPDX-License-Identifier: Apache-2.0
//
// commands: the table of the commands; each is defined in the file of its name.

#include <string.h>

#include "cli/cli.h"

const struct command *const commands[] = {
    &command_run,    &command_repl,  &command_check,         &command_env,
    &command_serve,  &command_stdio, &command_client_config, &command_doctor,
    &command_config, &command_bench, &command_help,          NULL,
};

const char *command_word(size_t i)
{
    return commands[i] ? commands[i]->name : NULL;
}

const struct command *command_find(const char *name, struct err *e)
{
    char names[256];
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    (void)err_set(e, ERR_USAGE, 0, NULL, "unknown command '%.80s'", name);
    const char *near = cli_nearest(name, command_word);
    cli_list_words(command_word, names, sizeof names);
    if (near)
        err_hint(e, "did you mean '%s'? 'constrictor --help' lists the commands", near);
    else if (name[0] == '-')
        err_hint(e, "options stand behind the command: 'constrictor run %.80s ...'", name);
    else
        err_hint(e, "the commands are: %s", names);
    return NULL;
}
