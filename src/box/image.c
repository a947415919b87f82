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
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/maps.h"

#ifndef MFD_NOEXEC_SEAL // Linux 6.3
#define MFD_NOEXEC_SEAL 8U
#endif

enum {
    PIECES_MAX = 1024,
    OBJECTS_MAX = 1024,
    // A program with more has mostly untouched variables, and a file would hold them.
    DATA_BYTES_MAX = 16 << 20,
    // The same of code and constants; and all of it has to be read.
    OBJECT_BYTES_MAX = 8 << 20,
    TABLE_BYTES_MAX = 512 << 10,
    THREAD_BYTES_MAX = 64 << 10,
};

static struct image_area pieces[PIECES_MAX], parts[OBJECTS_MAX];
static size_t piece_count, part_count;
static uintptr_t page_size;

// In the order of addresses: neighbours are neighbours in the file as well then, and the kernel
// makes one mapping of them.  Most come so; only arenas in one mapping do not.
static void add_piece(uintptr_t start, uintptr_t end)
{
    size_t at = piece_count;
    while (at > 0 && pieces[at - 1].start > start)
        at--;
    // What overlaps would be written twice and mapped from the first time: it stays where it is.
    if (start >= end || piece_count == PIECES_MAX || (at > 0 && pieces[at - 1].end > start) ||
        (at < piece_count && pieces[at].start < end))
        return;
    memmove(&pieces[at + 1], &pieces[at], (piece_count - at) * sizeof *pieces);
    pieces[at] = (struct image_area){start, end};
    piece_count++;
}

static void add_part(uintptr_t start, uintptr_t end)
{
    if (part_count < OBJECTS_MAX)
        parts[part_count++] =
            (struct image_area){start & ~(page_size - 1), (end + page_size - 1) & ~(page_size - 1)};
}

// The program and its libraries: all of those that are small, of the others their variables, with
// those that the linker made read-only when it had filled them in.  A mapping in /proc/self/maps
// can be larger: the kernel makes one of these and of what malloc mapped beside them.
static int add_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    const bool *whole = argument;
    uintptr_t first = UINTPTR_MAX, last = 0;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        first = start < first ? start : first;
        last = start + p->p_memsz > last ? start + p->p_memsz : last;
    }
    if (*whole && first < last && last - first <= OBJECT_BYTES_MAX) {
        add_part(first, last);
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && p->p_memsz <= DATA_BYTES_MAX)
            add_part(start, start + p->p_memsz);
    }
    return 0;
}

static void add_common(const struct mapping *m, const struct image_area *areas, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_piece(areas[i].start > m->start ? areas[i].start : m->start,
                  areas[i].end < m->end ? areas[i].end : m->end);
}

// What may go into the file.  With `whole` also what is not written to.
static int find_pieces(const struct image_area *areas, size_t count, bool whole)
{
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    struct maps maps;
    struct mapping m;
    int r = maps_open(&maps);
    if (r < 0)
        return r;
    piece_count = part_count = 0;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)dl_iterate_phdr(add_object, &whole);
    while (maps_next(&maps, &m)) {
        if (m.mode[0] != 'r' || m.mode[3] != 'p')
            continue;
        bool writable = m.mode[1] == 'w', anonymous = !m.name[0];
        size_t length = m.end - m.start;
        if (m.name[0] == '[') { // a stack grows, and the others are the kernel's
            if (strcmp(m.name, "[heap]") == 0)
                add_piece(m.start, m.end);
        } else if (anonymous && !writable) {
            continue; // large pages, see box/code_pages.h
        } else if (whole && anonymous && thread >= m.start && thread < m.end &&
                   length <= THREAD_BYTES_MAX) {
            add_piece(m.start, m.end); // what the linker gave the first thread
        } else {
            size_t before = piece_count;
            add_common(&m, parts, part_count);
            if (anonymous)
                add_common(&m, areas, count);
            else if (whole && piece_count == before && strcmp(m.mode, "r--p") == 0 &&
                     length <= TABLE_BYTES_MAX)
                add_piece(m.start, m.end); // such as a locale
        }
    }
    return maps.failed ? -EIO : 0;
}

// The file: what writes to it, and what is mapped.
struct backing {
    int write, map;
};

static void backing_close(struct backing *b)
{
    if (b->map != b->write)
        fd_close(&b->map);
    fd_close(&b->write);
}

