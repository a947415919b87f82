// SPDX-License-Identifier: Apache-2.0
//
// init: pid 1 of a box, and how the user process talks to it.
//
// A box is two processes that share one memory (CLONE_VM) but not their descriptors:
//
//   init          pid 1; C only; holds the control socket and the read ends of stdout and stderr;
//                 sends their bytes as OUTPUT frames; reaps orphans; ends when the user process
//                 ends, and the kernel then kills all that is left in the pid namespace
//   user process  pid 2; continues as the interpreter; has descriptors 0, 1, 2 and no other
//
// Sharing the memory makes init free (a second fork of a warm interpreter would cost as much as the
// box itself) and lets the two talk through a mailbox, so that code in the box has no descriptor of
// ours to close, copy or write to, and a forked child cannot speak for its parent.
//
// SECURITY: code can hold the mutex of a pipe for as long as it can starve one of its threads, and
// a read from that pipe waits for it in the kernel.  So no process outside of the box touches the
// pipes: init reads them, and when it is stuck there it harms only its own box.
//
// SECURITY: init is inside the wall, with the same powers as user code.  Code that overwrites its
// memory gains nothing: it can end its own box or falsify its own result.

#ifndef CONSTRICTOR_BOX_INIT_H
#define CONSTRICTOR_BOX_INIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Descriptors between the recipe and the split; see step_fds() in enter.c.
enum { BOX_CONTROL_FD = 3, BOX_STDOUT_FD, BOX_STDERR_FD, BOX_SCRATCH_FD, BOX_WRITER_FD };

// Address of the thread id that libc keeps for the calling thread, or NULL when this libc does
// otherwise.  Asked in the zygote before it is needed: the child's copy must be corrected.
void *init_tid_address(void);

// What goes through the split besides the control socket and the scratch folder.
struct init_extras {
    bool alone;          // in a sandbox: no descriptor goes out with READY
    void *tid_address;   // alone: as of init_tid_address(), which finds none there
    bool frozen;         // scratch is read-only but for BOX_WRITER_FD, see mounts_freeze_scratch()
    int listener;        // of the filter, for the keeper; -1: there is none
    uint64_t open_files; // RLIMIT_NOFILE of both processes, see limit_files()
};

// Splits the calling process: init goes into its loop and never returns, the user process returns 0
// without the read ends of its output.  The scratch folder and the listener it closes itself when
// it is ready, the control socket and the writer when it has its first run, before any user code.
// -1 with errno when the split failed.
int init_split(const struct init_extras *extras);

// User process: waits for the next run.  Returns 1 and a buffer that stays valid until
// init_receive_done(), or 0 when there will be none.
int init_receive(const char **ret_meta, size_t *ret_meta_length, const char **ret_code,
                 size_t *ret_code_length);
void init_receive_done(void);

// User process: has init send a frame and does not wait for that: `data` must stay as it is until
// init_send_wait() has returned.  0 or a negative errno.
void init_send_wait(void);
int init_send(uint32_t kind, const void *data, size_t length);

// init, for box/input.c: sends a frame, whole.  0 or a negative errno.
long init_send_frame(uint32_t kind, uint16_t flags, const char *data, size_t length);

// ---- for box/checkpoint.c -----------------------------------------------------------------------

// See the invariants in init.c.
struct init_mailbox {
    _Atomic uint32_t request;
    const char *request_data; // struct frame_run, meta, code
    size_t request_length;

    _Atomic uint32_t outgoing;
    uint32_t outgoing_kind;
    const char *outgoing_data;
    size_t outgoing_length;

    _Atomic uint32_t handed_over; // init reads the control socket, not the user process any more
    _Atomic uint32_t listening;   // init waits for a datagram
    _Atomic uint32_t stalled;     // init has a run that does not fit yet
    _Atomic uint32_t parked;      // the user process waits for its first run
    _Atomic uint32_t interrupt;
};

// User process, in the middle of a run: from now on the mailbox is `to`, in shared memory, runs are
// put into `request` (FRAME_RUN_MAX bytes) and stay there until they are answered, and frames go
// out by way of `result` (FRAME_RESULT_MAX bytes).  -EBUSY: the next run is there already.
int init_share(struct init_mailbox *to, char *request, char *result);
bool init_is_asked(void);     // a run has no answer yet; of a shared mailbox only
void *init_tid_pointer(void); // what init_tid_address() found

#endif
