// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of wire/frame: frames cut and put together again, and datagrams that no box sends.

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/frame.h"

// Feeds one datagram from a block of just its size.
static int feed(struct frame_reader *r, struct frame_header h, const char *payload, size_t n)
{
    char *datagram = malloc(sizeof h + n);
    assert_non_null(datagram);
    memcpy(datagram, &h, sizeof h);
    if (n)
        memcpy(datagram + sizeof h, payload, n);
    int result = frame_reader_feed(r, datagram, sizeof h + n);
    free(datagram);
    return result;
}

static struct frame_header header(unsigned kind, uint32_t total, uint32_t offset)
{
    return (struct frame_header){
        .magic = FRAME_MAGIC, .kind = (uint16_t)kind, .total = total, .offset = offset};
}

static void a_frame_in_pieces(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 100};
    assert_int_equal(feed(&r, header(FRAME_RESULT, 6, 0), "ab", 2), 0);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 6, 2), "c", 1), 0);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 6, 3), "def", 3), 1);
    assert_int_equal(r.kind, FRAME_RESULT);
    assert_int_equal(r.total, 6);
    assert_memory_equal(r.data, "abcdef", 6);
    // The next one follows at once, and may be empty.
    assert_int_equal(feed(&r, header(FRAME_EXIT, 0, 0), "", 0), 1);
    assert_int_equal(r.kind, FRAME_EXIT);
    assert_int_equal(r.total, 0);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 1, 0), "x", 1), 1);
    assert_memory_equal(r.data, "x", 1);
    frame_reader_done(&r);
    assert_null(r.data);
    assert_int_equal(r.max, 100);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 1, 0), "y", 1), 1); // and can be used again
    frame_reader_done(&r);
    frame_reader_done(&r);
}

// A sender was killed in the middle; its init says so in a frame of its own.
static void an_unfinished_frame_gives_way_to_the_next(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 1000};
    assert_int_equal(feed(&r, header(FRAME_RESULT, 600, 0), "abc", 3), 0);
    assert_int_equal(feed(&r, header(FRAME_EXIT, 4, 0), "exit", 4), 1);
    assert_int_equal(r.kind, FRAME_EXIT);
    assert_memory_equal(r.data, "exit", 4);
    // The rest of the old one fits nowhere.
    assert_int_equal(feed(&r, header(FRAME_RESULT, 600, 3), "def", 3), -EBADMSG);
    frame_reader_done(&r);
}

// Another gate read its beginning, and was killed: the rest of it is left out, once.
static void a_reader_that_comes_in_the_middle(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 1000, .resync = true};
    assert_int_equal(feed(&r, header(FRAME_RESULT, 600, 300), "abc", 3), 0);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 600, 303), "def", 3), 0);
    assert_null(r.data);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 6, 0), "abc", 3), 0);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 6, 3), "def", 3), 1);
    assert_memory_equal(r.data, "abcdef", 6);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 600, 303), "def", 3), -EBADMSG);
    frame_reader_done(&r);
    // What is wrong in itself is an error from the beginning.
    r = (struct frame_reader){.max = 1000, .resync = true};
    assert_int_equal(feed(&r, header(FRAME_RESULT, 2000, 300), "abc", 3), -EMSGSIZE);
    r = (struct frame_reader){.max = 1000, .resync = true};
    assert_int_equal(feed(&r, header(FRAME_KIND_MAX, 600, 300), "abc", 3), -EBADMSG);
}

