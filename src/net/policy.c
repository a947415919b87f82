// SPDX-License-Identifier: Apache-2.0
//
// policy: see policy.h.  Loaded by the gate and by the broker, each for itself, at the start and on
// SIGHUP.

#include "net/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/code_policy.h"
#include "net/proxy.h"
#include "net/rule.h"

struct owner {
    char name[NET_POLICY_NAME_MAX + 1];
    struct net_grant grant;
};

struct net_policy {
    bool on;
    struct net_grant fallback;
    struct net_grant installer; // of NET_INSTALLER: the index of packages, and nothing else
    size_t learned;             // of its rules, the last ones
    size_t count;
    struct owner *owners; // in the order of their names
};

bool net_is_on(const struct config *c)
{
    enum { AUTO, ON, OFF }; // as in config.def
    if (code_policy_shuts_network(c))
        return false; // no tier has it
    if (c->network == AUTO)
        return c->allow_hosts.count > 0 || c->network_file[0] != '\0';
    return c->network == ON;
}

// ---- quotas -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    size_t offset;
    bool bytes; // may be "1G"
} quota_members[] = {
    {"connections", offsetof(struct net_quota, connections), false},
    {"sockets", offsetof(struct net_quota, sockets), false},
    {"requests", offsetof(struct net_quota, requests), false},
    {"rate", offsetof(struct net_quota, rate), false},
    {"bytes_up", offsetof(struct net_quota, bytes_up), true},
    {"bytes_down", offsetof(struct net_quota, bytes_down), true},
};

static const char *const quota_names[] = {"connections", "sockets",    "requests", "rate",
                                          "bytes_up",    "bytes_down", NULL};
static_assert(ARRAY_LEN(quota_names) == ARRAY_LEN(quota_members) + 1, "one name for each");

static int check_members(const json_t *o, const char *const *names, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)o, key, value) {
        if (net_unknown_member(key, names, e) < 0)
            return -1;
    }
    return 0;
}

static int read_amount(const json_t *value, bool bytes, uint64_t *ret, struct err *e)
{
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *ret = (uint64_t)json_integer_value(value);
        return 0;
    }
    // A text with a NUL inside would be read up to it.
    const char *text = bytes ? json_string_value(value) : NULL;
    if (text && strlen(text) == json_string_length(value) &&
        text_parse_size(text, 1, INT64_MAX, ret) == 0)
        return 0;
    return err_set(
        e, ERR_BAD_VALUE, 0,
        bytes ? "write a number from 1 on, or a size such as \"1G\"; leave it out for the default"
              : "write a number from 1 on, or leave it out for the default",
        "it is not a %s above 0", bytes ? "size" : "whole number");
}

// Missing members change nothing.
static int read_quota(const json_t *o, const char *name, struct net_quota *q, struct err *e)
{
    if (!o)
        return 0;
    if (!json_is_object(o))
        return err_set(e, ERR_BAD_VALUE, 0, "write {\"connections\": 100, \"bytes_down\": \"1G\"}",
                       "%s is not an object", name);
    if (check_members(o, quota_names, e) < 0)
        return err_wrap(e, "%s", name);
    for (size_t i = 0; i < ARRAY_LEN(quota_members); i++) {
        const json_t *value = json_object_get(o, quota_members[i].name);
        uint64_t amount;
        if (!value)
            continue;
        if (read_amount(value, quota_members[i].bytes, &amount, e) < 0)
            return err_wrap(e, "%s.%s", name, quota_members[i].name);
        memcpy((char *)q + quota_members[i].offset, &amount, sizeof amount);
    }
    return 0;
}

// ---- grants -------------------------------------------------------------------------------------

