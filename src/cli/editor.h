// SPDX-License-Identifier: Apache-2.0
//
// editor: the process that reads what a person types into `constrictor repl`.  It is Python's own
// line editing (src/python/repl/line_editor.py) in the interpreter of the boxes, outside them and
// with the rights of the caller, because it needs the terminal and the history file.  The gate has
// rights on neither, and gets text.
//
//   editor_start, editor_end   in the first process
//   editor_ask, editor_free    in the gate
//
// SECURITY: the editor takes nothing from the gate but "the next one, please", so code that has
// taken over the gate can do nothing with it.

#ifndef CONSTRICTOR_CLI_EDITOR_H
#define CONSTRICTOR_CLI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "base/err.h"
#include "config/config.h"
#include "run/gate.h"

enum editor_kind { EDITOR_CELL = 1, EDITOR_UNDO, EDITOR_END }; // as in line_editor.py
enum { EDITOR_BYTES_MAX = 64 * 1024 * 1024 };

struct editor {
    pid_t pid; // 0: there is none
    int sock;  // the gate's end
    bool is_terminal;
    struct termios modes; // as they were
};

int editor_start(struct editor *k, const struct config *c, struct err *e);
void editor_end(struct editor *k); // ends it, and gives the terminal back as it was

struct editor_text {
    enum editor_kind kind;
    char *text; // ends with a NUL, and may have others
    size_t length;
};

// Waits for the next text, on the event loop, which is also left by event_base_loopbreak().
// EDITOR_END: there is none, or the editor is gone.
void editor_ask(struct gate *g, int sock, struct editor_text *ret);
void editor_free(struct editor_text *t);

#endif
