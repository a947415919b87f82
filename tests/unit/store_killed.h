// SPDX-License-Identifier: Apache-2.0
//
// store_killed: what the tests of the store share.  The clock can be moved on, long timers fire
// soon, and the process can be killed at every step that changes the folder.

#ifndef CONSTRICTOR_STORE_KILLED_H
#define CONSTRICTOR_STORE_KILLED_H

#include "unit.h"

#include "moved_clock.h"

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
#include "files/dbfolder.h"
#include "files/store.h"

// ---- the world, as the tests want it ------------------------------------------------------------

static unsigned ticks, crash_at; // 0: never
static int write_errno;          // what writing the bytes of a copy fails with

// Before each change of the folder.
static inline void tick(void)
{
    if (crash_at && ++ticks == crash_at)
        (void)kill(getpid(), SIGKILL);
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

int __real_fd_write_sparse(int fd, const void *data, size_t n, uint64_t at);
int __wrap_fd_write_sparse(int fd, const void *data, size_t n, uint64_t at);
int __wrap_fd_write_sparse(int fd, const void *data, size_t n, uint64_t at)
{
    tick();
    return write_errno ? -write_errno : __real_fd_write_sparse(fd, data, n, at);
}

typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
static pwrite_call sqlite_pwrite, sqlite_pwrite64;

static inline ssize_t ticking_pwrite(int fd, const void *data, size_t n, off_t at)
{
    tick();
    return sqlite_pwrite(fd, data, n, at);
}

static inline ssize_t ticking_pwrite64(int fd, const void *data, size_t n, off_t at)
{
    tick();
    return sqlite_pwrite64(fd, data, n, at);
}

// What SQLite itself writes.
static inline void tick_in_sqlite(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    sqlite_pwrite = (pwrite_call)(void *)vfs->xGetSystemCall(vfs, "pwrite");
    sqlite_pwrite64 = (pwrite_call)(void *)vfs->xGetSystemCall(vfs, "pwrite64");
    if (sqlite_pwrite)
        (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)(void *)ticking_pwrite);
    if (sqlite_pwrite64)
        (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)(void *)ticking_pwrite64);
}

// ---- a store in a folder ------------------------------------------------------------------------

static struct config config;
static char folder_path[64];
static int folder = -1;
static struct event_base *base;
static struct store *store;

static inline void open_store(void)
{
    struct err e = {0};
    store = store_open(&config, base, folder, &e);
    if (!store)
        fail_msg("%s", e.message);
}

static inline void reopen(void)
{
    store_close(store);
    open_store();
}

static inline int begin(void **state)
{
    (void)state;
    log_init(LOG_ERROR, "test");
    config_init(&config);
    config.artifact_ms = 3600000;
    config.artifact_bytes = 64 << 20;
    ahead_s = 0;
    crash_at = ticks = 0;
    write_errno = 0;
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

static inline int end(void **state)
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

static inline unsigned count_files(const char *prefix)
{
    unsigned n = 0;
    DIR *d = opendir(folder_path);
    for (const struct dirent *name; (name = readdir(d));)
        n += strncmp(name->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(d);
    return n;
}

static inline void loop_for(int ms)
{
    for (int i = 0; i < ms; i += 5) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        (void)usleep(5000);
    }
}

static inline struct artifact named(const char *owner, const char *holder, const char *path)
{
    struct artifact a = {.modified_ms = 1700000000000};
    snprintf(a.owner, sizeof a.owner, "%s", owner);
    snprintf(a.holder, sizeof a.holder, "%s", holder);
    snprintf(a.path, sizeof a.path, "%s", path);
    snprintf(a.execution_id, sizeof a.execution_id, "run-1");
    return a;
}

static inline struct artifact add_text(const char *owner, const char *holder, const char *path,
                                       const char *text)
{
    struct err e = {0};
    struct artifact a = named(owner, holder, path);
    if (store_add_bytes(store, &a, text, strlen(text), &e) < 0)
        fail_msg("%s", e.message);
    return a;
}

static inline struct artifact add_size(const char *owner, const char *path, size_t size)
{
    struct err e = {0};
    struct artifact a = named(owner, "p", path);
    char *data = calloc(1, size);
    if (store_add_bytes(store, &a, data, size, &e) < 0)
        fail_msg("%s", e.message);
    free(data);
    return a;
}

static inline void expect_text(const struct artifact *a, const char *text)
{
    char got[256] = "";
    int fd = store_read(store, a);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got - 1), strlen(text));
    assert_string_equal(got, text);
    (void)close(fd);
}

// Every byte says where it stands and to which file it belongs.
static inline unsigned char byte_at(const char *path, uint64_t at)
{
    return (unsigned char)(at * 31 + at / 4096 + (unsigned char)path[0]);
}

// 0: the file is what it should be.
static inline int check_bytes(struct store *s, const struct artifact *a)
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
    bool ok;
    struct err error;
    struct artifact a;
};

enum { PIECE = 56 * 1024 };

// Brings `has` bytes of a file, as a box gives them.
static inline int bring(struct store_copy *copy, const char *path, uint64_t from, uint64_t to,
                        struct err *e)
{
    static unsigned char piece[PIECE];
    int r = 0;
    for (uint64_t at = from; r == 0 && at < to; at += PIECE) {
        size_t n = to - at < PIECE ? (size_t)(to - at) : PIECE;
        for (size_t i = 0; i < n; i++)
            piece[i] = byte_at(path, at + i);
        r = store_write(copy, piece, n, at, e);
    }
    return r;
}

// A file that was announced with `asked` bytes and has `has`.
static inline struct answer copy_in(const char *path, uint64_t has, uint64_t asked)
{
    struct answer answer = {.a = named("k", "p", path)};
    answer.a.size = asked;
    struct store_copy *copy = store_begin(store, &answer.a, &answer.error);
    if (!copy)
        return answer;
    if (bring(copy, path, 0, has, &answer.error) < 0)
        store_cancel(copy);
    else
        answer.ok = store_end(copy, has, &answer.a, &answer.error) == 0;
    return answer;
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

#endif
