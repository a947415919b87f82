// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of http/head, http/origin, http/door and http/jwt: the input is what a stranger sends
// before anything is known of him: a head, perhaps with a body in chunks behind it.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/door.h"
#include "http/jwt.h"
#include "http/origin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A door with everything: names, origins, keys and a key set.
static struct door *door(void)
{
    static struct config config;
    static struct door *d;
    static const char set[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\","
                              "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    struct err e;
    if (d)
        return d;
    char path[] = "/tmp/fuzz_door.XXXXXX";
    int fd = mkstemp(path);
    assert(fd >= 0 && write(fd, set, sizeof set - 1) == (ssize_t)sizeof set - 1);
    (void)close(fd);
    config_init(&config);
    snprintf(config.oauth_keys, sizeof config.oauth_keys, "%s", path);
    snprintf(config.oauth_issuer, sizeof config.oauth_issuer, "https://a");
    snprintf(config.public_url, sizeof config.public_url, "https://mcp.example.org");
    (void)text_list_add(&config.api_keys, "long-enough-key");
    (void)text_list_add(&config.allowed_hosts, "box,other:80");
    (void)text_list_add(&config.allowed_origins, "https://app.example.org");
    assert(door_check_bind(&config, &e) == 0);
    d = door_open(&config, &e);
    assert(d);
    (void)unlink(path);
    return d;
}

static bool clean(const char *text)
{
    return !strpbrk(text, "\r\n");
}

static void knock(const struct head *h)
{
    struct door_refusal r;
    char owner[DOOR_OWNER_MAX + 1], headers[256];
    if (door_check_origin(door(), h, &r) == 0) {
        struct origin host;
        assert(origin_parse_host(h->field[HEAD_HOST], &host) == 0 && host.name[0]);
    } else {
        assert(r.status == 403 && clean(r.challenge));
    }
    if (door_check_key(door(), h, 1800000000, owner, &r) == 0)
        assert(strncmp(owner, "key-", 4) == 0);
    else
        assert((r.status == 401 || r.status == 403) && clean(r.challenge) && clean(r.message));
    door_allow_headers(h->field[HEAD_WANT_HEADERS], headers, sizeof headers);
    assert(clean(headers));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); // of just its size but one, so that reading on is seen
    struct head_scan whole = {0}, pieces = {0};
    struct head_fault fault = {0};
    struct head h;
    if (!text)
        return 0;
    memcpy(text, data, size);
    ssize_t end = head_find_end(&whole, text, size, &fault), again = 0;
    for (size_t i = 1; i <= size && again == 0; i += 3)
        again = head_find_end(&pieces, text, i, &fault);
    if (again == 0)
        again = head_find_end(&pieces, text, size, &fault);
    assert(end == again || end < 0 || again < 0);
    if (end > 0 && head_parse(text, (size_t)end, &h, &fault) == 0) {
        assert(h.method.n && h.target.n && h.target.p[0] == '/');
        assert(!(h.chunked && h.length));
        for (int i = 0; i < HEAD_FIELD_MAX; i++)
            assert(!h.field[i].p || !memchr(h.field[i].p, '\n', h.field[i].n));
        knock(&h);
        struct chunks c = {.max = 1000};
        size_t used = 0;
        int r = h.chunked ? chunks_feed(&c, text + end, size - (size_t)end, &used, &fault) : 0;
        assert(r != 1 || (used <= size - (size_t)end && c.body <= 1000));
    }
    // The parts on their own: few inputs are heads.
    text[size] = '\0';
    h = (struct head){.field[HEAD_HOST] = {text, size},
                      .field[HEAD_ORIGIN] = {text, size},
                      .field[HEAD_AUTHORIZATION] = {text, size}};
    knock(&h);
    struct text_list scopes = {0};
    struct jwt_rules rules = {"https://a", "https://a", &scopes};
    struct jwt_claims claims;
    struct err e;
    struct jwt_keys *keys = jwt_keys_parse(text, size, &e);
    if (keys)
        (void)jwt_check(keys, &rules, text, size, 0, &claims);
    jwt_keys_free(keys);
    free(text);
    return 0;
}
