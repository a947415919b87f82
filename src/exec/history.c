// SPDX-License-Identifier: Apache-2.0
//
// history: see history.h.  Runs in the gate; touches nothing but its arguments.

#include "exec/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "run/run.h"
#include "session/session.h"

enum { BUCKETS = 256, ENTRY_COST = 1024 }; // bytes of an entry besides its texts

struct history {
    char owner[65], id[SESSION_ID_SIZE], name[SESSION_NAME_MAX + 1];
    json_t *entries; // each has "bytes"
    size_t bytes;
    uint64_t omitted;
    struct history *next; // in its bucket
    TAILQ_ENTRY(history) list;
};

struct histories {
    struct history *by_id[BUCKETS];
    TAILQ_HEAD(, history) all; // the one that was not written for longest first
    size_t count, bytes;
};

// ---- tables -------------------------------------------------------------------------------------

static struct history **bucket_of(const struct histories *h, const char *id)
{
    uint32_t n = 2166136261u;
    for (; *id; id++)
        n = (n ^ (unsigned char)*id) * 16777619u;
    return (struct history **)&h->by_id[n % BUCKETS];
}

static struct history *find(const struct histories *h, const char *id)
{
    for (struct history *one = *bucket_of(h, id); one; one = one->next)
        if (strcmp(one->id, id) == 0)
            return one;
    return NULL;
}

static void drop(struct histories *h, struct history *one)
{
    struct history **at = bucket_of(h, one->id);
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    TAILQ_REMOVE(&h->all, one, list);
    h->bytes -= one->bytes;
    h->count--;
    json_decref(one->entries);
    free(one);
}

struct histories *histories_new(void)
{
    struct histories *h = calloc(1, sizeof *h);
    if (h)
        TAILQ_INIT(&h->all);
    return h;
}

void histories_free(struct histories *h)
{
    struct history *one;
    while (h && (one = TAILQ_FIRST(&h->all)))
        drop(h, one);
    free(h);
}

// SECURITY: a key that has many sessions pushes out its own, and not those of others.
static struct history *next_to_go(const struct histories *h, const struct history *keep)
{
    struct history *one, *first = NULL;
    TAILQ_FOREACH (one, &h->all, list) {
        if (one == keep)
            continue;
        if (strcmp(one->owner, keep->owner) == 0)
            return one;
        first = first ? first : one;
    }
    return first;
}

static void make_room(struct histories *h, const struct history *keep)
{
    struct history *one;
    while ((h->count > HISTORIES_MAX || h->bytes > HISTORIES_BYTES) && (one = next_to_go(h, keep)))
        drop(h, one);
}

// The history of a session, as the one that was written last; made when it is missing.
static struct history *open_history(struct histories *h, const char *owner, const char *id,
                                    const char *name)
{
    struct history *one = find(h, id);
    if (one) {
        TAILQ_REMOVE(&h->all, one, list);
    } else {
        one = calloc(1, sizeof *one);
        if (!one || !(one->entries = json_array())) {
            free(one);
            return NULL;
        }
        snprintf(one->owner, sizeof one->owner, "%s", owner);
        snprintf(one->id, sizeof one->id, "%s", id);
        struct history **at = bucket_of(h, id);
        one->next = *at;
        *at = one;
        h->count++;
    }
    snprintf(one->name, sizeof one->name, "%s", name);
    TAILQ_INSERT_TAIL(&h->all, one, list);
    return one;
}

// Takes the entry.
static void append(struct histories *h, struct history *one, json_t *entry)
{
    size_t bytes = (size_t)json_integer_value(json_object_get(entry, "bytes"));
    if (!entry || json_array_append_new(one->entries, entry) < 0)
        return;
    one->bytes += bytes;
    h->bytes += bytes;
    while (json_array_size(one->entries) > 1 &&
           (one->bytes > HISTORY_BYTES || json_array_size(one->entries) > HISTORY_ENTRIES)) {
        bytes =
            (size_t)json_integer_value(json_object_get(json_array_get(one->entries, 0), "bytes"));
        one->bytes -= bytes;
        h->bytes -= bytes;
        one->omitted++;
        (void)json_array_remove(one->entries, 0);
    }
}

// ---- an entry -----------------------------------------------------------------------------------