static void flags_are_those_of_the_beginning(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 1000};
    struct frame_header h = header(FRAME_RESULT, 4, 0);
    h.flags = FRAME_HAS_FILES;
    assert_int_equal(feed(&r, h, "ab", 2), 0);
    h.offset = 2;
    h.flags = 0xffff;
    assert_int_equal(feed(&r, h, "cd", 2), 1);
    assert_int_equal(r.flags, FRAME_HAS_FILES);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 1, 0), "x", 1), 1);
    assert_int_equal(r.flags, 0);
    frame_reader_done(&r);

    int pair[2];
    struct frame_header got;
    size_t offset = 0;
    unit_socketpair(pair);
    assert_int_equal(frame_send_flags(pair[0], FRAME_RUN, FRAME_KEPT, NULL, 0, &offset), 0);
    assert_int_equal(recv(pair[1], &got, sizeof got, 0), sizeof got);
    assert_int_equal(got.flags, FRAME_KEPT);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void datagrams_that_no_box_sends(void **state)
{
    (void)state;
    static char chunk[FRAME_CHUNK + 1];
    const struct {
        struct frame_header h;
        size_t payload;
        int result;
    } cases[] = {
        {{.magic = 0, .kind = FRAME_RESULT, .total = 1}, 1, -EBADMSG},
        {{.magic = FRAME_MAGIC + 1, .kind = FRAME_RESULT, .total = 1}, 1, -EBADMSG},
        {header(0, 1, 0), 1, -EBADMSG},
        {header(FRAME_KIND_MAX, 1, 0), 1, -EBADMSG},
        {header(0xffff, 1, 0), 1, -EBADMSG},
        {header(FRAME_RESULT, 1, 0), 2, -EBADMSG},                    // more than announced
        {header(FRAME_RESULT, 10, 8), 3, -EBADMSG},                   // beyond the end
        {header(FRAME_RESULT, 10, 11), 0, -EBADMSG},                  // begins after the end
        {header(FRAME_RESULT, 10, 0xffffffff), 1, -EBADMSG},          // offset + length wraps
        {header(FRAME_RESULT, 0xffffffff, 0xfffffffe), 1, -EMSGSIZE}, //
        {header(FRAME_RESULT, 10, 0), 0, -EBADMSG},                   // no progress
        {header(FRAME_RESULT, 10, 3), 1, -EBADMSG},   // a middle without a beginning
        {header(FRAME_RESULT, 101, 0), 1, -EMSGSIZE}, // above the reader's maximum
        {header(FRAME_RESULT, 0xffffffff, 0), 1, -EMSGSIZE},
        {header(FRAME_RESULT, FRAME_CHUNK + 1, 0), FRAME_CHUNK + 1, -EBADMSG}, // above a datagram's
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_reader r = {.max = 100};
        int result = feed(&r, cases[i].h, chunk, cases[i].payload);
        if (result != cases[i].result)
            fail_msg("case %zu gave %d", i, result);
        assert_null(r.data); // nothing was allocated for it
        frame_reader_done(&r);
    }
    for (size_t n = 0; n < sizeof(struct frame_header); n++) {
        struct frame_reader r = {.max = 100};
        struct frame_header h = header(FRAME_RESULT, 0, 0);
        char *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, &h, n);
        assert_int_equal(frame_reader_feed(&r, cut, n), -EBADMSG);
        free(cut);
    }
}

static void the_middle_must_belong_to_the_beginning(void **state)
{
    (void)state;
    const struct frame_header wrong[] = {
        header(FRAME_EXIT, 10, 2),   // another kind
        header(FRAME_RESULT, 11, 2), // another total
        header(FRAME_RESULT, 10, 1), // overlaps
        header(FRAME_RESULT, 10, 3), // leaves a hole
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct frame_reader r = {.max = 100};
        assert_int_equal(feed(&r, header(FRAME_RESULT, 10, 0), "ab", 2), 0);
        assert_int_equal(feed(&r, wrong[i], "c", 1), -EBADMSG);
        frame_reader_done(&r);
    }
    // After the last byte there is no more.
    struct frame_reader r = {.max = 100};
    assert_int_equal(feed(&r, header(FRAME_RESULT, 2, 0), "ab", 2), 1);
    assert_int_equal(feed(&r, header(FRAME_RESULT, 2, 2), "", 0), -EBADMSG);
    frame_reader_done(&r);
}

// frame.h promises it: what follows an error may be the attacker's idea of a beginning.
static void after_an_error_the_reader_takes_nothing_more(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 100};
    assert_int_equal(feed(&r, header(0, 1, 0), "x", 1), -EBADMSG);
    assert_true(feed(&r, header(FRAME_RESULT, 1, 0), "x", 1) < 0);
    frame_reader_done(&r);
}

static void the_largest_frame_that_is_accepted(void **state)
{
    (void)state;
    static char chunk[FRAME_CHUNK];
    struct frame_reader r = {.max = FRAME_RESULT_MAX};
    int result = 0;
    for (uint32_t at = 0; at < FRAME_RESULT_MAX;) {
        uint32_t n = FRAME_RESULT_MAX - at < FRAME_CHUNK ? FRAME_RESULT_MAX - at : FRAME_CHUNK;
        memset(chunk, (int)(at / FRAME_CHUNK), sizeof chunk);
        assert_int_equal(result, 0);
        result = feed(&r, header(FRAME_RESULT, FRAME_RESULT_MAX, at), chunk, n);
        at += n;
    }
    assert_int_equal(result, 1);
    assert_int_equal(r.data[0], 0);
    assert_int_equal(r.data[FRAME_CHUNK], 1);
    frame_reader_done(&r);
}

