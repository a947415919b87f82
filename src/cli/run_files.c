// SPDX-License-Identifier: Apache-2.0
//
// run_files: see run_files.h.
//
// SECURITY: a folder may have been unpacked from a stranger's archive.  A link in it that leads out
// of it (data.csv -> ~/.ssh/id_rsa) is not followed; pipes, sockets and devices are not opened.

#include "cli/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "files/scratch.h"

enum { NOTES_MAX = 20 }; // lines about what is left out

struct reading {
    const struct config *config;
    struct run_files *to;
    const char *option; // "--in"
    bool with;
    int root;           // the folder that no link may leave
    size_t root_length; // of its name in named.from, with the slash
    struct stat script; // st_ino 0: there is none
    unsigned notes;
};

// A path in the caller's files, and where it goes.
struct named {
    char from[PATH_MAX];           // for messages
    char to[SCRATCH_PATH_MAX + 2]; // below /mnt/data
};

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)   ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a device"
           : S_ISBLK(mode)  ? "a device"
                            : "not a regular file";
}

static void note(struct reading *r, const struct named *p, const char *why)
{
    char shown[sizeof p->from];
    if (++r->notes > NOTES_MAX + 1)
        return;
    snprintf(shown, sizeof shown, "%s", p->from);
    text_sanitize(shown);
    if (r->notes > NOTES_MAX)
        fprintf(stderr, "constrictor: %s: more is left out\n", r->option);
    else
        fprintf(stderr, "constrictor: %s: '%s' is %s: left out\n", r->option, shown, why);
}

static int fail(const struct reading *r, const struct named *p, int errnum, struct err *e)
{
    return err_set(e, ERR_FILE_REFUSED, errnum, "leave it out, or change its permissions",
                   "%s: read '%s'", r->option, p->from);
}

// One name more; -1 and `e` when it cannot be named in a box.
static int step(const struct reading *r, const struct named *p, const char *name, struct named *ret,
                struct err *e)
{
    int from = snprintf(ret->from, sizeof ret->from, "%s%s%s", p->from,
                        p->from[strlen(p->from) - 1] == '/' ? "" : "/", name);
    int to = snprintf(ret->to, sizeof ret->to, "%s%s%s", p->to, p->to[0] ? "/" : "", name);
    char normal[SCRATCH_PATH_MAX + 1];
    struct err why;
    if (from >= 0 && (size_t)from < sizeof ret->from && to >= 0 && (size_t)to < sizeof ret->to &&
        scratch_path(ret->to, strlen(ret->to), normal, &why) == 0)
        return 0;
    return err_set(e, ERR_FILE_PATH, 0, "rename it, or leave it out; names are UTF-8",
                   "%s: '%s' cannot be named in a box", r->option, ret->from);
}

static int check_count(const struct reading *r, const struct named *p, struct err *e)
{
    if (r->to->count + r->to->folders < RUN_FILES_MAX)
        return 0;
    return err_set(e, ERR_FILE_REFUSED, 0,
                   "give the files that the code needs, or one archive of them, which the code can "
                   "unpack",
                   "%s: more than %d files and folders, at '%s'", r->option, RUN_FILES_MAX,
                   p->from);
}

static const struct exec_file *find(const struct run_files *f, const char *path)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->files[i].path, path) == 0)
            return &f->files[i];
    return NULL;
}

// ---- one file -----------------------------------------------------------------------------------

