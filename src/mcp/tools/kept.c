// SPDX-License-Identifier: Apache-2.0
//
// kept: see kept.h.  A tree finds a run by its id; two lists, of all runs and of each owner's, are
// in the order of their making and so in the order of their end: one timer for the first is enough,
// and whoever needs room takes it from the front.

#include "mcp/tools/kept.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    TTL_MS = 3600 * 1000,
    RUN_OVERHEAD = 1024, // counted for each run, so that empty ones are not free
    ID_LENGTH = 36,
    LOOKS_MAX = 64,
};
#define TOTAL_MAX ((size_t)64 << 20)
#define OWNER_MAX ((size_t)32 << 20) // of several owners, none can push out all that others have
#define RUN_MAX ((size_t)8 << 20)

const char *const kept_part_names[KEPT_PART_MAX] = {
    [KEPT_STDOUT] = "stdout",
    [KEPT_STDERR] = "stderr",
    [KEPT_RESULT] = "result",
    [KEPT_ERROR] = "error",
#define X(i) [KEPT_DISPLAY + (i)-1] = "display-" #i, [KEPT_CHART + (i)-1] = "chart-" #i
    X(1),
    X(2),
    X(3),
    X(4),
    X(5),
    X(6),
    X(7),
    X(8),
    X(9),
    X(10),
    X(11),
    X(12),
    X(13),
    X(14),
    X(15),
    X(16),
    X(17),
    X(18),
    X(19),
    X(20),
#undef X
};

TAILQ_HEAD(run_list, kept_run);

struct kept_owner {
    char name[MCP_OWNER_MAX + 1];
    size_t bytes;
    struct run_list runs;
    TAILQ_ENTRY(kept_owner) entry;
};

struct kept_run {
    char id[ID_LENGTH + 1];
    struct kept_owner *owner;
    size_t bytes;
    int64_t end_ms;
    struct {
        char *text; // and behind its NUL the MIME type
        size_t length;
    } parts[KEPT_PART_MAX];
    TAILQ_ENTRY(kept_run) all, own;
};

struct mcp_kept {
    void *runs, *owners; // tsearch trees
    TAILQ_HEAD(, kept_owner) owner_list;
    size_t bytes;
    struct run_list list;
    struct event *timer;
};

static int compare_runs(const void *a, const void *b)
{
    return strcmp(((const struct kept_run *)a)->id, ((const struct kept_run *)b)->id);
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(((const struct kept_owner *)a)->name, ((const struct kept_owner *)b)->name);
}

// ---- leaving ------------------------------------------------------------------------------------

static void release_owner(struct mcp_kept *k, struct kept_owner *owner)
{
    if (!TAILQ_EMPTY(&owner->runs))
        return;
    (void)tdelete(owner, &k->owners, compare_owners);
    TAILQ_REMOVE(&k->owner_list, owner, entry);
    free(owner);
}

static void forget(struct mcp_kept *k, struct kept_run *run)
{
    struct kept_owner *owner = run->owner;
    (void)tdelete(run, &k->runs, compare_runs);
    TAILQ_REMOVE(&k->list, run, all);
    TAILQ_REMOVE(&owner->runs, run, own);
    k->bytes -= run->bytes;
    owner->bytes -= run->bytes;
    for (int i = 0; i < KEPT_PART_MAX; i++)
        free(run->parts[i].text);
    free(run);
    release_owner(k, owner);
}

static void set_timer(struct mcp_kept *k)
{
    struct kept_run *first = TAILQ_FIRST(&k->list);
    if (!first || !k->timer) {
        if (k->timer)
            (void)event_del(k->timer);
        return;
    }
    int64_t wait_ms = first->end_ms - clock_ms();
    if (wait_ms < 0)
        wait_ms = 0;
    // A second later than due, so that one wake-up serves all that end about now.
    struct timeval wait = {.tv_sec = (time_t)(wait_ms / 1000 + 1)};
    (void)event_add(k->timer, &wait);
}

static void expire(struct mcp_kept *k)
{
    struct kept_run *first;
    int64_t now_ms = clock_ms();
    while ((first = TAILQ_FIRST(&k->list)) && first->end_ms <= now_ms)
        forget(k, first);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    expire(argument);
    set_timer(argument);
}

