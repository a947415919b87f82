// SPDX-License-Identifier: Apache-2.0
//
// net: the network namespace of a box.  Called by the zygote (spawn.c), before and after it clones
// a stem or a box.
//
// With network: every address of the namespace is local and nothing leads out of it: a connection
// reaches one of the broker's sockets, or the kernel refuses it at once.
//
// Without network: 127.0.0.0/8 and ::1 are local, and there is no route to anything else.

#ifndef CONSTRICTOR_BOX_NET_H
#define CONSTRICTOR_BOX_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

// The steps, each with its layer and its text for errors.  The last is not about the network: the
// zygote enters that namespace at the same moment.
#define NET_STEP_MAP(X)                                                                            \
    X(NET_NAMESPACE, "net_ns", "make a network namespace")                                         \
    X(NET_ROUTES, "net_ns", "make every address of it local (netlink)")                            \
    X(NET_PORTS, "net_ns", "open all ports of it (net.ipv4.ip_unprivileged_port_start)")           \
    X(NET_SOCKETS, "net_ns", "make the broker's sockets in it")                                    \
    X(NET_LO, "net_ns", "bring up the loopback device")                                            \
    X(NET_BOUND, "net_ns", "bound what ended connections hold (net.ipv4.tcp_max_tw_buckets)")      \
    X(NET_HIDE, "net_ns", "hide its counters (/proc/PID/net)")                                     \
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

// Makes servers possible in the namespace that the caller is in: lo goes up, and nothing else.  If
// `shared`, boxes use the namespace one after the other.  0, or a negative errno and the step.
int net_loopback(int proc_fd, bool shared, enum net_step *ret_step);

// Back to where the zygote was before the first of them: what it stays in cannot end with its box.
void net_leave(void);

void net_close(int fds[WIRE_NET_FDS]);

const char *net_step_layer(uint32_t step);
const char *net_step_text(uint32_t step);

#endif
