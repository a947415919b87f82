// SPDX-License-Identifier: Apache-2.0
//
// live: a box that the gate uses: its control socket and its listener.  A run has one for itself; a
// session keeps one and lends it to its runs.
//
// SECURITY: everything that comes out of a box is hostile.  Frames are bounded by wire/frame.c;
// descriptors are refused.

#ifndef CONSTRICTOR_RUN_LIVE_H
#define CONSTRICTOR_RUN_LIVE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "run/denials.h"
#include "run/link.h"
#include "run/meter.h"
#include "wire/frame.h"
#include "wire/wire.h"

struct gate;
struct live_box;
struct live_frame;
struct scratch_op;

enum live_stream { LIVE_STDOUT, LIVE_STDERR, LIVE_STREAMS };

// The listener.  Each callback may be NULL; each may hand the box to another listener or free it.
struct live_user {
    void (*on_result)(struct live_box *b, const char *data, size_t length, unsigned flags);
    void (*on_exit)(struct live_box *b, int status); // the user process is gone; ENDED follows
    void (*on_output)(struct live_box *b, enum live_stream stream, const char *data, size_t length);
    // WANT and ASK (wire/frame.h).  -EBADMSG: protocol error.
    int (*on_want)(struct live_box *b);
    int (*on_ask)(struct live_box *b, const char *prompt, size_t length);
    void (*on_sent)(struct live_box *b); // a borrowed frame went out, maybe from within live_send()
    void (*on_garbage)(struct live_box *b); // protocol error; the box is not read any more
    void (*on_quiet)(struct live_box *b);   // the last operation in its files is over
    void (*on_measured)(struct live_box *b, const struct wire_measured *m);
    void (*on_ended)(struct live_box *b, const struct wire_ended *m); // it is gone
};

// Callbacks of files/scratch.h, which asks the box's init about files.
struct live_files {
    // A FILED frame came.  -EBADMSG: protocol error.
    int (*on_filed)(struct live_box *b, const char *data, size_t length);
    void (*fail_all)(struct live_box *b); // the box is gone
};

struct live_box {
    struct gate *gate;
    uint64_t id;
    struct wire_limits limits;
    bool kept;
    bool direct;    // no code will ever run in it: FRAME_DIRECT
    bool has_stdin; // of the next run: FRAME_STDIN
    bool discard;   // output in its pipes is not the next run's: FRAME_DISCARD
    int control;
    struct event *control_event, *write_event;
    struct frame_reader reader;
    TAILQ_HEAD(, live_frame) frames; // to be sent, in order, never mixed
    unsigned frame_count;
    const struct live_user *user;
    void *owner; // of `user`
    // scratch.c: operations that are awaited, oldest first.
    const struct live_files *files; // NULL: nothing was asked yet
    TAILQ_HEAD(, scratch_op) ops;
    uint32_t next_tag;
    unsigned writes;         // scratch.c: writes and deletes that were done
    struct meter meter;      // of a kept box, if there is one
    bool late;               // the next MEASURED answers the previous owner
    bool told;               // the keeper reports calls denied in it
    struct denials *denials; // since the last run was done; NULL: none
    bool has_ended;
    bool silent; // it is gone or broke the protocol: nothing is read or sent
    bool *freed; // see struct live_guard
};

// Any callback may free the box.  A function that calls one and goes on with the box has a guard on
// its stack; an inner guard tells the outer one.
struct live_guard {
    struct live_box *box;
    bool freed, *outer;
};
void live_guard_begin(struct live_guard *g, struct live_box *b);
bool live_guard_end(struct live_guard *g); // true: the box is still there

// Takes the descriptor.  NULL: no memory, and it is closed.
struct live_box *live_new(struct gate *g, uint64_t id, const struct wire_limits *limits, bool kept,
                          int control);
// Closes the gate's descriptors and fails pending operations; the box itself belongs to the keeper.
void live_free(struct live_box *b);

// Sets the listener.  Drops unsent frames that the previous owner lent.  Between two runs the box's
// init holds output back; a box that sends output to a listener without on_output breaks the
// protocol.
void live_listen(struct live_box *b, const struct live_user *user, void *owner);

// Sends a frame made of pieces (at most 4) whose bytes are borrowed until on_sent, or copied
// (`copy`). 0, or -ENOMEM.  To a box that is gone: 0, nothing is sent, and ENDED follows.
int live_send(struct live_box *b, enum frame_kind kind, const struct frame_piece *pieces,
              size_t count, bool copy);

// Reads what is there now, outside of the event loop.
void live_read(struct live_box *b);

#endif
