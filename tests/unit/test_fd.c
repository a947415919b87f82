// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/fd: datagrams with descriptors, also from a sender that breaks the rules.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static bool same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int null_fd(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void closing_twice_is_fine(void **state)
{
    (void)state;
    int before = unit_fd_count(), fd = null_fd();
    fd_close(&fd);
    assert_int_equal(fd, -1);
    fd_close(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(unit_fd_count(), before);
}

static void descriptors_arrive_and_do_not_survive_exec(void **state)
{
    (void)state;
    int pair[2], pipes[2], got[FD_PASS_MAX];
    int before = unit_fd_count();
    unit_socketpair(pair);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    for (size_t n = 0; n <= FD_PASS_MAX; n++) {
        int send[FD_PASS_MAX];
        size_t count = 99;
        char text[8] = "";
        for (size_t i = 0; i < n; i++)
            send[i] = pipes[i % 2];
        assert_int_equal(fd_send(pair[0], "hello", 5, send, n), 0);
        assert_int_equal(fd_recv(pair[1], text, sizeof text, got, FD_PASS_MAX, &count), 5);
        assert_string_equal(text, "hello");
        assert_int_equal(count, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(same_file(got[i], send[i]));
            assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
            fd_close(&got[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        fd_close(&pair[i]);
        fd_close(&pipes[i]);
    }
    assert_int_equal(unit_fd_count(), before);
}

static void more_than_fits_is_not_sent(void **state)
{
    (void)state;
    int pair[2], many[FD_PASS_MAX + 1];
    char buf[4];
    unit_socketpair(pair);
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = pair[0];
    assert_int_equal(fd_send(pair[0], "x", 1, many, ARRAY_LEN(many)), -EINVAL);
    assert_int_equal(fd_set_nonblock(pair[1], true), 0);
    assert_int_equal(fd_recv(pair[1], buf, sizeof buf, NULL, 0, NULL), -EAGAIN);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
    (void)state;
    int pair[2], null = null_fd(), fds[40], got[FD_PASS_MAX];
    char buf[16];
    unit_socketpair(pair);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = null;
    int before = unit_fd_count();
    const struct {
        size_t sent, cap;
    } cases[] = {{1, 0}, {8, 0}, {2, 1}, {4, 3}, {8, 7}, {9, 8}, {16, 8}, {40, 8}, {40, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t count = 99;
        unit_send_raw(pair[0], "abc", 3, fds, cases[i].sent);
        assert_int_equal(fd_recv(pair[1], buf, sizeof buf, got, cases[i].cap, &count), -EMSGSIZE);
        assert_int_equal(count, 99);
        assert_int_equal(unit_fd_count(), before);
    }
    // The stream goes on after it.
    assert_int_equal(fd_send(pair[0], "next", 4, NULL, 0), 0);
    assert_int_equal(fd_recv(pair[1], buf, sizeof buf, got, 1, NULL), 4);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
    fd_close(&null);
}

static void a_datagram_that_is_too_long_is_refused_with_its_descriptors(void **state)
{
    (void)state;
    int pair[2], null = null_fd(), got[FD_PASS_MAX];
    char buf[8];
    unit_socketpair(pair);
    int before = unit_fd_count();
    unit_send_raw(pair[0], "123456789", 9, &null, 1);
    assert_int_equal(fd_recv(pair[1], buf, sizeof buf, got, FD_PASS_MAX, NULL), -EMSGSIZE);
    assert_int_equal(unit_fd_count(), before);
    unit_send_raw(pair[0], "12345678", 8, NULL, 0);
    assert_int_equal(fd_recv(pair[1], buf, sizeof buf, got, FD_PASS_MAX, NULL), 8);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
    fd_close(&null);
}

static void a_socket_whose_other_end_is_gone(void **state)
{
    (void)state;
    int pair[2];
    char buf[8];
    unit_socketpair(pair);
    fd_close(&pair[0]);
    assert_int_equal(fd_recv(pair[1], buf, sizeof buf, NULL, 0, NULL), 0);
    assert_int_equal(fd_send(pair[1], "x", 1, NULL, 0), -EPIPE); // and no SIGPIPE
    fd_close(&pair[1]);
    assert_int_equal(fd_recv(-1, buf, sizeof buf, NULL, 0, NULL), -EBADF);
    assert_int_equal(fd_send(-1, "x", 1, NULL, 0), -EBADF);
}

static void a_full_socket_says_so(void **state)
{
    (void)state;
    int pair[2], r = 0;
    static char block[16384];
    unit_socketpair(pair);
    assert_int_equal(fd_set_nonblock(pair[0], true), 0);
    for (int i = 0; i < 10000 && r == 0; i++)
        r = fd_send(pair[0], block, sizeof block, NULL, 0);
    assert_int_equal(r, -EAGAIN);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void on_alarm(int sig)
{
    (void)sig;
}

// A slow reader behind a pipe, and a signal every millisecond.
static void writing_all_survives_short_writes_and_signals(void **state)
{
    (void)state;
    enum { TOTAL = 1 << 20 };
    int pipes[2], status;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char buf[4096];
        size_t n = 0;
        unsigned sum = 0;
        (void)close(pipes[1]);
        for (ssize_t k; (k = read(pipes[0], buf, sizeof buf)) > 0; n += (size_t)k) {
            for (ssize_t i = 0; i < k; i++)
                sum += (unsigned char)buf[i] == (unsigned char)((n + (size_t)i) % 251);
            if (n < 100000)
                (void)usleep(1000);
        }
        _exit(n == TOTAL && sum == TOTAL ? 0 : 1);
    }
    fd_close(&pipes[0]);
    unsigned char *data = malloc(TOTAL);
    assert_non_null(data);
    for (size_t i = 0; i < TOTAL; i++)
        data[i] = (unsigned char)(i % 251);
    struct sigaction act = {.sa_handler = on_alarm}, old;
    struct itimerval tick = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &tick, NULL), 0);
    int r = fd_write_all(pipes[1], data, TOTAL);
    assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    assert_int_equal(r, 0);
    fd_close(&pipes[1]);
    free(data);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void writing_to_nobody_is_an_error(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    fd_close(&pipes[0]);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    assert_int_equal(fd_write_all(pipes[1], "x", 1), -EPIPE);
    (void)signal(SIGPIPE, old);
    assert_int_equal(fd_write_all(pipes[1], "", 0), 0);
    fd_close(&pipes[1]);
    assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
}

static void nonblocking_on_and_off(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(fd_set_nonblock(pipes[0], true), 0);
    assert_true(fcntl(pipes[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_nonblock(pipes[0], false), 0);
    assert_false(fcntl(pipes[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_nonblock(-1, true), -EBADF);
    fd_close(&pipes[0]);
    fd_close(&pipes[1]);
}

static int make(void)
{
    return null_fd();
}

static void ownership_is_handed_over(void **state)
{
    (void)state;
    int before = unit_fd_count(), kept;
    {
        _cleanup_close_ int a = make();
        _cleanup_close_ int b = make();
        _cleanup_free_ char *p = strdup("x");
        char *q = TAKE_PTR(p);
        kept = TAKE_FD(b);
        assert_int_equal(b, -1);
        assert_null(p);
        assert_true(a >= 0);
        free(q);
    }
    assert_int_equal(unit_fd_count(), before + 1);
    fd_close(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_twice_is_fine),
        cmocka_unit_test(descriptors_arrive_and_do_not_survive_exec),
        cmocka_unit_test(more_than_fits_is_not_sent),
        cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
        cmocka_unit_test(a_datagram_that_is_too_long_is_refused_with_its_descriptors),
        cmocka_unit_test(a_socket_whose_other_end_is_gone),
        cmocka_unit_test(a_full_socket_says_so),
        cmocka_unit_test(writing_all_survives_short_writes_and_signals),
        cmocka_unit_test(writing_to_nobody_is_an_error),
        cmocka_unit_test(nonblocking_on_and_off),
        cmocka_unit_test(ownership_is_handed_over),
    };
    return cmocka_run_group_tests_name("fd", tests, NULL, NULL);
}
