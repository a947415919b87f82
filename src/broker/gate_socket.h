// SPDX-License-Identifier: Apache-2.0
//
// gate_socket: the broker's end of the socket to the gate: grants come in, reports go out (see
// wire/broker.h).

#ifndef CONSTRICTOR_BROKER_GATE_SOCKET_H
#define CONSTRICTOR_BROKER_GATE_SOCKET_H

#include "broker/state.h"

enum { GATE_SOCKET_PENDING_MAX = 1024 }; // reports that wait for a gate that does not read

int gate_socket_open(struct broker *b, struct err *e);
void gate_socket_close(struct broker *b);
// A new gate, or none (-1).  Takes the descriptor.
void gate_socket_link(struct broker *b, int fd);
void gate_socket_read(struct broker *b);

#endif
