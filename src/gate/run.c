// SPDX-License-Identifier: Apache-2.0
//
// run: see run.h.  Everything read here from a box is hostile: lengths are bounded by frame.c and by
// the output limit, descriptors that a box might send are closed, and nothing that it says decides
// about verdict or usage.

#include "gate/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

enum {
    READ_MAX = 65536,
    READS_PER_EVENT = 16,
    RESULT_VALUES_MAX = 200000,
    QUEUE_GRACE_MS = 60000, // longest wait for a box, on top of the wall time of the run
};

static void event_stop(struct event **event)
{
    if (*event)
        event_free(*event);
    *event = NULL;
}

// ---- the end ---------------------------------------------------------------------------------------

static void drain(struct run *r);

static void close_box(struct run *r)
{
    event_stop(&r->control_event);
    event_stop(&r->write_event);
    event_stop(&r->wall_event);
    fd_close(&r->control);
    for (int i = 0; i < RUN_STREAMS; i++) {
        event_stop(&r->stream_event[i]);
        fd_close(&r->fd[i]);
    }
}

static void done(struct run *r)
{
    r->state = RUN_DONE;
    r->gate->running--;
    r->t_end_us = (uint64_t)clock_us();
    close_box(r);
    r->request.on_done(r); // may free r
}

// The result of a kept box: its output is complete, because the runner flushes before it answers.
// on_done is not called from here: it may free the run, and the caller is not finished with it.
static void pause_run(struct run *r)
{
    event_stop(&r->wall_event);
    drain(r);
    if (r->state >= RUN_ENDING) // too much output after all: on_ended() goes on
        return;
    r->state = RUN_IDLE;
    r->gate->running--;
    r->answered = true;
    r->t_end_us = (uint64_t)clock_us();
}

// Gives the box back.  The first reason counts.
static void release(struct run *r, enum wire_end end)
{
    if (r->state >= RUN_ENDING)
        return;
    r->state = RUN_ENDING;
    r->end = end;
    event_stop(&r->wall_event);
    event_stop(&r->write_event);
    if (link_release(&r->gate->link, r->box, end, r->request.wait_reaped || end != END_DONE) < 0)
        log_line(LOG_ERROR, "the keeper cannot be reached");
}

// ---- output ----------------------------------------------------------------------------------------

// Returns 1 when there may be more, 0 at the end or when nothing is there.
static int read_stream(struct run *r, enum run_stream stream)
{
    uint64_t room = r->request.output_bytes - r->output_kept;
    // One byte more than fits tells "exactly full" from "too much".
    int want = room < READ_MAX ? (int)room + 1 : READ_MAX;
    int n = evbuffer_read(r->output[stream], r->fd[stream], want);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        event_stop(&r->stream_event[stream]);
        fd_close(&r->fd[stream]);
        return 0;
    }
    r->output_total[stream] += (uint64_t)n;
    r->output_kept += (uint64_t)n;
    if (r->output_kept > r->request.output_bytes) {
        // Drop the byte too many; nothing more is kept.
        size_t length = evbuffer_get_length(r->output[stream]);
        struct evbuffer *rest = evbuffer_new();
        if (rest) {
            (void)evbuffer_remove_buffer(r->output[stream], rest, length - 1);
            evbuffer_free(r->output[stream]);
            r->output[stream] = rest;
        }
        r->output_kept = r->request.output_bytes;
        event_stop(&r->stream_event[RUN_STDOUT]);
        event_stop(&r->stream_event[RUN_STDERR]);
        release(r, END_OUTPUT);
        // The result may have come before the output was read: then the box was released already, but
        // what was cut must not look complete.
        if (r->end == END_DONE || r->end == END_OWN)
            r->end = END_OUTPUT;
        n = 0;
    }
    if (r->request.on_output && r->request.on_output(r, stream, r->output[stream]) < 0)
        release(r, END_CANCELLED);
    return n > 0;
}

