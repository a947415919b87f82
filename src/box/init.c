// SPDX-License-Identifier: Apache-2.0
//
// init: see init.h.  Everything above the bar "init's side" runs in the user process; everything
// below it runs as pid 1 and must use sys_raw() only: errno and the rest of libc's thread-local
// state belong to the user process.
//
// Invariants of the mailbox:
//   (1) `request` is EMPTY or FULL; only the reader of the control socket sets FULL, only the user
//       process sets EMPTY, and only while it is FULL.
//   (2) `outgoing` is EMPTY or FULL; only the user process sets FULL, only init sets EMPTY.
//   (3) the first run is read by the user process itself, which then closes its control socket and
//       sets `handed_over`, before any user code: two hand-overs fewer in a fresh box.  From then
//       on init reads the socket, also while a run goes on, for FILE frames come at any time.  A
//       run that comes while `request` is FULL waits in its datagram, and nothing more is read:
//       `stalled`.
//   (4) the mailbox moves once at most, into shared memory, in the middle of a run, by init's own
//       hand.  After that `request` is set EMPTY when a run is answered: see (5) of
//       box/checkpoint.h.
//   (5) where no code will ever run (FRAME_DIRECT) nothing is handed over: the user process goes on
//       reading the socket and writes to it itself, two hand-overs fewer for each answer.  Init
//       only waits for its end.
//   (6) init sends output on only between a run and its answer, so that what threads print between
//       two runs waits in the pipe for the next one; and only once the control socket is init's
//       alone: before that the keeper reads it.  What it sees in a pipe too early it leaves there
//       and sets `early`; the user process wakes it later.
//   (7) all that was printed before an answer is sent before the answer.
//   (8) init sleeps in ppoll alone, with its signals open only there: a signal that comes while it
//       is looking at the mailbox is not lost, the next ppoll returns at once.

#include "box/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sys.h"
#include "box/checkpoint.h"
#include "box/files.h"
#include "box/input.h"
#include "wire/frame.h"

enum { EMPTY, FULL, CLAIMED }; // CLAIMED: `outgoing` is being filled by a thread

// Two processes that share their memory need no other place for it.  Once there are copies of the
// user process it is in the area of box/checkpoint.c, and `room` is where runs and answers are
// copied to.
static struct init_mailbox own, *mailbox = &own;
static struct {
    char *request, *result;
} room;
static int futex_scope = FUTEX_PRIVATE_FLAG;

// How the mailbox moves: the user process asks, init does it, at a moment when it looks at neither.
enum { SHARE_NO, SHARE_ASKED, SHARE_DONE, SHARE_REFUSED };
static struct {
    _Atomic uint32_t state;
    struct init_mailbox *to;
    char *request, *result;
} share;

// Two, because the user process may still be reading its run in one of them when the next comes.
static char datagrams[2][sizeof(struct frame_header) + FRAME_CHUNK];
static unsigned current;       // the one that is received into
static size_t stalled_length;  // of the run that waits in it
static bool kept;              // FRAME_KEPT
static bool direct;            // FRAME_DIRECT; set before init could hear of a run
static bool running;           // a run was taken, and its result is not out yet
static _Atomic uint32_t early; // invariant 6
static struct files_usage usage_before;
static _Alignas(64) char init_stack[64 * 1024];
static _Alignas(64) char split_stack[16 * 1024];
static ucontext_t init_context, user_context;
static long user_pid;
static void *tid_address;
static int listener = -1;       // until READY has taken it to the keeper
static _Atomic uint32_t parted; // init has closed what is the user process's
static int writer = -1;         // until the first run
static bool alone;
static bool wants_input;    // FRAME_STDIN of the run that is read
static uint64_t open_files; // RLIMIT_NOFILE

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return sys_raw(SYS_futex, (long)word, op | futex_scope, value, 0, 0, 0);
}

static void wait_while(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) == value)
        (void)futex(word, FUTEX_WAIT, value); // any return is a reason to look again
}

// ---- both sides ---------------------------------------------------------------------------------

