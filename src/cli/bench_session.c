// SPDX-License-Identifier: Apache-2.0
//
// bench_session: see bench_session.h.
//
// Each measurement has a server of its own, so that none pays for what another left behind.

#include "cli/bench_session.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/bench_client.h"

enum {
    SESSIONS = 1000,
    SESSIONS_QUICK = 100,
    FILE_BYTES = 10 * 1000 * 1000,
    HEAD_MAX = 4096,
    PROCESSES_MAX = 16384,
};

static const char stack[] = "numpy,pandas,matplotlib.pyplot";

struct plan {
    const struct config *config;
    const char *program, *python;
    int stock;
    bool data;
    struct bench_session *ret;
    char why[sizeof((struct bench_session *)0)->failure]; // of the newest failure
};

// The first failure is the one to report: others may follow from it.
static bool note(struct plan *p, bool ok)
{
    if (!ok && !p->ret->failure[0])
        memcpy(p->ret->failure, p->why, sizeof p->why);
    return ok;
}

// ---- a server and its client --------------------------------------------------------------------

struct side {
    struct bench_server server;
    struct bench_clients *client;
};

static void close_side(struct side *s)
{
    bench_clients_free(s->client);
    bench_server_end(&s->server);
}

// Over stdio, or with a port over HTTP, where there is no MCP client.
static bool open_side(struct plan *p, struct side *ret, int stock, int port, bool preload)
{
    struct bench_ours ours = {.config = p->config,
                              .program = p->program,
                              .python = p->python,
                              .stock = stock,
                              .options = {"--sessions", "4000", "--session-ttl", "1h", "--memory",
                                          "1G", preload ? "--preload" : NULL, stack}};
    *ret = (struct side){.server = {.pid = -1, .fd = -1, .errors = -1}};
    if (!note(p, bench_server_start_ours(&ret->server, &ours, port, p->why, sizeof p->why)))
        return false;
    if (port)
        return true;
    ret->client = bench_clients_open(&ret->server, 1, p->why, sizeof p->why);
    if (note(p, ret->client != NULL))
        return true;
    close_side(ret);
    return false;
}

// The median of `requests` calls of a tool, -1 when they failed.
static double call(struct plan *p, const struct side *s, const char *params, int requests,
                   int pause_us)
{
    static struct bench_samples latency; // large
    struct bench_calls calls = {.method = "tools/call",
                                .params = params,
                                .in_flight = 1,
                                .requests = requests,
                                .pause_us = pause_us,
                                .seconds = 60,
                                .latency = &latency};
    latency.count = 0;
    if (!note(p, bench_clients_call(s->client, &calls, p->why, sizeof p->why)))
        return -1;
    return bench_percentile(&latency, 50);
}

static bool tool(struct plan *p, const struct side *s, const char *name, const char *arguments)
{
    return note(p, bench_clients_tool(s->client, name, arguments, p->why, sizeof p->why));
}

// ---- runs, opening, checkpoints -----------------------------------------------------------------

// What a call took beyond the time that its code had the box.
static void take_rest(const char *answer, size_t length, double us, void *argument)
{
    static const char key[] = "\"wall_ms\":";
    struct bench_samples *rest = argument;
    const char *found = memmem(answer, length, key, strlen(key));
    if (found && rest->count < BENCH_SAMPLES_MAX)
        rest->us[rest->count++] = us - strtod(found + strlen(key), NULL) * 1000;
}

static void measure_runs(struct plan *p)
{
    static const char run[] =
        "{\"name\":\"execute_python\",\"arguments\":{\"code\":\"1+1\",\"session\":\"bench\"}}";
    static struct bench_samples latency, rest; // large
    struct bench_calls calls = {.method = "tools/call",
                                .params = run,
                                .in_flight = 1,
                                .requests = p->config->quick ? 500 : 2000,
                                .seconds = 60,
                                .latency = &latency,
                                .on_answer = take_rest,
                                .argument = &rest};
    struct side s;
    latency.count = rest.count = 0;
    if (!open_side(p, &s, 2, 0, false))
        return;
    if (call(p, &s, run, 50, 0) > 0 && // the first opens the session
        note(p, bench_clients_call(s.client, &calls, p->why, sizeof p->why))) {
        p->ret->run_us = bench_percentile(&latency, 50);
        p->ret->rest_us = bench_percentile(&rest, 50);
    }
    close_side(&s);
}

