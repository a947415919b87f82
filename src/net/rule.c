// SPDX-License-Identifier: Apache-2.0
//
// rule: parses one rule from text or an object, and formats it.  See rules.h for the
// forms. Called by rules.c; runs in the gate (callers' rules) and in the broker.

#include "net/rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "json/whole.h"

// A part of a text, not terminated.
struct piece {
    const char *p;
    size_t n;
};

static bool has(struct piece s, char c)
{
    return memchr(s.p, c, s.n) != NULL;
}

static int refuse(struct err *e, struct piece s, const char *hint, const char *what)
{
    char shown[NET_QUOTE_MAX];
    net_quote(s.p, s.n, shown);
    return err_set(e, ERR_BAD_VALUE, 0, hint, "'%s' %s", shown, what);
}

// A decimal number without leading zeros, 0..max; -1: it is none.
static int read_number(struct piece s, unsigned max, unsigned *ret)
{
    unsigned value = 0;
    if (s.n == 0 || s.n > 5 || (s.n > 1 && s.p[0] == '0'))
        return -1;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        value = value * 10 + (unsigned)(s.p[i] - '0');
    }
    if (value > max)
        return -1;
    *ret = value;
    return 0;
}

// ---- ports --------------------------------------------------------------------------------------

static int read_ports(struct piece s, struct net_rule *ret, struct err *e)
{
    static const char hint[] = "write a port such as ':443' or a range such as ':8000-8010', of "
                               "numbers from 1 to 65535, or nothing for every port";
    unsigned low, high;
    const char *dash = memchr(s.p, '-', s.n);
    struct piece first = {s.p, dash ? (size_t)(dash - s.p) : s.n};
    struct piece second = dash ? (struct piece){dash + 1, s.n - first.n - 1} : first;
    if (s.n == 0)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "no port follows the ':'");
    if (read_number(first, UINT16_MAX, &low) < 0 || read_number(second, UINT16_MAX, &high) < 0 ||
        low == 0 || high == 0)
        return refuse(e, s, hint, "is no port");
    if (low > high) {
        (void)refuse(e, s, NULL, "is a range that ends before it begins");
        err_hint(e, "write '%u-%u'", high, low);
        return -1;
    }
    ret->port_min = (uint16_t)low;
    ret->port_max = (uint16_t)high;
    return 0;
}

// What is behind the ':' of a rule.
static int read_ports_of(struct piece whole, struct piece s, struct net_rule *ret, struct err *e)
{
    char shown[NET_QUOTE_MAX];
    if (read_ports(s, ret, e) == 0)
        return 0;
    net_quote(whole.p, whole.n, shown);
    return err_wrap(e, "'%s'", shown);
}

// ---- addresses and networks ---------------------------------------------------------------------

static int read_address(struct piece s, struct net_address *ret)
{
    char text[NET_ADDRESS_TEXT];
    if (s.n >= sizeof text || has(s, '\0'))
        return -1;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return net_address_parse(text, ret);
}

static void clear_host_bits(struct net_address *a, unsigned prefix)
{
    for (unsigned bit = prefix; bit < 128; bit++)
        a->bytes[bit / 8] &= (uint8_t) ~(0x80u >> (bit % 8));
}

// As written: the prefix of an IPv4 network is out of 32.
static void format_network(const struct net_address *a, unsigned prefix, char *buf, size_t cap)
{
    char text[NET_ADDRESS_TEXT];
    net_address_text(a, text);
    snprintf(buf, cap, "%s/%u", text, net_address_is_v4(a) ? prefix - 96 : prefix);
}

// "192.0.2.0/24", where what is before the '/' is `base` already.
static int read_network(struct piece whole, struct piece bits, struct net_rule *ret, struct err *e)
{
    char right[NET_ADDRESS_TEXT + 4];
    bool short_form = net_address_is_v4(&ret->address) && !has(whole, ':');
    unsigned max = short_form ? 32 : 128, prefix;
    if (read_number(bits, max, &prefix) < 0)
        return refuse(e, whole,
                      short_form ? "write a number from 0 to 32 behind the '/'"
                                 : "write a number from 0 to 128 behind the '/'",
                      "is not a network");
    ret->prefix = short_form ? prefix + 96 : prefix;
    struct net_address base = ret->address;
    clear_host_bits(&base, ret->prefix);
    if (memcmp(base.bytes, ret->address.bytes, sizeof base.bytes) != 0) {
        format_network(&base, ret->prefix, right, sizeof right);
        (void)refuse(e, whole, NULL, "is not a network: bits behind its prefix are set");
        err_hint(e, "write '%s' for the network, or the address alone", right);
        return -1;
    }
    ret->kind = NET_KIND_NETWORK;
    return 0;
}