static _Noreturn void leave(int status)
{
    for (;;)
        (void)sys_raw(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static void publish(const char *data, size_t length)
{
    struct frame_run run;
    memcpy(&run, data, sizeof run);
    if ((uint64_t)run.meta_length + run.code_length + sizeof run != length)
        leave(1);
    mailbox->request_data = room.request ? memcpy(room.request, data, length) : data;
    mailbox->request_length = length;
    running = true;
    atomic_store(&mailbox->request, FULL);
    (void)futex(&mailbox->request, FUTEX_WAKE, 1);
}

// ---- output -------------------------------------------------------------------------------------

enum { OUTPUT_STREAMS = 2, PIPE_MAX = 1 << 20 }; // PIPE_MAX: the most that a pipe holds

static char output[FRAME_CHUNK];
static bool closed[OUTPUT_STREAMS]; // no process has the other end any more

// Reads one piece; 0: there is none.
static size_t read_output(int stream)
{
    long n = closed[stream]
                 ? 0
                 : sys_raw(SYS_read, BOX_STDOUT_FD + stream, (long)output, sizeof output, 0, 0, 0);
    if (n == 0)
        closed[stream] = true;
    return n > 0 ? (size_t)n : 0;
}

static void discard_output(void)
{
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++)
        for (size_t all = 0, n = 1; n && all < PIPE_MAX; all += n)
            n = read_output(stream);
}

// Takes one datagram of a RUN frame; the frame is published when it is complete.  A new one
// replaces an unfinished one, whose gate was killed while it sent it.
static void take_run(const struct frame_header *h, const char *payload, size_t length)
{
    static char *assembly;
    static uint32_t have, total;

    if (h->total > FRAME_RUN_MAX || h->total < sizeof(struct frame_run) || h->offset > h->total ||
        length > h->total - h->offset)
        leave(1);
    if (h->offset == 0) {
        if (assembly)
            (void)sys_raw(SYS_munmap, (long)assembly, total, 0, 0, 0, 0);
        assembly = NULL;
        kept = h->flags & FRAME_KEPT;
        wants_input = h->flags & FRAME_STDIN;
        if (h->flags & FRAME_DISCARD)
            discard_output();
        direct = direct || (!atomic_load(&mailbox->handed_over) && h->flags & FRAME_DIRECT);
        if (h->total <= FRAME_CHUNK) {
            if (length != h->total)
                leave(1);
            current ^= 1; // this one is the user process's now
            publish(payload, length);
            return;
        }
        long at = sys_raw(SYS_mmap, 0, h->total, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at > -4096)
            leave(1);
        assembly = (char *)at;
        total = h->total;
        have = 0;
    }
    if (!assembly || h->offset != have || h->total != total)
        leave(1);
    memcpy(assembly + have, payload, length);
    have += (uint32_t)length;
    if (have < total)
        return;
    char *complete = assembly;
    assembly = NULL; // init_receive_done() unmaps it
    publish(complete, total);
    if (room.request)
        (void)sys_raw(SYS_munmap, (long)complete, total, 0, 0, 0, 0);
}

static void take_payload(size_t length)
{
    const char *datagram = datagrams[current];
    struct frame_header h;
    memcpy(&h, datagram, sizeof h);
    const char *payload = datagram + sizeof h;
    if (h.magic != FRAME_MAGIC)
        leave(1);
    if (h.kind == FRAME_FILE) {
        bool busy = running || atomic_load(&mailbox->stalled);
        if (!files_serve_at(BOX_CONTROL_FD, writer < 0 ? AT_FDCWD : writer,
                            writer < 0 ? FILES_ROOT : ".", busy, payload, length - sizeof h))
            leave(1);
    } else if (h.kind == FRAME_INPUT) {
        if (!input_take(payload, length - sizeof h))
            leave(1);
    } else if (h.kind == FRAME_INTERRUPT && alone) {
        atomic_store(&mailbox->interrupt, 1);
    } else if (h.kind != FRAME_RUN) {
        leave(1);
    } else if (atomic_load(&mailbox->request) == FULL) {
        stalled_length = length;
        atomic_store(&mailbox->stalled, 1);
    } else {
        take_run(&h, payload, length - sizeof h);
    }
}

static void take_datagram(int flags)
{
    long n = sys_raw(SYS_recvfrom, BOX_CONTROL_FD, (long)datagrams[current], sizeof datagrams[0],
                     flags, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n < (long)sizeof(struct frame_header))
        leave(0); // the other side is gone: there is no caller to run for
    take_payload((size_t)n);
}

// One datagram; the socket blocks, so a slow gate slows the box and not the other way round.
static long send_datagram(const struct frame_header *h, const char *data, size_t len,
                          const int *fds, size_t count)
{
    struct iovec iov[2] = {{(void *)h, sizeof *h}, {(void *)data, len}};
    union {
        struct cmsghdr head;
        char buf[CMSG_SPACE(2 * sizeof(int))];
    } rights = {.head = {.cmsg_len = CMSG_LEN(count * sizeof(int)),
                         .cmsg_level = SOL_SOCKET,
                         .cmsg_type = SCM_RIGHTS}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (count) {
        memcpy(CMSG_DATA(&rights.head), fds, count * sizeof(int));
        msg.msg_control = rights.buf;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    long n;
    do
        n = sys_raw(SYS_sendmsg, BOX_CONTROL_FD, (long)&msg, MSG_NOSIGNAL, 0, 0, 0);
    while (n == -EINTR);
    return n < 0 ? n : 0;
}

long init_send_frame(uint32_t kind, uint16_t flags, const char *data, size_t length)
{
    size_t offset = 0;
    do {
        size_t n = length - offset > FRAME_CHUNK ? FRAME_CHUNK : length - offset;
        struct frame_header h = {.magic = FRAME_MAGIC,
                                 .kind = (uint16_t)kind,
                                 .flags = flags,
                                 .total = (uint32_t)length,
                                 .offset = (uint32_t)offset};
        long r = send_datagram(&h, data + offset, n, NULL, 0);
        if (r < 0)
            return r;
        offset += n;
    } while (offset < length);
    return 0;
}

// Up to `most` bytes of each stream.
static void send_output(size_t most)
{
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++)
        for (size_t all = 0, n = 1; n && all < most; all += n)
            if ((n = read_output(stream)))
                (void)init_send_frame(FRAME_OUTPUT, (uint16_t)stream, output, n);
}

// RLIMIT_NOFILE of the calling process, hard and soft: only a capability could raise it again.
// SECURITY: not before the last message with descriptors.  The kernel counts descriptors in flight
// per user and compares them with the sender's limit: where boxes share a uid, one box with 300 in
// flight would stop every other box at its READY. And not later: a box with the server's limit
// could have so many in flight that the keeper could send none.
static void limit_files(void)
{
    const uint64_t want[2] = {open_files, open_files};
    uint64_t now[2] = {0};
    if (sys_raw(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)want, 0, 0, 0) < 0 ||
        sys_raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)now, 0, 0) < 0 ||
        memcmp(now, want, sizeof now) != 0)
        leave(1);
}

