// SPDX-License-Identifier: Apache-2.0
//
// stdio: the transport of a server that its client started: one message a line, on stdin and
// stdout. Both eras in one process, with one private client.
//
//   READING    serves lines
//   DRAINING   stdin has ended: waits for calls to end, for a moment
//   FLUSHING   no calls are left: sends the last answers, for a moment
//   ENDED      on_end was called

#ifndef CONSTRICTOR_MCP_TRANSPORT_STDIO_H
#define CONSTRICTOR_MCP_TRANSPORT_STDIO_H

#include "mcp/protocol/mcp.h"

struct mcp_stdio;

// Reserves stdin and stdout for the protocol: returns duplicates, makes stdin /dev/null and stdout
// stderr, so that no print can break the protocol.  Call it first, before privileges are dropped.
int mcp_stdio_take(int *ret_in, int *ret_out, struct err *e);

// Serves until the client is gone or mcp_stdio_stop(); then the loop calls on_end once.
// `in` and `out` are taken, also on failure.  Uses m->on_idle.
struct mcp_stdio *mcp_stdio_open(struct mcp *m, int in, int out, void (*on_end)(void *argument),
                                 void *argument, struct err *e);

// Stops reading, cancels all calls, and ends when the answers are out.
void mcp_stdio_stop(struct mcp_stdio *io);

void mcp_stdio_close(struct mcp_stdio *io);

#endif
