// SPDX-License-Identifier: Apache-2.0
//
// index: finds the package index, and the hosts that the box that installs may reach.  The
// configuration names the index, or pip in a box does; the index's own pages name the hosts of its
// files.  Called by installer/installer.c in the gate; the broker decides in the end
// (net/policy.h).

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "installer/installer_internal.h"

#include "env/env_jobs.h"
#include "net/policy.h"

enum { ROUNDS_MAX = 3 }; // that an installation learns hosts

// The configuration has no index: asks pip for its index and the host of its files.
static const char question[] =
    "import glob, sys, sysconfig\n"
    "def ask():\n"
    "    try:\n"
    "        from pip._internal.models.index import PyPI\n"
    "    except ImportError:\n"
    "        folders = ['/usr/share/python-wheels', sysconfig.get_config_var('WHEEL_PKG_DIR'),\n"
    "                   sysconfig.get_path('stdlib') + '/ensurepip/_bundled']\n"
    "        sys.path += sorted(wheel for folder in folders if folder\n"
    "                           for wheel in glob.glob(glob.escape(folder) + '/pip-*.whl'))[-1:]\n"
    "        from pip._internal.models.index import PyPI\n"
    "    return [PyPI.simple_url, 'https://' + PyPI.file_storage_domain + '/']\n"
    "ask()\n";

static void add_index_rule(json_t *allow, const char *url)
{
    char rule[TEXT_ITEM_MAX + 1];
    struct err e;
    if (url && net_url_rule(url, rule, &e) == 0)
        (void)json_array_append_new(allow, json_string(rule));
}

// The rule set of a box that installs: the index, and the hosts that the configuration adds.
static json_t *index_rules(const struct config *c, const char *const *urls, size_t count)
{
    json_t *allow = json_array();
    for (size_t i = 0; i < count; i++)
        add_index_rule(allow, urls[i]);
    for (size_t i = 0; i < c->extra_index_urls.count; i++)
        add_index_rule(allow, c->extra_index_urls.items[i]);
    char rule[TEXT_ITEM_MAX + 8];
    for (size_t i = 0; i < c->allow_urls.count; i++) {
        snprintf(rule, sizeof rule, "%s:443", c->allow_urls.items[i]);
        (void)json_array_append_new(allow, json_string(rule));
    }
    for (size_t i = 0; i < c->index_hosts.count; i++)
        (void)json_array_append_new(allow, json_string(c->index_hosts.items[i]));
    return json_pack("{s:o, s:[]}", "allow", allow, "deny");
}

static bool has_host(const json_t *allow, const char *rule)
{
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)allow, i, item) {
        if (strcasecmp(json_string_value(item), rule) == 0)
            return true;
    }
    return false;
}

// How many of them the configuration does not name.  SECURITY: the broker takes no list of more
// than NET_LEARNED_MAX (net_policy_learn): a hostile index could make all installations of all
// clients fail until the server restarts.
static size_t learned_count(const struct config *c, const json_t *allow)
{
    size_t named = (c->index_url[0] ? 1 : 0) + c->extra_index_urls.count + c->allow_urls.count +
                   c->index_hosts.count;
    size_t count = json_array_size(allow);
    return count > named ? count - named : 0;
}

// Learns the hosts of an index's files.  SECURITY: the names come from a box that has read the
// index's pages.  The broker takes only a few, on port 443, with public addresses
// (net_policy_learn); nothing is learned when the operator has named hosts.
bool index_learn(struct env_job *j, const json_t *answer)
{
    const struct config *c = j->all->gate->facts->config;
    json_t *index = json_deep_copy(j->all->index); // running jobs keep the old one
    json_t *allow = json_object_get(index, "allow"), *item;
    char rule[NET_HOST_MAX + 8], host[NET_HOST_MAX + 1];
    size_t i, fresh = 0;
    struct err e;
    // SECURITY: behind a proxy the broker does not see a name's address; and with source builds,
    // code of packages could forge the answer.
    if (c->index_hosts.count || c->index_proxy[0] || c->offline || j->source_builds || !allow ||
        j->rounds++ >= ROUNDS_MAX) {
        json_decref(index);
        return false;
    }
    json_array_foreach (json_object_get(answer, "hosts"), i, item) {
        const char *text = json_string_value(item);
        if (i >= NET_LEARNED_MAX || !text || net_host_normalise(text, strlen(text), host, &e) < 0)
            break;
        snprintf(rule, sizeof rule, "%s:443", host);
        if (has_host(allow, rule) || learned_count(c, allow) >= NET_LEARNED_MAX)
            continue;
        fresh += json_array_append_new(allow, json_string(rule)) == 0;
    }
    if (fresh) {
        json_decref(j->all->index);
        j->all->index = json_incref(index);
    }
    json_decref(index);
    return fresh > 0;
}

// The hosts that the box can reach, so that it can report which others the index names; null: it
// need not report.
json_t *index_hosts(const struct env_job *j)
{
    json_t *list, *item, *allow = json_object_get(j->all->index, "allow");
    size_t i;
    if (j->all->gate->facts->config->index_hosts.count || !(list = json_array()))
        return json_null();
    json_array_foreach (allow, i, item) {
        const char *rule = json_string_value(item), *colon = strrchr(rule, ':');
        (void)json_array_append_new(
            list, json_stringn(rule, colon ? (size_t)(colon - rule) : strlen(rule)));
    }
    return list;
}

static void on_index(struct exec *x)
{
    struct envs *v = x->request.argument;
    json_t *said = x->run ? json_object_get(x->run->result, "result_json") : NULL;
    const char *urls[2] = {json_string_value(json_array_get(said, 0)),
                           json_string_value(json_array_get(said, 1))};
    struct env_job *j, *next;
    struct err e;
    v->asking = NULL;
    if (urls[0] && urls[1])
        v->index = index_rules(x->gate->facts->config, urls, 2);
    exec_free(x);
    if (!v->index)
        (void)err_set(&e, ERR_INSTALL, 0,
                      "the operator has to name one with --index-url, or install pip for the "
                      "interpreter",
                      "the package index is not known");
    for (j = TAILQ_FIRST(&v->jobs); j; j = next) {
        next = TAILQ_NEXT(j, list);
        if (j->asks_index) {
            j->asks_index = false;
            installer_go_on(j, v->index ? NULL : &e);
        }
    }
}

int index_ask(struct env_job *j, struct err *e)
{
    struct envs *v = j->all;
    const struct config *c = v->gate->facts->config;
    const char *url = c->index_url;
    if (c->offline || v->index)
        return 1;
    if (url[0])
        return (v->index = index_rules(c, &url, 1)) ? 1 : env_no_memory(e);
    env_job_tell(j, ENV_RESOLVING, 0, "looking up the package index");
    j->asks_index = true;
    if (v->asking)
        return 0;
    struct exec_request request = {.owner = j->owner,
                                   .code = question,
                                   .code_length = sizeof question - 1,
                                   .network = json_false(),
                                   .plain = true,
                                   .limits = keeper_limits(c),
                                   .on_done = on_index,
                                   .argument = v};
    request.limits.isolation = ISOLATION_NATIVE; // the gate's own code
    v->asking = exec_start(v->gate, &request);
    return v->asking ? 0 : env_no_memory(e);
}
