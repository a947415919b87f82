// SPDX-License-Identifier: Apache-2.0
//
// cli: how errors and output leave the program.  Called by main() and the commands, in the first
// process and in the gate.

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"

#ifndef CONSTRICTOR_VERSION
#define CONSTRICTOR_VERSION "0.0.0"
#endif

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

void cli_print_version(FILE *out)
{
    fprintf(out,
            "constrictor " CONSTRICTOR_VERSION " (" MACHINE "-linux-" LIBC ", " COMPILER ")\n");
}

static void print_text(const struct err *e)
{
    fprintf(stderr, "constrictor: error: %s [%s]\n", e->message, err_code_name(e->code));
    if (e->hint[0])
        fprintf(stderr, "  hint: %s\n", e->hint);
}

static void print_json(const struct err *e)
{
    json_t *object = json_pack("{s:{s:s, s:s, s:s}}", "error", "code", err_code_name(e->code),
                               "message", e->message, "hint", e->hint);
    if (object && json_dumpf(object, stdout, 0) == 0 && fputc('\n', stdout) != EOF &&
        fflush(stdout) == 0) {
        json_decref(object);
        return;
    }
    json_decref(object);
    print_text(e); // no memory, or stdout is closed
}

int cli_fail(const struct err *e, bool json)
{
    struct err clean = *e;
    // SECURITY: the message quotes files, the environment and the caller.  Control characters in it
    // could drive the terminal; broken UTF-8 would break the JSON.
    text_sanitize(clean.message);
    text_sanitize(clean.hint);
    (json ? print_json : print_text)(&clean);
    return err_exit_status(e->code);
}

int cli_finish(void)
{
    struct err e;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    (void)err_set(&e, ERR_SYSTEM, errno, NULL, "write to stdout");
    return cli_fail(&e, false);
}

const char *cli_nearest(const char *text, const char *(*word)(size_t i))
{
    const char *near = NULL;
    unsigned best = 3; // beyond this it is no typo
    for (size_t i = 0; word(i); i++) {
        unsigned distance = text_distance(text, word(i));
        if (distance < best) {
            best = distance;
            near = word(i);
        }
    }
    return near;
}

void cli_list_words(const char *(*word)(size_t i), char *buf, size_t cap)
{
    size_t n = 0;
    buf[0] = '\0';
    for (size_t i = 0; word(i) && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", i ? ", " : "", word(i));
}

int cli_run_keeper(const struct keeper_plan *plan)
{
    struct err e;
    int status = 0;
    if (keeper_run(plan, &status, &e) == 0)
        return status;
    caps_explain(plan->config, &e);
    return cli_fail(&e, plan->config->json);
}

int cli_catch_signals(struct event_base *base, event_callback_fn on_signal, void *argument,
                      struct err *e)
{
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct event *event = evsignal_new(base, signals[i], on_signal, argument);
        if (!event || event_add(event, NULL) < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "catch signals");
    }
    return 0;
}
