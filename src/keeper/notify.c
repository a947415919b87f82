// SPDX-License-Identifier: Apache-2.0
//
// notify: see notify.h.  The protocol is one datagram of text, which needs no library.

#include "keeper/notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

// '@' begins the name of a socket in the abstract namespace.
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, n);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) < 0)
        fd_close(&fd);
    return fd;
}

// Twice within the time that the manager waits.
static int open_timer(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t us = text ? strtoull(text, NULL, 10) / 2 : 0;
    if (us < 1000 || us > UINT64_C(86400000000) || (pid && strtoll(pid, NULL, 10) != getpid()))
        return -1;
    struct timespec every = {.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000) * 1000};
    struct itimerspec when = {.it_interval = every, .it_value = every};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 && timerfd_settime(fd, 0, &when, NULL) < 0)
        fd_close(&fd);
    return fd;
}

void notify_open(struct notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *n = (struct notify){.sock = -1, .timer = -1};
    if (path && path[0]) {
        n->sock = connect_to(path);
        if (n->sock < 0)
            log_line(LOG_WARN, "the service manager's socket '%.100s' does not answer", path);
        else
            n->timer = open_timer();
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void notify_say(const struct notify *n, const char *text)
{
    if (n->sock >= 0)
        (void)send(n->sock, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_tick(const struct notify *n, bool alive)
{
    uint64_t times;
    if (read(n->timer, &times, sizeof times) == sizeof times && alive)
        notify_say(n, "WATCHDOG=1");
}

void notify_close(struct notify *n)
{
    fd_close(&n->sock);
    fd_close(&n->timer);
}
