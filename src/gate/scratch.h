// SPDX-License-Identifier: Apache-2.0
//
// scratch: files in the scratch folder of a live box, from the gate.
//
// The folder belongs to hostile code, which may be busy in it at this moment.  So nobody with more rights
// than that code ever goes into it: the gate asks the box's own init (box/files.c), over the control
// socket, and init looks, opens, renames and removes with the powers of the box and nothing else.  A link
// that leads somewhere else leads somewhere in the box.  What comes back is a list, or a descriptor, and is
// believed as far as any other word of a box: it describes that box.
//
// SECURITY: a descriptor from a box is used only when it is a regular file on tmpfs, readable, without
// O_DIRECT and O_PATH; reads from such a file do not block and have no effect.  Its size is looked at once
// and bounded; that it grows or shrinks meanwhile makes a read longer or shorter, never longer than that.

#ifndef CONSTRICTOR_GATE_SCRATCH_H
#define CONSTRICTOR_GATE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/frame.h"

struct live_box;
struct scratch_op;

enum {
    SCRATCH_PATH_MAX = FRAME_PATH_MAX, // bytes, below /mnt/data, without a slash at its beginning
    SCRATCH_NAME_MAX = FRAME_NAME_MAX,
    SCRATCH_DEPTH_MAX = FRAME_DEPTH_MAX,
    SCRATCH_LIST_MAX =
        FRAME_LIST_MAX, // entries of a list; the others are counted, up to SCRATCH_COUNT_MAX
    SCRATCH_COUNT_MAX = FRAME_COUNT_MAX,
    SCRATCH_OPS_MAX = 64, // awaited at one time in one box
    SCRATCH_TIMEOUT_MS = 10000,
};

struct scratch_file {
    char *
        path; // UTF-8, below /mnt/data; a name that is not UTF-8 or has control characters is counted
              // in `odd` instead: it cannot be named over any interface
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t inode;
    bool folder;
};

struct scratch_list {
    struct scratch_file *files; // by path
    size_t count;
    uint64_t left_out; // regular files and folders beyond SCRATCH_LIST_MAX
    uint64_t odd;      // links, pipes, sockets, devices, and names that cannot be shown
};
void scratch_list_clear(struct scratch_list *l);

struct scratch_reply {
    struct err error;         // message[0] == 0: it worked
    struct scratch_list list; // LIST; the callee may take it (and zero it)
    struct scratch_file file; // READ, WRITE: what it is now; path is the caller's own, normalised
    int fd;                   // READ: the callee may take it (and set -1)
    bool busy;                // BUSY
};
typedef void (*scratch_done)(const struct live_box *b, struct scratch_reply *reply, void *argument);

// Makes a path of what a caller wrote: "/mnt/data/a/b", "./a/b" and "a//b" are "a/b".  Refuses what is
// empty, leaves the folder, is too long or deep, has control characters or invalid UTF-8; says what is
// wrong with it.  0 or a negative code.
int scratch_path(const char *text, size_t length, char ret[SCRATCH_PATH_MAX + 1], struct err *e);

// Each begins an operation; `done` comes later, exactly once, unless it is cancelled.  NULL and `e` when it
// cannot be begun.  Paths have been through scratch_path().
struct scratch_op *scratch_list(struct live_box *b, scratch_done done, void *argument,
                                struct err *e);
struct scratch_op *scratch_read(struct live_box *b, const char *path, scratch_done done,
                                void *argument, struct err *e);
// Replaces the whole file, or leaves it as it was; folders on the way are made.  `data` is borrowed until
// `done` or scratch_cancel().
struct scratch_op *scratch_write(struct live_box *b, const char *path, const void *data,
                                 size_t length, scratch_done done, void *argument, struct err *e);
// A file, or a folder with all that is in it.
struct scratch_op *scratch_delete(struct live_box *b, const char *path, scratch_done done,
                                  void *argument, struct err *e);
// Has a run not been answered yet?  For a gate that took the box over and cannot know: the run of the one
// before may never have been sent to its end, or its result may have been read.
struct scratch_op *scratch_busy(struct live_box *b, scratch_done done, void *argument,
                                struct err *e);
void scratch_cancel(struct scratch_op *op);

// For live.c: a FILED frame came; `fd` is taken, -1: none.  -EBADMSG: no box says that.
int scratch_filed(struct live_box *b, const char *data, size_t length, int fd);
void scratch_fail_all(struct live_box *b); // the box is gone

// What changed between two lists: files that are new or other than before, as positions in `now`, in
// `ret` (caller frees); folders do not count.  Returns how many, or -ENOMEM.
ptrdiff_t scratch_changes(const struct scratch_list *before, const struct scratch_list *now,
                          size_t **ret);

#endif
