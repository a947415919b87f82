// SPDX-License-Identifier: Apache-2.0
//
// main: finds the command, reads the configuration, and calls the command.  This is the first
// process; it has the rights the program was started with, and the commands decide what to fork.

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "config/config.h"
#include "net/login.h"

#ifndef CONSTRICTOR_VERSION
#define CONSTRICTOR_VERSION "0.0.0"
#endif

static const struct command commands[] = {
    {
        .name = "run",
        .summary = "Run Python code once, in a fresh box",
        .usage = "run [options] FILE [ARGS...]\n"
                 "run [options] -c CODE [ARGS...]\n"
                 "run [options] - [ARGS...]",
        .notes =
            "Exit status: the code's own (0, n after sys.exit(n), 1 after an exception, 128+n\n"
            "after signal n); else\n"
            "  64 bad option or value      65 unusable source      66 source cannot be read\n"
            "  69 isolation or interpreter not available           70 internal error\n"
            "  73 the folder of --out, or a file in it, cannot be written\n"
            "  121 too many processes      122 disk full           123 too much output\n"
            "  124 time is up              125 box lost            126 denied\n"
            "  130 cancelled               137 out of memory",
        .bit = CONFIG_RUN,
        .operands_min = 1,
        .operands_max = INT_MAX,
        .function = cmd_run,
    },
    {
        .name = "check",
        .summary = "Look at Python code without running it: syntax, policy, analysis, advice",
        .usage = "check [options] FILE\n"
                 "check [options] -c CODE\n"
                 "check [options] -",
        .notes = "Exit status: 0 when the code is valid, 1 when it is not; else\n"
                 "  64 bad option or value      65 source too large     66 source cannot be read\n"
                 "  69 isolation or interpreter not available           70 internal error",
        .bit = CONFIG_CHECK,
        .operands_min = 1,
        .operands_max = 1,
        .function = cmd_check,
    },
    {
        .name = "env",
        .summary = "Make, fill and look at environments of packages",
        .usage = "env [options] list\n"
                 "env [options] create NAME [PACKAGES...]\n"
                 "env [options] install NAME PACKAGES...\n"
                 "env [options] uninstall NAME PACKAGES...\n"
                 "env [options] packages [NAME]\n"
                 "env [options] describe|reset|delete NAME\n"
                 "env [options] status NAME JOB\n"
                 "env [options] export NAME FILE\n"
                 "env [options] import FILE [NAME]",
        .notes =
            "A package is written as pip knows it, such as 'pandas' or 'numpy>=2'.  The "
            "environment\n"
            "'base' is what code without an environment has: the interpreter's own packages and\n"
            "what was installed into it.\n"
            "While a server has the state folder, or with --url, that server is asked; its key is\n"
            "taken from CONSTRICTOR_API_KEY.\n"
            "Exit status: 0 when it is done, 1 when an installation failed and nothing was "
            "changed;\n"
            "else\n"
            "  64 bad option or value      69 isolation, environment or server not available\n"
            "  70 internal error",
        .bit = CONFIG_ENV,
        .operands_min = 1,
        .operands_max = INT_MAX,
        .mixed = true,
        .wanted = "say what to do, such as 'env list'",
        .function = cmd_env,
    },
    {
        .name = "doctor",
        .summary = "Show which isolation layers are live, and how to get those that are not",
        .usage = "doctor [options]",
        .notes = "Exit status: 0 when all mandatory layers are live (and all probes held), else 1.",
        .bit = CONFIG_DOCTOR,
        .function = cmd_doctor,
    },
    {
        .name = "bench",
        .summary = "Measure latency, throughput and memory against a cold python3",
        .usage = "bench [options]",
        .bit = CONFIG_BENCH,
        .function = cmd_bench,
    },
    {
        .name = "serve",
        .summary = "Serve MCP over HTTP: /mcp, a page at /, health at /health",
        .usage = "serve [options]",
        .notes =
            "SIGTERM and Ctrl-C end it: running code gets 5 seconds, a second signal ends it at\n"
            "once.  SIGHUP reads the files of keys again.",
        .bit = CONFIG_SERVE,
        .function = cmd_serve,
    },
    {
        .name = "stdio",
        .summary = "Serve MCP on stdin and stdout, for a client that starts this program",
        .usage = "stdio [options]",
        .notes = "It ends when stdin does, on SIGTERM, or with the process that started it.",
        .bit = CONFIG_STDIO,
        .function = cmd_stdio,
    },
    {
        .name = "client-config",
        .summary = "Print the lines that enter this server into an MCP client",
        .usage = "client-config [--url URL] claude|vscode|cursor|gemini|lmstudio|all|list",
        .notes = "The snippet goes to stdout, where it belongs to stderr.",
        .bit = CONFIG_CLIENT,
        .operands_max = 1,
        .function = cmd_client_config,
    },
    {
        .name = "config",
        .summary = "Show the configuration in force and where each value came from",
        .usage = "config [options]",
        .bit = CONFIG_SHOW,
        .function = cmd_config,
    },
    {.name = NULL},
};

