// SPDX-License-Identifier: Apache-2.0
//
// environment_files: the routes /environments/{name}/export and .../import: an environment as one
// file.  Handlers of rest/route.c; run in the gate.
// An unnamed file in the state folder lies between the client and the porter: memory stays flat, a
// slow client never delays the porter, and errors are known before the first byte is sent.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "env/envs.h"
#include "files/share.h"
#include "rest/environments.h"

enum { MOVING_MAX = 4, WAIT_MS = 30000, WORD_MAX = 16 };

struct rest_moving {
    struct env_export *export;
    int fd;
    char owner[65];
    struct share_part share;
    int stream; // an import, when its file is there: what the query asks for
    uint64_t wait_ms;
};

// SECURITY: each transfer takes as much disk as its environment, for as long as a slow client
// likes.  So there are few.
static struct share moving = TAILQ_HEAD_INITIALIZER(moving);

void rest_moving_free(struct rest_moving *m)
{
    if (!m)
        return;
    envs_export_cancel(m->export);
    fd_close(&m->fd);
    share_give(&m->share);
    free(m);
}

// NULL: the call was answered.
static struct rest_moving *begin(struct rest_call *c)
{
    struct rest_moving *m = calloc(1, sizeof *m);
    if (m)
        snprintf(m->owner, sizeof m->owner, "%s", c->owner);
    if (!m || !share_take(&moving, &m->share, m->owner, 1, MOVING_MAX)) {
        free(m);
        rest_fail(c, 503, err_code_name(ERR_BUSY), "try again later",
                  "too many environments are being transferred");
        return NULL;
    }
    m->fd = -1;
    return c->moving = m;
}

// ---- out ----------------------------------------------------------------------------------------

static void on_sent(void *argument)
{
    rest_moving_free(argument);
}

static void on_exported(uint64_t bytes, const struct err *e, void *argument)
{
    struct rest_call *c = argument;
    struct rest_moving *m = c->moving;
    struct stat st;
    char text[128];
    m->export = NULL;
    if (e) {
        rest_fail_err(c, e);
        return;
    }
    // A porter that was restarted meanwhile wrote the file twice.
    if (fstat(m->fd, &st) < 0 || (uint64_t)st.st_size != bytes) {
        rest_fail(c, 503, err_code_name(ERR_BUSY), "try again", "the file was not written whole");
        return;
    }
    int fd = TAKE_FD(m->fd);
    snprintf(text, sizeof text, "attachment; filename=\"%s.cenv\"", c->id); // a checked name
    struct http_exchange *x = rest_let_go(c);
    x->on_end = on_sent;
    x->end_argument = TAKE_PTR(c->moving); // counts until all is sent
    rest_free(c);
    http_add_header(x, "Content-Disposition", text);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Cache-Control", "no-store");
    http_reply_file(x, 200, "application/octet-stream", fd, 0, bytes);
}

void rest_export_environment(struct rest_call *c)
{
    struct err e;
    struct gate *g = c->rest->gate;
    struct rest_moving *m = begin(c);
    if (!m)
        return;
    if ((m->fd = envs_file(g, &e)) >= 0)
        m->export = envs_export(g, c->owner, c->id, m->fd, on_exported, c, &e);
    if (!m->export)
        rest_fail_err(c, &e);
}

// ---- in -----------------------------------------------------------------------------------------

bool rest_streams_body(const struct http_exchange *x, void *argument, uint64_t *ret_max)
{
    static const char files[] = REST_BASE "/sessions/", before[] = REST_BASE "/environments/",
                      after[] = "/import";
    const struct rest *rest = argument;
    size_t n = strlen(x->path);
    if (x->method == HTTP_PUT && strncmp(x->path, files, sizeof files - 1) == 0) {
        *ret_max = UINT64_MAX / 2; // files/scratch.h knows the limits of the box
        return true;
    }
    if (x->method == HTTP_POST && strcmp(x->path, REST_BASE "/batch") == 0) {
        *ret_max = UINT64_MAX / 2; // lines, which are read as items end
        return x->sends_lines;
    }
    *ret_max = envs_file_max(rest->config);
    return x->method == HTTP_POST && n >= sizeof before + sizeof after - 1 &&
           strncmp(x->path, before, sizeof before - 1) == 0 &&
           strcmp(x->path + n - (sizeof after - 1), after) == 0;
}

static void start_import(struct rest_call *c)
{
    struct rest_moving *m = c->moving;
    _cleanup_close_ int fd = TAKE_FD(m->fd);
    struct env_job_plan plan = {.change = ENV_IMPORT, .name = c->id, .create = true, .fd = fd};
    int stream = m->stream;
    uint64_t wait_ms = m->wait_ms;
    rest_moving_free(TAKE_PTR(c->moving));
    rest_start_job(c, &plan, stream, wait_ms);
}

static void on_body(struct http_exchange *x)
{
    static char piece[64 * 1024];
    struct rest_call *c = x->work;
    for (size_t n; (n = http_body_read(x, piece, sizeof piece)) > 0;)
        if (fd_write_all(c->moving->fd, piece, n) < 0) {
            rest_fail(c, 507, err_code_name(ERR_DISK_FULL), "make room in the state folder",
                      "there is no room to keep the file");
            return;
        }
    if (!http_body_ended(x))
        return;
    x->on_body = NULL;
    start_import(c);
}

void rest_import_environment(struct rest_call *c)
{
    uint64_t wait_ms = WAIT_MS;
    struct err e;
    int stream = rest_query_switch(c, "stream");
    if (stream < 0 || rest_query_seconds(c, "wait", REST_WAIT_MAX_S, &wait_ms) < 0)
        return;
    if (c->x->body_length != UINT64_MAX && c->x->body_length > envs_file_max(c->rest->config)) {
        rest_fail(c, 413, "body_too_large", "the operator can raise --env-space",
                  "the file is larger than this server takes");
        return;
    }
    struct rest_moving *m = begin(c);
    if (!m)
        return;
    m->stream = stream;
    m->wait_ms = wait_ms;
    if ((m->fd = envs_file(c->rest->gate, &e)) < 0) {
        rest_fail_err(c, &e);
        return;
    }
    c->x->on_body = on_body;
    http_body_begin(c->x);
    on_body(c->x);
}
