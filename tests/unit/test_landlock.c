// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of box/landlock: what is left to a process that is sealed, as the gate is.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/landlock.h"

// Returns a line number, of what is wrong, or 0.
static int sealed(int open_before)
{
    char c;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_seal(landlock_abi(), -1) < 0)
        return __LINE__;
    const char *const paths[] = {"/etc/passwd", "/", "/proc/self/status", "/dev/null", "/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (open(paths[i], O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
            return __LINE__;
    if (open("/tmp/constrictor-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES)
        return __LINE__;
    if (landlock_abi() >= 6 && (kill(getppid(), 0) == 0 || errno != EPERM))
        return __LINE__;
    return pread(open_before, &c, 1, 0) == 1 ? 0 : __LINE__; // what was open stays open
}

static void a_sealed_process_has_what_is_open_and_nothing_else(void **state)
{
    (void)state;
    int status, fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (landlock_abi() == 0) {
        assert_int_equal(landlock_seal(0, -1), 0); // and says nothing
        const char *must = getenv("MUST_WORK");
        assert_false(must && must[0] == '1'); // where all has to work, a skip is a failure
        skip();
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(sealed(fd));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(fd);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// The same with a folder: ordinary files in it, and nothing else of it or beside it.
static int sealed_with(int folder, int beside)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_seal(landlock_abi(), folder) < 0)
        return __LINE__;
    int fd = openat(folder, "a", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || ftruncate(fd, 0) < 0)
        return __LINE__;
    if (renameat(folder, "a", folder, "b") < 0 || openat(folder, ".", O_RDONLY | O_CLOEXEC) < 0)
        return __LINE__;
    if (symlinkat("/etc/passwd", folder, "link") == 0 || mkdirat(folder, "sub", 0700) == 0 ||
        mkfifoat(folder, "pipe", 0600) == 0)
        return __LINE__;
    if (openat(folder, "../outside", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        return __LINE__;
    if (renameat(folder, "b", beside, "b") == 0 || linkat(folder, "b", beside, "b", 0) == 0)
        return __LINE__;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0)
        return __LINE__;
    return unlinkat(folder, "b", 0) == 0 ? 0 : __LINE__;
}

static void a_sealed_process_has_the_files_of_one_folder(void **state)
{
    (void)state;
    char path[] = "/tmp/constrictor-landlock-XXXXXX";
    int status;
    if (landlock_abi() == 0)
        skip(); // the test before has judged that
    assert_non_null(mkdtemp(path));
    int beside = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(beside, "folder", 0700), 0);
    int folder = openat(beside, "folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        outside = openat(beside, "outside", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    pid_t pid = fork();
    if (pid == 0)
        _exit(sealed_with(folder, beside));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)unlinkat(beside, "outside", 0);
    (void)unlinkat(beside, "folder", AT_REMOVEDIR);
    (void)rmdir(path);
    (void)close(outside);
    (void)close(folder);
    (void)close(beside);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// What an errno of connect() tells: Landlock's EACCES comes before the address is looked up.
static int dial(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
    (void)close(fd);
    return r;
}

// The broker, and boxes with network: TCP is judged in another layer, everything else as ever.
static int sealed_with_network(void)
{
    static const char *const files[] = {"/etc/hosts", "/nowhere", NULL};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        landlock_seal_network(landlock_abi(), files) < 0)
        return __LINE__;
    if (dial() == EACCES)
        return __LINE__;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        return __LINE__;
    if (open("/etc/hosts", O_RDONLY | O_CLOEXEC) < 0 ||
        open("/etc/hosts", O_WRONLY | O_CLOEXEC) >= 0)
        return __LINE__;
    if (landlock_abi() >= 6 && (kill(getppid(), 0) == 0 || errno != EPERM))
        return __LINE__;
    return 0;
}

static int restricted(bool network)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        landlock_restrict(landlock_abi(), network) < 0)
        return __LINE__;
    if (landlock_abi() >= 4 && (dial() == EACCES) == network)
        return __LINE__;
    if (open("/etc/constrictor-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0)
        return __LINE__;
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : __LINE__;
}

static void network_is_about_tcp_and_nothing_else(void **state)
{
    (void)state;
    if (landlock_abi() == 0)
        skip(); // judged above
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(i == 2 ? sealed_with_network() : restricted(i == 1));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_process_has_what_is_open_and_nothing_else),
        cmocka_unit_test(a_sealed_process_has_the_files_of_one_folder),
        cmocka_unit_test(network_is_about_tcp_and_nothing_else),
    };
    return cmocka_run_group_tests_name("landlock", tests, NULL, NULL);
}