static void on_stream(evutil_socket_t fd, short what, void *argument)
{
    struct run *r = argument;
    enum run_stream stream = fd == r->fd[RUN_STDOUT] ? RUN_STDOUT : RUN_STDERR;
    (void)what;
    for (int i = 0; i < READS_PER_EVENT && read_stream(r, stream) > 0; i++)
        ; // bounded, so that one flood does not starve the others
}

// What was written before the end is still in the pipes; the output limit bounds it.
static void drain(struct run *r)
{
    for (int stream = 0; stream < RUN_STREAMS; stream++)
        while (r->end != END_OUTPUT && r->fd[stream] >= 0 &&
               read_stream(r, (enum run_stream)stream) > 0)
            ;
}

// ---- what the box says -------------------------------------------------------------------------------

// How many values a text has if it is JSON.  What stands in a string counts for nothing.
static size_t count_values(const char *data, size_t length)
{
    size_t values = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (data[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += data[i] == '\\';
        else
            values += data[i] == ',' || data[i] == '[' || data[i] == '{';
    }
    return values;
}

// SECURITY: jansson spends some 70 bytes on each value, so a small frame of "{},{},..." could take
// hundreds of megabytes.  The runner's own bounds are far below this one.
static json_t *parse_result(const char *data, size_t length)
{
    if (count_values(data, length) > RESULT_VALUES_MAX)
        return NULL;
    json_t *result = json_loadb(data, length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(result)) {
        json_decref(result);
        result = NULL;
    }
    return result;
}

static void take_frame(struct run *r)
{
    struct frame_exit gone;
    switch ((enum frame_kind)r->reader.kind) {
    case FRAME_RESULT:
        if (r->result || r->state == RUN_IDLE)
            break; // one run, one result
        r->result = parse_result(r->reader.data, r->reader.total);
        if (r->state >= RUN_ENDING)
            break; // it ends already, and this is only what it had to say
        if (r->result && r->request.keep)
            pause_run(r);
        else
            release(r, r->result ? END_DONE : END_PROTOCOL);
        break;
    case FRAME_EXIT:
        if (r->reader.total != sizeof gone) {
            release(r, END_PROTOCOL);
            break;
        }
        memcpy(&gone, r->reader.data, sizeof gone);
        r->has_exit = true;
        r->exit_status = gone.status;
        break; // ENDED follows by itself
    case FRAME_RUN:
    case FRAME_READY:
    case FRAME_FAILED:
    case FRAME_KIND_MAX: release(r, END_PROTOCOL); break;
    }
}

static void read_control(struct run *r)
{
    int fd = r->control;
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK]; // one thread, used at once
    for (int i = 0; i < READS_PER_EVENT && r->control_event && !r->answered; i++) {
        // SECURITY: a box cannot leave descriptors with us: none are asked for, so they are closed.
        ssize_t n = fd_recv(fd, datagram, sizeof datagram, NULL, 0, NULL);
        if (n == -EAGAIN)
            return;
        if (n == 0 || n == -ECONNRESET) {
            event_stop(&r->control_event); // its init is gone: ENDED follows by itself
            return;
        }
        int complete = n < 0 ? -EBADMSG : frame_reader_feed(&r->reader, datagram, (size_t)n);
        if (complete < 0) {
            event_stop(&r->control_event);
            release(r, END_PROTOCOL);
            return;
        }
        if (complete)
            take_frame(r);
    }
}

static void on_control(evutil_socket_t fd, short what, void *argument)
{
    struct run *r = argument;
    (void)fd;
    (void)what;
    read_control(r);
    if (r->answered) {
        r->answered = false;
        r->request.on_done(r); // may free r, or start the next run in this box
    }
}

// ---- sending -----------------------------------------------------------------------------------------

static void send_code(struct run *r)
{
    struct frame_run head = {.meta_length = (uint32_t)r->request.meta_length,
                             .code_length = (uint32_t)r->request.code_length};
    struct frame_piece pieces[] = {{&head, sizeof head},
                                   {r->request.meta, r->request.meta_length},
                                   {r->request.code, r->request.code_length}};
    int n = frame_send(r->control, FRAME_RUN, pieces, 3, &r->sent);
    if (n == -EAGAIN)
        return; // write_event calls again
    event_stop(&r->write_event);
    if (n == 0 && r->state == RUN_SENDING)
        r->state = RUN_RUNNING;
    // Any other failure: the box is gone, and its end is on the way.
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    send_code(argument);
}

