// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of wire/wire: what a receiver takes for a message, and everything that is none.

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/wire.h"

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

// A message whose every byte after the header is `fill`, except for what would be refused.
static void fill(union wire_message *m, enum wire_type type, size_t len, int byte)
{
    memset(m, byte, sizeof *m);
    m->h = (struct wire_header){
        .version = WIRE_VERSION, .type = (uint16_t)type, .length = (uint32_t)len};
    if (type == WIRE_ZYGOTE_READY)
        m->ready.report_length = (uint32_t)(len - sizes[type]);
    if (type == WIRE_ACQUIRE) {
        m->acquire.ticket = 8193;
        m->acquire.keep = 1;
        m->acquire.network = 1;
        m->acquire.wheel_files = 1;
        m->acquire.limits.readonly = 1;
        m->acquire.limits.isolation = ISOLATION_GVISOR;
        m->acquire.limits.image[WIRE_IMAGE_MAX - 1] = '\0';
    }
    if (type == WIRE_RELEASE)
        m->release.end = END_WALL;
    if (type == WIRE_ENDED)
        m->ended.end = END_MEMORY;
    if (type == WIRE_MEASURE)
        m->measure.how = MEASURE_TAKEN;
    if (type == WIRE_MEASURED)
        m->measured.end = END_CPU;
    if (type == WIRE_BOX)
        m->box.meter_fds = WIRE_METER_FDS;
    if (type == WIRE_FAILED)
        m->failed.error_code = ERR_ZYGOTE;
    if (type == WIRE_FILES)
        m->files.present = 1;
}

static void every_message_arrives_as_it_was_sent(void **state)
{
    (void)state;
    static union wire_message m, got;
    int pair[2], before = unit_fd_count();
    unit_socketpair(pair);
    for (int type = 1; type < WIRE_TYPE_MAX; type++) {
        fill(&m, (enum wire_type)type, sizes[type], 0xa5);
        m.h = (struct wire_header){0}; // wire_send fills it in
        if (type == WIRE_BOX) {
            m.box.error[WIRE_TEXT_MAX - 1] = '\0';
            m.box.hint[WIRE_TEXT_MAX - 1] = '\0';
        }
        if (type == WIRE_ADOPT)
            m.adopt.limits.image[WIRE_IMAGE_MAX - 1] = '\0';
        if (type == WIRE_FAILED) {
            m.failed.error[WIRE_TEXT_MAX - 1] = '\0';
            m.failed.hint[WIRE_TEXT_MAX - 1] = '\0';
        }
        if (type == WIRE_INTERPRETER) {
            m.interpreter.executable[WIRE_PATH_MAX - 1] = '\0';
            m.interpreter.version[WIRE_VERSION_MAX - 1] = '\0';
        }
        int fds[3] = {pair[0], pair[1], pair[0]}, back[FD_PASS_MAX];
        size_t count = 99;
        assert_int_equal(wire_send(pair[0], (enum wire_type)type, &m, fds, (size_t)type % 4), 0);
        assert_int_equal(wire_recv(pair[1], &got, back, 3, &count), 1);
        assert_int_equal(got.h.version, WIRE_VERSION);
        assert_int_equal(got.h.type, type);
        assert_int_equal(got.h.length, sizes[type]);
        assert_memory_equal(&got, &m, sizes[type]);
        assert_int_equal(count, type % 4);
        for (size_t i = 0; i < count; i++)
            fd_close(&back[i]);
    }
    fd_close(&pair[0]);
    fd_close(&pair[1]);
    assert_int_equal(unit_fd_count(), before);
}

static void reports_of_every_length(void **state)
{
    (void)state;
    static union wire_message m, got;
    const uint32_t lengths[] = {0, 1, 2, 100, WIRE_REPORT_MAX - 1, WIRE_REPORT_MAX};
    int pair[2];
    unit_socketpair(pair);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        memset(&m, 'r', sizeof m);
        memset(&got, 0, sizeof got);
        m.ready.report_length = lengths[i];
        assert_int_equal(wire_send(pair[0], WIRE_ZYGOTE_READY, &m, NULL, 0), 0);
        assert_int_equal(wire_recv(pair[1], &got, NULL, 0, NULL), 1);
        assert_int_equal(got.ready.report_length, lengths[i]);
        assert_memory_equal(got.ready.report, m.ready.report, lengths[i]);
    }
    m.ready.report_length = WIRE_REPORT_MAX + 1;
    assert_int_equal(wire_send(pair[0], WIRE_ZYGOTE_READY, &m, NULL, 0), -EMSGSIZE);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

