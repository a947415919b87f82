// SPDX-License-Identifier: Apache-2.0
//
// gate_socket: the broker's end of the socket to the gate: grants come in, reports go out (see broker.h).

#ifndef CONSTRICTOR_BROKER_GATE_SOCKET_H
#define CONSTRICTOR_BROKER_GATE_SOCKET_H

#include "broker/state.h"

enum { TALK_HELD_MAX = 1024 }; // reports that wait for a gate that does not read

int talk_open(struct broker *b, struct err *e);
void talk_close(struct broker *b);
// A new gate, or none (-1).  Takes the descriptor.
void talk_link(struct broker *b, int fd);
void talk_read(struct broker *b);

#endif
