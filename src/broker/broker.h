// SPDX-License-Identifier: Apache-2.0
//
// broker: the process that reaches hosts for boxes.  The keeper starts it when the configuration
// gives anybody network, and again when it dies; it has no privileges, no files, and starts
// nothing.
//
// A box with network has a network namespace of its own in which every address is local and nothing
// leads out.  The sockets in it that answer are the broker's, made by the zygote before the box:
//   dns    UDP, 127.0.0.1:53: gives out an address of 198.18.0.0/15 for each allowed name of this
//   box
//   ask    UDP, 127.0.0.1:54: tells the Python side why something was refused
//   (broker/box_question.h) tcp    unbound; the broker binds them to ports as names with those
//   ports are looked up or asked for
// Whatever connects to one of them shows by its local address where it wanted to go.  The broker
// judges that (net/rules.h), resolves the name, judges the address, dials that very address, and
// carries bytes.
//
// Who says what:
//   keeper -> broker   NET_BOX (+ dns, ask, tcp...)  NET_GONE  NET_LINK (+ a socket to the gate)
//   FILES
//   gate <-> broker    see wire/broker.h

#ifndef CONSTRICTOR_BROKER_BROKER_H
#define CONSTRICTOR_BROKER_BROKER_H

#include "keeper/facts.h"
#include "wire/broker.h"

// The whole life of the process; `sock` leads to the keeper.  Its return value is the exit status.
int broker_main(int sock, const struct keeper_facts *facts);

#endif
