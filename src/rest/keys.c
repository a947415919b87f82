// SPDX-License-Identifier: Apache-2.0
// keys: see keys.h.
// SECURITY: the text of a caller is only hashed and compared.  A key is found by the hash of its
// owner and its text, so no text leads to a key of another owner.

#include "rest/keys.h"

#include <openssl/evp.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include <event2/keyvalq_struct.h> // behind sys/queue.h: else a later event_struct.h undefines it

#include "base/cleanup.h"
#include "base/clock.h"
#include "rest/call.h"

enum { HASH = 32, TYPE_MAX = 48 };

struct owner {
    char name[65];
    size_t count, bytes;
    TAILQ_HEAD(, rest_key) all, answered; // oldest first; answered: those with an answer
};

struct rest_key {
    unsigned char id[HASH]; // first: of owner and text
    unsigned char request[HASH];
    struct keys *keys;
    struct owner *owner;
    int64_t since_ms;
    bool done;
    bool lost;     // the answer was too large, or was removed to make room
    bool answered; // it is in the lists `answered`
    int status;
    char type[TYPE_MAX];
    char *answer;
    size_t length, room;
    unsigned waiting;
    TAILQ_HEAD(, rest_call) waiters;
    TAILQ_ENTRY(rest_key) all, of_owner, answered_all, answered_of_owner;
};

struct keys {
    void *by_id, *owners; // tsearch trees
    size_t count, bytes;
    TAILQ_HEAD(, rest_key) all, answered; // as of an owner
};

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, HASH);
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(((const struct owner *)a)->name, ((const struct owner *)b)->name);
}

// ---- the table ----------------------------------------------------------------------------------

struct keys *keys_new(void)
{
    struct keys *k = calloc(1, sizeof *k);
    if (k) {
        TAILQ_INIT(&k->all);
        TAILQ_INIT(&k->answered);
    }
    return k;
}

size_t keys_count(const struct keys *k)
{
    return k->count;
}

size_t keys_bytes(const struct keys *k)
{
    return k->bytes;
}

// Counts allocated bytes, not used ones.  0, or -1: memory is out, and nothing was changed.
static int set_room(struct rest_key *key, size_t room)
{
    char *answer = room ? realloc(key->answer, room) : NULL;
    if (room && !answer)
        return -1;
    if (!room)
        free(key->answer);
    key->answer = answer;
    key->keys->bytes += room - key->room;
    key->owner->bytes += room - key->room;
    key->room = room;
    return 0;
}

static void keep(struct rest_key *key)
{
    (void)set_room(key, key->length); // if it fails, the larger block stays, and is counted
    key->answered = true;
    TAILQ_INSERT_TAIL(&key->keys->answered, key, answered_all);
    TAILQ_INSERT_TAIL(&key->owner->answered, key, answered_of_owner);
}

static void lose_answer(struct rest_key *key)
{
    if (key->answered) {
        TAILQ_REMOVE(&key->keys->answered, key, answered_all);
        TAILQ_REMOVE(&key->owner->answered, key, answered_of_owner);
    }
    key->answered = false;
    (void)set_room(key, 0);
    key->length = 0;
    key->lost = true;
}

static void key_free(struct rest_key *key)
{
    struct keys *k = key->keys;
    struct owner *o = key->owner;
    lose_answer(key);
    (void)tdelete(key, &k->by_id, compare_ids);
    TAILQ_REMOVE(&k->all, key, all);
    TAILQ_REMOVE(&o->all, key, of_owner);
    k->count--;
    if (--o->count == 0) {
        (void)tdelete(o, &k->owners, compare_owners);
        free(o);
    }
    free(key);
}

void keys_free(struct keys *k)
{
    struct rest_key *key;
    while (k && (key = TAILQ_FIRST(&k->all)))
        key_free(key);
    free(k);
}

static struct owner *find_owner(struct keys *k, const char *name)
{
    struct owner look, **found;
    snprintf(look.name, sizeof look.name, "%s", name);
    found = tfind(&look, &k->owners, compare_owners);
    if (found)
        return *found;
    struct owner *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    memcpy(o->name, look.name, sizeof o->name);
    TAILQ_INIT(&o->all);
    TAILQ_INIT(&o->answered);
    if (tsearch(o, &k->owners, compare_owners))
        return o;
    free(o);
    return NULL;
}

