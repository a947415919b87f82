// SPDX-License-Identifier: Apache-2.0
//
// arc4random: the two functions of glibc 2.36 that a static libevent calls, so that the program
// runs with glibc 2.34 too (RHEL 9, Ubuntu 22.04).  Only in a build with -Dprefer_static=true
// (tools/static), where any of the processes may call them.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);
void arc4random_buf(void *buffer, size_t length);

// Has no way to fail, so it does not go on with bytes that are not random.
void arc4random_buf(void *buffer, size_t length)
{
    char *at = buffer;
    while (length > 0) {
        ssize_t n = getrandom(at, length, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        at += n;
        length -= (size_t)n;
    }
}

uint32_t arc4random(void)
{
    uint32_t number;
    arc4random_buf(&number, sizeof number);
    return number;
}
