// SPDX-License-Identifier: Apache-2.0
//
// files_server: box/files at work for test_files.c: its server runs in a child, on a socket and a
// folder of the test's own; and what a test puts into that folder.

#ifndef CONSTRICTOR_FILES_SERVER_H
#define CONSTRICTOR_FILES_SERVER_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/files.h"
#include "wire/frame.h"

enum { FRAMES_MAX = 64 };

static char root[64], outside[64];
static int sock = -1, fds_before;
static pid_t server;

// What came back, whole.
static struct {
    struct frame_filed filed; // the last
    unsigned frames, count;
    char data[FRAME_DATA_MAX]; // READ
    size_t length;
    struct {
        struct frame_entry e;
        char path[FRAME_PATH_MAX + 1];
    } entries[FRAME_LIST_MAX];
} got;

// ---- the server ---------------------------------------------------------------------------------

static _Noreturn void serve(int from)
{
    static char request[FRAME_CHUNK];
    int before = unit_fd_count();
    for (ssize_t n; (n = recv(from, request, sizeof request, 0)) > 0;) {
        char *exact = malloc((size_t)n); // reading on is seen
        if (!exact)
            _exit(3);
        memcpy(exact, request, (size_t)n);
        bool fine = files_serve(from, root, true, exact, (size_t)n);
        free(exact);
        if (!fine)
            _exit(2);
    }
    _exit(unit_fd_count() == before ? 0 : 1);
}

static int begin(void **state)
{
    (void)state;
    int pair[2];
    snprintf(root, sizeof root, "/dev/shm/constrictor-files-XXXXXX"); // tmpfs, as in a box
    snprintf(outside, sizeof outside, "/dev/shm/constrictor-outside-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_non_null(mkdtemp(outside));
    assert_int_equal(chdir(root), 0);
    fds_before = unit_fd_count();
    unit_socketpair(pair);
    server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        (void)close(pair[0]);
        serve(pair[1]);
    }
    (void)close(pair[1]);
    sock = pair[0];
    struct timeval patience = {.tv_sec = 20}; // a server that waits for something fails the test
    return setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int finish(void **state)
{
    (void)state;
    int status;
    fd_close(&sock);
    assert_int_equal(waitpid(server, &status, 0), server);
    assert_int_equal(chdir("/"), 0);
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    (void)nftw(outside, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(unit_fd_count(), fds_before);
    return status == 0 ? 0 : -1; // 1: the server left descriptors open, 2: it refused a request
}

static void take_entries(const char *at, const char *end)
{
    for (uint32_t i = 0; i < got.filed.count; i++) {
        struct frame_entry e;
        assert_true((size_t)(end - at) >= sizeof e && got.count < FRAME_LIST_MAX);
        memcpy(&e, at, sizeof e);
        at += sizeof e;
        assert_true(e.path_length > 0 && e.path_length <= FRAME_PATH_MAX &&
                    (size_t)(end - at) >= e.path_length);
        got.entries[got.count].e = e;
        memcpy(got.entries[got.count].path, at, e.path_length);
        got.entries[got.count++].path[e.path_length] = '\0';
        at += e.path_length;
    }
    assert_ptr_equal(at, end);
}

// A box never sends a descriptor.
static ssize_t hear(char *datagram, size_t size)
{
    struct iovec iov = {datagram, size};
    char control[CMSG_SPACE(sizeof(int))];
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(sock, &msg, 0);
    assert_true(n < 0 || (msg.msg_controllen == 0 && !(msg.msg_flags & MSG_CTRUNC)));
    return n;
}

static int ask_file(struct frame_file f, const char *path, size_t length, const char *data)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    static uint32_t tag;
    bool brings = f.op == FILE_CREATE || f.op == FILE_WRITE;
    size_t bytes = brings ? f.length : 0;
    f.tag = ++tag;
    f.path_length = (uint32_t)length;
    memcpy(datagram, &f, sizeof f);
    memcpy(datagram + sizeof f, path, length);
    if (bytes)
        memcpy(datagram + sizeof f + length, data, bytes);
    assert_int_equal(send(sock, datagram, sizeof f + length + bytes, 0), sizeof f + length + bytes);
    got.frames = got.count = 0;
    do {
        struct frame_header h;
        ssize_t n = hear(datagram, sizeof datagram);
        assert_true(n >= (ssize_t)(sizeof h + sizeof got.filed));
        memcpy(&h, datagram, sizeof h);
        memcpy(&got.filed, datagram + sizeof h, sizeof got.filed);
        got.length = (size_t)n - sizeof h - sizeof got.filed;
        assert_true(h.magic == FRAME_MAGIC && h.kind == FRAME_FILED && h.offset == 0);
        assert_int_equal(h.total, (size_t)n - sizeof h);
        assert_true(got.filed.op == f.op && got.filed.tag == tag && got.filed.reserved == 0);
        assert_true(got.filed.offset == f.offset);
        const char *rest = datagram + sizeof h + sizeof got.filed;
        if (f.op == FILE_LIST)
            take_entries(rest, datagram + n);
        else if (f.op == FILE_READ && got.filed.errnum == 0)
            memcpy(got.data, rest, got.length);
        else
            assert_int_equal(got.length, 0);
        assert_true(++got.frames < FRAMES_MAX);
    } while (got.filed.more);
    return got.filed.errnum;
}

static int ask_raw(enum frame_file_op op, const char *path, size_t length, uint32_t ticket)
{
    struct frame_file f = {.op = op, .ticket = ticket};
    if (op == FILE_READ)
        f.length = FRAME_DATA_MAX;
    return ask_file(f, path, length, NULL);
}

// Writes into what CREATE made.
static int ask_write(const char *path, uint32_t ticket, uint64_t offset, const char *text)
{
    struct frame_file f = {
        .op = FILE_WRITE, .ticket = ticket, .offset = offset, .length = (uint32_t)strlen(text)};
    return ask_file(f, path, strlen(path), text);
}

static int ask_part(const char *path, uint64_t inode, uint64_t offset, uint32_t length)
{
    struct frame_file f = {.op = FILE_READ, .inode = inode, .offset = offset, .length = length};
    return ask_file(f, path, strlen(path), NULL);
}

static int ask(enum frame_file_op op, const char *path)
{
    return ask_raw(op, path, strlen(path), 7);
}

static const struct frame_entry *find(const char *path)
{
    for (unsigned i = 0; i < got.count; i++)
        if (strcmp(got.entries[i].path, path) == 0)
            return &got.entries[i].e;
    return NULL;
}

// ---- what lies in the folder --------------------------------------------------------------------

static void put(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static bool holds(const char *path, const char *text)
{
    char have[256] = "";
    _cleanup_close_ int fd = open(path, O_RDONLY);
    return fd >= 0 && read(fd, have, sizeof have - 1) >= 0 && strcmp(have, text) == 0;
}

static void put_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void put_many(const char *folder, unsigned count)
{
    assert_true(mkdir(folder, 0755) == 0 || errno == EEXIST);
    for (unsigned i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/f%06u", folder, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        assert_true(fd >= 0);
        (void)close(fd);
    }
}

// "d/d/d...": returns to the root.
static void put_deep(unsigned depth)
{
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
        put("file", "x");
    }
    assert_int_equal(chdir(root), 0);
}

#endif
