// SPDX-License-Identifier: Apache-2.0
//
// body_file: bodies that are too large for memory: a file that a client sends is written into a
// file of the server as it arrives; libevent sees the request, without its body, when it is
// complete.

#ifndef CONSTRICTOR_HTTP_BODY_FILE_H
#define CONSTRICTOR_HTTP_BODY_FILE_H

#include "http/conn.h"

// Does the body of this request go into a file?  1: it does, 0: no, -1: the request was refused.
// Its head has `n` bytes.
int body_file_begin(struct conn *c, const struct head *head, size_t n);
// More of the body has arrived.
void body_file_take(struct conn *c);

#endif
