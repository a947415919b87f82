// SPDX-License-Identifier: Apache-2.0
//
// main: finds the command, reads the configuration, and calls the command.  This is the first
// process; it has the rights the program was started with, and the commands decide what to fork.

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "config/config.h"
#include "net/login.h"

// ---- operands -----------------------------------------------------------------------------------

static int check_operands(const struct command *command, int argc, char **argv, struct err *e)
{
    if (argc < command->operands_min)
        return err_set(e, ERR_USAGE, 0,
                       command->wanted ? command->wanted
                                       : "give a file, '-' for stdin, or -c and the code",
                       "'%s' needs %s", command->name, command->wanted ? "an action" : "code");
    if (argc > command->operands_max)
        return err_set(e, ERR_USAGE, 0, "'--help' shows the usage of this command",
                       "'%s' takes no %sargument, but was given '%.80s'", command->name,
                       command->operands_max ? "second " : "", argv[command->operands_max]);
    return 0;
}

// Options behind a single operand: 'client-config claude --url ...'.
static int read_behind(const struct command *command, struct config *config, int *argc,
                       char ***argv, struct err *e)
{
    if (*argc < 2)
        return 0;
    char *operand = **argv, **rest = *argv + 1;
    int count = *argc - 1;
    int r = config_read_flags(config, command->bit, &count, &rest, e);
    *--rest = operand;
    *argv = rest;
    *argc = count + 1;
    return r;
}

// Options between the operands: 'env install lab pandas --json'.  "--" ends them.
static int read_mixed(const struct command *command, struct config *config, int *argc, char ***argv,
                      struct err *e)
{
    char **operands = *argv, **rest = *argv;
    int count = 0, left = *argc;
    while (left > 0) {
        operands[count++] = *rest++;
        left--;
        bool ends = left > 0 && strcmp(*rest, "--") == 0;
        int r = config_read_flags(config, command->bit, &left, &rest, e);
        if (r < 0)
            return r;
        while (ends && left > 0) {
            operands[count++] = *rest++;
            left--;
        }
    }
    *argc = count;
    return 0;
}

// ---- commands -----------------------------------------------------------------------------------

static int read_config(const struct command *command, struct config *config, int *argc,
                       char ***argv, struct err *e)
{
    int r = command->bare ? config_read_flags(config, command->bit, argc, argv, e)
                          : config_load(config, command->bit, argc, argv, e);
    if (r == 0 && !config->help && command->operands_max == 1)
        r = read_behind(command, config, argc, argv, e);
    if (r == 0 && !config->help && command->mixed)
        r = read_mixed(command, config, argc, argv, e);
    return r;
}

// Takes "--" and the words behind it off the end.  Returns their number.
static int cut_passed(const struct command *command, int *argc, char **argv)
{
    int all = *argc, n = 0;
    while (command->passes_on && n < all && strcmp(argv[n], "--") != 0)
        n++;
    *argc = command->passes_on ? n : all;
    return all - *argc;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static struct config config; // the one configuration; large, so not on the stack
    struct err e;

    config_init_zeroed(&config);
    int passed = cut_passed(command, &argc, argv);
    int r = read_config(command, &config, &argc, &argv, &e);
    if (r == 0 && (config.help || (config.help_all && command != &command_help))) {
        help_print_command(stdout, command, config.help_all);
        return cli_finish();
    }
    if (r == 0)
        r = check_operands(command, argc, argv, &e);
    if (r == 0 && !command->bare)
        r = net_logins_take(&config, &e);
    if (r < 0)
        return cli_fail(&e, config.json);
    log_init((enum log_level)config.log_level, "constrictor");
    // Options and operands end where the passed words begin.
    return command->function(&config, argc + passed, argv);
}

// SECURITY: when the program is started with 0, 1 or 2 closed, the next descriptor opened would be
// taken for stdin or stdout, and results would be written into it.
static void open_standard_fds(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            _exit(err_exit_status(ERR_SYSTEM));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*print)(FILE *out);
    } words[] = {{"--help", help_print},
                 {"-h", help_print},
                 {"--help-all", help_print_all},
                 {"--version", cli_print_version},
                 {"-V", cli_print_version}};
    struct err e;

    open_standard_fds();
    if (argc < 2) {
        help_print(stderr);
        return err_exit_status(ERR_USAGE);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(argv[1], words[i].word) == 0) {
            words[i].print(stdout);
            return cli_finish();
        }
    }
    const struct command *command = command_find(argv[1], &e);
    return command ? run_command(command, argc - 2, argv + 2) : cli_fail(&e, false);
}
