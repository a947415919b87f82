// SPDX-License-Identifier: Apache-2.0
//
// broker: the process that reaches hosts for boxes.  The keeper starts it when the configuration
// gives anybody network, and again when it dies; it has no privileges, no files, and starts
// nothing.
//
// A box with network has a network namespace of its own in which every address is local and nothing
// leads out.  The sockets in it that answer are the broker's, made by the zygote before the box:
//   dns    UDP, 127.0.0.1:53: gives out an address of 198.18.0.0/15 for each allowed name of this
//   box
//   ask    UDP, 127.0.0.1:54: tells the Python side why something was refused (broker/ask.h)
//   tcp    unbound; the broker binds them to ports as names with those ports are looked up or asked
//   for
// Whatever connects to one of them shows by its local address where it wanted to go.  The broker
// judges that (net/rules.h), resolves the name, judges the address, dials that very address, and
// carries bytes.
//
// Who says what:
//   keeper -> broker   NET_BOX (+ dns, ask, tcp...)  NET_GONE  NET_LINK (+ a socket to the gate)
//   FILES
//   gate <-> broker    JSON objects, one a datagram of at most BROKER_DATAGRAM bytes:
//     {"op": "grant", "box": N, "key": "name", "run": "id", "layers": [RULES, ...]}
//        from now on these layers bound the box, besides the operator's for the key; before the
//        first grant nothing is allowed.  A grant is sent before the code is, and a broker that
//        hears of a box first reads what the gate has sent.
//     {"op": "settle", "box": N}  ->  {"op": "report", "box": N, "connections": n, "requests": n,
//        "bytes_up": n, "bytes_down": n, "hosts": [{"host", "port", "connections", "bytes_up",
//        "bytes_down"}],
//        "hosts_left_out": n, "events": [EVENT], "events_left_out": n}: since the last report.
//     EVENT: {"kind": "network", "action": "resolve" | "connect" | "tls" | "http" | "quota" | "udp"
//     | "raw",
//        "target": "host:port", "host", "address", "port", "rule", "reason", "layer": "broker" |
//        "box",
//        "hint", "count"}.  Layer "box": the code's own side said so, nothing came through.
//   {"op": "report", "box": N, "unknown": true} answers a settle for a box that the broker does not
//   have.

#ifndef CONSTRICTOR_BROKER_BROKER_H
#define CONSTRICTOR_BROKER_BROKER_H

#include "keeper/keeper.h"

enum {
    BROKER_DATAGRAM = 128 * 1024,
    BROKER_TCP_FDS = WIRE_NET_FDS - 2, // ports of one box
    BROKER_EVENTS_MAX = 32,            // kinds of refusals in one report; the rest is counted
    BROKER_HOSTS_MAX = 32,             // hosts in one report
};

// The whole life of the process; `sock` leads to the keeper.  Its return value is the exit status.
int broker_main(int sock, const struct keeper_facts *facts);

#endif