// ---- the user process's side --------------------------------------------------------------------

static void wake_init(void)
{
    (void)sys_raw(SYS_kill, 1, SIGUSR1, 0, 0, 0, 0);
}

// READY goes out once, when the user process waits for the first time: the box is then as warm as
// it gets.  The user process sends it itself: waking init would cost two more hand-overs.
static void tell_ready(void)
{
    if (atomic_exchange(&mailbox->parked, 1))
        return;
    usage_before = files_usage(FILES_ROOT);
    while (!atomic_load(&parted)) // this was long ago; but user code must not run before it
        (void)sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    const struct frame_header ready = {.magic = FRAME_MAGIC, .kind = FRAME_READY};
    const int fds[] = {BOX_SCRATCH_FD, listener};
    if (send_datagram(&ready, NULL, 0, fds, alone ? 0 : listener < 0 ? 1 : 2) < 0)
        leave(1);
    // SECURITY: the holder of the listener decides about denied calls, so no copy stays in the box.
    // From here on it is the keeper's; user code comes later, with the first run.
    (void)sys_raw(SYS_close, BOX_SCRATCH_FD, 0, 0, 0, 0, 0);
    if (listener >= 0)
        (void)sys_raw(SYS_close, listener, 0, 0, 0, 0, 0);
    listener = -1;
    limit_files();
}

