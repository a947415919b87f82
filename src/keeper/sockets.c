// SPDX-License-Identifier: Apache-2.0
//
// sockets: see sockets.h.  Runs in the sampler.
//
// What one socket holds cannot be seen from outside its network namespace: of TCP there are the
// bytes without what is around
// them, of AF_UNIX there is nothing at all.  What all TCP and UDP sockets of the host hold together
// can be seen.  So this is an upper bound, and for TCP and UDP it is no more than the host has.

#include "keeper/sockets.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum {
    TCP_BYTES = 96 << 10, // of TCP, as large as it gets by itself: see box/net.c
    SOCKET_BYTES =
        4 << 10, // of TCP and UDP without buffers: one that is not accepted has no descriptor
    AROUND = 4,  // times as much as the bytes in it; the kernel packs them when a buffer is full
};

// Of AF_UNIX, and of TCP before it is connected: the buffer that each has by default.  The filter
// lets no box ask for another one (RULE_SETSOCKOPT).
static uint64_t others_bytes = 208 << 10;
static uint64_t buffer_bytes = 425984; // the largest that a program can ask for, for one direction

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void sockets_open(void)
{
    uint64_t receive = 0, send = 0;
    (void)file_read_u64_at(AT_FDCWD, "/proc/sys/net/core/rmem_max", &receive);
    (void)file_read_u64_at(AT_FDCWD, "/proc/sys/net/core/wmem_max", &send);
    (void)file_read_u64_at(AT_FDCWD, "/proc/sys/net/core/wmem_default", &others_bytes);
    if (receive || send)
        buffer_bytes = 2 * larger(receive, send); // the kernel doubles what it is asked for
}

static ssize_t read_net(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/net/%s", pid, name);
    return file_read_at(AT_FDCWD, path, text, size);
}

// "TCP: inuse 3 orphan 0 tw 0 alloc 4 mem 2": the number behind `word` in the line that begins with
// `key`.
static uint64_t number(const char *text, const char *key, const char *word)
{
    const char *line = strstr(text, key);
    const char *at = line ? strstr(line, word) : NULL;
    return at && at < line + strcspn(line, "\n") ? strtoull(at + strlen(word), NULL, 10) : 0;
}

// "  0: 0100007F:1F90 0100007F:C350 01 00000000:0000A000 ...": the queues, in hexadecimal.
static uint64_t tcp_line_bytes(const char *line)
{
    uint64_t send = 0, receive = 0;
    if (sscanf(line, "%*u: %*s %*s %*s %" SCNx64 ":%" SCNx64, &send, &receive) != 2 ||
        send + receive == 0)
        return 0;
    return smaller(AROUND * (send + receive), 2 * buffer_bytes);
}

static uint64_t tcp_bytes(pid_t pid, const char *name)
{
    char path[64], line[512];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/net/%s", pid, name);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        bytes += tcp_line_bytes(line);
    if (f)
        (void)fclose(f);
    return bytes;
}

void sockets_look(const struct wire_sample *ask, struct wire_sampled *ret)
{
    char v4[1024], v6[1024];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (read_net(ask->pid, "sockstat", v4, sizeof v4) <= 0)
        return;
    if (read_net(ask->pid, "sockstat6", v6, sizeof v6) <= 0)
        v6[0] = '\0';
    uint64_t tcp = number(v4, "TCP:", "inuse ") + number(v6, "TCP6:", "inuse ");
    uint64_t udp = number(v4, "UDP:", "inuse ") + number(v6, "UDP6:", "inuse ");
    uint64_t all = number(v4, "sockets:", "used ");
    uint64_t host = (number(v4, "TCP:", " mem ") + number(v4, "UDP:", " mem ")) * page;
    uint64_t others = (tcp + udp) * SOCKET_BYTES;
    if (ask->what & SAMPLE_UNIX && all > tcp + udp)
        others += (all - tcp - udp) * others_bytes;
    ret->socket_bytes = others + smaller((2 * tcp + udp) * buffer_bytes, host);
    if (tcp == 0 || ret->socket_bytes <= ask->limit_bytes / 2)
        return; // most have few, and there is no need to look at each
    // SECURITY: memory is filled at 2 GB/s.  So many that they need no large buffers are not looked
    // at either.
    ret->socket_bytes = others + smaller(tcp * TCP_BYTES, host);
    if (ret->socket_bytes > ask->limit_bytes / 2)
        return;
    uint64_t bytes = tcp_bytes(ask->pid, "tcp") + tcp_bytes(ask->pid, "tcp6");
    ret->socket_bytes = others + smaller(bytes + udp * buffer_bytes, host);
}
