// SPDX-License-Identifier: Apache-2.0
//
// exec_internal: what exec.c and exec_collect.c share.
//
// Invariants:
//   (1) work->op is the one scratch operation that is awaited.  While it reads a file, the bytes go
//       to work->copy, to the taker (work->taking), or nowhere.
//   (2) the run is PREPARING while files are written and HOLDING while they are collected; in any
//       other state no operation is started, because the box may be gone.

#ifndef CONSTRICTOR_EXEC_EXEC_INTERNAL_H
#define CONSTRICTOR_EXEC_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/exec_packages.h"

struct exec_work {
    char *meta;
    json_t *policy;                      // NULL: everything is open
    json_t *wheels;                      // folders of packages; NULL: none
    struct exec_environment environment; // the environment that has them
    struct scratch_op *op;
    struct store_copy *copy;
    bool taking;                     // the taker gets the file that is read
    struct artifact artifact;        // the file that is collected
    size_t file, more_file;          // indexes of the next file to write
    char path[SCRATCH_PATH_MAX + 1]; // of the file that is written
    unsigned char *stdin_bytes;      // decoded base64; NULL: it is text
    unsigned char *bytes;            // its decoded base64; NULL: it is text
    const void *save;                // its bytes; borrowed
    size_t save_length;
    struct scratch_list before, now;
    bool asked;  // the list `now` was asked for
    bool listed; // `now` is known
    size_t *changes;
    size_t change_count, change; // `change`: the next one to collect
    size_t all_changes;          // with those beyond the bound
    json_t *files;
    uint64_t omitted;
    uint64_t odd;         // links, pipes, names that cannot be shown: never listed
    uint32_t fork_number; // EXEC_FORK
    char fork[SESSION_ID_SIZE];
    enum session_end previous; // why the earlier session of this name ended
    bool opened;               // the session was opened by this request
    bool lost;                 // the session ended with this run
    bool noted;                // it is in the history of its session
    char name[SESSION_NAME_MAX + 1];
    char digest[65];        // SHA-256 of the code; "" without --run-audit-file
    struct err file_error;  // files could not be collected
    struct err store_error; // why the store did not take the file that is collected
};

// ---- exec_audit.c -------------------------------------------------------------------------------

// At the beginning, while the code is there: notes its digest, if there is --run-audit-file.
void exec_audit_begin(struct exec *x);
// At the end, also of a run that was refused: its line in the log, and in that file.
void exec_audit(const struct exec *x);

// ---- exec_collect.c -----------------------------------------------------------------------------

// on_answer of a run: lists scratch and reads what is new or changed.  False: there is nothing to
// collect.
bool exec_collect(struct run *r, unsigned flags);

// In on_done.  A session remembers the files that are there, to know the next run's own.
void exec_remember_files(struct exec *x, struct session *s);
void exec_count_uncollected(const struct exec *x, const struct run *r);

// Ends the file that the taker is given, if there is one.  `error` NULL: all its bytes came.
void exec_end_taker(struct exec *x, uint64_t size, const struct err *error);

// Adds to x->result's hint what helps in the interface that asked: exec_hint.c.  `s`: the session
// of the run, or NULL.
void exec_hint(struct exec *x, const struct session *s);

#endif
