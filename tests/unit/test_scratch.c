// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of gate/scratch with a hostile box: the test says whatever it likes.

#include "unit.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "scratch_box.h"

// Ten seconds in a tenth of one.
int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
    struct timeval sooner = {.tv_usec = tv ? tv->tv_sec * 10000 : 0};
    return __real_event_add(ev, tv ? &sooner : NULL);
}

// ---- with a hostile one --------------------------------------------------------------------------------------

static struct frame_file asked; // the last that the gate sent

static bool hear(void)
{
    struct {
        struct frame_header h;
        struct frame_file f;
        char path[SCRATCH_PATH_MAX];
    } m;
    ssize_t n = recv(box, &m, sizeof m, MSG_DONTWAIT);
    if (n < 0)
        return false;
    assert_true(m.h.kind == FRAME_FILE && m.f.path_length == (size_t)n - sizeof m.h - sizeof m.f);
    asked = m.f;
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
    int fd = memfd_create("x", MFD_CLOEXEC), before;
    ask_list();
    struct frame_filed f = answer(FILE_LIST);
    f.tag++;
    before = unit_fd_count();
    say(&f, sizeof f, -1); // another tag
    f = answer(FILE_OPEN); // another kind, with a descriptor
    say(&f, sizeof f, fd);
    f.op = FILE_ABORT;
    f.errnum = ENOENT;
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 0 && !saw.garbage);
    assert_int_equal(unit_fd_count(), before);
    f = answer(FILE_LIST);
    say(&f, sizeof f, -1);
    assert_true(saw.calls == 1 && worked());
    say(&f, sizeof f, -1); // twice
    assert_true(saw.calls == 1 && !saw.garbage);
    (void)close(fd);
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
        {.op = FILE_OPEN}, // no descriptor
        {.op = FILE_CREATE},
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
    say(&f, sizeof f, box); // a descriptor with a list
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

static void descriptors_that_are_not_of_a_file_in_scratch(void **state)
{
    (void)state;
    int pipes[2], memory = memfd_create("x", MFD_CLOEXEC);
    char name[] = "/dev/shm/constrictor-fd-XXXXXX";
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    int file = mkstemp(name);
    assert_true(file >= 0 && memory >= 0);
    const struct {
        int fd;
        bool reading, writing; // usable for
    } cases[] = {
        {open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC), false, false},
        {dup(pipes[0]), false, false},
        {dup(pipes[1]), false, false},
        {open("/dev/null", O_RDWR | O_CLOEXEC), false, false},
        {open("/dev/zero", O_RDONLY | O_CLOEXEC), false, false},
        {open("/proc/self/maps", O_RDONLY | O_CLOEXEC), false, false}, // regular, but not on tmpfs
        {open(name, O_PATH | O_CLOEXEC), false, false},
        {open(name, O_RDONLY | O_CLOEXEC), true, false},
        {open(name, O_WRONLY | O_CLOEXEC), false, true},
        {open(name, O_RDWR | O_CLOEXEC), true, true},
        {dup(memory), true, false}, // anonymous: has no limit, and may not be filled
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_true(cases[i].fd >= 0);
        for (int writing = 0; writing < 2; writing++) {
            assert_int_equal(begin(NULL), 0);
            struct scratch_op *op = writing ? scratch_write(b, "x", "y", 1, on_done, &saw, &e)
                                            : scratch_read(b, "x", on_done, &saw, &e);
            assert_non_null(op);
            assert_true(hear());
            struct frame_filed f = answer(writing ? FILE_CREATE : FILE_OPEN);
            int before = unit_fd_count();
            say(&f, sizeof f, cases[i].fd);
            bool usable = writing ? cases[i].writing : cases[i].reading;
            if (saw.garbage == usable)
                fail_msg("case %zu, %s", i, writing ? "writing" : "reading");
            if (!usable)
                assert_true(saw.calls == 1 && saw.reply.fd < 0);
            else if (writing) // written and closed; COMMIT is awaited
                assert_true(saw.calls == 0 && hear() && asked.op == FILE_COMMIT);
            else
                assert_true(saw.calls == 1 && saw.reply.fd >= 0);
            assert_int_equal(unit_fd_count(), before + (usable && !writing));
            assert_int_equal(finish(NULL), 0);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        (void)close(cases[i].fd);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    (void)close(memory);
    (void)close(file);
    (void)unlink(name);
}

// A file that refuses to be written to: an error, ABORT, and nothing else.
static void a_file_that_refuses(void **state)
{
    (void)state;
    char name[] = "/dev/shm/constrictor-fd-XXXXXX";
    int file = mkstemp(name);
    struct rlimit before, none;
    assert_true(file >= 0 && unlink(name) == 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_non_null(scratch_write(b, "x", "y", 1, on_done, &saw, &e));
    assert_true(hear());
    struct frame_filed f = answer(FILE_CREATE);
    uint32_t tag = asked.tag;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    say(&f, sizeof f, file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(saw.calls, 1);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TOO_LARGE);
    assert_true(hear() && asked.op == FILE_ABORT && asked.tag == tag && asked.ticket == tag);
    (void)close(file);
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
    assert_non_null(strstr(saw.reply.error.message, "1048576 bytes"));
    assert_non_null(strstr(saw.reply.error.message, "100 names"));
    assert_non_null(strstr(saw.reply.error.hint, "--scratch"));
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

// A removal that takes several goes is one for whoever asked.
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
    alarm(SCRATCH_TIMEOUT_MS / 1000 + 5);
    until_called(1);
    alarm(0);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TIMEOUT);
    assert_true(hear() && asked.op == FILE_ABORT && asked.ticket == tag);
    // It answers after all: thrown away.
    int fd = memfd_create("x", MFD_CLOEXEC), before = unit_fd_count();
    struct frame_filed f = answer(FILE_CREATE);
    say(&f, sizeof f, fd);
    assert_true(saw.calls == 1 && !saw.garbage);
    assert_int_equal(unit_fd_count(), before);
    (void)close(fd);
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
        PLAIN(descriptors_that_are_not_of_a_file_in_scratch),
        TEST(a_file_that_refuses),
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