int init_receive(const char **ret_meta, size_t *ret_meta_length, const char **ret_code,
                 size_t *ret_code_length)
{
    tell_ready();
    // Waking init costs the run 10-20 us, so only wake it when it would sleep on: after a result it
    // is awake anyway, and before the first run it has nothing to do.
    if (!direct && atomic_load(&mailbox->handed_over) && !atomic_load(&mailbox->listening))
        wake_init();
    if (!atomic_load(&mailbox->handed_over))
        while (atomic_load(&mailbox->request) == EMPTY)
            take_datagram(0);
    if (direct && atomic_exchange(&early, 0))
        wake_init();
    if (!direct && !atomic_load(&mailbox->handed_over)) {
        (void)sys_raw(SYS_close, BOX_CONTROL_FD, 0, 0, 0, 0, 0);
        if (writer >= 0 && wants_input) { // later nothing can be made there
            atomic_store(&mailbox->handed_over, 1);
            input_make_early(writer);
        }
        // SECURITY: close the last way to write to a read-only scratch.  The files of the request
        // were written through it.  Init never has it, because code in the box may write to init's
        // memory.
        if (writer >= 0)
            (void)sys_raw(SYS_close, writer, 0, 0, 0, 0, 0);
        writer = -1;
        atomic_store(&mailbox->handed_over, 1);
        if (kept || alone || atomic_load(&early))
            wake_init(); // or it would not serve files or output before the end of this run
    }
    wait_while(&mailbox->request, EMPTY);
    if (atomic_load(&mailbox->request) != FULL)
        return 0;
    struct frame_run run;
    memcpy(&run, mailbox->request_data, sizeof run);
    *ret_meta = mailbox->request_data + sizeof run;
    *ret_meta_length = run.meta_length;
    *ret_code = *ret_meta + run.meta_length;
    *ret_code_length = run.code_length;
    return 1;
}

static void give_room(void)
{
    // Shared memory is kept for the next request: only MADV_REMOVE could free it, which no box may
    // call (policy.def).
    if (mailbox->request_length > FRAME_CHUNK && !room.request)
        (void)munmap((void *)mailbox->request_data, mailbox->request_length);
    atomic_store(&mailbox->request, EMPTY);
    if (atomic_load(&mailbox->stalled))
        wake_init();
}

void init_receive_done(void)
{
    if (!room.request) // else it stays until it is answered, by whichever process
        give_room();
}

void init_send_wait(void)
{
    wait_while(&mailbox->outgoing, FULL);
}

int init_send(uint32_t kind, const void *data, size_t length)
{
    if (length > FRAME_RESULT_MAX)
        return -EMSGSIZE;
    if (direct) {
        running = running && kind != FRAME_RESULT;
        return (int)init_send_frame(kind, 0, data, length);
    }
    uint32_t empty = EMPTY;
    do { // a prompt may come from another thread than the answer
        init_send_wait();
        empty = EMPTY;
    } while (!atomic_compare_exchange_strong(&mailbox->outgoing, &empty, CLAIMED));
    if (room.request && kind == FRAME_RESULT)
        give_room();
    mailbox->outgoing_kind = kind;
    mailbox->outgoing_data = room.result && length ? memcpy(room.result, data, length) : data;
    mailbox->outgoing_length = length;
    atomic_store(&mailbox->outgoing, FULL);
    wake_init();
    return 0;
}

int init_share(struct init_mailbox *to, char *request, char *result)
{
    init_send_wait();
    share.to = to;
    share.request = request;
    share.result = result;
    atomic_store(&share.state, SHARE_ASKED);
    wake_init();
    while (atomic_load(&share.state) == SHARE_ASKED)
        (void)sys_raw(SYS_futex, (long)&share.state, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, SHARE_ASKED,
                      0, 0, 0);
    return atomic_load(&share.state) == SHARE_DONE ? 0 : -EBUSY;
}

bool init_is_asked(void)
{
    return atomic_load(&mailbox->request) == FULL;
}

void *init_tid_pointer(void)
{
    return tid_address;
}

void *init_tid_address(void)
{
    int *address = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0) < 0 || !address)
        return NULL;
    // glibc keeps the thread's own id there; musl keeps a lock.  Only the first may be written.
    address = *address == (int)syscall(SYS_gettid) ? address : NULL;
    if (tid_address != address) // in the zygote each write is a copied page
        tid_address = address;
    return tid_address;
}

// ---- init's side --------------------------------------------------------------------------------

// Most boxes never have files, and the gate then asks for no list.
static uint16_t result_flags(void)
{
    struct files_usage now = files_usage(FILES_ROOT);
    bool same = now.inodes == usage_before.inodes && now.blocks == usage_before.blocks;
    return (uint16_t)((same ? 0 : FRAME_HAS_FILES) |
                      (closed[0] || closed[1] ? FRAME_NO_OUTPUT : 0));
}

