// SPDX-License-Identifier: Apache-2.0
//
// bounds: see bounds.h.  Pure functions of their arguments.

#include "mcp/protocol/bounds.h"

#include "base/cleanup.h"
#include "base/text.h"

uint64_t bounds_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t bounds_timeout_ms(const struct config *c, bool background)
{
    if (background)
        return config_wall_max_ms(c); // no call waits for it
    return c->wall_ms < BOUNDS_ANSWER_MS ? c->wall_ms : BOUNDS_ANSWER_MS;
}

uint64_t bounds_memory_max(const struct config *c)
{
    return bounds_larger(c->memory_max_bytes, c->memory_bytes);
}

json_t *bounds_seconds(uint64_t ms)
{
    return ms % 1000 ? json_real((double)ms / 1000) : json_integer((json_int_t)(ms / 1000));
}

uint64_t bounds_milliseconds(json_t *arguments, const char *name, uint64_t fallback_ms)
{
    json_t *value = json_object_get(arguments, name);
    return value ? (uint64_t)(json_number_value(value) * 1000 + 0.5) : fallback_ms;
}

int bounds_adapt(const struct config *c, json_t *input_schema, bool fallback)
{
    uint64_t cpu_ms = config_cpu_ms(c, 0, 0); // 0: it depends on the timeout of the call
    const struct {
        const char *name;
        json_t *maximum, *fallback;
    } table[] = {
        {"timeout", bounds_seconds(config_wall_max_ms(c)),
         bounds_seconds(bounds_timeout_ms(c, false))},
        {"cpu_seconds", bounds_seconds(config_cpu_max_ms(c)),
         cpu_ms ? bounds_seconds(cpu_ms) : NULL},
        {"memory_mb", json_integer((json_int_t)(bounds_memory_max(c) / TEXT_MIB)),
         json_integer((json_int_t)(c->memory_bytes / TEXT_MIB))},
    };
    json_t *properties = json_object_get(input_schema, "properties");
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        json_t *property = json_object_get(properties, table[i].name);
        failed |= json_object_set_new(property, "maximum", table[i].maximum);
        if (fallback && table[i].fallback)
            failed |= json_object_set(property, "default", table[i].fallback);
        json_decref(table[i].fallback);
    }
    return failed ? -1 : 0;
}
