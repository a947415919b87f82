// SPDX-License-Identifier: Apache-2.0
//
// client_file: see client_file.h.  Runs in the first process, with the caller's rights.

#include "cli/client_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static bool is_trusted(const struct stat *st)
{
    return st->st_uid == geteuid() || st->st_uid == 0;
}

// SECURITY: a link that another user made would choose the file that we write.  Follows no part of
// `path`, and makes the folders that are missing.
static int check_parts(const char *path, struct err *e)
{
    char part[PATH_MAX];
    struct stat st;
    for (size_t i = 1; path[i]; i++) {
        if (path[i + 1] && path[i + 1] != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)(i + 1), path);
        bool is_last = !path[i + 1];
        if (lstat(part, &st) == 0) {
            if (S_ISLNK(st.st_mode) && !is_trusted(&st))
                return err_set(e, ERR_FILE_REFUSED, 0, "name the file that is meant",
                               "'%.300s' is a link that belongs to another user", part);
        } else if (errno != ENOENT || (!is_last && mkdir(part, 0700) < 0)) {
            return err_set(e, ERR_SYSTEM, errno, "name another file with --file",
                           is_last ? "look at '%.300s'" : "make the folder '%.300s'", part);
        }
    }
    return 0;
}

// `ret` is the path without links.  A link to nothing is refused.
static int resolve(const char *path, char *ret, struct err *e)
{
    char whole[PATH_MAX], folder[PATH_MAX];
    struct stat st;
    int n = path[0] == '/' ? snprintf(whole, sizeof whole, "%s", path) : -1;
    if (n < 0 && getcwd(folder, sizeof folder))
        n = snprintf(whole, sizeof whole, "%s/%s", folder, path);
    if (n < 0 || (size_t)n >= sizeof whole || whole[n - 1] == '/')
        return err_set(e, ERR_BAD_VALUE, 0, "name a file", "'%.300s' is no path of a file", path);
    if (check_parts(whole, e) < 0)
        return -1;
    if (lstat(whole, &st) == 0)
        return realpath(whole, ret) ? 0
                                    : err_set(e, ERR_FILE_REFUSED, errno, "remove the link",
                                              "follow '%.300s'", whole);
    char *slash = strrchr(whole, '/');
    *slash = '\0';
    if (!realpath(whole[0] ? whole : "/", folder))
        return err_set(e, ERR_SYSTEM, errno, NULL, "find the folder '%.300s'", whole);
    n = snprintf(ret, PATH_MAX, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, slash + 1);
    return n < PATH_MAX ? 0 : err_set(e, ERR_BAD_VALUE, 0, NULL, "the path is too long");
}

// SECURITY: in a folder that others may change, they could put a link in the file's place while we
// look at it.
static int open_folder(struct client_file *f, struct err *e)
{
    struct stat st;
    char *slash = strrchr(f->path, '/');
    *slash = '\0';
    f->folder = open(f->path[0] ? f->path : "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *slash = '/';
    f->name = slash + 1;
    if (f->folder < 0 || fstat(f->folder, &st) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "open the folder of '%.300s'", f->path);
    if (!is_trusted(&st) || (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX)))
        return err_set(e, ERR_FILE_REFUSED, 0, "run this as the user whose settings they are",
                       "other users can change the folder of '%.300s'", f->path);
    return 0;
}

static int read_text(struct client_file *f, int fd, struct err *e)
{
    f->text = calloc(1, (size_t)f->st.st_size + 1);
    if (!f->text)
        return err_memory(e);
    while (f->length < (size_t)f->st.st_size) {
        ssize_t n = read(fd, f->text + f->length, (size_t)f->st.st_size - f->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_SYSTEM, n < 0 ? errno : EIO, NULL, "read '%.300s'", f->path);
        f->length += (size_t)n;
    }
    return 0;
}

int client_file_open(const char *path, struct client_file *f, struct err *e)
{
    *f = (struct client_file){.folder = -1};
    if (resolve(path, f->path, e) < 0 || open_folder(f, e) < 0)
        return -1;
    // O_NONBLOCK: open() of a pipe without a writer must not block.
    _cleanup_close_ int fd =
        openat(f->folder, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        f->text = calloc(1, 1);
        return f->text ? 0 : err_memory(e);
    }
    if (fd < 0 || fstat(fd, &f->st) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "open '%.300s'", f->path);
    if (!S_ISREG(f->st.st_mode) || f->st.st_uid != geteuid())
        return err_set(e, ERR_FILE_REFUSED, 0, "run this as the user whose settings they are",
                       S_ISREG(f->st.st_mode) ? "'%.300s' belongs to another user"
                                              : "'%.300s' is not a regular file",
                       f->path);
    if (f->st.st_size > CLIENT_FILE_MAX)
        return err_set(e, ERR_FILE_REFUSED, 0, NULL, "'%.300s' is larger than 16 MiB", f->path);
    f->exists = true;
    return read_text(f, fd, e);
}

// A new file in the folder; never a file or link that is there.
static int write_new(const struct client_file *f, const char *name, const char *text, size_t length)
{
    mode_t mode = f->exists ? f->st.st_mode & 0777 : 0600;
    _cleanup_close_ int fd =
        openat(f->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, text, length);
    // Only a group that the caller is in can be given; another one must not get its rights.
    if (r == 0 && f->exists && fchown(fd, (uid_t)-1, f->st.st_gid) < 0)
        mode &= ~(mode_t)S_IRWXG;
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(f->folder, name, 0);
    return r;
}

static int back_up(struct client_file *f, struct err *e)
{
    char name[NAME_MAX + 8];
    if (!f->exists)
        return 0;
    snprintf(name, sizeof name, "%s.bak", f->name);
    int r = write_new(f, name, f->text, f->length);
    f->made_backup = r == 0;
    return r == 0 || r == -EEXIST ? 0
                                  : err_set(e, ERR_SYSTEM, -r, "the settings are as they were",
                                            "write the backup '%.300s.bak'", f->path);
}

// The client may write its settings while we read them.
static bool is_unchanged(const struct client_file *f)
{
    struct stat now;
    if (fstatat(f->folder, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !f->exists;
    return f->exists && now.st_ino == f->st.st_ino && now.st_size == f->st.st_size &&
           now.st_mtim.tv_sec == f->st.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

int client_file_replace(struct client_file *f, const char *text, size_t length, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, ".constrictor-%ld.new", (long)getpid());
    if (back_up(f, e) < 0)
        return -1;
    (void)unlinkat(f->folder, name, 0); // of an earlier process with our number
    int r = write_new(f, name, text, length);
    if (r == 0 && !is_unchanged(f)) {
        (void)unlinkat(f->folder, name, 0);
        return err_set(e, ERR_CONFLICT, 0, "close the client and try again",
                       "another program has just changed '%.300s'", f->path);
    }
    if (r == 0 && renameat(f->folder, name, f->folder, f->name) < 0) {
        r = -errno;
        (void)unlinkat(f->folder, name, 0);
    }
    return r == 0 ? 0
                  : err_set(e, ERR_SYSTEM, -r, "the settings are as they were", "write '%.300s'",
                            f->path);
}

void client_file_clear(struct client_file *f)
{
    fd_close(&f->folder);
    free(f->text);
    f->text = NULL;
}
