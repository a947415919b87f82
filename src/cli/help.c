// SPDX-License-Identifier: Apache-2.0
//
// help: `constrictor help` and the texts of --help, made from the commands and from config.def.

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"

enum { WIDTH = 80, NAME_WIDTH = 15, TEXT_COLUMN = 26 };

static const char *const sections[SECTION_MAX] = {
    [SECTION_RUN] = "Run code",
    [SECTION_SERVE] = "Serve code to others",
    [SECTION_INSPECT] = "Inspect",
};

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

// Breaks `text` between words.  The cursor is at TEXT_COLUMN.
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = TEXT_COLUMN;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > TEXT_COLUMN && column + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
            column = TEXT_COLUMN;
        } else if (column > TEXT_COLUMN) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}

void help_format_flag(const struct config_option *o, char *buf, size_t cap)
{
    char letter[8] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    if (!(o->from & CONFIG_FLAG_ONLY))
        snprintf(buf, cap, "%s=%s", o->env[0].name, o->value);
    else
        snprintf(buf, cap, "%s--%s%s%s", letter, o->key, o->value ? " " : "",
                 o->value ? o->value : "");
}

void help_format_value(const struct config_option *o, char *buf, size_t cap)
{
    char expected[CONFIG_DESCRIBE_MAX];
    config_describe(o, NULL, expected);
    buf[0] = '\0';
    if (o->type == CONFIG_LIST)
        snprintf(buf, cap, "%s", o->choices ? expected : "comma-separated; may be repeated");
    else if (o->type == CONFIG_TEXTS)
        snprintf(buf, cap, "may be repeated");
    else if (o->fallback && o->type == CONFIG_STRING)
        snprintf(buf, cap, "default %s", o->fallback);
    else if (o->fallback)
        snprintf(buf, cap, "%s; default %s", expected, o->fallback);
}

static void print_option(FILE *out, const struct config_option *o, bool all)
{
    char flag[64], value[CONFIG_DESCRIBE_MAX + 64], text[1024];
    help_format_flag(o, flag, sizeof flag);
    size_t column = (size_t)fprintf(out, "  %s", flag);
    if (column >= TEXT_COLUMN) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", (int)(TEXT_COLUMN - column), "");
    help_format_value(o, value, sizeof value);
    if (all)
        snprintf(text, sizeof text, "%s%s%s%s", o->help, value[0] ? " (" : "", value,
                 value[0] ? ")" : "");
    else
        snprintf(text, sizeof text, "%.*s%s%s%s", (int)strcspn(o->help, ";"), o->help,
                 o->fallback ? " [" : "", o->fallback ? o->fallback : "", o->fallback ? "]" : "");
    print_wrapped(out, text);
}

static bool is_of(const struct config_option *o, unsigned command, enum config_group group,
                  bool common)
{
    return o->group == group && o->commands & command && ((o->common & command) != 0) == common;
}

static void print_common(FILE *out, unsigned command, bool all)
{
    for (enum config_group group = GROUP_NONE + 1; group < GROUP_MAX; group++)
        for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
            if (is_of(&config_options[i], command, group, true))
                print_option(out, &config_options[i], all);
}

// The other options, under the headings of their groups.  With `print` false only counts them.
static unsigned print_expert(FILE *out, unsigned command, bool print)
{
    unsigned count = 0;
    for (enum config_group group = GROUP_NONE + 1; group < GROUP_MAX; group++) {
        bool begun = false;
        for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
            if (!is_of(&config_options[i], command, group, false))
                continue;
            count++;
            if (!print)
                continue;
            if (!begun)
                fprintf(out, "\n%s:\n", config_groups[group]);
            begun = true;
            print_option(out, &config_options[i], true);
        }
    }
    return count;
}

void help_print(FILE *out)
{
    fputs("Runs untrusted Python code in isolated boxes.\n\n", out);
    print_usage(out, "COMMAND [options] [arguments]");
    for (enum command_section section = 0; section < SECTION_MAX; section++) {
        fprintf(out, "\n%s:\n", sections[section]);
        for (size_t i = 0; commands[i]; i++)
            if (commands[i]->section == section)
                fprintf(out, "  %-*s%s\n", NAME_WIDTH, commands[i]->name, commands[i]->summary);
    }
    fputs("\n'constrictor help COMMAND' shows the usage and the common options of a command,\n"
          "'constrictor COMMAND --help-all' all options.\n"
          "Try: constrictor run -c 'print(1 + 1)'\n",
          out);
}

void help_print_command(FILE *out, const struct command *command, bool all)
{
    print_usage(out, command->usage);
    fprintf(out, "\n%s.\n\n%s\n", command->summary,
            all ? "Common options:" : "Options, with defaults in brackets:");
    print_common(out, command->bit, all);
    unsigned more = print_expert(out, command->bit, all);
    if (more && !all)
        fprintf(out, "%u more options: constrictor %s --help-all\n", more, command->name);
    if (command->notes)
        fprintf(out, "\n%s\n", command->notes);
}

// Every option of every command, once.
void help_print_all(FILE *out)
{
    fputs("The options of all commands; for one: 'constrictor COMMAND --help-all'.\n", out);
    for (enum config_group group = GROUP_NONE + 1; group < GROUP_MAX; group++) {
        fprintf(out, "\n%s:\n", config_groups[group]);
        for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
            if (config_options[i].group == group)
                print_option(out, &config_options[i], true);
    }
    fputs("\nA value comes from the command line, else from the environment, else from the\n"
          "file of --config, else from .env in the current folder, else it is the default.\n"
          "The variable of --file-size is CONSTRICTOR_FILE_SIZE, its key in the file is\n"
          "file-size.  'constrictor config' shows the values in force and their origins.\n",
          out);
}

// ---- the command --------------------------------------------------------------------------------

static int cmd_help(const struct config *c, int argc, char **argv)
{
    struct err e;
    if (argc == 0 && c->help_all) {
        help_print_all(stdout);
    } else if (argc == 0) {
        help_print(stdout);
    } else {
        const struct command *command = command_find(argv[0], &e);
        if (!command)
            return cli_fail(&e, false);
        help_print_command(stdout, command, c->help_all);
    }
    return cli_finish();
}

const struct command command_help = {
    .name = "help",
    .section = SECTION_INSPECT,
    .summary = "Show the usage and the options of a command",
    .usage = "help [--help-all] [COMMAND]",
    .bit = CONFIG_HELP,
    .operands_max = 1,
    .bare = true,
    .word = command_word,
    .function = cmd_help,
};
