// SPDX-License-Identifier: Apache-2.0
//
// seal: gives up everything that the broker inherits from the keeper but its work.

#ifndef CONSTRICTOR_BROKER_SEAL_H
#define CONSTRICTOR_BROKER_SEAL_H

#include "keeper/keeper.h"

// First: keeps these descriptors, at new numbers, closes all others, and becomes nobody in
// particular.
int seal_identity(const struct keeper_facts *facts, int *sock, int *network_file, int *audit_file,
                  struct err *e);
// Then, when what is read from files at the beginning was read: no files, no programs.
int seal_rest(const struct keeper_facts *facts, struct err *e);

#endif
