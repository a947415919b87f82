// SPDX-License-Identifier: Apache-2.0
//
// state: the folder in which a server keeps what outlives it: artifacts and their catalogue.  The
// keeper opens it while it has its rights, and holds it for life; the gate gets the descriptor and
// nothing else of the file system.
//
// In the state folder are numbered folders, one for each server that runs at the same time.  A
// server takes the first free one, so that servers never share a catalogue and a restarted server
// finds its files.

#ifndef CONSTRICTOR_KEEPER_STATE_H
#define CONSTRICTOR_KEEPER_STATE_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/slots.h"

enum {
    STATE_FOLDERS_MAX = 4096, // servers on one state folder
    STATE_TIDY_FOLDERS = 16,  // folders of others that a start looks at
    STATE_TIDY_FILES = 20000, // and files in them
};

// What the keeper knows of the names in such a folder; files/store.c makes them.  The time of a
// finished file is the time of its end, so that cleaning up needs no catalogue.
#define STATE_FILE_PREFIX "a-"             // finished
#define STATE_PIECE_PREFIX "tmp-"          // not finished, never announced
#define STATE_CATALOGUE_PREFIX "catalogue" // and -wal, -shm

struct state {
    int folder; // -1: there is none
    int lock;
    int parent; // the state folder
    unsigned number;
    char path[PATH_MAX]; // of the state folder
};

// Opens the configured folder, or the one by default, and takes a numbered one in it for the gate's
// uid. Whatever is wrong is an error and closes all again.
int state_open(struct state *s, const struct config *c, const struct slots *slots, struct err *e);
void state_close(struct state *s);

// For the tests: where it would be.
int state_find(const struct config *c, bool root, const char *xdg, const char *home,
               char ret[PATH_MAX], struct err *e);

#endif
