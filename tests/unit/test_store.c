// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of gate/store and what it is made of.  The clock can be moved on, long timers fire soon, and the
// process can be killed at every step that changes the folder: a child does the work, and the parent looks at
// what is left.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "base/log.h"
#include "box/landlock.h"
#include "gate/dbfolder.h"
#include "gate/store.h"

// ---- the world, as the tests want it -------------------------------------------------------------

static int64_t ahead_s;
static unsigned ticks, crash_at; // 0: never
static int copy_errno;           // what copy_file_range() fails with

// Before each change of the folder.
static void tick(void)
{
    if (crash_at && ++ticks == crash_at)
        (void)kill(getpid(), SIGKILL);
}

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int r = __real_clock_gettime(id, t);
    t->tv_sec += ahead_s;
    return r;
}

int __real_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait)
{
    struct timeval soon = {.tv_usec = 20000};
    return __real_event_add(ev, wait && wait->tv_sec > 0 ? &soon : wait);
}

int __real_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    tick();
    return __real_renameat(a, from, b, to);
}

int __real_unlinkat(int at, const char *name, int flags);
int __wrap_unlinkat(int at, const char *name, int flags);
int __wrap_unlinkat(int at, const char *name, int flags)
{
    tick();
    return __real_unlinkat(at, name, flags);
}

ssize_t __real_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t n, unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t n, unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t n, unsigned flags)
{
    tick();
    errno = copy_errno;
    return copy_errno ? -1 : __real_copy_file_range(from, at, to, to_at, n, flags);
}

typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
static pwrite_call sqlite_pwrite, sqlite_pwrite64;

static ssize_t ticking_pwrite(int fd, const void *data, size_t n, off_t at)
{
    tick();
    return sqlite_pwrite(fd, data, n, at);
}

static ssize_t ticking_pwrite64(int fd, const void *data, size_t n, off_t at)
{
    tick();
    return sqlite_pwrite64(fd, data, n, at);
}

// What SQLite itself writes.
static void tick_in_sqlite(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    sqlite_pwrite = (pwrite_call)(void *)vfs->xGetSystemCall(vfs, "pwrite");
    sqlite_pwrite64 = (pwrite_call)(void *)vfs->xGetSystemCall(vfs, "pwrite64");
    if (sqlite_pwrite)
        (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)(void *)ticking_pwrite);
    if (sqlite_pwrite64)
        (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)(void *)ticking_pwrite64);
}

// ---- a store in a folder -------------------------------------------------------------------------

static struct config config;
static char folder_path[64];
static int folder = -1;
static struct event_base *base;
static struct store *store;

static void open_store(void)
{
    struct err e = {0};
    store = store_open(&config, base, folder, &e);
    if (!store)
        fail_msg("%s", e.message);
}

static void reopen(void)
{
    store_close(store);
    open_store();
}

static int begin(void **state)
{
    (void)state;
    log_init(LOG_ERROR, "test");
    config_init(&config);
    config.artifact_ms = 3600000;
    config.artifact_bytes = 64 << 20;
    ahead_s = 0;
    crash_at = ticks = 0;
    copy_errno = 0;
    // In memory where that is: the tests make many thousand files.
    snprintf(folder_path, sizeof folder_path, "%s/constrictor-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(folder_path));
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    base = event_base_new();
    open_store();
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_close(store);
    store = NULL;
    event_base_free(base);
    DIR *d = opendir(folder_path);
    for (const struct dirent *name; (name = readdir(d));)
        if (__real_unlinkat(folder, name->d_name, 0) < 0)
            (void)__real_unlinkat(folder, name->d_name, AT_REMOVEDIR);
    (void)closedir(d);
    fd_close(&folder);
    return rmdir(folder_path);
}

static unsigned count_files(const char *prefix)
{
    unsigned n = 0;
    DIR *d = opendir(folder_path);
    for (const struct dirent *name; (name = readdir(d));)
        n += strncmp(name->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(d);
    return n;
}

static void loop_for(int ms)
{
    for (int i = 0; i < ms; i += 5) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        (void)usleep(5000);
    }
}

static struct artifact named(const char *owner, const char *place, const char *path)
{
    struct artifact a = {.modified_ms = 1700000000000};
    snprintf(a.owner, sizeof a.owner, "%s", owner);
    snprintf(a.place, sizeof a.place, "%s", place);
    snprintf(a.path, sizeof a.path, "%s", path);
    snprintf(a.execution_id, sizeof a.execution_id, "run-1");
    return a;
}

static struct artifact add_text(const char *owner, const char *place, const char *path,
                                const char *text)
{
    struct err e = {0};
    struct artifact a = named(owner, place, path);
    if (store_add_bytes(store, &a, text, strlen(text), &e) < 0)
        fail_msg("%s", e.message);
    return a;
}

static struct artifact add_size(const char *owner, const char *path, size_t size)
{
    struct err e = {0};
    struct artifact a = named(owner, "p", path);
    char *data = calloc(1, size);
    if (store_add_bytes(store, &a, data, size, &e) < 0)
        fail_msg("%s", e.message);
    free(data);
    return a;
}

static void expect_text(const struct artifact *a, const char *text)
{
    char got[256] = "";
    int fd = store_read(store, a);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got - 1), strlen(text));
    assert_string_equal(got, text);
    (void)close(fd);
}

