// SPDX-License-Identifier: Apache-2.0
//
// init: see init.h.  Everything above the bar "init's side" runs in the user process; everything
// below it runs as pid 1 and must use sys_raw() only: errno and the rest of libc's thread-local
// state belong to the user process.
//
// Invariants of the mailbox:
//   (1) `request` is EMPTY or FULL; only whoever reads the control socket sets FULL, only the user
//       process sets EMPTY, and only while it is FULL.
//   (2) `outgoing` is EMPTY or FULL; only the user process sets FULL, only init sets EMPTY.
//   (3) the first run is read by the user process itself, which then closes its control socket and
//       sets `handed_over`, before any user code: two hand-overs fewer in a fresh box.  From then on
//       init reads the socket, only while `request` is EMPTY, so one run waits at most.
//   (4) init sleeps in ppoll alone, with its signals open only there: a signal that comes while it is
//       looking at the mailbox is not lost, the next ppoll returns at once.

#include "box/init.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sys.h"
#include "wire/frame.h"

enum { EMPTY, FULL };

static struct {
    _Atomic uint32_t request;
    const char *request_data; // struct frame_run, meta, code
    size_t request_length;

    _Atomic uint32_t outgoing;
    uint32_t outgoing_kind;
    const char *outgoing_data;
    size_t outgoing_length;

    _Atomic uint32_t handed_over; // init reads the control socket, not the user process any more
    _Atomic uint32_t listening;   // init waits for a datagram
    _Atomic uint32_t parked;      // the user process waits for its first run
    _Atomic uint32_t interrupt;
} mailbox;

static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
static _Alignas(64) char init_stack[64 * 1024];
static _Alignas(64) char split_stack[16 * 1024];
static ucontext_t init_context, user_context;
static long user_pid;
static void *tid_address;

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return sys_raw(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, value, 0, 0, 0);
}

static void wait_while(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) == value)
        (void)futex(word, FUTEX_WAIT, value); // any return is a reason to look again
}

// ---- both sides ------------------------------------------------------------------------------------

static _Noreturn void leave(int status)
{
    for (;;)
        (void)sys_raw(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

// Takes one datagram of a RUN frame; the frame is published when it is complete.
static void take_datagram(int flags)
{
    static char *assembly;
    static uint32_t have;

    long n = sys_raw(SYS_recvfrom, BOX_CONTROL_FD, (long)datagram, sizeof datagram, flags, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    struct frame_header h;
    if (n < (long)sizeof h)
        leave(0); // the other side is gone: nobody is left to run for
    memcpy(&h, datagram, sizeof h);
    size_t payload = (size_t)n - sizeof h;
    if (h.magic != FRAME_MAGIC || h.kind != FRAME_RUN || h.total > FRAME_RUN_MAX ||
        h.total < sizeof(struct frame_run) || h.offset > h.total || payload > h.total - h.offset)
        leave(1);
    if (h.total <= FRAME_CHUNK) {
        mailbox.request_data = datagram + sizeof h;
        mailbox.request_length = h.total;
    } else {
        if (h.offset == 0) {
            long at = sys_raw(SYS_mmap, 0, h.total, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at < 0 && at > -4096)
                leave(1);
            assembly = (char *)at;
            have = 0;
        }
        if (h.offset != have)
            leave(1);
        memcpy(assembly + have, datagram + sizeof h, payload);
        have += (uint32_t)payload;
        if (have < h.total)
            return;
        mailbox.request_data = assembly;
        mailbox.request_length = h.total;
    }
    struct frame_run run;
    memcpy(&run, mailbox.request_data, sizeof run);
    if ((uint64_t)run.meta_length + run.code_length + sizeof run != mailbox.request_length)
        leave(1);
    atomic_store(&mailbox.request, FULL);
    (void)futex(&mailbox.request, FUTEX_WAKE, 1);
}

// ---- the user process's side ---------------------------------------------------------------------

static void wake_init(void)
{
    (void)sys_raw(SYS_kill, 1, SIGUSR1, 0, 0, 0, 0);
}

int init_receive(const char **ret_meta, size_t *ret_meta_length, const char **ret_code,
                 size_t *ret_code_length)
{
    // Waking init costs the run 10-20 us, so it is done only when init would else sleep on: after a
    // result it is awake anyway.
    if (!atomic_exchange(&mailbox.parked, 1) || !atomic_load(&mailbox.listening))
        wake_init();
    if (!atomic_load(&mailbox.handed_over)) {
        while (atomic_load(&mailbox.request) == EMPTY)
            take_datagram(0);
        (void)sys_raw(SYS_close, BOX_CONTROL_FD, 0, 0, 0, 0, 0);
        atomic_store(&mailbox.handed_over, 1);
    }
    wait_while(&mailbox.request, EMPTY);
    if (atomic_load(&mailbox.request) != FULL)
        return 0;
    struct frame_run run;
    memcpy(&run, mailbox.request_data, sizeof run);
    *ret_meta = mailbox.request_data + sizeof run;
    *ret_meta_length = run.meta_length;
    *ret_code = *ret_meta + run.meta_length;
    *ret_code_length = run.code_length;
    return 1;
}

void init_receive_done(void)
{
    if (mailbox.request_length > FRAME_CHUNK)
        (void)munmap((void *)mailbox.request_data, mailbox.request_length);
    atomic_store(&mailbox.request, EMPTY);
}

void init_send_wait(void)
{
    wait_while(&mailbox.outgoing, FULL);
}

int init_send(uint32_t kind, const void *data, size_t length)
{
    if (length > FRAME_RESULT_MAX)
        return -EMSGSIZE;
    init_send_wait();
    mailbox.outgoing_kind = kind;
    mailbox.outgoing_data = data;
    mailbox.outgoing_length = length;
    atomic_store(&mailbox.outgoing, FULL);
    wake_init();
    return 0;
}

void *init_tid_address(void)
{
    int *address = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0) < 0 || !address)
        return NULL;
    // glibc keeps the thread's own id there; musl keeps a lock.  Only the first may be written.
    tid_address = *address == (int)syscall(SYS_gettid) ? address : NULL;
    return tid_address;
}

// ---- init's side ---------------------------------------------------------------------------------

// One datagram; the socket blocks, so a slow gate slows the box and not the other way round.
static long send_datagram(const struct frame_header *h, const char *data, size_t len, int fd)
{
    struct iovec iov[2] = {{(void *)h, sizeof *h}, {(void *)data, len}};
    union {
        struct cmsghdr head;
        char buf[CMSG_SPACE(sizeof(int))];
    } rights = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                         .cmsg_level = SOL_SOCKET,
                         .cmsg_type = SCM_RIGHTS}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (fd >= 0) {
        *(int *)(void *)CMSG_DATA(&rights.head) = fd;
        msg.msg_control = rights.buf;
        msg.msg_controllen = sizeof rights.buf;
    }
    long n;
    do
        n = sys_raw(SYS_sendmsg, BOX_CONTROL_FD, (long)&msg, MSG_NOSIGNAL, 0, 0, 0);
    while (n == -EINTR);
    return n < 0 ? n : 0;
}

