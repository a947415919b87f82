// SPDX-License-Identifier: Apache-2.0
//
// report: what a box did on the network since the last report: refusals, and traffic by host. Every
// part that refuses or carries fills it; gate_socket.c sends it.  Bounded: the same refusal again
// only counts.

#ifndef CONSTRICTOR_BROKER_REPORT_H
#define CONSTRICTOR_BROKER_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/broker.h"
#include "net/rules.h"

enum { REPORT_HINT_MAX = 512, REPORT_SENTENCE_MAX = 512 };

// A refusal.  Texts are borrowed; explain.c fills it.
struct refusal {
    const char *action, *reason;       // literals
    const char *host;                  // NULL: an address
    const struct net_address *address; // NULL: not known
    uint16_t port;                     // 0: none
    bool from_box;                     // the Python side in the box reported it
    bool again; // the second half of the same question: do not count it twice
    char rule[NET_RULE_TEXT];
    char sentence[REPORT_SENTENCE_MAX]; // for the exception
    char hint[REPORT_HINT_MAX];         // what to do
};

struct report_event;

struct report_host {
    char host[NET_HOST_MAX + 1];
    uint16_t port;
    uint64_t connections, bytes_up, bytes_down;
};

struct report { // zeroes: nothing yet
    struct report_event *events[BROKER_EVENTS_MAX];
    size_t event_count;
    uint64_t events_left_out;
    struct report_host *hosts; // BROKER_HOSTS_MAX of them, when there are any
    size_t host_count;
    uint64_t hosts_left_out;
    uint64_t connections, requests, bytes_up, bytes_down;
};

void report_refusal(struct report *r, const struct refusal *f);
// A connection to `host` that was made, or what an earlier one has carried.
void report_traffic(struct report *r, const char *host, uint16_t port, unsigned connections,
                    uint64_t up, uint64_t down);
// The message for the gate; begins a new report.  NULL: out of memory, and the report stays.
json_t *report_take(struct report *r, uint64_t box);
void report_done(struct report *r);

// "host:port", "[address]:port" or either without a port.
void report_target(const char *host, const struct net_address *address, uint16_t port, char *buf,
                   size_t cap);

#endif