// Removes keys that are too old, and the oldest keys of an owner with too many.  Keys of calls that
// are under way stay.
static void tidy(struct keys *k, struct owner *o, int64_t now_ms)
{
    struct rest_key *key, *next;
    for (key = TAILQ_FIRST(&k->all); key && now_ms - key->since_ms >= KEYS_TTL_MS; key = next) {
        next = TAILQ_NEXT(key, all);
        if (key->done && (key->owner != o || o->count > 1))
            key_free(key);
    }
    for (key = TAILQ_FIRST(&o->all); key && o->count >= KEYS_OWNER_MAX; key = next) {
        next = TAILQ_NEXT(key, of_owner);
        if (key->done && o->count > 1)
            key_free(key);
    }
    for (key = TAILQ_FIRST(&k->all); key && k->count >= KEYS_MAX; key = next) {
        next = TAILQ_NEXT(key, all);
        if (key->done && (key->owner != o || o->count > 1))
            key_free(key);
    }
}

static struct rest_key *key_new(struct keys *k, const char *owner, const unsigned char *id,
                                const unsigned char *request, int64_t now_ms)
{
    struct owner *o = find_owner(k, owner);
    struct rest_key *key = o ? calloc(1, sizeof *key) : NULL;
    if (!key)
        return NULL;
    tidy(k, o, now_ms);
    memcpy(key->id, id, HASH);
    memcpy(key->request, request, HASH);
    key->keys = k;
    key->owner = o;
    key->since_ms = now_ms;
    TAILQ_INIT(&key->waiters);
    if (!tsearch(key, &k->by_id, compare_ids)) {
        free(key);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&k->all, key, all);
    TAILQ_INSERT_TAIL(&o->all, key, of_owner);
    k->count++;
    o->count++;
    return key;
}

// Each piece has its length before it, so that different lists of pieces never look alike.
static bool hash(unsigned char ret[HASH], const void *const *pieces, const size_t *lengths,
                 size_t count)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; good && i < count; i++)
        good = EVP_DigestUpdate(context, &lengths[i], sizeof lengths[i]) == 1 &&
               EVP_DigestUpdate(context, pieces[i], lengths[i]) == 1;
    good = good && EVP_DigestFinal_ex(context, ret, NULL) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

struct rest_key *keys_take(struct keys *k, const char *owner, const char *text, const void *body,
                           size_t length, int64_t now_ms, int *ret_state)
{
    unsigned char id[HASH], request[HASH];
    const void *of_id[] = {owner, text}, *of_request[] = {body};
    if (!hash(id, of_id, (size_t[]){strlen(owner), strlen(text)}, 2) ||
        !hash(request, of_request, (size_t[]){length}, 1))
        return NULL;
    struct rest_key **found = tfind(id, &k->by_id, compare_ids), *key = found ? *found : NULL;
    if (key && key->done && now_ms - key->since_ms >= KEYS_TTL_MS) {
        key_free(key);
        key = NULL;
    }
    if (!key) {
        *ret_state = KEYS_NEW;
        return key_new(k, owner, id, request, now_ms);
    }
    *ret_state = memcmp(key->request, request, HASH) != 0 ? KEYS_OTHER
                 : !key->done                             ? KEYS_UNDER_WAY
                 : key->lost                              ? KEYS_NOT_KEPT
                                                          : KEYS_KEPT;
    return key;
}

// ---- answers ------------------------------------------------------------------------------------

void keys_begin(struct rest_key *key, int status, const char *type)
{
    key->status = status;
    snprintf(key->type, sizeof key->type, "%s", type);
}

// Removes the oldest answers to make room, the caller's own first; never one that is being written.
static void make_room(struct rest_key *key)
{
    struct keys *k = key->keys;
    struct rest_key *old;
    while (key->owner->bytes > KEYS_OWNER_BYTES && (old = TAILQ_FIRST(&key->owner->answered)))
        lose_answer(old);
    while (k->bytes > KEYS_BYTES && (old = TAILQ_FIRST(&k->answered)))
        lose_answer(old);
    if (key->owner->bytes > KEYS_OWNER_BYTES || k->bytes > KEYS_BYTES)
        lose_answer(key); // all others are being written
}

void keys_note(struct rest_key *key, const void *data, size_t length)
{
    if (key->lost)
        return;
    size_t need = key->length + length;
    if (length > KEYS_ANSWER_MAX || need > KEYS_ANSWER_MAX) {
        lose_answer(key);
        return;
    }
    if (need > key->room) {
        size_t room = key->room ? 2 * key->room : 1024;
        while (room < need)
            room *= 2;
        if (set_room(key, room) < 0) {
            lose_answer(key);
            return;
        }
    }
    if (length)
        memcpy(key->answer + key->length, data, length);
    key->length = need;
    make_room(key);
}

static void fail_not_stored(struct rest_call *c)
{
    rest_fail(
        c, 409, "idempotency_answer_not_kept",
        "what the call did can be seen in its session or its artifacts; to do it again, use "
        "another key",
        "this call was made before, and its answer was not kept: it was larger than %d bytes, "
        "or had to make room",
        KEYS_ANSWER_MAX);
}