/* ---- Words in place of a command ---- */

#define TEXT_OF(x) #x
#define VALUE_OF(x) TEXT_OF(x)

#if defined(__clang__)
#define COMPILER                                                                                   \
    "clang " VALUE_OF(__clang_major__) "." VALUE_OF(__clang_minor__) "." VALUE_OF(                 \
        __clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "unknown"
#endif

#if defined(__GLIBC__)
#define LIBC "gnu"
#else
#define LIBC "musl"
#endif

static int find_command(const char *name, const struct command **ret, struct err *e)
{
    const struct command *near = NULL;
    unsigned near_distance = 3; // further away it is no typo
    for (const struct command *c = commands; c->name; c++) {
        unsigned d = text_distance(name, c->name);
        if (d < near_distance) {
            near = c;
            near_distance = d;
        }
    }
    if (near && near_distance == 0) {
        *ret = near;
        return 0;
    }
    int r = err_set(e, ERR_USAGE, 0, "'constrictor --help' lists the commands",
                    "there is no command '%.80s'", name);
    if (near)
        err_hint(e, "did you mean '%s'? 'constrictor --help' lists the commands", near->name);
    else if (name[0] == '-')
        err_hint(e, "options stand behind the command: 'constrictor run %.80s ...'", name);
    return r;
}

static int word_help(int argc, char **argv)
{
    const struct command *command;
    struct err e;
    if (argc == 0) {
        help_print_all(stdout, commands);
        return cli_finish();
    }
    if (find_command(argv[0], &command, &e) < 0)
        return cli_fail(&e, false);
    help_print_command(stdout, command);
    return cli_finish();
}

static int word_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("constrictor " CONSTRICTOR_VERSION " (" MACHINE "-linux-" LIBC ", " COMPILER ")\n");
    return cli_finish();
}

static const struct {
    const char *word;
    int (*function)(int argc, char **argv);
} words[] = {
    {"help", word_help},         {"--help", word_help}, {"-h", word_help},
    {"--version", word_version}, {"-V", word_version},  {NULL, NULL},
};

/* ---- Commands ---- */

static int check_operands(const struct command *command, int argc, char **argv, struct err *e)
{
    if (argc < command->operands_min)
        return err_set(e, ERR_USAGE, 0,
                       command->wanted ? command->wanted
                                       : "give a file, '-' for stdin, or -c and the code",
                       "'%s' needs something to %s", command->name, command->wanted ? "do" : "run");
    if (argc > command->operands_max)
        return err_set(e, ERR_USAGE, 0, "see '--help' for the options of this command",
                       "'%s' takes no %sargument, but was given '%.80s'", command->name,
                       command->operands_max ? "second " : "", argv[command->operands_max]);
    return 0;
}

// One operand may also stand before the options: 'client-config claude --url ...'.
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
    int kept = 0, left = *argc;
    while (left > 0) {
        operands[kept++] = *rest++;
        left--;
        bool ends = left > 0 && strcmp(*rest, "--") == 0;
        int r = config_read_flags(config, command->bit, &left, &rest, e);
        if (r < 0)
            return r;
        while (ends && left > 0) {
            operands[kept++] = *rest++;
            left--;
        }
    }
    *argc = kept;
    return 0;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static struct config config; // the one configuration; large, so not on the stack
    struct err e;

    config_init_zeroed(&config);
    int r = config_load(&config, command->bit, &argc, &argv, &e);
    if (r == 0 && !config.help && command->operands_max == 1)
        r = read_behind(command, &config, &argc, &argv, &e);
    if (r == 0 && !config.help && command->mixed)
        r = read_mixed(command, &config, &argc, &argv, &e);
    if (r == 0 && config.help) { // wherever it stands
        help_print_command(stdout, command);
        return cli_finish();
    }
    if (r == 0)
        r = check_operands(command, argc, argv, &e);
    if (r == 0)
        r = net_logins_take(&config, &e);
    if (r < 0)
        return cli_fail(&e, config.json);
    log_init((enum log_level)config.log_level, "constrictor");
    return command->function(&config, argc, argv);
}

// SECURITY: started with 0, 1 or 2 closed, the next descriptor that is opened would be taken for
// stdin or stdout, and results would be written into it.
static void open_standard_fds(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            _exit(err_exit_status(ERR_SYSTEM));
}

int main(int argc, char **argv)
{
    const struct command *command;
    struct err e;

    open_standard_fds();
    if (argc < 2) {
        help_print_short(stderr, commands);
        return err_exit_status(ERR_USAGE);
    }
    for (size_t i = 0; words[i].word; i++)
        if (strcmp(argv[1], words[i].word) == 0)
            return words[i].function(argc - 2, argv + 2);
    if (find_command(argv[1], &command, &e) < 0)
        return cli_fail(&e, false);
    return run_command(command, argc - 2, argv + 2);
}
