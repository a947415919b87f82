// SPDX-License-Identifier: Apache-2.0
//
// live: see live.h.
//
// Invariants:
//   (1) datagrams of two frames are never mixed: only the first of `frames` is being sent, and the
//       others wait until its last byte is out.
//   (2) any callback may free the box; the code that called it checks its guard before it touches
//       the box.
//   (3) once `silent`, nothing is read and nothing is sent: the box's end comes from the keeper.

#include "run/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "run/gate.h"
#include "wire/pulse.h"

enum {
    READS_PER_EVENT = 16, // so that one flood does not starve the others
    READS_AT_END = 1024,  // more than a socket holds, however small they are
    PIECES_MAX = 4,       // as frame_send()
    FRAMES_MAX = 256,     // frames that wait; an honest box needs fewer
    SMALL_MAX = 16,
};

struct live_frame {
    TAILQ_ENTRY(live_frame) list;
    enum frame_kind kind;
    bool borrowed;
    size_t offset, count;
    struct frame_piece pieces[PIECES_MAX];
    char small[PIECES_MAX][SMALL_MAX]; // borrowed: heads on the sender's stack
    char copy[];
};

// ---- the watchdog -------------------------------------------------------------------------------

// Tells the keeper which box the gate works on: the keeper ends a box that stalls the gate.
static struct pulse *pulse_of(const struct live_box *b)
{
    return b->gate && b->gate->facts ? b->gate->facts->pulse : NULL;
}

// ---- guards -------------------------------------------------------------------------------------

void live_guard_begin(struct live_guard *g, struct live_box *b)
{
    *g = (struct live_guard){.box = b, .outer = b->freed};
    b->freed = &g->freed;
}

bool live_guard_end(struct live_guard *g)
{
    if (!g->freed)
        g->box->freed = g->outer;
    else if (g->outer)
        *g->outer = true;
    return !g->freed;
}

// ---- the end of it ------------------------------------------------------------------------------

static void drop_frame(struct live_box *b, struct live_frame *f)
{
    TAILQ_REMOVE(&b->frames, f, list);
    b->frame_count--;
    free(f);
}

static void drop_frames(struct live_box *b)
{
    for (struct live_frame *f; (f = TAILQ_FIRST(&b->frames));)
        drop_frame(b, f);
}

static void fail_file_operations(struct live_box *b)
{
    if (b->files)
        b->files->fail_all(b);
}

// Stops reading and sending; pending file operations fail.  False: the box was freed meanwhile.
static bool fall_silent(struct live_box *b)
{
    struct live_guard g;
    b->silent = true;
    (void)event_del(b->control_event);
    (void)event_del(b->write_event);
    drop_frames(b);
    live_guard_begin(&g, b);
    fail_file_operations(b);
    return live_guard_end(&g);
}

static void give_up(struct live_box *b)
{
    if (fall_silent(b) && b->user && b->user->on_garbage)
        b->user->on_garbage(b);
}

// ---- reading ------------------------------------------------------------------------------------

// Returns 0, or -EBADMSG for a frame that no honest box sends.  The box may be gone afterwards.
static int take_frame(struct live_box *b)
{
    const struct frame_reader *r = &b->reader;
    const struct live_user *u = b->user;
    struct frame_exit gone;
    switch ((enum frame_kind)r->kind) {
    case FRAME_RESULT:
        if (u && u->on_result)
            u->on_result(b, r->data, r->total, r->flags);
        return 0;
    case FRAME_OUTPUT:
        // SECURITY: an empty frame counts toward no limit, so a box could send them for ever.
        if (r->flags >= LIVE_STREAMS || !r->total || !u || !u->on_output)
            return -EBADMSG;
        u->on_output(b, (enum live_stream)r->flags, r->data, r->total);
        return 0;
    case FRAME_EXIT:
        if (r->total != sizeof gone)
            return -EBADMSG;
        memcpy(&gone, r->data, sizeof gone);
        if (u && u->on_exit)
            u->on_exit(b, gone.status);
        return 0;
    // SECURITY: neither counts toward a limit by itself, so the listener bounds how many it takes.
    case FRAME_WANT: return u && u->on_want && !r->total ? u->on_want(b) : -EBADMSG;
    case FRAME_ASK:
        return u && u->on_ask && r->total <= FRAME_ASK_MAX ? u->on_ask(b, r->data, r->total)
                                                           : -EBADMSG;
    case FRAME_RUN:
    case FRAME_READY:
    case FRAME_FAILED:
    case FRAME_FILE:
    case FRAME_INPUT:
    case FRAME_FILED: // valid ones went to take_filed()
    case FRAME_INTERRUPT:
    case FRAME_KIND_MAX: return -EBADMSG;
    }
    return -EBADMSG;
}

