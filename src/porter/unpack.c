// SPDX-License-Identifier: Apache-2.0
//
// unpack: see unpack.h.

#include "porter/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int unpack_begin(struct unpack *p, const struct wheels *wheels, struct err *e)
{
    *p = (struct unpack){.wheels = wheels, .file = -1, .folders = {-1}};
    return wheels_new(wheels, p->name, &p->folders[0], e);
}

static void go_up(struct unpack *p)
{
    fd_close(&p->folders[p->depth--]);
    do
        p->length--;
    while (p->length && p->path[p->length - 1] != '/');
}

static int go_down(struct unpack *p, const char *part, size_t length, struct err *e)
{
    char name[BUNDLE_NAME_MAX + 1];
    memcpy(name, part, length);
    name[length] = '\0';
    int parent = p->folders[p->depth];
    if (mkdirat(parent, name, 0775) < 0 && errno != EEXIST)
        return fileio_write_failed(e, errno, "make a folder of a package");
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "open a folder of a package");
    p->folders[++p->depth] = fd;
    memcpy(p->path + p->length, part, length);
    p->length += length;
    p->path[p->length++] = '/';
    return 0;
}

static int on_begin(void *argument, const struct bundle_entry *entry, struct err *e)
{
    struct unpack *p = argument;
    const char *at = entry->path, *slash;
    while (p->length && strncmp(p->path, entry->path, p->length) != 0)
        go_up(p);
    at += p->length;
    while ((slash = strchr(at, '/'))) {
        int r = go_down(p, at, (size_t)(slash - at), e);
        if (r < 0)
            return r;
        at = slash + 1;
    }
    p->file = openat(p->folders[p->depth], at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     entry->executable ? 0555 : 0444);
    return p->file < 0 ? fileio_write_failed(e, errno, "make a file of a package") : 0;
}

static int on_data(void *argument, const uint8_t *data, size_t n, struct err *e)
{
    const struct unpack *p = argument;
    int r = fd_write_all(p->file, data, n);
    return r < 0 ? fileio_write_failed(e, -r, "write a file of a package") : 0;
}

static int on_end(void *argument, struct err *e)
{
    struct unpack *p = argument;
    // Some file systems report a full disk only here.
    if (close(TAKE_FD(p->file)) < 0 && errno != EINTR)
        return fileio_write_failed(e, errno, "write a file of a package");
    return 0;
}

struct bundle_sink unpack_sink(struct unpack *p)
{
    return (struct bundle_sink){.begin = on_begin, .data = on_data, .end = on_end, .argument = p};
}

void unpack_end(struct unpack *p)
{
    fd_close(&p->file);
    while (p->depth)
        go_up(p);
    fd_close(&p->folders[0]);
}

void unpack_discard(struct unpack *p)
{
    unpack_end(p);
    if (p->name[0])
        wheels_remove(p->wheels, p->name);
    p->name[0] = '\0';
}
