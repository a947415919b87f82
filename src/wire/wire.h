// SPDX-License-Identifier: Apache-2.0
//
// wire: the structs that cross a process boundary between the keeper and every other process.
//
// Every message is one SOCK_SEQPACKET datagram: a header, a struct of fixed size, and descriptors.
// There is nothing to parse: a receiver checks version, type and length against one table and takes
// the struct as it is; strings are fixed arrays that the receiver terminates itself.  The one
// message with a tail is ZYGOTE_READY, whose bounded report the keeper passes on without reading
// it.
//
//   gate -> keeper    ACQUIRE  CANCEL  RELEASE  INTERRUPT  STATUS  MEASURE
//   keeper -> gate    BOX, ADOPT (+ control)  DENIED  ENDED  MEASURED  STATUS_REPLY
//                     INTERPRETER  ZYGOTE_READY  FAILED  FILES (+ descriptors)  NUDGE
//                     NET_LINK (+ a socket to the broker)  PORTER_LINK (+ one to the porter)
//   keeper -> zygote  SPAWN (+ control, cgroup descriptors, and a socket for the slot's new stem)
//   keeper -> stem    SPAWN (+ control, cgroup descriptors)
//   stem -> keeper    SPAWNED (+ pidfd)  EXITED
//   zygote -> keeper  ZYGOTE_READY  EXITED
//                     SPAWNED (+ pidfd, and WIRE_NET_FDS sockets of a box with network)
//   keeper -> broker  NET_BOX (+ those sockets)  NET_GONE  NET_LINK (+ a socket to the gate)  FILES
//   keeper -> porter  NET_LINK (+ a socket to the gate)
//   keeper -> sampler SAMPLE
//   sampler -> keeper SAMPLED

#ifndef CONSTRICTOR_WIRE_WIRE_H
#define CONSTRICTOR_WIRE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    WIRE_VERSION = 1,
    WIRE_TEXT_MAX = 512,
    WIRE_PATH_MAX = 4096,
    WIRE_VERSION_MAX = 64,
    WIRE_REPORT_MAX = 16384,
    WIRE_SLOTS = 4096,
    WIRE_FILES_MAX = 3,
    WIRE_NET_FDS = 14, // dns, ask, and a dozen for ports: see wire/broker.h
    WIRE_METER_FDS = 4,
    WIRE_IMAGE_MAX = 64,
};

enum wire_type {
    WIRE_ACQUIRE = 1,
    WIRE_RELEASE,
    WIRE_INTERRUPT,
    WIRE_STATUS,
    WIRE_BOX,
    WIRE_ENDED,
    WIRE_STATUS_REPLY,
    WIRE_SPAWN,
    WIRE_ZYGOTE_READY,
    WIRE_SPAWNED,
    WIRE_EXITED,
    WIRE_INTERPRETER,
    WIRE_FAILED,
    WIRE_FILES,
    WIRE_CANCEL,
    WIRE_MEASURE,
    WIRE_MEASURED,
    WIRE_ADOPT,
    WIRE_NET_BOX,
    WIRE_NET_GONE,
    WIRE_NET_LINK,
    WIRE_PORTER_LINK,
    WIRE_DENIED,
    WIRE_SAMPLE,
    WIRE_SAMPLED,
    WIRE_NUDGE,
    WIRE_TYPE_MAX
};

// SECURITY: padding between two members would travel as well, with whatever the memory held before.
// So these structs have none: padding does not compile here.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

struct wire_header {
    uint16_t version;
    uint16_t type;
    uint32_t length; // of the whole message, header included
};

// What makes boxes: the backends of keeper/backend.h.
enum wire_isolation { ISOLATION_NATIVE, ISOLATION_GVISOR, ISOLATION_MAX };

// The limits that are built into a box when it is made.  Wall time, CPU time and output are watched
// from outside: a parked box fits any of them.
struct wire_limits {
    uint64_t memory_bytes;
    uint64_t scratch_bytes;
    uint64_t file_bytes;
    uint32_t processes;
    uint32_t inodes;
    uint32_t open_files;
    uint32_t readonly;  // 1: code cannot write to scratch, which has only the files of the request
    uint32_t isolation; // enum wire_isolation: what makes the box
    uint32_t reserved;  // 0
    char
        image[WIRE_IMAGE_MAX]; // not native: name of the image that it runs in; "": the host's tree
};

// Why a box ended.  The first reason that is set wins; END_OWN: no process of the server ended it.
enum wire_end {
    END_OWN,       // its processes ended by themselves
    END_DONE,      // the gate has the result
    END_WALL,      // gate: wall time is over
    END_OUTPUT,    // gate: too much output
    END_CANCELLED, // gate: the caller went away or asked for it
    END_PROTOCOL,  // gate: the box broke the protocol
    END_CPU,       // keeper: CPU time is over
    END_MEMORY,    // keeper: memory limit
    END_PROCESSES, // keeper: process limit, again and again
    END_STALL,     // keeper: it held up a process of the server for too long
    END_MAX
};

