// SPDX-License-Identifier: Apache-2.0
//
// tunnel: asks a proxy, over an open connection, for a tunnel to a host (CONNECT).  Called
// by conn.c for boxes that install, when the operator named a proxy for that.

#ifndef CONSTRICTOR_BROKER_TUNNEL_H
#define CONSTRICTOR_BROKER_TUNNEL_H

#include <event2/event.h>
#include <stdint.h>

#include "net/proxy.h"

enum { TUNNEL_MS = 15000, TUNNEL_ANSWER_MAX = 8192 };

struct tunnel;

// Takes `fd`.  Calls back once, after it has returned: the same descriptor, which now leads to the
// host, or -1 and the reason.  NULL: out of memory; `fd` is closed.
struct tunnel *tunnel_new(struct event_base *base, int fd, const struct net_proxy *proxy,
                          const char *host, uint16_t port,
                          void (*done)(int fd, int errnum, const char *why, void *argument),
                          void *argument);
void tunnel_free(struct tunnel *t); // gives up; fine with NULL

#endif
