// SPDX-License-Identifier: Apache-2.0
//
// outputs: see outputs.h.  A tree finds a run by its id.  Two lists, of all runs and of each
// owner's, are in the order in which runs were added, which is also the order in which they expire:
// one timer for the first is enough, and room is made at the front.

#include "mcp/tools/outputs.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"

enum {
    TTL_MS = 3600 * 1000,
    RUN_OVERHEAD = 1024, // counted for each run, so that empty ones are not free
    ID_LENGTH = 36,
    LOOKS_MAX = 64,
};
#define TOTAL_MAX ((size_t)64 << 20)
#define OWNER_MAX ((size_t)32 << 20) // so that one owner cannot push out all others
#define RUN_MAX ((size_t)8 << 20)

const char *const output_part_names[OUTPUT_PART_MAX] = {
    [OUTPUT_STDOUT] = "stdout",
    [OUTPUT_STDERR] = "stderr",
    [OUTPUT_RESULT] = "result",
    [OUTPUT_ERROR] = "error",
#define X(i) [OUTPUT_DISPLAY + (i)-1] = "display-" #i, [OUTPUT_CHART + (i)-1] = "chart-" #i
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

TAILQ_HEAD(run_list, output_run);

struct output_owner {
    char name[MCP_OWNER_MAX + 1];
    size_t bytes;
    struct run_list runs;
    TAILQ_ENTRY(output_owner) entry;
};

struct output_run {
    char id[ID_LENGTH + 1];
    struct output_owner *owner;
    size_t bytes;
    int64_t end_ms;
    struct {
        char *text; // and behind its NUL the MIME type
        size_t length;
    } parts[OUTPUT_PART_MAX];
    TAILQ_ENTRY(output_run) all, own;
};

struct mcp_outputs {
    void *runs, *owners; // tsearch trees
    TAILQ_HEAD(, output_owner) owner_list;
    size_t bytes;
    struct run_list list;
    struct event_base *base; // NULL in tests: nothing expires by itself
    struct timer timer;
};

static int compare_runs(const void *a, const void *b)
{
    return strcmp(((const struct output_run *)a)->id, ((const struct output_run *)b)->id);
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(((const struct output_owner *)a)->name, ((const struct output_owner *)b)->name);
}

// ---- removing
// ------------------------------------------------------------------------------------

static void release_owner(struct mcp_outputs *outputs, struct output_owner *owner)
{
    if (!TAILQ_EMPTY(&owner->runs))
        return;
    (void)tdelete(owner, &outputs->owners, compare_owners);
    TAILQ_REMOVE(&outputs->owner_list, owner, entry);
    free(owner);
}

static void forget(struct mcp_outputs *outputs, struct output_run *run)
{
    struct output_owner *owner = run->owner;
    (void)tdelete(run, &outputs->runs, compare_runs);
    TAILQ_REMOVE(&outputs->list, run, all);
    TAILQ_REMOVE(&owner->runs, run, own);
    outputs->bytes -= run->bytes;
    owner->bytes -= run->bytes;
    for (int i = 0; i < OUTPUT_PART_MAX; i++)
        free(run->parts[i].text);
    free(run);
    release_owner(outputs, owner);
}

static void on_timer(void *argument);

static void set_timer(struct mcp_outputs *outputs)
{
    struct output_run *first = TAILQ_FIRST(&outputs->list);
    if (!first || !outputs->base) {
        timer_stop(&outputs->timer);
        return;
    }
    int64_t wait_ms = first->end_ms - clock_ms();
    if (wait_ms < 0)
        wait_ms = 0;
    // A second later than due, so that one wake-up serves all that end about now.
    (void)timer_set(&outputs->timer, outputs->base, (uint64_t)wait_ms + 1000, on_timer, outputs);
}

static void expire(struct mcp_outputs *outputs)
{
    struct output_run *first;
    int64_t now_ms = clock_ms();
    while ((first = TAILQ_FIRST(&outputs->list)) && first->end_ms <= now_ms)
        forget(outputs, first);
}

static void on_timer(void *argument)
{
    expire(argument);
    set_timer(argument);
}

// The oldest run of a list but one, or NULL.
#define OLDEST_BUT(list, field, except)                                                            \
    (TAILQ_FIRST(list) == (except) ? TAILQ_NEXT(TAILQ_FIRST(list), field) : TAILQ_FIRST(list))

// The oldest run, but not `except`, of the owner that has most bytes, so that no owner pushes out
// runs of an owner that has fewer.
static struct output_run *find_victim(struct mcp_outputs *outputs, const struct output_run *except)
{
    struct output_run *victim = NULL;
    size_t most = 0;
    struct output_owner *o;
    TAILQ_FOREACH (o, &outputs->owner_list, entry) {
        struct output_run *run = o->bytes > most ? OLDEST_BUT(&o->runs, own, except) : NULL;
        if (run) {
            victim = run;
            most = o->bytes;
        }
    }
    return victim;
}

// Makes room by removing the oldest runs, never `except`.  False: it does not fit.
static bool make_room(struct mcp_outputs *outputs, const struct output_run *except, size_t bytes)
{
    struct output_owner *owner = except->owner;
    struct output_run *run;
    while (owner->bytes + bytes > OWNER_MAX && (run = OLDEST_BUT(&owner->runs, own, except)))
        forget(outputs, run);
    // Each look walks all owners, so looks are bounded; after that the oldest of all goes.
    for (int looks = 0; outputs->bytes + bytes > TOTAL_MAX; looks++) {
        run = looks < LOOKS_MAX ? find_victim(outputs, except)
                                : OLDEST_BUT(&outputs->list, all, except);
        if (!run)
            break;
        forget(outputs, run);
    }
    return owner->bytes + bytes <= OWNER_MAX && outputs->bytes + bytes <= TOTAL_MAX;
}

// ---- adding -------------------------------------------------------------------------------------

static struct output_owner *take_owner(struct mcp_outputs *outputs, const char *name)
{
    struct output_owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return NULL;
    snprintf(owner->name, sizeof owner->name, "%s", name);
    TAILQ_INIT(&owner->runs);
    struct output_owner **found = tsearch(owner, &outputs->owners, compare_owners);
    if (!found || *found != owner)
        free(owner);
    else
        TAILQ_INSERT_TAIL(&outputs->owner_list, owner, entry);
    return found ? *found : NULL;
}

static struct output_run *find(struct mcp_outputs *outputs, const char *owner, const char *id)
{
    struct output_run key;
    if (strnlen(id, ID_LENGTH + 1) != ID_LENGTH)
        return NULL;
    memcpy(key.id, id, sizeof key.id);
    struct output_run **found = tfind(&key, &outputs->runs, compare_runs);
    // SECURITY: a client that learned another owner's id must not read its outputs.
    return found && strcmp((*found)->owner->name, owner) == 0 ? *found : NULL;
}

static struct output_run *add_run(struct mcp_outputs *outputs, const char *owner_name,
                                  const char *id)
{
    if (strnlen(id, ID_LENGTH + 1) != ID_LENGTH || strlen(owner_name) > MCP_OWNER_MAX)
        return NULL;
    struct output_run *run = calloc(1, sizeof *run);
    struct output_owner *owner = run ? take_owner(outputs, owner_name) : NULL;
    if (!owner) {
        free(run);
        return NULL;
    }
    memcpy(run->id, id, sizeof run->id);
    run->owner = owner;
    run->bytes = RUN_OVERHEAD;
    run->end_ms = clock_ms() + TTL_MS;
    struct output_run **found = tsearch(run, &outputs->runs, compare_runs);
    if (!found || *found != run) { // no memory, or another owner has this id
        free(run);
        release_owner(outputs, owner);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&outputs->list, run, all);
    TAILQ_INSERT_TAIL(&owner->runs, run, own);
    outputs->bytes += run->bytes;
    owner->bytes += run->bytes;
    if (TAILQ_FIRST(&outputs->list) == run)
        set_timer(outputs);
    return run;
}

int mcp_outputs_add(struct mcp *m, const char *owner, const char *execution_id,
                    enum output_part part, const char *mime_type, const char *text, size_t length)
{
    struct mcp_outputs *outputs = m->outputs;
    if (!outputs || length > RUN_MAX)
        return -1;
    expire(outputs);
    struct output_run *run = find(outputs, owner, execution_id);
    bool fresh = !run;
    if (!run && !(run = add_run(outputs, owner, execution_id)))
        return -1;
    size_t old = run->parts[part].length;
    char *copy = NULL;
    if (run->bytes - old + length <= RUN_MAX + RUN_OVERHEAD && make_room(outputs, run, length))
        copy = malloc(length + 1 + strlen(mime_type) + 1);
    if (!copy) {
        if (fresh)
            forget(outputs, run);
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
    outputs->bytes += length - old;
    return 0;
}

const char *mcp_outputs_find(struct mcp *m, const char *owner, const char *execution_id,
                             enum output_part part, const char **ret_mime_type, size_t *ret_length)
{
    struct mcp_outputs *outputs = m->outputs;
    if (!outputs)
        return NULL;
    expire(outputs);
    struct output_run *run = find(outputs, owner, execution_id);
    if (!run || !run->parts[part].text)
        return NULL;
    *ret_length = run->parts[part].length;
    *ret_mime_type = run->parts[part].text + run->parts[part].length + 1;
    return run->parts[part].text;
}

json_t *mcp_outputs_ids(struct mcp *m, const char *owner, const char *prefix, size_t max)
{
    struct output_owner key, **found;
    json_t *ids = json_array();
    if (!m->outputs || strlen(owner) > MCP_OWNER_MAX)
        return ids;
    snprintf(key.name, sizeof key.name, "%s", owner);
    found = tfind(&key, &m->outputs->owners, compare_owners);
    if (!found)
        return ids;
    struct output_run *run;
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

void mcp_outputs_uri(const char *execution_id, enum output_part part, char buf[OUTPUT_URI_MAX])
{
    snprintf(buf, OUTPUT_URI_MAX, "%s%.36s/%s", scheme, execution_id, output_part_names[part]);
}

// Exactly the form that mcp_outputs_uri() writes: a resource has one name.
int mcp_outputs_parse_uri(const char *uri, char execution_id[ID_LENGTH + 1], enum output_part *ret)
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
    for (int i = 0; i < OUTPUT_PART_MAX; i++)
        if (strcmp(name, output_part_names[i]) == 0) {
            memcpy(execution_id, uri + at, ID_LENGTH);
            execution_id[ID_LENGTH] = '\0';
            *ret = (enum output_part)i;
            return 0;
        }
    return -1;
}

// ---- open and close
// ----------------------------------------------------------------------------------

int mcp_outputs_open(struct mcp *m, struct err *e)
{
    struct mcp_outputs *outputs = calloc(1, sizeof *outputs);
    if (!outputs)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the store of outputs");
    TAILQ_INIT(&outputs->list);
    TAILQ_INIT(&outputs->owner_list);
    outputs->base = m->base;
    m->outputs = outputs;
    return 0;
}

void mcp_outputs_close(struct mcp *m)
{
    struct mcp_outputs *outputs = m->outputs;
    struct output_run *first;
    if (!outputs)
        return;
    while ((first = TAILQ_FIRST(&outputs->list)))
        forget(outputs, first);
    timer_stop(&outputs->timer);
    free(outputs);
    m->outputs = NULL;
}
