// SPDX-License-Identifier: Apache-2.0
//
// show_file: see show_file.h.  Runs in the gate.

#include "rest/show_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "exec/exec_input.h"
#include "rest/files.h"

enum { URI_MAX = 3 * SCRATCH_PATH_MAX + 128, URL_MAX = 4096 };

// ---- objects ------------------------------------------------------------------------------------

static json_t *time_json(int64_t ms)
{
    char text[TEXT_TIME_MAX];
    text_format_time(ms, text);
    return json_string(text);
}

static json_t *file_json(struct rest_call *c, const char *source, const char *path, uint64_t size,
                         const char *mime_type, int64_t modified_ms, const struct artifact *stored)
{
    const struct gate *g = c->rest->gate;
    char uri[URI_MAX], url[URL_MAX] = "";
    exec_file_uri(source, path, uri, sizeof uri);
    if (stored && g->file_url)
        g->file_url(g, stored, url, sizeof url);
    return json_pack("{s:s, s:I, s:s, s:o, s:s, s:o}", "path", path, "size", (json_int_t)size,
                     "mime_type", mime_type, "modified_at", time_json(modified_ms), "uri", uri,
                     "url", url[0] ? json_string(url) : json_null());
}

json_t *show_scratch_file(struct rest_call *c, const char *session, const struct scratch_file *f,
                          const struct artifact *stored)
{
    const char *type = stored ? stored->mime_type : mime_type(f->path, NULL, 0);
    return file_json(c, session, f->path, f->size, type, f->mtime_ns / 1000000, stored);
}

json_t *show_artifacts(struct rest_call *c, const struct artifact *list, size_t count)
{
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct artifact *a = &list[i];
        json_t *o = file_json(c, a->holder, a->path, a->size, a->mime_type, a->modified_ms, a);
        json_t *more = json_pack("{s:s, s:s, s:o, s:o}", "session", a->holder, "execution_id",
                                 a->execution_id, "created_at", time_json(a->created_ms),
                                 "expires_at", time_json(a->expires_ms));
        if (!o || !more || json_object_update_new(o, more) < 0 ||
            json_array_append_new(all, json_incref(o)) < 0) {
            json_decref(o);
            json_decref(all);
            return NULL;
        }
        json_decref(o);
    }
    return all;
}

// ---- bytes --------------------------------------------------------------------------------------

static void set_modified(struct http_exchange *x, int64_t ms)
{
    char text[64];
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        http_add_header(x, "Last-Modified", text);
}

void show_bytes(struct rest_call *c, const struct show_file *f)
{
    struct http_exchange *x = rest_let_go(c);
    char shown[MIME_TYPE_MAX + 32];
    rest_file_headers(x, f->path, f->mime_type); // SECURITY: hostile code wrote it
    set_modified(x, f->modified_ms);
    bool text = strncmp(f->mime_type, "text/", 5) == 0;
    snprintf(shown, sizeof shown, "%s%s", f->mime_type, text ? "; charset=utf-8" : "");
    if (f->data)
        http_serve_bytes(x, shown, f->data, f->size, f->etag);
    else
        http_serve_file(x, shown, f->fd, f->size, f->etag);
    rest_free(c);
}