// Usage as the kernel counted it; UINT64_MAX: not measured, but the *_hits and machine_oom are 0
// then.
struct wire_usage {
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t peak_memory_bytes;
    uint64_t peak_processes;
    uint64_t memory_hits;  // OOM kills in this box
    uint64_t process_hits; // forks refused by the process limit
    uint64_t machine_oom; // 1: the machine or container had no memory left about when the box ended
    uint64_t scratch_free_bytes;
    uint64_t scratch_free_inodes;
};

struct wire_acquire {
    struct wire_header h;
    uint64_t ticket; // chosen by the gate, comes back in BOX; not 0
    uint64_t cpu_ms; // CPU time limit of the run
    uint32_t keep; // 1: for a session: it outlives the gate, and is interrupted before it is killed
    uint32_t grace_ms;    // with keep: how long after the interruption
    uint32_t network;     // 1: a box with sockets to the broker
    uint32_t wheel_files; // 1: for the installer, which sees --find-links; made on request
    struct wire_limits limits;
};

// The gate does not want the box of this ACQUIRE any more.  The keeper still answers with one BOX:
// a refusal once it has stopped the work for it, or the box, if that was sent already.
struct wire_cancel {
    struct wire_header h;
    uint64_t ticket;
};

struct wire_release {
    struct wire_header h;
    uint64_t box;
    uint32_t end;         // enum wire_end
    uint32_t wait_reaped; // 1: answer when the last process is gone, not already when it is killed
};

struct wire_interrupt {
    struct wire_header h;
    uint64_t box;
};

struct wire_status {
    struct wire_header h;
};

// A run in a kept box has ended or is about to begin: reports the usage since the last time, and
// sets the CPU time from here on.
enum wire_measure_how {
    MEASURE_KEPT, // cpu_ms: a run begins, 0: it is over
    MEASURE_ONCE, // a run begins, and the box is not kept any more: as if it were fresh, to its end
    // No run: the box waits for one, and may use cpu_ms until then.  Sent again it asks for the
    // figures anew and gives no more time.
    MEASURE_WAIT,
    MEASURE_TAKEN, // a session owns it from here on, and may keep threads; no answer
};
struct wire_measure {
    struct wire_header h;
    uint64_t box;
    uint64_t cpu_ms;
    uint32_t how;
    uint32_t reserved; // 0
};

struct wire_measured {
    struct wire_header h;
    uint64_t box;
    uint32_t end; // END_CPU: it was interrupted for its CPU time; else END_OWN
    uint32_t reserved;
    struct wire_usage usage; // CPU time since the last MEASURE; the rest of the box's whole life
};

// To a gate that replaces another: a kept box that still exists, with its descriptors.  The last
// message has box 0 and no descriptors.
struct wire_adopt {
    struct wire_header h;
    uint64_t box;
    uint32_t told; // as in BOX
    uint32_t reserved;
    struct wire_limits limits;
};

struct wire_box {
    struct wire_header h;
    uint64_t ticket;
    uint64_t box; // 0: refused, see the error
    uint32_t error_code;
    uint32_t parked;    // 1: it was ready before; 0: made on request
    uint32_t meter_fds; // of a kept box: descriptors for run/meter.h after the control socket
    uint32_t told;      // 1: a DENIED reports what policy.def marks with TELL
    char error[WIRE_TEXT_MAX];
    char hint[WIRE_TEXT_MAX];
};

// A system call that code in a box was denied: the call, its detail (box/denial.h), and how often
// since the last message.  All of them come before the ENDED or MEASURED of the run.
enum { WIRE_DENIED_OMITTED = -1 }; // in place of a number: calls for which no row was left
struct wire_denied {
    struct wire_header h;
    uint64_t box;
    int32_t nr;
    uint32_t detail;
    uint64_t count;
};

struct wire_ended {
    struct wire_header h;
    uint64_t box;
    uint32_t end;    // enum wire_end
    uint32_t reaped; // 1: `status` is valid
    int32_t status;  // wait status of the box's init
    uint32_t reserved;
    struct wire_usage usage;
};

struct wire_status_reply {
    struct wire_header h;
    uint32_t parked;
    uint32_t live;
    uint32_t dying;
    uint32_t zygote_pid; // as the keeper sees it
};

struct wire_spawn {
    struct wire_header h;
    uint64_t box;
    uint32_t uid_slot;     // uid inside the zygote's user namespace
    uint32_t cgroup_fds;   // how many cgroup descriptors follow the control socket
    uint32_t cgroup_kind;  // enum box_cgroup_kind
    uint32_t flags;        // enum box_flags
    uint32_t landlock_abi; // 0: none
    uint32_t slot;         // below WIRE_SLOTS
    uint32_t stem; // 1, to the zygote only: with a stem for the slot, whose socket comes last
    uint32_t reserved;
    struct wire_limits limits;
};

