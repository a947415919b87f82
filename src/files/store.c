// SPDX-License-Identifier: Apache-2.0
//
// store: see store.h.  Puts bytes (files in the state folder) and rows (catalogue.c) together.
//
// The order of each change is what keeps the invariants, whenever the process is killed:
//   in   bytes under an unfinished name, rename, row.  Killed in between: a file without a row,
//   swept.
//   out  row, bytes.  Killed in between: the same.
// Bytes are not synced to the disk: that would delay every client and only matters when the machine
// crashes; the next start drops rows whose bytes do not match.

#include "files/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/timer.h"
#include "base/utf8.h"
#include "files/catalogue.h"
#include "files/dbfolder.h"
#include "keeper/state.h"
#include "json/encode.h"

enum {
    HEAD_BYTES = 512,     // that determine a file's type
    SWEEP_MAX_MS = 60000, // sweep at the latest after this: the machine's clock may be set
    SWEEP_MIN_MS = 50,    // and not earlier than this
    NOTE_MS = 60000,      // between two log lines about failures
    NAME_SIZE = 8 + CATALOGUE_KEY_LENGTH,
};

// A file on its way in.
struct store_copy {
    TAILQ_ENTRY(store_copy) next;
    struct store *store;
    struct artifact a;
    int fd;
};

struct store {
    const struct config *config;
    struct catalogue *catalogue;
    int folder;
    TAILQ_HEAD(, store_copy) copies;
    unsigned copy_count;
    struct event_base *base;
    struct timer sweep;
    int64_t noted_ms; // when a failure was last logged
    bool (*is_alive)(const char *owner, const char *holder, void *argument); // NULL: none
    void *alive_argument;
};

// Files of deleted rows; removed once the deletion is committed.
struct doomed {
    char (*keys)[CATALOGUE_KEY_LENGTH + 1];
    size_t count, cap;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// ---- names --------------------------------------------------------------------------------------

static int name_of(const char *token, const char *prefix, char ret[NAME_SIZE])
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    if (catalogue_key(token, strlen(token), key) < 0)
        return -1;
    snprintf(ret, NAME_SIZE, "%s%s", prefix, key);
    return 0;
}

static void remove_file(const struct store *s, const char *token, const char *prefix)
{
    char name[NAME_SIZE];
    if (name_of(token, prefix, name) == 0)
        (void)unlinkat(s->folder, name, 0); // what is left is swept at the next start
}

static int doom(struct doomed *d, const char *token)
{
    if (d->count == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 16;
        void *keys = realloc(d->keys, cap * sizeof *d->keys);
        if (!keys)
            return -1;
        d->keys = keys;
        d->cap = cap;
    }
    return catalogue_key(token, strlen(token), d->keys[d->count++]);
}

static void doomed_remove(const struct store *s, struct doomed *d)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < d->count; i++) {
        snprintf(name, sizeof name, STATE_FILE_PREFIX "%s", d->keys[i]);
        (void)unlinkat(s->folder, name, 0);
    }
    free(d->keys);
    *d = (struct doomed){0};
}

static void doomed_spare(struct doomed *d)
{
    free(d->keys);
    *d = (struct doomed){0};
}

// ---- sweeping -----------------------------------------------------------------------------------

static void on_sweep(void *argument);

static void plan_sweep(struct store *s, int64_t least_ms)
{
    int64_t due_ms = catalogue_first_due(s->catalogue);
    if (due_ms < 0) {
        timer_stop(&s->sweep);
        return;
    }
    int64_t wait_ms = due_ms - now_ms();
    wait_ms = wait_ms < least_ms ? least_ms : wait_ms > SWEEP_MAX_MS ? SWEEP_MAX_MS : wait_ms;
    (void)timer_set(&s->sweep, s->base, (uint64_t)wait_ms, on_sweep, s);
}

// Removes rows and, when they are gone for good, their files.  Returns how many, or -1.
static int drop_rows(struct store *s, const struct catalogue_row *rows, size_t count,
                     enum catalogue_end end, struct err *e)
{
    struct doomed doomed = {0};
    int r = count ? catalogue_begin(s->catalogue, e) : 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        r = catalogue_remove(s->catalogue, &rows[i], end, now_ms(), e);
        if (r == 0 && doom(&doomed, rows[i].a.token) < 0)
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "remove artifacts");
    }
    if (r == 0 && count)
        r = catalogue_trim(s->catalogue, now_ms(), e);
    if (r < 0)
        catalogue_rollback(s->catalogue);
    else if (count)
        r = catalogue_commit(s->catalogue, e);
    if (r < 0)
        doomed_spare(&doomed);
    else
        doomed_remove(s, &doomed);
    return r < 0 ? -1 : (int)count;
}

