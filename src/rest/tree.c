// SPDX-License-Identifier: Apache-2.0
//
// tree: the routes /sessions/{id}/tree, compare and rename.  The box knows its checkpoints, the
// gate knows the sessions that share the box; a look (rest/look.h) brings both together.  SECURITY:
// what the box says is only believed about its own sessions, which are all of one owner.  Runs in
// the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "rest/look.h"
#include "json/whole.h"

enum { POINTS_MAX = 64 * 64, ORIGINS_MAX = 128, NAMES_SHOWN = 200, NODE_ID_MAX = 64 };

// ---- the tree -----------------------------------------------------------------------------------

static void node_id(const struct session *s, json_int_t serial, char buf[NODE_ID_MAX])
{
    snprintf(buf, NODE_ID_MAX, "%s@%lld", s->id, (long long)serial);
}

static json_int_t number(json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

// The newest checkpoint of a fork up to a serial; NULL: there is none.
static json_t *newest(json_t *points, json_int_t fork, json_int_t serial)
{
    json_t *point, *found = NULL;
    size_t i;
    json_array_foreach (points, i, point)
        if (number(point, "fork") == fork && number(point, "serial") <= serial &&
            (!found || number(point, "serial") > number(found, "serial")))
            found = point;
    return found;
}

static json_t *origin_of(json_t *origins, json_int_t fork)
{
    json_t *origin;
    size_t i;
    json_array_foreach (origins, i, origin)
        if (number(origin, "fork") == fork)
            return origin;
    return NULL;
}

// The node before a state of a fork: its newest checkpoint up to a serial; without one, the state
// that the fork was made of.
static json_t *parent_of(const struct session *s, json_t *points, json_t *origins, json_int_t fork,
                         json_int_t serial)
{
    char id[NODE_ID_MAX];
    for (int i = 0; i < ORIGINS_MAX; i++) { // SECURITY: the box may say that there is a circle
        struct session *of = session_of_fork(s, fork);
        json_t *point = of ? newest(points, fork, serial) : NULL;
        if (point) {
            node_id(of, number(point, "serial"), id);
            return json_string(id);
        }
        json_t *origin = origin_of(origins, fork);
        if (!origin || number(origin, "from") == fork)
            return json_null();
        fork = number(origin, "from");
        serial = number(origin, "serial");
        struct session *from = session_of_fork(s, fork);
        if (from && !newest(points, fork, serial))
            return json_string(from->id); // it had no checkpoint then
    }
    return json_null();
}

static json_t *undo_body(const struct session *s, json_t *point)
{
    json_t *name = json_object_get(point, "name");
    json_int_t steps = (json_int_t)s->executions - number(point, "runs");
    if (json_is_string(name))
        return json_pack("{s:O}", "checkpoint", name);
    return steps > 0 ? json_pack("{s:I}", "steps", steps) : json_null();
}

static json_t *time_json(int64_t ms)
{
    char when[TEXT_TIME_MAX];
    text_format_time(ms, when);
    return json_string(when);
}

static void add_point(struct session *s, json_t *point, json_t *points, json_t *origins,
                      json_t *nodes)
{
    struct session *of = session_of_fork(s, number(point, "fork"));
    char id[NODE_ID_MAX];
    json_int_t at = number(point, "at");
    if (!of || at < 0 || at > (json_int_t)4102444800000) // 2100
        return;
    node_id(of, number(point, "serial"), id);
    json_t *node =
        json_pack("{s:s, s:o, s:O, s:s, s:s, s:o, s:O, s:O, s:o}", "id", id, "parent",
                  parent_of(s, points, origins, number(point, "fork"), number(point, "serial") - 1),
                  "label", json_object_get(point, "name"), "kind", "checkpoint", "session", of->id,
                  "created_at", time_json(at), "runs", json_object_get(point, "runs"), "code",
                  json_object_get(point, "code"), "undo", undo_body(of, point));
    if (node)
        (void)json_array_append_new(nodes, node);
}

static void add_session(struct session *s, struct session *of, json_t *points, json_t *origins,
                        json_t *nodes)
{
    const char *name = of->plan.name;
    json_t *node =
        json_pack("{s:s, s:o, s:s?, s:s, s:s, s:o, s:I, s:n, s:n}", "id", of->id, "parent",
                  parent_of(s, points, origins, of->fork_number, INT64_MAX), "label",
                  name[0] ? name : NULL, "kind", "session", "session", of->id, "created_at",
                  time_json(of->created_ms), "runs", (json_int_t)of->executions, "code", "undo");
    if (node)
        (void)json_array_append_new(nodes, node);
}

static void show_tree(struct rest_call *c, json_t *said, bool whole)
{
    static const struct look_member of_point[] = {{"fork", 'i'}, {"serial", 'i'}, {"name", 'S'},
                                                  {"runs", 'i'}, {"at", 'i'},     {"code", 'S'},
                                                  {NULL, 0}};
    static const struct look_member of_origin[] = {
        {"fork", 'i'}, {"from", 'i'}, {"serial", 'i'}, {NULL, 0}};
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    (void)whole;
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    json_auto_t *points = look_pick_all(json_object_get(said, "points"), of_point, POINTS_MAX);
    json_auto_t *origins = look_pick_all(json_object_get(said, "origins"), of_origin, ORIGINS_MAX);
    json_t *nodes = json_array(), *point;
    size_t i;
    json_array_foreach (points, i, point)
        add_point(s, point, points, origins, nodes);
    for (json_int_t fork = 0; fork < (json_int_t)session_forks(s); fork++) {
        struct session *of = session_of_fork(s, fork);
        if (of)
            add_session(s, of, points, origins, nodes);
    }
    rest_answer(c, 200, json_pack("{s:s, s:o}", "current", s->id, "nodes", nodes));
}

void rest_tree(struct rest_call *c)
{
    look_start(c, json_pack("{s:s}", "what", "tree"), show_tree);
}

// ---- comparing ----------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Adds a name to one of the lists, or counts it.
static void list_name(json_t *difference, const char *list, const char *name, json_int_t *omitted)
{
    json_t *names = json_object_get(difference, list);
    if (json_array_size(names) < NAMES_SHOWN)
        (void)json_array_append_new(names, json_string(name));
    else
        ++*omitted;
}

// The names of one side, which the other side lacks or has with another text.
static void list_side(json_t *difference, json_t *mine, json_t *other, bool here,
                      json_int_t *omitted)
{
    size_t count = json_object_size(mine), n = 0;
    const char **names = calloc(count + 1, sizeof *names), *name;
    json_t *text;
    if (!names)
        return;
    json_object_foreach (mine, name, text)
        if (n < count)
            names[n++] = name;
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        json_t *theirs = json_object_get(other, names[i]);
        if (!theirs)
            list_name(difference, here ? "added" : "removed", names[i], omitted);
        else if (here && !json_equal(theirs, json_object_get(mine, names[i])))
            list_name(difference, "changed", names[i], omitted);
    }
    free((void *)names);
}

