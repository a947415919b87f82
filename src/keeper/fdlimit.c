// SPDX-License-Identifier: Apache-2.0
//
// fdlimit: see fdlimit.h.  Runs in the keeper at its start.

#include "keeper/fdlimit.h"

#include <sys/resource.h>

#include "keeper/stock.h"

enum {
    FDS_OWN = 32,     // folders, locks, sockets and timers of the keeper
    FDS_PER_BOX = 24, // a group of version 1 has ten files; see ARCHITECTURE.md for the rest
    SCM_MAX_FD = 253, // descriptors in one message, by the kernel
};

void fdlimit_raise(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l); // fewer boxes fit, and making one too many says so
    }
}

// SECURITY: the kernel counts a user's descriptors in flight, and refuses a message when there are
// more than the sender's limit of open files.  So boxes with our uid can have --files of them, and
// those of one last message.  Our own limit is above that sum: then such boxes cannot stop the
// messages that make other boxes.
static rlim_t above_boxes(uint32_t open_files)
{
    return (rlim_t)open_files + 2 * (SCM_MAX_FD + 3);
}

int fdlimit_check(bool shared, uint32_t open_files, struct err *e)
{
    struct rlimit l;
    rlim_t need = STOCK_FDS_SPARE + FDS_OWN + 2 * FDS_PER_BOX;
    if (shared && need < above_boxes(open_files))
        need = above_boxes(open_files);
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= need)
        return 0;
    int r = err_set(e, ERR_SYSTEM, 0, NULL, "%llu open files are too few: it takes %llu",
                    (unsigned long long)l.rlim_cur, (unsigned long long)need);
    err_hint(e,
             shared ? "raise the limit with 'ulimit -n %llu', or lower --files"
                    : "raise the limit with 'ulimit -n %llu'",
             (unsigned long long)need);
    return r;
}
