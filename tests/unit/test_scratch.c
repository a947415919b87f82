// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/scratch with a hostile box: the test says whatever it likes.

#include "unit.h"

#include <sys/socket.h>

#include "scratch_hostile.h"

struct one_entry {
    struct frame_filed f;
    struct frame_entry entry;
    char path[2048];
};

// A LIST answer with one entry; what is wrong with it is up to the test.
static struct one_entry entry(const char *path)
{
    struct one_entry m = {.f = answer(FILE_LIST)};
    m.f.count = 1;
    m.entry.path_length = (uint32_t)strlen(path);
    memcpy(m.path, path, strlen(path));
    return m;
}

static void say_entry(const struct one_entry *m, size_t path_length)
{
    say(m, sizeof m->f + sizeof m->entry + path_length, -1);
}

static void ask_list(void)
{
    forget();
    assert_non_null(scratch_list(b, on_done, &saw, &e));
    assert_true(hear());
}

// Begins anew: a box that said garbage is of no more use.
static void again(void)
{
    assert_int_equal(finish(NULL), 0);
    assert_int_equal(begin(NULL), 0);
    ask_list();
}

static void answers_to_nothing_are_thrown_away(void **state)
{
    (void)state;
    ask_list();
    struct frame_filed f = answer(FILE_LIST);
    f.tag++;
    say(&f, sizeof f, -1); // another tag
    f = answer(FILE_READ); // another kind
    say(&f, sizeof f, -1);
    f.op = FILE_ABORT;
    f.errnum = ENOENT;
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 0 && !saw.garbage);
    f = answer(FILE_LIST);
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && worked());
    say(&f, sizeof f, -1); // twice
    assert_true(saw.calls == 1 && !saw.garbage);
}

static void frames_that_no_box_sends(void **state)
{
    (void)state;
    static const struct frame_filed bad[] = {
        {.op = 0},
        {.op = FILE_OP_MAX},
        {.op = FILE_LIST, .errnum = -1},
        {.op = FILE_LIST, .errnum = 4096},
        {.op = FILE_LIST, .more = 2},
        {.op = FILE_LIST, .more = 1}, // and nothing in it
        {.op = FILE_LIST, .reserved = 1},
        {.op = FILE_LIST, .errnum = EIO, .count = 1},
        {.op = FILE_LIST, .count = 1},
        {.op = FILE_LIST, .count = SCRATCH_LIST_MAX + 1},
        {.op = FILE_LIST, .count = 0xffffffff},
        {.op = FILE_LIST, .offset = 1},
        {.op = FILE_READ, .more = 1},
        {.op = FILE_READ, .count = 1},
        {.op = FILE_CREATE, .offset = 1},
        {.op = FILE_DELETE, .more = 1},
        {.op = FILE_DELETE, .count = 1},
        {.op = FILE_BUSY, .count = 2},
    };
    ask_list();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct frame_filed f = bad[i];
        f.tag = asked.tag;
        say(&f, sizeof f, -1);
        if (!saw.garbage || saw.calls != 1 || saw.reply.error.code != ERR_SESSION_ENDED)
            fail_msg("case %zu was taken", i);
        again();
    }
    struct frame_filed f = answer(FILE_LIST);
    for (size_t n = 0; n < sizeof f; n += 7) { // short
        say(&f, n, -1);
        assert_true(saw.garbage);
        again();
        f = answer(FILE_LIST);
    }
    char longer[sizeof f + 1] = {0};
    memcpy(longer, &f, sizeof f);
    say(longer, sizeof longer, -1);
    assert_true(saw.garbage);
    again();
    f = answer(FILE_LIST);
    f.op = FILE_WRITE; // with bytes
    memcpy(longer, &f, sizeof f);
    say(longer, sizeof longer, -1);
    assert_true(saw.garbage);
}

