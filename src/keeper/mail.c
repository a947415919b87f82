// SPDX-License-Identifier: Apache-2.0
//
// mail: see mail.h.  Runs in the keeper.

#include "keeper/mail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/poller.h"

struct letter {
    STAILQ_ENTRY(letter) list;
    bool of_box; // its descriptors come from fds_of()
    enum wire_type type;
    size_t fd_count;
    int fds[FD_PASS_MAX];
    size_t length;
    char bytes[]; // of a union wire_message, which is larger than most messages
};

void mail_init(struct mail *mail, uint64_t tag)
{
    *mail = (struct mail){.sock = -1, .epoll = -1, .tag = tag};
    STAILQ_INIT(&mail->letters);
}

static void want_room(struct mail *mail, bool on)
{
    struct epoll_event ev = {.events = EPOLLIN | (on ? EPOLLOUT : 0), .data.u64 = mail->tag};
    if (mail->sock >= 0)
        (void)poller_ctl(mail->epoll, EPOLL_CTL_MOD, mail->sock, &ev);
}

// True: it has to wait.  Whoever is gone needs no message.
static bool is_full(int r)
{
    return r == -EAGAIN || r == -ETOOMANYREFS; // too many descriptors are under way
}

static int post(struct mail *mail, enum wire_type type, union wire_message *m, bool of_box,
                const int *fds, size_t count)
{
    int own[FD_PASS_MAX];
    if (mail->sock < 0)
        return 0;
    if (of_box) {
        int n = mail->fds_of(mail->argument, m, own);
        if (n < 0)
            return 0;
        fds = own;
        count = (size_t)n;
    }
    return wire_send(mail->sock, type, m, fds, count);
}

static void letter_free(struct mail *mail, struct letter *l)
{
    STAILQ_REMOVE_HEAD(&mail->letters, list);
    mail->waiting--;
    for (size_t i = 0; i < l->fd_count; i++)
        fd_close(&l->fds[i]);
    free(l);
}

void mail_flush(struct mail *mail)
{
    union wire_message m;
    for (struct letter *l; (l = STAILQ_FIRST(&mail->letters));) {
        memcpy(&m, l->bytes, l->length);
        if (is_full(post(mail, l->type, &m, l->of_box, l->fds, l->fd_count)))
            return;
        letter_free(mail, l);
    }
    want_room(mail, false);
}

void mail_drop(struct mail *mail)
{
    mail->sock = -1;
    for (struct letter *l; (l = STAILQ_FIRST(&mail->letters));)
        letter_free(mail, l);
}

static bool send_later(struct mail *mail, enum wire_type type, union wire_message *m, bool of_box,
                       const int *fds, size_t count)
{
    if (STAILQ_EMPTY(&mail->letters) && !is_full(post(mail, type, m, of_box, fds, count)))
        return true;
    size_t length = wire_length(type, m);
    struct letter *l = malloc(sizeof *l + length);
    if (!l) {
        log_line(LOG_ERROR, "no memory for a message of type %d", type);
        return false;
    }
    *l = (struct letter){.of_box = of_box, .type = type, .length = length};
    memcpy(l->bytes, m, length);
    for (size_t i = 0; i < count && i < ARRAY_LEN(l->fds); i++)
        l->fds[l->fd_count++] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    STAILQ_INSERT_TAIL(&mail->letters, l, list);
    mail->waiting++;
    want_room(mail, true);
    return true;
}

bool mail_send(struct mail *mail, enum wire_type type, union wire_message *m, const int *fds,
               size_t count)
{
    return send_later(mail, type, m, false, fds, count);
}

bool mail_send_of_box(struct mail *mail, enum wire_type type, union wire_message *m)
{
    return send_later(mail, type, m, true, NULL, 0);
}
