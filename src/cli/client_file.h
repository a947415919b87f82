// SPDX-License-Identifier: Apache-2.0
//
// client_file: the settings file of an MCP client, read whole and replaced whole.  It belongs to
// the user, and other programs write it too: a change is a new file beside it that takes its name,
// so that no reader sees half of it.

#ifndef CONSTRICTOR_CLI_CLIENT_FILE_H
#define CONSTRICTOR_CLI_CLIENT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"

enum { CLIENT_FILE_MAX = 16 * 1024 * 1024 };

struct client_file {
    char path[PATH_MAX]; // without links
    const char *name;    // its last part
    int folder;
    bool exists;
    struct stat st; // of a file that exists
    char *text;     // ends with NUL; "" when the file does not exist
    size_t length;
    bool made_backup;
};

// Makes missing folders, and reads the file if it exists.  A link is followed when it belongs to
// the caller or to root.  Call client_file_clear() in any case.
int client_file_open(const char *path, struct client_file *f, struct err *e);

// Replaces the text.  The mode stays; the first time, the former text becomes NAME.bak.
int client_file_replace(struct client_file *f, const char *text, size_t length, struct err *e);

void client_file_clear(struct client_file *f);

#endif