// The beginning of a text, as valid UTF-8.
static json_t *text_json(const char *text, size_t length, size_t most, size_t *bytes, bool *cut)
{
    size_t clean = 0;
    if (!text || !length)
        return json_null();
    if (length > most) {
        length = most;
        *cut = true;
        while (length && ((unsigned char)text[length] & 0xC0) == 0x80)
            length--; // no half character
    }
    _cleanup_free_ char *copy = utf8_clean(text, length, &clean);
    *bytes += clean;
    return copy ? json_stringn_nocheck(copy, clean) : json_null();
}

static json_t *member(json_t *o, const char *name, size_t *bytes, bool *cut)
{
    json_t *value = json_object_get(o, name);
    return text_json(json_string_value(value), json_string_length(value), HISTORY_TEXT_MAX, bytes,
                     cut);
}

// The object may have "" in place of output that its caller inserts: see run.h.
static json_t *output_json(const struct run *run, enum run_stream stream, size_t *bytes, bool *cut)
{
    struct evbuffer *buffer = run ? run->output[stream] : NULL;
    size_t length = buffer ? evbuffer_get_length(buffer) : 0, most = HISTORY_OUTPUT_MAX;
    *cut |= length > most;
    length = length < most ? length : most;
    _cleanup_free_ char *text = length ? malloc(length) : NULL;
    if (!text || evbuffer_copyout(buffer, text, length) != (ev_ssize_t)length)
        return json_null();
    return text_json(text, length, most, bytes, cut);
}

static json_t *pictures_json(json_t *object, size_t *bytes, bool *cut)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach (json_object_get(object, "display"), i, item)
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            json_t *data = json_object_get(item, types[t]);
            if (!json_is_string(data))
                continue;
            if (json_string_length(data) > HISTORY_PICTURE_MAX) {
                *cut = true;
                continue;
            }
            *bytes += json_string_length(data);
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:O}", "type", types[t], "data", data));
            break;
        }
    return list;
}

static json_t *now_json(void)
{
    char when[TEXT_TIME_MAX];
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    text_format_time((int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000, when);
    return json_string(when);
}

static json_t *entry_json(const struct history_run *r)
{
    json_t *object = r->object;
    json_t *error = json_object_get(object, "error"), *count;
    size_t bytes = ENTRY_COST;
    bool cut = false;
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:O}", "at", now_json(), "code",
                          text_json(r->code, r->code_length, HISTORY_CODE_MAX, &bytes, &cut),
                          "stdout", output_json(r->run, RUN_STDOUT, &bytes, &cut), "stderr",
                          output_json(r->run, RUN_STDERR, &bytes, &cut), "result",
                          member(object, "result", &bytes, &cut), "error",
                          member(error, "text", &bytes, &cut), "pictures",
                          pictures_json(object, &bytes, &cut), "verdict",
                          json_object_get(object, "verdict"));
    count = json_object_get(object, "execution_count");
    if (r->undo)
        count = NULL;
    (void)json_object_set_new(o, "number",
                              json_is_integer(count) ? json_incref(count) : json_null());
    (void)json_object_set_new(o, "undo", json_boolean(r->undo));
    (void)json_object_set_new(o, "cut", json_boolean(cut));
    (void)json_object_set_new(o, "bytes", json_integer((json_int_t)bytes));
    return o;
}

void history_note(struct histories *h, const struct history_run *r)
{
    const char *name = json_string_value(json_object_get(r->object, "session_name"));
    struct history *one = open_history(h, r->owner, r->session, name ? name : "");
    if (!one)
        return;
    append(h, one, entry_json(r));
    make_room(h, one);
}

void history_fork(struct histories *h, const struct session *s, const struct session *fork)
{
    const struct history *from = find(h, s->id);
    struct history *to = from ? open_history(h, fork->owner, fork->id, fork->plan.name) : NULL;
    json_t *entry;
    size_t i;
    if (!to)
        return;
    to->omitted = from->omitted;
    json_array_foreach (from->entries, i, entry)
        append(h, to, json_incref(entry));
    make_room(h, to);
}

// ---- showing ------------------------------------------------------------------------------------

json_t *history_json(const struct histories *h, const char *owner, const char *session)
{
    const struct history *one, *found = NULL;
    TAILQ_FOREACH (one, &h->all, list) // the youngest of a name is the last
        if (strcmp(one->owner, owner) == 0 &&
            (strcmp(one->id, session) == 0 ||
             (!session_is_id(session) && one->name[0] && strcmp(one->name, session) == 0)))
            found = one;
    if (!found)
        return NULL;
    return json_pack("{s:s, s:s?, s:I, s:O}", "session", found->id, "name",
                     found->name[0] ? found->name : NULL, "omitted", (json_int_t)found->omitted,
                     "runs", found->entries);
}