// Every byte says where it stands and to which file it belongs.
static unsigned char byte_at(const char *path, uint64_t at)
{
    return (unsigned char)(at * 31 + at / 4096 + (unsigned char)path[0]);
}

static int make_source(const char *path, uint64_t size)
{
    char name[] = "/tmp/constrictor-source-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    (void)unlink(name);
    unsigned char *data = malloc(size ? size : 1);
    for (uint64_t i = 0; i < size; i++)
        data[i] = byte_at(path, i);
    assert_int_equal(fd_write_all(fd, data, size), 0);
    free(data);
    return fd;
}

// 0: the file is what it should be.
static int check_bytes(struct store *s, const struct artifact *a)
{
    int fd = store_read(s, a);
    unsigned char *data = malloc(a->size + 2);
    ssize_t n = fd < 0 ? -1 : pread(fd, data, a->size + 1, 0);
    int bad = n != (ssize_t)a->size;
    for (uint64_t i = 0; !bad && i < a->size; i++)
        bad = data[i] != byte_at(a->path, i);
    free(data);
    fd_close(&fd);
    return bad;
}

struct answer {
    int calls;
    bool ok;
    struct err error;
    struct artifact a;
};

static void on_done(struct store *s, const struct artifact *a, const struct err *error,
                    void *argument)
{
    struct answer *answer = argument;
    assert_ptr_equal(s, store);
    answer->calls++;
    answer->ok = !error;
    if (error)
        answer->error = *error;
    answer->a = *a;
}

