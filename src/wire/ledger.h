// SPDX-License-Identifier: Apache-2.0
//
// ledger: what a gate must know of its sessions to go on after another gate has crashed.  Memory
// that the keeper maps before it forks the first gate and shares with every gate after it; the
// keeper itself never reads it.  Writing costs no system call.
//
// SECURITY: a compromised gate may leave anything here.  The next gate checks lengths, terminates
// strings, and takes an entry only for a box that the keeper says exists.

#ifndef CONSTRICTOR_WIRE_LEDGER_H
#define CONSTRICTOR_WIRE_LEDGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

enum {
    LEDGER_ENTRIES = 4096,
    LEDGER_ID_SIZE = 32,
    LEDGER_NAME_SIZE = 516,
    LEDGER_OWNER_SIZE = 68,
    LEDGER_NETWORK_SIZE = 1024,
    LEDGER_ENVIRONMENT_SIZE = 68,
};

// What the session may reach.
enum ledger_network {
    LEDGER_NETWORK_OFF,  // its box has no network
    LEDGER_NETWORK_KEY,  // every host that its key may reach
    LEDGER_NETWORK_SOME, // the hosts of `network`
    LEDGER_NETWORK_LOST, // none: its rules did not fit into the ledger
    LEDGER_NETWORK_MAX
};

struct ledger_entry {
    _Atomic uint32_t live; // 0: free; set last, cleared first
    uint32_t busy;         // a run goes on
    uint64_t box;
    uint32_t fork_number;
    uint32_t executions;
    uint32_t checkpoint;   // flag of the session
    uint32_t network_kind; // enum ledger_network
    uint64_t idle_ms, wall_ms, cpu_ms, output_bytes;
    int64_t created_ms, used_ms; // since 1970
    char id[LEDGER_ID_SIZE];
    char name[LEDGER_NAME_SIZE];
    char owner[LEDGER_OWNER_SIZE];
    char environment[LEDGER_ENVIRONMENT_SIZE];
    char network[LEDGER_NETWORK_SIZE]; // a rule set of run/network.h, JSON
};

struct ledger {
    struct ledger_entry entries[LEDGER_ENTRIES];
};

// In the keeper, before the first fork.  NULL with errno.
struct ledger *ledger_new(void);

#endif
