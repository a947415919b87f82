// SPDX-License-Identifier: Apache-2.0
//
// run_files: reads the files and folders that `run` copies into a box: --in and --with.  Called in
// the first process, with the rights of the user, before anything else starts.  Everything is read
// into memory, so what the code sees cannot change later, and no process of ours keeps a descriptor
// of the user's files.
//
//   --in PATH    /mnt/data/NAME, a file or a folder
//   --with DIR   what is in DIR goes to /mnt/data itself, as if the code ran in it

#ifndef CONSTRICTOR_CLI_RUN_FILES_H
#define CONSTRICTOR_CLI_RUN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "exec/exec.h"

// Files and folders of one run.  Less than a list of scratch holds (FRAME_LIST_MAX), so that the
// files that the code makes are told apart from these.
enum { RUN_FILES_MAX = 900 };

struct run_files {
    struct exec_file files[RUN_FILES_MAX]; // path and data are owned
    size_t count, folders;
    uint64_t bytes;
};

// `script` is the path of the source, which comes by itself; NULL: it is no file.  Notes about what
// is left out go to stderr.
int run_files_read(const struct config *c, const char *script, struct run_files *ret,
                   struct err *e);
void run_files_clear(struct run_files *f);

#endif
