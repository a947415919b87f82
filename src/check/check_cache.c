// SPDX-License-Identifier: Apache-2.0
//
// check_cache: answers of checks, for CHECK_KEEP_MS: editors and models check the same text again.
// See check.h.

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

enum { BUCKETS = 256, HASH = 32, OVERHEAD = 512 };

struct entry {
    unsigned char key[HASH];
    json_t *answer;
    size_t size;
    int64_t until_ms;
    struct entry *next;
    TAILQ_ENTRY(entry) list; // least lately used first
};

struct check_cache {
    size_t bytes;
    struct entry *buckets[BUCKETS];
    TAILQ_HEAD(, entry) all;
};

struct check_cache *check_cache_new(void)
{
    struct check_cache *m = calloc(1, sizeof *m);
    if (m)
        TAILQ_INIT(&m->all);
    return m;
}

static struct entry **find_entry(struct check_cache *m, const unsigned char key[HASH])
{
    struct entry **at = &m->buckets[key[0]];
    while (*at && memcmp((*at)->key, key, HASH) != 0)
        at = &(*at)->next;
    return at;
}

static void drop(struct check_cache *m, struct entry *k)
{
    *find_entry(m, k->key) = k->next;
    TAILQ_REMOVE(&m->all, k, list);
    m->bytes -= k->size;
    json_decref(k->answer);
    free(k);
}

void check_cache_free(struct check_cache *m)
{
    if (!m)
        return;
    for (struct entry *k; (k = TAILQ_FIRST(&m->all));)
        drop(m, k);
    free(m);
}

int check_cache_key(const char *const parts[], const size_t lengths[], size_t count,
                    unsigned char ret[HASH])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (size_t i = 0; i < count; i++)
        ok = ok && EVP_DigestUpdate(context, &lengths[i], sizeof lengths[i]) &&
             EVP_DigestUpdate(context, parts[i], lengths[i]);
    ok = ok && EVP_DigestFinal_ex(context, ret, NULL);
    EVP_MD_CTX_free(context);
    return ok ? 0 : -1;
}

json_t *check_cache_get(struct check_cache *m, const unsigned char key[HASH], int64_t now_ms)
{
    struct entry *k = *find_entry(m, key);
    if (!k)
        return NULL;
    if (k->until_ms <= now_ms) {
        drop(m, k);
        return NULL;
    }
    TAILQ_REMOVE(&m->all, k, list);
    TAILQ_INSERT_TAIL(&m->all, k, list);
    return k->answer;
}

void check_cache_put(struct check_cache *m, const unsigned char key[HASH], json_t *answer,
                     size_t size, int64_t now_ms)
{
    struct entry *old = *find_entry(m, key), *k;
    size += OVERHEAD;
    if (old)
        drop(m, old);
    if (size > CHECK_CACHE_MAX / 4 || !(k = calloc(1, sizeof *k)))
        return;
    while (m->bytes + size > CHECK_CACHE_MAX)
        drop(m, TAILQ_FIRST(&m->all));
    *k = (struct entry){
        .answer = json_incref(answer), .size = size, .until_ms = now_ms + CHECK_KEEP_MS};
    memcpy(k->key, key, HASH);
    *find_entry(m, key) = k;
    TAILQ_INSERT_TAIL(&m->all, k, list);
    m->bytes += size;
}

size_t check_cache_bytes(const struct check_cache *m)
{
    return m->bytes;
}
