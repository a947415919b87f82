// SPDX-License-Identifier: Apache-2.0
//
// keeper_child: a whole keeper in a child of the test.

#ifndef CONSTRICTOR_KEEPER_CHILD_H
#define CONSTRICTOR_KEEPER_CHILD_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/keeper.h"

// Runs the keeper until its gate ends; returns the status of the gate.  Skips the test where no
// boxes can be made, unless MUST_WORK is 1.
static int keeper_child(const struct keeper_plan *plan)
{
    enum { NO_BOXES = 78, BROKEN = 79 };
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err e;
        if (keeper_run(plan, &status, &e) == 0)
            _exit(status);
        fprintf(stderr, "%s\n", e.message);
        _exit(e.code == ERR_LAYER_MISSING || e.code == ERR_BOX_SETUP ? NO_BOXES : BROKEN);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_BOXES) {
        const char *must = getenv("MUST_WORK");
        assert_false(must && must[0] == '1');
        skip();
    }
    return WEXITSTATUS(status);
}

#endif
