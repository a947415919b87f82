// SPDX-License-Identifier: Apache-2.0
//
// body_file: see body_file.h.  Called by conn.c in the gate.  SECURITY: bytes are only counted and
// written, never looked at; the file has no name, its size is bounded by the caller and its number
// by BODY_FILES_MAX.

#include "http/body_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

// Gives libevent the head without its body fields: the body is in a file.
static void release_head(struct conn *c)
{
    struct evbuffer *head = TAKE_PTR(c->head);
    struct evbuffer *plain = evbuffer_new();
    static const char end[] = "Content-Length: 0\r\n\r\n";
    size_t n;
    int failed = !plain;
    for (char *line; !failed && (line = evbuffer_readln(head, &n, EVBUFFER_EOL_CRLF));) {
        if (n && strncasecmp(line, "Content-Length:", 15) != 0 &&
            strncasecmp(line, "Expect:", 7) != 0)
            failed |= evbuffer_add(plain, line, n) | evbuffer_add(plain, "\r\n", 2);
        free(line);
    }
    failed |= failed ? 0 : evbuffer_add(plain, end, sizeof end - 1);
    c->server->current = c; // on_input() must ignore these bytes
    if (failed || evbuffer_prepend_buffer(bufferevent_get_input(c->bev), plain) < 0) {
        c->server->current = NULL;
        conn_turn_down(c, 503, "busy", "memory is out");
    } else {
        conn_release(c);
    }
    evbuffer_free(head);
    if (plain)
        evbuffer_free(plain);
}

void body_file_take(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    while (c->body_left && evbuffer_get_length(in)) {
        size_t n = evbuffer_get_length(in);
        if (n > c->body_left)
            n = (size_t)c->body_left;
        int written = evbuffer_write_atmost(in, c->x->body_file, (ev_ssize_t)n);
        if (written <= 0) {
            conn_turn_down(c, 507, "disk_full", "there is no room to keep the body");
            return;
        }
        c->body_left -= (uint64_t)written;
    }
    if (c->body_left == 0)
        release_head(c);
}

// SECURITY: a client that sends slowly keeps a body file for long, and must not get all of them,
// nor share them with one accomplice.  So it gets another one only while more are free than it has.
static bool may_begin(const struct conn *c)
{
    const struct conn *other;
    unsigned own = 0, all = c->server->body_files; // both include this one
    TAILQ_FOREACH (other, &c->server->all, all)
        own +=
            other->x && other->x->body_file >= 0 && strcmp(other->x->x.owner, c->x->x.owner) == 0;
    return own - 1 + all - 1 < BODY_FILES_MAX;
}

int body_file_begin(struct conn *c, const struct head *head, size_t n)
{
    struct exchange *p = c->x;
    uint64_t most = 0;
    int fd = c->server->body_file
                 ? c->server->body_file(&p->x, c->server->body_file_argument, &most)
                 : -1;
    if (fd == -1)
        return 0;
    p->body_file = fd < 0 ? -1 : fd;
    c->server->body_files += fd >= 0; // exchange.c subtracts it
    if (fd < 0 || !may_begin(c) || !(c->head = evbuffer_new()) ||
        evbuffer_remove_buffer(bufferevent_get_input(c->bev), c->head, n) != (int)n)
        conn_turn_down(c, 503, "busy", "files cannot be taken now; try again later");
    else if (head->chunked)
        conn_turn_down(c, 411, "length_required",
                       "send this body with its Content-Length, not in chunks");
    else if (head->length > most)
        conn_turn_down(c, 413, "body_too_large", "the file is larger than this server takes");
    else {
        c->body_left = head->length;
        return 1;
    }
    if (c->head)
        evbuffer_free(TAKE_PTR(c->head));
    return -1;
}
