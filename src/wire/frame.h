// SPDX-License-Identifier: Apache-2.0
//
// frame: what travels between the gate and a box on the box's control socket (SOCK_SEQPACKET).
//
// A frame is a kind and up to FRAME_MAX bytes, cut into datagrams of at most FRAME_CHUNK bytes of
// payload, each with its own header.  A datagram is whole or absent, so a box that is killed in the
// middle of a frame cannot make the next datagram look like something else.
//
// SECURITY: everything that the gate receives here is hostile.  It says what the code wants to say
// about itself (value, error text, exit code) and nothing else: verdict, usage and limits come from
// the keeper.

#ifndef CONSTRICTOR_WIRE_FRAME_H
#define CONSTRICTOR_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_MAGIC = 0x43624f78,   // guards against a stray writer, not against an attacker
    FRAME_CHUNK = 60 * 1024,    // below the default socket buffer, so that one datagram always fits
    FRAME_RUN_MAX = 72 << 20,   // largest source (64 MiB) and its meta
    FRAME_RESULT_MAX = 2 << 20, // what the gate will hold of one result
};

// Flags of a frame.
enum {
    FRAME_HAS_FILES = 1,  // RESULT: scratch is not as empty as it was when the box was made
    FRAME_KEPT = 2,       // RUN: the box lives on, and FILE frames may come while the run goes on
    FRAME_DIRECT = 4,     // the first RUN: no code will ever run in this box (check/check.h)
    FRAME_DISCARD = 8,    // RUN: drop what waits in the output pipes, it is not this run's
    FRAME_NO_OUTPUT = 16, // RESULT: the code has closed its stdout or stderr for good
    FRAME_STDIN = 32,     // RUN: the run has stdin
};

// Bounds of what is said about files in scratch.
enum {
    FRAME_PATH_MAX = 1024, // bytes, below the folder, without a slash at its beginning
    FRAME_NAME_MAX = 255,
    FRAME_DEPTH_MAX = 32,
    FRAME_LIST_MAX = 1000,      // entries that a list has
    FRAME_COUNT_MAX = 100000,   // entries that are looked at for it
    FRAME_WINDOW = 8,           // frames with bytes of one file that are on their way at one time
    FRAME_DATA_MAX = 56 * 1024, // bytes of a file in one frame: with head and path one datagram
    FRAME_ASK_MAX = 16 * 1024,  // bytes of a prompt
};

enum frame_kind {
    FRAME_RUN = 1, // gate -> box: struct frame_run, meta, code
    FRAME_RESULT,  // box -> gate: JSON
    FRAME_EXIT,    // box -> gate: struct frame_exit, when the user process is gone
    FRAME_READY,   // box -> keeper: parked, every layer up; carries the scratch descriptor
    FRAME_FAILED,  // box -> keeper: struct frame_failed, a step of the recipe failed
    FRAME_FILE,   // gate -> box: struct frame_file, path, bytes: list, read, write files in scratch
    FRAME_FILED,  // box -> gate: struct frame_filed, entries or bytes, in one datagram
    FRAME_OUTPUT, // box -> gate: bytes that the code printed; the flags are 0 for stdout, 1 for
                  // stderr
    FRAME_INPUT,  // gate -> box: up to FRAME_DATA_MAX bytes for stdin; none: its end
    FRAME_WANT,   // box -> gate, empty: there is room for the next INPUT.  One INPUT for each WANT
    FRAME_ASK,    // box -> gate: a prompt: the code waits for a line from a person
    FRAME_INTERRUPT, // keeper -> box in a sandbox, empty: KeyboardInterrupt for the run that goes
                     // on
    FRAME_KIND_MAX
};

// As in wire.h: no uninitialised padding.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

struct frame_header {
    uint32_t magic;
    uint16_t kind;
    uint16_t flags;
    uint32_t total;  // payload bytes of the whole frame
    uint32_t offset; // of this datagram's payload within the frame
};

struct frame_run {
    uint32_t meta_length;
    uint32_t code_length;
};