static int read_grant(const json_t *o, struct net_grant *g, struct err *e)
{
    static const char *const names[] = {"allow", "deny", "box", "key", NULL};
    int bad;
    if (!json_is_object(o))
        return err_set(e, ERR_BAD_VALUE, 0, "write {\"allow\": [\"api.example.org:443\"]}",
                       "it is not an object");
    if ((bad = check_members(o, names, e)) < 0 ||
        (bad = read_quota(json_object_get(o, "box"), "box", &g->box, e)) < 0 ||
        (bad = read_quota(json_object_get(o, "key"), "key", &g->key, e)) < 0)
        return bad;
    return net_rules_from_arrays(json_object_get(o, "allow"), json_object_get(o, "deny"), &g->rules,
                                 e);
}

// The default: the file's, with the configuration's where it says nothing.
static int make_default(struct net_policy *p, struct net_rules *configured, const json_t *o,
                        struct err *e)
{
    struct net_rules *rules = &p->fallback.rules;
    if (o && read_grant(o, &p->fallback, e) < 0)
        return err_wrap(e, "default");
    if (net_rules_add_deny(rules, configured) < 0)
        return err_memory(e);
    if (json_object_get(o, "allow"))
        return 0;
    rules->allow = TAKE_PTR(configured->allow);
    rules->allow_count = configured->allow_count;
    configured->allow_count = 0;
    return 0;
}

static int compare_owners(const void *a, const void *b)
{
    return strcmp(((const struct owner *)a)->name, ((const struct owner *)b)->name);
}

static int read_owner(struct net_policy *p, const char *name, const json_t *o, struct err *e)
{
    struct owner *k = &p->owners[p->count];
    char shown[NET_QUOTE_MAX];
    size_t n = strlen(name);
    net_quote(name, n, shown);
    if (n == 0 || n > NET_POLICY_NAME_MAX)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "write the name that the key has in --api-key or its file",
                       "keys: '%s' is not the name of a key", shown);
    *k = (struct owner){.grant = {.box = p->fallback.box, .key = p->fallback.key}};
    memcpy(k->name, name, n + 1);
    p->count++;
    int bad = read_grant(o, &k->grant, e);
    if (bad < 0)
        return err_wrap(e, "keys.%s", shown);
    return net_rules_add_deny(&k->grant.rules, &p->fallback.rules) < 0 ? err_memory(e) : 0;
}

static int read_owners(struct net_policy *p, const json_t *o, struct err *e)
{
    const char *name;
    json_t *value;
    int bad = 0;
    if (!o)
        return 0;
    if (!json_is_object(o))
        return err_set(e, ERR_BAD_VALUE, 0,
                       "write {\"NAME\": {\"allow\": [\"api.example.org:443\"]}}",
                       "keys is not an object");
    if (json_object_size(o) > NET_POLICY_KEYS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "put what many keys share into default",
                       "keys has %zu names, and at most %d are possible", json_object_size(o),
                       NET_POLICY_KEYS_MAX);
    if (json_object_size(o) && !(p->owners = calloc(json_object_size(o), sizeof *p->owners)))
        return err_memory(e);
    json_object_foreach ((json_t *)o, name, value) {
        if ((bad = read_owner(p, name, value, e)) < 0)
            return bad;
    }
    if (p->count)
        qsort(p->owners, p->count, sizeof *p->owners, compare_owners);
    return 0;
}

// ---- the index of packages ----------------------------------------------------------------------

