// SPDX-License-Identifier: Apache-2.0
//
// login: a connection to an index that needs a user and a password, for a box that must not have
// them.  The box speaks plain HTTP; this side adds TLS, checks the certificate, and adds
// Authorization to each request.  Called by conn.c for boxes that install, between dialling and
// relaying: relay.c has one end of a pair of sockets, this has the other.
//
// SECURITY: only GET and HEAD without a body and only header lines known to be harmless pass, so
// that no request makes the server echo what was added (TRACE), and none hides in another.  Answers
// are not changed.

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

// Shared by all: the certificates that this machine trusts.  Called before the broker is sealed,
// because it reads files.  NULL and `e` on failure.
SSL_CTX *login_open(struct err *e);

// Takes `fd`, a connection to the host.  Calls back once, after it has returned: a descriptor for
// requests and answers, which the callee owns; or -1 and the reason, and then this is freed.  NULL:
// out of memory; `fd` is closed.  `who` is borrowed.
struct login *login_new(struct event_base *base, int fd, SSL_CTX *tls, const struct net_login *who,
                        void (*done)(int fd, int errnum, const char *why, void *argument),
                        void *argument);
void login_free(struct login *l); // fine with NULL

// Pure: rewrites the head [data, data + length), which request_next() read into `h`.  Its length in
// `ret`, or -1 and *ret_why.
ssize_t login_head(const char *data, size_t length, const struct request_head *h,
                   const struct net_login *who, char *ret, size_t cap, const char **ret_why);

#endif
