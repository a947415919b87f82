// SPDX-License-Identifier: Apache-2.0
//
// bounds: what callers may ask for, by the configuration: in the schemas of tools, and in their
// answers.

#ifndef CONSTRICTOR_MCP_PROTOCOL_BOUNDS_H
#define CONSTRICTOR_MCP_PROTOCOL_BOUNDS_H

#include <jansson.h>
#include <stdint.h>

#include "config/config.h"

enum { BOUNDS_ANSWER_MS = 50000 }; // clients give up after 60 s, many without being asked

uint64_t bounds_larger(uint64_t a, uint64_t b);
uint64_t bounds_timeout_max_ms(const struct config *c);
uint64_t bounds_timeout_ms(const struct config *c, bool background); // by default
uint64_t bounds_cpu_max_ms(const struct config *c);
uint64_t bounds_memory_max(const struct config *c); // bytes

// A number of seconds, without a point where it has no fraction: 30, 0.5.
json_t *bounds_seconds(uint64_t ms);
uint64_t bounds_milliseconds(json_t *arguments, const char *name, uint64_t fallback_ms);

// Puts maximum and default of timeout, cpu_seconds and memory_mb into a schema that has them; the
// default only with `fallback`.  0 or -1.
int bounds_adapt(const struct config *c, json_t *input_schema, bool fallback);

#endif
