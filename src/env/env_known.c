// SPDX-License-Identifier: Apache-2.0
//
// env_known: recent answers of the index.  The same requirements under the same conditions have the
// same lock, so an environment whose wheels are all unpacked is made without a box and without the
// network.  Called by installer/installer.c before it starts a box, and by env_job.c after a box
// has answered.
//
// Invariants:
//   (1) the key is a hash of the interpreter and of everything in the request that could change the
//       answer.
//   (2) an answer is used for at most index-age; an upgrade always asks the index again.
//   (3) SECURITY: answers are shared by all keys.  So only answers of boxes in which no code of a
//       package can have run are stored, and they are used with shared wheels only, never with
//       wheels of a scope.

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "env/env_jobs.h"
#include "env/env_text.h"

// May a stored answer serve this job?  Not with a wheelhouse or an address: their files can change
// at any time.
static bool is_lasting(const struct env_job *j)
{
    const struct config *c = j->all->gate->facts->config;
    json_t *item;
    size_t i;
    json_array_foreach (j->wanted, i, item) {
        if (strchr(json_string_value(item), '@'))
            return false;
    }
    return c->index_age_ms && j->change == ENV_INSTALL && !j->lock_text && !j->source_builds &&
           !c->offline && !c->find_links[0];
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

// The requirements sorted, in lower case and without blanks, so that equal sets have one key; new.
static json_t *sorted(const json_t *list)
{
    size_t count = json_array_size(list);
    char(*texts)[ENV_REQUIREMENT_MAX + 1] = calloc(count ? count : 1, sizeof *texts);
    json_t *ret = texts ? json_array() : NULL;
    for (size_t i = 0; ret && i < count; i++)
        env_plain_form(json_string_value(json_array_get(list, i)), texts[i]);
    if (ret)
        qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 0; ret && i < count; i++)
        (void)json_array_append_new(ret, json_string(texts[i]));
    free(texts);
    return ret;
}

static int key_of(const json_t *request, const struct interp *interp, char ret[ENV_SHA256 + 1])
{
    static const char *const unimportant[] = {"known", "timeout", "limits", "upgrade"};
    unsigned char hash[EVP_MAX_MD_SIZE];
    json_auto_t *o = json_copy((json_t *)request);
    for (size_t i = 0; o && i < ARRAY_LEN(unimportant); i++)
        (void)json_object_del(o, unimportant[i]);
    int failed = !o || json_object_set_new(o, "requirements",
                                           sorted(json_object_get(request, "requirements")));
    if (interp && !failed)
        failed = json_object_set_new(o, "interpreter",
                                     json_pack("[ss]", interp->executable, interp->version));
    _cleanup_free_ char *text = failed ? NULL : json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text || !EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(), NULL))
        return -1;
    for (size_t i = 0; i < ENV_SHA256 / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", hash[i]);
    return 0;
}

static json_t *entry_of(struct env_job *j, const json_t *package)
{
    struct env_wheel w;
    struct err e;
    json_t *entry = env_lock_entry(j, package, &e);
    if (!entry)
        return NULL;
    if (env_db_find_wheel(j->all->db, json_string_value(json_object_get(entry, "sha256")), "",
                          &w) &&
        env_wheel_set(entry, &w) == 0)
        return entry;
    json_decref(entry);
    return NULL;
}

static json_t *lock_of(struct env_job *j, const json_t *packages)
{
    json_t *lock = json_is_array(packages) ? json_array() : NULL, *package;
    size_t i;
    json_array_foreach ((json_t *)packages, i, package) {
        if (lock && json_array_append_new(lock, entry_of(j, package)) == 0)
            continue;
        json_decref(lock); // a wheel was removed meanwhile: the answer cannot be used
        return NULL;
    }
    return lock;
}

bool env_known_find(struct env_job *j, const json_t *request)
{
    const struct config *c = j->all->gate->facts->config;
    if (!request || !is_lasting(j) || key_of(request, j->all->gate->facts->interp, j->known) < 0) {
        j->known[0] = '\0';
        return false;
    }
    if (j->upgrade)
        return false;
    json_auto_t *said = env_db_known_answer(j->all->db, j->known, env_now_ms() - c->index_age_ms);
    json_t *warnings = json_object_get(said, "warnings");
    j->lock = lock_of(j, json_object_get(said, "packages"));
    if (j->lock && json_is_array(warnings) && json_array_size(warnings) <= 50)
        j->warnings = json_incref(warnings);
    return j->lock != NULL;
}

void env_known_keep(struct env_job *j)
{
    const struct config *c = j->all->gate->facts->config;
    if (!j->known[0] || !j->answer)
        return;
    json_auto_t *said = json_pack("{s:O, s:O?}", "packages", j->lock, "warnings", j->warnings);
    int64_t now_ms = env_now_ms();
    if (said) // if it cannot be stored, the next job asks the index
        (void)env_db_keep_answer(j->all->db, j->known, said, now_ms, now_ms - c->index_age_ms);
}
