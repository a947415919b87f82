// SPDX-License-Identifier: Apache-2.0
//
// bench_mcp: see bench_mcp.h.
//
// Both servers are asked for the least that they can do: ours for get_sandbox_info, the other for
// echo.  They take turns in short slices, so that a machine that becomes slower does so for both.

#include "cli/bench_mcp.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/bench_client.h"

enum { CLIENTS = 64, IN_FLIGHT = 32, SLICES = 2, SESSIONS_WARM = 500 };

static const char package[] = "node_modules/@modelcontextprotocol/server-everything";

// SECURITY: the other server listens on every address of the machine; this makes it loopback.
static const char only_loopback[] =
    "data:text/javascript,import net from 'node:net';const listen=net.Server.prototype.listen;"
    "net.Server.prototype.listen=function(port,...rest){"
    "return listen.call(this,{port:Number(port),host:'127.0.0.1'},...rest)}";

struct side { // a server under test and its clients
    const char *call_params;
    struct bench_server server[2]; // over stdio, over HTTP
    struct bench_clients *stdio;   // shakes hands once
};

struct plan {
    const struct config *config;
    const char *program, *python;
    int stock;
    char node[4096], script[4096]; // of the other server; "": there is none
    struct side ours, theirs;
    struct bench_mcp *ret;
    char why[sizeof((struct bench_mcp *)0)->failure]; // of the newest failure
};

// The first failure is the one to report: others may follow from it.
static bool note(struct plan *p, bool ok)
{
    if (!ok && !p->ret->failure[0])
        memcpy(p->ret->failure, p->why, sizeof p->why);
    return ok;
}

enum { STDIO, HTTP };

static const struct {
    const char *key, *text;
    int server;         // index of side->server
    int clients;        // at one time
    const char *method; // NULL: call the trivial tool
    int in_flight;
} kinds[BENCH_MCP_ROWS] = {
    [BENCH_STDIO_PING] = {"stdio_ping", "stdio, ping", STDIO, 1, "ping", 1},
    [BENCH_STDIO_CALL] = {"stdio_call", "stdio, trivial call", STDIO, 1, NULL, 1},
    [BENCH_STDIO_LIST] = {"stdio_list", "stdio, tools/list", STDIO, 1, "tools/list", 1},
    [BENCH_STDIO_MANY] = {"stdio_many", "stdio, calls, 32 in flight", STDIO, 1, NULL, IN_FLIGHT},
    [BENCH_HTTP_PING] = {"http_ping", "HTTP keep-alive, ping", HTTP, 1, "ping", 1},
    [BENCH_HTTP_CALL] = {"http_call", "HTTP keep-alive, trivial call", HTTP, 1, NULL, 1},
    [BENCH_HTTP_LIST] = {"http_list", "HTTP keep-alive, tools/list", HTTP, 1, "tools/list", 1},
    [BENCH_HTTP_MANY] = {"http_many", "HTTP, calls of 64 clients", HTTP, CLIENTS, NULL, 1},
};

// ---- which servers ------------------------------------------------------------------------------

// The version that its package.json gives, for the table.
static void name_reference(struct plan *p, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/package.json", folder, package);
    json_t *o = json_load_file(path, 0, NULL);
    const char *v = json_string_value(json_object_get(o, "version"));
    snprintf(p->ret->reference, sizeof p->ret->reference, "server-everything %s", v ? v : "?");
    json_decref(o);
}

static bool find_node(struct plan *p, const char *folder)
{
    static const char *const machines[] = {"x64", "arm64"};
    for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
        snprintf(p->node, sizeof p->node, "%s/node_modules/node-linux-%s/bin/node", folder,
                 machines[i]);
        if (access(p->node, X_OK) == 0)
            return true;
    }
    snprintf(p->node, sizeof p->node, "/usr/bin/node");
    return access(p->node, X_OK) == 0;
}

