// SPDX-License-Identifier: Apache-2.0
//
// completion: completions for bash, zsh and fish, made from the commands and from config.def.

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"

static bool is_option_of(const struct config_option *o, const struct command *command)
{
    return o->commands & command->bit && o->from & CONFIG_FLAG_ONLY;
}

// "auto|on|off" as words with blanks between them.
static void put_choices(FILE *out, const char *choices)
{
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

static void put_words(FILE *out, const struct command *command)
{
    for (size_t i = 0; command->word(i); i++)
        fprintf(out, "%s%s", i ? " " : "", command->word(i));
}

// Between single quotes of a shell; `special` characters get a backslash.  `quote` is how a single
// quote is written there.
static void put_quoted(FILE *out, const char *text, const char *special, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_options(FILE *out)
{
    fputs("    case $command in\n", out);
    for (size_t c = 0; commands[c]; c++) {
        fprintf(out, "    %s)\n        options='", commands[c]->name);
        for (size_t i = 0; i < CONFIG_KEY_MAX; i++)
            if (is_option_of(&config_options[i], commands[c]))
                fprintf(out, "--%s ", config_options[i].key);
        fputs("'\n        words='", out);
        if (commands[c]->word)
            put_words(out, commands[c]);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n", out);
}

// Which values an option takes: words, a path, or anything.
static void bash_values(FILE *out)
{
    fputs("    case $previous in\n", out);
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
        const struct config_option *o = &config_options[i];
        if (!(o->from & CONFIG_FLAG_ONLY) || o->type == CONFIG_BOOL)
            continue;
        fprintf(out, "    --%s%s%c) ", o->key, o->letter ? " | -" : "",
                o->letter ? o->letter : ' ');
        if (o->choices) {
            fputs("values='", out);
            put_choices(out, o->choices);
            fputs("' ;;\n", out);
        } else {
            fprintf(out, "%s ;;\n", o->type == CONFIG_PATH ? "files=1" : "free=1");
        }
    }
    fputs("    esac\n", out);
}

void completion_print_bash(FILE *out, const struct config *c)
{
    (void)c;
    fputs("# Completions of constrictor for bash, made by `constrictor config --print bash`.\n"
          "_constrictor()\n"
          "{\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} options='' words='' values='' files='' free='' "
          "list=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    put_words(out, &command_help);
    fputs(" --help --help-all --version' -- \"$current\"))\n"
          "        return\n"
          "    fi\n"
          "    # '=' is a word of its own in --option=value.\n"
          "    if [ \"$current\" = = ]; then\n"
          "        current=''\n"
          "    elif [ \"$previous\" = = ]; then\n"
          "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n",
          out);
    bash_options(out);
    bash_values(out);
    fputs("    if [ \"$values\" ]; then\n"
          "        [[ $current != *,* ]] || list=${current%,*},\n"
          "        COMPREPLY=($(compgen -P \"$list\" -W \"$values\" -- \"${current##*,}\"))\n"
          "    elif [ \"$free\" ]; then\n"
          "        return\n"
          "    elif [ ! \"$files\" ] && [[ $current = -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
          "    elif [ ! \"$files\" ] && [ \"$words\" ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    else\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _constrictor constrictor\n",
          out);
}

// ---- zsh ----------------------------------------------------------------------------------------

static void zsh_option(FILE *out, const struct config_option *o)
{
    bool repeats = o->type == CONFIG_LIST || o->type == CONFIG_TEXTS;
    fprintf(out, "            '%s--%s%s[", repeats ? "*" : "", o->key, o->value ? "=" : "");
    put_quoted(out, o->help, "[]:\\", "'\\''");
    fputc(']', out);
    if (o->value)
        fprintf(out, ":%s:", o->value);
    if (o->choices) {
        fprintf(out, "%s", o->type == CONFIG_LIST ? "_values -s , word " : "(");
        put_choices(out, o->choices);
        fputs(o->type == CONFIG_LIST ? "" : ")", out);
    } else if (o->type == CONFIG_PATH) {
        fputs("_files", out);
    }
    fputs("' \\\n", out);
}

void completion_print_zsh(FILE *out, const struct config *c)
{
    (void)c;
    fputs("#compdef constrictor\n"
          "# Completions of constrictor for zsh, made by `constrictor config --print zsh`.\n"
          "_constrictor() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "        '%s:", commands[i]->name);
        put_quoted(out, commands[i]->summary, "\\", "'\\''");
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "    %s)\n        _arguments \\\n", commands[i]->name);
        for (size_t k = 0; k < CONFIG_KEY_MAX; k++)
            if (is_option_of(&config_options[k], commands[i]))
                zsh_option(out, &config_options[k]);
        if (commands[i]->word) {
            fputs("            '1:argument:(", out);
            put_words(out, commands[i]);
            fputs(")' \\\n", out);
        }
        fputs("            '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n"
          "}\n"
          "_constrictor \"$@\"\n",
          out);
}

// ---- fish ---------------------------------------------------------------------------------------

static void fish_line(FILE *out, const char *condition, const char *command)
{
    fprintf(out, "complete -c constrictor -n '%s%s'", condition, command);
}

static void fish_description(FILE *out, const char *text)
{
    fputs(" -d '", out);
    put_quoted(out, text, "\\", "\\'");
    fputs("'\n", out);
}

static void fish_option(FILE *out, const struct command *command, const struct config_option *o)
{
    fish_line(out, "__fish_seen_subcommand_from ", command->name);
    fprintf(out, " -l %s", o->key);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (o->type == CONFIG_PATH) {
        fputs(" -r -F", out);
    } else if (o->value) {
        fputs(" -x", out);
    }
    if (o->choices) {
        fputs(" -a '", out);
        put_choices(out, o->choices);
        fputc('\'', out);
    }
    fish_description(out, o->help);
}

void completion_print_fish(FILE *out, const struct config *c)
{
    (void)c;
    fputs("# Completions of constrictor for fish, made by `constrictor config --print fish`.\n"
          "complete -c constrictor -n __fish_use_subcommand -f\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *command = commands[i];
        fish_line(out, "__fish_use_subcommand", "");
        fprintf(out, " -a %s", command->name);
        fish_description(out, command->summary);
        if (command->word) {
            fish_line(out, "__fish_seen_subcommand_from ", command->name);
            fputs(" -a '", out);
            put_words(out, command);
            fputs("'\n", out);
        }
        for (size_t k = 0; k < CONFIG_KEY_MAX; k++)
            if (is_option_of(&config_options[k], command))
                fish_option(out, command, &config_options[k]);
    }
}
