// SPDX-License-Identifier: Apache-2.0
//
// proxy: --index-proxy, taken apart.  Read by the broker, which alone speaks with it
// (broker/tunnel.h), and at the start, to tell about mistakes.  SECURITY: what is in it beside host
// and port is a secret; no box and no log gets it.

#ifndef CONSTRICTOR_NET_PROXY_H
#define CONSTRICTOR_NET_PROXY_H

#include <stdint.h>

#include "base/err.h"
#include "net/rules.h"

enum { NET_LOGIN_MAX = 512 };

struct net_proxy {
    char host[NET_HOST_MAX + 1]; // a name, or an address as text
    uint16_t port;
    char login[NET_LOGIN_MAX + 1]; // "Basic ...", or ""
};

// "http://[user:password@]proxy.example.org:3128".  0, or negative and `e`, which does not have the
// login.
int net_proxy_parse(const char *url, struct net_proxy *ret, struct err *e);

#endif
