// SPDX-License-Identifier: Apache-2.0
//
// cli: the commands and what they share.  Each command has a file of its own with its struct
// command; commands.c lists them.  main.c finds the command, reads the configuration and calls the
// function, which returns the exit status of the program.  At that point there is one process, with
// the rights the program was started with.

#ifndef CONSTRICTOR_CLI_CLI_H
#define CONSTRICTOR_CLI_CLI_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/keeper.h"

// Where `constrictor --help` lists a command.
enum command_section { SECTION_RUN, SECTION_SERVE, SECTION_INSPECT, SECTION_MAX };

struct command {
    const char *name;
    enum command_section section;
    const char *summary; // one line
    const char *usage;   // one or more lines, without the program's name
    const char *notes;   // further paragraphs for --help, or NULL
    unsigned bit;        // CONFIG_RUN ...: which options of config.def it takes
    int operands_min, operands_max;
    bool mixed;         // options may stand between and behind the operands
    bool passes_on;     // gets "--" and what stands behind it as further words of argv
    bool bare;          // reads its options, but no other source of the configuration
    const char *wanted; // what to do about too few operands; NULL: it takes code
    // The words that the first operand may be, for shells to complete; NULL behind the last.  NULL
    // for a command without such words.
    const char *(*word)(size_t i);
    // argv holds what stands behind the options, argv[0] included.
    int (*function)(const struct config *c, int argc, char **argv);
};

extern const struct command command_run, command_repl, command_check, command_env, command_serve,
    command_stdio, command_client_config, command_doctor, command_config, command_bench,
    command_help;

// All of them, in the order of --help; NULL ends it.
extern const struct command *const commands[];

// The names of the commands; NULL behind the last.
const char *command_word(size_t i);

// The command called `name`.  NULL: none, and `e` names the nearest.
const struct command *command_find(const char *name, struct err *e);

// The one way an error reaches the user: message, code and hint on stderr, or with `json` as one
// object on stdout.  Returns the exit status of the code.
int cli_fail(const struct err *e, bool json);

// Flushes stdout.  Returns 0, or reports that the output could not be written and returns 70.
int cli_finish(void);

// The word nearest to a misspelt one, NULL when none is near; and all words, with commas.
const char *cli_nearest(const char *text, const char *(*word)(size_t i));
void cli_list_words(const char *(*word)(size_t i), char *buf, size_t cap);

// In the first process: runs the keeper to its end and reports its error.  Returns the exit status.
int cli_run_keeper(const struct keeper_plan *plan);

// In the gate: calls `on_signal` on SIGINT and SIGTERM.
int cli_catch_signals(struct event_base *base, event_callback_fn on_signal, void *argument,
                      struct err *e);

// "constrictor 0.1.0 (x86_64-linux-gnu, gcc 13.2)"
void cli_print_version(FILE *out);

// ---- texts made from the tables -----------------------------------------------------------------

// `constrictor --help`, `--help-all` and `COMMAND --help`; `all`: also the expert options.
void help_print(FILE *out);
void help_print_all(FILE *out);
void help_print_command(FILE *out, const struct command *command, bool all);

// "--memory SIZE"; "CONSTRICTOR_API_KEY=KEYS" for a key without an option.
void help_format_flag(const struct config_option *o, char *buf, size_t cap);
// "a size between 16M and 1T; default 512M", or "".
void help_format_value(const struct config_option *o, char *buf, size_t cap);

// What `constrictor config --print` writes.  Only `values` depends on `c`.
void config_print_values(FILE *out, const struct config *c);
void config_print_env(FILE *out, const struct config *c);
void config_print_docs(FILE *out, const struct config *c);
void manual_print(FILE *out, const struct config *c);
void completion_print_bash(FILE *out, const struct config *c);
void completion_print_zsh(FILE *out, const struct config *c);
void completion_print_fish(FILE *out, const struct config *c);

#endif
