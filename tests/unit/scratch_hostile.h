// SPDX-License-Identifier: Apache-2.0
//
// A hostile box for tests of files/scratch: the test writes its answers.

#ifndef CONSTRICTOR_TESTS_UNIT_SCRATCH_HOSTILE_H
#define CONSTRICTOR_TESTS_UNIT_SCRATCH_HOSTILE_H

#include <sys/socket.h>

#include "scratch_box.h"

// Ten seconds in a tenth of one.
int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
    struct timeval sooner = {.tv_usec = tv ? tv->tv_sec * 10000 : 0};
    return __real_event_add(ev, tv ? &sooner : NULL);
}

// ---- with a hostile one -------------------------------------------------------------------------

static struct frame_file asked;      // the last that the gate sent
static char brought[FRAME_DATA_MAX]; // and its bytes

static bool hear(void)
{
    struct {
        struct frame_header h;
        struct frame_file f;
        char rest[SCRATCH_PATH_MAX + FRAME_DATA_MAX];
    } m;
    ssize_t n = recv(box, &m, sizeof m, MSG_DONTWAIT);
    if (n < 0)
        return false;
    bool brings = m.f.op == FILE_CREATE || m.f.op == FILE_WRITE;
    size_t bytes = brings ? m.f.length : 0;
    assert_true(m.h.kind == FRAME_FILE && m.f.reserved == 0 && m.f.length <= FRAME_DATA_MAX);
    assert_int_equal(m.f.path_length + bytes, (size_t)n - sizeof m.h - sizeof m.f);
    asked = m.f;
    memcpy(brought, m.rest + m.f.path_length, bytes);
    return true;
}

static struct frame_filed answer(enum frame_file_op op)
{
    return (struct frame_filed){.op = op, .tag = asked.tag};
}

static void say(const void *data, size_t length, int fd)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    struct frame_header h = {.magic = FRAME_MAGIC, .kind = FRAME_FILED, .total = (uint32_t)length};
    memcpy(datagram, &h, sizeof h);
    memcpy(datagram + sizeof h, data, length);
    unit_send_raw(box, datagram, sizeof h + length, &fd, fd >= 0);
    turn();
}

#endif