static void replay(const struct rest_key *key, struct rest_call *c)
{
    if (key->lost) {
        fail_not_stored(c);
        return;
    }
    struct http_exchange *x = rest_let_go(c);
    if (x) {
        http_add_header(x, "Cache-Control", "no-store");
        http_add_header(x, "Idempotency-Replayed", "true");
        http_reply(x, key->status, key->type, key->answer, key->length);
    }
    rest_free(c);
}

static void finish(struct rest_key *key, bool answered)
{
    struct rest_call *c;
    while ((c = TAILQ_FIRST(&key->waiters))) {
        keys_leave(c);
        if (answered)
            replay(key, c);
        else
            rest_fail(c, 409, "idempotency_key_in_use", "send it again with the same key",
                      "the first call with this key was cancelled");
    }
    key->done = true;
    if (!answered || key->status >= 400)
        key_free(key); // nothing was done: the key is free again
    else if (!key->lost)
        keep(key);
}

void keys_end(struct rest_key *key)
{
    finish(key, true);
}

void keys_drop(struct rest_key *key)
{
    finish(key, false);
}

// ---- calls --------------------------------------------------------------------------------------

int keys_parse(const char *value, char buf[KEYS_TEXT_MAX + 1])
{
    size_t n = strlen(value), at = 0;
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    bool quoted = n >= 2 && value[0] == '"' && value[n - 1] == '"';
    for (size_t i = quoted; i < n - quoted; i++) {
        char c = value[i];
        if (quoted && c == '\\' && ++i < n - 1)
            c = value[i];
        else if (c == '"' || (quoted && c == '\\'))
            return -1;
        if (c < ' ' || c > '~' || at >= KEYS_TEXT_MAX)
            return -1;
        buf[at++] = c;
    }
    buf[at] = '\0';
    return at ? 0 : -1;
}

// 0: no header, 1: in buf, -1: answered.
static int read_header(struct rest_call *c, char buf[KEYS_TEXT_MAX + 1])
{
    struct evkeyval *header;
    const char *value = NULL;
    bool twice = false;
    TAILQ_FOREACH (header, evhttp_request_get_input_headers(c->x->ev), next) {
        if (strcasecmp(header->key, "Idempotency-Key") != 0)
            continue;
        twice = value != NULL;
        value = header->value + strspn(header->value, " \t");
        if (twice)
            break;
    }
    if (!value)
        return 0;
    if (!twice && keys_parse(value, buf) == 0)
        return 1;
    rest_fail(c, 400, "bad_idempotency_key",
              "send one, such as Idempotency-Key: \"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
              twice ? "the header Idempotency-Key came more than once"
                    : "the header Idempotency-Key must be 1 to %d printable ASCII characters",
              KEYS_TEXT_MAX);
    return -1;
}

static void wait_for(struct rest_key *key, struct rest_call *c)
{
    if (key->waiting >= KEYS_WAITING_MAX) {
        rest_fail(c, 409, "idempotency_key_in_use", "wait for the answer of the first call",
                  "%u calls with this key already wait for the first one", key->waiting);
        return;
    }
    rest_drop_body(c);
    c->waits_for = key;
    key->waiting++;
    TAILQ_INSERT_TAIL(&key->waiters, c, waiters);
}

void keys_leave(struct rest_call *c)
{
    struct rest_key *key = TAKE_PTR(c->waits_for);
    if (!key)
        return;
    key->waiting--;
    TAILQ_REMOVE(&key->waiters, c, waiters);
}

bool keys_enter(struct keys *k, struct rest_call *c)
{
    char text[KEYS_TEXT_MAX + 1];
    size_t length;
    int state = KEYS_NEW, given = read_header(c, text);
    if (given <= 0)
        return given == 0;
    const char *body = http_body(c->x, &length);
    unsigned char whole[HASH];
    const void *pieces[] = {&c->x->method, c->x->path, c->x->query, body};
    struct rest_key *key = NULL;
    if (hash(whole, pieces,
             (size_t[]){sizeof c->x->method, strlen(c->x->path), strlen(c->x->query), length}, 4))
        key = keys_take(k, c->owner, text, whole, HASH, clock_ms(), &state);
    if (!key)
        rest_answer(c, 503, NULL);
    else if (state == KEYS_NEW)
        c->key = key;
    else if (state == KEYS_UNDER_WAY)
        wait_for(key, c);
    else if (state == KEYS_OTHER)
        rest_fail(c, 409, "idempotency_key_reused", "use a new key for a new request",
                  "this Idempotency-Key was used for another request: its method, path or body was "
                  "not the same");
    else
        replay(key, c);
    return key && state == KEYS_NEW; // else the call may be freed
}
