// SPDX-License-Identifier: Apache-2.0
//
// file_resources: see file_resources.h.  Runs in the gate, on its event loop.

#include "mcp/tools/file_resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "exec/exec_input.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/tools/file_access.h"
#include "mcp/tools/resources.h"
#include "run/gate.h"
#include "json/encode.h"

enum { COMPLETIONS_MAX = 100 };

static const char scheme[] = "sandbox://";

// ---- URIs ---------------------------------------------------------------------------------------

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Undoes percent signs.  0, or -1: a bad escape, a NUL, too long, empty.
static int unescape(const char *text, size_t length, char *buf, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = length - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_value(text[i + 2]);
            if (low < 0)
                return -1;
            c = high << 4 | low;
            i += 2;
        }
        if (c == 0 || at + 1 >= cap)
            return -1;
        buf[at++] = (char)c;
    }
    buf[at] = '\0';
    return at ? 0 : -1;
}

int file_resources_parse_uri(const char *uri, char holder[FILE_URI_SESSION_MAX + 1],
                             char path[SCRATCH_PATH_MAX + 1])
{
    char raw[SCRATCH_PATH_MAX + 1];
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
        return -1;
    const char *begin = uri + sizeof scheme - 1, *slash = strchr(begin, '/');
    if (!slash || unescape(begin, (size_t)(slash - begin), holder, FILE_URI_SESSION_MAX + 1) < 0 ||
        unescape(slash + 1, strlen(slash + 1), raw, sizeof raw) < 0)
        return -1;
    if (utf8_valid_length(holder, strlen(holder)) < strlen(holder))
        return -1;
    return scratch_path(raw, strlen(raw), path, NULL) < 0 ? -1 : 0;
}

// ---- lists --------------------------------------------------------------------------------------

static struct store *store_of(const struct mcp *m)
{
    return m->gate ? m->gate->store : NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static json_t *resource_json(const struct mcp_call *c, const char *uri, const char *path,
                             const char *mime_type, uint64_t size, int64_t modified_ms)
{
    char time[TEXT_TIME_MAX];
    text_format_time(modified_ms, time);
    json_t *notes = json_pack("{s:[s, s], s:f}", "audience", "user", "assistant", "priority", 0.7);
    if (c->version >= MCP_2025_06_18)
        (void)json_object_set_new(notes, "lastModified", json_string(time));
    json_t *o = json_pack("{s:s, s:s, s:s, s:o}", "uri", uri, "name", base_name(path), "mimeType",
                          mime_type, "annotations", notes);
    if (c->version >= MCP_2025_06_18)
        (void)json_object_set_new(o, "title", json_string(path));
    if (c->version >= MCP_2025_03_26)
        (void)json_object_set_new(o, "size", json_integer((json_int_t)size));
    return o;
}

// Calls `each` for the sessions of an owner that are open, oldest first.
static void each_session(struct mcp *m, const char *owner,
                         void (*each)(const struct session *s, void *argument), void *argument)
{
    json_t *all = m->gate ? sessions_json(m->gate, owner) : NULL, *item;
    size_t i;
    json_array_foreach (json_object_get(all, "sessions"), i, item) {
        const char *id = json_string_value(json_object_get(item, "session"));
        struct err e;
        const struct session *s = id ? session_find(m->gate, owner, id, &e) : NULL;
        if (s)
            each(s, argument);
    }
    json_decref(all);
}

struct listing {
    const struct mcp_call *call;
    json_t *list, *seen; // resources; an object of their URIs
};

static void add_resource(struct listing *l, const char *holder, const char *path,
                         const char *mime_type, uint64_t size, int64_t modified_ms)
{
    char uri[FILE_URI_MAX];
    exec_file_uri(holder, path, uri, sizeof uri);
    if (json_object_get(l->seen, uri))
        return;
    (void)json_object_set_new(l->seen, uri, json_true());
    (void)json_array_append_new(l->list,
                                resource_json(l->call, uri, path, mime_type, size, modified_ms));
}

static void add_live(const struct session *s, void *argument)
{
    for (size_t i = 0; i < s->files.count; i++) {
        const struct scratch_file *f = &s->files.files[i];
        if (!f->folder)
            add_resource(argument, s->id, f->path, mime_type(f->path, NULL, 0), f->size,
                         f->mtime_ns / 1000000);
    }
}

json_t *file_resources_list(const struct mcp_call *c)
{
    struct listing l = {.call = c, .list = json_array(), .seen = json_object()};
    struct artifact *stored = NULL;
    uint64_t more = 0;
    struct store *store = store_of(c->mcp);
    size_t count = store ? store_list(store, c->owner, NULL, &stored, &more) : 0;
    for (size_t i = 0; i < count; i++)
        add_resource(&l, stored[i].holder, stored[i].path, stored[i].mime_type, stored[i].size,
                     stored[i].modified_ms);
    free(stored);
    each_session(c->mcp, c->owner, add_live, &l);
    json_decref(l.seen);
    return l.list;
}

// ---- read ---------------------------------------------------------------------------------------

// SECURITY: text goes as text only if JSON does not make it much longer: see resources.c.
static json_t *contents_json(const char *uri, const char *mime_type, const char *data,
                             size_t length)
{
    if (mcp_is_text(data, length))
        return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", mime_type, "text",
                         json_stringn_nocheck(data, length));
    _cleanup_free_ char *coded = encode_base64(data, length);
    return coded ? json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", mime_type, "blob",
                             json_stringn_nocheck(coded, strlen(coded)))
                 : NULL;
}

