// SPDX-License-Identifier: Apache-2.0
//
// evict: which connection is closed for a new one when there are as many as --connections allows.
// Called by conn.c in the gate; each call takes the same time however many connections there are.
//
// Each connection stands in one of two lists, or in none:
//
//   strangers  it has not shown a valid key; ordered by when it was accepted
//   idle       it has shown one, and is between two requests; the longest idle first
//   none       it has shown one, and has a request in progress: it is never evicted
//
// SECURITY: what a stranger sends does not change its position.  So a client without a key cannot
// look young, and a client with a key has time to show it until the others have opened
// --connections new connections.

#include "base/clock.h"
#include "http/conn.h"

enum { FRESH_MS = 1000 };

void evict_line(struct conn *c, struct conns *line)
{
    if (c->in)
        TAILQ_REMOVE(c->in, c, line);
    c->in = line;
    if (line)
        TAILQ_INSERT_TAIL(line, c, line);
}

void evict_leave(struct conn *c)
{
    if (c->known)
        evict_line(c, NULL);
}

void evict_admit(struct conn *c)
{
    c->known = true;
    evict_line(c, NULL);
}

// A client may not have sent its key in the first second: an idle connection goes before a stranger
// that young.
struct conn *evict_find(const struct http *h)
{
    struct conn *stranger = TAILQ_FIRST(&h->strangers), *idle = TAILQ_FIRST(&h->idle);
    int64_t before_ms = clock_ms() - FRESH_MS;
    bool fresh = !stranger || stranger->accepted_ms > before_ms;
    return fresh && idle && idle->since_ms <= before_ms ? idle : stranger;
}