// ---- texts --------------------------------------------------------------------------------------

// For a hint: a URL without scheme, user and path, if that is a rule.
static void suggest(struct piece s, struct err *e)
{
    static const struct {
        const char *scheme, *port;
    } schemes[] = {{"http://", ":80"}, {"ws://", ":80"}, {"https://", ":443"}, {"wss://", ":443"}};
    const char *port = "", *at;
    struct net_rule r = {0};
    char text[NET_RULE_TEXT];
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (s.n > strlen(schemes[i].scheme) &&
            strncasecmp(s.p, schemes[i].scheme, strlen(schemes[i].scheme)) == 0)
            port = schemes[i].port;
    if ((at = memmem(s.p, s.n, "://", 3)))
        s = (struct piece){at + 3, s.n - (size_t)(at + 3 - s.p)};
    size_t n = 0;
    while (n < s.n && !strchr("/?#\\", s.p[n]))
        n++;
    const char *more = n + 1 < s.n ? "; paths and methods go into an object: "
                                     "{\"host\": ..., \"paths\": [...]}"
                                   : "";
    s.n = n;
    if ((at = memrchr(s.p, '@', s.n)))
        s = (struct piece){at + 1, s.n - (size_t)(at + 1 - s.p)};
    struct err ignored;
    if (net_rule_parse_text(&r, s.p, s.n, &ignored) == 0) {
        if (r.kind != NET_KIND_NETWORK) {
            net_rule_format(&r, text);
            // An IPv6 address would need brackets: the hint leaves the port out.
            bool add = net_rule_any_port(&r) && net_rule_is_name(&r);
            err_hint(e, "write '%s%s'%s", text, add ? port : "", more);
        }
        net_rule_done(&r);
    }
}

static int refuse_url(struct err *e, struct piece s, const char *what)
{
    (void)refuse(e, s, "write the host alone, such as 'api.example.org' or 'api.example.org:443'",
                 what);
    if (e)
        suggest(s, e);
    return -1;
}

// Refuses URLs and parts of them.
static int check_form(struct piece s, struct err *e)
{
    if (s.p && memmem(s.p, s.n, "://", 3))
        return refuse_url(e, s, "has a scheme");
    if (has(s, '@'))
        return refuse_url(e, s, "has a user name");
    if (has(s, '\\') || has(s, '?') || has(s, '#'))
        return refuse_url(e, s, "has a path or a query");
    if (has(s, '%'))
        return refuse(e, s, "write addresses without a zone, and names without percent codes",
                      "has a '%' in it");
    return 0;
}

static int read_name(struct piece s, struct net_rule *ret, char host[NET_HOST_MAX + 1],
                     struct err *e)
{
    ret->kind = NET_KIND_HOST;
    if (s.n == 1 && s.p[0] == '*') {
        ret->kind = NET_KIND_ANY;
        host[0] = '\0';
        return 0;
    }
    struct piece rest = s;
    if (s.n >= 2 && s.p[0] == '*' && s.p[1] == '.') {
        ret->kind = NET_KIND_BELOW;
        rest = (struct piece){s.p + 2, s.n - 2};
    }
    if (has(rest, '*'))
        return refuse(
            e, s, "write '*.example.org' for all names below example.org, or '*' for every name",
            "has a '*' that is not the whole first label");
    if (net_host_normalise(rest.p, rest.n, host, e) < 0)
        return -1;
    return 0;
}

// "host", "host:port" with an address or a name; `s` has no brackets and at most one ':'.
static int read_plain(struct piece s, struct net_rule *ret, char *host, struct err *e)
{
    const char *colon = memchr(s.p, ':', s.n), *slash = memchr(s.p, '/', s.n);
    struct piece part = {s.p, colon ? (size_t)(colon - s.p) : s.n};
    if (slash && colon && slash > colon)
        return refuse_url(e, s, "has a path");
    if (slash) {
        struct piece base = {s.p, (size_t)(slash - s.p)};
        struct piece bits = {slash + 1, part.n - base.n - 1};
        if (read_address(base, &ret->address) < 0)
            return refuse_url(e, s, "has a path");
        if (read_network(part, bits, ret, e) < 0)
            return -1;
    } else if (read_address(part, &ret->address) == 0) {
        ret->kind = NET_KIND_ADDRESS;
    } else if (read_name(part, ret, host, e) < 0) {
        return -1;
    }
    return colon ? read_ports_of(s, (struct piece){colon + 1, s.n - part.n - 1}, ret, e) : 0;
}