// On a tmpfs of its own, which can have pages of 2 MiB whatever the system's setting for memfds is:
// a fork copies the entries of one together, and the end of the copy drops them together, where
// small ones are counted one by one.  The mount is gone at once.  SECURITY: what is mapped was
// opened for reading, so no process can write to the file through a mapping.
static int open_large(struct backing *ret)
{
    static const char mount_point[] = "/mnt", name[] = "/mnt/image";
    if (mount("image", mount_point, "tmpfs", MS_NOSUID | MS_NODEV, "huge=always,mode=700") < 0)
        return -errno;
    struct backing b = {.write = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    b.map = open(name, O_RDONLY | O_CLOEXEC);
    bool good = b.write >= 0 && b.map >= 0 && unlink(name) == 0;
    if (umount2(mount_point, MNT_DETACH) < 0 || !good) {
        backing_close(&b);
        return -EIO;
    }
    *ret = b;
    return 0;
}

static int open_small(struct backing *ret)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    *ret = (struct backing){fd, fd};
    return 0;
}

// SECURITY: all boxes read these pages.  None has a descriptor of the file, and a private mapping
// cannot write to it; sealed or open for reading only, it could not be written to, cut or punched
// with one either.
static int shut(struct backing *b)
{
    int r = 0;
    if (b->map == b->write &&
        fcntl(b->write, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        r = -errno;
    backing_close(b);
    return r;
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

// Between the two calls nothing may write to the piece, or it would be lost: what this code needs
// is on its stack or only read, and signals are held off.  1: it stays where it is; negative: it
// may be gone.
static int move_piece(const struct backing *b, const struct image_area *p, off_t at, int rights)
{
    if (write_piece(b->write, p, at) < 0)
        return 1;
    void *there =
        mmap((void *)p->start, p->end - p->start, rights, MAP_PRIVATE | MAP_FIXED, b->map, at);
    return there == MAP_FAILED ? -errno : 0;
}

// Code and variables of all libraries lie next to each other, and with the same rights they are one
// mapping.
// SECURITY: so all of it can be written to and executed.  That is a box's own affair: its code may
// map what it likes, and what it does to these pages is in copies of its own.  A policy may forbid
// it to every process.
static bool may_be_whole(const struct backing *b)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (ftruncate(b->write, (off_t)page) < 0)
        return false;
    void *there = mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, b->map, 0);
    return there != MAP_FAILED && munmap(there, page) == 0;
}

// Between the two calls of image_share() and image_renew().
static struct backing file = {-1, -1};
static bool moved[PIECES_MAX];
static int rights;

int image_share(const struct image_area *areas, size_t count)
{
    sigset_t all, before;
    off_t at = 0;
    int r = 0;
    piece_count = 0;
    if (open_large(&file) < 0 && open_small(&file) < 0)
        return 0;
    const bool whole = may_be_whole(&file);
    if (find_pieces(areas, count, whole) < 0) {
        piece_count = 0;
        backing_close(&file);
        return 0;
    }
    rights = PROT_READ | PROT_WRITE | (whole ? PROT_EXEC : 0);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < piece_count && r >= 0; i++) {
        r = move_piece(&file, &pieces[i], at, rights);
        moved[i] = r == 0;
        at += (off_t)(pieces[i].end - pieces[i].start);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? r : 0;
}

// Writes those pages of a piece to the file that are no longer the file's.
static int renew_piece(int pagemap, const struct image_area *p, off_t at)
{
    uint64_t entries[512];
    for (uintptr_t from = p->start; from < p->end;) {
        size_t want = (p->end - from) / page_size;
        ssize_t n = pread(pagemap, entries, (want < 512 ? want : 512) * sizeof *entries,
                          (off_t)(from / page_size * sizeof *entries));
        if (n < (ssize_t)sizeof *entries)
            return n < 0 ? -errno : -EIO;
        for (size_t i = 0; i < (size_t)n / sizeof *entries; i++, from += page_size) {
            const struct image_area page = {from, from + page_size};
            if ((entries[i] & (PAGE_PRESENT | PAGE_SWAPPED)) &&
                !(entries[i] & PAGE_FILE_OR_SHARED) &&
                write_piece(file.write, &page, at + (off_t)(from - p->start)) < 0)
                return -EIO;
        }
    }
    return 0;
}

// Nothing may write to a piece from the look at its pages on.
static int renew_all(int pagemap)
{
    off_t at = 0;
    int r = 0;
    for (size_t i = 0; i < piece_count && r == 0; i++) {
        const struct image_area *p = &pieces[i];
        const size_t length = p->end - p->start;
        if (moved[i] && renew_piece(pagemap, p, at) == 0 &&
            mmap((void *)p->start, length, rights, MAP_PRIVATE | MAP_FIXED, file.map, at) ==
                MAP_FAILED)
            r = -errno;
        at += (off_t)length;
    }
    return r;
}

int image_renew(void)
{
    sigset_t all, before;
    int r = 0;
    if (file.write < 0)
        return 0;
    _cleanup_close_ int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    if (pagemap >= 0)
        r = renew_all(pagemap);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    int shut_well = shut(&file);
    return r < 0 ? r : shut_well;
}