static void on_wall(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    release(argument, END_WALL);
}

static bool watch(struct run *r, struct event **event, int fd, short what, event_callback_fn call,
                  const struct timeval *timeout)
{
    *event = event_new(r->gate->base, fd, what, call, r);
    return *event && event_add(*event, timeout) == 0;
}

static bool set_wall(struct run *r)
{
    struct timeval wall = {.tv_sec = (time_t)(r->request.wall_ms / 1000),
                           .tv_usec = (suseconds_t)(r->request.wall_ms % 1000) * 1000};
    return watch(r, &r->wall_event, -1, EV_TIMEOUT, on_wall, &wall);
}

static bool watch_sending(struct run *r)
{
    return r->state != RUN_SENDING ||
           watch(r, &r->write_event, r->control, EV_WRITE | EV_PERSIST, on_writable, NULL);
}

static void on_box(struct run *r, const struct wire_box *m, int control, int out, int err)
{
    r->ticket = 0;
    event_stop(&r->wall_event);
    if (control < 0) {
        err_set(&r->error, (enum err_code)m->error_code, 0, m->hint, "%s", m->error);
        done(r);
        return;
    }
    r->t_box_us = (uint64_t)clock_us();
    r->state = RUN_SENDING;
    r->box = m->box;
    r->parked = m->parked;
    r->control = control;
    r->fd[RUN_STDOUT] = out;
    r->fd[RUN_STDERR] = err;
    (void)fd_set_nonblock(control, true);
    (void)fd_set_nonblock(out, true);
    (void)fd_set_nonblock(err, true);
    send_code(r);
    if (!watch(r, &r->control_event, control, EV_READ | EV_PERSIST, on_control, NULL) ||
        !watch(r, &r->stream_event[RUN_STDOUT], out, EV_READ | EV_PERSIST, on_stream, NULL) ||
        !watch(r, &r->stream_event[RUN_STDERR], err, EV_READ | EV_PERSIST, on_stream, NULL) ||
        !set_wall(r) || !watch_sending(r))
        release(r, END_CANCELLED);
}

static void on_ended(struct run *r, const struct wire_ended *m)
{
    r->has_ended = true;
    r->ended = *m;
    r->state = RUN_ENDING;
    if (r->control_event) // an EXIT or RESULT may still be unread
        read_control(r);
    drain(r);
    done(r);
}

const struct link_user link_user = {.on_box = on_box, .on_ended = on_ended};

// ---- the outside -------------------------------------------------------------------------------------

static void fail_soon(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    done(argument);
}

// ---- what waits for a box ----

static void hold(struct run *r)
{
    struct gate *g = r->gate;
    if (!g->held_count)
        TAILQ_INIT(&g->held);
    TAILQ_INSERT_TAIL(&g->held, r, list);
    g->held_count++;
    r->held = true;
}

static void unhold(struct run *r)
{
    if (!r->held)
        return;
    TAILQ_REMOVE(&r->gate->held, r, list);
    r->gate->held_count--;
    r->held = false;
}

// Nobody wants it any more, wherever it waits.
static void leave_queue(struct run *r)
{
    unhold(r);
    link_forget(&r->gate->link, r->ticket, 0);
    r->ticket = 0;
}

// SECURITY: a run that is cancelled while it waits is over for its caller at once, but not for the
// keeper, who may be making a box for it.  That counts like a run, or calls that are cancelled as soon as
// they are sent would have no bound.  Who comes meanwhile waits here, where cancelling costs nothing.
static bool has_room(const struct gate *g, unsigned more)
{
    return !g->runs_max || g->running - g->held_count + more + g->link.unwanted <= g->runs_max;
}

static int acquire(struct run *r)
{
    struct wire_acquire m = {.cpu_ms = r->request.cpu_ms, .limits = r->request.limits};
    int n = link_acquire(&r->gate->link, r, &m, &r->error);
    if (n == 0)
        r->ticket = m.ticket;
    return n;
}