struct frame_exit {
    int32_t status; // wait status of the user process
};

struct frame_failed {
    uint32_t step; // enum box_step
    int32_t errnum;
};

// SECURITY: a file travels as bytes, never as a descriptor.  Code in the box can hold a lock of the
// file for as long as it likes, and a reader or writer waits for that lock: so only the box itself
// reads and writes its files.
//
// A file is replaced in steps, so that no reader sees half of it: CREATE makes a file with a
// temporary name in the same folder and writes the first bytes, WRITE adds bytes, COMMIT gives the
// file the name that was asked for, ABORT removes it.  `ticket` is the same in all of them.
enum frame_file_op {
    FILE_LIST =
        1, // of the whole folder; no path.  One or more FILED frames, all but the last with `more`
    FILE_READ, // FILED has the bytes: fewer than `length` only at the end of the file
    FILE_CREATE,
    FILE_WRITE,
    FILE_COMMIT,
    FILE_ABORT,
    FILE_DELETE, // a file, or a folder with all that is in it
    FILE_BUSY,   // no path: `count` is 1 when a run has not been answered yet, else 0
    FILE_OP_MAX
};

struct frame_file {
    uint32_t op;     // enum frame_file_op
    uint32_t tag;    // comes back in FILED
    uint32_t ticket; // CREATE, WRITE, COMMIT, ABORT
    uint32_t path_length;
    uint64_t offset; // READ, WRITE: of the bytes
    uint64_t inode;  // READ, WRITE: another file of that name is ESTALE; 0: any file
    uint32_t length; // READ: bytes that are wanted; CREATE, WRITE: bytes behind the path
    uint32_t reserved;
    // the path: components of plain names, without "." and ".."; then the bytes
};

struct frame_stat {
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t inode;
};

struct frame_filed {
    uint32_t op, tag;       // of the FILE frame
    int32_t errnum;         // 0: it worked
    uint32_t more;          // LIST: 1: another frame of the same tag follows
    uint64_t left_out, odd; // LIST, in its last frame: see files/scratch.h
    struct frame_stat
        stat;          // READ, CREATE, COMMIT; CREATE, WRITE with ENOSPC: `size` that would fit
    uint64_t offset;   // of the FILE frame
    uint32_t count;    // LIST: how many entries follow; BUSY: see there
    uint32_t reserved; // 0
    // LIST: `count` times struct frame_entry and its path; READ: bytes
};

struct frame_entry {
    struct frame_stat stat;
    uint32_t folder; // 0 or 1
    uint32_t path_length;
};

#pragma GCC diagnostic pop

// Puts a frame together from its datagrams.  Zero-initialise, frame_reader_done() when finished.
struct frame_reader {
    size_t max; // largest frame that is accepted
    char *data;
    uint32_t kind;
    uint32_t flags;
    uint32_t total;
    uint32_t have;
    bool broken; // there was an error
    bool resync; // another reader had the beginning: the rest of that frame is skipped
};

// Feeds one datagram.  Returns 1 when a frame is complete (kind, data, total are valid until the
// next call), 0 when more is needed, -EBADMSG for anything that no box sends, -EMSGSIZE for a frame
// above `max`, -ENOMEM.  After an error the reader takes nothing more.
int frame_reader_feed(struct frame_reader *r, const void *datagram, size_t len);
void frame_reader_done(struct frame_reader *r);

// Sends a frame made of `count` pieces, beginning at byte `*offset` of it (0 for a new frame) and
// moving `*offset` on.  0 when all is sent, -EAGAIN when a non-blocking socket is full (call again
// later with the same arguments), or another negative errno.
struct frame_piece {
    const void *data;
    size_t len;
};
int frame_send(int sock, enum frame_kind kind, const struct frame_piece *pieces, size_t count,
               size_t *offset);
int frame_send_flags(int sock, enum frame_kind kind, unsigned flags,
                     const struct frame_piece *pieces, size_t count, size_t *offset);

#endif
