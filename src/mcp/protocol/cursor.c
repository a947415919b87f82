// SPDX-License-Identifier: Apache-2.0
//
// cursor: pages of the lists.  A cursor is the number of the next item and the list's name, sealed
// with the server's secret, so that clients cannot make cursors or rely on their form.

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "mcp/protocol/mcp.h"

enum { SEAL_SIZE = 12, CURSOR_MAX = 64 };

static void make(struct mcp *m, const char *name, size_t first, char buf[CURSOR_MAX])
{
    unsigned char full[EVP_MAX_MD_SIZE];
    char text[128];
    int n = snprintf(text, sizeof text, "%.60s:%zu", name, first);
    if (!HMAC(EVP_sha256(), m->secret, sizeof m->secret, (unsigned char *)text, (size_t)n, full,
              NULL))
        memset(full, 0, sizeof full); // no memory: the cursor will be refused
    int at = snprintf(buf, CURSOR_MAX, "%zu-", first);
    for (int i = 0; i < SEAL_SIZE; i++)
        at += snprintf(buf + at, (size_t)(CURSOR_MAX - at), "%02x", full[i]);
}

int mcp_page_begin(struct mcp_call *c, const char *name, size_t *ret_first)
{
    json_t *cursor = json_object_get(c->request.params, "cursor");
    *ret_first = 0;
    if (!cursor)
        return 0;
    const char *text = json_string_value(cursor);
    char number[24], expected[CURSOR_MAX];
    uint64_t first = 0;
    const char *dash = text ? strchr(text, '-') : NULL;
    if (dash && (size_t)(dash - text) < sizeof number) {
        snprintf(number, sizeof number, "%.*s", (int)(dash - text), text);
        if (text_parse_u64(number, 1, INT32_MAX, &first) == 0) {
            make(c->mcp, name, first, expected);
            if (strcmp(expected, text) == 0) {
                *ret_first = first;
                return 0;
            }
        }
    }
    mcp_fail(c, MCP_INVALID_PARAMS, NULL,
             "'cursor' is not from this server for this list; begin again without it");
    return -1;
}

void mcp_page_next(struct mcp_call *c, const char *name, json_t *result, size_t next, size_t total)
{
    char cursor[CURSOR_MAX];
    if (next >= total)
        return;
    make(c->mcp, name, next, cursor);
    (void)json_object_set_new(result, "nextCursor", json_string(cursor));
}