// ---- sending ------------------------------------------------------------------------------------

static void frames_of_every_size_arrive(void **state)
{
    (void)state;
    const size_t sizes[] = {
        0, 1, FRAME_CHUNK - 1, FRAME_CHUNK, FRAME_CHUNK + 1, 3 * FRAME_CHUNK, 1 << 20};
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    char *code = malloc(1 << 20);
    assert_non_null(code);
    for (size_t i = 0; i < 1 << 20; i++)
        code[i] = (char)(i * 7 + i / 251);
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        int pair[2], r;
        unit_socketpair(pair);
        assert_int_equal(fd_set_nonblock(pair[0], true), 0);
        assert_int_equal(fd_set_nonblock(pair[1], true), 0);
        struct frame_piece pieces[] = {{"head", 4}, {"", 0}, {code, sizes[s]}, {"tail", 4}};
        struct frame_reader reader = {.max = FRAME_RUN_MAX};
        size_t offset = 0;
        int complete = 0, rounds = 0;
        do { // a full socket is emptied and the sender called again with the same arguments
            r = frame_send(pair[0], FRAME_RUN, pieces, 4, &offset);
            assert_true(r == 0 || r == -EAGAIN);
            for (ssize_t n; (n = recv(pair[1], datagram, sizeof datagram, 0)) > 0;) {
                assert_int_equal(complete, 0);
                complete = frame_reader_feed(&reader, datagram, (size_t)n);
                assert_true(complete >= 0);
            }
            assert_true(++rounds < 1000);
        } while (r == -EAGAIN);
        assert_int_equal(complete, 1);
        assert_int_equal(reader.kind, FRAME_RUN);
        assert_int_equal(reader.total, sizes[s] + 8);
        assert_memory_equal(reader.data, "head", 4);
        assert_memory_equal(reader.data + 4, code, sizes[s]);
        assert_memory_equal(reader.data + 4 + sizes[s], "tail", 4);
        if (sizes[s] == 1 << 20)
            assert_true(rounds > 1); // the way through EAGAIN was taken
        frame_reader_done(&reader);
        fd_close(&pair[0]);
        fd_close(&pair[1]);
    }
    free(code);
}

static void an_empty_frame_is_one_datagram(void **state)
{
    (void)state;
    int pair[2];
    char datagram[64];
    size_t offset = 0;
    struct frame_reader r = {.max = 10};
    unit_socketpair(pair);
    assert_int_equal(frame_send(pair[0], FRAME_READY, NULL, 0, &offset), 0);
    ssize_t n = recv(pair[1], datagram, sizeof datagram, 0);
    assert_int_equal(n, sizeof(struct frame_header));
    assert_int_equal(frame_reader_feed(&r, datagram, (size_t)n), 1);
    frame_reader_done(&r);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void what_cannot_be_sent(void **state)
{
    (void)state;
    int pair[2];
    size_t offset = 0;
    unit_socketpair(pair);
    struct frame_piece pieces[5] = {{"x", 1}, {"x", 1}, {"x", 1}, {"x", 1}, {"x", 1}};
    assert_int_equal(frame_send(pair[0], FRAME_RUN, pieces, 5, &offset), -EINVAL);
    pieces[1].len = FRAME_RUN_MAX;
    assert_int_equal(frame_send(pair[0], FRAME_RUN, pieces, 2, &offset), -EMSGSIZE);
    assert_int_equal(offset, 0);
    fd_close(&pair[1]);
    pieces[1].len = 1;
    assert_int_equal(frame_send(pair[0], FRAME_RUN, pieces, 2, &offset), -EPIPE); // and no SIGPIPE
    assert_int_equal(offset, 0);
    fd_close(&pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_in_pieces),
        cmocka_unit_test(an_unfinished_frame_gives_way_to_the_next),
        cmocka_unit_test(a_reader_that_comes_in_the_middle),
        cmocka_unit_test(flags_are_those_of_the_beginning),
        cmocka_unit_test(datagrams_that_no_box_sends),
        cmocka_unit_test(the_middle_must_belong_to_the_beginning),
        cmocka_unit_test(after_an_error_the_reader_takes_nothing_more),
        cmocka_unit_test(the_largest_frame_that_is_accepted),
        cmocka_unit_test(frames_of_every_size_arrive),
        cmocka_unit_test(an_empty_frame_is_one_datagram),
        cmocka_unit_test(what_cannot_be_sent),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
