// SPDX-License-Identifier: Apache-2.0
//
// cli: how an error leaves the program.  Called by main() and the commands, in the first process
// and in the gate.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

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
    print_text(e); // no memory, or nobody reads stdout any more: stderr is better than silence
}

int cli_fail(const struct err *e, bool json)
{
    struct err clean = *e;
    // SECURITY: names and values in the message come from files, the environment and the caller;
    // control characters in them could drive the terminal, broken UTF-8 would break the JSON.
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
