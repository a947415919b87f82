// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of box/seal, as seen by a process that sealed itself.  As root it gets another uid.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "box/creds.h"
#include "box/landlock.h"
#include "box/seal.h"

enum { ID = 987654, FDS = 64 };

static struct seal_plan make_plan(void)
{
    return (struct seal_plan){.name = "test",
                              .parent = getppid(),
                              .id = geteuid() == 0 ? ID : -1,
                              .landlock_abi = landlock_abi(),
                              .folder = -1,
                              .other_folder = -1,
                              .filter = FILTER_GATE};
}

// Runs `check` in a process of its own.  It returns 0, or the number of the wrong line.
static void in_child(int (*check)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        (void)syscall(SYS_exit_group, check() ? 1 : 0); // a sanitizer's _exit() makes other calls
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int report_fd = 2;

#define WRONG_IF(condition)                                                                        \
    do {                                                                                           \
        if (condition) {                                                                           \
            (void)dprintf(report_fd, "# line %d: %s\n", __LINE__, #condition);                     \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

static void needs_landlock(void)
{
    if (!landlock_abi()) {
        const char *must = getenv("MUST_WORK");
        assert_false(must && must[0] == '1'); // where all has to work, a skip is a failure
        skip();
    }
}

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

// ---- descriptors --------------------------------------------------------------------------------

// Those that stay have each other's numbers at first.
static int keeps_two(void)
{
    int pair[2], extra[8];
    struct err e;
    WRONG_IF(pipe(pair) < 0);
    for (int i = 0; i < 8; i++)
        WRONG_IF((extra[i] = open("/dev/null", O_RDONLY)) < 0);
    int high[2] = {fcntl(pair[0], F_DUPFD, FDS / 2), fcntl(pair[1], F_DUPFD, FDS / 2)};
    int a = dup2(high[0], 4), b = dup2(high[1], 3);
    ino_t at_a = inode_of(a), at_b = inode_of(b);
    struct seal_plan p = make_plan();
    p.keep[p.keep_count++] = &a;
    p.keep[p.keep_count++] = &b;
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(a != 3 || b != 4 || inode_of(a) != at_a || inode_of(b) != at_b);
    WRONG_IF(write(b, "x", 1) != 1); // it is the one for writing
    WRONG_IF(fcntl(a, F_GETFD) != FD_CLOEXEC || fcntl(b, F_GETFD) != FD_CLOEXEC);
    for (int fd = 5; fd < FDS; fd++)
        WRONG_IF(fcntl(fd, F_GETFD) >= 0);
    for (int fd = 0; fd < 3; fd++)
        WRONG_IF(fcntl(fd, F_GETFD) < 0);
    return 0;
}

static void all_descriptors_but_those_of_the_plan_are_closed(void **state)
{
    (void)state;
    in_child(keeps_two);
}

// ---- identity -----------------------------------------------------------------------------------

static int has_no_rights(void)
{
    struct err e;
    uid_t r, u, s;
    gid_t groups[8];
    bool root = geteuid() == 0;
    if (root) { // groups that a start as root leaves
        const gid_t two[] = {0, 4};
        WRONG_IF(setgroups(2, two) < 0);
    }
    struct seal_plan p = make_plan();
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(!creds_are_empty());
    WRONG_IF(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
    WRONG_IF(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0); // it was set after the uid changed
    int signal_at_end = 0;
    WRONG_IF(prctl(PR_GET_PDEATHSIG, &signal_at_end) < 0 || signal_at_end != SIGKILL);
    WRONG_IF(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 21, 0, 0) != 0);
    if (!root)
        return 0;
    WRONG_IF(!creds_bounding_is_empty());
    WRONG_IF(getresuid(&r, &u, &s) < 0 || r != ID || u != ID || s != ID);
    WRONG_IF(getresgid(&r, &u, &s) < 0 || r != ID || u != ID || s != ID);
    WRONG_IF(getgroups(8, groups) != 0);
    WRONG_IF(setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 || setgroups(0, NULL) == 0);
    WRONG_IF(open("/etc/shadow", O_RDONLY | O_CLOEXEC) >= 0);
    WRONG_IF(kill(getppid(), 0) == 0);
    return 0;
}

static void no_right_is_left_and_none_comes_back(void **state)
{
    (void)state;
    in_child(has_no_rights);
}

// The sampler of a server without cgroups stays root, in name only.
static int keeps_its_uid(void)
{
    struct err e;
    uid_t before = geteuid();
    struct seal_plan p = make_plan();
    p.id = -1;
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(geteuid() != before || !creds_are_empty());
    WRONG_IF(chroot("/") == 0 || (before == 0 && setgroups(0, NULL) == 0));
    return 0;
}

static void a_process_that_keeps_its_uid_has_no_rights(void **state)
{
    (void)state;
    in_child(keeps_its_uid);
}

static int has_fresh_signals(void)
{
    struct err e;
    sigset_t set;
    struct sigaction a;
    struct rlimit files;
    sigfillset(&set);
    WRONG_IF(sigprocmask(SIG_BLOCK, &set, NULL) < 0);
    WRONG_IF(getrlimit(RLIMIT_NOFILE, &files) < 0);
    files.rlim_cur = FDS;
    WRONG_IF(setrlimit(RLIMIT_NOFILE, &files) < 0);
    struct seal_plan p = make_plan();
    p.ignored_signals[0] = SIGPIPE;
    p.raises_files = true;
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(sigprocmask(SIG_BLOCK, NULL, &set) < 0 || sigismember(&set, SIGTERM) != 0);
    WRONG_IF(sigaction(SIGPIPE, NULL, &a) < 0 || a.sa_handler != SIG_IGN);
    WRONG_IF(sigaction(SIGXFSZ, NULL, &a) < 0 || a.sa_handler != SIG_DFL);
    WRONG_IF(getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur != files.rlim_max);
    return 0;
}

static void signals_and_limits_are_reset(void **state)
{
    (void)state;
    in_child(has_fresh_signals);
}

// ---- it fails closed ----------------------------------------------------------------------------

static int refuses(struct seal_plan p, enum err_code code)
{
    struct err e = {.code = ERR_CODE_MAX};
    WRONG_IF(seal_process(&p, &e) >= 0 || e.code != code || !e.message[0]);
    return 0;
}

static int refuses_root(void)
{
    struct seal_plan p = make_plan();
    p.id = 0;
    return refuses(p, ERR_INTERNAL);
}

static int refuses_no_id(void)
{
    struct seal_plan p = make_plan();
    p.id = UINT32_MAX; // setresuid() would leave all as it is
    return refuses(p, ERR_INTERNAL);
}

static int refuses_an_empty_plan(void)
{
    return refuses((struct seal_plan){.name = "test"}, ERR_INTERNAL);
}

static int refuses_another_parent(void)
{
    struct seal_plan p = make_plan();
    p.parent = getpid();
    return refuses(p, ERR_SYSTEM);
}

static int refuses_a_closed_descriptor(void)
{
    int fd = -1;
    struct seal_plan p = make_plan();
    p.keep[p.keep_count++] = &fd;
    return refuses(p, ERR_SYSTEM);
}

static int refuses_too_many_descriptors(void)
{
    struct seal_plan p = make_plan();
    p.keep_count = SEAL_KEEP_MAX + 1;
    return refuses(p, ERR_INTERNAL);
}

static int refuses_unknown_files(void)
{
    struct err e;
    struct seal_plan p = make_plan();
    p.files = (enum seal_files)99;
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(seal_reach_always(&p, &e) >= 0 || e.code != ERR_LAYER_MISSING);
    return 0;
}

static int refuses_a_bad_folder(void)
{
    struct err e;
    struct seal_plan p = make_plan();
    p.folder = FDS;
    WRONG_IF(seal_identity(&p, &e) < 0);
    WRONG_IF(seal_reach_always(&p, &e) >= 0 || e.code != ERR_LAYER_MISSING);
    WRONG_IF(strcmp(e.message, "layer 'landlock': shut the test in: Bad file descriptor") != 0);
    return 0;
}

static void a_plan_that_cannot_be_carried_out_fails(void **state)
{
    (void)state;
    in_child(refuses_root);
    in_child(refuses_no_id);
    in_child(refuses_an_empty_plan);
    in_child(refuses_another_parent);
    in_child(refuses_a_closed_descriptor);
    in_child(refuses_too_many_descriptors);
    in_child(refuses_unknown_files);
    needs_landlock();
    in_child(refuses_a_bad_folder);
}

// ---- reach --------------------------------------------------------------------------------------

static int has_a_filter(void)
{
    struct err e;
    struct seal_plan p = make_plan();
    WRONG_IF(seal_identity(&p, &e) < 0 || seal_reach_always(&p, &e) < 0);
    WRONG_IF(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2);
    WRONG_IF(socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM);
    WRONG_IF(fork() >= 0 || errno != EPERM);
    // Landlock came before the filter, which refuses its calls.
    WRONG_IF(syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 0);
    WRONG_IF(landlock_abi() != 0);
    WRONG_IF(fcntl(2, F_GETFD) < 0);
    return 0;
}

static void the_filter_is_on(void **state)
{
    (void)state;
    in_child(has_a_filter);
}

static int has_no_filter(void)
{
    struct err e;
    int before = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    struct seal_plan p = make_plan();
    p.without_filter = true;
    WRONG_IF(seal_identity(&p, &e) < 0 || seal_reach_always(&p, &e) < 0);
    WRONG_IF(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != before);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    WRONG_IF(fd < 0);
    WRONG_IF(landlock_abi() && open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
    return 0;
}

static void without_a_filter_landlock_still_denies(void **state)
{
    (void)state;
    in_child(has_no_filter);
}

static char folder_path[64];

static int has_one_folder(void)
{
    struct err e;
    int folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int outside = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct seal_plan p = make_plan();
    p.keep[p.keep_count++] = &folder;
    p.keep[p.keep_count++] = &outside;
    WRONG_IF(seal_identity(&p, &e) < 0);
    p.folder = folder;
    WRONG_IF(seal_reach_always(&p, &e) < 0);
    int fd = openat(folder, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    WRONG_IF(fd < 0 || unlinkat(folder, "a", 0) < 0);
    WRONG_IF(openat(outside, "test_seal", O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0);
    WRONG_IF(errno != EACCES);
    WRONG_IF(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES);
    return 0;
}

static int reads_some_files(void)
{
    static const char *const files[] = {"/etc/passwd", "/there/is/none", NULL};
    struct err e;
    struct seal_plan p = make_plan();
    p.files = SEAL_FILES_TO_READ;
    p.read_files = files;
    p.filter = FILTER_BROKER;
    WRONG_IF(seal_identity(&p, &e) < 0 || seal_reach_always(&p, &e) < 0);
    WRONG_IF(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0);
    WRONG_IF(open("/etc/group", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES);
    WRONG_IF(socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) < 0);
    WRONG_IF(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    return 0;
}

static void landlock_leaves_the_files_of_the_plan(void **state)
{
    (void)state;
    needs_landlock();
    snprintf(folder_path, sizeof folder_path, "/tmp/test_seal.XXXXXX");
    assert_non_null(mkdtemp(folder_path));
    assert_int_equal(chmod(folder_path, 0777), 0);
    in_child(has_one_folder);
    assert_int_equal(rmdir(folder_path), 0);
    in_child(reads_some_files);
}

// As the sampler.
static int has_few_calls(void)
{
    static const char *const calls[] = {"read",       "close",      "fcntl", "prctl",
                                        "exit_group", "write",      "futex", "mmap",
                                        "munmap",     "newfstatat", "lseek", NULL};
    struct err e;
    struct seal_plan p = make_plan();
    report_fd = dup(2);
    p.keep[p.keep_count++] = &report_fd;
    p.files = SEAL_FILES_ALL;
    p.calls = calls;
    p.closes_standard = true;
    WRONG_IF(seal_identity(&p, &e) < 0 || seal_reach_always(&p, &e) < 0);
    WRONG_IF(open("/etc/passwd", O_RDONLY | O_CLOEXEC) != 0); // 0 was free
    WRONG_IF(fcntl(1, F_GETFD) >= 0 || fcntl(2, F_GETFD) >= 0);
    WRONG_IF(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2);
    WRONG_IF(open("/dev/null", O_WRONLY | O_CLOEXEC) >= 0 || errno != EPERM);
    WRONG_IF(open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 || errno != EPERM);
    WRONG_IF(open("/tmp/test_seal", O_RDONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EPERM);
    WRONG_IF(socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM);
    return 0;
}

static void a_list_of_calls_is_all_that_is_left(void **state)
{
    (void)state;
    in_child(has_few_calls);
}

// ---- its end ------------------------------------------------------------------------------------

// The end of the pipe shows that the sealed process is gone, though no message said so.
static void it_dies_with_its_parent(void **state)
{
    (void)state;
    int ends[2], status;
    char c;
    assert_int_equal(pipe(ends), 0);
    pid_t keeper = fork();
    if (keeper == 0) {
        (void)close(ends[0]);
        pid_t pid = fork();
        if (pid == 0) {
            struct err e;
            struct seal_plan p = make_plan();
            p.keep[p.keep_count++] = &ends[1];
            if (seal_process(&p, &e) < 0)
                _exit(1);
            (void)!write(ends[1], "s", 1);
            (void)pause();
            _exit(0);
        }
        (void)usleep(100000);
        _exit(0);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &c, 1), 1); // it sealed itself
    assert_int_equal(read(ends[0], &c, 1), 0);
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    (void)close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_descriptors_but_those_of_the_plan_are_closed),
        cmocka_unit_test(no_right_is_left_and_none_comes_back),
        cmocka_unit_test(a_process_that_keeps_its_uid_has_no_rights),
        cmocka_unit_test(signals_and_limits_are_reset),
        cmocka_unit_test(a_plan_that_cannot_be_carried_out_fails),
        cmocka_unit_test(the_filter_is_on),
        cmocka_unit_test(without_a_filter_landlock_still_denies),
        cmocka_unit_test(landlock_leaves_the_files_of_the_plan),
        cmocka_unit_test(a_list_of_calls_is_all_that_is_left),
        cmocka_unit_test(it_dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
