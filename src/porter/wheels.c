// SPDX-License-Identifier: Apache-2.0
//
// wheels: see wheels.h.

#include "porter/wheels.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "porter/fileio.h"
#include "porter/folder.h"

#define TMP_PREFIX "tmp-"
static const char secret_file[] = "secret", secret_draft[] = "tmp-secret", lock_file[] = "porters";
enum { LOCK_WAIT_MS = 10000, LOCK_LOOK_MS = 10, SECRET_BYTE = 0 };
static const char fix[] = "see the server's log; removing the file may help";

// ---- names --------------------------------------------------------------------------------------

static void to_hex(const uint8_t *data, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[data[i] >> 4];
        ret[2 * i + 1] = digits[data[i] & 15];
    }
    ret[2 * n] = '\0';
}

static bool is_hex(const char *text, size_t length)
{
    return text && strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

bool wheels_is_id(const char *text)
{
    return is_hex(text, WHEEL_ID);
}

bool wheels_is_sha256(const char *text)
{
    return is_hex(text, WHEEL_SHA256);
}

// All parts but the last have a fixed length, so that different parts never give the same bytes.
int wheels_id(const struct wheels *s, const char *sha256, const char *scope, char ret[WHEEL_ID + 1])
{
    uint8_t d[EVP_MAX_MD_SIZE];
    if (!wheels_is_sha256(sha256))
        return -1;
    EVP_MD_CTX *digest = fileio_digest_new(NULL);
    bool ok = digest && EVP_DigestUpdate(digest, s->secret, sizeof s->secret) == 1 &&
              EVP_DigestUpdate(digest, sha256, WHEEL_SHA256) == 1 &&
              EVP_DigestUpdate(digest, scope, strlen(scope)) == 1 &&
              fileio_digest_end(digest, d, NULL) == 0;
    EVP_MD_CTX_free(digest);
    if (!ok)
        return -1;
    to_hex(d, WHEEL_ID / 2, ret);
    return 0;
}

static int random_name(const struct wheels *s, char ret[WHEEL_TMP + 1], struct err *e)
{
    uint8_t bytes[(WHEEL_TMP - 8) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(e, ERR_SYSTEM, errno, NULL, "getrandom");
    snprintf(ret, WHEEL_TMP + 1, TMP_PREFIX "%04u", s->number % 10000);
    to_hex(bytes, sizeof bytes, ret + 8);
    return 0;
}

// ---- the secret ---------------------------------------------------------------------------------

// SECURITY: under another name first: a kill in between must not leave an empty secret, which
// everyone could guess.
static int make_secret(const struct wheels *s, struct err *e)
{
    int folder = s->parent;
    uint8_t secret[WHEEL_SECRET];
    (void)unlinkat(folder, secret_draft, 0);
    _cleanup_close_ int fd =
        openat(folder, secret_draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               s->shared ? 0640 : 0600);
    if (fd < 0)
        return fileio_write_failed(e, errno, "make the secret of the environments");
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return err_set(e, ERR_SYSTEM, errno, NULL, "getrandom");
    int r = fd_write_all(fd, secret, sizeof secret);
    explicit_bzero(secret, sizeof secret);
    if (r < 0 || fsync(fd) < 0 || renameat(folder, secret_draft, folder, secret_file) < 0 ||
        fsync(folder) < 0)
        return fileio_write_failed(e, r < 0 ? -r : errno, "write the secret of the environments");
    return 0;
}

static int read_secret(struct wheels *s, struct err *e)
{
    uint8_t text[WHEEL_SECRET + 1];
    struct stat st;
    // SECURITY: O_NONBLOCK, so that a pipe of this name cannot block the porter.
    _cleanup_close_ int fd =
        openat(s->parent, secret_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ENOENT
                               : err_set(e, ERR_STATE_FOLDER, errno, fix,
                                         "open the secret of the environments");
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        read(fd, text, sizeof text) != (ssize_t)WHEEL_SECRET)
        return err_set(e, ERR_STATE_FOLDER, 0, fix,
                       "the file 'environments/secret' in the state folder is not one of %d bytes",
                       WHEEL_SECRET);
    memcpy(s->secret, text, WHEEL_SECRET);
    explicit_bzero(text, sizeof text);
    return 0;
}

// ---- locks --------------------------------------------------------------------------------------

// Locks of bytes, which the kernel drops when the process ends.  No box can open the file.
static bool lock_byte(int fd, unsigned byte, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_SETLK, &l) == 0;
}

// A predecessor that was killed may still be ending.
static int await_byte(int fd, unsigned byte, struct err *e)
{
    for (int waited_ms = 0; !lock_byte(fd, byte, F_WRLCK); waited_ms += LOCK_LOOK_MS) {
        if ((errno != EAGAIN && errno != EACCES) || waited_ms >= LOCK_WAIT_MS)
            return err_set(e, ERR_STATE_FOLDER, errno, fix, "lock 'environments/porters'");
        (void)usleep(LOCK_LOOK_MS * 1000);
    }
    return 0;
}

static bool has_porter(const struct wheels *s, unsigned number)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return fcntl(s->lock, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static int take_lock(struct wheels *s, struct err *e)
{
    struct stat st;
    s->lock = openat(s->parent, lock_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                     s->shared ? 0660 : 0600);
    if (s->lock < 0 || fstat(s->lock, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "open 'environments/porters'");
    return s->number ? await_byte(s->lock, s->number, e) : 0;
}

// Two servers that start at once must not make two secrets.
static int find_secret(struct wheels *s, struct err *e)
{
    int r = read_secret(s, e);
    if (r != -ENOENT)
        return r;
    if ((r = await_byte(s->lock, SECRET_BYTE, e)) < 0)
        return r;
    r = read_secret(s, e);
    if (r == -ENOENT && (r = make_secret(s, e)) == 0)
        r = read_secret(s, e);
    (void)lock_byte(s->lock, SECRET_BYTE, F_UNLCK);
    return r;
}

int wheels_open(struct wheels *s, int parent, int folder, unsigned number, struct err *e)
{
    struct stat st;
    *s = (struct wheels){.parent = parent, .folder = folder, .lock = -1, .number = number};
    s->shared = fstat(parent, &st) == 0 && st.st_mode & S_ISGID;
    (void)umask(s->shared ? 0002 : 0022); // boxes have other uids, and read what is made
    int r = take_lock(s, e);
    if (r == 0)
        r = find_secret(s, e);
    if (r < 0)
        wheels_close(s);
    return r;
}

void wheels_close(struct wheels *s)
{
    explicit_bzero(s->secret, sizeof s->secret);
    fd_close(&s->parent);
    fd_close(&s->folder);
    fd_close(&s->lock);
}

// ---- making -------------------------------------------------------------------------------------

bool wheels_has(const struct wheels *s, const char *id)
{
    struct stat st;
    return wheels_is_id(id) && fstatat(s->folder, id, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

int wheels_check_room(const struct wheels *s, uint64_t bytes, struct err *e)
{
    struct statvfs v;
    if (fstatvfs(s->folder, &v) < 0)
        return 0; // then the writes report it
    if (v.f_bavail < bytes / (v.f_frsize ? v.f_frsize : 1))
        return fileio_write_failed(e, ENOSPC, "unpack a package");
    return 0;
}

int wheels_new(const struct wheels *s, char ret_name[WHEEL_TMP + 1], int *ret_fd, struct err *e)
{
    int r = random_name(s, ret_name, e);
    if (r < 0)
        return r;
    if (mkdirat(s->folder, ret_name, 0775) < 0)
        return fileio_write_failed(e, errno, "make a folder for a package");
    int fd = openat(s->folder, ret_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "open a folder for a package");
        (void)unlinkat(s->folder, ret_name, AT_REMOVEDIR);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

int wheels_put(const struct wheels *s, const struct wheel_move *moves, size_t count, struct err *e)
{
    size_t todo = 0;
    for (size_t i = 0; i < count; i++)
        todo += moves[i].from[0] != '\0';
    if (!todo)
        return 0;
    // Linux 5.8 and later report failed writes here.
    if (syncfs(s->folder) < 0)
        return fileio_write_failed(e, errno, "write a package to the disk");
    for (size_t i = 0; i < count; i++) {
        // A rename replaces an empty folder only.
        if (!moves[i].from[0] || renameat(s->folder, moves[i].from, s->folder, moves[i].to) == 0)
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return fileio_write_failed(e, errno, "give a package its name");
        wheels_remove(s, moves[i].from);
    }
    return fsync(s->folder) < 0
               ? fileio_write_failed(e, errno, "write a package's name to the disk")
               : 0;
}

// ---- removing -----------------------------------------------------------------------------------

void wheels_remove(const struct wheels *s, const char *name)
{
    (void)folder_remove(s->folder, name);
}

int wheels_drop(const struct wheels *s, const char *id, struct err *e)
{
    char name[WHEEL_TMP + 1];
    int r = wheels_is_id(id) ? random_name(s, name, e)
                             : err_set(e, ERR_PROTOCOL, EINVAL, NULL, "not the ID of a wheel");
    if (r < 0)
        return r;
    if (renameat(s->folder, id, s->folder, name) < 0)
        return err_set(e, errno == ENOENT ? ERR_FILE_UNKNOWN : ERR_SYSTEM, errno, NULL,
                       "remove the wheel '%s'", id);
    r = folder_remove(s->folder, name);
    return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the next start of the server tries again",
                           "remove the wheel '%s'", id)
                 : 0;
}

// ---- listing ------------------------------------------------------------------------------------

// Duplicates the descriptor: the folder cannot be opened for reading any more.
static DIR *open_names(const struct wheels *s, struct err *e)
{
    _cleanup_close_ int fd = fcntl(s->folder, F_DUPFD_CLOEXEC, 3);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (!names) {
        err_set(e, ERR_SYSTEM, errno, NULL, "list the wheels");
        return NULL;
    }
    (void)TAKE_FD(fd);
    rewinddir(names);
    return names;
}

// Keeps the smallest `max`, in order.
static void insert(char (*list)[WHEEL_ID + 1], size_t *count, size_t max, bool *more,
                   const char *id)
{
    size_t low = 0, high = *count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(list[middle], id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *more |= *count == max;
    if (low == max)
        return;
    size_t behind = (*count < max ? *count : max - 1) - low;
    memmove(list + low + 1, list + low, behind * sizeof *list);
    memcpy(list[low], id, WHEEL_ID + 1);
    *count += *count < max;
}

int wheels_list(const struct wheels *s, const char *after, char (*ret)[WHEEL_ID + 1], size_t max,
                size_t *ret_count, bool *ret_more, struct err *e)
{
    size_t count = 0;
    bool more = false;
    DIR *names = open_names(s, e);
    if (!names)
        return -1;
    errno = 0;
    for (const struct dirent *d; (d = readdir(names)); errno = 0)
        if (wheels_is_id(d->d_name) && strcmp(d->d_name, after) > 0)
            insert(ret, &count, max, &more, d->d_name);
    int r = errno ? err_set(e, ERR_SYSTEM, errno, NULL, "list the wheels") : 0;
    (void)closedir(names);
    *ret_count = count;
    *ret_more = more;
    return r;
}

static bool is_in_use(const struct wheels *s, const char *name)
{
    const char *digits = name + sizeof TMP_PREFIX - 1;
    unsigned number = 0;
    for (int i = 0; i < 4; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        else
            number = 10 * number + (unsigned)(digits[i] - '0');
    return number != s->number && has_porter(s, number);
}

int wheels_sweep(const struct wheels *s, struct err *e)
{
    DIR *names = open_names(s, e);
    int r = 0;
    if (!names)
        return -1;
    for (const struct dirent *d; (d = readdir(names));)
        if (strncmp(d->d_name, TMP_PREFIX, sizeof TMP_PREFIX - 1) == 0 &&
            !is_in_use(s, d->d_name)) {
            int failed = folder_remove(s->folder, d->d_name);
            if (failed < 0)
                r = err_set(e, ERR_SYSTEM, -failed, NULL, "remove '%s' among the wheels",
                            d->d_name);
        }
    (void)closedir(names);
    return r;
}