// The oldest run of a list but one, or NULL.
#define OLDEST_BUT(list, field, except)                                                            \
    (TAILQ_FIRST(list) == (except) ? TAILQ_NEXT(TAILQ_FIRST(list), field) : TAILQ_FIRST(list))

// The oldest run, but `except`, of whoever has most: nobody pushes out what belongs to one with
// less.
static struct kept_run *find_victim(struct mcp_kept *k, const struct kept_run *except)
{
    struct kept_run *victim = NULL;
    size_t most = 0;
    struct kept_owner *o;
    TAILQ_FOREACH (o, &k->owner_list, entry) {
        struct kept_run *run = o->bytes > most ? OLDEST_BUT(&o->runs, own, except) : NULL;
        if (run) {
            victim = run;
            most = o->bytes;
        }
    }
    return victim;
}

// Makes room by letting the oldest go, but never `except`.  False: it does not fit.
static bool make_room(struct mcp_kept *k, const struct kept_run *except, size_t bytes)
{
    struct kept_owner *owner = except->owner;
    struct kept_run *run;
    while (owner->bytes + bytes > OWNER_MAX && (run = OLDEST_BUT(&owner->runs, own, except)))
        forget(k, run);
    // Owners may be many, so that this is a number of looks; behind it the oldest of all goes.
    for (int looks = 0; k->bytes + bytes > TOTAL_MAX; looks++) {
        run = looks < LOOKS_MAX ? find_victim(k, except) : OLDEST_BUT(&k->list, all, except);
        if (!run)
            break;
        forget(k, run);
    }
    return owner->bytes + bytes <= OWNER_MAX && k->bytes + bytes <= TOTAL_MAX;
}

// ---- coming -------------------------------------------------------------------------------------

static struct kept_owner *take_owner(struct mcp_kept *k, const char *name)
{
    struct kept_owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return NULL;
    snprintf(owner->name, sizeof owner->name, "%s", name);
    TAILQ_INIT(&owner->runs);
    struct kept_owner **found = tsearch(owner, &k->owners, compare_owners);
    if (!found || *found != owner)
        free(owner);
    else
        TAILQ_INSERT_TAIL(&k->owner_list, owner, entry);
    return found ? *found : NULL;
}

static struct kept_run *find(struct mcp_kept *k, const char *owner, const char *id)
{
    struct kept_run key;
    if (strnlen(id, ID_LENGTH + 1) != ID_LENGTH)
        return NULL;
    memcpy(key.id, id, sizeof key.id);
    struct kept_run **found = tfind(&key, &k->runs, compare_runs);
    // SECURITY: whoever learned an id of somebody else's must not read what belongs to it.
    return found && strcmp((*found)->owner->name, owner) == 0 ? *found : NULL;
}

static struct kept_run *add_run(struct mcp_kept *k, const char *owner_name, const char *id)
{
    if (strnlen(id, ID_LENGTH + 1) != ID_LENGTH || strlen(owner_name) > MCP_OWNER_MAX)
        return NULL;
    struct kept_run *run = calloc(1, sizeof *run);
    struct kept_owner *owner = run ? take_owner(k, owner_name) : NULL;
    if (!owner) {
        free(run);
        return NULL;
    }
    memcpy(run->id, id, sizeof run->id);
    run->owner = owner;
    run->bytes = RUN_OVERHEAD;
    run->end_ms = clock_ms() + TTL_MS;
    struct kept_run **found = tsearch(run, &k->runs, compare_runs);
    if (!found || *found != run) { // no memory, or an id that somebody else has
        free(run);
        release_owner(k, owner);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&k->list, run, all);
    TAILQ_INSERT_TAIL(&owner->runs, run, own);
    k->bytes += run->bytes;
    owner->bytes += run->bytes;
    if (TAILQ_FIRST(&k->list) == run)
        set_timer(k);
    return run;
}

