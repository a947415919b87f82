// SPDX-License-Identifier: Apache-2.0
//
// request_log: every request has an id, the client's own (header X-Request-ID) or a new one; it
// comes back with the answer and stands in the log, one line for each request at level info.
// Called by conn.c and exchange.c.
//
// SECURITY: bodies, and so code, never get into the log; nor do queries, and of the links to files,
// which are secrets, only where they begin.

#ifndef CONSTRICTOR_HTTP_REQUEST_LOG_H
#define CONSTRICTOR_HTTP_REQUEST_LOG_H

#include "http/conn.h"

// The request is complete: finds its id.
void request_log_begin(struct exchange *p);
// Its answer goes out.
void request_log_status(struct exchange *p, int status);
// The request is over: it was answered, or the client left.
void request_log_end(const struct exchange *p);

// Is it an id that may be sent back and logged?
bool request_id_is_good(const char *text);

#endif
