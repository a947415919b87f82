// SPDX-License-Identifier: Apache-2.0
//
// audit: one line of JSON for each connection that ended or was refused, in --audit-file or in the
// log.

#ifndef CONSTRICTOR_BROKER_AUDIT_H
#define CONSTRICTOR_BROKER_AUDIT_H

#include "broker/state.h"

enum { AUDIT_LINE_MAX = 2048, AUDIT_REFUSALS = 100 }; // a second and box; the rest is counted

void audit_refusal(struct netbox *b, const struct refusal *f);
// `decision` is "allowed" or "failed"; `reason` says how it ended, NULL: as connections end.
void audit_connection(const struct conn *c, const char *decision, const char *reason);

#endif
