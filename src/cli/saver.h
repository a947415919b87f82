// SPDX-License-Identifier: Apache-2.0
//
// saver: saves the files that runs left, below the folder of `--out`.
//
// A gate has no rights on files, because it handles data of hostile code.  So `run` and `stdio`
// fork this small process before it becomes a keeper.  The saver has the caller's rights,
// restricted to that one folder; the gate sends it names and bytes over a socket.
//
//   saver_start, saver_end   in the first process
//   the others                       in the gate
//
// SECURITY: the saver assumes that hostile code controls the gate.  Whatever the gate sends, the
// saver only makes new files and folders below one folder, of bounded number and size; it follows
// no link and changes nothing that exists.

#ifndef CONSTRICTOR_CLI_SAVER_H
#define CONSTRICTOR_CLI_SAVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "files/scratch.h"

enum {
    SAVER_FILES_MAX = 256,                   // of one run
    SAVER_SERVER_FILES_MAX = 10000,          // of one server
    SAVER_SAVED_MAX = SCRATCH_PATH_MAX + 16, // a path, and the number that a name may get
    SAVER_PATH_MAX = CONFIG_TEXT_MAX + 1 + SAVER_SAVED_MAX,
};

struct saver {
    pid_t pid; // 0: there is none
    int sock;  // the gate's end
};

// The outcome for one file.
struct saver_answer {
    uint32_t ok;
    uint32_t reserved;
    uint64_t size;
    char saved[SAVER_SAVED_MAX]; // below the folder
    char error[256];             // why not
};

// Opens the folder of c->out, makes it when it is missing, and starts the process.
int saver_start(struct saver *k, const struct config *c, struct err *e);
// The same for all runs of a server: says nothing on stderr, and saves as many bytes as the
// artifacts of one key may have.
int saver_start_server(struct saver *k, const struct config *c, struct err *e);
// Waits until it ends, which it does when the gate's end is closed; `now`: kills it.
void saver_end(struct saver *k, bool now);

// "out/plot.png", for people.
void saver_path(const char *folder, const char *saved, char ret[SAVER_PATH_MAX]);

// One file after the other.  begin: its path, checked by scratch_path(), and its greatest size.
// data: bytes in any order; bytes never sent are 0.  finish: waits for the answer.
void saver_begin(int sock, const char *path, uint64_t size);
void saver_data(int sock, const void *data, size_t length, uint64_t offset);
void saver_finish(int sock, uint64_t size, struct saver_answer *ret);
// Instead of saver_finish(): discards the file.
void saver_drop(int sock);
// All of that at once.
void saver_save_bytes(int sock, const char *path, const void *data, size_t length,
                      struct saver_answer *ret);

#endif