// FILED frames are one datagram each; the bytes of a file are not copied once more.
static bool is_filed(const char *datagram, size_t length)
{
    struct frame_header h;
    if (length < sizeof h)
        return false;
    memcpy(&h, datagram, sizeof h);
    return h.magic == FRAME_MAGIC && h.kind == FRAME_FILED && h.offset == 0 &&
           h.total == length - sizeof h;
}

// An answer meant for a gate that crashed may come before this gate has asked anything.
static int take_filed(struct live_box *b, const char *data, size_t length)
{
    if (b->files)
        return b->files->on_filed(b, data, length);
    return length < sizeof(struct frame_filed) ? -EBADMSG : 0;
}

// Reads one datagram.  True: there may be more, and the box is still there.  `ret_answered` is set
// when the datagram completed a result.
static bool read_datagram(struct live_box *b, bool *ret_answered)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK]; // one thread, used at once
    // SECURITY: a box cannot pass descriptors to the gate: fd_recv() closes them and fails.
    ssize_t n = fd_recv(b->control, datagram, sizeof datagram, NULL, 0, NULL);
    if (n == -EAGAIN)
        return false;
    if (n == 0 || n == -ECONNRESET) {
        (void)fall_silent(b); // its init is gone: ENDED follows by itself
        return false;
    }
    bool filed = n > 0 && is_filed(datagram, (size_t)n);
    int complete = n < 0   ? -EBADMSG
                   : filed ? 1
                           : frame_reader_feed(&b->reader, datagram, (size_t)n);
    if (complete == 0)
        return true;
    struct live_guard g;
    *ret_answered = complete > 0 && !filed && b->reader.kind == FRAME_RESULT;
    live_guard_begin(&g, b);
    int r = complete < 0 ? complete
            : filed      ? take_filed(b, datagram + sizeof(struct frame_header),
                                      (size_t)n - sizeof(struct frame_header))
                         : take_frame(b);
    if (!live_guard_end(&g))
        return false;
    if (r < 0)
        give_up(b);
    else if (b->reader.total > FRAME_CHUNK && b->reader.have == b->reader.total)
        frame_reader_done(&b->reader); // do not keep a large result in each idle session
    return r == 0;
}

static void read_datagrams(struct live_box *b, int bound, bool beyond_answer)
{
    struct live_guard g;
    struct pulse *pulse = pulse_of(b);
    uint64_t before = pulse_enter(pulse, b->id);
    bool answered = false;
    live_guard_begin(&g, b);
    for (int i = 0; i < bound && !g.freed && !b->silent && read_datagram(b, &answered); i++)
        if (answered && !beyond_answer)
            break;
    (void)live_guard_end(&g);
    pulse_leave(pulse, before);
}

static void on_control(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    // Data rarely follows an answer; if it does, it raises another event.
    read_datagrams(argument, READS_PER_EVENT, false);
}

void live_read(struct live_box *b)
{
    read_datagrams(b, READS_AT_END, true);
}

// ---- listening ----------------------------------------------------------------------------------

// Borrowed bytes may be gone with the owner that lent them.  A half-sent frame is harmless: the box
// starts anew at the next one.
static void drop_borrowed(struct live_box *b)
{
    for (struct live_frame *f = TAILQ_FIRST(&b->frames), *next; f; f = next) {
        next = TAILQ_NEXT(f, list);
        if (f->borrowed)
            drop_frame(b, f);
    }
}

void live_listen(struct live_box *b, const struct live_user *user, void *owner)
{
    if (owner != b->owner)
        drop_borrowed(b);
    b->user = user;
    b->owner = owner;
}

// ---- sending ------------------------------------------------------------------------------------

static unsigned run_flags(const struct live_box *b)
{
    return (b->direct ? FRAME_DIRECT
            : b->kept ? FRAME_KEPT
                      : 0) |
           (b->discard ? FRAME_DISCARD : 0) | (b->has_stdin ? FRAME_STDIN : 0);
}

static int send_pieces(struct live_box *b, enum frame_kind kind, const struct frame_piece *pieces,
                       size_t count, size_t *offset)
{
    unsigned flags = kind == FRAME_RUN ? run_flags(b) : 0;
    uint64_t before = pulse_enter(pulse_of(b), b->id);
    int n = frame_send_flags(b->control, kind, flags, pieces, count, offset);
    pulse_leave(pulse_of(b), before);
    if (n == 0 && kind == FRAME_RUN)
        b->discard = false;
    return n;
}

// Sends what can be sent now.  0, or a negative errno: -EAGAIN: the socket is full.  The box may be
// gone.
static int send_frames(struct live_box *b)
{
    for (struct live_frame *f; (f = TAILQ_FIRST(&b->frames));) {
        int n = send_pieces(b, f->kind, f->pieces, f->count, &f->offset);
        if (n < 0)
            return n;
        bool tell = f->borrowed;
        drop_frame(b, f);
        if (!tell || !b->user || !b->user->on_sent)
            continue;
        struct live_guard g;
        live_guard_begin(&g, b);
        b->user->on_sent(b);
        if (!live_guard_end(&g))
            return 0;
    }
    return 0;
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    struct live_box *b = argument;
    struct live_guard g;
    (void)fd;
    (void)what;
    live_guard_begin(&g, b);
    int n = send_frames(b);
    if (!live_guard_end(&g) || n == -EAGAIN)
        return;
    (void)event_del(b->write_event);
    if (n < 0)
        drop_frames(b); // the box is gone; ENDED follows
}

