// SPDX-License-Identifier: Apache-2.0
//
// proxy: parses --index-proxy.  Read by the broker, which alone connects to it (broker/tunnel.h),
// and at the start to report mistakes.  SECURITY: the login in it is a secret that no box and no
// log gets.

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