static void find_reference(struct plan *p)
{
    const char *wish = getenv("CONSTRICTOR_NPM");
    char folder[4096];
    p->script[0] = '\0';
    if (!realpath(wish && wish[0] ? wish : "build/npm", folder)) {
        snprintf(p->ret->missing, sizeof p->ret->missing,
                 "server-everything is missing: 'tools/setup npm' installs it");
        return;
    }
    snprintf(p->script, sizeof p->script, "%s/%s/dist/index.js", folder, package);
    if (access(p->script, R_OK) == 0 && find_node(p, folder)) {
        name_reference(p, folder);
        return;
    }
    snprintf(
        p->ret->missing, sizeof p->ret->missing,
        "%.100s has no server-everything, or there is no node: 'tools/setup npm' installs both",
        folder);
    p->script[0] = '\0';
}

static bool start_theirs(struct plan *p, struct bench_server *ret, int port)
{
    char environment[32];
    char *argv[] = {p->node,
                    (char *)"--import",
                    (char *)only_loopback,
                    p->script,
                    (char *)(port ? "streamableHttp" : "stdio"),
                    NULL};
    snprintf(environment, sizeof environment, "PORT=%d", port);
    return note(p, bench_server_start(ret, argv, port, environment, p->why, sizeof p->why));
}

static bool start_ours(struct plan *p, struct bench_server *ret, int port, const char *sessions)
{
    struct bench_ours ours = {.config = p->config,
                              .program = p->program,
                              .python = p->python,
                              .stock = p->stock,
                              .options = {"--mcp-sessions", sessions}};
    if (!port)
        ours.options[0] = NULL;
    return note(p, bench_server_start_ours(ret, &ours, port, p->why, sizeof p->why));
}

static struct bench_clients *open_clients(struct plan *p, struct bench_server *server, int count)
{
    struct bench_clients *c = bench_clients_open(server, count, p->why, sizeof p->why);
    (void)note(p, c != NULL);
    return c;
}

// ---- calls --------------------------------------------------------------------------------------

static bool run_calls(struct plan *p, struct bench_clients *clients, struct bench_calls *calls)
{
    return clients && note(p, bench_clients_call(clients, calls, p->why, sizeof p->why));
}

static struct bench_mcp_side summary(const struct bench_calls *calls)
{
    struct bench_mcp_side s = {.p50_us = -1, .p99_us = -1, .rate = -1};
    if (calls->latency && calls->latency->count) {
        s.p50_us = bench_percentile(calls->latency, 50);
        s.p99_us = bench_percentile(calls->latency, 99);
    }
    if (calls->took > 0)
        s.rate = (double)calls->done / calls->took;
    return s;
}

static struct bench_calls calls_of(const struct plan *p, const struct side *side,
                                   enum bench_mcp_row_key key, struct bench_samples *latency)
{
    double whole = p->config->quick ? 0.4 : 1.2;
    const char *method = kinds[key].method;
    return (struct bench_calls){
        .method = method ? method : "tools/call",
        .params = method ? "{}" : side->call_params,
        .in_flight = kinds[key].in_flight,
        .seconds = whole / SLICES,
        .latency = kinds[key].in_flight == 1 ? latency : NULL,
    };
}

// Over HTTP they are made for each use: servers close connections that are idle for seconds.
static struct bench_clients *take_clients(struct plan *p, struct side *side,
                                          enum bench_mcp_row_key key)
{
    struct bench_server *server = &side->server[kinds[key].server];
    if (kinds[key].server == STDIO)
        return side->stdio;
    return server->pid > 0 ? open_clients(p, server, kinds[key].clients) : NULL;
}

static void leave_clients(const struct side *side, struct bench_clients *clients)
{
    if (clients != side->stdio)
        bench_clients_free(clients);
}

// One row: both servers take turns.
static void measure_row(struct plan *p, enum bench_mcp_row_key key)
{
    static struct bench_samples latency[2]; // large
    struct side *sides[] = {&p->ours, &p->theirs};
    struct bench_mcp_row *row = &p->ret->rows[key];
    struct bench_mcp_side *results[] = {&row->ours, &row->theirs};
    struct bench_clients *clients[2];
    struct bench_calls calls[2];
    bool ok[2];
    for (int i = 0; i < 2; i++) {
        latency[i].count = 0;
        calls[i] = calls_of(p, sides[i], key, &latency[i]);
        clients[i] = take_clients(p, sides[i], key);
        ok[i] = clients[i] != NULL;
    }
    for (int slice = 0; slice < SLICES; slice++)
        for (int i = 0; i < 2; i++)
            ok[i] = ok[i] && run_calls(p, clients[i], &calls[i]);
    for (int i = 0; i < 2; i++) {
        if (ok[i])
            *results[i] = summary(&calls[i]);
        leave_clients(sides[i], clients[i]);
    }
}

