// SPDX-License-Identifier: Apache-2.0
//
// env: `constrictor env`.  cmd_env() works in the first process: it reads the command line and
// looks for a server that uses the environments and has an address.  If there is one, it asks that
// server over REST; else it opens the environments itself, with a keeper and a gate of its own.

#include "cli/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "env/default_env.h"
#include "env/envs.h"
#include "keeper/state.h"

enum wants { NO_NAME, MAY_NAME, NAME };

static const struct {
    const char *word;
    enum wants name;
    int more_min, more_max; // number of operands behind the name
    const char *usage;
} verbs[VERB_MAX] = {
    [VERB_LIST] = {"list", NO_NAME, 0, 0, "env list"},
    [VERB_CREATE] = {"create", NAME, 0, INT_MAX, "env create NAME [PACKAGES...]"},
    [VERB_INSTALL] = {"install", NAME, 1, INT_MAX, "env install NAME PACKAGES..."},
    [VERB_UNINSTALL] = {"uninstall", NAME, 1, INT_MAX, "env uninstall NAME PACKAGES..."},
    [VERB_PACKAGES] = {"packages", MAY_NAME, 0, 0, "env packages [NAME]"},
    [VERB_DESCRIBE] = {"describe", NAME, 0, 0, "env describe NAME"},
    [VERB_RESET] = {"reset", NAME, 0, 0, "env reset NAME"},
    [VERB_DELETE] = {"delete", NAME, 0, 0, "env delete NAME"},
    [VERB_STATUS] = {"status", NAME, 1, 1, "env status NAME INSTALL"},
    [VERB_EXPORT] = {"export", NAME, 1, 1, "env export NAME FILE   (- is stdout)"},
    [VERB_IMPORT] = {"import", NO_NAME, 1, 2, "env import FILE [NAME]   (- is stdin)"},
};

static const char *verb_word(size_t i)
{
    return i < VERB_MAX ? verbs[i].word : NULL;
}

static int unknown_verb(const char *word, struct err *e)
{
    char verbs_text[128];
    const char *near = cli_nearest(word, verb_word);
    cli_list_words(verb_word, verbs_text, sizeof verbs_text);
    (void)err_set(e, ERR_USAGE, 0, NULL, "'env' has no action '%.80s'", word);
    if (near)
        err_hint(e, "did you mean '%s'?", near);
    else
        err_hint(e, "the actions are: %s", verbs_text);
    return -1;
}

static int read_operands(struct env_command *ask, int argc, char **argv, struct err *e)
{
    size_t v = 0;
    while (v < VERB_MAX && strcmp(verbs[v].word, argv[0]) != 0)
        v++;
    if (v == VERB_MAX)
        return unknown_verb(argv[0], e);
    ask->verb = (enum env_verb)v;
    argc--;
    argv++;
    if (verbs[v].name != NO_NAME && argc > 0) {
        ask->name = *argv++;
        argc--;
    }
    if ((verbs[v].name == NAME && !ask->name) || argc < verbs[v].more_min ||
        argc > verbs[v].more_max) {
        (void)err_set(e, ERR_USAGE, 0, NULL, "'env %s' got too %s arguments", verbs[v].word,
                      argc > verbs[v].more_max ? "many" : "few");
        err_hint(e, "usage: constrictor %s", verbs[v].usage);
        return -1;
    }
    if (ask->verb == VERB_STATUS) {
        ask->job = argv[0];
    } else if (ask->verb == VERB_EXPORT) {
        ask->file = argv[0];
    } else if (ask->verb == VERB_IMPORT) {
        ask->file = argv[0];
        ask->name = argc > 1 ? argv[1] : ask->file_name;
        return argc > 1 ? 0 : env_file_name(ask->file, ask->file_name, e);
    } else
        for (int i = 0; i < argc; i++)
            if (json_array_append_new(ask->packages, json_string(argv[i])) < 0)
                return err_set(e, ERR_BAD_REQUIREMENT, 0, "write it as UTF-8",
                               "'%.80s' is not a package name", argv[i]);
    return 0;
}

