// SPDX-License-Identifier: Apache-2.0
//
// bounds: the largest values that the configuration lets callers ask for, for schemas and answers.

#ifndef CONSTRICTOR_MCP_PROTOCOL_BOUNDS_H
#define CONSTRICTOR_MCP_PROTOCOL_BOUNDS_H

#include <jansson.h>
#include <stdint.h>

#include "config/config.h"

enum { BOUNDS_ANSWER_MS = 50000 }; // many clients give up after 60 s

uint64_t bounds_larger(uint64_t a, uint64_t b);
uint64_t bounds_timeout_ms(const struct config *c, bool background); // by default
uint64_t bounds_memory_max(const struct config *c);                  // bytes

// A number of seconds, an integer if it has no fraction: 30, 0.5.
json_t *bounds_seconds(uint64_t ms);
uint64_t bounds_milliseconds(json_t *arguments, const char *name, uint64_t fallback_ms);

// Sets maximum and, with `fallback`, default of timeout, cpu_seconds and memory_mb where a schema
// has them.  0 or -1.
int bounds_adapt(const struct config *c, json_t *input_schema, bool fallback);

#endif
