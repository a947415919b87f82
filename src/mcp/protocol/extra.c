// SPDX-License-Identifier: Apache-2.0
//
// extra: see extra.h.

#include "mcp/protocol/extra.h"

struct mcp_extra *mcp_extras;

void mcp_extra_register(struct mcp_extra *extra)
{
    struct mcp_extra **last = &mcp_extras;
    while (*last)
        last = &(*last)->next;
    *last = extra;
}

void mcp_extra_append(json_t *list, json_t *rows)
{
    (void)json_array_extend(list, rows);
    json_decref(rows);
}
