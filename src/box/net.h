// SPDX-License-Identifier: Apache-2.0
//
// net: the network namespace of a box with network, and the sockets in it that the broker will
// have. Called by the zygote (spawn.c), before and after it clones such a box.
//
// Every address of the namespace is local and nothing leads out of it: a connection reaches one of
// these sockets, or the kernel refuses it at once.

#ifndef CONSTRICTOR_BOX_NET_H
#define CONSTRICTOR_BOX_NET_H

#include <stdint.h>

#include "wire/wire.h"

// The steps, each with its layer and its text for errors.  The last is not about the network: the
// zygote enters that namespace at the same moment.
#define NET_STEP_MAP(X)                                                                            \
    X(NET_NAMESPACE, "net_ns", "make a network namespace")                                         \
    X(NET_ROUTES, "net_ns", "make every address of it local (netlink)")                            \
    X(NET_PORTS, "net_ns", "open all ports of it (net.ipv4.ip_unprivileged_port_start)")           \
    X(NET_SOCKETS, "net_ns", "make the broker's sockets in it")                                    \
    X(NET_IPC, "ipc_ns", "make an ipc namespace")

enum { NET_DNS_PORT = 53, NET_ASK_PORT = 54 }; // see broker/box_question.h

enum net_step {
#define X(name, layer, what) name,
    NET_STEP_MAP(X)
#undef X
        NET_STEP_MAX
};

// Goes into a fresh namespace and fills `ret_fds` with its sockets: UDP 127.0.0.1:53, UDP
// 127.0.0.1:54, and unbound ones for TCP.  0, or a negative errno, the step that failed, and no
// descriptor; either way net_leave() follows.
int net_enter(int proc_fd, int ret_fds[WIRE_NET_FDS], enum net_step *ret_step);

// Back to where the zygote was before the first of them: what it stays in cannot end with its box.
void net_leave(void);

void net_close(int fds[WIRE_NET_FDS]);

const char *net_step_layer(uint32_t step);
const char *net_step_text(uint32_t step);

#endif