// Reads `size` bytes, and looks whether there is one more.
static int read_whole(int fd, char *data, size_t size, bool *ret_changed)
{
    size_t have = 0;
    char more;
    while (have < size) {
        ssize_t n = read(fd, data + have, size - have);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    *ret_changed = have < size || read(fd, &more, 1) > 0;
    return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int check_size(const struct reading *r, const struct named *p, off_t size, struct err *e)
{
    const struct config *c = r->config;
    char limit[64];
    uint64_t bytes = (uint64_t)size;
    bool one = bytes > c->file_size_bytes;
    if (!one && bytes <= c->scratch_bytes && r->to->bytes + bytes <= c->scratch_bytes)
        return 0;
    text_format_size(one ? c->file_size_bytes : c->scratch_bytes, limit, sizeof limit);
    return err_set(e, ERR_FILE_TOO_LARGE, 0,
                   one ? "allow more with --file-size, --scratch and --memory"
                       : "give less, or allow more with --scratch and --memory",
                   one ? "%s: '%s' is larger than a file may be (%s)"
                       : "%s: with '%s' the files are larger than the space of the box (%s)",
                   r->option, p->from, limit);
}

// Takes `fd`.
static int add_file(struct reading *r, const struct named *p, int fd, struct err *e)
{
    _cleanup_close_ int owned = fd;
    struct stat before, after;
    bool changed = false;
    if (fstat(fd, &before) < 0)
        return fail(r, p, errno, e);
    if (!S_ISREG(before.st_mode))
        return fail(r, p, ENXIO, e); // it was replaced after the first look
    if (before.st_ino == r->script.st_ino && before.st_dev == r->script.st_dev &&
        r->script.st_ino && !strchr(p->to, '/'))
        return 0; // the script comes by itself
    if (check_count(r, p, e) < 0 || check_size(r, p, before.st_size, e) < 0)
        return -1;
    if (find(r->to, p->to))
        return err_set(e, ERR_FILE_PATH, 0, "rename one of them",
                       "%s: '%s' would be the second "
                       "'/mnt/data/%s'",
                       r->option, p->from, p->to);
    size_t size = (size_t)before.st_size;
    char *data = malloc(size ? size : 1), *path = strdup(p->to);
    int n = data && path ? read_whole(fd, data, size, &changed) : -ENOMEM;
    if (n == 0 && (changed || fstat(fd, &after) < 0 || !is_same(&before, &after)))
        n = err_set(e, ERR_FILE_REFUSED, 0, "run it again when nothing writes to the file",
                    "%s: '%s' changed while it was read", r->option, p->from);
    else if (n < 0)
        n = fail(r, p, -n, e);
    if (n < 0) {
        free(data);
        free(path);
        return n;
    }
    r->to->files[r->to->count++] = (struct exec_file){path, data, size};
    r->to->bytes += size;
    return 0;
}

// ---- folders ------------------------------------------------------------------------------------

static int add_folder(struct reading *r, const struct named *p, int fd, unsigned depth,
                      struct err *e);

// SECURITY: follows a link as long as it stays in the folder.
static int add_link(struct reading *r, const struct named *p, struct err *e)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    char again[64];
    _cleanup_close_ int at =
        (int)syscall(SYS_openat2, r->root, p->from + r->root_length, &how, sizeof how);
    if (at < 0) {
        note(r, p,
             errno == EXDEV    ? "a link that leads out of the folder"
             : errno == ENOENT ? "a link to nothing"
             : errno == ELOOP  ? "a link to itself"
                               : "a link that cannot be followed");
        return 0;
    }
    if (fstat(at, &st) < 0 || !S_ISREG(st.st_mode)) {
        note(r, p,
             S_ISDIR(st.st_mode) ? "a link to a folder" : "a link to something that is no file");
        return 0;
    }
    snprintf(again, sizeof again, "/proc/self/fd/%d", at);
    int fd = open(again, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? fail(r, p, errno, e) : add_file(r, p, fd, e);
}

static int add_entry(struct reading *r, const struct named *p, int folder, const char *name,
                     unsigned depth, struct err *e)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail(r, p, errno, e); // it was removed meanwhile
    if (S_ISLNK(st.st_mode))
        return add_link(r, p, e);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        note(r, p, kind_of(st.st_mode));
        return 0;
    }
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return fail(r, p, errno, e);
    return S_ISDIR(st.st_mode) ? add_folder(r, p, fd, depth + 1, e) : add_file(r, p, fd, e);
}

// What a folder of code has and code does not open: of --with only.
static bool is_needless(const struct reading *r, const char *name)
{
    return r->with && (name[0] == '.' || strcmp(name, "__pycache__") == 0 ||
                       strcmp(name, "node_modules") == 0);
}

