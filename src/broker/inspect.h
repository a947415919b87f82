// SPDX-License-Identifier: Apache-2.0
//
// inspect: what a box's bytes say about where they really go: the name in a TLS ClientHello, the
// Host of HTTP requests, their methods and paths where rules bound those.  Called by relay.c for
// bytes that go up until they are known to be none of its business.  Bytes that come down flow all
// the while.

#ifndef CONSTRICTOR_BROKER_INSPECT_H
#define CONSTRICTOR_BROKER_INSPECT_H

#include <sys/types.h>

#include "broker/state.h"

void inspect_begin(struct conn *c);
// How many of these bytes, which were not judged yet, may go on; -1: it was refused and is closed.
ssize_t inspect_up(struct conn *c, const uint8_t *data, size_t length);
// The box has said all.  0, or -1 as above.
int inspect_end(struct conn *c);
void inspect_down(struct conn *c, const uint8_t *data, size_t length);
// What it began did not come to an end in time.
void inspect_late(struct conn *c);
void inspect_rules_changed(struct conn *c);

#endif