static bool prolong_living(struct store *s, const struct catalogue_row *rows, size_t count)
{
    bool any = false;
    for (size_t i = 0; s->is_alive && i < count; i++) {
        if (!s->is_alive(rows[i].a.owner, rows[i].a.holder, s->alive_argument))
            continue;
        store_prolong(s, rows[i].a.owner, rows[i].a.holder);
        any = true;
    }
    return any;
}

static void on_sweep(void *argument)
{
    struct store *s = argument;
    struct err e;
    struct catalogue_row *rows = calloc(CATALOGUE_BATCH, sizeof *rows);
    int r = -1;
    if (rows) {
        size_t count = catalogue_due(s->catalogue, now_ms(), rows, CATALOGUE_BATCH);
        if (prolong_living(s, rows, count)) // what is still due are older versions
            count = catalogue_due(s->catalogue, now_ms(), rows, CATALOGUE_BATCH);
        r = drop_rows(s, rows, count, END_EXPIRED, &e);
        if (r < 0)
            log_err(LOG_ERROR, &e);
    }
    free(rows);
    plan_sweep(s, r < 0 ? SWEEP_MAX_MS : r == CATALOGUE_BATCH ? 0 : SWEEP_MIN_MS);
}

// Restores invariants (2) and, after a crash of the machine, (1).
static void sweep_rows(struct store *s)
{
    struct catalogue_row *rows = calloc(CATALOGUE_BATCH, sizeof *rows);
    int64_t id = INT64_MIN;
    size_t count = 0, bad = 0, lost = 0;
    struct err e;
    while (rows && (count = catalogue_after(s->catalogue, id, rows, CATALOGUE_BATCH)) > 0) {
        id = rows[count - 1].id;
        bad = 0;
        for (size_t i = 0; i < count; i++) {
            char name[NAME_SIZE];
            struct stat st;
            if (name_of(rows[i].a.token, STATE_FILE_PREFIX, name) < 0 ||
                fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
                (uint64_t)st.st_size != rows[i].a.size)
                rows[bad++] = rows[i];
        }
        if (bad && drop_rows(s, rows, bad, END_DAMAGED, &e) < 0)
            log_err(LOG_ERROR, &e);
        lost += bad;
    }
    free(rows);
    if (lost)
        log_line(LOG_WARN, "%zu artifacts were lost: their files are missing or changed", lost);
}

static void sweep_files(struct store *s)
{
    int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (!names) {
        fd_close(&fd);
        return;
    }
    for (const struct dirent *d; (d = readdir(names));) {
        const char *key = d->d_name + strlen(STATE_FILE_PREFIX);
        bool piece = strncmp(d->d_name, STATE_PIECE_PREFIX, strlen(STATE_PIECE_PREFIX)) == 0,
             file = strncmp(d->d_name, STATE_FILE_PREFIX, strlen(STATE_FILE_PREFIX)) == 0;
        if (piece || (file && !catalogue_has_key(s->catalogue, key)))
            (void)unlinkat(s->folder, d->d_name, 0);
    }
    (void)closedir(names);
}

// ---- opening ------------------------------------------------------------------------------------

struct store *store_open(const struct config *c, struct event_base *base, int folder, struct err *e)
{
    struct err damage;
    struct store *s = calloc(1, sizeof *s);
    if (s) {
        TAILQ_INIT(&s->copies);
        s->config = c;
        s->folder = folder;
        s->base = base;
    }
    if (!s) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the store of artifacts");
        store_close(s);
        return NULL;
    }
    if (dbfolder_use(folder, e) < 0 || !(s->catalogue = catalogue_open(folder, &damage, e))) {
        store_close(s);
        return NULL;
    }
    if (damage.message[0])
        log_line(LOG_ERROR,
                 "the catalogue of artifacts was damaged (%s); it was moved aside as "
                 "'catalogue.damaged' and a new one was begun: earlier links do not work",
                 damage.message);
    sweep_rows(s);
    sweep_files(s);
    plan_sweep(s, 0);
    return s;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    while (!TAILQ_EMPTY(&s->copies))
        store_cancel(TAILQ_FIRST(&s->copies));
    timer_stop(&s->sweep);
    catalogue_close(s->catalogue);
    free(s);
}

// ---- adding -------------------------------------------------------------------------------------

