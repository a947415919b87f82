// SPDX-License-Identifier: Apache-2.0
//
// short_rules: rules for the tests of src/net in a short form: "a.test:443 *.b.test !c.test", where
// '!' is deny; "a.test~GET,PUT~/v1/*,/ok" has bounds; " | " separates rule sets, "-" is an empty
// one.

#ifndef CONSTRICTOR_SHORT_RULES_H
#define CONSTRICTOR_SHORT_RULES_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "net/rule.h"

// "a,b" as a list.
static inline json_t *short_list(char *text)
{
    json_t *list = json_array();
    char *save = NULL;
    for (char *s = strtok_r(text, ",", &save); s; s = strtok_r(NULL, ",", &save))
        (void)json_array_append_new(list, json_string(s));
    return list;
}

static inline json_t *short_rule(char *word)
{
    char *methods = strchr(word, '~'), *paths = methods ? strchr(methods + 1, '~') : NULL;
    if (!methods)
        return json_string(word);
    *methods++ = '\0';
    if (paths)
        *paths++ = '\0';
    json_t *o = json_pack("{s:s}", "host", word);
    if (*methods)
        (void)json_object_set_new(o, "methods", short_list(methods));
    if (paths)
        (void)json_object_set_new(o, "paths", short_list(paths));
    return o;
}

static inline struct net_rules short_rules(const char *words)
{
    char copy[1024], *save = NULL;
    struct net_rules r;
    struct err e;
    json_t *allow = json_array(), *deny = json_array();
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        if (strcmp(w, "-") != 0)
            (void)json_array_append_new(*w == '!' ? deny : allow, short_rule(w + (*w == '!')));
    json_t *o = json_pack("{s:o, s:o}", "allow", allow, "deny", deny);
    if (net_rules_from_json(o, &r, &e) < 0)
        fail_msg("%s: %s", words, e.message);
    json_decref(o);
    return r;
}

struct short_sets {
    size_t count;
    struct net_rules rules[NET_RULE_SETS_MAX];
    const struct net_rules *at[NET_RULE_SETS_MAX];
};

static inline void short_sets(struct short_sets *l, const char *text)
{
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    l->count = 0;
    for (char *s = strtok_r(copy, "|", &save); s; s = strtok_r(NULL, "|", &save)) {
        assert_true(l->count < NET_RULE_SETS_MAX);
        l->rules[l->count] = short_rules(s);
        l->at[l->count] = &l->rules[l->count];
        l->count++;
    }
}

static inline void short_sets_done(struct short_sets *l)
{
    while (l->count > 0)
        net_rules_done(&l->rules[--l->count]);
}

static inline struct net_address short_address(const char *text)
{
    struct net_address a;
    if (net_address_parse(text, &a) < 0)
        fail_msg("%s is no address", text);
    return a;
}

// Foreign text in messages is short and harmless.
static inline bool is_clean(const struct err *e)
{
    char copy[ERR_MESSAGE_MAX];
    snprintf(copy, sizeof copy, "%s", e->message);
    text_sanitize(copy);
    return strcmp(copy, e->message) == 0 && strlen(e->message) < 300 && e->message[0];
}

#endif
