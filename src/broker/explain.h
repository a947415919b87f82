// SPDX-License-Identifier: Apache-2.0
//
// explain: why the broker refused: a sentence for the exception that the code sees, and a hint for
// the caller of the run.  Called wherever the broker refuses.

#ifndef CONSTRICTOR_BROKER_EXPLAIN_H
#define CONSTRICTOR_BROKER_EXPLAIN_H

#include "broker/state.h"

// By the rules.  `action` is a literal.
void explain_verdict(const struct netbox *b, const char *action, const char *host,
                     const struct net_address *address, uint16_t port, const struct net_decision *v,
                     struct refusal *ret);

// By a quota, as quota.h names it.
void explain_quota(const char *host, const struct net_address *address, uint16_t port,
                   const char *which, struct refusal *ret);

// For other reasons: `why` follows "refused: ".
void explain_other(const char *action, const char *reason, const char *host,
                   const struct net_address *address, uint16_t port, const char *why,
                   const char *hint, struct refusal *ret);

#endif
