// SPDX-License-Identifier: Apache-2.0
//
// stdio: the transport of a server that a client has started: one message a line, on stdin and
// stdout. Both eras in one process, over one private session.
//
//   READING    lines are served
//   DRAINING   stdin has ended: what is going on may end by itself, for a moment
//   FLUSHING   nothing is going on any more: the last answers go out, for a moment
//   ENDED      on_end was called

#ifndef CONSTRICTOR_MCP_TRANSPORT_STDIO_H
#define CONSTRICTOR_MCP_TRANSPORT_STDIO_H

#include "mcp/protocol/mcp.h"

struct mcp_stdio;

// Takes stdin and stdout away from everything else: duplicates for the protocol are returned, stdin
// becomes /dev/null and stdout becomes stderr, so that nothing that prints can break the protocol.
// To be called first, with the rights that the program was started with.
int mcp_stdio_take(int *ret_in, int *ret_out, struct err *e);

// Serves until the client is gone or mcp_stdio_stop(); then on_end is called, once, from the loop.
// `in` and `out` are taken, also on failure.  Uses m->on_idle.
struct mcp_stdio *mcp_stdio_open(struct mcp *m, int in, int out, void (*on_end)(void *argument),
                                 void *argument, struct err *e);

// Reads nothing more, cancels what is going on, and ends as soon as the answers are out.
void mcp_stdio_stop(struct mcp_stdio *io);

void mcp_stdio_close(struct mcp_stdio *io);

#endif