static void entries_that_no_box_sends(void **state)
{
    (void)state;
    static char long_path[1100];
    for (size_t i = 0; i < sizeof long_path - 1; i++)
        long_path[i] = i % 100 ? 'x' : i ? '/' : 'x';
    const char *const bad[] = {"",   "..",   "a/../b", "/etc/passwd", "a//b",  "./a",
                               "a/", "a\nb", "\xff",   "/mnt/data/a", "a\x7f", long_path};
    ask_list();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct one_entry m = entry(bad[i]);
        say_entry(&m, strlen(bad[i]));
        if (!saw.garbage || saw.calls != 1)
            fail_msg("'%s' was taken", bad[i]);
        again();
    }
    struct one_entry m = entry("abc");
    m.entry.path_length = 4; // beyond the frame
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("abc");
    m.entry.path_length = 0xffffffff;
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("abc");
    m.entry.path_length = 2; // less than there is
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("abc");
    m.f.count = 2;
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("abc");
    m.entry.folder = 2;
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("a\0c"); // a NUL in the middle
    m.entry.path_length = 3;
    m.path[2] = 'c';
    say_entry(&m, 3);
    assert_true(saw.garbage);
    again();
    m = entry("abc"); // and one that is right
    m.f.odd = 3;
    say_entry(&m, 3);
    assert_true(saw.calls == 1 && worked() && saw.reply.list.count == 1 && saw.reply.list.odd == 3);
}

// Frame after frame with `more`: no longer than a list can be.
static void a_list_without_an_end(void **state)
{
    (void)state;
    ask_list();
    struct one_entry m = entry("abc");
    m.f.more = 1;
    int n = 0;
    while (!saw.garbage && n <= SCRATCH_LIST_MAX + 1) {
        say_entry(&m, 3);
        n++;
    }
    assert_int_equal(n, SCRATCH_LIST_MAX + 1);
    assert_int_equal(saw.calls, 1);
}

// SECURITY: what a box sends along is never used, whatever frame it comes with; and where the
// kernel can, the box cannot even send it.
static void descriptors_are_refused(void **state)
{
    (void)state;
    char name[] = "/dev/shm/constrictor-fd-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0 && unlink(name) == 0 && write(file, "secret", 6) == 6);
    for (enum frame_file_op op = FILE_LIST; op < FILE_OP_MAX; op++) {
        assert_int_equal(begin(NULL), 0);
        struct scratch_op *begun = op == FILE_LIST ? scratch_list(b, on_done, &saw, &e)
                                   : op == FILE_CREATE
                                       ? scratch_write(b, "x", "y", 1, on_done, &saw, &e)
                                       : scratch_read(b, "x", &sink, on_done, &saw, &e);
        assert_non_null(begun);
        assert_true(hear());
        struct {
            struct frame_header h;
            struct frame_filed f;
        } m = {{.magic = FRAME_MAGIC, .kind = FRAME_FILED, .total = sizeof m.f}, answer(op)};
        int before = unit_fd_count();
        if (!unit_try_send(box, &m, sizeof m, &file, 1)) { // Linux 6.16
            turn();
            assert_true(!saw.garbage && saw.calls == 0);
            unit_take_rights(b->control);
            unit_send_raw(box, &m, sizeof m, &file, 1);
        }
        turn();
        if (!saw.garbage || saw.calls != 1)
            fail_msg("a descriptor with %d was taken", op);
        assert_int_equal(unit_fd_count(), before);
        assert_int_equal(sunk.begins, 0);
        assert_int_equal(finish(NULL), 0);
    }
    (void)close(file);
}

// ---- reading ------------------------------------------------------------------------------------

enum { BIG = 3 * FRAME_DATA_MAX + 100, INODE = 77 };

struct bytes {
    struct frame_filed f;
    char data[FRAME_DATA_MAX + 1];
};

// The answer to the last question, with `length` bytes of a file that has `size`.
static struct bytes *part(uint64_t size, size_t length)
{
    static struct bytes m;
    m.f = answer(FILE_READ);
    m.f.offset = asked.offset;
    m.f.stat = (struct frame_stat){.size = size, .mtime_ns = 5, .ctime_ns = 6, .inode = INODE};
    for (size_t i = 0; i < length; i++)
        m.data[i] = (char)((asked.offset + i) * 31);
    return &m;
}

