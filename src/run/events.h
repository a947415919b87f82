// SPDX-License-Identifier: Apache-2.0
//
// events: what code tried and was denied, as results show it: {"kind", "action", "target", "host",
// "address", "port", "rule", "reason", "line", "layer", "hint", "count"}.  The broker and the
// runner report them, and both are untrusted: fields are taken by name and type, texts are cut.

#ifndef CONSTRICTOR_RUN_EVENTS_H
#define CONSTRICTOR_RUN_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/run.h"

enum { EVENTS_MAX = 32, EVENTS_HOSTS_MAX = 32 };

// Appends the valid entries of a list to `events`, up to EVENTS_MAX.  `box`: the code reports them,
// and each is marked so.  Returns how many were left out.
uint64_t events_take(json_t *events, json_t *from, bool box);

// Puts security_events, security_events_omitted, network, network_error and usage.network into a
// result. 0 or -1.
int events_add(json_t *object, const struct run *r);

// {"connections", "requests", "bytes_up", "bytes_down", "hosts", "hosts_omitted"} of a report, new;
// NULL: it is not a report.
json_t *events_usage(json_t *report);

// A hint for the event that the error of a result is about.  False: it is about no event.
bool events_hint(json_t *report, json_t *events, char *buf, size_t cap);

// For people and models: "connecting to host:443 was refused (not_allowed), 3 times; ask ...", or
// the event's own words if they say that already.
void events_describe(json_t *event, char *buf, size_t cap);

#endif