static struct live_frame *make_frame(enum frame_kind kind, const struct frame_piece *pieces,
                                     size_t count, bool copy)
{
    size_t size = 0;
    for (size_t i = 0; copy && i < count; i++)
        size += pieces[i].len;
    struct live_frame *f = count <= PIECES_MAX ? malloc(sizeof *f + size) : NULL;
    if (!f)
        return NULL;
    *f = (struct live_frame){.kind = kind, .borrowed = !copy, .count = copy ? 1 : count};
    if (!copy) {
        for (size_t i = 0; i < count; i++) {
            f->pieces[i] = pieces[i];
            if (pieces[i].len > 0 && pieces[i].len <= SMALL_MAX)
                f->pieces[i].data = memcpy(f->small[i], pieces[i].data, pieces[i].len);
        }
        return f;
    }
    f->pieces[0] = (struct frame_piece){f->copy, size};
    for (size_t i = 0, at = 0; i < count; at += pieces[i++].len)
        if (pieces[i].len)
            memcpy(f->copy + at, pieces[i].data, pieces[i].len);
    return f;
}

int live_send(struct live_box *b, enum frame_kind kind, const struct frame_piece *pieces,
              size_t count, bool copy)
{
    if (b->silent)
        return 0;
    bool first = TAILQ_EMPTY(&b->frames);
    size_t offset = 0;
    // A frame that is sent at once need not be copied.
    if (first && copy && count <= PIECES_MAX &&
        send_pieces(b, kind, pieces, count, &offset) != -EAGAIN)
        return 0; // sent, or the box is gone and ENDED follows
    // SECURITY: a box that answers but does not read would make the gate queue one question for
    // each answer.
    struct live_frame *f =
        b->frame_count < FRAMES_MAX ? make_frame(kind, pieces, count, copy) : NULL;
    if (!f)
        return -ENOMEM;
    f->offset = offset;
    TAILQ_INSERT_TAIL(&b->frames, f, list);
    b->frame_count++;
    if (!first)
        return 0; // on_writable() sends it
    struct live_guard g;
    live_guard_begin(&g, b);
    int n = send_frames(b);
    if (!live_guard_end(&g) || n == 0)
        return 0;
    if (n == -EAGAIN && event_add(b->write_event, NULL) == 0)
        return 0;
    drop_frames(b);
    return n == -EAGAIN ? -ENOMEM : 0;
}

// ---- the beginning and the end ------------------------------------------------------------------

static bool make_events(struct live_box *b)
{
    struct event_base *base = b->gate->base;
    b->control_event = event_new(base, b->control, EV_READ | EV_PERSIST, on_control, b);
    b->write_event = event_new(base, b->control, EV_WRITE | EV_PERSIST, on_writable, b);
    return b->control_event && b->write_event && event_add(b->control_event, NULL) == 0;
}

struct live_box *live_new(struct gate *g, uint64_t id, const struct wire_limits *limits, bool kept,
                          int control)
{
    struct live_box *b = calloc(1, sizeof *b);
    if (!b) {
        (void)close(control);
        return NULL;
    }
    *b = (struct live_box){.gate = g,
                           .id = id,
                           .limits = *limits,
                           .kept = kept,
                           .control = control,
                           // A kept box may come from a gate that was killed in mid-frame.
                           .reader = {.max = FRAME_RESULT_MAX, .resync = kept}};
    TAILQ_INIT(&b->frames);
    TAILQ_INIT(&b->ops);
    // That gate may have asked questions: their answers must not match tags of this gate.
    if (kept && getrandom(&b->next_tag, sizeof b->next_tag, GRND_NONBLOCK) < 0)
        b->next_tag = (uint32_t)id;
    fd_refuse_rights(b->control);
    (void)fd_set_nonblock(control, true);
    if (!make_events(b)) {
        live_free(b);
        return NULL;
    }
    return b;
}

void live_free(struct live_box *b)
{
    if (!b)
        return;
    if (b->freed)
        *b->freed = true;
    b->freed = NULL;
    b->silent = true;
    b->user = NULL;
    meter_close(&b->meter);
    free(TAKE_PTR(b->denials));
    fail_file_operations(b);
    drop_frames(b);
    if (b->control_event)
        event_free(b->control_event);
    if (b->write_event)
        event_free(b->write_event);
    fd_close(&b->control);
    frame_reader_done(&b->reader);
    free(b);
}
