// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/scratch with a real box: box/files serves in a child, on a folder of the
// test's own.

#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "box/files.h"
#include "scratch_box.h"

static char root[64];
static pid_t server;

static _Noreturn void serve(void)
{
    (void)signal(SIGXFSZ, SIG_IGN); // as pid 1 of a box, and as Python does
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    enum { HEAD = sizeof(struct frame_header) };
    for (ssize_t n; (n = recv(box, datagram, sizeof datagram, 0)) > HEAD;)
        if (!files_serve(box, root, true, datagram + HEAD, (size_t)n - HEAD))
            _exit(2);
    _exit(0);
}

static int begin_real(void **state)
{
    snprintf(root, sizeof root, "/dev/shm/constrictor-scratch-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(chdir(root), 0);
    int n = begin(state);
    server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        (void)close(b->control);
        serve();
    }
    fd_close(&box);
    return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int finish_real(void **state)
{
    int status, n = finish(state);
    assert_int_equal(waitpid(server, &status, 0), server);
    assert_int_equal(chdir("/"), 0);
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return status == 0 ? n : -1;
}

// ---- with a real box ----------------------------------------------------------------------------

static void write_file(const char *path, const void *data, size_t length)
{
    forget();
    assert_non_null(scratch_write(b, path, data, length, on_done, &saw, &e));
    assert_int_equal(saw.calls, 0); // never from within
    until_called(1);
}

static void a_file_goes_in_and_comes_out(void **state)
{
    (void)state;
    write_file("in/put.txt", "hello", 5);
    assert_true(worked() && saw.reply.file.size == 5 && saw.reply.file.inode);
    assert_string_equal(saw.path, "in/put.txt");
    assert_int_equal(b->writes, 1);
    uint64_t inode = saw.reply.file.inode;
    int64_t mtime = saw.reply.file.mtime_ns, ctime = saw.reply.file.ctime_ns;

    forget();
    assert_non_null(scratch_read(b, "in/put.txt", &sink, on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && saw.reply.file.size == 5);
    assert_true(saw.reply.file.inode == inode && saw.reply.file.mtime_ns == mtime);
    assert_true(sunk.length == 5 && memcmp(sunk.data, "hello", 5) == 0);
    assert_memory_equal(sunk.head, "hello", 5);

    forget();
    assert_non_null(scratch_list(b, on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && saw.reply.list.count == 2);
    assert_string_equal(saw.reply.list.files[0].path, "in");
    assert_true(saw.reply.list.files[0].folder);
    const struct scratch_file *f = &saw.reply.list.files[1];
    assert_string_equal(f->path, "in/put.txt");
    // The same by every way, or it would look like a change.
    assert_true(f->size == 5 && f->inode == inode && f->mtime_ns == mtime && f->ctime_ns == ctime);

    forget();
    assert_non_null(scratch_busy(b, on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && saw.reply.busy);

    forget();
    assert_non_null(scratch_delete(b, "in", on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && b->writes == 2);
    assert_int_equal(access("in", F_OK), -1);
}

static void a_large_file_in_pieces(void **state)
{
    (void)state;
    enum { SIZE = (10 << 20) + 12345 };
    char *data = malloc(SIZE), *back = malloc(SIZE);
    assert_true(data && back);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 31 + i / 4096);
    write_file("large", data, SIZE);
    assert_true(worked() && saw.reply.file.size == SIZE);
    int fd = open("large", O_RDONLY);
    assert_int_equal(read(fd, back, SIZE), SIZE);
    assert_memory_equal(data, back, SIZE);
    (void)close(fd);
    forget();
    assert_non_null(scratch_read(b, "large", &sink, on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && saw.reply.file.size == SIZE && sunk.length == SIZE);
    assert_memory_equal(data, sunk.data, SIZE);
    forget_sunk();
    sunk.want = (struct scratch_part){SIZE - 300000, 200000};
    forget();
    assert_non_null(scratch_read(b, "large", &sink, on_done, &saw, &e));
    until_called(1);
    assert_true(worked() && sunk.length == 200000);
    assert_memory_equal(data + SIZE - 300000, sunk.data + SIZE - 300000, 200000);
    write_file("large", "", 0); // and an empty one over it
    assert_true(worked() && saw.reply.file.size == 0);
    free(data);
    free(back);
}

static void a_long_list_is_sorted(void **state)
{
    (void)state;
    char name[SCRATCH_NAME_MAX + 1];
    for (unsigned i = 0; i < 1200; i++) {
        snprintf(name, sizeof name, "%0200u", i * 7919 % 1200);
        int fd = open(name, O_WRONLY | O_CREAT, 0644);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    assert_non_null(scratch_list(b, on_done, &saw, &e));
    until_called(1);
    assert_true(worked());
    assert_true(saw.reply.list.count == SCRATCH_LIST_MAX && saw.reply.list.left_out == 200);
    for (size_t i = 1; i < saw.reply.list.count; i++)
        assert_true(strcmp(saw.reply.list.files[i - 1].path, saw.reply.list.files[i].path) < 0);
}

// A read is never longer than what the first look said, whatever the code does meanwhile; and never
// of two files.
static void a_file_that_changes_while_it_is_read(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    static char data[SIZE];
    enum { GROWS, SHRINKS, GOES, CASES };
    memset(data, 'x', SIZE);
    for (int i = 0; i < CASES; i++) {
        write_file("file", data, SIZE);
        forget();
        forget_sunk();
        assert_non_null(scratch_read(b, "file", &sink, on_done, &saw, &e));
        while (sunk.begins == 0)
            assert_true(event_base_loop(gate.base, EVLOOP_ONCE) >= 0);
        if (i == GROWS)
            assert_int_equal(truncate("file", 1LL << 40), 0);
        else if (i == SHRINKS)
            assert_int_equal(truncate("file", SIZE / 2), 0);
        else
            assert_int_equal(unlink("file"), 0);
        until_called(1);
        if (i == GOES)
            assert_true(saw.reply.error.code == ERR_FILE_UNKNOWN && sunk.length < SIZE);
        else
            assert_true(worked() && saw.reply.file.size == sunk.length);
        assert_true(i != GROWS || sunk.length == SIZE);
        assert_true(i != SHRINKS || sunk.length < SIZE);
    }
}

static void errors_say_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0755), 0);
    assert_int_equal(symlink("/etc/passwd", "link"), 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_int_equal(close(open("plain", O_CREAT | O_WRONLY, 0644)), 0);
    static const struct {
        const char *path;
        bool writing;
        enum err_code code;
        const char *word;
    } cases[] = {
        {"nothing", false, ERR_FILE_UNKNOWN, "no file 'nothing'"},
        {"folder", false, ERR_FILE_KIND, "'folder' is a folder"},
        {"folder", true, ERR_FILE_KIND, "cannot be replaced"},
        {"link", false, ERR_FILE_KIND, "symbolic link"},
        {"link/x", true, ERR_FILE_KIND, "symbolic link"},
        {"fifo", false, ERR_FILE_KIND, "pipe"},
        {"plain/x", false, ERR_FILE_PATH, "not a folder"},
        {"plain/x", true, ERR_FILE_PATH, "not a folder"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        forget();
        if (cases[i].writing)
            assert_non_null(scratch_write(b, cases[i].path, "x", 1, on_done, &saw, &e));
        else
            assert_non_null(scratch_read(b, cases[i].path, &sink, on_done, &saw, &e));
        until_called(1);
        if (saw.reply.error.code != cases[i].code ||
            !strstr(saw.reply.error.message, cases[i].word) || !saw.reply.error.hint[0])
            fail_msg("case %zu: %s", i, saw.reply.error.message);
        assert_int_equal(sunk.begins, 0);
    }
    assert_int_equal(b->writes, 0);
}

// Messages are cut, and never within a character.
static void errors_about_long_names_are_utf8(void **state)
{
    (void)state;
    char path[SCRATCH_NAME_MAX + 1];
    for (int shift = 0; shift < 3; shift++) {
        memset(path, 'x', 3);
        for (size_t i = (size_t)shift; i + 3 < sizeof path; i += 3)
            memcpy(path + i, "表", 4);
        forget();
        assert_non_null(scratch_read(b, path, &sink, on_done, &saw, &e));
        until_called(1);
        size_t length = strlen(saw.reply.error.message);
        assert_int_equal(saw.reply.error.code, ERR_FILE_UNKNOWN);
        assert_int_equal(utf8_valid_length(saw.reply.error.message, length), length);
    }
}

static unsigned count_entries(void)
{
    unsigned n = 0;
    DIR *d = opendir(root);
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n - 2;
}

// The box's own limit of file sizes is an error and no signal.
static void a_limit_of_file_sizes_in_the_box(void **state)
{
    (void)state;
    struct rlimit low = {.rlim_cur = 3 << 20, .rlim_max = 3 << 20};
    static char data[5 << 20];
    assert_int_equal(prlimit(server, RLIMIT_FSIZE, &low, NULL), 0);
    write_file("large", data, sizeof data);
    assert_int_equal(saw.reply.error.code, ERR_FILE_TOO_LARGE);
    assert_non_null(strstr(saw.reply.error.hint, "--file-size"));
    forget();
    assert_non_null(scratch_list(b, on_done, &saw, &e)); // served after ABORT
    until_called(1);
    assert_int_equal(saw.reply.list.count, 0);
    assert_int_equal(count_entries(), 0);
}

static void a_cancelled_write_leaves_nothing(void **state)
{
    (void)state;
    static char data[8 << 20];
    for (int turns = 0; turns < 6; turns++) { // at any moment
        struct scratch_op *op = scratch_write(b, "file", data, sizeof data, on_done, &saw, &e);
        assert_non_null(op);
        for (int i = 0; i < turns && saw.calls == 0; i++)
            assert_true(event_base_loop(gate.base, EVLOOP_ONCE) >= 0);
        assert_int_equal(saw.calls, 0);
        scratch_cancel(op);
        forget();
        assert_non_null(scratch_list(b, on_done, &saw, &e));
        until_called(1);
        forget();
        assert_int_equal(count_entries(), 0);
    }
    scratch_cancel(NULL);
}

static void a_box_that_dies_fails_all(void **state)
{
    (void)state;
    assert_int_equal(kill(server, SIGKILL), 0);
    for (int i = 0; i < 3; i++)
        assert_non_null(scratch_list(b, on_done, &saw, &e));
    until_called(3);
    assert_int_equal(saw.reply.error.code, ERR_SESSION_ENDED);
    int status;
    assert_int_equal(waitpid(server, &status, 0), server);
    server = fork(); // for finish_real()
    if (server == 0)
        _exit(0);
}

// In the middle of a read and of a write.
static void a_box_that_dies_in_the_middle(void **state)
{
    (void)state;
    static char data[8 << 20];
    memset(data, 'x', sizeof data);
    write_file("file", data, sizeof data);
    forget();
    assert_non_null(scratch_read(b, "file", &sink, on_done, &saw, &e));
    assert_non_null(scratch_write(b, "other", data, sizeof data, on_done, &saw, &e));
    while (sunk.begins == 0)
        assert_true(event_base_loop(gate.base, EVLOOP_ONCE) >= 0);
    assert_int_equal(kill(server, SIGKILL), 0);
    until_called(2);
    assert_int_equal(saw.reply.error.code, ERR_SESSION_ENDED);
    assert_true(sunk.length < sizeof data && !saw.garbage);
    int status;
    assert_int_equal(waitpid(server, &status, 0), server);
    server = fork(); // for finish_real()
    if (server == 0)
        _exit(0);
}

#define REAL(f) cmocka_unit_test_setup_teardown(f, begin_real, finish_real)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REAL(a_file_goes_in_and_comes_out),
        REAL(a_large_file_in_pieces),
        REAL(a_long_list_is_sorted),
        REAL(a_file_that_changes_while_it_is_read),
        REAL(errors_say_what_to_do),
        REAL(errors_about_long_names_are_utf8),
        REAL(a_limit_of_file_sizes_in_the_box),
        REAL(a_cancelled_write_leaves_nothing),
        REAL(a_box_that_dies_fails_all),
        REAL(a_box_that_dies_in_the_middle),
    };
    return cmocka_run_group_tests_name("scratch_real", tests, NULL, NULL);
}
