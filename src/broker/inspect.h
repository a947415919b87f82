// SPDX-License-Identifier: Apache-2.0
//
// inspect: where a box's bytes really go: the name in a TLS ClientHello, the Host of HTTP requests,
// their methods and paths where rules bound those.  Called by relay.c for bytes that go up until
// nothing is left to judge.  Bytes that come down are never held back.

#ifndef CONSTRICTOR_BROKER_INSPECT_H
#define CONSTRICTOR_BROKER_INSPECT_H

#include <sys/types.h>

#include "broker/state.h"

void inspect_begin(struct conn *c);
// How many of these unjudged bytes may go on; -1: refused and closed.
ssize_t inspect_up(struct conn *c, const uint8_t *data, size_t length);
// The box sends no more.  0, or -1 as above.
int inspect_end(struct conn *c);
void inspect_down(struct conn *c, const uint8_t *data, size_t length);
// A head or a ClientHello was not complete in time.
void inspect_late(struct conn *c);
void inspect_rules_changed(struct conn *c);

#endif