static void await(const struct answer *answer)
{
    for (int i = 0; i < 100000 && !answer->calls; i++)
        (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_int_equal(answer->calls, 1);
}

static struct answer copy_in(const char *path, uint64_t has, uint64_t asked)
{
    struct err e = {0};
    struct answer answer = {0};
    struct artifact a = named("k", "p", path);
    a.size = asked;
    if (!store_add(store, &a, make_source(path, has), on_done, &answer, &e))
        fail_msg("%s", e.message);
    assert_int_equal(answer.calls, 0); // later, always
    await(&answer);
    return answer;
}

// ---- bytes in, bytes out -------------------------------------------------------------------------

static void a_file_is_copied_and_found(void **state)
{
    (void)state;
    struct artifact found;
    struct stat st;
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        copy_errno = by_hand ? EXDEV : 0;
        struct answer answer = copy_in("deep/a.csv", 3500000, 3500000);
        assert_true(answer.ok);
        assert_int_equal(answer.a.size, 3500000);
        assert_string_equal(answer.a.mime_type, "text/csv");
        assert_int_equal(strlen(answer.a.token), STORE_TOKEN_LENGTH);
        assert_int_equal(answer.a.expires_ms - answer.a.created_ms, 3600000);
        assert_true(store_by_token(store, answer.a.token, &found));
        assert_memory_equal(&found, &answer.a, sizeof found);
        assert_true(store_by_path(store, "k", "p", "deep/a.csv", &found));
        assert_int_equal(check_bytes(store, &found), 0);
    }
    DIR *d = opendir(folder_path);
    for (const struct dirent *name; (name = readdir(d));) {
        assert_null(strstr(name->d_name, found.token)); // the secret is in no name
        if (name->d_name[0] == '.' || strstr(name->d_name, "shm"))
            continue;
        assert_int_equal(fstatat(folder, name->d_name, &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    (void)closedir(d);
}

static void a_file_that_shrinks_or_grows_is_what_was_read(void **state)
{
    (void)state;
    struct answer answer = copy_in("shrunk", 1000, 5000000);
    assert_true(answer.ok);
    assert_int_equal(answer.a.size, 1000);
    assert_int_equal(check_bytes(store, &answer.a), 0);
    answer = copy_in("grown", 3000000, 1500000);
    assert_true(answer.ok);
    assert_int_equal(answer.a.size, 1500000);
    assert_int_equal(check_bytes(store, &answer.a), 0);
    answer = copy_in("nothing", 0, 100);
    assert_true(answer.ok);
    assert_int_equal(answer.a.size, 0);
    answer = copy_in("empty", 0, 0);
    assert_true(answer.ok);
    assert_int_equal(check_bytes(store, &answer.a), 0);
}

static int turns;

static void on_turn(evutil_socket_t fd, short what, void *argument)
{
    struct timeval now = {0};
    (void)fd;
    (void)what;
    turns++;
    (void)event_add(argument, &now);
}

static void others_have_their_turn_during_a_large_copy(void **state)
{
    (void)state;
    struct timeval now = {0};
    struct event *other = evtimer_new(base, on_turn, event_self_cbarg());
    turns = 0;
    assert_int_equal(event_add(other, &now), 0);
    assert_true(copy_in("large", 20 << 20, 20 << 20).ok);
    assert_true(turns >= 19); // one piece of a MiB at a time
    event_free(other);
}

static void owners_take_turns(void **state)
{
    (void)state;
    struct err e;
    struct answer large = {0}, behind = {0}, small = {0};
    struct artifact a = named("one", "p", "large"), b = named("one", "p", "behind"),
                    c = named("two", "p", "small");
    a.size = 8 << 20;
    b.size = c.size = 10;
    assert_non_null(store_add(store, &a, make_source("large", a.size), on_done, &large, &e));
    assert_non_null(store_add(store, &b, make_source("behind", 10), on_done, &behind, &e));
    assert_non_null(store_add(store, &c, make_source("small", 10), on_done, &small, &e));
    await(&small);
    assert_int_equal(large.calls, 0);
    await(&behind);
    assert_int_equal(large.calls, 1); // in order within an owner
    assert_true(large.ok && behind.ok && small.ok);
}

static void a_cancelled_copy_leaves_nothing(void **state)
{
    (void)state;
    struct err e;
    struct answer answer = {0};
    struct artifact a = named("k", "p", "x"), found;
    int fds = unit_fd_count();
    a.size = 8 << 20;
    struct store_copy *first = store_add(store, &a, make_source("x", a.size), on_done, &answer, &e),
                      *second =
                          store_add(store, &a, make_source("x", a.size), on_done, &answer, &e);
    for (int i = 0; i < 3; i++)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(count_files("tmp-"), 1);
    store_cancel(second);
    store_cancel(first);
    loop_for(20);
    assert_int_equal(answer.calls, 0);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("a-"), 0);
    assert_false(store_by_path(store, "k", "p", "x", &found));
    assert_int_equal(unit_fd_count(), fds);
    assert_non_null(store_add(store, &a, make_source("x", a.size), on_done, &answer, &e));
    (void)event_base_loop(base, EVLOOP_ONCE);
    reopen(); // a store that is closed lets go of its copies
    assert_int_equal(count_files("tmp-"), 0);
}

static void a_full_disk_is_said_and_nothing_is_announced(void **state)
{
    (void)state;
    struct artifact found;
    copy_errno = ENOSPC;
    struct answer answer = copy_in("x", 100, 100);
    assert_false(answer.ok);
    assert_int_equal(answer.error.code, ERR_DISK_FULL);
    assert_non_null(strstr(answer.error.message, "'x'"));
    assert_non_null(strstr(answer.error.hint, "--state"));
    assert_int_equal(count_files("tmp-") + count_files("a-"), 0);
    assert_false(store_by_path(store, "k", "p", "x", &found));
    assert_int_equal(store_figures(store, NULL).files, 0);

    copy_errno = EXDEV; // and by hand
    struct rlimit had, low = {.rlim_cur = 50000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &had), 0);
    low.rlim_max = had.rlim_max;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    int source = make_source("y", 200000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    struct err e;
    struct artifact y = named("k", "p", "y");
    y.size = 200000;
    answer = (struct answer){0};
    assert_non_null(store_add(store, &y, source, on_done, &answer, &e));
    await(&answer);
    char *data = calloc(1, 200000);
    int r = store_add_bytes(store, &y, data, 200000, &e);
    free(data);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &had), 0);
    (void)signal(SIGXFSZ, was);
    assert_false(answer.ok);
    assert_int_equal(answer.error.code, ERR_DISK_FULL);
    assert_true(r < 0);
    assert_int_equal(e.code, ERR_DISK_FULL);
    assert_int_equal(count_files("tmp-") + count_files("a-"), 0);
    copy_errno = 0;
    assert_true(copy_in("x", 100, 100).ok); // and it goes on
}

// ---- limits --------------------------------------------------------------------------------------

