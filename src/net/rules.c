// SPDX-License-Identifier: Apache-2.0
//
// rules: lists of rules, from JSON and from the configuration, and back.  See rules.h; one rule is
// rule.c's, verdicts are judge.c's.

#include "net/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/rule.h"
#include "json/whole.h"

enum { NEAR = 2 };

int net_unknown_member(const char *name, const char *const *names, struct err *e)
{
    char shown[NET_QUOTE_MAX], all[ERR_HINT_MAX - 64] = "";
    const char *nearest = NULL;
    unsigned best = NEAR + 1;
    size_t at = 0;
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(name, names[i]) == 0)
            return 0;
        unsigned d = text_distance(name, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
        if (at < sizeof all)
            at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", names[i]);
    }
    net_quote(name, strlen(name), shown);
    (void)err_set(e, ERR_BAD_VALUE, 0, NULL, "unknown member '%s'", shown);
    if (nearest)
        err_hint(e, "did you mean '%s'? there are: %s", nearest, all);
    else
        err_hint(e, "there are: %s", all);
    return -1;
}

// ---- from JSON ----------------------------------------------------------------------------------

static void list_done(struct net_rule *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        net_rule_done(&list[i]);
    free(list);
}

void net_rules_done(struct net_rules *r)
{
    list_done(r->allow, r->allow_count);
    list_done(r->deny, r->deny_count);
    *r = (struct net_rules){0};
}

// How many rules a list may have, and room for them.
static int list_open(size_t count, const char *name, struct net_rule **ret, struct err *e)
{
    if (count > NET_RULES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "use '*.example.org' or a network such as '192.0.2.0/24' for many at once",
                       "%s has %zu rules, and at most %d are possible", name, count, NET_RULES_MAX);
    *ret = NULL;
    if (count && !(*ret = calloc(count, sizeof **ret)))
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "keep the rules of %s", name);
    return 0;
}

static int list_from_json(const json_t *list, const char *name, bool bounds, struct net_rule **ret,
                          size_t *ret_count, struct err *e)
{
    struct net_rule *rules;
    if (!list)
        return 0;
    if (!json_is_array(list))
        return err_set(e, ERR_BAD_VALUE, 0, "write [\"api.example.org:443\"]", "%s is not a list",
                       name);
    int bad = list_open(json_array_size(list), name, &rules, e);
    if (bad < 0)
        return bad;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (net_rule_parse(&rules[i], json_array_get(list, i), bounds, e) < 0) {
            list_done(rules, i);
            return err_wrap(e, "%s[%zu]", name, i);
        }
    }
    *ret = rules;
    *ret_count = json_array_size(list);
    return 0;
}

int net_rules_from_arrays(const json_t *allow, const json_t *deny, struct net_rules *ret,
                          struct err *e)
{
    struct net_rules r = {0};
    int bad = list_from_json(allow, "allow", true, &r.allow, &r.allow_count, e);
    if (bad == 0)
        bad = list_from_json(deny, "deny", false, &r.deny, &r.deny_count, e);
    if (bad < 0)
        net_rules_done(&r);
    else
        *ret = r;
    return bad;
}

static int from_object(const json_t *o, struct net_rules *ret, struct err *e)
{
    static const char *const names[] = {"allow", "deny", NULL};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)o, key, value) {
        if (net_unknown_member(key, names, e) < 0)
            return -1;
    }
    return net_rules_from_arrays(json_object_get(o, "allow"), json_object_get(o, "deny"), ret, e);
}

int net_rules_from_json(const json_t *value, struct net_rules *ret, struct err *e)
{
    static const char hint[] =
        "write \"off\", a list of hosts such as [\"api.example.org:443\"], or "
        "{\"allow\": [...], \"deny\": [...]}";
    char shown[NET_QUOTE_MAX];
    if (json_is_array(value))
        return net_rules_from_arrays(value, NULL, ret, e);
    if (json_is_object(value))
        return from_object(value, ret, e);
    if (json_is_false(value) || (json_is_string(value) && json_string_length(value) == 3 &&
                                 memcmp(json_string_value(value), "off", 3) == 0)) {
        *ret = (struct net_rules){0};
        return 0;
    }
    if (json_is_string(value)) {
        net_quote(json_string_value(value), json_string_length(value), shown);
        return err_set(e, ERR_BAD_VALUE, 0, hint, "'%s' is neither \"off\" nor a list of hosts",
                       shown);
    }
    return err_set(e, ERR_BAD_VALUE, 0, hint, "%s is neither \"off\" nor a list of hosts",
                   json_is_true(value)     ? "true"
                   : json_is_number(value) ? "a number"
                                           : "null");
}

// ---- from the configuration ---------------------------------------------------------------------

static int list_from_texts(const struct text_list *list, const char *name, struct net_rule **ret,
                           size_t *ret_count, struct err *e)
{
    struct net_rule *rules;
    if (!list)
        return 0;
    int bad = list_open(list->count, name, &rules, e);
    if (bad < 0)
        return bad;
    for (size_t i = 0; i < list->count; i++) {
        if (net_rule_parse_text(&rules[i], list->items[i], strlen(list->items[i]), e) < 0) {
            list_done(rules, i);
            return err_wrap(e, "%s[%zu]", name, i);
        }
    }
    *ret = rules;
    *ret_count = list->count;
    return 0;
}

int net_rules_from_lists(const struct text_list *allow, const struct text_list *deny,
                         struct net_rules *ret, struct err *e)
{
    struct net_rules r = {0};
    int bad = list_from_texts(allow, "allow", &r.allow, &r.allow_count, e);
    if (bad == 0)
        bad = list_from_texts(deny, "deny", &r.deny, &r.deny_count, e);
    if (bad < 0)
        net_rules_done(&r);
    else
        *ret = r;
    return bad;
}

int net_rules_add_deny(struct net_rules *r, const struct net_rules *from)
{
    if (from->deny_count == 0)
        return 0;
    // At most three lists of NET_RULES_MAX.
    struct net_rule *more = realloc(r->deny, (r->deny_count + from->deny_count) * sizeof *more);
    if (!more)
        return -ENOMEM;
    r->deny = more;
    for (size_t i = 0; i < from->deny_count; i++, r->deny_count++)
        if (net_rule_copy(&r->deny[r->deny_count], &from->deny[i]) < 0)
            return -ENOMEM;
    return 0;
}

// ---- back ---------------------------------------------------------------------------------------

static json_t *list_json(const struct net_rule *rules, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, net_rule_json(&rules[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *net_rules_json(const struct net_rules *r)
{
    json_t *o = json_object();
    int bad = json_object_set_new(o, "allow", list_json(r->allow, r->allow_count));
    bad |= json_object_set_new(o, "deny", list_json(r->deny, r->deny_count));
    return json_whole(o, bad);
}

void net_rules_describe(const struct net_rules *r, char *buf, size_t cap)
{
    enum { REST = 24 }; // " and 256 more"
    size_t n = 0, shown = 0;
    if (cap == 0)
        return;
    buf[0] = '\0';
    for (; shown < r->allow_count; shown++) {
        size_t length = strlen(r->allow[shown].text) + 2;
        if (n + length + REST >= cap)
            break;
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", shown ? ", " : "", r->allow[shown].text);
    }
    if (r->allow_count == 0)
        snprintf(buf, cap, "nothing");
    else if (shown == 0)
        snprintf(buf, cap, "%zu rules", r->allow_count);
    else if (shown < r->allow_count)
        snprintf(buf + n, cap - n, " and %zu more", r->allow_count - shown);
}
