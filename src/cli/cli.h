// SPDX-License-Identifier: Apache-2.0
//
// cli: the commands of the command line and what they share.  main.c holds the table of commands,
// reads the configuration and calls one of the cmd_ functions, which returns the exit status of the
// program.  At that point there is one process, with the rights the program was started with.

#ifndef CONSTRICTOR_CLI_CLI_H
#define CONSTRICTOR_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "config/config.h"

struct command {
    const char *name;
    const char *summary; // one line
    const char *usage;   // one or more lines, without the program's name
    const char *notes;   // further paragraphs for --help, or NULL
    unsigned bit;        // CONFIG_RUN ...: which options of config.def it takes
    int operands_min, operands_max;
    bool mixed;         // options may stand between and behind the operands
    const char *wanted; // what is missing when there are too few; NULL: something to run
    // argv holds what stands behind the options, argv[0] included.
    int (*function)(const struct config *c, int argc, char **argv);
};

// `run`: argv is the code's sys.argv.  The source is c->code when that is not NULL (argv[0] is then
// "-c"), stdin when argv[0] is "-", else the file argv[0].
int cmd_run(const struct config *c, int argc, char **argv);
int cmd_check(const struct config *c, int argc, char **argv);
int cmd_doctor(const struct config *c, int argc, char **argv);
int cmd_bench(const struct config *c, int argc, char **argv);
int cmd_config(const struct config *c, int argc, char **argv);
int cmd_serve(const struct config *c, int argc, char **argv);
int cmd_stdio(const struct config *c, int argc, char **argv);
int cmd_env(const struct config *c, int argc, char **argv);
int cmd_client_config(const struct config *c, int argc, char **argv);

// The one way an error reaches the user: message, code and hint on stderr, or with `json` as one
// object on stdout.  Returns the exit status that belongs to the code.
int cli_fail(const struct err *e, bool json);

// Flushes stdout.  Returns 0, or reports that the output could not be written and returns 70.
int cli_finish(void);

// Help, made from the tables.  `commands` ends with a row without a name.
void help_print_short(FILE *out, const struct command *commands);
void help_print_all(FILE *out, const struct command *commands);
void help_print_command(FILE *out, const struct command *command);

// What `constrictor config --print` writes: `values` depends on `c`, the other two only on the
// table.
void show_print_values(FILE *out, const struct config *c);
void show_print_env(FILE *out);
void show_print_docs(FILE *out);

#endif