static void the_oldest_of_the_same_owner_make_room(void **state)
{
    (void)state;
    struct artifact found, kept[4], other;
    struct err e;
    config.artifact_bytes = 1 << 20;
    other = add_size("other", "o", 900000);
    for (int i = 0; i < 4; i++) {
        char path[8];
        snprintf(path, sizeof path, "f%d", i);
        kept[i] = add_size("k", path, 400000);
    }
    assert_false(store_by_token(store, kept[0].token, &found));
    assert_false(store_by_token(store, kept[1].token, &found));
    assert_true(store_by_token(store, kept[2].token, &found));
    assert_true(store_by_token(store, kept[3].token, &found));
    assert_true(store_by_token(store, other.token, &found));
    assert_non_null(strstr(store_why_gone(store, kept[0].token, "f0"), "make room"));
    assert_null(store_why_gone(store, kept[0].token, "f1"));
    assert_int_equal(count_files("a-"), 3);
    assert_int_equal(store_figures(store, "k").bytes, 800000);
    assert_int_equal(store_figures(store, NULL).bytes, 1700000);

    // One that can never fit is refused before anything is read, and costs nobody anything.
    struct artifact a = named("k", "p", "huge");
    int fds = unit_fd_count(), fd = make_source("huge", 10);
    a.size = UINT64_MAX; // a sparse file of any size
    assert_null(store_add(store, &a, fd, on_done, NULL, &e));
    assert_int_equal(e.code, ERR_QUOTA);
    assert_non_null(strstr(e.message, "'huge'"));
    assert_non_null(strstr(e.hint, "--artifact-quota"));
    assert_int_equal(unit_fd_count(), fds);
    assert_int_equal(store_figures(store, "k").files, 2);
}

static void the_number_of_artifacts_is_bounded(void **state)
{
    (void)state;
    struct artifact first = add_text("k", "p", "first", "1"), found;
    for (int i = 1; i < STORE_FILES_MAX; i++) {
        char path[32];
        snprintf(path, sizeof path, "f%d", i);
        (void)add_text("k", "p", path, "x");
    }
    assert_int_equal(store_figures(store, "k").files, STORE_FILES_MAX);
    assert_true(store_by_token(store, first.token, &found));
    (void)add_text("k", "p", "one more", "x");
    assert_int_equal(store_figures(store, "k").files, STORE_FILES_MAX);
    assert_false(store_by_token(store, first.token, &found));
    assert_int_equal(count_files("a-"), STORE_FILES_MAX);

    struct artifact *list;
    uint64_t more;
    assert_int_equal(store_list(store, "k", "p", &list, &more), STORE_LIST_MAX);
    assert_int_equal(more, STORE_FILES_MAX - STORE_LIST_MAX);
    free(list);
    assert_int_equal(store_delete(store, "k", "p", NULL), STORE_FILES_MAX);
    assert_int_equal(count_files("a-"), 0);
}

static void copies_at_one_time_are_bounded(void **state)
{
    (void)state;
    struct err e;
    struct answer answer = {0};
    struct artifact a = named("k", "p", "x");
    int fds = unit_fd_count(), source = make_source("x", 1);
    a.size = 1;
    for (int i = 0; i < STORE_COPIES_MAX; i++)
        assert_non_null(store_add(store, &a, dup(source), on_done, &answer, &e));
    assert_null(store_add(store, &a, source, on_done, &answer, &e));
    assert_int_equal(e.code, ERR_BUSY);
    for (int i = 0; i < 100000 && answer.calls < STORE_COPIES_MAX; i++)
        (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_int_equal(answer.calls, STORE_COPIES_MAX);
    assert_int_equal(unit_fd_count(), fds);
}

static void artifacts_expire_by_themselves(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "old.txt", "1"), b, found;
    ahead_s = 3000;
    b = add_text("k", "p", "young.txt", "2");
    loop_for(60);
    assert_true(store_by_token(store, a.token, &found));
    ahead_s = 3601;
    assert_false(store_by_token(store, a.token, &found)); // before anybody swept
    assert_false(store_by_path(store, "k", "p", "old.txt", &found));
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    assert_null(store_why_gone(store, a.token, "other.txt"));
    struct artifact *list;
    uint64_t more;
    assert_int_equal(store_list(store, "k", NULL, &list, &more), 1);
    assert_int_equal(more, 0);
    free(list);
    loop_for(100);
    assert_int_equal(count_files("a-"), 1);
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    expect_text(&b, "2");
    reopen();
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    ahead_s = 95000; // a day later even that is forgotten
    loop_for(100);
    assert_int_equal(count_files("a-"), 0);
    assert_int_equal(store_figures(store, NULL).files, 0);
    assert_null(store_why_gone(store, a.token, "old.txt"));
    assert_non_null(store_why_gone(store, b.token, "young.txt"));
}

static void the_time_of_a_file_is_its_end(void **state)
{
    (void)state;
    char name[300] = "";
    struct stat st;
    struct artifact a = add_text("k", "p", "x", "1");
    DIR *d = opendir(folder_path);
    for (const struct dirent *n; (n = readdir(d));)
        if (n->d_name[0] == 'a')
            snprintf(name, sizeof name, "%s", n->d_name);
    (void)closedir(d);
    assert_int_equal(fstatat(folder, name, &st, 0), 0);
    assert_in_range(st.st_mtime * 1000, a.expires_ms, a.expires_ms + 2000); // never before it
}

// ---- versions, lists, deleting -------------------------------------------------------------------