static long send_frame(uint32_t kind, const char *data, size_t length, int fd)
{
    size_t offset = 0;
    do {
        size_t n = length - offset > FRAME_CHUNK ? FRAME_CHUNK : length - offset;
        struct frame_header h = {.magic = FRAME_MAGIC,
                                 .kind = (uint16_t)kind,
                                 .total = (uint32_t)length,
                                 .offset = (uint32_t)offset};
        long r = send_datagram(&h, data + offset, n, fd);
        if (r < 0)
            return r;
        offset += n;
    } while (offset < length);
    return 0;
}

static void serve_outgoing(void)
{
    if (atomic_load(&mailbox.outgoing) != FULL)
        return;
    size_t length = mailbox.outgoing_length;
    if (length <= FRAME_RESULT_MAX) // a gate that is gone needs no answer
        (void)send_frame(mailbox.outgoing_kind, mailbox.outgoing_data, length, -1);
    atomic_store(&mailbox.outgoing, EMPTY);
    (void)futex(&mailbox.outgoing, FUTEX_WAKE, 1);
}

// READY goes out once, when the user process waits for the first time: from then on the box is as
// warm as it gets.
static void serve_parked(void)
{
    static bool told;
    if (told || !atomic_load(&mailbox.parked))
        return;
    told = true;
    if (send_frame(FRAME_READY, NULL, 0, BOX_SCRATCH_FD) < 0)
        leave(1);
    (void)sys_raw(SYS_close, BOX_SCRATCH_FD, 0, 0, 0, 0, 0);
}

static void serve_children(void)
{
    int status;
    long pid;
    while ((pid = sys_raw(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0, 0)) > 0) {
        if (pid != user_pid)
            continue; // an orphan that was handed to us
        struct frame_exit gone = {.status = status};
        (void)send_frame(FRAME_EXIT, (const char *)&gone, sizeof gone, -1);
        leave(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

static void serve_interrupt(void)
{
    if (atomic_exchange(&mailbox.interrupt, 0))
        (void)sys_raw(SYS_kill, user_pid, SIGINT, 0, 0, 0, 0);
}

static _Noreturn void init_loop(void)
{
    uint64_t none = 0; // signal mask while asleep: everything open
    for (;;) {
        serve_outgoing();
        serve_parked();
        serve_children();
        serve_interrupt();
        bool listening =
            atomic_load(&mailbox.handed_over) && atomic_load(&mailbox.request) == EMPTY;
        atomic_store(&mailbox.listening, listening);
        struct pollfd p = {.fd = BOX_CONTROL_FD, .events = listening ? POLLIN : 0};
        long r = sys_raw(SYS_ppoll, (long)&p, 1, 0, (long)&none, sizeof none, 0);
        if (r <= 0)
            continue; // a signal: see what it was about
        if (p.revents & POLLIN)
            take_datagram(MSG_DONTWAIT);
        else
            leave(0);
    }
}

static void on_signal(int sig)
{
    if (sig == SIGINT)
        atomic_store(&mailbox.interrupt, 1);
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
    for (int fd = 0; fd < BOX_CONTROL_FD; fd++) // the pipes end when the user's processes end
        (void)sys_raw(SYS_close, fd, 0, 0, 0, 0, 0);
    init_loop();
}

int init_split(void)
{
    static const int signals[] = {SIGCHLD, SIGUSR1, SIGINT};
    struct sigaction before[3], ours = {.sa_handler = on_signal};
    sigset_t all;

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
    (void)close(BOX_SCRATCH_FD);
    for (int i = 0; i < 3; i++)
        if (sigaction(signals[i], &before[i], NULL) < 0)
            return -1;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}
