// SPDX-License-Identifier: Apache-2.0
//
// origin: see origin.h.

#include "http/origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "config/config.h"

// Letters, digits, '-', '_' and dots in between: what a name in a URL can be after its encoding.
static bool is_name(const char *s)
{
    if (!*s || *s == '.' || *s == '-')
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '-' || *s == '_' ||
              (*s == '.' && s[1] != '.' && s[1] != '\0')))
            return false;
    return true;
}

// ":8000", "" (none) or ":" (none as well, RFC 3986).
static int parse_port(struct slice s, int *ret)
{
    int port = 0;
    *ret = -1;
    if (s.n == 0)
        return 0;
    if (s.p[0] != ':' || s.n > 6)
        return -1;
    for (size_t i = 1; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        port = port * 10 + (s.p[i] - '0');
    }
    if (port > 65535)
        return -1;
    if (s.n > 1)
        *ret = port;
    return 0;
}

static int set_address(int family, const char *text, struct origin *ret)
{
    unsigned char binary[sizeof(struct in6_addr)];
    ret->is_address = inet_pton(family, text, binary) == 1 &&
                      inet_ntop(family, binary, ret->name, sizeof ret->name);
    return ret->is_address ? 0 : -1;
}

int origin_parse_host(struct slice text, struct origin *ret)
{
    char name[sizeof ret->name];
    bool bracketed = text.p && text.n && text.p[0] == '[';
    *ret = (struct origin){.port = -1};
    if (!text.p)
        return -1;
    const char *end = memchr(text.p, bracketed ? ']' : ':', text.n);
    size_t n = end ? (size_t)(end - text.p) : text.n;
    if (n >= sizeof name || (bracketed && !end))
        return -1;
    size_t used = bracketed ? n + 1 : n;
    if (parse_port((struct slice){text.p + used, text.n - used}, &ret->port) < 0)
        return -1;
    size_t from = bracketed ? 1 : 0;
    for (size_t i = from; i < n; i++) {
        char c = text.p[i];
        name[i - from] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    name[n - from] = '\0';
    if (strlen(name) != n - from)
        return -1;
    if (bracketed)
        return set_address(AF_INET6, name, ret);
    if (!is_name(name))
        return -1;
    if (set_address(AF_INET, name, ret) < 0)
        snprintf(ret->name, sizeof ret->name, "%s", name);
    return 0;
}

int origin_parse(struct slice text, struct origin *ret)
{
    static const char *const schemes[] = {"https", "http"};
    for (size_t i = 0; text.p && i < ARRAY_LEN(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (text.n < n + 3 || strncasecmp(text.p, schemes[i], n) != 0 ||
            memcmp(text.p + n, "://", 3) != 0)
            continue;
        if (origin_parse_host((struct slice){text.p + n + 3, text.n - n - 3}, ret) < 0)
            return -1;
        snprintf(ret->scheme, sizeof ret->scheme, "%s", schemes[i]);
        return 0;
    }
    return -1;
}

// A configured address; IPv6 with or without brackets.
int origin_parse_configured(const char *text, struct origin *ret)
{
    const char *colon = strchr(text, ':');
    char bracketed[CONFIG_TEXT_MAX + 3];
    if (text[0] != '[' && colon && strchr(colon + 1, ':')) {
        snprintf(bracketed, sizeof bracketed, "[%s]", text);
        text = bracketed;
    }
    return origin_parse_host((struct slice){text, strlen(text)}, ret);
}

bool origin_is_loopback(const struct origin *p)
{
    if (!p->is_address)
        return strcmp(p->name, "localhost") == 0;
    return strncmp(p->name, "127.", 4) == 0 || strcmp(p->name, "::1") == 0 ||
           strncmp(p->name, "::ffff:127.", 11) == 0;
}

bool origin_host_is_loopback(const char *host)
{
    struct origin p;
    return origin_parse_configured(host, &p) == 0 && origin_is_loopback(&p);
}

bool origin_host_is_wildcard(const char *host)
{
    struct origin p;
    return origin_parse_configured(host, &p) == 0 && p.is_address &&
           (strcmp(p.name, "0.0.0.0") == 0 || strcmp(p.name, "::") == 0);
}

bool origin_same_host(const struct origin *a, const struct origin *b)
{
    return a->is_address == b->is_address && strcmp(a->name, b->name) == 0;
}

// The origin of a URL with any path.
int origin_parse_url(const char *url, struct origin *ret)
{
    const char *start = strstr(url, "://");
    size_t n = start ? (size_t)(start - url) + 3 + strcspn(start + 3, "/?#") : 0;
    return start ? origin_parse((struct slice){url, n}, ret) : -1;
}
