// SPDX-License-Identifier: Apache-2.0
//
// config: `constrictor config`.  Prints the values in force as a configuration file, or one of the
// texts made from the tables.  Two of these are committed: .env.example (--print env) and
// docs/configuration.md (--print docs); tests/unit/test_config.c fails when they are out of date.

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "config/config.h"

static bool is_setting(const struct config_option *o)
{
    return o->from != CONFIG_FLAG_ONLY;
}

// The quote that keeps `value` whole in a file; "" when it needs none.
static const char *quote_for(const char *value)
{
    if (!strpbrk(value, "#'\" "))
        return "";
    return strchr(value, '"') ? "'" : "\"";
}

void config_print_values(FILE *out, const struct config *c)
{
    enum { ORIGIN_COLUMN = 32 };
    static char value[TEXT_LIST_MAX * (TEXT_ITEM_MAX + 1)]; // the longest list
    char origin[CONFIG_DESCRIBE_MAX];
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++) {
        const struct config_option *o = &config_options[key];
        if (!is_setting(o))
            continue;
        config_format(c, key, value, sizeof value);
        config_format_origin(c, key, c->origins[key], origin);
        // A key that is not set, or that a file cannot set, becomes a comment, so that the output
        // is a valid file for --config.
        bool usable = value[0] && (o->from & 1U << CONFIG_FROM_FILE) && !o->secret;
        const char *quote = quote_for(value);
        int n = fprintf(out, "%s%s = %s%s%s", usable ? "" : "#", o->key, quote, value, quote);
        fprintf(out, "%*s # %s\n", n < ORIGIN_COLUMN ? ORIGIN_COLUMN - n : 0, "", origin);
    }
}

void config_print_env(FILE *out, const struct config *c)
{
    (void)c;
    char expected[CONFIG_DESCRIBE_MAX];
    fputs("# Sample .env file of constrictor, made by `constrictor config --print env`.\n"
          "# Copy it to .env in the folder where you start constrictor, and remove the '#' before\n"
          "# what you want to change.  Environment variables win over this file.  Keys marked\n"
          "# 'not in .env' can be set only by an option, in the environment, or in the file of\n"
          "# --config.\n",
          out);
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
        const struct config_option *o = &config_options[i];
        if (!is_setting(o))
            continue;
        config_describe(o, NULL, expected);
        fprintf(out, "\n# %s\n# %s\n", o->help, expected);
        if (!(o->from & 1U << CONFIG_FROM_DOTENV)) {
            fprintf(out, "# not in .env: %s\n", o->env[0].name);
            continue;
        }
        for (size_t k = 1; k < CONFIG_ENV_MAX && o->env[k].name; k++)
            fprintf(out, "# also read: %s%s%s\n", o->env[k].name, o->env[k].unit ? " in " : "",
                    o->env[k].unit ? o->env[k].unit : "");
        fprintf(out, "#%s=%s\n", o->env[0].name, o->fallback ? o->fallback : "");
    }
}

static void print_docs_row(FILE *out, const struct config_option *o)
{
    char expected[CONFIG_DESCRIBE_MAX];
    config_describe(o, NULL, expected);
    fprintf(out, "| `%s` | ", o->key);
    if (o->fallback)
        fprintf(out, "`%s`", o->fallback);
    else
        fputs("not set", out);
    fprintf(out, " | %s | ", expected);
    for (size_t k = 0; k < CONFIG_ENV_MAX && o->env[k].name; k++)
        fprintf(out, "%s`%s`%s%s", k ? ", " : "", o->env[k].name, o->env[k].unit ? " in " : "",
                o->env[k].unit ? o->env[k].unit : "");
    fprintf(out, " | %s |\n", o->help);
}

