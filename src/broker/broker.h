// SPDX-License-Identifier: Apache-2.0
//
// broker: the process that reaches hosts for boxes.  The keeper starts it when the configuration
// allows network, and again when it dies.  It has no privileges, starts no processes, and opens
// only the resolver's files.
//
// A box with network has a network namespace of its own in which every address is local and nothing
// leads out.  The zygote makes the sockets that answer there before the box starts, for the broker:
//   dns    UDP, 127.0.0.1:53: answers allowed names with addresses of 198.18.0.0/15
//   ask    UDP, 127.0.0.1:54: tells the Python side why a connection was refused (box_question.h)
//   tcp    unbound: the broker binds them to ports as code looks up names or asks for ports
// The local address of a connection to one of them is where code wanted to go.  The broker judges
// it (net/rules.h), resolves the name, judges the address, dials exactly that address, and carries
// bytes.
//
// Messages:
//   keeper -> broker   NET_BOX (+ dns, ask, tcp...)  NET_GONE  NET_LINK (+ a socket to the gate)
//                      FILES
//   gate <-> broker    see wire/broker.h

#ifndef CONSTRICTOR_BROKER_BROKER_H
#define CONSTRICTOR_BROKER_BROKER_H

#include "keeper/facts.h"
#include "wire/broker.h"

// The whole life of the process; `sock` leads to the keeper.  Its return value is the exit status.
int broker_main(int sock, const struct keeper_facts *facts);

#endif
