// SPDX-License-Identifier: Apache-2.0
//
// wire/broker: what the gate and the broker say to each other.
//
// Each datagram is one JSON object of at most BROKER_DATAGRAM bytes.
//   gate -> broker
//     {"op": "grant", "box": N, "key": "name", "run": "id", "rule_sets": [RULES, ...]}
//        From now on these rule sets bound the box, besides the operator's for the key.  Before the
//        first grant nothing is allowed.  The gate sends a grant before the code, and a broker that
//        hears of a box first reads what the gate has sent.
//     {"op": "settle", "box": N}
//        Asks for a report.
//   broker -> gate
//     {"op": "report", "box": N, "connections": n, "requests": n, "bytes_up": n, "bytes_down": n,
//      "hosts": [{"host", "port", "connections", "bytes_up", "bytes_down"}], "hosts_left_out": n,
//      "events": [EVENT], "events_left_out": n}
//        What happened since the last report.
//     {"op": "report", "box": N, "unknown": true}
//        The broker does not have this box.
//   EVENT: {"kind": "network",
//           "action": "resolve" | "connect" | "tls" | "http" | "quota" | "udp" | "raw",
//           "target": "host:port", "host", "address", "port", "rule", "reason",
//           "layer": "broker" | "box", "hint", "count"}
//        Layer "box": the Python side in the box refused it; nothing reached the broker.

#ifndef CONSTRICTOR_WIRE_BROKER_H
#define CONSTRICTOR_WIRE_BROKER_H

#include "wire/wire.h"

enum {
    BROKER_DATAGRAM = 128 * 1024,
    BROKER_TCP_FDS = WIRE_NET_FDS - 2, // ports of one box
    BROKER_EVENTS_MAX = 32,            // kinds of denials in one report; the rest is counted
    BROKER_HOSTS_MAX = 32,             // hosts in one report
};

#endif
