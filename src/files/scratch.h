// SPDX-License-Identifier: Apache-2.0
//
// scratch: files in the scratch folder of a live box, from the gate.
//
// The folder belongs to hostile code, which may be changing it at this moment.  So no process with
// more rights than that code enters it: the gate asks the box's init (box/files.c) over the control
// socket, and init lists, reads, writes, renames and removes with the rights of the box.  A link
// can only lead to another file of the box.  The answer is untrusted like everything from a box: it
// describes that box and nothing else.
//
// SECURITY: the gate never has a descriptor of a file in scratch.  Code in the box can lock such a
// file, and a read or a write of it would block the gate, and with it every client.  Bytes come in
// frames of at most FRAME_DATA_MAX.  The first frame gives the size of the file, which is bounded;
// if the file changes meanwhile, a read gets shorter, never longer.

#ifndef CONSTRICTOR_FILES_SCRATCH_H
#define CONSTRICTOR_FILES_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
    SCRATCH_OPS_MAX = 64,          // pending at one time in one box
    SCRATCH_WINDOW = FRAME_WINDOW, // frames with bytes of one operation in flight at one time
    SCRATCH_TIMEOUT_MS = 10000,
    SCRATCH_PACE = 1 << 20, // bytes of a file that a box must move in that time
};

struct scratch_file {
    char *path; // UTF-8, below /mnt/data; a name that is not UTF-8 or has control characters is
                // counted in `odd` instead: it cannot be named over any interface
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
    struct err error;         // message[0] == 0: success
    struct scratch_list list; // LIST; the callee may take it (and zero it)
    struct scratch_file file; // READ, WRITE: what it is now; path is the caller's own, normalised
    bool busy;                // BUSY
};
typedef void (*scratch_done)(const struct live_box *b, struct scratch_reply *reply, void *argument);

// Where the bytes of a file go.  Neither function may cancel an operation or free the box.
struct scratch_part {
    uint64_t offset, length;
};
struct scratch_sink {
    // The file is there, `head` are its first bytes (at most FRAME_DATA_MAX).  `part` is the whole
    // file; the callee may want less of it.  0, or a negative code and `e`, with which the
    // operation fails.
    int (*begin)(const struct scratch_file *file, const char *head, size_t length,
                 struct scratch_part *part, void *argument, struct err *e);
    // The next bytes of that part, in order.  1: the callee wants no more of it.
    int (*take)(const void *data, size_t length, uint64_t offset, void *argument, struct err *e);
};

// Where the bytes of a file come from.  May not cancel an operation or free the box.
struct scratch_source {
    // The next bytes, at most `most` of them, into `to`.  0: the file ends here; -EAGAIN: there are
    // none yet, and scratch_wake() follows; another negative number and `e`: the operation fails.
    ssize_t (*give)(void *to, size_t most, void *argument, struct err *e);
};

// Normalises a path that a caller wrote: "/mnt/data/a/b", "./a/b" and "a//b" become "a/b".  Refuses
// a path that is empty, leaves the folder, is too long or deep, or has control characters or
// invalid UTF-8; `e` says what is wrong.  0 or a negative code.
int scratch_path(const char *text, size_t length, char ret[SCRATCH_PATH_MAX + 1], struct err *e);

// Each begins an operation; `done` comes later, exactly once, unless it is cancelled.  NULL and `e`
// when it cannot be begun.  Paths have been through scratch_path().
struct scratch_op *scratch_list(struct live_box *b, scratch_done done, void *argument,
                                struct err *e);
// The reply has the size of the file as far as it was read: the file may have become shorter.
struct scratch_op *scratch_read(struct live_box *b, const char *path,
                                const struct scratch_sink *sink, scratch_done done, void *argument,
                                struct err *e);
// Replaces the whole file, or leaves it as it was; folders on the way are made.  `data` is borrowed
// until `done` or scratch_cancel().
struct scratch_op *scratch_write(struct live_box *b, const char *path, const void *data,
                                 size_t length, scratch_done done, void *argument, struct err *e);
// The same with bytes that come later.  `size` is checked against the limits of the box;
// UINT64_MAX: not known.  The box has ten seconds for each step, the source as long as it likes.
struct scratch_op *scratch_write_from(struct live_box *b, const char *path, uint64_t size,
                                      const struct scratch_source *source, scratch_done done,
                                      void *argument, struct err *e);
void scratch_wake(struct scratch_op *op); // `done` may follow at once
// Removes a file, or a folder with its contents.
struct scratch_op *scratch_delete(struct live_box *b, const char *path, scratch_done done,
                                  void *argument, struct err *e);
// Is a run still unanswered?  For a gate that took the box over and cannot know: its predecessor
// may not have sent the run completely, or may have read its result.
struct scratch_op *scratch_busy(struct live_box *b, scratch_done done, void *argument,
                                struct err *e);
void scratch_cancel(struct scratch_op *op);

// Members of the box's struct live_files, from the first operation on.
int scratch_filed(struct live_box *b, const char *data, size_t length);
void scratch_fail_all(struct live_box *b); // the box is gone

// New and changed files between two lists, as positions in `now`, in `ret` (caller frees); folders
// do not count.  Returns how many, or -ENOMEM.
ptrdiff_t scratch_changes(const struct scratch_list *before, const struct scratch_list *now,
                          size_t **ret);

#endif
