// SPDX-License-Identifier: Apache-2.0
//
// help: the texts of --help, made from the table of commands in main.c and the table of options in
// config.def.  Writes to the given stream and does nothing else.

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"

enum { FLAG_COLUMN = 26, NAME_COLUMN = 15 };

// "Usage: constrictor run ..." with one line for each line of `usage`.
static void print_usage(FILE *out, const char *usage)
{
    const char *label = "Usage:";
    for (;;) {
        size_t n = strcspn(usage, "\n");
        fprintf(out, "%-6s constrictor %.*s\n", label, (int)n, usage);
        if (!usage[n])
            return;
        usage += n + 1;
        label = "";
    }
}

static void print_commands(FILE *out, const struct command *commands)
{
    fputs("Commands:\n", out);
    for (; commands->name; commands++)
        fprintf(out, "  %-*s%s\n", NAME_COLUMN, commands->name, commands->summary);
}

static void print_option(FILE *out, const struct config_option *o)
{
    char flag[64], expected[CONFIG_DESCRIBE_MAX];
    char letter[8] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(flag, sizeof flag, "%s--%s%s%s", letter, o->key, o->value ? " " : "",
             o->value ? o->value : "");
    fprintf(out, "  %-*s %s\n", FLAG_COLUMN, flag, o->help);
    // What a value looks like is worth a line where it is not any text.
    config_describe(o, NULL, expected);
    if (o->type == CONFIG_LIST && !o->choices)
        fprintf(out, "  %-*s (a comma-separated list; may be repeated)\n", FLAG_COLUMN, "");
    else if (o->fallback && o->type == CONFIG_STRING)
        fprintf(out, "  %-*s (default %s)\n", FLAG_COLUMN, "", o->fallback);
    else if (o->fallback)
        fprintf(out, "  %-*s (%s; default %s)\n", FLAG_COLUMN, "", expected, o->fallback);
}

static void print_options(FILE *out, unsigned commands)
{
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
        if (config_options[i].commands & commands && config_options[i].from & CONFIG_FLAG_ONLY)
            print_option(out, &config_options[i]);
}

void help_print_short(FILE *out, const struct command *commands)
{
    print_usage(out, "COMMAND [options] [arguments]\n--help | --version | help COMMAND");
    fputc('\n', out);
    print_commands(out, commands);
    fputs("\nTry: constrictor run -c 'print(1 + 1)'\n", out);
}

void help_print_command(FILE *out, const struct command *command)
{
    print_usage(out, command->usage);
    fprintf(out, "\n%s.\n\nOptions:\n", command->summary);
    print_options(out, command->bit);
    if (command->notes)
        fprintf(out, "\n%s\n", command->notes);
}

void help_print_all(FILE *out, const struct command *commands)
{
    fputs("constrictor runs Python code in isolated boxes.\n\n", out);
    help_print_short(out, commands);
    for (const struct command *c = commands; c->name; c++) {
        fputc('\n', out);
        print_usage(out, c->usage);
        if (c->notes)
            fprintf(out, "\n%s\n", c->notes);
    }
    fputs("\nOptions (each command takes those that 'constrictor help COMMAND' lists):\n", out);
    print_options(out, ~0U);
    fputs(
        "\nA value is taken from the command line, else from the environment, else from the file\n"
        "given with --config, else from .env in the current folder, else it is the default.\n"
        "In the environment and in .env, --file-size is CONSTRICTOR_FILE_SIZE; in a file, "
        "file-size.\n"
        "'constrictor config' shows the values in force and where each one came from.\n",
        out);
}