// The union is padded to eight bytes, so a datagram of its size holds more than a report may have;
// the keeper copies `report_length` bytes into a buffer for WIRE_REPORT_MAX.
static void a_report_above_its_maximum_is_no_message(void **state)
{
    (void)state;
    static union wire_message m;
    for (size_t n = WIRE_REPORT_MAX + 1; sizes[WIRE_ZYGOTE_READY] + n <= sizeof m; n++) {
        fill(&m, WIRE_ZYGOTE_READY, sizes[WIRE_ZYGOTE_READY] + n, 'r');
        assert_int_equal(wire_check(&m, sizes[WIRE_ZYGOTE_READY] + n), -EBADMSG);
    }
}

static void only_the_exact_length_is_a_message(void **state)
{
    (void)state;
    static union wire_message m;
    for (int type = 1; type < WIRE_TYPE_MAX; type++)
        for (size_t len = 0; len <= sizeof m; len += len < 1400 ? 1 : 997) {
            bool right = type == WIRE_ZYGOTE_READY
                             ? len >= sizes[type] && len <= sizes[type] + WIRE_REPORT_MAX
                             : len == sizes[type];
            fill(&m, (enum wire_type)type, len, 0);
            if (wire_check(&m, len) != (right ? 0 : -EBADMSG))
                fail_msg("type %d with %zu bytes", type, len);
            m.h.length++; // what the header says and what came must agree
            assert_int_equal(wire_check(&m, len), -EBADMSG);
        }
    assert_int_equal(wire_check(&m, sizeof m + 1), -EBADMSG);
    assert_int_equal(wire_check(&m, SIZE_MAX), -EBADMSG);
}

static void other_versions_types_and_reasons_are_refused(void **state)
{
    (void)state;
    static union wire_message m;
    const uint16_t versions[] = {0, WIRE_VERSION + 1, 0x100, 0xffff};
    const uint16_t types[] = {0, WIRE_TYPE_MAX, WIRE_TYPE_MAX + 1, 0x101, 0xffff};
    for (int type = 1; type < WIRE_TYPE_MAX; type++)
        for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
            fill(&m, (enum wire_type)type, sizes[type], 0);
            m.h.version = versions[i];
            assert_int_equal(wire_check(&m, sizes[type]), -EBADMSG);
        }
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t len = sizeof m.h; len < 1200; len++) {
            fill(&m, WIRE_STATUS, len, 0);
            m.h.type = types[i];
            assert_int_equal(wire_check(&m, len), -EBADMSG);
        }
    for (uint32_t value = 2; value; value <<= 1) { // a yes is 1
        fill(&m, WIRE_ACQUIRE, sizes[WIRE_ACQUIRE], 0);
        m.acquire.network = value;
        assert_int_equal(wire_check(&m, sizes[WIRE_ACQUIRE]), -EBADMSG);
    }
    const uint32_t ends[] = {END_MAX, END_MAX + 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        fill(&m, WIRE_RELEASE, sizes[WIRE_RELEASE], 0);
        m.release.end = ends[i];
        assert_int_equal(wire_check(&m, sizes[WIRE_RELEASE]), -EBADMSG);
        fill(&m, WIRE_ENDED, sizes[WIRE_ENDED], 0);
        m.ended.end = ends[i];
        assert_int_equal(wire_check(&m, sizes[WIRE_ENDED]), -EBADMSG);
    }
    fill(&m, WIRE_ACQUIRE, sizes[WIRE_ACQUIRE], 0);
    m.acquire.ticket = 0; // that is what boxes for the stock have
    assert_int_equal(wire_check(&m, sizes[WIRE_ACQUIRE]), -EBADMSG);
    for (uint32_t end = 0; end < END_MAX; end++) {
        fill(&m, WIRE_ENDED, sizes[WIRE_ENDED], 0);
        m.ended.end = end;
        assert_int_equal(wire_check(&m, sizes[WIRE_ENDED]), 0);
    }
}

static void unknown_error_codes_and_files_are_refused(void **state)
{
    (void)state;
    static union wire_message m;
    const uint32_t codes[] = {ERR_CODE_MAX, ERR_CODE_MAX + 1, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        fill(&m, WIRE_FAILED, sizes[WIRE_FAILED], 0);
        m.failed.error_code = codes[i];
        assert_int_equal(wire_check(&m, sizes[WIRE_FAILED]), -EBADMSG);
    }
    for (uint32_t present = 0; present < 16; present++) {
        fill(&m, WIRE_FILES, sizes[WIRE_FILES], 0);
        m.files.present = present;
        assert_int_equal(wire_check(&m, sizes[WIRE_FILES]),
                         present < 1U << WIRE_FILES_MAX ? 0 : -EBADMSG);
    }
}

static void a_report_length_that_lies_is_refused(void **state)
{
    (void)state;
    static union wire_message m;
    const uint32_t lies[] = {0,          9,         11, WIRE_REPORT_MAX, WIRE_REPORT_MAX + 1,
                             0x80000000, 0xffffffff};
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        fill(&m, WIRE_ZYGOTE_READY, sizes[WIRE_ZYGOTE_READY] + 10, 0);
        m.ready.report_length = lies[i];
        assert_int_equal(wire_check(&m, sizes[WIRE_ZYGOTE_READY] + 10), -EBADMSG);
    }
}

