// SPDX-License-Identifier: Apache-2.0
//
// removal: see removal.h.  Runs in a box, in pid 1 or, before the first run, in the user process.

#include "box/removal.h"

#include <stdbool.h>
#include <stdio.h>

#include "box/files_internal.h"
#include "wire/frame.h"

static _Alignas(8) char dents[2][DENTS_SIZE];

// A folder is emptied without going down into it: what is in its folders is removed, and folders in
// them that are not empty are moved up into it.  So two descriptors are enough for any depth, and
// no name gets longer.  Each entry is seen twice at most in one go over the folder.
struct removal {
    long top;
    unsigned budget; // entries that may still be looked at
    uint32_t moved;  // names given
    bool progress;   // in this go
    long error;      // why something stays
};

static void allow_all(long at, const char *name)
{
    (void)sys_raw(SYS_fchmodat, at, (long)name, 0700, 0, 0, 0);
}

static long open_folder(long at, const char *name)
{
    long fd = open_beneath(at, name, FOLDER_FLAGS);
    if (fd != -EACCES)
        return fd;
    allow_all(at, name);
    return open_beneath(at, name, FOLDER_FLAGS);
}

// Can a name be taken out of this folder?  Its owner may have made it read-only.
static void allow_removal(long folder)
{
    (void)sys_raw(SYS_fchmod, folder, 0700, 0, 0, 0, 0);
}

// -ENOTEMPTY: a folder with something in it.
static long remove_entry(long folder, const char *name)
{
    long n = unlink_at(folder, name, 0);
    return n == -EISDIR ? unlink_at(folder, name, AT_REMOVEDIR) : n;
}

static long move_up(struct removal *m, long folder, const char *name)
{
    enum { TRIES = 100 };
    long n = -EEXIST;
    for (int i = 0; i < TRIES && n == -EEXIST; i++) {
        char temporary[TEMPORARY_SIZE];
        make_temporary(m->moved++, temporary);
        n = sys_raw(SYS_renameat2, folder, (long)name, m->top, (long)temporary, RENAME_NOREPLACE,
                    0);
        if (n == -EACCES && i == 0) { // a folder that is moved is written to: its ".." changes
            allow_all(folder, name);
            n = -EEXIST;
        }
    }
    return n;
}

static void note(struct removal *m, long result)
{
    if (result == 0)
        m->progress = true;
    else if (result != -ENOENT)
        m->error = result;
}

static void empty_folder(struct removal *m, const char *name)
{
    size_t at = 0, have = 0;
    long folder = open_folder(m->top, name);
    if (folder < 0) {
        note(m, folder);
        return;
    }
    allow_removal(folder);
    for (struct dent *d; m->budget && (d = next_dent(folder, dents[1], &at, &have)); m->budget--) {
        long n = remove_entry(folder, d->name);
        note(m, n == -ENOTEMPTY ? move_up(m, folder, d->name) : n);
    }
    close_fd(folder);
    long n = unlink_at(m->top, name, AT_REMOVEDIR);
    if (n != -ENOTEMPTY) // else the next go finds it
        note(m, n);
}

static long empty_top(struct removal *m)
{
    bool empty;
    do {
        size_t at = 0, have = 0;
        empty = true;
        m->progress = false;
        m->error = 0;
        (void)sys_raw(SYS_lseek, m->top, 0, SEEK_SET, 0, 0, 0);
        for (struct dent *d; m->budget && (d = next_dent(m->top, dents[0], &at, &have));
             m->budget--) {
            empty = false;
            long n = remove_entry(m->top, d->name);
            if (n == -ENOTEMPTY)
                empty_folder(m, d->name);
            else
                note(m, n);
        }
    } while (!empty && m->progress && m->budget);
    return m->budget == 0 ? -E2BIG : m->error;
}

long removal_do(long parent, const char *name)
{
    long n = remove_entry(parent, name);
    if (n != -ENOTEMPTY)
        return n;
    struct removal m = {.top = open_folder(parent, name), .budget = FRAME_COUNT_MAX};
    if (m.top < 0)
        return m.top;
    allow_removal(m.top);
    n = empty_top(&m);
    close_fd(m.top);
    return n < 0 ? n : unlink_at(parent, name, AT_REMOVEDIR);
}
