// SPDX-License-Identifier: Apache-2.0
//
// seal: how a process of the server (gate, broker, porter, sampler) gives up for good what it
// inherits from the keeper by the fork.  It runs in that process, before that process reads
// anything that a stranger or a box wrote.
//
// SECURITY: the order of the steps matters: no later step can undo an earlier one, and each step
// still has the right that it needs.  Every step that fails ends the sealing with an error; the
// caller must then end its process.

#ifndef CONSTRICTOR_BOX_SEAL_H
#define CONSTRICTOR_BOX_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/filter.h"

enum {
    SEAL_FIRST_FD = 3,
    SEAL_KEEP_MAX = 8,
    SEAL_SIGNALS_MAX = 2,
};

// Which files Landlock leaves, besides those that are open already.  Where it leaves any or none,
// it also stops signals and abstract sockets to the outside.
enum seal_files {
    SEAL_FILES_OF_FOLDERS, // ordinary files in `folder` and `other_folder`; no TCP
    SEAL_FILES_OF_TREE,    // files and folders below `folder`; no TCP
    SEAL_FILES_TO_READ,    // `read_files`, for reading; TCP stays
    SEAL_FILES_ALL,        // Landlock is not used
};

struct seal_plan {
    const char *name; // of the process, for error texts
    pid_t parent;     // the keeper: this process dies with it

    // Identity (steps 1 to 8).
    int *keep[SEAL_KEEP_MAX]; // descriptors that stay open; their numbers become 3, 4, ...
    unsigned keep_count;
    int ignored_signals[SEAL_SIGNALS_MAX]; // 0: none
    bool raises_files;                     // the limit of open files, as far as it goes
    int64_t id;                            // the new uid and gid; -1: they stay as they are
    uint32_t group;                        // with a new id, one more group; 0: none

    // Reach (steps 9 to 11).
    uint32_t landlock_abi; // 0: this kernel has no Landlock
    enum seal_files files;
    int folder, other_folder; // -1: none
    const char *const *read_files;
    bool without_filter;      // the operator allowed that this kernel has no filters
    enum filter_kind filter;  // by policy.def; or else
    const char *const *calls; // only these system calls, and open for reading; NULL: `filter`
    bool closes_standard;     // descriptors 0, 1 and 2
};

// Steps 1 to 8: this process is left with the descriptors of the plan, its new identity, and no
// right to get anything else.  It can still open what the new identity may open: for what is read
// once at the beginning.
int seal_identity(struct seal_plan *plan, struct err *e);

// Steps 9 to 11: no other files, no other system calls.  Builds with sanitizers skip them: the
// sanitizers read /proc, and start a process at the end.
int seal_reach(const struct seal_plan *plan, struct err *e);

// All steps.
int seal_process(struct seal_plan *plan, struct err *e);

// seal_reach() in every build, for unit tests.
int seal_reach_always(const struct seal_plan *plan, struct err *e);

#endif
