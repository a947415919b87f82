// SPDX-License-Identifier: Apache-2.0
//
// image: see image.h.

#include "box/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef MFD_NOEXEC_SEAL // Linux 6.3
#define MFD_NOEXEC_SEAL 8U
#endif

enum {
    PIECES_MAX = 1024,
    DATA_MAX = 512,
    DATA_BYTES_MAX =
        16
        << 20, // who has more variables has mostly ones that nobody touched, and a file would hold them
};

static struct image_area pieces[PIECES_MAX], data[DATA_MAX];
static size_t piece_count, data_count;

// In the order of addresses: neighbours are neighbours in the file as well then, and the kernel makes one mapping
// of them.  Most come so; only arenas in one mapping do not.
static void add_piece(uintptr_t start, uintptr_t end)
{
    if (start >= end || piece_count == PIECES_MAX)
        return;
    size_t at = piece_count++;
    for (; at > 0 && pieces[at - 1].start > start; at--)
        pieces[at] = pieces[at - 1];
    pieces[at] = (struct image_area){start, end};
}

// The variables of the program and its libraries, with those that the linker made read-only when it had filled them
// in.  A mapping in /proc/self/maps can be larger: the kernel makes one of these and of what malloc mapped beside them.
static int add_data(struct dl_phdr_info *info, size_t size, void *argument)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    (void)argument;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && p->p_memsz <= DATA_BYTES_MAX &&
            data_count < DATA_MAX)
            data[data_count++] = (struct image_area){start & ~(page - 1),
                                                     (start + p->p_memsz + page - 1) & ~(page - 1)};
    }
    return 0;
}

// A line of /proc/self/maps.
struct mapping {
    uintptr_t start, end;
    char mode[5];
    const char *name; // "" for anonymous memory
};

static bool read_mapping(char *line, struct mapping *m)
{
    int at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n", &m->start, &m->end, m->mode,
               &at) != 3 ||
        !at)
        return false;
    line[strcspn(line, "\n")] = '\0';
    m->name = line + at;
    return true;
}

static void add_common(const struct mapping *m, const struct image_area *areas, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_piece(areas[i].start > m->start ? areas[i].start : m->start,
                  areas[i].end < m->end ? areas[i].end : m->end);
}

// What may go into the file.
static int find_pieces(const struct image_area *areas, size_t count)
{
    _cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096 + 256];
    if (!maps)
        return -errno;
    piece_count = data_count = 0;
    (void)dl_iterate_phdr(add_data, NULL);
    while (fgets(line, sizeof line, maps)) {
        struct mapping m = {0};
        bool writable = read_mapping(line, &m) && strcmp(m.mode, "rw-p") == 0;
        if (!writable && strcmp(m.mode, "r--p") != 0)
            continue;
        if (writable && strcmp(m.name, "[heap]") == 0)
            add_piece(m.start, m.end);
        else if (m.name[0] != '[') // a stack grows
            add_common(&m, data, data_count);
        if (writable && !m.name[0])
            add_common(&m, areas, count);
    }
    return ferror(maps) ? -EIO : 0;
}

static int new_file(void)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

static int write_piece(int fd, const struct image_area *p, off_t at)
{
    for (uintptr_t from = p->start; from < p->end;) {
        ssize_t n = pwrite(fd, (const void *)from, p->end - from, at + (off_t)(from - p->start));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        from += (uintptr_t)n;
    }
    return 0;
}

// Between the two calls nothing may write to the piece, or it would be lost: what this code needs is on its
// stack or only read, and signals are held off.  What the linker had made read-only can be written to afterwards, or
// it would be a mapping more of each library: that protects against mistakes of code that is not hostile.  1: it stays where it is; negative: it may be gone.
static int move_piece(int fd, const struct image_area *p, off_t at)
{
    if (write_piece(fd, p, at) < 0)
        return 1;
    void *there = mmap((void *)p->start, p->end - p->start, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_FIXED, fd, at);
    return there == MAP_FAILED ? -errno : 0;
}

int image_share(const struct image_area *areas, size_t count)
{
    sigset_t all, before;
    off_t at = 0;
    int r = 0;
    if (find_pieces(areas, count) < 0)
        return 0;
    _cleanup_close_ int fd = new_file();
    if (fd < 0)
        return 0;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < piece_count && r == 0; i++) {
        r = move_piece(fd, &pieces[i], at);
        at += (off_t)(pieces[i].end - pieces[i].start);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    // SECURITY: all boxes read these pages.  None has a descriptor of the file, and a private mapping cannot write
    // to it; sealed, it could not be written to, cut or punched with one either.
    if (r >= 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        r = -errno;
    return r < 0 ? r : 0;
}