static void a_newer_version_does_not_break_the_older_link(void **state)
{
    (void)state;
    struct artifact one = add_text("k", "p", "a.txt", "one"),
                    two = add_text("k", "p", "a.txt", "two"), found, *list;
    uint64_t more;
    assert_string_not_equal(one.token, two.token);
    assert_int_equal(store_list(store, "k", "p", &list, &more), 1);
    assert_string_equal(list[0].token, two.token);
    assert_int_equal(more, 0);
    free(list);
    assert_true(store_by_path(store, "k", "p", "a.txt", &found));
    assert_string_equal(found.token, two.token);
    assert_true(store_by_token(store, one.token, &found));
    expect_text(&one, "one");
    expect_text(&two, "two");
    assert_int_equal(store_delete(store, "k", "p", "a.txt"), 2); // all versions
    assert_false(store_by_token(store, one.token, &found));
    assert_string_equal(store_why_gone(store, one.token, "a.txt"), "was deleted");
}

static void lists_are_sorted_and_of_one_owner(void **state)
{
    (void)state;
    struct artifact *list;
    uint64_t more;
    (void)add_text("k", "p", "b", "1");
    (void)add_text("k", "p", "a", "1");
    (void)add_text("k", "q", "c", "1");
    (void)add_text("other", "p", "secret", "1");
    (void)add_text("", "p", "nobody's", "1");
    assert_int_equal(store_list(store, "k", "p", &list, &more), 2);
    assert_string_equal(list[0].path, "a");
    assert_string_equal(list[1].path, "b");
    free(list);
    assert_int_equal(store_list(store, "k", NULL, &list, &more), 3);
    assert_string_equal(list[0].path, "c"); // the youngest first
    assert_string_equal(list[2].path, "b");
    free(list);
    assert_int_equal(store_list(store, "", NULL, &list, &more), 1);
    free(list);
    assert_int_equal(store_list(store, "nobody", NULL, &list, &more), 0);
    assert_null(list);
    assert_int_equal(store_delete(store, "k", "q", "a"), 0);
    assert_int_equal(store_delete(store, "other", "q", NULL), 0);
    assert_int_equal(store_delete(store, "k", "p", NULL), 2);
    assert_int_equal(store_figures(store, NULL).files, 3);
    assert_int_equal(store_figures(store, "k").files, 1);
}

// ---- hostile input -------------------------------------------------------------------------------

static void only_the_whole_token_opens(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "x", "1"), found;
    static const char *const forged[] = {
        "",
        "x",
        "' OR 1=1 --",
        "%",
        "________________________________",
        "00000000000000000000000000000000",
        "' OR ''='                       ",
    };
    for (size_t i = 0; i < ARRAY_LEN(forged); i++)
        assert_false(store_by_token(store, forged[i], &found));
    for (size_t i = 0; i < STORE_TOKEN_LENGTH; i++) {
        char token[STORE_TOKEN_LENGTH + 1];
        memcpy(token, a.token, sizeof token);
        token[i] = token[i] == 'A' ? 'B' : 'A';
        assert_false(store_by_token(store, token, &found));
        assert_null(store_why_gone(store, token, "x"));
        memcpy(token, a.token, sizeof token);
        token[i] = '\0';
        assert_false(store_by_token(store, token, &found));
    }
    assert_true(store_by_token(store, a.token, &found));
    assert_false(store_by_path(store, "k2", "p", "x", &found)); // another's
    assert_false(store_by_path(store, "", "p", "x", &found));
}