// "https://index.example.org/simple" is "index.example.org:443".
int net_url_rule(const char *url, char ret[TEXT_ITEM_MAX + 1], struct err *e)
{
    bool tls = strncmp(url, "https://", 8) == 0;
    const char *host = tls ? url + 8 : url + 7;
    if (!tls && strncmp(url, "http://", 7) != 0)
        return err_set(e, ERR_BAD_VALUE, 0, "write it as https://index.example.org/simple",
                       "it does not begin with https:// or http://");
    size_t n = strcspn(host, "/?#");
    // SECURITY: a box gets the address, and all code in that box could read the login.
    if (memchr(host, '@', n))
        return err_set(e, ERR_BAD_VALUE, 0,
                       "use an index that needs none: a mirror, or one of your own that adds them",
                       "an address with a user or a password is refused, because a box would get "
                       "the credentials");
    const char *bracket = memchr(host, ']', n);
    bool has_port =
        memchr(bracket ? bracket : host, ':', n - (size_t)(bracket ? bracket - host : 0));
    // The hosts file of a box has this name, so what arrives here is the address.
    static const char local[] = "localhost";
    size_t k = sizeof local - 1;
    bool here = strncasecmp(host, local, k) == 0 && (n == k || host[k] == ':');
    int length = snprintf(ret, TEXT_ITEM_MAX + 1, "%s%.*s%s", here ? "127.0.0.1" : "",
                          (int)(here ? n - k : n), here ? host + k : host,
                          has_port ? ""
                          : tls    ? ":443"
                                   : ":80");
    if (n == 0 || length < 0 || length > TEXT_ITEM_MAX || memchr(host, ',', n))
        return err_set(e, ERR_BAD_VALUE, 0, "write it as https://index.example.org/simple",
                       "there is no host in it");
    return 0;
}

static int add_index(struct text_list *hosts, const char *url, struct err *e)
{
    char rule[TEXT_ITEM_MAX + 1], shown[NET_QUOTE_MAX];
    int bad = net_url_rule(url, rule, e);
    if (bad == 0 && (bad = text_list_add(hosts, rule)) < 0)
        (void)err_set(e, ERR_BAD_VALUE, -bad, "name fewer of them", "it cannot be added");
    // SECURITY: without what may be a password: this goes to logs.
    const char *begin = strstr(url, "://"), *at = strrchr(url, '@');
    const char *plain = begin && at && at > begin ? at + 1 : url;
    net_quote(plain, strlen(plain), shown);
    return bad < 0 ? err_wrap(e, "the index '%s'", shown) : 0;
}

// A host of --allow-url, on the port of https alone.
static int add_url_host(struct text_list *hosts, const char *host, struct err *e)
{
    char rule[TEXT_ITEM_MAX + 8];
    int n = snprintf(rule, sizeof rule, "%s:443", host);
    if (n > TEXT_ITEM_MAX || strpbrk(host, "/:@[") || strcmp(host, "*") == 0)
        return err_set(e, ERR_BAD_VALUE, 0, "write it as files.example.org or *.example.org",
                       "--allow-url: '%.80s' is not the name of a host", host);
    int bad = text_list_add(hosts, rule);
    return bad < 0 ? err_set(e, ERR_BAD_VALUE, -bad, "name fewer of them",
                             "--allow-url: it cannot be added")
                   : 0;
}

// SECURITY: names of indexes may lead to private addresses: the operator chose the host and runs
// it. A name of --allow-url may not, because callers write the rest of that address; neither may a
// host that was learned (is_one_host), because the index's pages name it: a hostile index could
// point it at any service of the internal network.
static void open_inside(struct net_rules *rules, size_t count)
{
    for (size_t i = 0; i < count && i < rules->allow_count; i++)
        rules->allow[i].inside = rules->allow[i].kind == NET_KIND_HOST;
}

