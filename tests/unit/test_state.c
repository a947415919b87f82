// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/state: where the folder is, which users may have it, and that nothing in it
// can make the keeper touch anything else.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "keeper/state.h"

static struct config config;
static struct slots slots;
static char base[64], path[128];

enum { GATE_UID = 70000 };

static int begin(void **state)
{
    (void)state;
    config_init(&config);
    snprintf(base, sizeof base, "/tmp/constrictor-state-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof path, "%s/state", base);
    snprintf(config.state, sizeof config.state, "%s", path);
    slots = (struct slots){.lock_fd = -1, .uid_first = geteuid(), .uid_count = 1};
    return 0;
}

static void with_uids(uint64_t first)
{
    slots = (struct slots){.lock_fd = -1, .uid_first = first, .uid_count = SLOTS};
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(name);
}

static int end(void **state)
{
    (void)state;
    return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text, time_t time_s)
{
    char full[256];
    struct timespec times[2] = {{.tv_sec = time_s}, {.tv_sec = time_s}};
    snprintf(full, sizeof full, "%s/%s", path, name);
    int fd = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(futimens(fd, times), 0);
    (void)close(fd);
}

static struct stat look(const char *name)
{
    char full[256];
    struct stat st = {0};
    snprintf(full, sizeof full, "%s/%s", path, name);
    if (lstat(full, &st) < 0)
        st.st_mode = 0;
    return st;
}

static void must_open(struct state *s)
{
    struct err e = {0};
    if (state_open(s, &config, &slots, &e) < 0)
        fail_msg("%s", e.message);
}

static void must_fail(const char *with, const char *hint)
{
    struct err e = {0};
    struct state s;
    int fds = unit_fd_count();
    assert_true(state_open(&s, &config, &slots, &e) < 0);
    assert_int_equal(e.code, ERR_STATE_FOLDER);
    if (!strstr(e.message, with) || !strstr(e.hint, hint))
        fail_msg("%s [%s]", e.message, e.hint);
    assert_int_equal(s.folder, -1);
    assert_int_equal(s.lock, -1);
    assert_int_equal(unit_fd_count(), fds);
}

// ---- where it is --------------------------------------------------------------------------------

static void the_path_follows_the_option_root_xdg_and_home(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        bool root;
        const char *xdg, *home, *base; // NULL: nowhere
    } cases[] = {
        {"/x/y", true, "/a", "/b", "/x/y"},
        {"/x/y///", false, NULL, NULL, "/x/y"},
        {"rel", false, NULL, NULL, "rel"},
        {"", true, "/a", "/b", "/var/lib/constrictor"},
        {"", false, "/a", "/b", "/a/constrictor"},
        {"", false, "a", "/b", "/b/.local/state/constrictor"},
        {"", false, "", "/b", "/b/.local/state/constrictor"},
        {"", false, NULL, "/b", "/b/.local/state/constrictor"},
        {"", false, NULL, NULL, NULL},
        {"", false, NULL, "", NULL},
        {"", false, "rel", "rel", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char got[PATH_MAX] = "";
        struct err e = {0};
        snprintf(config.state, sizeof config.state, "%s", cases[i].option);
        int r = state_find(&config, cases[i].root, cases[i].xdg, cases[i].home, got, &e);
        assert_int_equal(r == 0, cases[i].base != NULL);
        if (cases[i].base)
            assert_string_equal(got, cases[i].base);
        else
            assert_non_null(strstr(e.hint, "--state"));
    }
    char got[PATH_MAX], longer[PATH_MAX];
    struct err e;
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    config.state[0] = '\0';
    assert_int_equal(state_find(&config, false, longer, NULL, got, &e), -ENAMETOOLONG);
}

static void missing_folders_are_made_for_us_alone(void **state)
{
    (void)state;
    struct state s;
    snprintf(path, sizeof path, "%s/a/b/c", base);
    snprintf(config.state, sizeof config.state, "%s/a//b/c/", base);
    must_open(&s);
    assert_int_equal(s.number, 1);
    assert_int_equal(look("").st_mode & 0777, 0700);
    assert_int_equal(look("1").st_mode & 0777, 0700);
    state_close(&s);
    assert_int_equal(s.folder, -1);
}

// ---- several servers ----------------------------------------------------------------------------

static void each_server_has_a_folder_and_finds_it_again(void **state)
{
    (void)state;
    struct state a, b, c, again;
    int fds = unit_fd_count();
    must_open(&a);
    must_open(&b);
    must_open(&c);
    assert_int_equal(a.number, 1);
    assert_int_equal(b.number, 2);
    assert_int_equal(c.number, 3);
    put("2/a-x", "still good", time(NULL) + 1000);
    state_close(&b);
    must_open(&again);
    assert_int_equal(again.number, 2);
    assert_int_equal(look("2/a-x").st_size, 10);
    state_close(&a);
    state_close(&c);
    state_close(&again);
    assert_int_equal(unit_fd_count(), fds);
}

static void a_killed_server_lets_go(void **state)
{
    (void)state;
    struct state s;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        must_open(&s);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    must_open(&s);
    assert_int_equal(s.number, 1);
    state_close(&s);
}

static void many_servers_at_once_never_share(void **state)
{
    (void)state;
    enum { SERVERS = 40 };
    int numbers[2], hold[2];
    bool seen[SERVERS * 2] = {0};
    assert_int_equal(pipe(numbers), 0);
    assert_int_equal(pipe(hold), 0);
    for (int i = 0; i < SERVERS; i++)
        if (fork() == 0) {
            struct state s;
            struct err e;
            char c;
            unsigned n = state_open(&s, &config, &slots, &e) == 0 ? s.number : 0;
            (void)close(hold[1]);
            (void)!write(numbers[1], &n, sizeof n);
            (void)!read(hold[0], &c, 1); // until all have one
            _exit(0);
        }
    for (int i = 0; i < SERVERS; i++) {
        unsigned n = 0;
        assert_int_equal(read(numbers[0], &n, sizeof n), sizeof n);
        assert_in_range(n, 1, SERVERS * 2 - 1); // one that was being tidied is passed over
        assert_false(seen[n]);
        seen[n] = true;
    }
    (void)close(hold[1]);
    for (int i = 0; i < SERVERS; i++)
        (void)wait(NULL);
    (void)close(hold[0]);
    (void)close(numbers[0]);
    (void)close(numbers[1]);
}

// ---- folders that are refused -------------------------------------------------------------------

static void what_others_may_write_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    static const unsigned modes[] = {0770, 0702, 0777, 01777};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        must_fail("written by others", "chmod 700");
    }
    struct state s;
    assert_int_equal(chmod(path, 0755), 0);
    must_open(&s);
    state_close(&s);
}

