// SPDX-License-Identifier: Apache-2.0
//
// cgroup: memory, processes and CPU time of a box, as the kernel counts them.  One vtable, three
// drivers: v2, v1, and `watch`, which has no cgroups and sums figures of /proc (rlimits bound what
// it cannot see in time).  Called by the keeper only.

#ifndef CONSTRICTOR_KEEPER_CGROUP_H
#define CONSTRICTOR_KEEPER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/enter.h"
#include "wire/wire.h"

enum { CGROUP_DIRS_MAX = 3, CGROUP_FILES_MAX = 11, CGROUP_SPARES_MAX = 32 };

struct cgroup_driver;

// An empty group whose box is gone, for the next box with the same limits.
struct cgroup_spare {
    char name[24];
    uint64_t memory_bytes;
    uint32_t processes;
    int file[CGROUP_FILES_MAX];
};

// Where groups are made; filled once at start.
struct cgroup_root {
    const struct cgroup_driver *driver;
    unsigned count;              // hierarchies
    int dir[CGROUP_DIRS_MAX];    // our own group in each
    int parent[CGROUP_DIRS_MAX]; // the group that `dir` is in
    char name[64];               // "constrictor.PID.STARTTIME"
    uid_t zygote_uid;            // host uid that puts boxes into groups (v2)
    int zygote_dir;              // v2: the group that zygotes are born in, or -1
    int left;                    // v2: the keeper's former group, if it moved out of it, or -1
    uint32_t look; // enum wire_sample_what: what the sampler counts in place of the kernel
    unsigned spare_count;
    struct cgroup_spare spare[CGROUP_SPARES_MAX];
};

// `watch`: CPU time, summed over processes that come and go.
struct cgroup_time {
    uint64_t high_us; // the highest sum seen
    uint64_t lost_us; // what ended processes took with them since
    unsigned falls;   // looks in a row that saw less
};

// `watch`: shared memory that is charged to the host and visible in no process, see watch.c.
struct cgroup_shared {
    uint64_t host_bytes;      // all of the host's, when the sampler was asked
    uint64_t accounted_bytes; // found in processes and files of this box
    uint64_t hidden_bytes;    // at the last look: host_bytes, less what was found in all boxes
    uint64_t floor_bytes;     // the part of hidden_bytes that cannot be this box's
    uint64_t ran_ns;          // clocks of its processes at the last look
};

// One box's group.
struct cgroup {
    struct cgroup_root *root;
    int dir[CGROUP_DIRS_MAX];
    int file[CGROUP_FILES_MAX]; // v1: opened once for all boxes of a group; -1: none
    char name[24];
    struct wire_limits limits;
    pid_t pid;                 // host pid of the box's init, 0: not known yet
    pid_t child;               // and of the interpreter; for `watch`
    int scratch;               // borrowed from the box, -1: none; for `watch`
    uint64_t cpu_base_user_us; // counted before the run began: making and parking the box
    uint64_t cpu_base_system_us;
    struct cgroup_time user, system; // `watch`
    struct cgroup_shared shared;
    uint64_t peak_memory_bytes, peak_processes, process_hits, memory_hits; // `watch`: seen so far
    unsigned strays; // `watch`: processes beside the init and the interpreter, at the last look
};

struct cgroup_driver {
    const char *name;
    enum box_cgroup_kind kind;
    uint32_t box_flags; // rlimits that stand in for missing controllers
    // Finds out whether groups can be made here; on failure `e` says what is missing and the fix.
    int (*open)(struct cgroup_root *root, struct err *e);
    int (*make)(const struct cgroup_root *root, struct cgroup *cg, struct err *e);
    // Descriptors that the new box needs to get in; borrowed.  Number or -errno.
    int (*attach_fds)(const struct cgroup *cg, int *fds);
    // The box is gone: is the group as good as new?  NULL: never.
    bool (*clear)(const struct cgroup *cg);
    void (*usage)(struct cgroup *cg, struct wire_usage *ret);
    void (*cpu)(struct cgroup *cg, struct wire_usage *ret); // only that part of it; may be NULL
    // For `watch`; each may be NULL.  Called when the box is given to the gate, when the sampler is
    // asked about it, and when the box is gone.
    void (*start)(struct cgroup *cg);
    void (*ask)(struct cgroup *cg, struct wire_sample *ask);
    void (*gone)(struct cgroup *cg);
    void (*sampled)(struct cgroup *cg, const struct wire_sampled *m); // NULL: the kernel counts
    // Memory of sockets that is charged beside the rest; NULL: it is charged with the rest, or see
    // `look`.
    uint64_t (*socket_bytes)(const struct cgroup *cg);
    // Files for the gate's own look at what a box uses (run/meter.h), relative to the group.
    struct cgroup_meter {
        int dir; // hierarchy
        const char *name;
    } meter_files[WIRE_METER_FDS];

    void (*close)(struct cgroup_root *root);
};

extern const struct cgroup_driver cgroup1_driver, cgroup2_driver, watch_driver;

// Tries v2, v1, watch in this order.  `ret_why` collects why better drivers were not taken.  `uid`
// is the host uid of the zygote, which must be allowed to put boxes into groups (v2).
int cgroup_open(struct cgroup_root *ret, uid_t zygote_uid, char *ret_why, size_t why_size,
                struct err *e);
void cgroup_close(struct cgroup_root *root);

int cgroup_make(struct cgroup_root *root, struct cgroup *ret, uint64_t box,
                const struct wire_limits *limits, struct err *e);
// Starts counting: usage from now on is the run's.
void cgroup_begin(struct cgroup *cg);
// The box is handed out: user code runs in it.
void cgroup_start(struct cgroup *cg);
void cgroup_usage(struct cgroup *cg, struct wire_usage *ret);
// Opens the driver's meter_files, for reading only.  Returns how many, 0: not all of them are here.
unsigned cgroup_open_meter(const struct cgroup *cg, int ret[WIRE_METER_FDS]);
// Removes the group, or keeps it for the next box.  A negative errno: the kernel is not ready yet.
int cgroup_destroy(struct cgroup *cg);

// ---- shared by the drivers ----

// Path of the calling process's group in hierarchy `controller` (NULL: v2) from /proc/self/cgroup,
// joined with its mount point from /proc/self/mountinfo.  0 or a negative errno.
int cgroup_own_path(const char *controller, char *ret, size_t cap);

// Opens (and makes) folder `name` below `parent`.  Descriptor or a negative errno.
int cgroup_make_dir(int parent, const char *name);

// Removes groups "constrictor.PID.START" below `parent` whose keeper is gone.
void cgroup_sweep(int parent);

#endif
