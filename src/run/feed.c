// SPDX-License-Identifier: Apache-2.0
//
// feed: stdin of a run, on its way from the client to the box.  Part of run.h.
//
// The box asks (WANT), and the gate answers with one INPUT frame.  So neither side ever holds more
// than one frame for the other, even when there is much stdin and the code reads slowly.  Bytes
// that the client has sent wait in `data`; the size of the request or RUN_FEED_MAX bounds them.
//
// SECURITY: a box may ask without reading.  At most one INPUT frame is on its way, and a box
// that asks again before the answer, or after the end, breaks the protocol and is ended.  So a box
// can send at most one WANT frame more than there are INPUT frames.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

enum {
    ASK_COST = 64,          // bytes of output that a question counts as, besides its prompt
    ASK_AGAIN_COST = 16384, // one whose predecessor was not answered: after an interrupt, or a lie
};

struct feed {
    struct evbuffer *data; // not sent yet
    bool open;             // more may follow
    bool wanted;           // the box has asked, and was not answered yet
    bool sending;          // `frame` is lent to the socket
    bool ended;            // the end is sent
    bool asking;           // the code waits for a person
    uint64_t cost;         // of the questions
    char frame[FRAME_DATA_MAX];
};

static void send_next(struct run *r)
{
    struct feed *f = r->feed;
    size_t length = evbuffer_get_length(f->data);
    if (!f->wanted || f->sending || r->state != RUN_RUNNING)
        return;
    if (!length && f->open) {
        if (r->request.on_hungry)
            r->request.on_hungry(r);
        return;
    }
    length = length < sizeof f->frame ? length : sizeof f->frame;
    if (length)
        (void)evbuffer_remove(f->data, f->frame, length);
    f->wanted = false;
    f->sending = true;
    f->ended = length == 0;
    struct frame_piece piece = {f->frame, length};
    if (live_send(r->box, FRAME_INPUT, &piece, 1, false) < 0)
        run_stop(r, END_CANCELLED); // memory is out: the code must not see a shorter stdin
}

void feed_on_sent(struct run *r)
{
    if (!r->feed || !r->feed->sending)
        return;
    r->feed->sending = false;
    send_next(r);
}

int feed_on_want(struct live_box *b)
{
    struct run *r = b->owner;
    struct feed *f = r->feed;
    if (r->state > RUN_RUNNING)
        return 0; // it ends anyway
    if (!f || r->state != RUN_RUNNING || f->wanted || f->ended)
        return -EBADMSG;
    f->wanted = true;
    send_next(r);
    return 0;
}

int feed_on_ask(struct live_box *b, const char *prompt, size_t length)
{
    struct run *r = b->owner;
    struct feed *f = r->feed;
    if (r->state > RUN_RUNNING)
        return 0;
    if (!f || r->state != RUN_RUNNING || !r->request.on_ask)
        return -EBADMSG;
    // SECURITY: each becomes a message to the client, and a dialog for a person: so they count as
    // output, and much when nothing was answered.
    f->cost += length + (f->asking ? ASK_AGAIN_COST : ASK_COST);
    if (f->cost > r->request.output_bytes)
        run_stop(r, END_OUTPUT);
    else if (f->wanted && (f->asking = f->open)) // else bytes for it are on their way
        r->request.on_ask(r, prompt, length);
    return 0;
}

bool run_is_fed(const struct run *r)
{
    return r->feed && r->feed->open && r->state <= RUN_RUNNING;
}

bool run_is_asking(const struct run *r)
{
    return run_is_fed(r) && r->feed->asking;
}

int run_feed(struct run *r, const void *data, size_t length)
{
    if (!run_is_fed(r))
        return -EPIPE;
    if (evbuffer_get_length(r->feed->data) + length > RUN_FEED_MAX)
        return -ENOBUFS;
    if (length && evbuffer_add(r->feed->data, data, length) < 0)
        return -ENOMEM;
    r->feed->open = length > 0;
    r->feed->asking = false;
    send_next(r);
    return 0;
}

bool feed_begin(struct run *r)
{
    const struct run_request *q = &r->request;
    r->feed = malloc(sizeof *r->feed);
    if (!r->feed)
        return false;
    memset(r->feed, 0, offsetof(struct feed, frame));
    r->feed->open = q->stdin_open;
    r->feed->data = evbuffer_new();
    return r->feed->data &&
           (!q->stdin_length ||
            evbuffer_add_reference(r->feed->data, q->stdin_data, q->stdin_length, NULL, NULL) == 0);
}

void feed_end(struct run *r)
{
    if (!r->feed)
        return;
    if (r->feed->data)
        evbuffer_free(r->feed->data);
    free(r->feed);
    r->feed = NULL;
}