// An IPv6 address or network, without brackets around it.
static int read_v6(struct piece s, struct net_rule *ret, struct err *e)
{
    const char *slash = memchr(s.p, '/', s.n);
    struct piece base = {s.p, slash ? (size_t)(slash - s.p) : s.n};
    if (read_address(base, &ret->address) < 0 || !has(base, ':'))
        return refuse(e, s,
                      "write one port or range behind one ':', and an IPv6 address as "
                      "'2001:db8::7' or '[2001:db8::7]:443'",
                      "is neither a host with a port nor an IPv6 address");
    ret->kind = NET_KIND_ADDRESS;
    if (!slash)
        return 0;
    return read_network(s, (struct piece){slash + 1, s.n - base.n - 1}, ret, e);
}

static int read_brackets(struct piece s, struct net_rule *ret, struct err *e)
{
    const char *close = memchr(s.p, ']', s.n);
    if (!close)
        return refuse(e, s, "write an IPv6 address as '[2001:db8::7]:443'",
                      "has a '[' without a ']'");
    if (read_v6((struct piece){s.p + 1, (size_t)(close - s.p) - 1}, ret, e) < 0)
        return -1;
    struct piece rest = {close + 1, s.n - (size_t)(close + 1 - s.p)};
    if (rest.n == 0)
        return 0;
    if (rest.p[0] != ':')
        return refuse(e, s, "write '[2001:db8::7]:443', or '[2001:db8::/32]:443' for a network",
                      "has no port after the ']'");
    return read_ports_of(s, (struct piece){rest.p + 1, rest.n - 1}, ret, e);
}

// Both texts into one block.
static int keep_texts(struct net_rule *r, struct piece written, const char *host)
{
    size_t n = strlen(host), shown = written.n < NET_RULE_TEXT ? written.n : 0;
    char fallback[NET_RULE_TEXT];
    r->host = host;
    r->host_length = n;
    if (shown == 0) { // too long for net_decision: use the DNS spelling
        net_rule_format(r, fallback);
        written = (struct piece){fallback, strlen(fallback)};
        shown = written.n;
    }
    if (!(r->text = malloc(shown + 1 + n + 1)))
        return -ENOMEM;
    memcpy(r->text, written.p, shown);
    r->text[shown] = '\0';
    text_sanitize(r->text);
    memcpy(r->text + shown + 1, host, n + 1);
    r->host = r->text + shown + 1;
    return 0;
}

int net_rule_parse_text(struct net_rule *ret, const char *text, size_t length, struct err *e)
{
    struct piece s = {text, length};
    struct net_rule r = {.port_min = 1, .port_max = UINT16_MAX};
    char host[NET_HOST_MAX + 1] = "";
    if (length == 0)
        return err_set(e, ERR_BAD_VALUE, 0, "write a host such as 'api.example.org:443'",
                       "the rule is empty");
    if (length > NET_NAME_MAX)
        return refuse(e, s, "names have at most 253 characters", "is too long for a host");
    if (net_check_characters(text, length, e) < 0 || check_form(s, e) < 0)
        return -1;
    const char *colon = memchr(text, ':', length);
    bool more = colon && memchr(colon + 1, ':', length - (size_t)(colon + 1 - text));
    int bad = s.p[0] == '[' ? read_brackets(s, &r, e)
              : has(s, ']') ? refuse(e, s, "write an IPv6 address as '[2001:db8::7]:443'",
                                     "has a ']' without a '['")
              : more        ? read_v6(s, &r, e)
                            : read_plain(s, &r, host, e);
    if (bad < 0)
        return bad;
    if (keep_texts(&r, s, host) < 0)
        return err_memory(e);
    *ret = r;
    return 0;
}

// ---- objects ------------------------------------------------------------------------------------

static bool is_token(struct piece s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return s.n > 0;
}

static int add_method(struct net_http *h, struct piece s, struct err *e)
{
    if (s.n > NET_METHOD_MAX || !is_token(s))
        return refuse(e, s, "write methods in capitals, such as 'GET'", "is not a method");
    if (h->method_count == NET_METHODS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "leave methods out for all of them",
                       "there are more than %d methods", NET_METHODS_MAX);
    memcpy(h->methods[h->method_count], s.p, s.n);
    h->methods[h->method_count++][s.n] = '\0';
    return 0;
}

