// SPDX-License-Identifier: Apache-2.0
//
// cleanup: scope-bound ownership.  `_cleanup_close_ int fd = ...` closes at the end of the scope;
// TAKE_FD(fd) and TAKE_PTR(p) hand the thing over and leave -1 or NULL behind.

#ifndef CONSTRICTOR_BASE_CLEANUP_H
#define CONSTRICTOR_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_freep)
#define _cleanup_close_ _cleanup_(cleanup_closep)
#define _cleanup_fclose_ _cleanup_(cleanup_fclosep)

static inline void cleanup_freep(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_closep(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void cleanup_fclosep(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int take_fd_ = (fd);                                                                       \
        (fd) = -1;                                                                                 \
        take_fd_;                                                                                  \
    })

#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) take_p_ = (p);                                                               \
        (p) = NULL;                                                                                \
        take_p_;                                                                                   \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))

#endif
