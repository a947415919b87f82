// SPDX-License-Identifier: Apache-2.0
//
// saved: files of a session that are in the store of artifacts, and their way back into a new box.
// Called by session.c, and by the code that writes files of sessions; runs in the gate.
//
// What a run left and what a client wrote is stored as it happens, so it outlives a box that
// crashes and a server that is killed.  A session that is opened again, by its handle or its name,
// gets its files back before its first run.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "files/store.h"
#include "session/session_internal.h"

static struct store *store_of(const struct session *s)
{
    return s->all->gate->store;
}

// ---- into the store -----------------------------------------------------------------------------

static bool is_alive(const char *owner, const char *holder, void *argument)
{
    return session_is_id(holder) && session_lookup(argument, owner, holder) != NULL;
}

void session_note_saved(struct session *s)
{
    struct err e;
    if (s->is_saved || !store_of(s))
        return;
    s->is_saved = true;
    store_set_alive(store_of(s), is_alive, s->all);
    if (s->plan.name[0] && store_set_name(store_of(s), s->owner, s->id, s->plan.name, &e) < 0)
        log_err(LOG_WARN, &e);
}

void session_save_bytes(struct session *s, const struct scratch_file *file, const void *data,
                        size_t length)
{
    struct artifact a = {.modified_ms = file->mtime_ns / 1000000};
    struct err e;
    if (!store_of(s))
        return;
    snprintf(a.owner, sizeof a.owner, "%s", s->owner);
    snprintf(a.holder, sizeof a.holder, "%s", s->id);
    snprintf(a.path, sizeof a.path, "%s", file->path);
    if (store_add_bytes(store_of(s), &a, data, length, &e) == 0)
        session_note_saved(s);
    else // or an older version of the file would come back
        store_retire(store_of(s), s->owner, s->id, file->path);
}

void session_drop_saved(struct session *s, const char *path)
{
    if (store_of(s))
        store_retire(store_of(s), s->owner, s->id, path);
}

// ---- which session is opened again --------------------------------------------------------------

bool session_has_saved(struct gate *g, const char *owner, const char *id)
{
    return g->store && session_is_handle(id) && store_holds(g->store, owner, id);
}

int session_find_saved(struct gate *g, const char *owner, struct session_plan *plan, struct err *e)
{
    char holder[STORE_HOLDER_MAX + 1] = "";
    // SECURITY: code that ends its own session must not be followed by a run with a weaker wall.
    const struct ended_sessions *ended = g->sessions->ended_sessions;
    uint32_t before = ended_session_isolation(ended, owner, plan->name);
    if (before > plan->limits.isolation)
        plan->limits.isolation = before;
    if (!session_is_handle(plan->name)) {
        if (plan->name[0] && g->store && store_by_name(g->store, owner, plan->name, holder) &&
            session_has_saved(g, owner, holder) && !session_lookup(g->sessions, owner, holder))
            snprintf(plan->id, sizeof plan->id, "%s", holder);
        return 0;
    }
    int64_t ignored;
    if (!session_has_saved(g, owner, plan->name) &&
        session_why_ended(g, owner, plan->name, &ignored) == SESSION_OPEN)
        return err_set(e, ERR_SESSION_UNKNOWN, 0,
                       "open one with open_session, or look at list_sessions",
                       "there is no session '%.40s' that could be opened again", plan->name);
    snprintf(plan->id, sizeof plan->id, "%s", plan->name);
    if (!g->store || !store_name_of(g->store, owner, plan->id, plan->name, sizeof plan->name) ||
        session_lookup(g->sessions, owner, plan->name))
        plan->name[0] = '\0';
    return 0;
}

// ---- back into a box ----------------------------------------------------------------------------

struct session_restore {
    struct shared_box *box;
    struct session *session;
    void (*then)(struct shared_box *h, struct session *s);
    struct artifact *files;
    size_t count, next;
    struct scratch_op *op;
    int fd; // of the file that is written
};

void session_restore_cancel(struct shared_box *h)
{
    struct session_restore *r = TAKE_PTR(h->restoring);
    if (!r)
        return;
    if (r->op)
        scratch_cancel(r->op);
    fd_close(&r->fd);
    free(r->files);
    free(r);
}

static void restore_next(struct session_restore *r);

static ssize_t give_file(void *to, size_t most, void *argument, struct err *e)
{
    const struct session_restore *r = argument;
    ssize_t n = read(r->fd, to, most);
    return n >= 0 ? n
                  : err_set(e, ERR_STATE_FOLDER, errno, "look at the state folder and its disk",
                            "read a stored file");
}

static void on_restored(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct session_restore *r = argument;
    (void)b;
    r->op = NULL;
    fd_close(&r->fd);
    if (reply->error.code == ERR_SESSION_ENDED && reply->error.message[0])
        return; // the box is gone: its end follows
    if (reply->error.message[0])
        r->session->not_restored++;
    else
        r->session->restored++;
    restore_next(r);
}

static void restore_next(struct session_restore *r)
{
    static const struct scratch_source source = {.give = give_file};
    struct shared_box *h = r->box;
    struct session *s = r->session;
    struct err e;
    while (r->next < r->count) {
        const struct artifact *a = &r->files[r->next++];
        r->fd = store_read(store_of(s), a);
        if (r->fd >= 0)
            r->op = scratch_write_from(h->box, a->path, a->size, &source, on_restored, r, &e);
        if (r->op)
            return;
        fd_close(&r->fd);
        s->not_restored++;
    }
    void (*then)(struct shared_box *, struct session *) = r->then;
    session_restore_cancel(h);
    then(h, s);
}

void session_restore(struct shared_box *h, struct session *s,
                     void (*then)(struct shared_box *h, struct session *s))
{
    struct session_restore *r = store_of(s) ? calloc(1, sizeof *r) : NULL;
    uint64_t more = 0;
    if (!r) {
        then(h, s);
        return;
    }
    *r = (struct session_restore){.box = h, .session = s, .then = then, .fd = -1};
    h->restoring = r;
    session_note_saved(s);
    r->count = store_list(store_of(s), s->owner, s->id, &r->files, &more);
    s->not_restored = (unsigned)more;
    restore_next(r);
}