// Callers have checked the path; this protects the catalogue.
static bool is_path(const char *path)
{
    size_t n = strnlen(path, STORE_PATH_MAX + 1);
    if (n == 0 || n > STORE_PATH_MAX || path[0] == '/' || path[n - 1] == '/' ||
        utf8_valid_length(path, n) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == 127)
            return false;
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
        size_t part = strcspn(p, "/");
        if (part == 0 || (p[0] == '.' && (part == 1 || (part == 2 && p[1] == '.'))))
            return false;
    }
    return true;
}

static int over_quota(const struct store *s, const struct artifact *a, struct err *e)
{
    char quota[32], size[32];
    text_format_size(s->config->artifact_bytes, quota, sizeof quota);
    text_format_size(a->size, size, sizeof size);
    return err_set(e, ERR_QUOTA, 0, "leave smaller files; the operator can raise --artifact-quota",
                   "'%.200s' is larger (%s) than all artifacts of a key may be together (%s)",
                   a->path, size, quota);
}

// Fills in what must be known before bytes are written.
static int prepare(const struct store *s, struct artifact *a, struct err *e)
{
    if (!is_path(a->path))
        return err_set(e, ERR_BAD_VALUE, 0, NULL, "this name cannot be the name of an artifact");
    if (a->size > s->config->artifact_bytes)
        return over_quota(s, a, e);
    if (encode_random_id(a->token, STORE_TOKEN_LENGTH) < 0)
        return err_set(e, ERR_SYSTEM, 0, NULL, "make a token");
    return 0;
}

static int disk_failed(const struct artifact *a, int errnum, struct err *e)
{
    bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
    return full ? err_set(e, ERR_DISK_FULL, 0,
                          "make room on that disk, or choose another folder with --state",
                          "'%.200s' was not kept: the disk of the state folder is full", a->path)
                : err_set(e, ERR_STATE_FOLDER, errnum, "look at the state folder and its disk",
                          "'%.200s' was not kept", a->path);
}