struct wire_zygote_ready {
    struct wire_header h;
    uint32_t report_length;
    char report[WIRE_REPORT_MAX]; // JSON, for the gate; only report_length bytes travel
};

struct wire_spawned {
    struct wire_header h;
    uint64_t box;
    int32_t error; // 0 or an errno
    uint32_t net;  // 0: it came from clone3, else from the slot's namespaces: 1 + enum net_step
};

struct wire_exited {
    struct wire_header h;
    uint64_t box;
    int32_t status;
    uint32_t spent;       // 1: the stem makes no other box, and ends
    uint64_t cpu_user_us; // of everything the box's init waited for
    uint64_t cpu_system_us;
    uint64_t max_rss_bytes;
};

// To a gate that started first: which interpreter the keeper found.
struct wire_interpreter {
    struct wire_header h;
    char executable[WIRE_PATH_MAX];
    char version[WIRE_VERSION_MAX];
};

// There are no boxes, and why.  A later ZYGOTE_READY revokes this.
struct wire_failed {
    struct wire_header h;
    uint32_t error_code; // enum err_code
    uint32_t reserved;
    char error[WIRE_TEXT_MAX];
    char hint[WIRE_TEXT_MAX];
};

// Files that only the keeper may open, opened again.  Bit i of `present`: file i exists, and its
// descriptor comes with the message, in order.
struct wire_files {
    struct wire_header h;
    uint32_t present;
    uint32_t reserved;
};

// NET_BOX: a box with network, and its sockets.  NET_GONE: that box is gone.
struct wire_net_box {
    struct wire_header h;
    uint64_t box;
};

// A socket between the gate and the broker, or the porter.  Both get an end whenever one of them is
// new.  Without a descriptor: the other process is not there now.
struct wire_net_link {
    struct wire_header h;
};

// A look at one box, or at the file locks of the whole host (box 0). The keeper does not look
// itself, because the kernel may make the reader wait for a lock that a box holds.  Bits of `what`:
enum wire_sample_what {
    SAMPLE_PROCESSES = 1, // what its processes hold and use
    SAMPLE_SOCKETS = 2,   // what the kernel may hold for its TCP and UDP sockets
    SAMPLE_LOCKS = 4,     // which init has the most file locks below it
    SAMPLE_UNIX = 8,      // and for its AF_UNIX sockets
};
struct wire_sample {
    struct wire_header h;
    uint64_t box;
    uint64_t limit_bytes;       // above it memory is counted exactly
    uint64_t scratch_bytes;     // in use
    uint64_t scratch_names;     // files, folders and links in it
    uint64_t unexplained_bytes; // shared memory of the host that may be this box's, see watch.c
    uint64_t locks_max;         // more are too many: the look ends at the first box that has them
    int32_t pid;                // host pid of the box's init
    uint32_t what;
};

struct wire_sampled {
    struct wire_header h;
    uint64_t box;
    uint64_t memory_bytes;
    uint64_t socket_bytes; // at most
    uint64_t shared_bytes; // shared memory and scratch: at least
    uint64_t nameless;     // not 0: some of it has no name; the rest is exact then
    uint64_t ran_ns;       // clocks of its processes
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t threads;
    uint64_t locks;
    int32_t locks_pid; // host pid of the init; 0: no box has any
    uint32_t alive;    // processes
};

// To a gate that has not moved for a while: wakes it, and asks for nothing.
struct wire_nudge {
    struct wire_header h;
};

#pragma GCC diagnostic pop

union wire_message {
    struct wire_header h;
    struct wire_acquire acquire;
    struct wire_release release;
    struct wire_interrupt interrupt;
    struct wire_status status;
    struct wire_box box;
    struct wire_ended ended;
    struct wire_status_reply status_reply;
    struct wire_spawn spawn;
    struct wire_zygote_ready ready;
    struct wire_spawned spawned;
    struct wire_exited exited;
    struct wire_interpreter interpreter;
    struct wire_failed failed;
    struct wire_files files;
    struct wire_cancel cancel;
    struct wire_measure measure;
    struct wire_measured measured;
    struct wire_adopt adopt;
    struct wire_net_box net_box;
    struct wire_net_link net_link;
    struct wire_denied denied;
    struct wire_sample sample;
    struct wire_sampled sampled;
    struct wire_nudge nudge;
};

// How many bytes of it travel.
size_t wire_length(enum wire_type type, const union wire_message *m);

// Fills in the header and sends.  0 or a negative errno.
int wire_send(int sock, enum wire_type type, union wire_message *m, const int *fds,
              size_t fd_count);

// Receives and checks one message.  Returns 1, 0 at the end of the stream, or a negative errno
// (-EAGAIN: nothing there, -EBADMSG: not a message of this version).  Descriptors are the caller's.
int wire_recv(int sock, union wire_message *m, int *ret_fds, size_t fd_cap, size_t *ret_fd_count);

// Checks `len` bytes that claim to be a message, terminates its strings.  0 or -EBADMSG.
int wire_check(union wire_message *m, size_t len);

#endif
