// SPDX-License-Identifier: Apache-2.0
//
// preload: see preload.h.

#include "env/preload.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "json/whole.h"

enum {
    AGE_RUNS = 64, // after which all counts are halved
    SHARE = 4,     // a module that one run in SHARE imports is preloaded
    COUNT_MAX = 1000000,
};

#define SEPARATORS " ,\t\r\n"

void preload_clear(struct preload *p)
{
    json_decref(p->declared);
    json_decref(p->broken);
    *p = (struct preload){0};
}

// ---- names --------------------------------------------------------------------------------------

bool preload_is_name(const char *text, size_t length)
{
    bool begins = true; // a part of it
    if (length == 0 || length > PRELOAD_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (begins ? !isalpha(c) && c != '_' : !isalnum(c) && c != '_' && c != '.')
            return false;
        begins = c == '.';
    }
    return !begins;
}

static bool has(const json_t *list, const char *name)
{
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)list, i, item) {
        if (strcmp(json_string_value(item), name) == 0)
            return true;
    }
    return false;
}

static int add(json_t *list, const char *text, size_t length, struct err *e)
{
    char name[PRELOAD_NAME_MAX + 1];
    if (!preload_is_name(text, length)) {
        int r =
            err_set(e, ERR_BAD_VALUE, 0, "write names such as \"numpy\" or \"matplotlib.pyplot\"",
                    "'%.*s' is not the name of a module", length > 80 ? 80 : (int)length, text);
        text_sanitize(e->message);
        return r;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    if (has(list, name))
        return 0;
    if (json_array_size(list) >= PRELOAD_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "name those that take longest",
                       "there are more than %d modules to preload", PRELOAD_MAX);
    return json_array_append_new(list, json_string(name)) == 0
               ? 0
               : err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
}

static int not_a_list(struct err *e)
{
    return err_set(e, ERR_BAD_VALUE, 0, "write a list such as [\"numpy\", \"pandas\"]",
                   "the modules to preload are not a list of names");
}

static int add_all(json_t *list, const json_t *text, struct err *e)
{
    const char *at = json_string_value(text);
    if (!at || strlen(at) != json_string_length(text))
        return not_a_list(e);
    int r = 0;
    while (r == 0 && *(at += strspn(at, SEPARATORS))) {
        size_t length = strcspn(at, SEPARATORS);
        r = add(list, at, length, e);
        at += length;
    }
    return r;
}

json_t *preload_check(const json_t *given, struct err *e)
{
    json_t *list = json_array(), *item;
    size_t i;
    int r = list ? 0 : err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    if (!json_is_array(given)) {
        r = r < 0 ? r : add_all(list, given, e);
    } else {
        json_array_foreach ((json_t *)given, i, item) {
            const char *name = json_string_value(item);
            if (r == 0)
                r = name ? add(list, name, json_string_length(item), e) : not_a_list(e);
        }
    }
    return json_whole(list, r);
}

// ---- learning -----------------------------------------------------------------------------------

// Halves all counts, so that old imports matter less.
static void age(struct preload *p)
{
    unsigned left = 0;
    p->runs /= 2;
    for (unsigned i = 0; i < p->learned_count; i++) {
        p->learned[i].count /= 2;
        if (p->learned[i].count)
            p->learned[left++] = p->learned[i];
    }
    p->learned_count = left;
}

static void count(struct preload *p, const char *name)
{
    unsigned least = 0, i;
    for (i = 0; i < p->learned_count; i++) {
        if (strcmp(p->learned[i].name, name) == 0) {
            p->learned[i].count++;
            return;
        }
        if (p->learned[i].count < p->learned[least].count)
            least = i;
    }
    if (p->learned_count == PRELOAD_MAX) {
        if (p->learned[least].count > 1)
            return; // a new name enters when an old one has aged
        i = least;
    } else {
        p->learned_count++;
    }
    snprintf(p->learned[i].name, sizeof p->learned[i].name, "%s", name);
    p->learned[i].count = 1;
}

void preload_learn(struct preload *p, const json_t *imports)
{
    size_t n = json_array_size(imports), seen = 0;
    for (size_t i = 0; i < n && i < PRELOAD_REPORT_MAX; i++) {
        json_t *item = json_array_get(imports, i);
        const char *name = json_string_value(item);
        if (!name || !preload_is_name(name, json_string_length(item)))
            continue;
        bool twice = false; // in one report
        for (size_t k = 0; k < i; k++)
            twice |= json_equal(json_array_get(imports, k), item);
        if (twice)
            continue;
        count(p, name);
        seen++;
    }
    if (seen && ++p->runs >= AGE_RUNS)
        age(p);
}

void preload_give_up(struct preload *p, const char *name)
{
    if (!p->broken)
        p->broken = json_array();
    if (!has(p->broken, name) && json_array_size(p->broken) < 2 * PRELOAD_MAX)
        (void)json_array_append_new(p->broken, json_string(name));
}

void preload_forgive(struct preload *p)
{
    json_decref(p->broken);
    p->broken = NULL;
}

// ---- results ------------------------------------------------------------------------------------

static int append_learned(const struct preload *p, json_t *list)
{
    int failed = 0;
    for (unsigned i = 0; i < p->learned_count; i++) {
        const char *name = p->learned[i].name;
        if (p->learned[i].count * SHARE >= p->runs && !has(p->broken, name) && !has(list, name))
            failed |= json_array_append_new(list, json_string(name));
    }
    return failed;
}

json_t *preload_learned(const struct preload *p)
{
    json_t *list = json_array();
    return json_whole(list, list ? append_learned(p, list) : -1);
}

json_t *preload_names(const struct preload *p)
{
    json_t *list = json_array(), *item;
    size_t i;
    int failed = list ? 0 : -1;
    json_array_foreach (p->declared, i, item) {
        if (!has(p->broken, json_string_value(item)))
            failed |= json_array_append(list, item);
    }
    return json_whole(list, failed ? failed : append_learned(p, list));
}

json_t *preload_json(const struct preload *p)
{
    json_t *counts = json_object();
    int failed = counts ? 0 : -1;
    for (unsigned i = 0; i < p->learned_count && counts; i++)
        failed |=
            json_object_set_new(counts, p->learned[i].name, json_integer(p->learned[i].count));
    json_t *declared = p->declared ? json_incref(p->declared) : json_array();
    json_t *o =
        json_pack("{s:o, s:i, s:o}", "declared", declared, "runs", (int)p->runs, "counts", counts);
    return json_whole(o, failed);
}

static unsigned bounded(const json_t *number)
{
    json_int_t n = json_integer_value(number);
    return n < 0 ? 0 : n > COUNT_MAX ? COUNT_MAX : (unsigned)n;
}

void preload_read(struct preload *p, const json_t *said)
{
    json_t *counts = json_object_get(said, "counts"), *value;
    const char *name;
    struct err e;
    preload_clear(p);
    p->declared = preload_check(json_object_get(said, "declared"), &e);
    p->runs = bounded(json_object_get(said, "runs"));
    json_object_foreach (counts, name, value) {
        unsigned n = bounded(value);
        if (p->learned_count == PRELOAD_MAX || n == 0 || !preload_is_name(name, strlen(name)))
            continue;
        snprintf(p->learned[p->learned_count].name, PRELOAD_NAME_MAX + 1, "%s", name);
        p->learned[p->learned_count++].count = n;
    }
}
