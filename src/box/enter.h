// SPDX-License-Identifier: Apache-2.0
//
// enter: how a freshly cloned process becomes a box.
//
// Runs on the far side of clone3, forked from the zygote, inside the zygote's jail.  Everything it
// needs is in `struct box_plan`, prepared before the clone: nothing here allocates, logs or locks.

#ifndef CONSTRICTOR_BOX_ENTER_H
#define CONSTRICTOR_BOX_ENTER_H

#include <linux/filter.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

enum { BOX_UID = 1000, BOX_CGROUP_FDS_MAX = 4 };

// The steps of the recipe, in order.  Each names the isolation layer that it makes, so that an
// error names the missing layer.
#define BOX_STEP_MAP(X)                                                                            \
    X(STEP_ID_MAP, "user_ns", "map the box's one uid and gid")                                     \
    X(STEP_IDS, "uid", "become the box's user")                                                    \
    X(STEP_BOUNDING, "capabilities", "empty the bounding set")                                     \
    X(STEP_NO_NEW_PRIVS, "no_new_privs", "set no_new_privs")                                       \
    X(STEP_CGROUP, "cgroup", "enter the box's cgroups")                                            \
    X(STEP_CGROUP_NS, "cgroup_ns", "hide the cgroup path")                                         \
    X(STEP_SCRATCH, "mount_ns", "mount the scratch")                                               \
    X(STEP_PROC, "proc", "mount a private /proc")                                                  \
    X(STEP_FDS, "fds", "close every other descriptor")                                             \
    X(STEP_RLIMITS, "rlimits", "set resource limits")                                              \
    X(STEP_CAPABILITIES, "capabilities", "drop all capabilities")                                  \
    X(STEP_LANDLOCK, "landlock", "restrict with Landlock")                                         \
    X(STEP_SECCOMP, "seccomp", "load the system call filter")                                      \
    X(STEP_POSTURE, "posture", "check that every layer is up")                                     \
    X(STEP_SPLIT, "init", "start the user process")

enum box_step {
#define X(name, layer, what) name,
    BOX_STEP_MAP(X)
#undef X
        STEP_MAX
};

enum box_cgroup_kind {
    BOX_CGROUP_NONE, // no cgroups: rlimits and the keeper's watchdog
    BOX_CGROUP_V1,   // descriptors of the groups' `tasks` files; the child moves itself
    BOX_CGROUP_V2,   // descriptor of the group's directory; clone3 puts the child there
};

enum box_flags {
    BOX_NPROC = 2,         // the process limit is RLIMIT_NPROC (no pids controller)
    BOX_ADDRESS_SPACE = 4, // bound each process's memory by RLIMIT_AS (no memory controller)
    BOX_HURRY = 8,         // a run waits for this box already
    // --allow-degraded: the operator said that this kernel may lack the layer.
    BOX_WITHOUT_SECCOMP = 16,
    BOX_WITHOUT_PROC = 32,
    BOX_NETWORK = 64,      // in a network namespace whose sockets the broker has, see box/net.h
    BOX_READONLY = 128,    // scratch cannot be written once there is code, see box/mounts.h
    BOX_QUIET = 256,       // this kernel has no listener for filters, as an earlier box found
    BOX_WHEEL_FILES = 512, // the installer's: it sees --find-links
    BOX_LOOPBACK = 1024,   // lo of the slot's network namespace is up, see net_loopback()
    BOX_SHARES = 2048,     // it sees folders of the user, so it has no AF_UNIX sockets with a name
};

// May code make TCP and UDP sockets?  A box with a read-only scratch keeps to AF_UNIX: its policy
// names no servers.
static inline bool box_has_inet(uint32_t box_flags)
{
    return box_flags & BOX_NETWORK || (box_flags & BOX_LOOPBACK && !(box_flags & BOX_READONLY));
}

struct box_plan {
    uint64_t box;
    uint32_t slot;
    struct wire_limits limits;
    uint32_t uid_slot; // uid in the zygote's namespace that becomes BOX_UID
    uint32_t flags;    // enum box_flags
    uint32_t landlock_abi;
    uint32_t cgroup_kind; // enum box_cgroup_kind
    uint32_t cgroup_fds;
    int cgroup_fd[BOX_CGROUP_FDS_MAX];
    int control_fd;
    int proc_fd;            // a procfs in which the new process is visible
    uint64_t base_as_bytes; // address space of the zygote, on top of which RLIMIT_AS counts
    struct sock_fprog filter, telling_filter; // the last half; the second for a listener
    bool has_stem;                            // a stem did the slot's part, and counts as a process
};

// In the zygote, once: rlimits that are the same in all boxes, which inherit them.  0 or a negative
// errno.
int box_limit_all(void);

// Flags for clone3: the namespaces of a slot that its boxes have one after the other, besides those
// that the zygote is in at the moment; and the namespaces of a box.
enum { BOX_CLONE_SLOT = CLONE_NEWUSER | CLONE_NEWUTS };
uint64_t box_clone_flags(uint32_t box_flags);

// A child with these namespaces; ret_pidfd: NULL for a stem, else a box, born in its group where
// that can be. Its pid, 0 in the child, or a negative errno.
long box_clone(const struct box_plan *plan, uint64_t flags, int *ret_pidfd);

// The slot's part of the recipe: in a stem, or in a box that has none.  A failed step ends the
// process, see below.
void box_settle(const struct box_plan *plan);

// Makes the calling process, which is settled, a box.  Returns in the user process only, with
// descriptors 0, 1 and 2 open and nothing else.  A failed step is reported on the control socket
// and ends the process.
void box_enter(const struct box_plan *plan);

const char *box_step_layer(uint32_t step);
const char *box_step_text(uint32_t step);

#endif
