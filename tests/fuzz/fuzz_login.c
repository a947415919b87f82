// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of what stands around secrets and of small readers of headers: the first byte picks
// one.  A request that gets a login is still one request, with one Host and one Authorization.
// Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "broker/login.h"
#include "env/preload.h"
#include "rest/keys.h"
#include "rest/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct net_login who = {
    .host = "index.example.org", .port = 8443, .value = "Basic c2VjcmV0OnNlY3JldA=="};

// How many lines of a head begin with this name.
static unsigned count(const char *head, size_t length, const char *name)
{
    unsigned n = 0;
    for (const char *line = head, *end = head + length; line < end;) {
        const char *lf = memchr(line, '\n', (size_t)(end - line));
        assert(lf && lf > line && lf[-1] == '\r');
        n += (size_t)(lf - line) > strlen(name) && strncasecmp(line, name, strlen(name)) == 0;
        line = lf + 1;
    }
    return n;
}

static void try_head(char *text, size_t size)
{
    static char out[REQUEST_HEAD_MAX + NET_VALUE_MAX + NET_HOST_MAX + 128];
    static struct request_head h;
    struct request r = {0};
    size_t used;
    const char *why;
    if (request_next(&r, (uint8_t *)text, size, &h, &used, &why) != REQUEST_HEAD ||
        r.state != REQUEST_IN_HEAD)
        return;
    ssize_t n = login_head(text, used, &h, &who, out, sizeof out, &why);
    if (n < 0) {
        assert(why && why[0]);
        return;
    }
    assert((size_t)n <= sizeof out && n > 4 && memcmp(out + n - 4, "\r\n\r\n", 4) == 0);
    assert(memmem(out, (size_t)n, "\r\n\r\n", 4) == out + n - 4);
    assert(strncmp(out, "GET ", 4) == 0 || strncmp(out, "HEAD ", 5) == 0);
    assert(count(out, (size_t)n, "Host:") == 1 && count(out, (size_t)n, "Authorization:") == 1);
    assert(!count(out, (size_t)n, "Transfer-Encoding:") &&
           !count(out, (size_t)n, "Content-Length:"));
}

static void try_address(char *text)
{
    struct net_login l;
    struct net_proxy proxy;
    struct err e = {0};
    char plain[256];
    size_t before = strlen(text);
    (void)net_proxy_parse(text, &proxy, &e);
    (void)net_login_address(text, plain, sizeof plain);
    int r = net_login_split(text, &l, &e);
    assert(strlen(text) <= before && strnlen(l.value, sizeof l.value) < sizeof l.value);
    if (r == 1) {
        const char *host = strstr(text, "://") + 3;
        assert(!memchr(host, '@', strcspn(host, "/?#")) && l.host[0] && l.port);
        assert(strncmp(l.value, "Basic ", 6) == 0 && !strpbrk(l.value, "\r\n"));
    }
}

static void try_file(char *text)
{
    static struct net_logins all;
    struct net_logins hosts = {.count = 1, .items = {who}};
    struct err e = {0};
    all = (struct net_logins){0};
    if (net_login_file(text, &hosts, &all, &e) == 0)
        assert(all.count <= 1);
    else
        assert(e.message[0] && strnlen(e.message, sizeof e.message) < sizeof e.message);
}

static void try_headers(const char *text)
{
    char key[KEYS_TEXT_MAX + 1];
    (void)lines_wants_events(text);
    if (keys_parse(text, key) == 0)
        assert(key[0] && strlen(key) <= KEYS_TEXT_MAX);
}

static void try_preload(const char *text, size_t size)
{
    json_t *o = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    struct preload p = {0};
    struct err e = {0};
    json_t *list = o ? preload_check(o, &e) : NULL;
    assert(!o || list || e.message[0]);
    assert(json_array_size(list) <= PRELOAD_MAX);
    preload_read(&p, o);
    preload_learn(&p, o);
    preload_give_up(&p, "numpy");
    json_t *names = preload_names(&p), *kept = preload_json(&p);
    assert(names && kept && json_array_size(names) <= 2 * PRELOAD_MAX);
    json_decref(names);
    json_decref(kept);
    json_decref(list);
    json_decref(o);
    preload_clear(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    _cleanup_free_ char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 5) {
    case 0: try_head(text, size - 1); break;
    case 1: try_address(text); break;
    case 2: try_file(text); break;
    case 3: try_headers(text); break;
    default: try_preload(text, size - 1); break;
    }
    return 0;
}
