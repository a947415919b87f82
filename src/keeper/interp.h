// SPDX-License-Identifier: Apache-2.0
//
// interp: which interpreter, and which parts of the host it needs.  Asked from the interpreter
// itself, because pyenv, conda, uv, venv and Debian all lay out their files differently.

#ifndef CONSTRICTOR_KEEPER_INTERP_H
#define CONSTRICTOR_KEEPER_INTERP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { INTERP_PATHS_MAX = 24, INTERP_PACKAGES_MAX = 12, INTERP_MINOR_MIN = 9 };

struct interp {
    char executable[PATH_MAX]; // the real one, not a shim
    char version[64];
    size_t path_count; // folders outside /usr that it needs
    char paths[INTERP_PATHS_MAX][PATH_MAX];
    bool keeps_packages; // it is a virtual environment, or one of conda
    // Folders of the host's packages, which boxes do not see without --host-packages; some of them
    // may not exist.  Those of a virtual environment are not among them.
    size_t packages_count;
    char packages[INTERP_PACKAGES_MAX][PATH_MAX];
};

// `name` is a path or a name to look up in PATH.  Answers of real binaries are kept in a cache
// folder of the user, keyed by the binary's identity, because asking costs a cold start.
int interp_ask(const char *name, struct interp *ret, struct err *e);
// The same, but gives up as soon as `stop` can be read; -1: never.
int interp_ask_until(const char *name, struct interp *ret, int stop, struct err *e);

// Is it, with every folder on the way to it, root's alone to change?  An absolute path.
bool interp_is_roots(const char *path);

// Takes the answer of the questioning script.  Public for the tests.
int interp_parse(char *answer, struct interp *ret, struct err *e);

#endif