int mcp_kept_add(struct mcp *m, const char *owner, const char *execution_id, enum kept_part part,
                 const char *mime_type, const char *text, size_t length)
{
    struct mcp_kept *k = m->kept;
    if (!k || length > RUN_MAX)
        return -1;
    expire(k);
    struct kept_run *run = find(k, owner, execution_id);
    bool fresh = !run;
    if (!run && !(run = add_run(k, owner, execution_id)))
        return -1;
    size_t old = run->parts[part].length;
    char *copy = NULL;
    if (run->bytes - old + length <= RUN_MAX + RUN_OVERHEAD && make_room(k, run, length))
        copy = malloc(length + 1 + strlen(mime_type) + 1);
    if (!copy) {
        if (fresh)
            forget(k, run);
        return -1;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    memcpy(copy + length + 1, mime_type, strlen(mime_type) + 1);
    free(run->parts[part].text);
    run->parts[part].text = copy;
    run->parts[part].length = length;
    run->bytes += length - old;
    run->owner->bytes += length - old;
    k->bytes += length - old;
    return 0;
}

const char *mcp_kept_find(struct mcp *m, const char *owner, const char *execution_id,
                          enum kept_part part, const char **ret_mime_type, size_t *ret_length)
{
    struct mcp_kept *k = m->kept;
    if (!k)
        return NULL;
    expire(k);
    struct kept_run *run = find(k, owner, execution_id);
    if (!run || !run->parts[part].text)
        return NULL;
    *ret_length = run->parts[part].length;
    *ret_mime_type = run->parts[part].text + run->parts[part].length + 1;
    return run->parts[part].text;
}

bool mcp_kept_is_blob(const char *mime_type)
{
    return strcmp(mime_type, "image/png") == 0 || strcmp(mime_type, "image/jpeg") == 0;
}

json_t *mcp_kept_ids(struct mcp *m, const char *owner, const char *prefix, size_t max)
{
    struct kept_owner key, **found;
    json_t *ids = json_array();
    if (!m->kept || strlen(owner) > MCP_OWNER_MAX)
        return ids;
    snprintf(key.name, sizeof key.name, "%s", owner);
    found = tfind(&key, &m->kept->owners, compare_owners);
    if (!found)
        return ids;
    struct kept_run *run;
    size_t length = strlen(prefix);
    TAILQ_FOREACH_REVERSE (run, &(*found)->runs, run_list, own) {
        if (json_array_size(ids) >= max)
            break;
        if (strncmp(run->id, prefix, length) == 0)
            (void)json_array_append_new(ids, json_string(run->id));
    }
    return ids;
}

// ---- URIs ---------------------------------------------------------------------------------------

static const char scheme[] = "run://";

void mcp_kept_uri(const char *execution_id, enum kept_part part, char buf[KEPT_URI_MAX])
{
    snprintf(buf, KEPT_URI_MAX, "%s%.36s/%s", scheme, execution_id, kept_part_names[part]);
}

// Just the form that mcp_kept_uri() writes: a resource has one name.
int mcp_kept_parse_uri(const char *uri, char execution_id[ID_LENGTH + 1], enum kept_part *ret)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx/";
    size_t at = sizeof scheme - 1;
    if (strncmp(uri, scheme, at) != 0)
        return -1;
    for (size_t i = 0; form[i]; i++) {
        char c = uri[at + i];
        bool fits =
            form[i] == 'x' ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') : c == form[i];
        if (!fits)
            return -1; // also at the end of a text that is too short
    }
    const char *name = uri + at + sizeof form - 1;
    for (int i = 0; i < KEPT_PART_MAX; i++)
        if (strcmp(name, kept_part_names[i]) == 0) {
            memcpy(execution_id, uri + at, ID_LENGTH);
            execution_id[ID_LENGTH] = '\0';
            *ret = (enum kept_part)i;
            return 0;
        }
    return -1;
}

// ---- all of it ----------------------------------------------------------------------------------

int mcp_kept_open(struct mcp *m, struct err *e)
{
    struct mcp_kept *k = calloc(1, sizeof *k);
    if (!k)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the store of outputs");
    TAILQ_INIT(&k->list);
    TAILQ_INIT(&k->owner_list);
    k->timer = m->base ? event_new(m->base, -1, 0, on_timer, k) : NULL;
    if (m->base && !k->timer) {
        free(k);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the store of outputs");
    }
    m->kept = k;
    return 0;
}

void mcp_kept_close(struct mcp *m)
{
    struct mcp_kept *k = m->kept;
    struct kept_run *first;
    if (!k)
        return;
    while ((first = TAILQ_FIRST(&k->list)))
        forget(k, first);
    if (k->timer)
        event_free(k->timer);
    free(k);
    m->kept = NULL;
}
