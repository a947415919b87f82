// SPDX-License-Identifier: Apache-2.0
//
// env_lock: entries of a lock, the list of the packages of an environment.  Runs in the gate.
//
// SECURITY: an entry comes from a box, or from a file of another machine: each field is checked.

#include <string.h>

#include "env/env_jobs.h"
#include "env/env_text.h"

int env_wheel_set(json_t *entry, const struct env_wheel *w)
{
    return json_object_set_new(entry, "wheel", json_string(w->id)) |
           json_object_set_new(entry, "unpacked", json_integer((json_int_t)w->bytes)) |
           json_object_set_new(entry, "files", json_integer((json_int_t)w->files));
}

static bool is_sha256(const char *text)
{
    return text && strlen(text) == ENV_SHA256 && strspn(text, "0123456789abcdef") == ENV_SHA256;
}

static bool is_short(const char *text)
{
    return text && text[0] && strlen(text) <= ENV_REQUIREMENT_MAX;
}

json_t *env_lock_entry(struct env_job *j, const json_t *package, struct err *e)
{
    const char *name = json_string_value(json_object_get(package, "name")),
               *version = json_string_value(json_object_get(package, "version")),
               *sha256 = json_string_value(json_object_get(package, "sha256")),
               *filename = json_string_value(json_object_get(package, "filename"));
    char key[ENV_REQUIREMENT_MAX + 1] = "";
    if (is_short(name))
        env_key_of(name, key);
    if (!is_short(name) || !is_short(version) || !is_sha256(sha256) || strcmp(key, name) != 0) {
        (void)err_set(e, ERR_INTERNAL, 0, "try again", "the installer returned an invalid record");
        return NULL;
    }
    if (env_check_allowed(j->all->gate->facts->config, key, e) < 0)
        return NULL;
    json_t *size = json_object_get(package, "size"), *top = json_object_get(package, "top_level");
    json_t *entry =
        json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", name, "version", version, "sha256", sha256,
                  "filename", filename && strlen(filename) < 300 ? filename : "", "size",
                  (json_int_t)(json_is_integer(size) ? json_integer_value(size) : 0));
    if (entry && json_is_array(top) && json_array_size(top) <= 50 &&
        json_dumpb(top, NULL, 0, JSON_COMPACT) < 4096)
        (void)json_object_set(entry, "top_level", top);
    if (!entry)
        (void)env_no_memory(e);
    return entry;
}
