// SPDX-License-Identifier: Apache-2.0
//
// run: one execution of code, from the request to the verdict.
//
//   WAITING   for a box
//   SENDING   the code goes over the control socket
//   RUNNING   output is read, the result is awaited, limits are watched
//   IDLE      a box that is kept has answered; run_next() or run_cancel() follows
//   ENDING    the box is released; the keeper's ENDED is awaited
//   DONE      on_done was called

#ifndef CONSTRICTOR_GATE_RUN_H
#define CONSTRICTOR_GATE_RUN_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/gate.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum run_state { RUN_WAITING, RUN_IDLE, RUN_SENDING, RUN_RUNNING, RUN_ENDING, RUN_DONE };
enum run_stream { RUN_STDOUT, RUN_STDERR, RUN_STREAMS };

struct run;

struct run_request {
    const char *code; // borrowed until on_done
    size_t code_length;
    const char *meta; // JSON object for the runner, or ""; borrowed until on_done
    size_t meta_length;
    struct wire_limits limits;
    uint64_t wall_ms, cpu_ms, output_bytes;
    bool wait_reaped; // be done when the last process is gone, not when it is doomed
    bool keep;        // the box lives on after the result, for run_next()
    // Called when output came; may take it from the buffer (streaming) or leave it (collecting).
    // Negative: the reader is gone, the run is cancelled.
    int (*on_output)(struct run *r, enum run_stream stream, struct evbuffer *data);
    void (*on_done)(struct run *r);
    void *argument;
};

struct run {
    struct gate *gate;
    struct run_request request;
    enum run_state state;
    uint64_t ticket, box;
    bool parked;
    bool held; // WAITING: in gate->held, the keeper does not know of it yet
    TAILQ_ENTRY(run) list;
    int control, fd[RUN_STREAMS];
    struct event *control_event, *write_event, *stream_event[RUN_STREAMS], *wall_event;
    struct evbuffer *output[RUN_STREAMS];
    uint64_t output_total[RUN_STREAMS], output_kept;
    size_t sent;
    struct frame_reader reader;
    enum wire_end end; // why we released it
    json_t *result;    // what the code said, or NULL
    bool answered;     // a kept box gave its result; on_done is due
    bool has_exit;
    int exit_status; // wait status of the user process, as its init said
    bool has_ended;
    struct wire_ended ended;
    struct err error; // when no box could be had: message[0] != 0
    uint64_t t_begin_us, t_box_us, t_end_us;
};

// Starts a run; on_done comes later, always, and exactly once.  The caller frees with run_free().
struct run *run_start(struct gate *g, const struct run_request *request);

// Sends those on that were held back, as far as there is room; the link calls it.
void run_send_held(struct gate *g);

// The next run in a box that is IDLE; on_done comes again.
void run_next(struct run *r, const char *code, size_t code_length);

// Ends it early; on_done follows.
void run_cancel(struct run *r);

// SIGINT to the code: KeyboardInterrupt.
void run_interrupt(struct run *r);

void run_free(struct run *r);

#endif