static json_t *difference(json_t *here, json_t *there, const char *what)
{
    json_t *mine = json_object_get(here, what), *other = json_object_get(there, what);
    json_t *o = json_pack("{s:[], s:[], s:[]}", "added", "removed", "changed");
    json_int_t omitted = 0;
    list_side(o, mine, other, true, &omitted);
    list_side(o, other, mine, false, &omitted);
    (void)json_object_set_new(o, "omitted", json_integer(omitted));
    return o;
}

static void show_comparison(struct rest_call *c, const char *with, json_t *here, json_t *there,
                            bool complete)
{
    rest_answer(c, 200,
                json_pack("{s:s, s:o, s:o, s:b}", "with", with, "variables",
                          difference(here, there, "variables"), "files",
                          difference(here, there, "files"), "complete", complete));
}

static bool is_complete(json_t *said, bool whole)
{
    return whole && json_is_true(json_object_get(said, "complete"));
}

static void on_other(struct rest_call *c, json_t *said, bool whole)
{
    show_comparison(c, c->session, json_object_get(c->compared, "now"),
                    json_object_get(said, "now"),
                    is_complete(said, whole) && is_complete(c->compared, true));
}

static void on_mine(struct rest_call *c, json_t *said, bool whole)
{
    if (!whole)
        (void)json_object_set_new(said, "complete", json_false());
    c->compared = json_incref(said);
    memcpy(c->id, c->session, sizeof c->session);
    json_decref(c->look_asked);
    look_start(c, json_pack("{s:s}", "what", "digest"), on_other);
}

static void on_checkpoint(struct rest_call *c, json_t *said, bool whole)
{
    show_comparison(c, c->path, json_object_get(said, "now"), json_object_get(said, "before"),
                    is_complete(said, whole));
}

// The tree has the checkpoint's serial.
static void on_points(struct rest_call *c, json_t *said, bool whole)
{
    const char *with = field_text(c->body, "with", NULL);
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    json_t *point, *found = NULL;
    size_t i;
    (void)whole;
    json_array_foreach (json_object_get(said, "points"), i, point) {
        char id[NODE_ID_MAX] = "";
        const char *name = json_string_value(json_object_get(point, "name"));
        if (!s || number(point, "fork") != s->fork_number)
            continue;
        node_id(s, number(point, "serial"), id);
        if (strcmp(id, with) == 0 || (name && strcmp(name, with) == 0)) {
            snprintf(c->path, sizeof c->path, "%s", id);
            found = point;
        }
    }
    if (!found) {
        rest_fail(c, 404, "nothing_to_compare",
                  "give the handle or the name of an open session, or a checkpoint from "
                  "GET /api/v1/sessions/{id}/tree",
                  "'with' names no open session and no checkpoint of this session");
        return;
    }
    json_t *serial = json_integer(number(found, "serial"));
    json_decref(c->look_asked);
    look_start(c, json_pack("{s:s, s:o}", "what", "digest", "serial", serial), on_checkpoint);
}

void rest_compare(struct rest_call *c)
{
    const char *with = field_text(c->body, "with", NULL);
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e), *other;
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    other = session_find(c->rest->gate, c->owner, with, &e);
    if (!other) {
        look_start(c, json_pack("{s:s}", "what", "tree"), on_points);
        return;
    }
    memcpy(c->session, other->id, sizeof c->session);
    look_start(c, json_pack("{s:s}", "what", "digest"), on_mine);
}

// ---- naming -------------------------------------------------------------------------------------

void rest_rename(struct rest_call *c)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    const char *name = field_text(c->body, "name", NULL);
    struct err unknown;
    struct session *other = name[0] ? session_find(c->rest->gate, c->owner, name, &unknown) : NULL;
    if (session_rename(s, name, &e) == 0)
        rest_show_session(c, s);
    else if (other)
        rest_fail(c, 409, "session_exists", e.hint, "%s", e.message);
    else
        rest_fail_err(c, &e);
}
