// SPDX-License-Identifier: Apache-2.0
//
// tempfile: see tempfile.h.  Runs in the gate.

#include "files/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "keeper/state.h"

int tempfile_failed(int errnum, struct err *e)
{
    bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
    return err_set(e, full ? ERR_DISK_FULL : ERR_STATE_FOLDER, errnum,
                   "look at the state folder and its disk", "write a temporary file");
}

// For file systems without O_TMPFILE.  A gate that is killed between the two calls leaves the name
// behind; in the state folder the store sweeps it.
static int open_and_unlink(int folder)
{
    static unsigned number;
    char name[64];
    snprintf(name, sizeof name, STATE_PIECE_PREFIX "way-%ld-%u", (long)getpid(), number++);
    (void)unlinkat(folder, name, 0);
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)unlinkat(folder, name, 0);
    return fd;
}

int tempfile_open(int folder, struct err *e)
{
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != ENOSPC && errno != EDQUOT)
        fd = open_and_unlink(folder);
    return fd < 0 ? tempfile_failed(errno, e) : fd;
}