// Without a configured index it is pip's own: net_policy_learn().
static int make_installer(struct net_policy *p, const struct config *c, struct err *e)
{
    static const struct net_quota quota = {100000, 256, UINT64_MAX, 10000, TEXT_GIB, UINT64_MAX};
    _cleanup_free_ struct text_list *hosts = malloc(sizeof *hosts);
    int bad = 0;
    struct net_proxy proxy;
    p->installer.box = quota;
    p->installer.key = p->fallback.key;
    if (c->offline)
        return 0;
    if (c->index_proxy[0] && (bad = net_proxy_parse(c->index_proxy, &proxy, e)) < 0)
        return bad;
    if (!hosts)
        return err_memory(e);
    *hosts = c->index_hosts;
    if (c->index_url[0])
        bad = add_index(hosts, c->index_url, e);
    for (size_t i = 0; bad == 0 && i < c->extra_index_urls.count; i++)
        bad = add_index(hosts, c->extra_index_urls.items[i], e);
    size_t indexes = hosts->count;
    for (size_t i = 0; bad == 0 && i < c->allow_urls.count; i++)
        bad = add_url_host(hosts, c->allow_urls.items[i], e);
    if (bad < 0)
        return bad;
    bad = net_rules_from_lists(hosts, &c->deny_hosts, &p->installer.rules, e);
    if (bad < 0)
        return err_wrap(e, "--index-host");
    open_inside(&p->installer.rules, indexes);
    return 0;
}

// Is this rule fit to be learned?
static bool is_one_host(const struct net_rule *r)
{
    return r->kind == NET_KIND_HOST && r->port_min == 443 && r->port_max == 443 && !r->http;
}

// Deny rules are judged for each connection.
static bool is_known(const struct net_policy *p, const struct net_rule *r)
{
    struct net_rules one = {.allow_count = 1, .allow = (struct net_rule *)r},
                     all = {.allow_count = p->installer.rules.allow_count,
                            .allow = p->installer.rules.allow};
    struct err ignored;
    return net_rules_within(&one, &all, &ignored) == 0;
}

static int learn_one(struct net_policy *p, const struct net_rule *r, struct err *e)
{
    struct net_rules *rules = &p->installer.rules;
    struct net_rule *more = realloc(rules->allow, (rules->allow_count + 1) * sizeof *rules->allow);
    if (!more)
        return err_memory(e);
    rules->allow = more;
    if (net_rule_copy(&rules->allow[rules->allow_count], r) < 0)
        return err_memory(e);
    rules->allow_count++;
    p->learned++;
    return 0;
}

int net_policy_learn(struct net_policy *p, const struct net_rules *hosts, struct err *e)
{
    size_t fresh = 0;
    for (size_t i = 0; i < hosts->allow_count; i++) {
        if (is_known(p, &hosts->allow[i]))
            continue;
        if (!is_one_host(&hosts->allow[i]))
            return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0,
                           "name it with --index-url or --index-host",
                           "'%.100s' is not a single host on port 443", hosts->allow[i].text);
        if (++fresh + p->learned > NET_LEARNED_MAX)
            return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0,
                           "name them with --index-host, or start the server again",
                           "the index has files on more than %d hosts", NET_LEARNED_MAX);
    }
    for (size_t i = 0; i < hosts->allow_count; i++)
        if (!is_known(p, &hosts->allow[i]) && learn_one(p, &hosts->allow[i], e) < 0)
            return -1;
    return 0;
}

int net_policy_learn_from(struct net_policy *p, const struct net_policy *old, struct err *e)
{
    const struct net_rules *had = &old->installer.rules;
    struct net_rules learned = {.allow_count = old->learned,
                                .allow = had->allow + (had->allow_count - old->learned)};
    return old->learned ? net_policy_learn(p, &learned, e) : 0;
}

// ---- the file -----------------------------------------------------------------------------------