static bool answered; // since init slept last

static void serve_outgoing(void)
{
    if (atomic_load(&mailbox->outgoing) != FULL)
        return;
    size_t length = mailbox->outgoing_length;
    uint32_t kind = mailbox->outgoing_kind;
    if (kind == FRAME_RESULT)
        input_close();
    send_output(PIPE_MAX);
    running = running && kind != FRAME_RESULT;
    answered = kind == FRAME_RESULT;
    if (kind == FRAME_WANT) {
        if (!input_open())
            leave(1);                      // rather than a stdin that is empty by mistake
    } else if (length <= FRAME_RESULT_MAX) // a gate that is gone needs no answer
        (void)init_send_frame(kind, kind == FRAME_RESULT ? result_flags() : 0,
                              mailbox->outgoing_data, length);
    atomic_store(&mailbox->outgoing, EMPTY);
    (void)futex(&mailbox->outgoing, FUTEX_WAKE, 1);
}

static void serve_children(void)
{
    int status;
    long pid;
    while ((pid = sys_raw(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0, 0)) > 0) {
        if (checkpoint_active() ? checkpoint_reaped(pid, status) : pid != user_pid)
            continue; // an orphan that init inherited, or another process goes on
        send_output(PIPE_MAX);
        struct frame_exit gone = {.status = status};
        (void)init_send_frame(FRAME_EXIT, 0, (const char *)&gone, sizeof gone);
        leave(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

// Between two runs there is nothing to interrupt, and an interrupt must not hit the next run.
static void serve_interrupt(void)
{
    if (atomic_exchange(&mailbox->interrupt, 0) && running)
        (void)sys_raw(SYS_kill, checkpoint_active() ? checkpoint_active() : user_pid, SIGINT, 0, 0,
                      0, 0);
}

// Publishes the run that waited, once there is room for it.
static void serve_stalled(void)
{
    if (!atomic_load(&mailbox->stalled) || atomic_load(&mailbox->request) != EMPTY)
        return;
    atomic_store(&mailbox->stalled, 0);
    take_payload(stalled_length);
}

static void serve_share(void)
{
    if (atomic_load(&share.state) != SHARE_ASKED)
        return;
    uint32_t state = SHARE_REFUSED;
    if (atomic_load(&own.request) == EMPTY && !atomic_load(&own.stalled)) {
        struct init_mailbox *to = share.to;
        to->request_length = 0; // the run that goes on now; the user process has taken it
        atomic_store(&to->request, FULL);
        atomic_store(&to->handed_over, atomic_load(&own.handed_over));
        atomic_store(&to->parked, atomic_load(&own.parked));
        atomic_store(&to->interrupt, atomic_exchange(&own.interrupt, 0));
        room.request = share.request;
        room.result = share.result;
        futex_scope = 0;
        mailbox = to;
        state = SHARE_DONE;
    }
    atomic_store(&share.state, state);
    (void)sys_raw(SYS_futex, (long)&share.state, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, 0, 0, 0);
}

static bool interrupt_is_pending(void)
{
    uint64_t set = 1ULL << (SIGINT - 1);
    struct timespec now = {0};
    return sys_raw(SYS_rt_sigtimedwait, (long)&set, 0, (long)&now, sizeof set, 0, 0) == SIGINT;
}

static int64_t now_us(void)
{
    struct timespec t = {0};
    (void)sys_raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0, 0, 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

// A caller that runs code in a loop comes back at once, and in a virtual machine a sleeping CPU
// takes longer to wake than a short run: 80 us a run became 45. So after an answer init polls for
// the next run for a moment.  It yields the CPU to others meanwhile, and the moment includes their
// time.
static void look_for_more(void)
{
    enum { LOOK_US = 50 };
    struct timespec at_once = {0};
    int64_t until = now_us() + LOOK_US;
    struct pollfd p = {.fd = BOX_CONTROL_FD, .events = POLLIN};
    do
        (void)sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    while (sys_raw(SYS_ppoll, (long)&p, 1, (long)&at_once, 0, 0, 0) == 0 && now_us() < until);
}

// What ppoll should look at: -1 is nothing.
static int output_fd(int stream)
{
    bool wanted = atomic_load(&mailbox->handed_over) ? running : direct || !atomic_load(&early);
    return wanted && !closed[stream] ? BOX_STDOUT_FD + stream : -1;
}

static void serve_output(void)
{
    if (direct) { // the control socket is not ours, and the warnings of a parser are not wanted
        discard_output();
        return;
    }
    if (!atomic_load(&mailbox->handed_over))
        atomic_store(&early, 1);
    if (atomic_load(
            &mailbox->handed_over)) // asked after the store: one of the two sees the other's
        send_output(sizeof output);
}

static _Noreturn void init_loop(void)
{
    uint64_t none = 0; // signal mask while asleep: everything open
    for (;;) {
        serve_outgoing();
        serve_children();
        serve_interrupt();
        serve_stalled();
        serve_share();
        bool listening = atomic_load(&mailbox->handed_over) && !atomic_load(&mailbox->stalled);
        atomic_store(&mailbox->listening, listening);
        if (answered && listening && kept)
            look_for_more();
        answered = false;
        struct pollfd p[1 + OUTPUT_STREAMS + 1] = {
            {.fd = BOX_CONTROL_FD, .events = listening ? POLLIN : 0},
            [1 + OUTPUT_STREAMS] = {.fd = input_fd(), .events = POLLOUT}};
        for (int stream = 0; stream < OUTPUT_STREAMS; stream++)
            p[1 + stream] = (struct pollfd){.fd = output_fd(stream), .events = POLLIN};
        long r = sys_raw(SYS_ppoll, (long)p, 1 + OUTPUT_STREAMS + (input_fd() >= 0), 0, (long)&none,
                         sizeof none, 0);
        if (r <= 0)
            continue; // a signal: see what it was about
        if (p[1].revents || p[2].revents)
            serve_output();
        if (input_fd() >= 0 && p[1 + OUTPUT_STREAMS].revents)
            input_write();
        if (!p[0].revents)
            continue;
        // ppoll prefers a datagram to a signal that was there before it; a signal is about the run
        // before the one that the datagram brings.
        if (interrupt_is_pending())
            atomic_store(&mailbox->interrupt, 1);
        else if (p[0].revents & POLLIN)
            take_datagram(MSG_DONTWAIT);
        else
            leave(0);
    }
}

static void on_signal(int sig)
{
    if (sig == SIGINT)
        atomic_store(&mailbox->interrupt, 1);
}

static int user_main(void *unused)
{
    (void)unused;
    setcontext(&user_context);
    return 1;
}

// Runs on init_stack, so that the stack of the interpreter is the user process's alone.
static void init_main(void)
{
    int flags = CLONE_VM | SIGCHLD | (tid_address ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
    user_pid =
        clone(user_main, split_stack + sizeof split_stack, flags, NULL, NULL, NULL, tid_address);
    if (user_pid < 0)
        leave(1);
    // It keeps the control socket and the read ends of the pipes, which end when the user's
    // processes end.
    // SECURITY: nor does it keep what the user process gives away before its first run.
    if (sys_raw(SYS_close_range, 0, BOX_CONTROL_FD - 1, 0, 0, 0, 0) < 0 ||
        sys_raw(SYS_close_range, BOX_SCRATCH_FD, ~0U, 0, 0, 0, 0) < 0)
        leave(1);
    limit_files();
    atomic_store(&parted, 1);
    init_loop();
}

int init_split(const struct init_extras *extras)
{
    static const int signals[] = {SIGCHLD, SIGUSR1, SIGINT};
    struct sigaction before[3], ours = {.sa_handler = on_signal};
    sigset_t all;

    listener = extras->listener;
    if ((alone = extras->alone))
        tid_address = extras->tid_address;
    open_files = extras->open_files;
    writer = extras->frozen ? BOX_WRITER_FD : -1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int i = 0; i < 3; i++)
        if (sigaction(signals[i], &ours, &before[i]) < 0)
            return -1;
    if (getcontext(&init_context) < 0)
        return -1;
    init_context.uc_stack.ss_sp = init_stack;
    init_context.uc_stack.ss_size = sizeof init_stack;
    makecontext(&init_context, init_main, 0);
    if (swapcontext(&user_context, &init_context) < 0)
        return -1;

    // Only the user process gets here, by setcontext.
    if (sys_close_range(BOX_STDOUT_FD, BOX_STDERR_FD) < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        if (sigaction(signals[i], &before[i], NULL) < 0)
            return -1;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}
