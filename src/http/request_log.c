// SPDX-License-Identifier: Apache-2.0
//
// request_log: see request_log.h.  Runs in the gate.

#include "http/request_log.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"

// SECURITY: the id goes into a header and into a log line: refuse every character that ends either.
bool request_id_is_good(const char *text)
{
    size_t n =
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@#");
    return n > 0 && n < REQUEST_ID_SIZE && text[n] == '\0';
}

void request_log_begin(struct exchange *p)
{
    const char *given = http_header(&p->x, "X-Request-ID");
    p->begin_us = clock_us();
    if (given && request_id_is_good(given))
        snprintf(p->request_id, sizeof p->request_id, "%s", given);
    else
        (void)id_new(p->request_id); // without random bytes it has none
}

void request_log_status(struct exchange *p, int status)
{
    p->status = status;
    if (p->request_id[0])
        http_add_header(&p->x, "X-Request-ID", p->request_id);
}

static const char *method_of(const struct exchange *p)
{
    if (p->options)
        return "OPTIONS";
    switch (p->x.method) {
    case HTTP_GET: return "GET";
    case HTTP_HEAD: return "HEAD";
    case HTTP_POST: return "POST";
    case HTTP_PUT: return "PUT";
    case HTTP_DELETE: return "DELETE";
    }
    return "?";
}

void request_log_end(const struct exchange *p)
{
    struct http *h = p->x.server;
    if (!p->begin_us)
        return; // it was never complete
    int class = p->status / 100;
    if (h->answers)
        h->answers[class > 0 && class < 6 ? class : 0]++;
    // SECURITY: a link works without a key, so what follows the prefix of such a route is a secret.
    const char *path = p->route && p->route->open ? p->route->path : p->x.path;
    double ms = (double)(clock_us() - p->begin_us) / 1000;
    if (p->status)
        log_line(LOG_INFO, "request %s: %s %.300s: %d in %.1f ms", p->request_id, method_of(p),
                 path, p->status, ms);
    else
        log_line(LOG_INFO, "request %s: %s %.300s: the client left after %.1f ms", p->request_id,
                 method_of(p), path, ms);
}