void run_send_held(struct gate *g)
{
    while (g->held_count && has_room(g, 1)) {
        struct run *r = TAILQ_FIRST(&g->held);
        unhold(r);
        if (acquire(r) < 0)
            done(r);
    }
}

static void on_wait(evutil_socket_t fd, short what, void *argument)
{
    struct run *r = argument;
    (void)fd;
    (void)what;
    leave_queue(r);
    err_set(&r->error, ERR_BUSY, ETIMEDOUT, "run it again, or send fewer runs at once",
            "no box was free in time");
    done(r);
}

// Those that run and those that wait for a box; this one is counted already.
static int admit(const struct gate *g, struct err *e)
{
    if (!g->runs_max || g->running <= g->runs_max)
        return 0;
    return err_set(e, ERR_BUSY, 0, "run it again when others have ended, or raise --runs",
                   "%u runs are going on already", g->runs_max);
}

struct run *run_start(struct gate *g, const struct run_request *request)
{
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct run){.gate = g,
                      .request = *request,
                      .control = -1,
                      .fd = {-1, -1},
                      .reader = {.max = FRAME_RESULT_MAX},
                      .t_begin_us = (uint64_t)clock_us()};
    g->running++;
    g->begun++;
    for (int i = 0; i < RUN_STREAMS; i++)
        if (!(r->output[i] = evbuffer_new())) {
            run_free(r);
            return NULL;
        }
    int n = admit(g, &r->error);
    if (n == 0 && (g->held_count || !has_room(g, 0)))
        hold(r);
    else if (n == 0)
        n = acquire(r);
    if (n < 0) {
        // Not from here: the caller does not have its run yet.
        struct timeval now = {0};
        if (!watch(r, &r->wall_event, -1, EV_TIMEOUT, fail_soon, &now)) {
            run_free(r);
            return NULL;
        }
        return r;
    }
    uint64_t wait_ms = request->wall_ms + QUEUE_GRACE_MS;
    struct timeval wait = {.tv_sec = (time_t)(wait_ms / 1000)};
    (void)watch(r, &r->wall_event, -1, EV_TIMEOUT, on_wait, &wait); // without it: a longer wait
    return r;
}

void run_next(struct run *r, const char *code, size_t code_length)
{
    r->request.code = code;
    r->request.code_length = code_length;
    json_decref(r->result);
    r->result = NULL;
    r->sent = 0;
    r->output_kept = 0;
    for (int i = 0; i < RUN_STREAMS; i++) {
        r->output_total[i] = 0;
        (void)evbuffer_drain(r->output[i], evbuffer_get_length(r->output[i]));
    }
    r->state = RUN_SENDING;
    r->gate->running++;
    r->gate->begun++;
    r->t_begin_us = r->t_box_us = (uint64_t)clock_us();
    send_code(r);
    if (!set_wall(r) || !watch_sending(r))
        release(r, END_CANCELLED);
}

void run_cancel(struct run *r)
{
    if (r->state == RUN_WAITING && (r->ticket || r->held)) {
        leave_queue(r);
        r->end = END_CANCELLED;
        done(r);
    } else if (r->state == RUN_IDLE || r->state == RUN_SENDING || r->state == RUN_RUNNING) {
        release(r, END_CANCELLED);
    }
}

void run_interrupt(struct run *r)
{
    if (r->state == RUN_SENDING || r->state == RUN_RUNNING)
        (void)link_interrupt(&r->gate->link, r->box);
}

void run_free(struct run *r)
{
    if (!r)
        return;
    if (r->state != RUN_DONE && r->state != RUN_IDLE)
        r->gate->running--;
    unhold(r);
    link_forget(&r->gate->link, r->ticket, r->box);
    close_box(r);
    for (int i = 0; i < RUN_STREAMS; i++)
        if (r->output[i])
            evbuffer_free(r->output[i]);
    frame_reader_done(&r->reader);
    json_decref(r->result);
    free(r);
}