static void say_part(const struct bytes *m, size_t length)
{
    say(m, sizeof m->f + length, -1);
}

static void ask_read(void)
{
    while (hear()) // what the one before asked for in vain
        ;
    forget();
    forget_sunk();
    assert_non_null(scratch_read(b, "x", &sink, on_done, &saw, &e));
    assert_true(hear() && asked.op == FILE_READ && asked.offset == 0 && asked.inode == 0);
    assert_int_equal(asked.length, FRAME_DATA_MAX);
}

// The first answer came; the second question is the last that was heard.
static void ask_big(void)
{
    ask_read();
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(sunk.begins == 1 && sunk.length == FRAME_DATA_MAX && saw.calls == 0);
    assert_true(hear() && asked.op == FILE_READ && asked.offset == FRAME_DATA_MAX);
    assert_true(asked.inode == INODE && asked.length == FRAME_DATA_MAX);
}

static void a_large_file_comes_in_parts(void **state)
{
    (void)state;
    ask_big();
    struct frame_file second = asked, others[2];
    for (int i = 0; i < 2; i++) { // asked for without waiting for the second
        assert_true(hear());
        others[i] = asked;
    }
    assert_int_equal(others[1].length, 100);
    assert_false(hear());
    asked = second;
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    asked = others[0];
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_int_equal(saw.calls, 0);
    asked = others[1];
    say_part(part(BIG, 100), 100);
    assert_true(saw.calls == 1 && worked() && !saw.garbage && saw.reply.file.size == BIG);
    assert_true(saw.reply.file.inode == INODE && saw.reply.file.mtime_ns == 5);
    assert_int_equal(sunk.length, BIG);
    for (size_t i = 0; i < BIG; i++)
        assert_int_equal(sunk.data[i], (char)(i * 31));
}

static void a_part_is_all_that_is_asked_for(void **state)
{
    (void)state;
    sunk.want = (struct scratch_part){BIG - 150, 60};
    assert_non_null(scratch_read(b, "x", &sink, on_done, &saw, &e));
    assert_true(hear());
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(sunk.length == 0 && hear() && asked.offset == BIG - 150 && asked.length == 60);
    say_part(part(BIG, 60), 60);
    assert_true(saw.calls == 1 && worked() && sunk.length == 60 && saw.reply.file.size == BIG);
    forget();
    forget_sunk();
    sunk.want = (struct scratch_part){10, 5}; // within what came with the first answer
    assert_non_null(scratch_read(b, "x", &sink, on_done, &saw, &e));
    assert_true(hear());
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(saw.calls == 1 && worked() && sunk.length == 5 && !hear());
    forget();
    forget_sunk();
    sunk.want = (struct scratch_part){UINT64_MAX, UINT64_MAX}; // beyond the end
    assert_non_null(scratch_read(b, "x", &sink, on_done, &saw, &e));
    assert_true(hear());
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(saw.calls == 1 && worked() && sunk.length == 0 && !hear());
}

static void a_file_that_becomes_shorter(void **state)
{
    (void)state;
    ask_big();
    say_part(part(20, 20), 20);
    assert_true(saw.calls == 1 && worked() && sunk.length == FRAME_DATA_MAX + 20);
    assert_int_equal(saw.reply.file.size, FRAME_DATA_MAX + 20);
    ask_read();
    say_part(part(BIG, 7), 7); // between the look and the read
    assert_true(saw.calls == 1 && worked() && saw.reply.file.size == 7 && sunk.length == 7);
}

static void a_caller_that_wants_no_more(void **state)
{
    (void)state;
    ask_read();
    sunk.refuse = 1;
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(saw.calls == 1 && worked() && !hear());
    ask_read();
    sunk.refuse = -1;
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(saw.calls == 1 && saw.reply.error.code == ERR_DISK_FULL && !hear());
}