// Takes `fd`.
static int add_folder(struct reading *r, const struct named *p, int fd, unsigned depth,
                      struct err *e)
{
    DIR *dir = fdopendir(fd);
    struct named *next = malloc(sizeof *next);
    int n = 0;
    if (!dir)
        (void)close(fd);
    if (!dir || !next || depth > SCRATCH_DEPTH_MAX)
        n = !dir || !next ? fail(r, p, ENOMEM, e)
                          : err_set(e, ERR_FILE_PATH, 0, "leave it out", "%s: '%s' is too deep",
                                    r->option, p->from);
    if (n == 0 && p->to[0] && (n = check_count(r, p, e)) == 0)
        r->to->folders++;
    for (const struct dirent *d; n == 0 && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
            is_needless(r, d->d_name))
            continue;
        n = step(r, p, d->d_name, next, e);
        if (n == 0)
            n = add_entry(r, next, dirfd(dir), d->d_name, depth, e);
    }
    free(next);
    if (dir)
        (void)closedir(dir);
    return n;
}

// ---- what the caller named ----------------------------------------------------------------------

// The name that it gets in /mnt/data: its own, also for "." and "folder/".
static int name_of(const struct reading *r, const char *path, struct named *ret, struct err *e)
{
    char whole[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(ret->from, sizeof ret->from, "%.*s", (int)n, path);
    const char *slash = strrchr(ret->from, '/'), *name = slash ? slash + 1 : ret->from;
    if ((!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) && realpath(path, whole))
        name = strrchr(whole, '/') + 1;
    ret->to[0] = '\0';
    if (r->with)
        return 0;
    char normal[SCRATCH_PATH_MAX + 1];
    struct err why;
    if (strlen(name) > SCRATCH_NAME_MAX || scratch_path(name, strlen(name), normal, &why) < 0)
        return err_set(e, ERR_FILE_PATH, 0, "rename it; names are UTF-8 without control characters",
                       "%s: '%s' cannot be named in a box", r->option, ret->from);
    snprintf(ret->to, sizeof ret->to, "%s", normal);
    return 0;
}

static int check_kind(const struct reading *r, const char *path, const struct stat *st,
                      struct err *e)
{
    if (r->with && !S_ISDIR(st->st_mode))
        return err_set(e, ERR_FILE_KIND, 0, "give a folder, or use --in for a file",
                       "%s: '%s' is not a folder", r->option, path);
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
        return err_set(e, ERR_FILE_KIND, 0,
                       "give a file or a folder; save what comes from "
                       "elsewhere to a file first",
                       "%s: '%s' is %s", r->option, path, kind_of(st->st_mode));
    return 0;
}

static int add_named(struct reading *r, const char *path, struct named *p, struct err *e)
{
    struct stat st;
    if (strlen(path) >= sizeof p->from || stat(path, &st) < 0)
        return err_set(e, errno == ENOENT ? ERR_FILE_UNKNOWN : ERR_FILE_REFUSED, errno,
                       "give a file or a folder that you can read", "%s: find '%s'", r->option,
                       path);
    if (check_kind(r, path, &st, e) < 0 || name_of(r, path, p, e) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return fail(r, p, errno, e);
    if (!S_ISDIR(st.st_mode))
        return add_file(r, p, fd, e);
    _cleanup_close_ int root = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    r->root = root;
    r->root_length = strlen(p->from) + (p->from[strlen(p->from) - 1] != '/');
    return add_folder(r, p, fd, 1, e);
}

int run_files_read(const struct config *c, const char *script, struct run_files *ret, struct err *e)
{
    struct reading r = {.config = c, .to = ret, .option = "--in"};
    struct named *p = malloc(sizeof *p);
    int n = p ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read --in");
    if (script && stat(script, &r.script) < 0)
        r.script.st_ino = 0;
    for (size_t i = 0; n == 0 && i < c->in_paths.count; i++)
        n = add_named(&r, c->in_paths.items[i], p, e);
    r.option = "--with";
    r.with = true;
    for (size_t i = 0; n == 0 && i < c->with_folders.count; i++)
        n = add_named(&r, c->with_folders.items[i], p, e);
    free(p);
    const char *name = script && strrchr(script, '/') ? strrchr(script, '/') + 1 : script;
    if (n == 0 && name && find(ret, name))
        n = err_set(e, ERR_FILE_PATH, 0, "rename one of them",
                    "a file of --in or --with has the name of the script, '%s'", name);
    return n;
}

void run_files_clear(struct run_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free((char *)f->files[i].path);
        free((void *)f->files[i].data);
    }
    f->count = 0;
}
