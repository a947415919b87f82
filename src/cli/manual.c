// SPDX-License-Identifier: Apache-2.0
//
// manual: the man page, constrictor(1), made from the commands and from config.def.

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"

// Text as roff takes it: a backslash and a leading dot or quote have a meaning there, and a plain
// '-' would be printed as a hyphen that cannot be pasted into a shell.
static void put(FILE *out, const char *text, size_t length)
{
    bool at_start = true;
    for (size_t i = 0; i < length; i++) {
        if (at_start && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        at_start = text[i] == '\n';
        switch (text[i]) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '\'': fputs("\\(aq", out); break;
        default: fputc(text[i], out);
        }
    }
}

static void put_text(FILE *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_lines(FILE *out, const char *text)
{
    fputs(".nf\n", out);
    put_text(out, text);
    fputs("\n.fi\n", out);
}

static void print_command(FILE *out, const struct command *command)
{
    fputs(".SS ", out);
    put_text(out, command->name);
    fputs("\n", out);
    put_text(out, command->summary);
    fputs(".\n.PP\n", out);
    put_lines(out, command->usage);
    if (!command->notes)
        return;
    fputs(".PP\n", out);
    put_lines(out, command->notes);
}

static void print_option(FILE *out, const struct config_option *o)
{
    char flag[64], value[CONFIG_DESCRIBE_MAX + 64];
    const char *separator = "";
    help_format_flag(o, flag, sizeof flag);
    help_format_value(o, value, sizeof value);
    fputs(".TP\n.B ", out);
    put_text(out, flag);
    fputc('\n', out);
    put_text(out, o->help);
    fputs(".\n", out);
    if (value[0]) {
        fputc('(', out);
        put_text(out, value);
        fputs(")\n", out);
    }
    fputs(".br\nCommands: ", out);
    for (size_t i = 0; commands[i]; i++) {
        if (!(commands[i]->bit & o->commands))
            continue;
        fputs(separator, out);
        put_text(out, commands[i]->name);
        separator = ", ";
    }
    fputs(".\n", out);
    if (o->env[0].name && o->from & CONFIG_FLAG_ONLY)
        fprintf(out, "Variable: %s.\n", o->env[0].name);
}

void manual_print(FILE *out, const struct config *c)
{
    (void)c;
    fputs(".\\\" Made by `constrictor config --print man`.\n"
          ".TH CONSTRICTOR 1 \"\" \"constrictor " CONSTRICTOR_VERSION "\" \"User Commands\"\n"
          ".SH NAME\n"
          "constrictor \\- run untrusted Python code in isolated boxes\n"
          ".SH SYNOPSIS\n"
          ".B constrictor\n"
          ".I command\n"
          "[options] [arguments]\n"
          ".SH DESCRIPTION\n"
          "Constrictor runs Python code that is not trusted.  Each run has a box of its own:\n"
          "namespaces, a system call filter, Landlock, a cgroup and limits stand between the code\n"
          "and the machine.  It runs code on the command line, and serves MCP and REST.\n"
          ".SH COMMANDS\n",
          out);
    for (size_t i = 0; commands[i]; i++)
        print_command(out, commands[i]);
    fputs(".SH OPTIONS\n"
          "A value comes from the command line, else from the environment, else from the file of\n"
          ".BR \\-\\-config ,\n"
          "else from .env in the current folder, else it is the default.\n",
          out);
    for (enum config_group group = GROUP_NONE + 1; group < GROUP_MAX; group++) {
        fprintf(out, ".SS %s\n", config_groups[group]);
        for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
            if (config_options[i].group == group)
                print_option(out, &config_options[i]);
    }
    fputs(".SH EXAMPLES\n.nf\n", out);
    put_text(out, "constrictor run -c 'print(1 + 1)'\n"
                  "constrictor run --package numpy --out results analysis.py\n"
                  "constrictor serve --port 8000\n"
                  "constrictor doctor --self-test\n");
    fputs(".fi\n", out);
}
