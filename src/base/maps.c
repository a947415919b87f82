// SPDX-License-Identifier: Apache-2.0
//
// maps: see maps.h.

#include "base/maps.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"

static int start(struct maps *m, int dir, const char *path)
{
    m->have = m->at = 0;
    m->failed = false;
    m->fd = (int)sys_raw(SYS_openat, dir, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return m->fd < 0 ? m->fd : 0;
}

int maps_open(struct maps *m)
{
    return start(m, AT_FDCWD, "/proc/self/maps");
}

int maps_open_at(struct maps *m, int proc)
{
    return start(m, proc, "self/maps");
}

// What does not fit is cut: the end of a name.
static bool next_line(struct maps *m)
{
    size_t length = 0;
    for (;;) {
        if (m->at == m->have) {
            long n = sys_raw(SYS_read, m->fd, (long)m->text, sizeof m->text, 0, 0, 0);
            m->failed = n < 0;
            if (n <= 0)
                return false;
            m->have = (size_t)n;
            m->at = 0;
        }
        char c = m->text[m->at++];
        if (c == '\n')
            break;
        if (length + 1 < sizeof m->line)
            m->line[length++] = c;
    }
    m->line[length] = '\0';
    return true;
}

static const char *take_number(const char *p, uintptr_t *ret)
{
    uintptr_t value = 0;
    for (;; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                                                  : 16;
        if (digit == 16)
            break;
        value = value << 4 | digit;
    }
    *ret = value;
    return p;
}

static const char *skip_word(const char *p)
{
    while (*p && *p != ' ')
        p++;
    while (*p == ' ')
        p++;
    return p;
}

// "start-end mode offset device inode name"
static bool parse(const char *line, struct mapping *ret)
{
    uintptr_t inode;
    const char *p = take_number(line, &ret->start);
    if (*p != '-')
        return false;
    p = take_number(p + 1, &ret->end);
    if (*p != ' ' || strlen(p + 1) < 5)
        return false;
    memcpy(ret->mode, p + 1, 4);
    ret->mode[4] = '\0';
    p = skip_word(skip_word(skip_word(p + 1)));
    (void)take_number(p, &inode); // is decimal, and only compared with 0
    ret->file = inode != 0;
    ret->name = skip_word(p);
    return true;
}

bool maps_next(struct maps *m, struct mapping *ret)
{
    while (m->fd >= 0 && next_line(m))
        if (parse(m->line, ret))
            return true;
    if (m->fd >= 0)
        (void)sys_raw(SYS_close, m->fd, 0, 0, 0, 0, 0);
    m->fd = -1;
    return false;
}