static void a_link_or_a_file_is_refused(void **state)
{
    (void)state;
    char other[128];
    snprintf(other, sizeof other, "%s/other", base);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(other, path), 0);
    must_fail("symbolic link", "--state");
    snprintf(config.state, sizeof config.state, "%s/", path); // nor with a slash
    must_fail("symbolic link", "--state");
    assert_int_equal(rmdir(other), 0); // nothing was made there
    must_fail("", "--state");
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    must_fail("Not a directory", "--state");
}

static void the_folder_of_another_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    must_fail("belongs to uid 12345", "--state");
    assert_int_equal(chown(path, 0, 0), 0);
    // Without uids to hand out, a numbered one as well.
    struct state s;
    must_open(&s);
    assert_int_equal(fchown(s.folder, 12345, 12345), 0);
    state_close(&s);
    must_fail("belongs to uid 12345", "--state");
}

static void links_in_the_place_of_its_own_are_refused(void **state)
{
    (void)state;
    char name[160];
    struct state s;
    must_open(&s);
    state_close(&s);
    snprintf(name, sizeof name, "%s/1", path);
    assert_int_equal(rmdir(name), 0);
    assert_int_equal(symlink("/etc", name), 0);
    must_fail("folder '1'", "remove");
    assert_int_equal(unlink(name), 0);
    snprintf(name, sizeof name, "%s/1.lock", path);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    must_fail("1.lock", "--state");
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    must_fail("no file", "remove"); // and does not wait for a reader
}

static void a_place_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    snprintf(config.state, sizeof config.state, "/proc/constrictor");
    must_fail("/proc/constrictor", "--state");
    snprintf(config.state, sizeof config.state, "/dev/null/x");
    must_fail("/dev/null", "--state");
}

// ---- as root ------------------------------------------------------------------------------------

static void the_gate_gets_its_folder_whatever_its_uid(void **state)
{
    (void)state;
    struct state s;
    with_uids(GATE_UID);
    must_open(&s);
    assert_int_equal(look("").st_uid, 0);
    assert_int_equal(look("1.lock").st_uid, 0); // out of the gate's reach
    assert_int_equal(look("1").st_uid, GATE_UID + SLOT_GATE);
    assert_int_equal(look("1").st_gid, GATE_UID + SLOT_GATE);
    put("1/catalogue.db", "x", 1);
    put("1/a-1", "x", time(NULL) + 1000);
    state_close(&s);
    with_uids(GATE_UID + SLOTS);
    must_open(&s);
    assert_int_equal(s.number, 1);
    uid_t uid = GATE_UID + 2 * SLOTS - 1;
    assert_int_equal(look("1").st_uid, uid);
    assert_int_equal(look("1/catalogue.db").st_uid, uid);
    assert_int_equal(look("1/a-1").st_uid, uid);
    assert_int_equal(look("1/a-1").st_gid, uid);
    state_close(&s);
}