// One at a time, and the stock is full again before the next: as fresh boxes are measured.
static void measure_opening(struct plan *p)
{
    static const char open[] = "{\"name\":\"open_session\",\"arguments\":{}}";
    struct side s;
    if (!open_side(p, &s, p->stock, 0, p->data))
        return;
    if (call(p, &s, open, 20, 20000) > 0)
        p->ret->open_us = call(p, &s, open, p->config->quick ? 60 : 300, 20000);
    close_side(&s);
}

static void measure_checkpoints(struct plan *p)
{
    static const char run[] =
        "{\"name\":\"execute_python\",\"arguments\":{\"code\":\"1+1\",\"session\":\"%s\"}}";
    static const char *const names[] = {"plain", "undo"};
    double *const results[] = {&p->ret->plain_us, &p->ret->checkpoint_us};
    struct side s;
    if (!open_side(p, &s, 2, 0, false))
        return;
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "{\"name\":\"%s\",\"checkpoint\":%s}", names[i],
                 i ? "true" : "false");
        bool ok = tool(p, &s, "open_session", arguments);
        snprintf(arguments, sizeof arguments,
                 "{\"code\":\"data = bytearray(b'x') * (120 << 20)\",\"session\":\"%s\"}",
                 names[i]);
        ok = ok && tool(p, &s, "execute_python", arguments);
        snprintf(arguments, sizeof arguments, run, names[i]);
        if (ok && call(p, &s, arguments, 5, 0) > 0)
            *results[i] = call(p, &s, arguments, p->config->quick ? 30 : 100, 0);
    }
    close_side(&s);
}

// ---- memory -------------------------------------------------------------------------------------

static double proc_kib(pid_t pid, const char *file, const char *key)
{
    char path[64];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return file_read_key_at(AT_FDCWD, path, key, &kib) < 0 ? -1 : (double)kib;
}

static size_t add_children(pid_t pid, pid_t *list, size_t count)
{
    static char text[256 * 1024];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return count;
    for (char *at = text, *end; *at && count < PROCESSES_MAX; at = end) {
        long child = strtol(at, &end, 10);
        if (end == at)
            break;
        list[count++] = (pid_t)child;
    }
    return count;
}

// All processes of a server, in MiB; page tables, which nobody shares, beside it.  An init shares
// its memory with the user process, which counts once.
static double weigh(struct plan *p, pid_t server, double *ret_tables)
{
    static pid_t list[PROCESSES_MAX], parents[PROCESSES_MAX];
    double sum = 0, tables = 0;
    size_t count = 1;
    list[0] = server;
    parents[0] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t before = count;
        count = add_children(list[i], list, count);
        for (size_t k = before; k < count; k++)
            parents[k] = list[i];
        if (parents[i] && syscall(SYS_kcmp, list[i], parents[i], KCMP_VM, 0, 0) == 0)
            continue;
        double kib = proc_kib(list[i], "smaps_rollup", "Pss");
        if (kib < 0 && kill(list[i], 0) == 0) {
            snprintf(p->why, sizeof p->why, "the memory of process %d cannot be read", list[i]);
            (void)note(p, false);
            return -1;
        }
        sum += kib > 0 ? kib : 0;
        kib = proc_kib(list[i], "status", "VmPTE");
        tables += kib > 0 ? kib : 0;
    }
    *ret_tables = tables / 1024;
    return sum / 1024;
}

