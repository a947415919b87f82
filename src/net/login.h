// SPDX-License-Identifier: Apache-2.0
//
// login: users and passwords of package indexes: from the addresses of --index-url and
// --extra-index-url, and from the file of --index-credentials.  The first process (main.c) removes
// them from the configuration before it shows, logs or forks anything.
//
// SECURITY: from then on they are in a memory file whose descriptor the keeper holds.  The broker
// reads it and adds them to requests (broker/login.h); the gate, the zygote and boxes close the
// descriptor and never have the text.  Only the list of hosts with logins is public.

#ifndef CONSTRICTOR_NET_LOGIN_H
#define CONSTRICTOR_NET_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "net/proxy.h"

enum {
    NET_LOGINS_MAX = 16,
    NET_PLAIN_MAX = 2048, // bytes of user, colon and password
    NET_VALUE_MAX = 6 + (NET_PLAIN_MAX + 2) / 3 * 4,
};

struct net_login {
    char host[NET_HOST_MAX + 1]; // normalised, or an address as text
    uint16_t port;
    char value[NET_VALUE_MAX + 1]; // of the header Authorization: "Basic ..."
};

struct net_logins {
    size_t count;
    struct net_login items[NET_LOGINS_MAX];
};

// Removes the logins from addresses in `c` and in the environment.  0, or negative and `e`.
int net_logins_take(struct config *c, struct err *e);

// For the broker, before it closes unknown descriptors.  0, or -errno.
int net_logins_read(struct net_logins *ret);

// The address that a box gets for an index with a login: plain HTTP to the same port, to which the
// broker adds TLS.  False: no login, the box gets the address itself.
bool net_login_address(const char *url, char *ret, size_t cap);

// The parts, for tests.
// "https://user:password@host:port/path" becomes "https://host:port/path".  1: there was a login;
// 0; or negative and `e`.
int net_login_split(char *url, struct net_login *ret, struct err *e);
// "machine HOST login USER password PASSWORD", in any number of lines; '#' begins a comment.  Adds
// those whose host is in `hosts` and that have none yet.  `text` is overwritten.
int net_login_file(char *text, const struct net_logins *hosts, struct net_logins *all,
                   struct err *e);

#endif
