// SPDX-License-Identifier: Apache-2.0
//
// conn: one connection of a box for its whole life: judged, resolved, judged again, dialled,
// carried (relay.c).  It begins when the box connects, or earlier when it asks (box_question.c).

#ifndef CONSTRICTOR_BROKER_CONN_H
#define CONSTRICTOR_BROKER_CONN_H

#include "broker/state.h"

enum {
    CONN_IDLE_MS = 10 * 60 * 1000,
    CONN_KEPT_MS = 5000,   // after it was dialled, until the box connects
    CONN_FIRST_MS = 10000, // until the first bytes are a whole ClientHello or request
};

// Takes in at most `most` connections to a port of the box.
void conn_accept(struct netbox *b, int listener, int most);

// Begins a connection before the box does.  `from` gets the outcome; without `wait` only whether
// the rules refuse it.
void conn_ask(struct netbox *b, const struct net_address *a, uint16_t port,
              const struct sockaddr_storage *from, socklen_t from_length, bool wait);

// Ends with a reset on both sides, after an event that says why.
void conn_refuse(struct conn *c, const struct refusal *f);
void conn_reset(struct conn *c);
// Both directions have ended, or one has failed with this errno.
void conn_finish(struct conn *c, int errnum);
void conn_free(struct conn *c);

void conn_rejudge(struct conn *c); // rules have changed
void conn_tick(struct conn *c, int64_t now_ms);
void conn_catch_up(struct conn *c); // carries what has arrived
void conn_report(struct conn *c);   // adds what it has carried to the report

// box_question.c: the answer to 'connect ADDRESS PORT wait', an errno of 0 is "ok".
void box_question_answer(const struct netbox *b, const struct sockaddr_storage *to,
                         socklen_t to_length, int errnum, const char *text);
// The same for a refusal: what, why, and what to do.
void box_question_refuse(const struct netbox *b, const struct sockaddr_storage *to,
                         socklen_t to_length, int errnum, const struct refusal *f);
// Records why a connection from this port of the box ends with a reset.
void box_question_remember(struct netbox *b, uint16_t port, const struct refusal *f);

#endif
