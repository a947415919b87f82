// SPDX-License-Identifier: Apache-2.0
//
// envs_gate: a gate with environments in a temporary folder, of which the test plays the keeper,
// the boxes, the broker and the porter.  Used by test_envs.c.

#ifndef CONSTRICTOR_ENVS_GATE_H
#define CONSTRICTOR_ENVS_GATE_H

#include "fake_keeper.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "broker/broker.h"
#include "env/env_jobs.h"
#include "installer/installer.h"
#include "net/policy.h"
#include "porter/porter.h"
#include "run/network.h"

#define W1 "1111111111111111111111111111111111111111111111111111111111111111"
#define W2 "2222222222222222222222222222222222222222222222222222222222222222"
#define L1 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define L2 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct environments folders;
static struct interp interp;
static char folder[64];
static int broker, porter;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void open_envs(void)
{
    facts.environments_rows = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(facts.environments_rows >= 0);
    assert_int_equal(envs_open(&gate, &env_installer, &e), 0);
}

static void close_envs(void)
{
    envs_close(&gate);
    fd_close(&facts.environments_rows);
}

static void link_porter(void)
{
    int pair[2];
    unit_socketpair(pair);
    assert_int_equal(fd_set_nonblock(pair[0], true), 0);
    fd_close(&porter);
    porter = pair[0];
    env_porter_link(&gate, pair[1]);
}

static int begin_envs(void **state)
{
    int pair[2];
    if (begin(state) != 0)
        return -1;
    snprintf(folder, sizeof folder, "/tmp/constrictor-envs-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(config.index_url, sizeof config.index_url, "http://127.0.0.1:8080/simple");
    snprintf(interp.version, sizeof interp.version, "3.11.2");
    folders = (struct environments){.folder = 0};
    facts.environments = &folders;
    facts.network_file = facts.state_folder = -1;
    facts.interp = &interp;
    facts.zygote_report = "{}";
    assert_int_equal(network_open(&gate, &e), 0);
    assert_non_null(gate.network);
    unit_socketpair(pair);
    assert_int_equal(fd_set_nonblock(pair[0], true), 0);
    broker = pair[0];
    network_link(&gate, pair[1]);
    porter = -1;
    link_porter();
    open_envs();
    return 0;
}

static int finish_envs(void **state)
{
    close_envs();
    env_porter_close(&gate);
    network_close(&gate);
    json_decref(gate.isolation);
    json_decref(gate.interpreter);
    gate.isolation = gate.interpreter = NULL;
    fd_close(&broker);
    fd_close(&porter);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return finish(state);
}

// ---- the box that installs ----------------------------------------------------------------------

struct ended {
    int calls, progress;
    json_t *status;
};
static struct ended ended;

static void on_progress(struct env_job *j, const json_t *status, void *argument)
{
    (void)j;
    (void)argument;
    assert_true(json_is_object(status));
    ended.progress++;
}

static void on_ended(struct env_job *j, const json_t *status, void *argument)
{
    assert_ptr_equal(argument, &ended);
    assert_non_null(env_job_id(j));
    ended.calls++;
    json_decref(ended.status);
    ended.status = json_deep_copy(status);
}

static void forget_ended(void)
{
    json_decref(ended.status);
    ended = (struct ended){0};
}

static struct env_job *start_job(enum env_change change, const char *name, const char *what)
{
    json_t *text = json_string(what);
    struct env_job_plan o = {.change = change,
                             .owner = "me",
                             .name = name,
                             .create = true,
                             .requirements = text,
                             .on_progress = on_progress,
                             .on_done = on_ended,
                             .argument = &ended};
    struct env_job *j = envs_change(&gate, &o, &e);
    json_decref(text);
    turn();
    return j;
}

static struct fake_box *give_installer(void)
{
    union wire_message m;
    int control;
    if (!hear(WIRE_ACQUIRE, &m))
        return NULL;
    assert_int_equal(m.acquire.network, 1);
    assert_int_equal(m.acquire.keep, 0);
    assert_int_equal(m.acquire.limits.memory_bytes, config.install_memory_bytes);
    struct fake_box *b = make_box(&control);
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .box = b->id, .parked = 1}};
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, &control, 1), 0);
    fd_close(&control);
    turn();
    return b;
}

// What it was told, new.
static json_t *told(struct fake_box *b)
{
    static char frame[65536];
    ssize_t n = recv(b->control, frame, sizeof frame, MSG_DONTWAIT);
    char *at = n > 0 ? memmem(frame, (size_t)n, "{\"install\"", 10) : NULL;
    assert_non_null(at);
    json_t *meta = json_loadb(at, (size_t)(frame + n - at), JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(meta);
    json_t *request = json_incref(json_object_get(meta, "install"));
    json_decref(meta);
    return request;
}

static void says(struct fake_box *b, const char *json)
{
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "{\"exit_code\": 0, \"phase\": \"install\", \"install\": %s}", json);
    struct frame_piece piece = {text, (size_t)n};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_RESULT, &piece, 1, &offset), 0);
    turn();
    end_box(b, END_DONE);
    snprintf(text, sizeof text, "{\"op\":\"report\",\"box\":%" PRIu64 "}", b->id);
    assert_true(send(broker, text, strlen(text), 0) > 0);
    turn();
}

static void add_wheel(const char *sha256, const char *id)
{
    struct env_wheel w = {.bytes = 1000, .files = 3};
    snprintf(w.id, sizeof w.id, "%s", id);
    snprintf(w.sha256, sizeof w.sha256, "%s", sha256);
    assert_int_equal(env_db_add_wheel(gate.envs->db, &w, env_now_ms(), &e), 0);
}

#define PACKAGE(name, version, wheel)                                                              \
    "{\"name\":\"" name "\",\"version\":\"" version "\",\"sha256\":\"" wheel                       \
    "\",\"filename\":\"x.whl\",\"size\":10,\"bundle\":null}"
#define OK(packages) "{\"ok\":true,\"packages\":[" packages "],\"warnings\":[]}"

__attribute__((unused)) static const char *state_said(void)
{
    return json_string_value(json_object_get(ended.status, "state"));
}

__attribute__((unused)) static const char *code_said(void)
{
    return json_string_value(json_object_get(json_object_get(ended.status, "error"), "code"));
}

__attribute__((unused)) static void install(const char *name, const char *what, const char *answer)
{
    forget_ended();
    assert_non_null(start_job(ENV_INSTALL, name, what));
    struct fake_box *b = give_installer();
    assert_non_null(b);
    json_decref(told(b));
    says(b, answer);
    assert_int_equal(ended.calls, 1);
}

#endif