static void print_docs_group(FILE *out, enum config_group group)
{
    bool begun = false;
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
        if (config_options[i].group != group || !is_setting(&config_options[i]))
            continue;
        if (!begun)
            fprintf(out,
                    "\n## %s\n\n| key | default | value | environment | meaning |\n"
                    "|---|---|---|---|---|\n",
                    config_groups[group]);
        begun = true;
        print_docs_row(out, &config_options[i]);
    }
}

void config_print_docs(FILE *out, const struct config *c)
{
    (void)c;
    fputs(
        "# Configuration\n"
        "\n"
        "This page is made by `constrictor config --print docs` from `src/config/config.def`.\n"
        "\n"
        "Every key can be given as an option (`--memory 1G` or `--memory=1G`), as an environment\n"
        "variable, and as a line `memory = 1G` in the file of `--config`.  `api-key` and\n"
        "`index-proxy` are secrets and have no option, because every user of a machine can read\n"
        "command lines.  A value is taken from the first of these sources that has one:\n"
        "\n"
        "1. the command line\n"
        "2. the environment; of several variables of one key the first in the tables below\n"
        "3. the file given with `--config` or `CONSTRICTOR_CONFIG`: lines `key = value`, comments "
        "with `#`\n"
        "4. the file `.env` in the current folder: lines `NAME=value` with the names of the\n"
        "   environment variables; other lines are ignored, because several programs share that "
        "file\n"
        "5. pip's own settings, for the package index only\n"
        "6. the default of a tool set (`--tools`)\n"
        "7. the default\n"
        "\n"
        "`constrictor config` prints the values in force and where each one comes from.  Every\n"
        "value given is checked, even one that a stronger one overrides.  A value out of bounds\n"
        "stops the program with exit status 64 and a message that names the key, the value, the\n"
        "source and the bounds.  Variables are checked by the commands that use them; a `DEBUG` "
        "or\n"
        "port of another program (`app:*`, `tcp://…`) is ignored with a warning, and `None` means\n"
        "not set.\n"
        "\n"
        "How values are written:\n"
        "\n"
        "- size: `64M`, `1.5GiB`, `1048576`.  K, M, G, T, KB ... TB and KiB ... TiB are powers of "
        "1024; "
        "a plain\n"
        "  number is bytes\n"
        "- duration: `500ms`, `2s`, `1.5m`, `1h`; a plain number is seconds\n"
        "- list: `numpy,pandas`; the option may be repeated, and the parts add up\n",
        out);
    for (enum config_group group = GROUP_NONE + 1; group < GROUP_MAX; group++)
        print_docs_group(out, group);
    fputs("\n## Keys that a `.env` file cannot set\n"
          "\n"
          "A `.env` file is read from the folder in which the program is started, and a stranger "
          "may\n"
          "have written it.  It may repeat the default of one of these keys, and set the values in "
          "brackets;\n"
          "another value is an error, for `host` a warning:\n\n",
          out);
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
        const struct config_option *o = &config_options[i];
        if (is_setting(o) && !(o->from & 1U << CONFIG_FROM_DOTENV))
            fprintf(out, "- `%s`%s%s%s\n", o->key, o->in_dotenv ? " (`" : "",
                    o->in_dotenv ? o->in_dotenv : "", o->in_dotenv ? "`)" : "");
    }
}

// ---- the command --------------------------------------------------------------------------------

static int cmd_config(const struct config *c, int argc, char **argv)
{
    // In the order of the choices of --print.
    static void (*const printers[])(FILE * out, const struct config *c) = {
        config_print_values,   config_print_env,     config_print_docs,     manual_print,
        completion_print_bash, completion_print_zsh, completion_print_fish,
    };
    (void)argc;
    (void)argv;
    if ((size_t)c->print < ARRAY_LEN(printers))
        printers[c->print](stdout, c);
    return cli_finish();
}

const struct command command_config = {
    .name = "config",
    .section = SECTION_INSPECT,
    .summary = "Show the configuration in force and where each value comes from",
    .usage = "config [options]",
    .bit = CONFIG_SHOW,
    .function = cmd_config,
};