static void odd_names_are_kept_or_refused(void **state)
{
    (void)state;
    struct err e;
    struct artifact found;
    static const char *const good[] = {
        "a",       "a b.txt",      "'; DROP TABLE artifact; --",
        "%s%n",    "ä/ö.csv",      "...",
        "..a/b..", "a\"b\\c",      "100%.txt",
        "?#&=",    ".hidden",      "tmp-x",
        "a-0",     "catalogue.db",
    };
    static const char *const bad[] = {
        "",      "/etc/passwd", "../x", "a/../b", "a/..",  ".",        "..",
        "a/./b", "a//b",        "a/",   "a\nb",   "a\x7f", "\xff\xfe", "a\xc3",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct artifact a = add_text("k", "p", good[i], good[i]);
        assert_true(store_by_path(store, "k", "p", good[i], &found));
        assert_string_equal(found.path, good[i]);
        expect_text(&a, good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct artifact a = named("k", "p", bad[i]);
        assert_true(store_add_bytes(store, &a, "x", 1, &e) < 0);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        int fds = unit_fd_count();
        assert_null(store_add(store, &a, make_source("x", 1), on_done, NULL, &e));
        assert_int_equal(unit_fd_count(), fds);
    }
    assert_int_equal(store_figures(store, "k").files, ARRAY_LEN(good));
    assert_int_equal(count_files("a-"), ARRAY_LEN(good));
    reopen();
    assert_int_equal(store_figures(store, "k").files, ARRAY_LEN(good));
}

static void types_come_from_names_and_bytes(void **state)
{
    (void)state;
#define CASE(path, bytes, type)                                                                    \
    {                                                                                              \
        path, bytes, sizeof(bytes) - 1, type                                                       \
    }
    static const struct {
        const char *path, *bytes;
        size_t length;
        const char *type;
    } cases[] = {
        CASE("a.png", "\x89PNG\r\n\x1a\n", "image/png"),
        CASE("a.PNG", "", "image/png"),
        CASE("a.png", "\xff\xd8\xff\xe0", "image/jpeg"), // a lie that would break whoever shows it
        CASE("plot", "\x89PNG\r\n\x1a\n....", "image/png"),
        CASE("x.jpeg", "\xff\xd8\xff", "image/jpeg"),
        CASE("x.gif", "GIF89a", "image/gif"),
        CASE("x", "RIFF1234WEBPVP8 ", "image/webp"),
        CASE("x", "RIFF1234WAVEfmt ", "audio/wav"),
        CASE("x", "12345678WEBP", "text/plain"),
        CASE("x.svg", "<svg/>", "image/svg+xml"),
        CASE("x.pdf", "%PDF-1.7", "application/pdf"),
        CASE("x", "%PDF-1.7", "application/pdf"),
        CASE("x.csv", "a,b", "text/csv"),
        CASE("x.tsv", "a\tb", "text/tab-separated-values"),
        CASE("x.json", "{}", "application/json"),
        CASE("x.xlsx", "PK\x03\x04",
             "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        CASE("x.docx", "PK\x03\x04",
             "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        CASE("x.parquet", "PAR1", "application/vnd.apache.parquet"),
        CASE("x.what", "PK\x03\x04", "application/zip"),
        CASE("x.html", "<script>", "text/html"),
        CASE("x.txt", "<script>", "text/plain"),
        CASE("x.md", "#", "text/markdown"),
        CASE("x.py", "1", "text/x-python"),
        CASE("x.ipynb", "{}", "application/x-ipynb+json"),
        CASE("x.mp3", "ID3", "audio/mpeg"),
        CASE("x.mp4", "....ftypisom", "video/mp4"),
        CASE("x.sqlite", "SQLite format 3\0", "application/vnd.sqlite3"),
        CASE("x", "SQLite format 3\0", "application/vnd.sqlite3"),
        CASE("x.npy", "\x93NUMPY", "application/x-npy"),
        CASE("Makefile", "all:\n\tcc", "text/plain"),
        CASE("x", "gr\xc3\xbc\xc3\x9f", "text/plain"),
        CASE("x", "cut \xc3", "text/plain"),
        CASE("x", "a\0b", "application/octet-stream"),
        CASE("x", "\xff\xfe\xfd\xfc\xfb", "application/octet-stream"),
        CASE("x", "", "application/octet-stream"),
        CASE("dir.png/x", "", "application/octet-stream"),
        CASE(".png", "", "application/octet-stream"),
        CASE("x.", "", "application/octet-stream"),
        CASE("", "", "application/octet-stream"),
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *type = store_mime_type(cases[i].path, cases[i].bytes, cases[i].length);
        if (strcmp(type, cases[i].type) != 0)
            fail_msg("%s: %s, not %s", cases[i].path, type, cases[i].type);
        assert_true(strlen(type) <= STORE_MIME_MAX);
    }
}

// ---- what is found at the start ------------------------------------------------------------------

static void a_restart_finds_what_was(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "x.txt", "here"), found;
    reopen();
    assert_true(store_by_token(store, a.token, &found));
    assert_memory_equal(&a, &found, sizeof a);
    expect_text(&found, "here");
    assert_int_equal(store_figures(store, "k").bytes, 4);
}

static void put(const char *name, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    (void)close(fd);
}

static void files_without_rows_are_swept_and_rows_without_files(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "a", "aa"), b = add_text("k", "p", "b", "bb"),
                    c = add_text("k", "p", "c", "cc"), found;
    put("tmp-1", "x");
    put("a-00000000000000000000000000000000", "x");
    put("a-", "x");
    put("notes.txt", "the operator's");
    assert_int_equal(symlinkat("/etc/passwd", folder, "a-link"), 0);
    int fd = store_read(store, &a);
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof path - 1) > 0);
    (void)close(fd);
    store_close(store);
    assert_int_equal(truncate(path, 1), 0); // as a machine that lost its power might leave it
    open_store();
    assert_false(store_by_token(store, a.token, &found));
    assert_non_null(strstr(store_why_gone(store, a.token, "a"), "crash"));
    expect_text(&b, "bb");
    expect_text(&c, "cc");
    assert_int_equal(count_files("a-"), 2);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("notes.txt"), 1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

