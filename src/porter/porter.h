// SPDX-License-Identifier: Apache-2.0
//
// porter: the process that writes unpacked wheels to the disk (wheels.h).  The keeper starts
// it with the environments folder, and again when it dies.  As root it has a uid of its own, else
// the caller's; the wheels and nothing else, no network, and starts nothing: what it reads was
// written in a box, and the gate, which strangers talk to, has no way to the wheels but these
// words.
//
// Messages:
//   keeper -> porter   NET_LINK (+ a socket to the gate)
//   gate <-> porter    see wire/porter.h

#ifndef CONSTRICTOR_PORTER_PORTER_H
#define CONSTRICTOR_PORTER_PORTER_H

#include "keeper/facts.h"
#include "wire/porter.h"

// The whole life of the process; `sock` leads to the keeper.  Its return value is the exit status.
int porter_main(int sock, const struct keeper_facts *facts);

#endif
