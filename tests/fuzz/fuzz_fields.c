// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of the REST API's request: the first byte picks a route and a method, then comes a
// path, a NUL byte and a body.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "files/scratch.h"
#include "rest/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t cap)
{
    size_t length = strnlen(text, cap);
    assert(length < cap);
    assert(utf8_valid_length(text, length) == length);
}

static void check_body(const struct field *fields, const uint8_t *data, size_t size)
{
    static struct config config;
    if (!config.wall_ms)
        config_init(&config);
    json_t *body =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    struct err e = {0};
    if (body && fields && fields_check(FIELDS(fields), &config, body, &e) < 0) {
        assert(e.message[0]);
        check_text(e.message, sizeof e.message);
        check_text(e.hint, sizeof e.hint);
    }
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum http_method methods[] = {HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_DELETE,
                                               HTTP_HEAD};
    const uint8_t *nul = size > 1 ? memchr(data + 1, '\0', size - 1) : NULL;
    struct route_match m;
    unsigned allow, count = 0;
    char path[SCRATCH_PATH_MAX + 1];
    struct err e = {0};
    if (!nul)
        return 0;
    if (route_find(&rest_table, methods[data[0] % 5], (const char *)data + 1,
                   (size_t)(nul - data) - 1, &m, &allow) == ROUTE_FOUND) {
        assert(strnlen(m.id, sizeof m.id) < sizeof m.id);
        if (m.path[0] && scratch_path(m.path, strlen(m.path), path, &e) == 0) {
            assert(path[0] && path[0] != '/' && strcmp(path, "..") != 0);
            assert(strncmp(path, "../", 3) != 0 && !strstr(path, "/../") && !strstr(path, "//"));
            check_text(path, sizeof path);
        }
    }
    for (const struct rest_route *r = rest_routes; r->path; r++)
        count++;
    check_body(rest_routes[data[0] % count].fields, nul + 1, size - (size_t)(nul - data) - 1);
    return 0;
}