static void nothing_else_changes_hands(void **state)
{
    (void)state;
    char from[160], to[160];
    struct state s;
    struct stat st;
    with_uids(GATE_UID);
    must_open(&s);
    state_close(&s);
    // What a gate that was taken over might leave for the next start.
    snprintf(from, sizeof from, "%s/roots", base);
    int fd = open(from, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    snprintf(to, sizeof to, "%s/1/a-hard", path);
    assert_int_equal(link(from, to), 0);
    snprintf(to, sizeof to, "%s/1/a-soft", path);
    assert_int_equal(symlink(from, to), 0);
    snprintf(to, sizeof to, "%s/1/catalogue.db", path);
    assert_int_equal(symlink("/etc/passwd", to), 0);
    snprintf(to, sizeof to, "%s/1/sub", path);
    assert_int_equal(mkdir(to, 0700), 0);
    snprintf(to, sizeof to, "%s/1/sub/x", path);
    assert_int_equal(mkdir(to, 0700), 0);
    snprintf(to, sizeof to, "%s/1/fifo", path);
    assert_int_equal(mkfifo(to, 0600), 0);
    with_uids(GATE_UID + SLOTS);
    must_open(&s);
    assert_int_equal(look("1").st_uid, GATE_UID + 2 * SLOTS - 1);
    assert_int_equal(stat(from, &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(stat("/etc/passwd", &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(look("1/a-soft").st_uid, 0);
    assert_int_equal(look("1/sub").st_uid, 0);
    assert_int_equal(look("1/sub/x").st_uid, 0);
    assert_int_equal(look("1/fifo").st_uid, 0);
    state_close(&s);
}

// ---- tidying up ---------------------------------------------------------------------------------

static void what_expired_in_folders_of_others_goes(void **state)
{
    (void)state;
    struct state a, b, c, d;
    time_t now = time(NULL);
    must_open(&a);
    must_open(&b);
    must_open(&c);
    must_open(&d);
    put("2/a-old", "x", now - 10);
    put("2/tmp-1", "x", now + 1000);
    put("2/catalogue.db", "x", 1);
    put("2/catalogue.db-wal", "x", 1);
    put("3/a-old", "x", now - 10);
    put("3/a-good", "x", now + 1000);
    put("3/catalogue.db", "x", 1);
    put("4/a-old", "x", now - 10); // its server runs
    state_close(&a);
    state_close(&b);
    state_close(&c);
    must_open(&a);
    assert_int_equal(a.number, 1);
    assert_int_equal(look("2").st_mode, 0); // nothing was left of it
    assert_int_equal(look("3/a-old").st_mode, 0);
    assert_true(S_ISREG(look("3/a-good").st_mode));
    assert_true(S_ISREG(look("3/catalogue.db").st_mode));
    assert_true(S_ISREG(look("4/a-old").st_mode));
    must_open(&b);
    assert_int_equal(b.number, 2);
    state_close(&a);
    state_close(&b);
    state_close(&d);
}

static void tidying_up_touches_nothing_of_others(void **state)
{
    (void)state;
    char name[160];
    struct state a, b;
    must_open(&a);
    must_open(&b);
    put("2/notes", "the operator's", 1);
    snprintf(name, sizeof name, "%s/2/a-link", path);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    snprintf(name, sizeof name, "%s/77", path);
    assert_int_equal(symlink("/tmp", name), 0);
    put("me", "a file", 1);
    state_close(&a);
    state_close(&b);
    must_open(&a);
    assert_true(S_ISREG(look("2/notes").st_mode));
    assert_true(S_ISREG(look("me").st_mode));
    assert_true(S_ISLNK(look("77").st_mode));
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    state_close(&a);
}

#define STATE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(the_path_follows_the_option_root_xdg_and_home),
        STATE_TEST(missing_folders_are_made_for_us_alone),
        STATE_TEST(each_server_has_a_folder_and_finds_it_again),
        STATE_TEST(a_killed_server_lets_go),
        STATE_TEST(many_servers_at_once_never_share),
        STATE_TEST(what_others_may_write_is_refused),
        STATE_TEST(a_link_or_a_file_is_refused),
        STATE_TEST(links_in_the_place_of_its_own_are_refused),
        STATE_TEST(a_place_that_cannot_be_written_is_an_error),
        STATE_TEST(what_expired_in_folders_of_others_goes),
        STATE_TEST(tidying_up_touches_nothing_of_others),
        STATE_TEST(the_folder_of_another_is_refused),
        STATE_TEST(the_gate_gets_its_folder_whatever_its_uid),
        STATE_TEST(nothing_else_changes_hands),
    };
    // The last ones change owners, which only root can.
    size_t count = ARRAY_LEN(tests) - (geteuid() == 0 ? 0 : 3);
    return _cmocka_run_group_tests("state", tests, count, NULL, NULL);
}
