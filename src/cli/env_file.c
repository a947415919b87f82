// SPDX-License-Identifier: Apache-2.0
//
// env_file: the file of `constrictor env export` and `env import`: see env.h.  Opened in the first
// process, with the rights of the user; its content is not parsed here.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/env.h"

#define PART ".part"

enum { PIECE = 256 * 1024 };

static bool is_standard(const struct env_command *ask)
{
    return strcmp(ask->file, "-") == 0;
}

static int part_name(const struct env_command *ask, char ret[PATH_MAX], struct err *e)
{
    int n = snprintf(ret, PATH_MAX, "%s" PART, ask->file);
    return n > 0 && n < PATH_MAX
               ? 0
               : err_set(e, ERR_BAD_VALUE, 0, "use a shorter one", "the file name is too long");
}

// ---- out ----------------------------------------------------------------------------------------

static int open_out(struct env_command *ask, struct err *e)
{
    char part[PATH_MAX];
    if (is_standard(ask)) {
        if (isatty(STDOUT_FILENO))
            return err_set(e, ERR_USAGE, 0, "name a file, or redirect the output",
                           "cannot write the file to a terminal");
        ask->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    } else {
        if (part_name(ask, part, e) < 0)
            return -1;
        // A file of that name stays until the new one is complete.
        ask->fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    }
    return ask->fd < 0 ? err_set(e, ERR_BAD_VALUE, errno, "choose another file",
                                 "write the file '%s'", ask->file)
                       : 0;
}

int env_file_finish(struct env_command *ask, bool good, struct err *e)
{
    char part[PATH_MAX];
    if (ask->fd < 0)
        return 0;
    bool synced = !good || is_standard(ask) || fsync(ask->fd) == 0;
    fd_close(&ask->fd);
    if (ask->verb != VERB_EXPORT || is_standard(ask) || part_name(ask, part, e) < 0)
        return 0;
    if (good && synced && rename(part, ask->file) == 0)
        return 0;
    int errnum = errno;
    (void)unlink(part);
    return good ? err_set(e, ERR_BAD_VALUE, errnum, "choose another file", "write the file '%s'",
                          ask->file)
                : 0;
}

json_t *env_file_answer(const struct env_command *ask, uint64_t bytes)
{
    return json_pack("{s:s, s:s, s:I}", "environment", ask->name, "file", ask->file, "bytes",
                     (json_int_t)bytes);
}

// ---- in -----------------------------------------------------------------------------------------

// The porter reads only ordinary files, so the bytes of a pipe are copied into an unnamed file.
static int copy_in(int from, struct err *e)
{
    const char *folder = getenv("TMPDIR");
    char name[PATH_MAX];
    _cleanup_free_ char *piece = malloc(PIECE);
    int n = snprintf(name, sizeof name, "%s/constrictor-XXXXXX", folder ? folder : "/var/tmp");
    _cleanup_close_ int fd = n < PATH_MAX && piece ? mkostemp(name, O_CLOEXEC) : -1;
    if (fd < 0)
        return err_set(e, ERR_SYSTEM, errno, "choose another folder with TMPDIR",
                       "store the bytes of the pipe");
    (void)unlink(name);
    for (;;) {
        ssize_t got = read(from, piece, PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(e, ERR_BAD_VALUE, errno, NULL, "read the file");
        if (got == 0)
            break;
        int r = fd_write_all(fd, piece, (size_t)got);
        if (r < 0)
            return err_set(e, ERR_SYSTEM, -r, "choose another folder with TMPDIR",
                           "store the bytes of the pipe");
    }
    (void)lseek(fd, 0, SEEK_SET);
    return TAKE_FD(fd);
}

static int open_in(struct env_command *ask, struct err *e)
{
    struct stat st;
    _cleanup_close_ int fd = is_standard(ask) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                              : open(ask->file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_BAD_VALUE, errno, "give a file that 'env export' wrote",
                       "read the file '%s'", ask->file);
    if (S_ISDIR(st.st_mode) || isatty(fd))
        return err_set(e, ERR_BAD_VALUE, 0, "give a file that 'env export' wrote",
                       "'%s' is not a file", ask->file);
    ask->fd = S_ISREG(st.st_mode) ? TAKE_FD(fd) : copy_in(fd, e);
    return ask->fd < 0 ? -1 : 0;
}

int env_file_open(struct env_command *ask, struct err *e)
{
    if (ask->verb == VERB_EXPORT)
        return open_out(ask, e);
    return ask->verb == VERB_IMPORT ? open_in(ask, e) : 0;
}

// "data.cenv" gives "data".
int env_file_name(const char *file, char ret[ENV_FILE_NAME_MAX], struct err *e)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t n = strcspn(base, ".");
    if (strcmp(file, "-") == 0 || n == 0 || n >= ENV_FILE_NAME_MAX)
        return err_set(e, ERR_USAGE, 0, "usage: constrictor env import FILE NAME",
                       "the file name does not give a name for the environment");
    memcpy(ret, base, n);
    ret[n] = '\0';
    return 0;
}