static int add_path(struct net_http *h, struct piece s, struct err *e)
{
    // The check puts a slash before a leading star: every path has one.
    char given[NET_PATH_MAX + 2] = "/", path[NET_PATH_MAX + 2];
    const char *why;
    bool star = s.n && s.p[0] == '*';
    static const char hint[] = "write a path such as '/v1/*', where '*' is anything";
    if (h->path_count == NET_PATHS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "use '*', or more rules",
                       "there are more than %d paths", NET_PATHS_MAX);
    if (s.n > NET_PATH_MAX) {
        (void)refuse(e, s, NULL, "is too long for a path");
        err_hint(e, "paths of rules have at most %d bytes", NET_PATH_MAX);
        return -1;
    }
    memcpy(given + star, s.p, s.n);
    if (net_path_reduce(given, s.n + star, path, sizeof path, &why) < 0) {
        char shown[NET_QUOTE_MAX];
        net_quote(s.p, s.n, shown);
        return err_set(e, ERR_BAD_VALUE, 0,
                       has(s, '?') ? "leave the query out: rules do not judge it" : hint,
                       "'%s' is not a path that a rule can have: %s", shown, why);
    }
    size_t n = strlen(path + star) + 1;
    if (!(h->paths[h->path_count] = malloc(n)))
        return err_memory(e);
    memcpy(h->paths[h->path_count++], path + star, n);
    return 0;
}

static int read_bounds(struct net_rule *r, const json_t *list, const char *name,
                       int (*add)(struct net_http *, struct piece, struct err *), struct err *e)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return err_set(e, ERR_BAD_VALUE, 0, "write a list of texts, or leave it out for no bound",
                       "%s is not a list, or is empty", name);
    if (!r->http && !(r->http = calloc(1, sizeof *r->http)))
        return err_memory(e);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_string(item))
            return err_set(e, ERR_BAD_VALUE, 0, "write a text", "%s[%zu] is not a text", name, i);
        if (add(r->http, (struct piece){json_string_value(item), json_string_length(item)}, e) < 0)
            return err_wrap(e, "%s[%zu]", name, i);
    }
    return 0;
}

static int read_port_member(struct net_rule *r, const json_t *port, struct err *e)
{
    static const char hint[] = "write a number from 1 to 65535, or a range such as \"8000-8010\"";
    if (!net_rule_any_port(r))
        return err_set(e, ERR_BAD_VALUE, 0, "name the port in one of them",
                       "both 'host' and 'port' name a port");
    if (json_is_string(port)) {
        int n = read_ports((struct piece){json_string_value(port), json_string_length(port)}, r, e);
        return n < 0 ? err_wrap(e, "port") : 0;
    }
    // 443.0 is a whole number, too.
    double number = json_is_number(port) ? json_number_value(port) : 0;
    json_int_t value = number >= 1 && number <= UINT16_MAX ? (json_int_t)number : 0;
    if ((double)value != number || value < 1 || value > UINT16_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "'port' is not a port");
    r->port_min = r->port_max = (uint16_t)value;
    return 0;
}

static int read_object(struct net_rule *r, const json_t *o, bool bounds, struct err *e)
{
    static const char *const names[] = {"host", "port", "methods", "paths", NULL};
    const json_t *host = json_object_get(o, "host"), *port = json_object_get(o, "port");
    const json_t *methods = json_object_get(o, "methods"), *paths = json_object_get(o, "paths");
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)o, key, value) {
        if (net_unknown_member(key, names, e) < 0)
            return -1;
    }
    if (!json_is_string(host))
        return err_set(e, ERR_BAD_VALUE, 0, "write {\"host\": \"api.example.org\", \"port\": 443}",
                       host ? "host is not a text" : "the rule has no host");
    if ((methods || paths) && !bounds)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "deny the host, or put methods and paths into the rules that allow it",
                       "a deny rule cannot have methods or paths");
    int bad = net_rule_parse_text(r, json_string_value(host), json_string_length(host), e);
    if (bad < 0)
        return bad;
    if ((port && (bad = read_port_member(r, port, e)) < 0) ||
        (methods && (bad = read_bounds(r, methods, "methods", add_method, e)) < 0) ||
        (paths && (bad = read_bounds(r, paths, "paths", add_path, e)) < 0))
        return bad;
    return 0;
}