static void on_opened(struct mcp_call *c, const struct found_file *f, const struct err *error)
{
    const char *uri = json_string_value(json_object_get(c->request.params, "uri"));
    char size[FILE_SIZE_TEXT_MAX], most[FILE_SIZE_TEXT_MAX];
    if (error) {
        mcp_resource_missing_because(c, uri, error);
        return;
    }
    if (f->size > FILE_RESOURCE_MAX) {
        file_describe_size(f->size, size);
        file_describe_size(FILE_RESOURCE_MAX, most);
        mcp_fail(c, MCP_INVALID_PARAMS,
                 json_pack("{s:s, s:I, s:I}", "uri", uri, "size", (json_int_t)f->size, "maximum",
                           (json_int_t)FILE_RESOURCE_MAX),
                 "the file has %s; a resource is read up to %s; read parts with the tool read_file "
                 "(offset, length), or download it by its link",
                 size, most);
        return;
    }
    const char *type = f->has_link ? f->artifact.mime_type : mime_type(f->path, f->data, f->length);
    mcp_resource_answer(c, contents_json(uri, type, f->data, f->length), 0, true);
}

static void want_all(const struct mcp_call *c, const struct found_file *f, uint64_t *ret_offset,
                     size_t *ret_length)
{
    (void)c;
    *ret_offset = 0;
    *ret_length = f->size <= FILE_RESOURCE_MAX ? (size_t)f->size : 0;
}

bool file_resources_read(struct mcp_call *c, const char *uri)
{
    char holder[FILE_URI_SESSION_MAX + 1], path[SCRATCH_PATH_MAX + 1];
    if (file_resources_parse_uri(uri, holder, path) < 0)
        return false;
    file_access_read(c, holder, path, want_all, on_opened);
    return true;
}

// A file of a live session may be watched before it exists.
bool file_resources_exist(struct mcp *m, const char *uri, const char *owner)
{
    char holder[FILE_URI_SESSION_MAX + 1], path[SCRATCH_PATH_MAX + 1], own[FILE_URI_MAX];
    struct artifact a;
    struct err e;
    if (!m->gate || file_resources_parse_uri(uri, holder, path) < 0)
        return false;
    // Updates carry the one URI of a file, so no other spelling can be subscribed to.
    exec_file_uri(holder, path, own, sizeof own);
    if (strcmp(own, uri) != 0)
        return false;
    const struct session *s =
        session_is_id(holder) ? session_find(m->gate, owner, holder, &e) : NULL;
    return s || (store_of(m) && strlen(holder) <= STORE_HOLDER_MAX &&
                 store_by_path(store_of(m), owner, holder, path, &a));
}

// ---- completion ---------------------------------------------------------------------------------

struct matches {
    json_t *list, *seen;
    const char *prefix;
    const char *session; // of this session only; NULL: of all
    bool paths;
};

static void add_match(struct matches *m, const char *text)
{
    if (!text[0] || strncmp(text, m->prefix, strlen(m->prefix)) != 0 ||
        json_object_get(m->seen, text))
        return;
    (void)json_object_set_new(m->seen, text, json_true());
    (void)json_array_append_new(m->list, json_string(text));
}

static void match_session(const struct session *s, void *argument)
{
    struct matches *m = argument;
    if (!m->paths) {
        add_match(m, s->id);
        add_match(m, s->plan.name);
        return;
    }
    if (m->session && strcmp(m->session, s->id) != 0 && strcmp(m->session, s->plan.name) != 0)
        return;
    for (size_t i = 0; i < s->files.count; i++)
        if (!s->files.files[i].folder)
            add_match(m, s->files.files[i].path);
}

json_t *file_resources_complete(struct mcp *m, const char *owner, const char *variable,
                                const char *prefix, const char *session)
{
    struct matches found = {.prefix = prefix,
                            .session = session && session[0] ? session : NULL,
                            .paths = strcmp(variable, "path") == 0};
    if (!found.paths && strcmp(variable, "session") != 0)
        return NULL;
    found.list = json_array();
    found.seen = json_object();
    each_session(m, owner, match_session, &found);
    struct artifact *stored = NULL;
    uint64_t more = 0;
    const char *holder = found.paths ? found.session : NULL;
    struct err e;
    const struct session *live =
        holder && m->gate ? session_find(m->gate, owner, holder, &e) : NULL;
    if (live)
        holder = live->id;
    size_t count = store_of(m) && (!holder || strlen(holder) <= STORE_HOLDER_MAX)
                       ? store_list(store_of(m), owner, holder, &stored, &more)
                       : 0;
    for (size_t i = 0; i < count; i++)
        add_match(&found, found.paths ? stored[i].path : stored[i].holder);
    free(stored);
    json_decref(found.seen);
    return found.list;
}

// ---- updates
// ---------------------------------------------------------------------------------------

void file_resources_tell_one(struct mcp *m, const char *owner, const char *uri)
{
    mcp_resource_updated(m, uri, owner);
    mcp_list_changed(m, MCP_LIST_RESOURCES, owner);
}

void file_resources_tell(struct mcp *m, const char *owner, json_t *files)
{
    size_t i;
    json_t *file;
    json_array_foreach (files, i, file) {
        const char *uri = json_string_value(json_object_get(file, "uri"));
        if (uri)
            mcp_resource_updated(m, uri, owner);
    }
    if (json_array_size(files))
        mcp_list_changed(m, MCP_LIST_RESOURCES, owner);
}