static int begin_file(const struct store *s, const struct artifact *a, struct err *e)
{
    char name[NAME_SIZE];
    if (name_of(a->token, STATE_PIECE_PREFIX, name) < 0)
        return err_set(e, ERR_SYSTEM, 0, NULL, "hash a token");
    int fd = openat(s->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? disk_failed(a, errno, e) : fd;
}

// Deletes the owner's oldest artifacts until the new one fits.
static int make_space(struct store *s, const struct artifact *a, struct doomed *doomed,
                      struct err *e)
{
    struct catalogue_row row;
    for (;;) {
        struct store_figures f = catalogue_figures(s->catalogue, a->owner);
        if (f.files < STORE_FILES_MAX && f.bytes + a->size <= s->config->artifact_bytes)
            return 0;
        if (catalogue_oldest(s->catalogue, a->owner, &row, 1) == 0)
            return over_quota(s, a, e);
        int r = catalogue_remove(s->catalogue, &row, END_QUOTA, now_ms(), e);
        if (r == 0 && doom(doomed, row.a.token) < 0)
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make room for '%.200s'", a->path);
        if (r < 0)
            return r;
    }
}

static int add_row(struct store *s, const struct artifact *a, struct err *e)
{
    struct doomed doomed = {0};
    int r = catalogue_begin(s->catalogue, e);
    if (r == 0)
        r = make_space(s, a, &doomed, e);
    if (r == 0)
        r = catalogue_add(s->catalogue, a, e);
    if (r == 0)
        r = catalogue_commit(s->catalogue, e);
    else
        catalogue_rollback(s->catalogue);
    if (r == 0)
        doomed_remove(s, &doomed);
    else
        doomed_spare(&doomed);
    return r;
}

// Tells the operator, at most once a minute, because runs may be many.
static void note_failure(struct store *s, const struct err *e)
{
    int64_t now = now_ms();
    if (s->noted_ms && now - s->noted_ms < NOTE_MS)
        return;
    s->noted_ms = now;
    log_err(LOG_WARN, e);
}

// All bytes are in the unfinished file.  Its mtime becomes its expiry, for keeper/state.c, which
// cleans up without the catalogue.
static int finish_file(struct store *s, struct artifact *a, int fd, struct err *e)
{
    char head[HEAD_BYTES], unfinished[NAME_SIZE], name[NAME_SIZE];
    ssize_t n = pread(fd, head, sizeof head, 0);
    snprintf(a->mime_type, sizeof a->mime_type, "%s",
             mime_type(a->path, head, n < 0 ? 0 : (size_t)n));
    a->created_ms = now_ms();
    a->expires_ms = a->created_ms + (int64_t)s->config->artifact_ms;
    struct timespec end = {.tv_sec = a->expires_ms / 1000 + 1}, times[2] = {end, end};
    int r = 0;
    if (futimens(fd, times) < 0 || name_of(a->token, STATE_PIECE_PREFIX, unfinished) < 0 ||
        name_of(a->token, STATE_FILE_PREFIX, name) < 0 ||
        renameat(s->folder, unfinished, s->folder, name) < 0)
        r = disk_failed(a, errno, e);
    if (r == 0)
        r = add_row(s, a, e);
    if (r < 0) {
        remove_file(s, a->token, STATE_PIECE_PREFIX);
        remove_file(s, a->token, STATE_FILE_PREFIX);
    } else if (!timer_is_set(&s->sweep)) {
        plan_sweep(s, SWEEP_MIN_MS);
    }
    return r;
}

int store_add_bytes(struct store *s, struct artifact *a, const void *data, size_t length,
                    struct err *e)
{
    a->size = length;
    int r = prepare(s, a, e);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = begin_file(s, a, e);
    if (fd < 0)
        return fd;
    r = fd_write_all(fd, data, length);
    if (r < 0) {
        remove_file(s, a->token, STATE_PIECE_PREFIX);
        r = disk_failed(a, -r, e);
    } else {
        r = finish_file(s, a, fd, e);
    }
    if (r < 0)
        note_failure(s, e);
    return r;
}

// ---- copies -------------------------------------------------------------------------------------

void store_cancel(struct store_copy *copy)
{
    struct store *s = copy->store;
    TAILQ_REMOVE(&s->copies, copy, next);
    s->copy_count--;
    if (copy->fd >= 0)
        remove_file(s, copy->a.token, STATE_PIECE_PREFIX); // a finished copy has none
    fd_close(&copy->fd);
    free(copy);
}

// SECURITY: an unfinished copy uses the disk but no quota yet.  So each owner's unfinished copies
// are bounded by the quota once more: anything beyond it would be deleted as soon as it is
// complete.
static bool may_copy(const struct store *s, const struct artifact *a)
{
    const struct store_copy *other;
    uint64_t bytes = a->size;
    TAILQ_FOREACH (other, &s->copies, next)
        if (strcmp(other->a.owner, a->owner) == 0)
            bytes += other->a.size;
    return s->copy_count < STORE_COPIES_MAX && bytes <= s->config->artifact_bytes;
}

struct store_copy *store_begin(struct store *s, const struct artifact *a, struct err *e)
{
    _cleanup_free_ struct store_copy *copy = calloc(1, sizeof *copy);
    if (!copy) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "keep '%.200s'", a->path);
        return NULL;
    }
    *copy = (struct store_copy){.store = s, .a = *a, .fd = -1};
    if (prepare(s, &copy->a, e) < 0)
        return NULL;
    if (!may_copy(s, a)) {
        (void)err_set(e, ERR_BUSY, 0, "leave fewer files at once",
                      "'%.200s' was not kept: too many other files are being kept at this moment",
                      a->path);
        return NULL;
    }
    copy->fd = begin_file(s, &copy->a, e);
    if (copy->fd < 0) {
        note_failure(s, e);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&s->copies, copy, next);
    s->copy_count++;
    return TAKE_PTR(copy);
}

int store_write(struct store_copy *copy, const void *data, size_t length, uint64_t offset,
                struct err *e)
{
    int r = offset > copy->a.size || length > copy->a.size - offset
                ? -EFBIG
                : fd_write_sparse(copy->fd, data, length, offset);
    if (r == 0)
        return 0;
    r = disk_failed(&copy->a, -r, e);
    note_failure(copy->store, e);
    return r;
}

void store_set_modified(struct store_copy *copy, int64_t modified_ms)
{
    if (copy)
        copy->a.modified_ms = modified_ms;
}

int store_end(struct store_copy *copy, uint64_t size, struct artifact *ret, struct err *e)
{
    struct store *s = copy->store;
    copy->a.size = size;
    int r = ftruncate(copy->fd, (off_t)size) < 0 ? disk_failed(&copy->a, errno, e)
                                                 : finish_file(s, &copy->a, copy->fd, e);
    if (r < 0)
        note_failure(s, e);
    *ret = copy->a;
    if (r == 0)
        fd_close(&copy->fd); // store_cancel() must not remove the finished file
    store_cancel(copy);
    return r;
}

// ---- finding ------------------------------------------------------------------------------------

bool store_by_token(struct store *s, const char *token, struct artifact *ret)
{
    return catalogue_by_token(s->catalogue, token, now_ms(), ret);
}

bool store_by_path(struct store *s, const char *owner, const char *holder, const char *path,
                   struct artifact *ret)
{
    return catalogue_by_path(s->catalogue, owner, holder, path, now_ms(), ret);
}

