// SPDX-License-Identifier: Apache-2.0
//
// zygote: starting a warm interpreter in its jail, as the keeper sees it.  box/jail.c does the
// rest.

#ifndef CONSTRICTOR_KEEPER_ZYGOTE_H
#define CONSTRICTOR_KEEPER_ZYGOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/filter.h"
#include "config/config.h"
#include "keeper/caps.h"
#include "keeper/environments.h"
#include "keeper/interp.h"
#include "keeper/shares.h"
#include "wire/wire.h"

enum { ZYGOTE_TAIL = 400, ZYGOTE_ARGS_MAX = TEXT_LIST_MAX + 8 };

struct jail_plan;

struct zygote {
    pid_t pid;
    int pidfd;
    int sock;
    int log; // what the interpreter and its preloads write to stderr
    uint32_t report_length;
    char report[WIRE_REPORT_MAX + 1]; // JSON from zygote.py, for results and doctor
    int64_t deadline_ms;              // to be warm
    char tail[ZYGOTE_TAIL + 1];       // the end of its stderr while it was not warm
};

// Finds the folder with our Python files.
int zygote_find_python_side(char *ret, size_t cap, struct err *e);

// The tree and the environment of boxes: all but descriptors and argv of the plan.
int zygote_plan(struct jail_plan *ret, const struct config *config, const struct caps *caps,
                const struct interp *interp, const struct environments *environments,
                const struct shares *shares, struct err *e);
// Borrows what it is given; `option` may be NULL.
void zygote_argv(char *argv[ZYGOTE_ARGS_MAX], const struct config *config, const char *executable,
                 const char *option);

// Starts a zygote: its jail is built and the interpreter starts.  `cold`: import no more than one
// plain run needs, for `constrictor run`, whose user waits for the start.  `environments` and
// `shares` may be NULL.
int zygote_begin(struct zygote *ret, const struct config *config, const struct caps *caps,
                 const struct interp *interp, const struct environments *environments,
                 const struct shares *shares, bool cold, struct err *e);

// Reads messages of a zygote that was begun, without waiting.  1: it is warm, 0: not yet, negative:
// it failed, and the caller stops it.
int zygote_look(struct zygote *z, struct err *e);

// Reads its stderr while it is not warm.  False: it has closed it.
bool zygote_hear(struct zygote *z);

// A box with a uid of its own reads the tree as any other user of the machine.  Where that is not
// enough its uid is the caller's: caps_fit_uids().  Before the first zygote.
void zygote_fit_uids(const struct config *config, struct caps *caps, const struct interp *interp);

// Both, and the wait in between.
int zygote_start(struct zygote *ret, const struct config *config, const struct caps *caps,
                 const struct interp *interp, const struct environments *environments,
                 const struct shares *shares, bool cold, struct err *e);

// Ends it and every box that it made.
void zygote_stop(struct zygote *z);

// Which table gives the errno of a denied call, with network or without; known once a zygote was
// begun.
enum filter_kind zygote_last_filter(bool network);

#endif