// "api.example.org:80 GET HEAD /v1/*" is how an object is shown.
static int show_object(struct net_rule *r)
{
    char text[NET_RULE_TEXT], host[NET_HOST_MAX + 1];
    net_rule_format(r, text);
    size_t n = strlen(text);
    for (size_t i = 0; r->http && i < r->http->method_count && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", r->http->methods[i]);
    for (size_t i = 0; r->http && i < r->http->path_count && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", r->http->paths[i]);
    snprintf(host, sizeof host, "%s", r->host);
    char *old = r->text;
    int bad = keep_texts(r, (struct piece){text, strlen(text)}, host);
    if (bad < 0)
        r->text = NULL;
    free(old);
    return bad;
}

int net_rule_parse(struct net_rule *ret, const json_t *value, bool bounds, struct err *e)
{
    if (json_is_string(value))
        return net_rule_parse_text(ret, json_string_value(value), json_string_length(value), e);
    if (!json_is_object(value))
        return err_set(e, ERR_BAD_VALUE, 0, "write a host such as \"api.example.org:443\"",
                       "a rule is a text or an object, not %s",
                       json_is_array(value)     ? "a list"
                       : json_is_number(value)  ? "a number"
                       : json_is_boolean(value) ? "true or false"
                                                : "null");
    struct net_rule r = {0};
    int bad = read_object(&r, value, bounds, e);
    if (bad == 0 && (bad = show_object(&r)) < 0)
        (void)err_memory(e);
    if (bad < 0)
        net_rule_done(&r);
    else
        *ret = r;
    return bad;
}

void net_rule_done(struct net_rule *r)
{
    for (size_t i = 0; r->http && i < r->http->path_count; i++)
        free(r->http->paths[i]);
    free(r->http);
    free(r->text);
    *r = (struct net_rule){0};
}

int net_rule_copy(struct net_rule *ret, const struct net_rule *r)
{
    struct net_rule copy = *r;
    copy.http = NULL;
    if (keep_texts(&copy, (struct piece){r->text, strlen(r->text)}, r->host) < 0)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

// ---- back to text -------------------------------------------------------------------------------

static void format_host(const struct net_rule *r, bool brackets, char *buf, size_t cap)
{
    char inner[NET_ADDRESS_TEXT + 8];
    switch (r->kind) {
    case NET_KIND_ANY: snprintf(buf, cap, "*"); return;
    case NET_KIND_HOST: snprintf(buf, cap, "%s", r->host); return;
    case NET_KIND_BELOW: snprintf(buf, cap, "*.%s", r->host); return;
    case NET_KIND_ADDRESS: net_address_text(&r->address, inner); break;
    case NET_KIND_NETWORK: format_network(&r->address, r->prefix, inner, sizeof inner); break;
    }
    brackets = brackets && !net_address_is_v4(&r->address);
    snprintf(buf, cap, brackets ? "[%s]" : "%s", inner);
}

static void format_ports(const struct net_rule *r, char *buf, size_t cap)
{
    if (net_rule_any_port(r))
        buf[0] = '\0';
    else if (r->port_min == r->port_max)
        snprintf(buf, cap, "%u", r->port_min);
    else
        snprintf(buf, cap, "%u-%u", r->port_min, r->port_max);
}

void net_rule_format(const struct net_rule *r, char ret[NET_RULE_TEXT])
{
    char ports[16], host[NET_HOST_MAX + 8];
    format_ports(r, ports, sizeof ports);
    format_host(r, ports[0], host, sizeof host);
    snprintf(ret, NET_RULE_TEXT, "%s%s%s", host, ports[0] ? ":" : "", ports);
}

static json_t *strings(const struct net_http *h, bool paths)
{
    json_t *list = json_array();
    size_t n = paths ? h->path_count : h->method_count;
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_string(paths ? h->paths[i] : h->methods[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *net_rule_json(const struct net_rule *r)
{
    char text[NET_RULE_TEXT], ports[16];
    if (!r->http) {
        net_rule_format(r, text);
        return json_string(text);
    }
    format_host(r, false, text, sizeof text);
    format_ports(r, ports, sizeof ports);
    json_t *o = json_object();
    int bad = json_object_set_new(o, "host", json_string(text));
    if (ports[0])
        bad |= json_object_set_new(
            o, "port", r->port_min == r->port_max ? json_integer(r->port_min) : json_string(ports));
    if (r->http->method_count)
        bad |= json_object_set_new(o, "methods", strings(r->http, false));
    if (r->http->path_count)
        bad |= json_object_set_new(o, "paths", strings(r->http, true));
    return json_whole(o, bad);
}