const char *store_why_gone(struct store *s, const char *token, const char *name)
{
    static const char *const words[] = {
        [END_EXPIRED] = "has expired",
        [END_QUOTA] = "had to make room for newer files of the same key",
        [END_DELETED] = "was deleted",
        [END_DAMAGED] = "was lost in a crash of the machine",
    };
    struct artifact a;
    enum catalogue_end end;
    // Expired, but not swept yet.
    if (catalogue_by_token(s->catalogue, token, INT64_MIN, &a))
        return a.expires_ms <= now_ms() && strcmp(catalogue_name(&a), name) == 0
                   ? words[END_EXPIRED]
                   : NULL;
    return catalogue_ended(s->catalogue, token, name, &end) ? words[end] : NULL;
}

int store_read(struct store *s, const struct artifact *a)
{
    char name[NAME_SIZE];
    return name_of(a->token, STATE_FILE_PREFIX, name) < 0
               ? -1
               : openat(s->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

size_t store_list(struct store *s, const char *owner, const char *holder, struct artifact **ret,
                  uint64_t *ret_more)
{
    int64_t now = now_ms();
    uint64_t total = catalogue_count(s->catalogue, owner, holder, now);
    size_t cap = total < STORE_LIST_MAX ? (size_t)total : STORE_LIST_MAX, n = 0;
    *ret = cap ? calloc(cap, sizeof **ret) : NULL;
    if (*ret)
        n = catalogue_list(s->catalogue, owner, holder, now, *ret, cap);
    *ret_more = total - n;
    return n;
}

unsigned store_delete(struct store *s, const char *owner, const char *holder, const char *path)
{
    struct catalogue_row *rows = calloc(CATALOGUE_BATCH, sizeof *rows);
    unsigned total = 0;
    size_t count;
    struct err e;
    while (rows &&
           (count = catalogue_of(s->catalogue, owner, holder, path, rows, CATALOGUE_BATCH)) > 0) {
        if (drop_rows(s, rows, count, END_DELETED, &e) < 0) {
            log_err(LOG_ERROR, &e);
            break;
        }
        total += (unsigned)count;
    }
    free(rows);
    return total;
}

// ---- files of sessions --------------------------------------------------------------------------

void store_retire(struct store *s, const char *owner, const char *holder, const char *path)
{
    struct err e;
    if (catalogue_retire(s->catalogue, owner, holder, path, &e) < 0)
        log_err(LOG_WARN, &e);
}

int store_set_name(struct store *s, const char *owner, const char *holder, const char *name,
                   struct err *e)
{
    return catalogue_set_name(s->catalogue, owner, holder, name, e);
}

bool store_by_name(struct store *s, const char *owner, const char *name,
                   char ret_holder[STORE_HOLDER_MAX + 1])
{
    return catalogue_by_name(s->catalogue, owner, name, ret_holder, STORE_HOLDER_MAX + 1);
}

bool store_name_of(struct store *s, const char *owner, const char *holder, char *ret, size_t cap)
{
    return catalogue_name_of(s->catalogue, owner, holder, ret, cap);
}

void store_forget_name(struct store *s, const char *owner, const char *holder)
{
    struct err e;
    if (catalogue_forget_name(s->catalogue, owner, holder, &e) < 0)
        log_err(LOG_WARN, &e);
}

bool store_holds(struct store *s, const char *owner, const char *holder)
{
    return catalogue_count(s->catalogue, owner, holder, now_ms()) > 0;
}

void store_prolong(struct store *s, const char *owner, const char *holder)
{
    _cleanup_free_ struct artifact *list = NULL;
    int64_t expires_ms = now_ms() + (int64_t)s->config->artifact_ms;
    struct timespec end = {.tv_sec = expires_ms / 1000 + 1}, times[2] = {end, end};
    uint64_t more;
    struct err e;
    size_t count = store_list(s, owner, holder, &list, &more);
    for (size_t i = 0; i < count; i++) { // as finish_file()
        char name[NAME_SIZE];
        if (name_of(list[i].token, STATE_FILE_PREFIX, name) == 0)
            (void)utimensat(s->folder, name, times, AT_SYMLINK_NOFOLLOW);
    }
    if (catalogue_prolong(s->catalogue, owner, holder, expires_ms, &e) < 0)
        log_err(LOG_WARN, &e);
}

void store_set_alive(struct store *s,
                     bool (*is_alive)(const char *owner, const char *holder, void *argument),
                     void *argument)
{
    s->is_alive = is_alive;
    s->alive_argument = argument;
}

struct store_figures store_figures(struct store *s, const char *owner)
{
    return catalogue_figures(s->catalogue, owner);
}