// A first look at every path, so that a compiler that learns while it runs has learned.
static void warm_up(struct plan *p, struct side *side)
{
    for (int key = 0; key < BENCH_MCP_ROWS; key++) {
        struct bench_calls calls = calls_of(p, side, key, NULL);
        struct bench_clients *clients = take_clients(p, side, key);
        calls.seconds = p->config->quick ? 0.1 : 0.3;
        (void)run_calls(p, clients, &calls);
        leave_clients(side, clients);
    }
}

static bool start(struct plan *p, struct side *side, int which)
{
    int port = which == STDIO ? 0 : bench_free_port();
    if (which == HTTP && port == 0)
        return false;
    return side == &p->ours ? start_ours(p, &side->server[which], port, "1000")
                            : start_theirs(p, &side->server[which], port);
}

static void open_side(struct plan *p, struct side *side)
{
    if (start(p, side, STDIO))
        side->stdio = open_clients(p, &side->server[STDIO], 1);
    (void)start(p, side, HTTP);
}

static void close_side(struct side *side)
{
    bench_clients_free(side->stdio);
    for (size_t i = 0; i < ARRAY_LEN(side->server); i++)
        bench_server_end(&side->server[i]);
}

// ---- code ---------------------------------------------------------------------------------------

// As the bare box is measured: one at a time, and the stock is full again before the next.
static struct bench_mcp_side measure_code(struct plan *p, struct bench_clients *clients)
{
    static struct bench_samples latency; // large
    struct bench_calls calls = {
        .method = "tools/call",
        .params = "{\"name\":\"execute_python\",\"arguments\":{\"code\":\"1+1\"}}",
        .in_flight = 1,
        .requests = 20,
        .pause_us = 12000,
        .seconds = 20,
    };
    struct bench_mcp_side none = {-1, -1, -1};
    latency.count = 0;
    if (!run_calls(p, clients, &calls)) // these make the server warm
        return none;
    calls.requests = p->config->quick ? 100 : 400;
    calls.latency = &latency;
    calls.done = 0;
    return run_calls(p, clients, &calls) ? summary(&calls) : none;
}

static void measure_runs(struct plan *p)
{
    struct bench_clients *http = take_clients(p, &p->ours, BENCH_HTTP_CALL);
    p->ret->run_http = measure_code(p, http);
    leave_clients(&p->ours, http);
    p->ret->run_stdio = measure_code(p, p->ours.stdio);
}

// ---- idle sessions ------------------------------------------------------------------------------

// The gate of a server of ours: the child of its keeper that is the same program.
static pid_t find_gate(pid_t keeper)
{
    char path[64], text[4096], comm[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", keeper);
    (void)file_read_at(AT_FDCWD, path, name, sizeof name);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", keeper, keeper);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    for (char *at = text, *end; *at; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        if (file_read_at(AT_FDCWD, path, comm, sizeof comm) > 0 && strcmp(comm, name) == 0)
            return (pid_t)pid;
    }
    return -1;
}

static double rss_kib(pid_t pid)
{
    char path[64];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return file_read_key_at(AT_FDCWD, path, "VmRSS", &kib) < 0 ? -1 : (double)kib;
}

// Time on a processor; neither process has threads.
static double cpu_us(pid_t pid)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    return file_read_at(AT_FDCWD, path, text, sizeof text) <= 0 ? 0 : strtod(text, NULL) / 1e3;
}

static bool open_sessions(struct plan *p, struct bench_clients *clients, int count)
{
    struct bench_calls calls = {
        .method = "initialize",
        .params = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},"
                  "\"clientInfo\":{\"name\":\"constrictor-bench\",\"version\":\"1\"}}",
        .anonymous = true,
        .in_flight = 1,
        .requests = count,
        .seconds = 20,
    };
    return run_calls(p, clients, &calls) && calls.done == count;
}