// From its beginning: other processes read through the same descriptor.
static ssize_t read_file(int fd, char *buf, size_t cap)
{
    size_t n = 0;
    while (n < cap) {
        ssize_t got = pread(fd, buf + n, cap - n, (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static json_t *parse_file(int fd, struct err *e)
{
    _cleanup_free_ char *text = malloc(NET_POLICY_FILE_MAX + 1);
    json_error_t fault;
    if (!text) {
        (void)err_memory(e);
        return NULL;
    }
    ssize_t n = read_file(fd, text, NET_POLICY_FILE_MAX + 1);
    if (n < 0) {
        (void)err_set(e, ERR_BAD_CONFIG_FILE, (int)-n, "give a regular file",
                      "cannot read the file");
        return NULL;
    }
    if (n > NET_POLICY_FILE_MAX) {
        (void)err_set(e, ERR_BAD_CONFIG_FILE, 0,
                      "use '*.example.org' and networks for many hosts at once",
                      "it is larger than %d bytes", NET_POLICY_FILE_MAX);
        return NULL;
    }
    json_t *o = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &fault);
    if (!o && json_error_code(&fault) == json_error_out_of_memory) {
        (void)err_memory(e);
    } else if (!o) {
        text_sanitize(fault.text);
        (void)err_set(
            e, ERR_BAD_CONFIG_FILE, 0,
            "write a JSON object such as {\"default\": {\"allow\": [\"api.example.org\"]}}",
            "line %d, column %d: %s", fault.line, fault.column, fault.text);
    }
    return o;
}

// `file` may be NULL.
static int fill(struct net_policy *p, struct net_rules *configured, const json_t *file,
                struct err *e)
{
    static const char *const names[] = {"default", "keys", NULL};
    int bad = 0;
    if (file && !json_is_object(file))
        return err_set(e, ERR_BAD_CONFIG_FILE, 0,
                       "write {\"default\": {\"allow\": [...]}, \"keys\": {...}}",
                       "it is not a JSON object");
    if ((file && (bad = check_members(file, names, e)) < 0) ||
        (bad = make_default(p, configured, json_object_get(file, "default"), e)) < 0)
        return bad;
    return read_owners(p, json_object_get(file, "keys"), e);
}

static int load_file(struct net_policy *p, struct net_rules *configured, const struct config *c,
                     int fd, struct err *e)
{
    json_auto_t *o = parse_file(fd, e);
    int bad = o ? fill(p, configured, o, e) : -1;
    return bad < 0 ? err_wrap(e, "--network-file '%s'", c->network_file) : 0;
}

static int load(struct net_policy *p, const struct config *c, int fd, struct err *e)
{
    struct net_rules configured = {0};
    p->on = net_is_on(c);
    p->fallback.box = (struct net_quota){c->net_connections, c->net_sockets,  c->net_requests,
                                         c->net_rate,        c->net_up_bytes, c->net_down_bytes};
    p->fallback.key =
        (struct net_quota){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    int bad = net_rules_from_lists(&c->allow_hosts, &c->deny_hosts, &configured, e);
    if (bad < 0)
        return err_wrap(e, "--allow-host and --deny-host");
    bad = fd >= 0 ? load_file(p, &configured, c, fd, e) : fill(p, &configured, NULL, e);
    net_rules_done(&configured);
    return bad < 0 ? bad : make_installer(p, c, e);
}

struct net_policy *net_policy_load(const struct config *c, int file, struct err *e)
{
    struct net_policy *p = calloc(1, sizeof *p);
    if (!p)
        (void)err_memory(e);
    else if (load(p, c, file, e) == 0)
        return p;
    net_policy_free(p);
    return NULL;
}

void net_policy_free(struct net_policy *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        net_rules_done(&p->owners[i].grant.rules);
    free(p->owners);
    net_rules_done(&p->fallback.rules);
    net_rules_done(&p->installer.rules);
    free(p);
}

const struct net_grant *net_policy_of(const struct net_policy *p, const char *key)
{
    static const struct net_grant nothing;
    struct owner wanted;
    if (key && strcmp(key, NET_INSTALLER) == 0)
        return &p->installer;
    if (!p->on) // it was read only to report mistakes
        return &nothing;
    size_t n = key ? strlen(key) : 0;
    if (n == 0 || n > NET_POLICY_NAME_MAX || p->count == 0)
        return &p->fallback;
    memcpy(wanted.name, key, n + 1);
    const struct owner *found =
        bsearch(&wanted, p->owners, p->count, sizeof *p->owners, compare_owners);
    return found ? &found->grant : &p->fallback;
}
