// SPDX-License-Identifier: Apache-2.0
//
// login: a connection to an index that wants a user and a password, for a box that must not have
// them.  The box speaks plain HTTP; here TLS is made of it, the certificate is checked, and each
// request gets its Authorization.  Called by conn.c for boxes that install, between dialling and
// relaying: relay.c has one end of a pair of sockets, this has the other.
//
// SECURITY: only GET and HEAD, without a body, and only header lines that are known to be harmless
// go on; so no request can be made to come back with what was added (TRACE), and none can hide in
// another.  Answers are as they are.

#ifndef CONSTRICTOR_BROKER_LOGIN_H
#define CONSTRICTOR_BROKER_LOGIN_H

#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/request.h"
#include "net/login.h"

enum { LOGIN_HELLO_MS = 15000, LOGIN_HELD_MAX = 256 * 1024 };

struct login;

// What all of them share: the certificates that this machine trusts.  Before the broker is sealed:
// it reads files. NULL and `e` on failure.
SSL_CTX *login_open(struct err *e);

// Takes `fd`, a connection to the host.  Calls back once, never before it has returned: a
// descriptor that takes requests and gives answers, and belongs to the callee; or -1 and why not,
// and then this is gone.  NULL: out of memory; `fd` is closed.  `who` stays.
struct login *login_new(struct event_base *base, int fd, SSL_CTX *tls, const struct net_login *who,
                        void (*done)(int fd, int errnum, const char *why, void *argument),
                        void *argument);
void login_free(struct login *l); // fine with NULL

// Pure: the head [data, data + length), which request_next() read into `h`, as it goes on.  Its
// length in `ret`, or -1 and *ret_why.
ssize_t login_head(const char *data, size_t length, const struct request_head *h,
                   const struct net_login *who, char *ret, size_t cap, const char **ret_why);

#endif