static void weigh_sessions(struct plan *p, const struct bench_server *server,
                           struct bench_clients *clients)
{
    pid_t keeper = server->pid, gate = find_gate(keeper);
    int count = p->config->quick ? 2000 : 10000;
    if (gate < 0 || !open_sessions(p, clients, SESSIONS_WARM))
        return;
    double before = rss_kib(gate);
    if (!open_sessions(p, clients, count))
        return;
    p->ret->session_kib = (rss_kib(gate) - before) / count;
    p->ret->sessions = count + SESSIONS_WARM;
    (void)usleep(500000); // what the load left behind is not idleness
    double begin = bench_now_us(), used = cpu_us(gate) + cpu_us(keeper);
    (void)usleep(2000000);
    p->ret->idle_percent = 100 * (cpu_us(gate) + cpu_us(keeper) - used) / (bench_now_us() - begin);
}

// In a server of its own: memory that other figures used and gave back would hide that of sessions.
static void measure_sessions(struct plan *p)
{
    struct bench_server server = {.pid = -1, .fd = -1, .errors = -1};
    int port = bench_free_port();
    if (port && start_ours(p, &server, port, "20000")) {
        struct bench_clients *clients = open_clients(p, &server, 1);
        if (clients)
            weigh_sessions(p, &server, clients);
        bench_clients_free(clients);
    }
    bench_server_end(&server);
}

// ---- all of it ----------------------------------------------------------------------------------

void bench_mcp(const struct config *c, const char *program, const char *python, int stock,
               struct bench_mcp *ret)
{
    static struct plan p; // large
    static const struct bench_server none = {.pid = -1, .fd = -1, .errors = -1};
    static const struct bench_mcp_side unknown = {-1, -1, -1};
    *ret = (struct bench_mcp){.session_kib = -1, .idle_percent = -1};
    ret->run_stdio = ret->run_http = unknown;
    for (int i = 0; i < BENCH_MCP_ROWS; i++)
        ret->rows[i] = (struct bench_mcp_row){kinds[i].key, kinds[i].text, unknown, unknown};
    p = (struct plan){
        .config = c, .program = program, .python = python, .stock = stock, .ret = ret};
    p.ours = (struct side){.call_params = "{\"name\":\"get_sandbox_info\",\"arguments\":{}}",
                           .server = {none, none}};
    p.theirs =
        (struct side){.call_params = "{\"name\":\"echo\",\"arguments\":{\"message\":\"hi\"}}",
                      .server = {none, none}};
    find_reference(&p);
    open_side(&p, &p.ours);
    measure_runs(&p);
    if (p.script[0])
        open_side(&p, &p.theirs);
    warm_up(&p, &p.ours);
    warm_up(&p, &p.theirs);
    for (int key = 0; key < BENCH_MCP_ROWS; key++)
        measure_row(&p, key);
    close_side(&p.theirs);
    close_side(&p.ours);
    measure_sessions(&p);
}

// ---- as JSON ------------------------------------------------------------------------------------

static json_t *side_json(const struct bench_mcp_side *s)
{
    return json_pack("{s:f, s:f, s:f}", "p50_us", s->p50_us, "p99_us", s->p99_us, "per_second",
                     s->rate);
}

json_t *bench_mcp_json(const struct bench_mcp *m)
{
    json_t *rows = json_object();
    if (!m->rows[0].text)
        return json_null();
    for (size_t i = 0; i < ARRAY_LEN(m->rows); i++)
        (void)json_object_set_new(rows, m->rows[i].key,
                                  json_pack("{s:o, s:o}", "ours", side_json(&m->rows[i].ours),
                                            "reference", side_json(&m->rows[i].theirs)));
    return json_pack("{s:s, s:o, s:o, s:o, s:i}", "reference",
                     m->reference[0] ? m->reference : m->missing, "rows", rows, "run_stdio",
                     side_json(&m->run_stdio), "run_http", side_json(&m->run_http), "sessions",
                     m->sessions);
}
