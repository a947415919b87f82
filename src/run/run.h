// SPDX-License-Identifier: Apache-2.0
//
// run: one execution of code, from the request to the verdict, in a box of its own or in a session.
//
//   WAITING    for a box, or for its turn in a session
//   PREPARING  the caller does something with the box first (on_box)
//   SENDING    the code goes over the control socket
//   RUNNING    output is read, the result is awaited, limits are watched
//   HOLDING    the result is there; the caller still does something with the box (on_answer)
//   MEASURING  a session keeps the box: the keeper reports what the run used
//   ENDING     the box is released; the keeper's ENDED is awaited
//   SETTLING   the broker's report is awaited (run/network.h)
//   DONE       on_done was called
//
// A run in a box of its own that meets a limit is ended with its box.  In a session it is
// interrupted: the code sees KeyboardInterrupt, and when it stops within the grace time the box
// lives on.

#ifndef CONSTRICTOR_RUN_RUN_H
#define CONSTRICTOR_RUN_RUN_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/timer.h"
#include "run/gate.h"
#include "run/live.h"
#include "run/network.h"
#include "wire/wire.h"

struct session;
struct admitted;
struct run;

// What a run asks of a session, which lends it its box (session/session.h).  The session room is
// above this one, so it sets these functions in gate->session_ops.
struct session_ops {
    // The run wants its turn: run_enter() comes at once or later.  0, or a negative code and `e`.
    int (*join)(struct session *s, struct run *r, struct err *e);
    // The files in the box are this session's now.
    void (*arrived)(struct session *s);
    // The run does not wait any more, or gives the box back.
    void (*part)(struct session *s, struct run *r);
    // The box ended while the run had it; r->ended says how.
    void (*box_ended)(struct session *s, struct run *r);
    const char *(*owner)(const struct session *s);
    uint32_t (*fork_number)(const struct session *s); // 0: it is not a fork
    int64_t (*oldest_ms)(const struct gate *g);       // when the oldest was opened; INT64_MAX: none
};

enum run_state {
    RUN_WAITING,
    RUN_PREPARING,
    RUN_SENDING,
    RUN_RUNNING,
    RUN_HOLDING,
    RUN_MEASURING,
    RUN_ENDING,
    RUN_SETTLING,
    RUN_DONE
};
enum run_stream { RUN_STDOUT = LIVE_STDOUT, RUN_STDERR = LIVE_STDERR, RUN_STREAMS = LIVE_STREAMS };

struct run;

