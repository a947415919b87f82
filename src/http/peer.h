// SPDX-License-Identifier: Apache-2.0
//
// peer: which user of this machine is at the other end of a loopback connection.  A server without
// a key serves the user that started it and root (door.h).
//
// A user and not a generated key: clients that have only a URL, and the page, keep working.
//
// The gate asks the kernel for the one socket with the addresses of the connection, over
// NETLINK_SOCK_DIAG; where that is missing it reads /proc/net/tcp and tcp6.  Both are opened before
// the gate seals itself.

#ifndef CONSTRICTOR_HTTP_PEER_H
#define CONSTRICTOR_HTTP_PEER_H

#include <sys/types.h>

#include "base/err.h"

enum { PEER_FDS = 2, PEER_UNKNOWN = -1 };

// Opens what peer_uid() needs: 1 or 2 descriptors.  Returns their number, or a negative code and
// `e`.
int peer_open(int ret[PEER_FDS], struct err *e);

// The user at the other end of `sock`; (uid_t)PEER_UNKNOWN: that end is closed already, or on
// another machine.
uid_t peer_uid(const int *fds, unsigned count, int sock);

#endif
