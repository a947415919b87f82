// SPDX-License-Identifier: Apache-2.0
//
// server: what the gates of `serve` and `stdio` have in common.  The command opens what needs
// rights in the first process, which becomes the keeper; its gate gives up all rights and serves.

#ifndef CONSTRICTOR_CLI_SERVER_H
#define CONSTRICTOR_CLI_SERVER_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/keeper.h"
#include "mcp/protocol/mcp.h"
#include "run/gate.h"

struct server {
    const struct config *config;
    struct gate gate;
    struct mcp mcp;
    bool stopping;
};

// Before the fork: --log-dir and --run-audit-file, and the time before each line of the log.
// `ret_before` is the old stderr, for messages to the user; -1: there is no --log-dir.
int server_open_logs(struct keeper_plan *plan, int *ret_before, struct err *e);

// In the gate: gives up the rights, then opens sessions, store, environments and MCP.
int server_enter(struct server *s, const struct config *c, int sock,
                 const struct keeper_facts *facts, struct err *e);
void server_leave(struct server *s);

#endif