bool env_find_server(const struct config *c, char *ret, size_t cap)
{
    char path[PATH_MAX], text[1200];
    struct err e;
    if (state_find(c, geteuid() == 0, getenv("XDG_STATE_HOME"), getenv("HOME"), path, &e) < 0)
        return false;
    _cleanup_close_ int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = folder < 0 ? -1
                                        : openat(folder, "environments.server",
                                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    // The kernel drops the server's lock when it ends, in any way; ours goes with the descriptor.
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    char *line = strchr(text, '\n');
    if (!line || strncmp(++line, "http", 4) != 0)
        return false;
    line[strcspn(line, "\n")] = '\0';
    snprintf(ret, cap, "%s", line);
    return true;
}

// `url` NULL: without a server.
static int with_file(struct env_command *ask, const char *url)
{
    struct err e;
    if (env_file_open(ask, &e) < 0)
        return cli_fail(&e, ask->config->json);
    int status = url ? env_remote(ask, url) : env_local(ask);
    return env_file_finish(ask, status == 0, &e) < 0 ? cli_fail(&e, ask->config->json) : status;
}

// `env create NAME --preload MODULES` declares the preloads of the environment; for other actions
// --preload has its usual meaning.
static int read_preload(struct env_command *ask, struct err *e)
{
    const struct config *c = ask->config;
    if (ask->verb != VERB_CREATE || c->origins[CONFIG_KEY_preload].source != CONFIG_FROM_FLAG)
        return 0;
    ask->preload = json_array();
    for (size_t i = 0; i < c->preload.count; i++)
        if (json_array_append_new(ask->preload, json_string(c->preload.items[i])) < 0)
            return err_set(e, ERR_BAD_VALUE, 0, "write names such as numpy",
                           "'%.80s' is not the name of a module", c->preload.items[i]);
    return 0;
}

// `env create data` without packages installs those of data analysis; it can be repeated.
static int read_data(struct env_command *ask, struct err *e)
{
    if (ask->verb != VERB_CREATE || strcmp(ask->name, ENV_DATA) != 0 ||
        json_array_size(ask->packages) || ask->preload)
        return 0;
    json_decref(ask->packages);
    ask->packages = data_env_packages();
    ask->verb = VERB_INSTALL;
    return ask->packages ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "name the packages");
}

// The server installs with its own settings: says which options of this command have no effect.
static void warn_of_options(const struct env_command *ask, const char *url)
{
    static const enum config_key keys[] = {
        CONFIG_KEY_index_url,   CONFIG_KEY_extra_index_urls, CONFIG_KEY_index_credentials,
        CONFIG_KEY_index_hosts, CONFIG_KEY_index_proxy,      CONFIG_KEY_constraints,
        CONFIG_KEY_find_links,  CONFIG_KEY_offline};
    if (ask->verb != VERB_CREATE && ask->verb != VERB_INSTALL && ask->verb != VERB_IMPORT)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (ask->config->origins[keys[i]].source == CONFIG_FROM_FLAG)
            fprintf(stderr,
                    "constrictor: the server at %s installs with its own settings; --%s of this "
                    "command has no effect\n",
                    url, config_options[keys[i]].key);
}

static int cmd_env(const struct config *c, int argc, char **argv)
{
    struct env_command ask = {.config = c, .packages = json_array(), .fd = -1};
    struct err e;
    char found[1100];
    if (!ask.packages || read_operands(&ask, argc, argv, &e) < 0 || read_preload(&ask, &e) < 0 ||
        read_data(&ask, &e) < 0)
        return cli_fail(&e, c->json);
    const char *url = c->url[0] ? c->url : env_find_server(c, found, sizeof found) ? found : NULL;
    if (url)
        warn_of_options(&ask, url);
    return with_file(&ask, url);
}

const struct command command_env = {
    .name = "env",
    .section = SECTION_RUN,
    .summary = "Create environments and install packages into them",
    .usage = "env [options] list\n"
             "env [options] create NAME [PACKAGES...]\n"
             "env [options] install NAME PACKAGES...\n"
             "env [options] uninstall NAME PACKAGES...\n"
             "env [options] packages [NAME]\n"
             "env [options] describe|reset|delete NAME\n"
             "env [options] status NAME INSTALL\n"
             "env [options] export NAME FILE\n"
             "env [options] import FILE [NAME]",
    .notes = "PACKAGES are pip requirements, such as 'pandas' or 'numpy>=2'.  The environment\n"
             "'base' serves code that names no environment: it has what is installed into it.\n"
             "'env create data' installs what data analysis needs: numpy, pandas and more.\n"
             "If a server uses the state folder, or with --url, the server does the work; the\n"
             "command takes the server's key from CONSTRICTOR_API_KEY.\n"
             "Exit status: 0 on success, 1 when an install failed and changed nothing; else\n"
             "  64 bad option or value      69 no isolation, environment or server\n"
             "  70 internal error",
    .bit = CONFIG_ENV,
    .operands_min = 1,
    .operands_max = INT_MAX,
    .mixed = true,
    .wanted = "name an action, such as 'env list'",
    .word = verb_word,
    .function = cmd_env,
};
