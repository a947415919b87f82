// SPDX-License-Identifier: Apache-2.0
//
// tempfile: see tempfile.h.  Runs in the gate.  Not O_TMPFILE, which some file systems do not have.

#include "gate/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "keeper/state.h"

int tempfile_failed(int errnum, struct err *e)
{
    bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
    return err_set(e, full ? ERR_DISK_FULL : ERR_STATE_FOLDER, errnum,
                   "look at the state folder and its disk", "write a file that is on its way");
}

int tempfile_open(int folder, struct err *e)
{
    static unsigned number;
    char name[64];
    snprintf(name, sizeof name, STATE_PIECE_PREFIX "way-%ld-%u", (long)getpid(), number++);
    (void)unlinkat(folder, name, 0); // of a gate that was killed
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return tempfile_failed(errno, e);
    (void)unlinkat(folder, name, 0);
    return fd;
}
