// SPDX-License-Identifier: Apache-2.0
//
// wire: see wire.h.  Linked into every process; fuzzed by tests/fuzz/fuzz_wire.c.

#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"

static const size_t sizes[WIRE_TYPE_MAX] = {
    [WIRE_ACQUIRE] = sizeof(struct wire_acquire),
    [WIRE_RELEASE] = sizeof(struct wire_release),
    [WIRE_INTERRUPT] = sizeof(struct wire_interrupt),
    [WIRE_STATUS] = sizeof(struct wire_status),
    [WIRE_BOX] = sizeof(struct wire_box),
    [WIRE_ENDED] = sizeof(struct wire_ended),
    [WIRE_STATUS_REPLY] = sizeof(struct wire_status_reply),
    [WIRE_SPAWN] = sizeof(struct wire_spawn),
    [WIRE_ZYGOTE_READY] = offsetof(struct wire_zygote_ready, report),
    [WIRE_SPAWNED] = sizeof(struct wire_spawned),
    [WIRE_EXITED] = sizeof(struct wire_exited),
    [WIRE_INTERPRETER] = sizeof(struct wire_interpreter),
    [WIRE_FAILED] = sizeof(struct wire_failed),
    [WIRE_FILES] = sizeof(struct wire_files),
    [WIRE_CANCEL] = sizeof(struct wire_cancel),
    [WIRE_MEASURE] = sizeof(struct wire_measure),
    [WIRE_MEASURED] = sizeof(struct wire_measured),
    [WIRE_ADOPT] = sizeof(struct wire_adopt),
    [WIRE_NET_BOX] = sizeof(struct wire_net_box),
    [WIRE_NET_GONE] = sizeof(struct wire_net_box),
    [WIRE_NET_LINK] = sizeof(struct wire_net_link),
    [WIRE_PORTER_LINK] = sizeof(struct wire_net_link),
    [WIRE_DENIED] = sizeof(struct wire_denied),
    [WIRE_SAMPLE] = sizeof(struct wire_sample),
    [WIRE_SAMPLED] = sizeof(struct wire_sampled),
    [WIRE_NUDGE] = sizeof(struct wire_nudge),
};

size_t wire_length(enum wire_type type, const union wire_message *m)
{
    uint32_t tail = type == WIRE_ZYGOTE_READY ? m->ready.report_length : 0;
    return sizes[type] + (tail < WIRE_REPORT_MAX ? tail : WIRE_REPORT_MAX);
}

int wire_send(int sock, enum wire_type type, union wire_message *m, const int *fds, size_t fd_count)
{
    size_t len = wire_length(type, m);
    if (type == WIRE_ZYGOTE_READY && m->ready.report_length > WIRE_REPORT_MAX)
        return -EMSGSIZE;
    m->h = (struct wire_header){
        .version = WIRE_VERSION, .type = (uint16_t)type, .length = (uint32_t)len};
    return fd_send(sock, m, len, fds, fd_count);
}

int wire_check(union wire_message *m, size_t len)
{
    if (len < sizeof m->h || len > sizeof *m)
        return -EBADMSG;
    if (m->h.version != WIRE_VERSION || m->h.length != len)
        return -EBADMSG;
    if (m->h.type == 0 || m->h.type >= WIRE_TYPE_MAX || len < sizes[m->h.type])
        return -EBADMSG;
    size_t tail = len - sizes[m->h.type];
    if (m->h.type == WIRE_ZYGOTE_READY)
        // The union's padding would let a datagram hold a little more than a report may have.
        return tail == m->ready.report_length && tail <= WIRE_REPORT_MAX ? 0 : -EBADMSG;
    if (tail)
        return -EBADMSG;
    if (m->h.type == WIRE_BOX) {
        m->box.error[WIRE_TEXT_MAX - 1] = '\0';
        m->box.hint[WIRE_TEXT_MAX - 1] = '\0';
    }
    if (m->h.type == WIRE_FAILED) {
        m->failed.error[WIRE_TEXT_MAX - 1] = '\0';
        m->failed.hint[WIRE_TEXT_MAX - 1] = '\0';
        if (m->failed.error_code >= ERR_CODE_MAX)
            return -EBADMSG;
    }
    if (m->h.type == WIRE_INTERPRETER) {
        m->interpreter.executable[WIRE_PATH_MAX - 1] = '\0';
        m->interpreter.version[WIRE_VERSION_MAX - 1] = '\0';
    }
    if (m->h.type == WIRE_FILES && m->files.present >= 1U << WIRE_FILES_MAX)
        return -EBADMSG;
    if (m->h.type == WIRE_ACQUIRE &&
        (m->acquire.ticket == 0 || m->acquire.keep > 1 || m->acquire.network > 1 ||
         m->acquire.wheel_files > 1 || m->acquire.limits.readonly > 1 ||
         m->acquire.limits.isolation >= ISOLATION_MAX))
        return -EBADMSG; // ticket 0 is the keeper's own: for the stock
    if (m->h.type == WIRE_ACQUIRE)
        m->acquire.limits.image[WIRE_IMAGE_MAX - 1] = '\0';
    if (m->h.type == WIRE_ADOPT)
        m->adopt.limits.image[WIRE_IMAGE_MAX - 1] = '\0';
    if (m->h.type == WIRE_RELEASE && m->release.end >= END_MAX)
        return -EBADMSG;
    if (m->h.type == WIRE_ENDED && m->ended.end >= END_MAX)
        return -EBADMSG;
    if (m->h.type == WIRE_MEASURE && m->measure.how > MEASURE_TAKEN)
        return -EBADMSG;
    if (m->h.type == WIRE_MEASURED && m->measured.end >= END_MAX)
        return -EBADMSG;
    if (m->h.type == WIRE_BOX && m->box.meter_fds > WIRE_METER_FDS)
        return -EBADMSG;
    return 0;
}

int wire_recv(int sock, union wire_message *m, int *ret_fds, size_t fd_cap, size_t *ret_fd_count)
{
    int fds[FD_PASS_MAX];
    size_t count = 0;
    ssize_t n = fd_recv(sock, m, sizeof *m, fds, fd_cap, &count);
    if (n < 0)
        return (int)n;
    // An empty datagram reads like the end of the stream; it may still carry descriptors.
    int r = n ? wire_check(m, (size_t)n) : 0;
    if (r < 0 || n == 0) {
        for (size_t i = 0; i < count; i++)
            (void)close(fds[i]);
        return r;
    }
    for (size_t i = 0; i < count; i++)
        ret_fds[i] = fds[i];
    if (ret_fd_count)
        *ret_fd_count = count;
    return 1;
}
