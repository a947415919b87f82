// SPDX-License-Identifier: Apache-2.0
//
// spool: bodies that are too large for memory: files that a client sends go into a file of the
// server's as they come, and libevent sees the request when all of it is there, without its body.

#ifndef CONSTRICTOR_HTTP_BODY_FILE_H
#define CONSTRICTOR_HTTP_BODY_FILE_H

#include "http/conn.h"

// Does the body of this request go into a file?  1: it does, 0: no, -1: it was refused.  Its head
// has `n` bytes.
int body_file_begin(struct conn *c, const struct head *head, size_t n);
// More of the body is here.
void body_file_take(struct conn *c);

#endif