static void strings_are_terminated(void **state)
{
    (void)state;
    static union wire_message m;
    fill(&m, WIRE_BOX, sizes[WIRE_BOX], 'x');
    assert_int_equal(wire_check(&m, sizes[WIRE_BOX]), 0);
    assert_int_equal(strnlen(m.box.error, WIRE_TEXT_MAX), WIRE_TEXT_MAX - 1);
    assert_int_equal(strnlen(m.box.hint, WIRE_TEXT_MAX), WIRE_TEXT_MAX - 1);
    fill(&m, WIRE_FAILED, sizes[WIRE_FAILED], 'x');
    assert_int_equal(wire_check(&m, sizes[WIRE_FAILED]), 0);
    assert_int_equal(strnlen(m.failed.error, WIRE_TEXT_MAX), WIRE_TEXT_MAX - 1);
    assert_int_equal(strnlen(m.failed.hint, WIRE_TEXT_MAX), WIRE_TEXT_MAX - 1);
    fill(&m, WIRE_INTERPRETER, sizes[WIRE_INTERPRETER], 'x');
    assert_int_equal(wire_check(&m, sizes[WIRE_INTERPRETER]), 0);
    assert_int_equal(strnlen(m.interpreter.executable, WIRE_PATH_MAX), WIRE_PATH_MAX - 1);
    assert_int_equal(strnlen(m.interpreter.version, WIRE_VERSION_MAX), WIRE_VERSION_MAX - 1);
}

static void what_is_no_message_leaves_no_descriptor(void **state)
{
    (void)state;
    static union wire_message m;
    int pair[2], fds[FD_PASS_MAX];
    size_t count = 99;
    unit_socketpair(pair);
    int before = unit_fd_count();
    unit_send_raw(pair[0], "garbage", 7, pair, 2);
    assert_int_equal(wire_recv(pair[1], &m, fds, FD_PASS_MAX, &count), -EBADMSG);
    assert_int_equal(unit_fd_count(), before);
    fill(&m, WIRE_STATUS, sizes[WIRE_STATUS], 0);
    m.h.version = 99;
    unit_send_raw(pair[0], &m, sizes[WIRE_STATUS], pair, 2);
    assert_int_equal(wire_recv(pair[1], &m, fds, FD_PASS_MAX, &count), -EBADMSG);
    assert_int_equal(unit_fd_count(), before);
    // More than were asked for.
    fill(&m, WIRE_STATUS, sizes[WIRE_STATUS], 0);
    unit_send_raw(pair[0], &m, sizes[WIRE_STATUS], pair, 2);
    assert_int_equal(wire_recv(pair[1], &m, fds, 1, &count), -EMSGSIZE);
    assert_int_equal(unit_fd_count(), before);
    // Larger than any message.
    static char large[sizeof m + 1];
    unit_send_raw(pair[0], large, sizeof large, pair, 2);
    assert_int_equal(wire_recv(pair[1], &m, fds, FD_PASS_MAX, &count), -EMSGSIZE);
    assert_int_equal(unit_fd_count(), before);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

// On a SOCK_SEQPACKET socket it looks like the end of the stream, but it can carry descriptors.
static void an_empty_datagram_leaves_no_descriptor(void **state)
{
    (void)state;
    static union wire_message m;
    int pair[2], fds[FD_PASS_MAX];
    size_t count = 0;
    unit_socketpair(pair);
    int before = unit_fd_count();
    unit_send_raw(pair[0], "", 0, pair, 2);
    assert_int_equal(wire_recv(pair[1], &m, fds, FD_PASS_MAX, &count), 0);
    assert_int_equal(unit_fd_count(), before);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void nothing_there_and_nobody_there(void **state)
{
    (void)state;
    static union wire_message m;
    int pair[2];
    unit_socketpair(pair);
    assert_int_equal(fd_set_nonblock(pair[1], true), 0);
    assert_int_equal(wire_recv(pair[1], &m, NULL, 0, NULL), -EAGAIN);
    fd_close(&pair[0]);
    assert_int_equal(wire_recv(pair[1], &m, NULL, 0, NULL), 0);
    fd_close(&pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_arrives_as_it_was_sent),
        cmocka_unit_test(reports_of_every_length),
        cmocka_unit_test(a_report_above_its_maximum_is_no_message),
        cmocka_unit_test(only_the_exact_length_is_a_message),
        cmocka_unit_test(other_versions_types_and_reasons_are_refused),
        cmocka_unit_test(a_report_length_that_lies_is_refused),
        cmocka_unit_test(strings_are_terminated),
        cmocka_unit_test(unknown_error_codes_and_files_are_refused),
        cmocka_unit_test(what_is_no_message_leaves_no_descriptor),
        cmocka_unit_test(an_empty_datagram_leaves_no_descriptor),
        cmocka_unit_test(nothing_there_and_nobody_there),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
