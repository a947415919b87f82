// SPDX-License-Identifier: Apache-2.0
//
// doctor: the findings of doctor.c, which doctor_show.c prints.

#ifndef CONSTRICTOR_CLI_DOCTOR_H
#define CONSTRICTOR_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/caps.h"
#include "keeper/interp.h"

struct doctor {
    const struct config *config; // as given; this is reported
    uid_t uid;                   // of the caller; a gate has another
    struct caps caps;            // state, text and fix of every layer
    bool untested[LAYER_MAX];    // no box started in which the layer could be checked
    bool has_interp;
    struct interp interp;
    bool network_is_on; // the configuration lets code reach hosts
    struct caps_network network;
    json_t *report;    // of the zygote (preloads), or NULL
    json_t *self_test; // or NULL
    struct err error;  // why no box started, or why it could not be checked; message[0] == 0: none
};

// Everything mandatory is live, and every probe held.
bool doctor_is_fine(const struct doctor *d);

// Prints the table, or with --json one object; returns the exit status.
int doctor_show(const struct doctor *d);

#endif