// A session that ran nothing is nobody's: each has run a line, then they are left alone.
static bool open_idle(struct plan *p, const struct side *s, int from, int to)
{
    for (int i = from; i < to; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "{\"code\":\"x = %d\",\"session\":\"idle-%d\"}", i,
                 i);
        if (!tool(p, s, "execute_python", arguments))
            return false;
    }
    return true;
}

// What one more session costs, in MiB, with `count` of them; -1: not known.
static double weigh_sessions(struct plan *p, bool preload, int count, double *ret_total)
{
    int few = 10;
    double each = -1, tables;
    struct side s;
    if (!open_side(p, &s, 4, 0, preload))
        return -1;
    if (open_idle(p, &s, 0, few)) {
        (void)usleep(500000);
        double before = weigh(p, s.server.pid, &tables);
        if (before > 0 && open_idle(p, &s, few, count)) {
            (void)usleep(1000000); // let the stock settle
            double after = weigh(p, s.server.pid, &tables);
            if (after > before) {
                *ret_total = after + tables;
                each = (after - before) / (count - few);
            }
        }
    }
    close_side(&s);
    return each;
}

static void measure_memory(struct plan *p)
{
    double ignored;
    p->ret->sessions = p->config->quick ? SESSIONS_QUICK : SESSIONS;
    p->ret->bare_mib = weigh_sessions(p, false, SESSIONS_QUICK, &ignored);
    if (p->data)
        p->ret->session_mib = weigh_sessions(p, true, p->ret->sessions, &p->ret->total_mib);
}

// ---- files over REST ----------------------------------------------------------------------------

