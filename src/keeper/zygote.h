// SPDX-License-Identifier: Apache-2.0
//
// zygote: starting a warm interpreter in its jail, as the keeper sees it.  box/jail.c does the rest.

#ifndef CONSTRICTOR_KEEPER_ZYGOTE_H
#define CONSTRICTOR_KEEPER_ZYGOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "config.h"
#include "keeper/caps.h"
#include "keeper/interp.h"
#include "wire/wire.h"

struct zygote {
    pid_t pid;
    int pidfd;
    int sock;
    int log; // what the interpreter and its preloads write to stderr
    uint32_t report_length;
    char report[WIRE_REPORT_MAX + 1]; // JSON from zygote.py, for results and doctor
};

// Starts a zygote and waits until it is warm.  `cold`: import no more than one plain run needs, for
// `constrictor run`, where starting is what the user waits for.
int zygote_start(struct zygote *ret, const struct config *config, const struct caps *caps,
                 const struct interp *interp, bool cold, struct err *e);

// Ends it and, with it, every box it made.
void zygote_stop(struct zygote *z);

#endif