// Each of these is the end of the box, and of nothing else.
static void bytes_that_no_box_sends(void **state)
{
    (void)state;
    enum {
        WRONG_OFFSET,
        BACK,
        TOO_LONG,
        WRONG_INODE,
        TWICE,
        LATE_FIRST,
        FIRST_LONG,
        NO_INODE,
        CASES
    };
    for (int i = 0; i < CASES; i++) {
        struct bytes *m;
        size_t length = FRAME_DATA_MAX;
        if (i < LATE_FIRST)
            ask_big();
        else
            ask_read();
        m = part(BIG, FRAME_DATA_MAX);
        switch (i) {
        case WRONG_OFFSET: m->f.offset += FRAME_DATA_MAX; break;
        case BACK: m->f.offset = 0; break;
        case TOO_LONG: length++; break;
        case WRONG_INODE: m->f.stat.inode++; break;
        case TWICE:
            say_part(m, length);
            assert_false(saw.garbage);
            break;
        case LATE_FIRST: m->f.offset = 1; break;
        case FIRST_LONG: m->f.stat.size = 10; break; // more bytes than it has
        case NO_INODE: m->f.stat.inode = 0; break;
        }
        say_part(m, length);
        if (!saw.garbage || saw.calls != 1 || saw.reply.error.code != ERR_SESSION_ENDED)
            fail_msg("case %d was taken", i);
        assert_int_equal(finish(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    ask_read(); // larger than any file of a box can be
    say_part(part((64 << 20) + 1, FRAME_DATA_MAX), FRAME_DATA_MAX);
    assert_true(saw.calls == 1 && saw.reply.error.code == ERR_FILE_TOO_LARGE && sunk.begins == 0);
}

static void another_file_in_the_middle_of_a_read(void **state)
{
    (void)state;
    ask_big();
    struct frame_filed f = answer(FILE_READ);
    f.errnum = ESTALE;
    f.offset = asked.offset;
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && saw.reply.error.code == ERR_FILE_REFUSED && !saw.garbage);
    assert_non_null(strstr(saw.reply.error.message, "replaced"));
}

// A box that gives a little now and then does not keep the gate waiting for ever.
static void a_box_that_dribbles(void **state)
{
    (void)state;
    ask_big();
    alarm(SCRATCH_TIMEOUT_MS / 1000 + 600);
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX);
    until_called(1);
    alarm(0);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TIMEOUT);
    say_part(part(BIG, FRAME_DATA_MAX), FRAME_DATA_MAX); // too late
    assert_true(saw.calls == 1 && !saw.garbage);
}

// ---- writing ------------------------------------------------------------------------------------

static char text[BIG];

// CREATE was answered; the first WRITE was heard.
static void begin_write(void)
{
    forget();
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    assert_non_null(scratch_write(b, "x", text, sizeof text, on_done, &saw, &e));
    assert_true(hear() && asked.op == FILE_CREATE && asked.length == FRAME_DATA_MAX);
    assert_memory_equal(brought, text, FRAME_DATA_MAX);
    struct frame_filed f = answer(FILE_CREATE);
    f.stat.inode = INODE;
    say(&f, sizeof f, -1);
    assert_true(hear() && asked.op == FILE_WRITE && asked.offset == FRAME_DATA_MAX);
    assert_true(asked.inode == INODE && asked.ticket == asked.tag);
}

static void a_large_file_is_brought_in_parts(void **state)
{
    (void)state;
    begin_write();
    for (uint64_t at = FRAME_DATA_MAX; at < BIG; at += FRAME_DATA_MAX) {
        assert_true(asked.op == FILE_WRITE && asked.offset == at);
        assert_memory_equal(brought, text + at, asked.length);
        struct frame_filed f = answer(FILE_WRITE);
        f.offset = at;
        say(&f, sizeof f, -1);
        assert_true(hear());
    }
    assert_int_equal(asked.op, FILE_COMMIT);
    struct frame_filed f = answer(FILE_COMMIT);
    f.stat.size = BIG;
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && worked() && saw.reply.file.size == BIG && b->writes == 1);
}