struct run_request {
    const char *owner; // whose share it uses (admission.h); borrowed; NULL: the session's owner, or
                       // the gate
    const char *code;  // borrowed until on_done
    size_t code_length;
    const char *meta; // JSON object for the runner, or ""; borrowed until on_done
    size_t meta_length;
    struct wire_limits limits;
    uint64_t wall_ms, cpu_ms, output_bytes;
    bool cut_output;             // output beyond the limit is dropped, and the code goes on
    bool wait_reaped;            // done when the last process is gone, not when it is killed
    struct session *session;     // runs there; NULL: in a box of its own
    struct network_run *network; // borrowed; NULL: it has none
    bool policed;                // its imports are judged: code_policy.h
    bool brief;                  // it lasts a moment and runs no code of a client
    bool names_line;             // when its time is up, it may say which line was running
    bool wheel_files;            // it is the installer, which sees --find-links
    // Of a run without a session: a box that is ready for it may wait (env/warm_boxes.h); borrowed
    // until on_box; NULL: none.
    const struct warm_box_ask *warm_box;
    // The box is there and the code not yet in it.  True: run_go() follows when the caller is
    // ready.
    bool (*on_box)(struct run *r);
    // The result is there and the box not yet gone; flags of the frame.  True: run_let_go()
    // follows.
    bool (*on_answer)(struct run *r, unsigned flags);
    // stdin.  Without it, code reads an empty file, and input() fails at once.
    bool has_stdin;
    bool stdin_open;        // more may follow, by run_feed()
    const void *stdin_data; // what is there already; borrowed until on_done
    size_t stdin_length;
    // All that was fed is in the box, and there is room for more.
    void (*on_hungry)(struct run *r);
    // The code waits for a line from a person; NULL: there is no person.  The prompt is hostile.
    void (*on_ask)(struct run *r, const char *prompt, size_t length);
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
    struct link_request box_request;
    struct live_box *box; // from its turn until it is done
    bool parked;
    bool deferred;             // WAITING: in gate->deferred, the keeper does not know of it yet
    bool has_turn;             // in a session: this run has its box
    bool entering;             // on_box is being called
    bool selecting;            // PREPARING: see run_select()
    bool watched;              // in a session: the keeper knows that it runs
    bool metered;              // ended.usage has the CPU time already
    struct admitted *admitted; // NULL: it was refused, or is done
    TAILQ_ENTRY(run) list;
    struct timer timer;
    struct evbuffer *output[RUN_STREAMS];
    uint64_t output_total[RUN_STREAMS], output_stored;
    struct feed *feed;  // feed.c; NULL: it has no stdin
    bool output_cut;    // further output is dropped
    bool output_lent;   // the result has "" for it; the caller inserts the text
    enum wire_end end;  // why the gate released it
    enum wire_end soft; // why it was interrupted; END_OWN: it was not
    json_t *result;     // the code's result, or NULL
    unsigned flags;     // of the result's frame
    bool has_exit;
    int exit_status; // wait status of the user process, as its init said
    bool has_ended;  // `ended` is the keeper's last word; false: the box lives on, and `ended` says
                     // what this run used
    struct wire_ended ended;
    struct denials *denials; // system calls that were denied; NULL: none
    bool told;               // the keeper reports denied calls: NULL means none
    struct err error;        // message[0] != 0: there was no box
    uint64_t t_begin_us, t_box_us, t_end_us;
};

// Starts a run; on_done comes later, always, and exactly once.  The caller frees with run_free().
struct run *run_start(struct gate *g, const struct run_request *request);

// For on_box, before it touches the files of a session while the box has those of a fork of it:
// puts the session's own in place, then on_box is called again.  False: memory is out.
bool run_select(struct run *r);

void run_go(struct run *r);     // the end of PREPARING
void run_let_go(struct run *r); // the end of HOLDING

// Asks for boxes for deferred runs, as far as the bound allows; the link calls it.
void run_send_deferred(struct gate *g);

// Ends the run early; on_done follows.
void run_cancel(struct run *r);

// More stdin for a run whose request says that it is open, or its end (`length` 0).  Takes a copy.
// 0, or -ENOBUFS: the box has not taken enough of what was fed before; -EPIPE: the run is over, or
// its stdin has ended; -ENOMEM.
enum { RUN_FEED_MAX = 1 << 20 }; // bytes that wait in the gate
int run_feed(struct run *r, const void *data, size_t length);
bool run_is_fed(const struct run *r);    // it goes on, and takes more stdin
bool run_is_asking(const struct run *r); // and its code waits for a person

// SIGINT to the code: KeyboardInterrupt.
void run_interrupt(struct run *r);

// Fails a run that waits: its session has ended.  on_done follows.
void run_refuse(struct run *r, const struct err *e);

// For the session room: the run has its turn, in this box.
void run_enter(struct run *r, struct live_box *b);

void run_free(struct run *r);

// Between run.c, output.c and feed.c.
bool feed_begin(struct run *r); // false: memory is out
void feed_end(struct run *r);
int feed_on_want(struct live_box *b);
int feed_on_ask(struct live_box *b, const char *prompt, size_t length);
void feed_on_sent(struct run *r);
void run_stop(struct run *r, enum wire_end end); // a limit is met, or the run is cancelled
void run_on_output(struct live_box *b, enum live_stream stream, const char *data, size_t length);
// The JSON object that a box sent, new; NULL: it is not an object, or too large.  Also for check.c.
json_t *run_parse_result(const char *data, size_t length);

#endif