static bool send_all(int fd, const char *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t n = send(fd, data + at, length - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// One request and its whole answer, whose body goes to `ret` (FILE_BYTES).  Returns its length, or
// -1.
static ssize_t exchange(struct plan *p, int fd, int port, const char *line, const char *body,
                        size_t length, char *ret)
{
    char head[HEAD_MAX + 1], *blank = NULL;
    size_t have = 0;
    int n = snprintf(
        head, sizeof head, "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %zu\r\n%s\r\n",
        line, port, length, body && body[0] == '{' ? "Content-Type: application/json\r\n" : "");
    snprintf(p->why, sizeof p->why, "%s: the connection broke", line);
    if (!send_all(fd, head, (size_t)n) || !send_all(fd, body, length))
        return -1;
    while (!blank) {
        ssize_t got = have < HEAD_MAX ? recv(fd, head + have, HEAD_MAX - have, 0) : -1;
        if (got <= 0)
            return -1;
        have += (size_t)got;
        head[have] = '\0';
        blank = strstr(head, "\r\n\r\n");
    }
    size_t begun = have - (size_t)(blank + 4 - head);
    const char *size = strcasestr(head, "\r\nContent-Length:");
    size_t total = size && size < blank ? strtoul(size + 17, NULL, 10) : 0;
    if (strncmp(head, "HTTP/1.1 20", 11) != 0 || total > FILE_BYTES || begun > total) {
        snprintf(p->why, sizeof p->why, "%s: %.200s", line, head);
        return -1;
    }
    memcpy(ret, blank + 4, begun);
    while (begun < total) {
        ssize_t got = recv(fd, ret + begun, total - begun, 0);
        if (got <= 0)
            return -1;
        begun += (size_t)got;
    }
    return (ssize_t)total;
}

static bool transfer(struct plan *p, int fd, int port, char *data, char *back)
{
    static const char session[] = "{\"code\": \"1\", \"session_id\": \"files\", \"stream\": false}";
    static const char put[] = "PUT /api/v1/sessions/files/files/data.bin",
                      get[] = "GET /api/v1/sessions/files/files/data.bin";
    static struct bench_samples up, down; // large
    int rounds = p->config->quick ? 10 : 30;
    up.count = down.count = 0;
    if (exchange(p, fd, port, "POST /api/v1/execute", session, strlen(session), back) < 0)
        return false;
    for (int i = 0; i < rounds; i++) {
        data[i] = (char)('a' + i); // another file each time
        double begin = bench_now_us();
        if (exchange(p, fd, port, put, data, FILE_BYTES, back) < 0)
            return false;
        up.us[up.count++] = bench_now_us() - begin;
        begin = bench_now_us();
        ssize_t n = exchange(p, fd, port, get, "", 0, back);
        down.us[down.count++] = bench_now_us() - begin;
        if (n != FILE_BYTES || memcmp(data, back, FILE_BYTES) != 0) {
            snprintf(p->why, sizeof p->why, "what was downloaded is not what was uploaded");
            return false;
        }
    }
    p->ret->upload = FILE_BYTES / bench_percentile(&up, 50);
    p->ret->download = FILE_BYTES / bench_percentile(&down, 50);
    return true;
}

static void measure_files(struct plan *p)
{
    struct side s;
    int port = bench_free_port();
    _cleanup_free_ char *data = malloc(FILE_BYTES), *back = malloc(FILE_BYTES);
    if (!port || !data || !back || !open_side(p, &s, 2, port, false))
        return;
    for (size_t i = 0; i < FILE_BYTES; i++)
        data[i] = (char)(i * 2654435761U >> 13);
    _cleanup_close_ int fd = bench_dial(port);
    snprintf(p->why, sizeof p->why, "connect to the server: %s", strerror(errno));
    (void)note(p, fd >= 0 && transfer(p, fd, port, data, back));
    close_side(&s);
}

// ---- what it is measured against ----------------------------------------------------------------

static const char kernel_code[] =
    "import json, os, statistics, sys, tempfile, time\n"
    "folder = tempfile.TemporaryDirectory()\n"
    "os.environ['JUPYTER_RUNTIME_DIR'] = os.environ['IPYTHONDIR'] = folder.name\n"
    "import ipykernel\n"
    "from jupyter_client.manager import start_new_kernel\n"
    "def weigh():\n"
    "    sizes = []\n"
    "    for manager, client in kernels:\n"
    "        with open(f'/proc/{manager.provisioner.pid}/smaps_rollup') as lines:\n"
    "            sizes += [int(l.split()[1]) for l in lines if l.startswith('Pss:')]\n"
    "    return sum(sizes) / len(sizes) / 1024\n"
    "kernels, times, data = [], [], None\n"
    "try:\n"
    "    for i in range(int(sys.argv[1])):\n"
    "        begin = time.perf_counter()\n"
    "        kernels.append(start_new_kernel(kernel_name='python3'))\n"
    "        times.append(time.perf_counter() - begin)\n"
    "    time.sleep(1)\n"
    "    bare = weigh()\n"
    "    code = f'import sys; sys.path.append({sys.argv[2]!r}); import {sys.argv[3]}'\n"
    "    replies = [client.execute(code, reply=True, timeout=60) for _, client in kernels]\n"
    "    if all(reply['content']['status'] == 'ok' for reply in replies):\n"
    "        data = weigh()\n"
    "finally:\n"
    "    for manager, client in kernels:\n"
    "        client.stop_channels()\n"
    "        manager.shutdown_kernel(now=True)\n"
    "print(json.dumps({'version': ipykernel.__version__, 'mib': bare, 'data_mib': data,\n"
    "                  'open_us': statistics.median(times) * 1e6}))\n";

#define PLOT "plt.plot([1, 4, 9, 16], [2, 3, 5, 7])\\nplt.title('primes')\\n"

static const char plot_params[] =
    "{\"name\":\"execute_python\",\"arguments\":{\"session\":\"plot\",\"code\":"
    "\"import matplotlib.pyplot as plt\\n" PLOT "plt.show()\"}}";

static const char matplotlib_code[] =
    "import io, json, statistics, sys, time\n"
    "import matplotlib\n"
    "matplotlib.use('agg')\n"
    "code = compile(\"import matplotlib.pyplot as plt\\n" PLOT
    "out = io.BytesIO()\\nplt.savefig(out, format='png')\\nplt.close('all')\", 'plot', 'exec')\n"
    "times = []\n"
    "for i in range(int(sys.argv[1])):\n"
    "    begin = time.perf_counter()\n"
    "    exec(code)\n"
    "    times.append(time.perf_counter() - begin)\n"
    "print(json.dumps({'us': statistics.median(times[5:]) * 1e6}))\n";

// Which interpreter has an ipykernel: one of its own, or that of the boxes.
static const char *find_kernel(const struct plan *p)
{
    static const char code[] = "import ipykernel, jupyter_client\nprint('{}')";
    static const char *const none[] = {NULL};
    const char *places[] = {"build/venv-ipykernel/bin/python", p->python};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        json_t *o = access(places[i], X_OK) == 0 ? bench_helper(places[i], code, none) : NULL;
        json_decref(o);
        if (o)
            return places[i];
    }
    return NULL;
}

// Where the boxes have the data stack from: the kernels are given the same.
static json_t *find_packages(const struct plan *p)
{
    static const char code[] = "import json, sysconfig\n"
                               "print(json.dumps({'path': sysconfig.get_paths()['platlib']}))";
    static const char *const none[] = {NULL};
    return bench_helper(p->python, code, none);
}

static void measure_kernels(struct plan *p)
{
    const char *python = find_kernel(p);
    if (!python) {
        snprintf(p->ret->missing, sizeof p->ret->missing,
                 "ipykernel is missing: 'tools/setup kernel' installs it");
        return;
    }
    json_t *packages = find_packages(p);
    const char *path = json_string_value(json_object_get(packages, "path"));
    const char *const arguments[] = {p->config->quick ? "2" : "5", path ? path : "", stack, NULL};
    json_t *o = bench_helper(python, kernel_code, arguments);
    const char *version = json_string_value(json_object_get(o, "version"));
    if (version) {
        snprintf(p->ret->kernel, sizeof p->ret->kernel, "ipykernel %s", version);
        p->ret->kernel_open_us = json_number_value(json_object_get(o, "open_us"));
        p->ret->kernel_mib = json_number_value(json_object_get(o, "mib"));
        p->ret->kernel_data_mib =
            json_number_value(json_object_get(o, "data_mib")); // 0: it has none
    } else {
        snprintf(p->ret->missing, sizeof p->ret->missing, "the ipykernel did not start");
    }
    json_decref(o);
    json_decref(packages);
}

static void measure_plot(struct plan *p)
{
    const char *const arguments[] = {p->config->quick ? "30" : "80", NULL};
    struct side s;
    if (!p->data || !open_side(p, &s, 2, 0, true))
        return;
    if (call(p, &s, plot_params, 10, 0) > 0)
        p->ret->plot_us = call(p, &s, plot_params, p->config->quick ? 20 : 60, 0);
    close_side(&s);
    json_t *o = bench_helper(p->python, matplotlib_code, arguments);
    if (o)
        p->ret->matplotlib_us = json_number_value(json_object_get(o, "us"));
    json_decref(o);
}

void bench_session(const struct config *c, const char *program, const char *python, int stock,
                   bool data, struct bench_session *ret)
{
    static struct plan p; // large
    *ret = (struct bench_session){
        .run_us = -1,
        .rest_us = -1,
        .open_us = -1,
        .checkpoint_us = -1,
        .plain_us = -1,
        .total_mib = -1,
        .session_mib = -1,
        .bare_mib = -1,
        .upload = -1,
        .download = -1,
        .plot_us = -1,
        .matplotlib_us = -1,
        .kernel_open_us = -1,
        .kernel_mib = -1,
        .kernel_data_mib = -1,
    };
    p = (struct plan){.config = c,
                      .program = program,
                      .python = python,
                      .stock = stock,
                      .data = data,
                      .ret = ret};
    measure_runs(&p);
    measure_opening(&p);
    measure_kernels(&p);
    measure_memory(&p);
    measure_checkpoints(&p);
    measure_files(&p);
    measure_plot(&p);
}