static void acknowledgements_that_no_box_sends(void **state)
{
    (void)state;
    enum { AHEAD, BACK, UNASKED, CASES };
    for (int i = 0; i < CASES; i++) {
        begin_write();
        struct frame_filed f = answer(FILE_WRITE);
        f.offset = i == AHEAD ? 2 * FRAME_DATA_MAX : i == BACK ? 0 : FRAME_DATA_MAX;
        for (int n = 0; i == UNASKED && n < 3; n++, f.offset += FRAME_DATA_MAX)
            say(&f, sizeof f, -1); // all that were asked: COMMIT is awaited then
        if (i == UNASKED) {
            assert_true(!saw.garbage && saw.calls == 0);
            say(&f, sizeof f, -1); // answers nothing
            assert_true(!saw.garbage && saw.calls == 0);
            assert_int_equal(finish(NULL), 0);
            assert_int_equal(begin(NULL), 0);
            continue;
        }
        say(&f, sizeof f, -1);
        assert_true(saw.garbage && saw.calls == 1);
        assert_int_equal(finish(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

// A write that fails in the box: an error, ABORT, and nothing else.
static void a_file_that_refuses(void **state)
{
    (void)state;
    begin_write();
    uint32_t tag = asked.tag;
    struct frame_filed f = answer(FILE_WRITE);
    f.offset = asked.offset;
    f.errnum = EFBIG;
    say(&f, sizeof f, -1);
    assert_int_equal(saw.calls, 1);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TOO_LARGE);
    while (hear() && asked.op == FILE_WRITE)
        ;
    assert_true(asked.op == FILE_ABORT && asked.tag == tag && asked.ticket == tag);
}

// A box that does not read: what waits for it is one frame for each operation, not a window of
// them.
static void a_box_that_does_not_read(void **state)
{
    (void)state;
    begin_write();
    struct frame_filed f = answer(FILE_WRITE);
    int small = 1; // as small as the kernel lets it be
    assert_int_equal(setsockopt(b->control, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    while (hear())
        ;
    f.offset = FRAME_DATA_MAX;
    say(&f, sizeof f, -1);
    assert_in_range(b->frame_count, 0, 1);
}

static void a_full_scratch(void **state)
{
    (void)state;
    assert_non_null(scratch_write(b, "big/x", "y", 1, on_done, &saw, &e));
    assert_true(hear());
    struct frame_filed f = answer(FILE_CREATE);
    f.errnum = ENOSPC;
    say(&f, sizeof f, -1);
    assert_int_equal(saw.reply.error.code, ERR_DISK_FULL);
    assert_non_null(strstr(saw.reply.error.message, "it has 1, and 0 of the 64M"));
    assert_non_null(strstr(saw.reply.error.hint, "--scratch"));
    forget();
    assert_non_null(scratch_write(b, "big/x", "y", 1, on_done, &saw, &e));
    assert_true(hear());
    f = answer(FILE_CREATE);
    f.errnum = ENOSPC;
    f.stat.size = 1000; // there is room, but for no name
    say(&f, sizeof f, -1);
    assert_int_equal(saw.reply.error.code, ERR_DISK_FULL);
    assert_non_null(strstr(saw.reply.error.message, "67108864 bytes"));
    assert_non_null(strstr(saw.reply.error.message, "100 names"));
}

static void every_errno_of_a_box_is_some_error(void **state)
{
    (void)state;
    for (int n = 1; n < 140; n++) {
        ask_list();
        struct frame_filed f = answer(FILE_LIST);
        f.errnum = n;
        say(&f, sizeof f, -1);
        assert_true(saw.calls == 1 && saw.reply.error.message[0] && !saw.garbage);
    }
}

static void a_file_above_the_limit_is_not_begun(void **state)
{
    (void)state;
    assert_null(scratch_write(b, "x", "", (64 << 20) + 1, on_done, &saw, &e));
    assert_int_equal(e.code, ERR_FILE_TOO_LARGE);
    assert_non_null(strstr(e.message, "67108864"));
    assert_false(hear());
}

static void so_many_at_one_time_and_no_more(void **state)
{
    (void)state;
    struct scratch_op *ops[SCRATCH_OPS_MAX];
    for (int i = 0; i < SCRATCH_OPS_MAX; i++)
        assert_non_null(ops[i] = scratch_list(b, on_done, &saw, &e));
    assert_null(scratch_list(b, on_done, &saw, &e));
    assert_int_equal(e.code, ERR_BUSY);
    scratch_cancel(ops[5]);
    assert_non_null(scratch_list(b, on_done, &saw, &e));
    live_free(b); // tells them all
    b = NULL;
    assert_int_equal(saw.calls, SCRATCH_OPS_MAX);
    assert_int_equal(saw.reply.error.code, ERR_SESSION_ENDED);
}

// Cancelling does not make room for frames that the box never reads.
static void cancelled_ones_have_a_bound(void **state)
{
    (void)state;
    int begun = 0;
    for (int i = 0; i < 100000; i++) {
        struct scratch_op *op = scratch_list(b, on_done, &saw, &e);
        if (!op)
            break;
        scratch_cancel(op);
        begun++;
    }
    assert_int_equal(e.code, ERR_BUSY);
    assert_in_range(begun, SCRATCH_OPS_MAX, 10000);
    assert_in_range(b->frame_count, 1, SCRATCH_OPS_MAX);
}

// The caller sees one removal, however many steps it takes.
static void a_long_removal_goes_on(void **state)
{
    (void)state;
    assert_non_null(scratch_delete(b, "x", on_done, &saw, &e));
    for (int i = 0; i < 5; i++) {
        assert_true(hear());
        struct frame_filed f = answer(FILE_DELETE);
        f.errnum = E2BIG;
        say(&f, sizeof f, -1);
        assert_int_equal(saw.calls, 0);
    }
    assert_true(hear());
    struct frame_filed f = answer(FILE_DELETE);
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && worked());
}

static void a_box_that_does_not_answer(void **state)
{
    (void)state;
    assert_non_null(scratch_write(b, "x", "y", 1, on_done, &saw, &e));
    assert_true(hear());
    uint32_t tag = asked.tag;
    alarm(SCRATCH_TIMEOUT_MS / 1000 + 600);
    until_called(1);
    alarm(0);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TIMEOUT);
    assert_true(hear() && asked.op == FILE_ABORT && asked.ticket == tag);
    // It answers after all: thrown away.
    struct frame_filed f = answer(FILE_CREATE);
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && !saw.garbage);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
#define PLAIN(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_to_nothing_are_thrown_away),
        TEST(frames_that_no_box_sends),
        TEST(entries_that_no_box_sends),
        TEST(a_list_without_an_end),
        PLAIN(descriptors_are_refused),
        TEST(a_large_file_comes_in_parts),
        TEST(a_part_is_all_that_is_asked_for),
        TEST(a_file_that_becomes_shorter),
        TEST(a_caller_that_wants_no_more),
        TEST(bytes_that_no_box_sends),
        TEST(another_file_in_the_middle_of_a_read),
        TEST(a_box_that_dribbles),
        TEST(a_large_file_is_brought_in_parts),
        TEST(acknowledgements_that_no_box_sends),
        TEST(a_file_that_refuses),
        TEST(a_box_that_does_not_read),
        TEST(a_full_scratch),
        TEST(every_errno_of_a_box_is_some_error),
        TEST(a_file_above_the_limit_is_not_begun),
        TEST(so_many_at_one_time_and_no_more),
        TEST(cancelled_ones_have_a_bound),
        TEST(a_long_removal_goes_on),
        TEST(a_box_that_does_not_answer),
    };
    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}