// As somebody else who can write there.
static void change_catalogue(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2("catalogue.db", &db, SQLITE_OPEN_READWRITE, DBFOLDER_VFS), 0);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_damaged_catalogue_is_put_aside(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "not a database at all, but long enough to look like one: 0123456789 0123456789",
        "SQLite format 3",
    };
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        struct artifact a = add_text("k", "p", "a", "aa"), found;
        store_close(store);
        put("catalogue.db", contents[i]);
        open_store();
        assert_false(store_by_token(store, a.token, &found));
        assert_int_equal(count_files("a-"), 0);
        assert_int_equal(count_files("catalogue.damaged"), 1);
        (void)add_text("k", "p", "b", "bb");
    }
    // In the middle of it.
    for (int i = 0; i < 50; i++)
        (void)add_text("k", "p", "x", "y");
    store_close(store);
    int fd = openat(folder, "catalogue.db", O_WRONLY | O_CLOEXEC);
    char junk[3000];
    memset(junk, 0xa5, sizeof junk);
    for (off_t at = 4096; at < 12000; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof junk, at + 100), sizeof junk);
    (void)close(fd);
    open_store();
    (void)add_text("k", "p", "b", "bb");

    // A link in its place is not followed.
    store_close(store);
    assert_int_equal(unlinkat(folder, "catalogue.db", 0), 0);
    put("elsewhere", "untouched");
    assert_int_equal(symlinkat("elsewhere", folder, "catalogue.db"), 0);
    open_store();
    (void)add_text("k", "p", "b", "bb");
    char text[32] = "";
    fd = openat(folder, "elsewhere", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof text), 9);
    assert_string_equal(text, "untouched");
    (void)close(fd);
}

static void a_strange_schema_is_put_aside(void **state)
{
    (void)state;
    store_close(store);
    change_catalogue("ALTER TABLE artifact RENAME COLUMN path TO paths");
    open_store();
    assert_int_equal(count_files("catalogue.damaged"), 1);
    struct artifact a = add_text("k", "p", "a", "aa"), found;
    store_close(store);
    // What a gate that was taken over might plant: it is not run.
    change_catalogue("CREATE TRIGGER t AFTER INSERT ON artifact BEGIN DELETE FROM artifact; END");
    open_store();
    (void)add_text("k", "p", "b", "bb");
    assert_true(store_by_token(store, a.token, &found));
    assert_true(store_by_path(store, "k", "p", "b", &found));
}

static void a_newer_catalogue_is_left_alone(void **state)
{
    (void)state;
    struct err e = {0};
    store_close(store);
    store = NULL;
    change_catalogue("PRAGMA user_version = 99");
    assert_null(store_open(&config, base, folder, &e));
    assert_non_null(strstr(e.message, "newer version"));
    assert_int_equal(count_files("catalogue.damaged"), 0);
    change_catalogue("PRAGMA user_version = 1");
    open_store();
}

// ---- killed at every step ------------------------------------------------------------------------

static void announce(struct store *s, const struct artifact *a, const struct err *error,
                     void *argument)
{
    (void)s;
    if (!error)
        (void)!write(*(int *)argument, a, sizeof *a);
}

// The child's work: the store is opened, files come in both ways, some replace others.
static void add_many(int announced)
{
    struct err e;
    open_store();
    tick_in_sqlite();
    for (int round = 0; round < 2; round++) {
        unsigned char data[300];
        struct artifact small = named("k", "p", "b"), large = named("k", "p", "l");
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = byte_at("b", i);
        if (store_add_bytes(store, &small, data, sizeof data, &e) == 0)
            announce(store, &small, NULL, &announced);
        large.size = 1500000;
        (void)store_add(store, &large, make_source("l", large.size), announce, &announced, &e);
        for (int i = 0; i < 20; i++)
            (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    }
}

// The other way: there is a quota, some are deleted, all expire.
static void remove_many(int announced)
{
    struct err e;
    (void)announced;
    config.artifact_bytes = 1000;
    open_store();
    tick_in_sqlite();
    for (int i = 0; i < 4; i++) {
        unsigned char data[300];
        char path[8];
        snprintf(path, sizeof path, "%d", i);
        struct artifact a = named("k", "p", path);
        for (size_t n = 0; n < sizeof data; n++)
            data[n] = byte_at(path, n);
        (void)store_add_bytes(store, &a, data, sizeof data, &e);
    }
    (void)store_delete(store, "k", "p", "3");
    ahead_s = 4000;
    for (int i = 0; i < 100 && store_figures(store, NULL).files; i++)
        loop_for(5);
}

// True: it was killed before it was done.
static bool killed_at(unsigned step, void (*work)(int), int announced)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        crash_at = step;
        work(announced);
        crash_at = 0;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

// Invariants (1) and (2) of store.h.
static void check_invariants(void)
{
    struct artifact *list;
    uint64_t more;
    size_t count = store_list(store, "k", NULL, &list, &more);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(check_bytes(store, &list[i]), 0);
    free(list);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("a-"), store_figures(store, NULL).files);
}

