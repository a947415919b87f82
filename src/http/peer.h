// SPDX-License-Identifier: Apache-2.0
//
// peer: which user of this machine is at the other end of a loopback connection.  A server without
// a key serves the user that started it and root (door.h).
//
// A user and not a generated key: clients that have only a URL, and the page, go on working.
//
// The kernel is asked for the one socket whose addresses are those of the connection, by a socket
// of NETLINK_SOCK_DIAG; where that is not to be had, by the tables /proc/net/tcp and tcp6.  Both
// are opened before the gate shuts itself in.

#ifndef CONSTRICTOR_HTTP_PEER_H
#define CONSTRICTOR_HTTP_PEER_H

#include <sys/types.h>

#include "base/err.h"

enum { PEER_FDS = 2, PEER_UNKNOWN = -1 };

// Opens what peer_uid() needs: 1 or 2 descriptors.  Returns their number, or a negative code and
// `e`.
int peer_open(int ret[PEER_FDS], struct err *e);

// The user whose socket is connected with this one; (uid_t)PEER_UNKNOWN: it is closed already, or
// on another machine.
uid_t peer_uid(const int *fds, unsigned count, int sock);

#endif
