// SPDX-License-Identifier: Apache-2.0
//
// env_show: see env.h.  Runs in the gate of `constrictor env`, or in its first process when a
// server is asked.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/env.h"
#include "env/env_words.h"

enum { BAR = 24, COLUMNS = 80, EXIT_FAILED = 1 };

static bool bar_is_shown;

static unsigned columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > BAR + 20 ? size.ws_col
                                                                                  : COLUMNS;
}

void env_show_progress(const json_t *status)
{
    char text[256];
    double done = json_number_value(json_object_get(status, "progress"));
    if (!isatty(STDERR_FILENO))
        return;
    done = done < 0 ? 0 : done > 1 ? 1 : done;
    env_words_progress(status, text, sizeof text);
    if (json_object_get(status, "message")) // the server's own text
        snprintf(text, sizeof text, "%.250s",
                 json_string_value(json_object_get(status, "message")) ?: "");
    int full = (int)(done * BAR), room = (int)columns() - BAR - 9;
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < BAR; i++)
        fputc(i < full ? '#' : '.', stderr);
    // As much as fits into the line, roughly.
    fprintf(stderr, "] %3.0f%% %.*s", done * 100, room, text);
    (void)fflush(stderr);
    bar_is_shown = true;
}

static void end_bar(void)
{
    if (bar_is_shown)
        fputs("\r\033[K", stderr);
    bar_is_shown = false;
}

// A new environment stays when its packages cannot be installed.
static char *created_with_packages(const struct env_command *ask, json_t *answer)
{
    _cleanup_free_ char *status = env_words_status(answer);
    char *text = NULL;
    if (!status || env_status_is_ready(answer) || !env_status_is_over(answer))
        return TAKE_PTR(status);
    return asprintf(&text,
                    "created environment '%s' without the packages: 'constrictor env install %s "
                    "PACKAGES' tries again\n%s",
                    ask->name, ask->name, status) < 0
               ? NULL
               : text;
}

// The text that each verb prints; NULL: memory is out.
static char *words_of(const struct env_command *ask, json_t *answer)
{
    char *text = NULL;
    switch (ask->verb) {
    case VERB_LIST: return env_words_list(json_object_get(answer, "environments"));
    case VERB_PACKAGES: return env_words_packages(answer);
    case VERB_DESCRIBE: return env_words_describe(answer);
    case VERB_CREATE:
        if (json_object_get(answer, "job"))
            return created_with_packages(ask, answer);
        return asprintf(&text, "created environment '%s'\n", ask->name) < 0 ? NULL : text;
    case VERB_EXPORT:
        return asprintf(&text, "wrote environment '%s' to %s: %lld bytes\n", ask->name,
                        strcmp(ask->file, "-") == 0 ? "stdout" : ask->file,
                        json_integer_value(json_object_get(answer, "bytes"))) < 0
                   ? NULL
                   : text;
    case VERB_DELETE:
        return asprintf(&text, "deleted environment '%s'\n", ask->name) < 0 ? NULL : text;
    case VERB_INSTALL:
    case VERB_UNINSTALL:
    case VERB_RESET:
    case VERB_STATUS:
    case VERB_IMPORT:
    case VERB_MAX: break;
    }
    return env_words_status(answer);
}

int env_show_answer(const struct env_command *ask, json_t *answer)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    bool job = json_object_get(answer, "job") != NULL;
    bool failed = job && state && (strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0);
    bool taken = ask->verb == VERB_EXPORT && strcmp(ask->file, "-") == 0; // stdout has the file
    FILE *to = failed || taken ? stderr : stdout;
    end_bar();
    if (ask->config->json) {
        (void)json_dumpf(answer, taken ? stderr : stdout, JSON_INDENT(2));
        (void)fputc('\n', taken ? stderr : stdout);
    } else {
        _cleanup_free_ char *words = words_of(ask, answer);
        (void)fputs(words ? words : "", to);
    }
    json_decref(answer);
    int unwritten = cli_finish();
    // The status of a failed install was asked for and given: no failure.
    return unwritten ? unwritten : failed && ask->verb != VERB_STATUS ? EXIT_FAILED : 0;
}

int env_show_error(const struct env_command *ask, const struct err *e)
{
    end_bar();
    return cli_fail(e, ask->config->json);
}