static void kill_at_every_step(void (*work)(int))
{
    unsigned step = 1;
    for (bool killed = true; killed; step++) {
        int announced[2];
        struct artifact a, found;
        store_close(store);
        store = NULL;
        assert_int_equal(pipe2(announced, O_CLOEXEC), 0);
        killed = killed_at(step, work, announced[1]);
        (void)close(announced[1]);
        open_store();
        check_invariants();
        while (read(announced[0], &a, sizeof a) == (ssize_t)sizeof a) {
            assert_true(store_by_token(store, a.token, &found)); // what was announced is there
            assert_memory_equal(&a, &found, sizeof a);
            assert_int_equal(check_bytes(store, &found), 0);
        }
        (void)close(announced[0]);
        (void)store_delete(store, "k", "p", NULL);
        assert_true(step < 2000);
    }
    assert_true(step > 30); // it was killed at all
}

static void killed_while_adding_nothing_announced_is_lost(void **state)
{
    (void)state;
    kill_at_every_step(add_many);
}

static void killed_while_removing_nothing_is_half_there(void **state)
{
    (void)state;
    kill_at_every_step(remove_many);
}

// ---- as the gate does it -------------------------------------------------------------------------

// Returns a line number, of what is wrong, or 0.
static int in_a_cell(void)
{
    struct err e;
    struct artifact a = named("k", "p", "x.txt"), found;
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(54321, 54321, 54321) < 0 ||
                           setresuid(54321, 54321, 54321) < 0))
        return __LINE__;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_seal(landlock_abi(), folder) < 0)
        return __LINE__;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 && landlock_abi() > 0)
        return __LINE__;
    store = store_open(&config, base, folder, &e);
    if (!store || store_add_bytes(store, &a, "inside", 6, &e) < 0 ||
        !store_by_token(store, a.token, &found))
        return __LINE__;
    int fd = store_read(store, &found);
    char text[8] = "";
    if (fd < 0 || read(fd, text, 6) != 6 || strcmp(text, "inside") != 0)
        return __LINE__;
    if (store_delete(store, "k", "p", "x.txt") != 1)
        return __LINE__;
    store_close(store);
    return 0;
}

static void a_descriptor_is_all_that_it_needs(void **state)
{
    (void)state;
    int status;
    store_close(store);
    store = NULL;
    // Behind a folder that nobody but root may search.
    char closed[128], inner[160];
    snprintf(closed, sizeof closed, "%s/closed", folder_path);
    snprintf(inner, sizeof inner, "%s/closed/inner", folder_path);
    assert_int_equal(mkdir(closed, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(inner, 54321, 54321), 0);
    int outer = folder;
    folder = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_a_cell());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    DIR *d = opendir(inner);
    for (const struct dirent *name; (name = readdir(d));)
        (void)unlinkat(folder, name->d_name, 0);
    (void)closedir(d);
    (void)close(folder);
    folder = outer;
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(closed), 0);
    open_store();
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_file_is_copied_and_found),
        STORE_TEST(a_file_that_shrinks_or_grows_is_what_was_read),
        STORE_TEST(others_have_their_turn_during_a_large_copy),
        STORE_TEST(owners_take_turns),
        STORE_TEST(a_cancelled_copy_leaves_nothing),
        STORE_TEST(a_full_disk_is_said_and_nothing_is_announced),
        STORE_TEST(the_oldest_of_the_same_owner_make_room),
        STORE_TEST(the_number_of_artifacts_is_bounded),
        STORE_TEST(copies_at_one_time_are_bounded),
        STORE_TEST(artifacts_expire_by_themselves),
        STORE_TEST(the_time_of_a_file_is_its_end),
        STORE_TEST(a_newer_version_does_not_break_the_older_link),
        STORE_TEST(lists_are_sorted_and_of_one_owner),
        STORE_TEST(only_the_whole_token_opens),
        STORE_TEST(odd_names_are_kept_or_refused),
        STORE_TEST(types_come_from_names_and_bytes),
        STORE_TEST(a_restart_finds_what_was),
        STORE_TEST(files_without_rows_are_swept_and_rows_without_files),
        STORE_TEST(a_damaged_catalogue_is_put_aside),
        STORE_TEST(a_strange_schema_is_put_aside),
        STORE_TEST(a_newer_catalogue_is_left_alone),
        STORE_TEST(killed_while_adding_nothing_announced_is_lost),
        STORE_TEST(killed_while_removing_nothing_is_half_there),
        STORE_TEST(a_descriptor_is_all_that_it_needs),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
