// SPDX-License-Identifier: Apache-2.0
//
// bench: `constrictor bench`.  See bench.h for the parts.
//
// Machines are noisy, so every figure is a ratio against cold interpreters measured in the same
// run, with medians and p99; nothing here is an assertion.

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/bench.h"
#include "cli/bench_check.h"
#include "cli/bench_env.h"
#include "cli/bench_mcp.h"
#include "cli/bench_network.h"
#include "cli/bench_rest.h"
#include "cli/bench_session.h"
#include "cli/cli.h"
#include "keeper/interp.h"

enum { FRESH_STOCK = 16, RUN_MARGIN_US = 300, SESSION_KIB = 16 };
enum { LIVE_MARGIN_US = 1500, OPEN_US = 1000, IDLE_MIB = 2560, TRANSFER_MB = 200 }; // of sessions
enum { CHECK_US = 1000 };
enum { REQUEST_US = 300, DOWN_MB = 500, DOWN_PERCENT = 70 }; // of the network
static const double idle_limit_percent = 0.1;

struct figure {
    const char *key, *text;
    double value; // in `unit`, -1: not measured
    const char *unit;
    double ratio, target; // reached when ratio >= target; ratio -1: nothing to compare with
    const char *note;     // why it was not measured, or what it is compared with
};

struct bench {
    const struct config *config;
    char exe[4096]; // this program
    struct interp interp;
    struct bench_shared *shared;
    pid_t observer;
    bool data;                                      // numpy, pandas, matplotlib are there
    struct bench_samples plain, bare, stack, numpy; // cold
    double cold_rate, fork_rate;                    // per second, one worker per core
    double bare_p50;                                // of a fresh box, measured right before MCP
    char bare_note[64], idle_note[64];
    struct bench_mcp mcp;
    struct bench_session session;
    char session_notes[5][128];
    struct bench_network network;
    char network_notes[4][128];
    struct bench_check check;
    char check_notes[2][128];
    struct bench_env env;
    struct bench_rest rest;
    struct figure figures[64];
    size_t figure_count;
    json_t *growth;
};

static const char data_code[] =
    "import numpy as np, pandas as pd, matplotlib.pyplot as plt\n"
    "float(pd.DataFrame({'a': np.arange(4.0)})['a'].sum()) + len(plt.get_fignums())";
static const char numpy_code[] = "import numpy as np\nfloat((np.arange(100.0) ** 2).sum())";

// ---- one measurement ----------------------------------------------------------------------------

// In a child, which becomes the keeper.  False: it failed, and shared->failure says why.
static bool measure(struct bench *b, uint32_t stock, const char *preload, struct bench_load *load)
{
    static struct config config;
    config = *b->config;
    config.stock = stock;
    config.preload = (struct text_list){0};
    if (preload)
        (void)text_list_add(&config.preload, preload);
    snprintf(config.python, sizeof config.python, "%s", b->interp.executable);
    b->shared->latency.count = b->shared->failed = 0;
    b->shared->failure[0] = '\0';
    load->shared = b->shared;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct err e;
        int status = 1;
        struct keeper_plan plan = {.config = &config, .gate = bench_gate, .argument = load};
        if (keeper_run(&plan, &status, &e) < 0)
            snprintf(b->shared->failure, sizeof b->shared->failure, "%s", e.message);
        _exit(status);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && status == 0 && b->shared->failed == 0;
}

static struct figure *add(struct bench *b, const char *key, const char *text, const char *unit,
                          double target)
{
    struct figure *f = &b->figures[b->figure_count++];
    *f = (struct figure){
        .key = key, .text = text, .unit = unit, .target = target, .value = -1, .ratio = -1};
    return f;
}

static void progress(const struct bench *b, const char *what)
{
    if (!b->config->json)
        fprintf(stderr, "  %s ...\n", what);
}

// ---- the figures --------------------------------------------------------------------------------

static bool measure_cold(struct bench *b, bool again)
{
    int n = b->config->quick ? 20 : 60;
    char *exe = b->interp.executable;
    char *plain[] = {exe, (char *)"-c", (char *)"1+1", NULL};
    char *bare[] = {exe, (char *)"-I", (char *)"-S", (char *)"-c", (char *)"1+1", NULL};
    char *numpy[] = {exe, (char *)"-c", (char *)"import numpy", NULL};
    char *stack[] = {exe, (char *)"-c", (char *)"import numpy, pandas, matplotlib.pyplot", NULL};
    progress(b, again ? "cold interpreters, again" : "cold interpreters");
    if (!bench_cold(plain, n, &b->plain) || !bench_cold(bare, n, &b->bare))
        return false;
    if (again)
        return true;
    b->data = bench_cold(stack, b->config->quick ? 3 : 7, &b->stack) &&
              bench_cold(numpy, b->config->quick ? 3 : 7, &b->numpy);
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    double seconds = b->config->quick ? 1 : 3;
    b->cold_rate = bench_cold_rate(plain, cores, seconds);
    b->fork_rate = bench_fork_rate(b->interp.executable, cores, seconds);
    return true;
}

static void measure_fresh(struct bench *b)
{
    progress(b, "fresh boxes, one at a time");
    struct bench_load load = {
        .code = "1+1", .runs = b->config->quick ? 200 : 1000, .at_once = 1, .pause_us = 12000};
    struct figure *p50 = add(b, "fresh_p50", "fresh box, 1+1, p50", "us", 25);
    struct figure *p99 = add(b, "fresh_p99", "fresh box, 1+1, p99", "us", 5);
    if (!measure(b, FRESH_STOCK, NULL, &load))
        return;
    p50->value = bench_percentile(&b->shared->latency, 50);
    p99->value = bench_percentile(&b->shared->latency, 99);
    p50->ratio = bench_percentile(&b->plain, 50) / p50->value;
    p99->ratio = bench_percentile(&b->plain, 50) / p99->value;
    p50->note = p99->note = "cold python3 -c, p50";
}

static void measure_stack(struct bench *b)
{
    struct figure *f = add(b, "data_p50", "numpy, pandas, matplotlib used, p50", "us", 500);
    f->note = b->data ? "cold import of the three" : "numpy, pandas or matplotlib is not installed";
    if (!b->data)
        return;
    progress(b, "fresh boxes with the data stack");
    struct bench_load load = {
        .code = data_code, .runs = b->config->quick ? 60 : 300, .at_once = 1, .pause_us = 20000};
    if (!measure(b, 16, "numpy,pandas,matplotlib.pyplot", &load))
        return;
    f->value = bench_percentile(&b->shared->latency, 50);
    f->ratio = bench_percentile(&b->stack, 50) / f->value;
}

static void measure_rate(struct bench *b)
{
    progress(b, "fresh boxes, as many as possible");
    struct bench_load load = {
        .code = "1+1", .runs = 1000000, .at_once = 8, .seconds_max = b->config->quick ? 2 : 5};
    struct figure *f = add(b, "rate", "fresh boxes per second, sustained", "/s", 8);
    f->note = "cold python3 -c per second, one worker per core";
    if (!measure(b, 32, NULL, &load))
        return;
    f->value = (double)b->shared->latency.count / b->shared->seconds;
    if (b->shared->latency.count == BENCH_SAMPLES_MAX) // more runs than samples are kept
        f->value = -1;
    f->ratio = f->value / b->cold_rate;
}

static void measure_live(struct bench *b)
{
    progress(b, "runs in one live box");
    struct bench_load load = {
        .code = "1+1", .runs = b->config->quick ? 5000 : 20000, .at_once = 1, .live = true};
    struct figure *f = add(b, "live_10", "ten runs in one live box", "us", 200);
    f->note = "ten cold python3 -c";
    if (!measure(b, 2, NULL, &load))
        return;
    f->value = 10 * bench_percentile(&b->shared->latency, 50);
    f->ratio = 10 * bench_percentile(&b->plain, 50) / f->value;
}

static void measure_hundred(struct bench *b)
{
    struct figure *f =
        add(b, "hundred", "100 boxes, a numpy expression each, at once", "ms", 1 / 1.5);
    f->note = b->data ? "one cold import numpy" : "numpy is not installed";
    if (!b->data)
        return;
    progress(b, "a hundred boxes at once");
    struct bench_load load = {.code = numpy_code, .runs = 100, .at_once = 100};
    if (!measure(b, 100, "numpy", &load))
        return;
    f->value = b->shared->seconds * 1000;
    f->ratio = bench_percentile(&b->numpy, 50) / 1000 / f->value;
}

static double box_mib(const struct bench_memory *few, const struct bench_memory *many)
{
    if (many->boxes <= few->boxes)
        return -1;
    return (many->pss_kb - few->pss_kb) / (many->boxes - few->boxes) / 1024;
}

static void set_memory(struct figure *f, double mib, double limit)
{
    f->value = mib;
    f->ratio = mib > 0 ? limit / mib : -1;
    f->note = "the limit";
}

// 1, 10, 100, 1,000 parked boxes: what a run costs, what they weigh.
static void measure_growth(struct bench *b)
{
    static const uint32_t sizes[] = {1, 10, 100, 1000};
    struct bench_memory memory[4] = {{0}};
    struct figure *f = add(b, "memory_bare", "memory of a parked box", "MiB", 1);
    size_t n = b->config->quick ? 3 : 4;
    for (size_t i = 0; i < n; i++) {
        char what[64];
        snprintf(what, sizeof what, "%u parked boxes", sizes[i]);
        progress(b, what);
        struct bench_load load = {
            .code = "1+1", .runs = 100, .at_once = 1, .pause_us = 4000, .memory = true};
        double begin = bench_now_us();
        if (!measure(b, sizes[i], NULL, &load))
            return;
        memory[i] = b->shared->before;
        (void)json_array_append_new(
            b->growth,
            json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:i}", "boxes", memory[i].boxes, "p50_us",
                      bench_percentile(&b->shared->latency, 50), "p99_us",
                      bench_percentile(&b->shared->latency, 99), "pss_mib", memory[i].pss_kb / 1024,
                      "keeper_rss_mib", memory[i].keeper_rss_kb / 1024, "seconds",
                      (bench_now_us() - begin) / 1e6, "keeper_fds", memory[i].keeper_fds));
    }
    set_memory(f, box_mib(&memory[1], &memory[n - 1]), 2);
}

static void measure_stack_memory(struct bench *b)
{
    struct figure *f = add(b, "memory_data", "memory of a parked box, data stack", "MiB", 1);
    f->note = "numpy, pandas or matplotlib is not installed";
    if (!b->data)
        return;
    progress(b, "memory with the data stack");
    struct bench_memory memory[2];
    for (int i = 0; i < 2; i++) {
        struct bench_load load = {.code = "1+1", .runs = 1, .at_once = 1, .memory = true};
        if (!measure(b, i ? 34 : 2, "numpy,pandas,matplotlib.pyplot", &load))
            return;
        memory[i] = b->shared->before;
    }
    set_memory(f, box_mib(&memory[0], &memory[1]), 4);
}

static void measure_command(struct bench *b)
{
    progress(b, "the command, cold");
    struct figure *f = add(b, "command", "constrictor run -c 'print(1)', cold", "ms", 1 / 2.5);
    static struct bench_samples s;
    char *argv[] = {b->exe,
                    (char *)"run",
                    (char *)"--python",
                    b->interp.executable,
                    (char *)"-c",
                    (char *)"print(1)",
                    NULL};
    f->note = "cold python3 -c";
    s.count = 0;
    if (!bench_cold(argv, b->config->quick ? 20 : 60, &s))
        return;
    f->value = bench_percentile(&s, 50) / 1000;
    f->ratio = bench_percentile(&b->plain, 50) / 1000 / f->value;
}

// ---- MCP ----------------------------------------------------------------------------------------

// Ours against theirs: `value` and `other` in the unit where more is better when `more`.
static void set_beside(struct bench *b, struct figure *f, double value, double other, bool more)
{
    f->value = value;
    f->note = b->mcp.missing[0] ? b->mcp.missing : b->mcp.reference;
    if (value > 0 && other > 0)
        f->ratio = more ? value / other : other / value;
}

static void add_mcp_figures(struct bench *b)
{
    const struct bench_mcp *m = &b->mcp;
    static const struct {
        const char *key, *text;
        enum bench_mcp_row_key row;
        bool rate;
        double target;
    } list[] = {
        {"mcp_stdio_ping", "MCP over stdio, ping, p50", BENCH_STDIO_PING, false, 1},
        {"mcp_stdio_call", "MCP over stdio, trivial call, p50", BENCH_STDIO_CALL, false, 1},
        {"mcp_stdio_list", "MCP over stdio, tools/list, p50", BENCH_STDIO_LIST, false, 1},
        {"mcp_stdio_rate", "MCP calls per second, stdio, 32 in flight", BENCH_STDIO_MANY, true, 1},
        {"mcp_http_ping", "MCP over HTTP, ping, p50", BENCH_HTTP_PING, false, 1},
        {"mcp_http_call", "MCP over HTTP, trivial call, p50", BENCH_HTTP_CALL, false, 1},
        {"mcp_http_list", "MCP over HTTP, tools/list, p50", BENCH_HTTP_LIST, false, 1},
        {"mcp_http_rate", "MCP calls per second, one connection", BENCH_HTTP_CALL, true, 10},
        {"mcp_http_rate_64", "MCP calls per second, 64 connections", BENCH_HTTP_MANY, true, 10},
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const struct bench_mcp_row *row = &m->rows[list[i].row];
        bool rate = list[i].rate;
        struct figure *f = add(b, list[i].key, list[i].text, rate ? "/s" : "us", list[i].target);
        set_beside(b, f, rate ? row->ours.rate : row->ours.p50_us,
                   rate ? row->theirs.rate : row->theirs.p50_us, rate);
    }
}

// At most a margin above the bare box of the same run.
static void add_run_figure(struct bench *b, const char *key, const char *text,
                           const struct bench_mcp_side *side)
{
    struct figure *f = add(b, key, text, "us", 1);
    f->value = side->p50_us;
    f->note = b->bare_note;
    if (f->value > 0 && b->bare_p50 > 0)
        f->ratio = (b->bare_p50 + RUN_MARGIN_US) / f->value;
}

// The bare box again, as near in time as can be: machines change while they are measured.
static void measure_bare(struct bench *b)
{
    struct bench_load load = {
        .code = "1+1", .runs = b->config->quick ? 100 : 400, .at_once = 1, .pause_us = 12000};
    b->bare_p50 =
        measure(b, FRESH_STOCK, NULL, &load) ? bench_percentile(&b->shared->latency, 50) : -1;
    snprintf(b->bare_note, sizeof b->bare_note, "the bare box now, %.0f us, + %d us", b->bare_p50,
             RUN_MARGIN_US);
}

static void measure_mcp(struct bench *b)
{
    progress(b, "a bare box, for the MCP server");
    measure_bare(b);
    progress(b, "the MCP server, beside the reference implementation");
    bench_mcp(b->config, b->exe, b->interp.executable, FRESH_STOCK, &b->mcp);
    add_mcp_figures(b);
    add_run_figure(b, "mcp_run_stdio", "execute_python 1+1 over stdio, p50", &b->mcp.run_stdio);
    add_run_figure(b, "mcp_run_http", "execute_python 1+1 over HTTP, p50", &b->mcp.run_http);
    struct figure *memory = add(b, "mcp_session", "memory of an idle session", "KiB", 1);
    struct figure *idle = add(b, "mcp_idle", "processor, all idle sessions together", "%", 1);
    set_memory(memory, b->mcp.session_kib, SESSION_KIB);
    idle->value = b->mcp.idle_percent;
    snprintf(b->idle_note, sizeof b->idle_note, "0.1 %% of a core; %d sessions", b->mcp.sessions);
    idle->note = b->idle_note;
    idle->ratio = idle_limit_percent / (idle->value > 1e-4 ? idle->value : 1e-4);
    if (b->mcp.failure[0])
        snprintf(b->shared->failure, sizeof b->shared->failure, "%s", b->mcp.failure);
}

// ---- sessions -----------------------------------------------------------------------------------

// `value` against a limit, or another's; more is better when `more`.
static void set_session(struct figure *f, double value, double other, bool more, const char *note)
{
    f->value = value;
    f->note = note;
    if (value > 0 && other > 0)
        f->ratio = more ? value / other : other / value;
}

static void add_kernel_figures(struct bench *b)
{
    const struct bench_session *s = &b->session;
    bool there = s->kernel[0];
    char(*notes)[sizeof b->session_notes[0]] = b->session_notes;
    snprintf(notes[1], sizeof notes[1], "%s, %.0f ms", s->kernel, s->kernel_open_us / 1000);
    snprintf(notes[2], sizeof notes[2], "%s with the same, %.1f MiB", s->kernel,
             s->kernel_data_mib);
    snprintf(notes[3], sizeof notes[3], "%s, %.1f MiB", s->kernel, s->kernel_mib);
    set_session(add(b, "session_open_kernel", "opening a session, beside ipykernel", "us", 100),
                s->open_us, s->kernel_open_us, false, there ? notes[1] : s->missing);
    set_session(add(b, "session_pss", "memory of an idle session, data stack", "MiB", 20),
                s->session_mib, s->kernel_data_mib, false, there ? notes[2] : s->missing);
    set_session(
        add(b, "session_pss_bare", "memory of an idle session, nothing preloaded", "MiB", 20),
        s->bare_mib, s->kernel_mib, false, there ? notes[3] : s->missing);
}

static void measure_session(struct bench *b)
{
    struct bench_session *s = &b->session;
    progress(b, "sessions, beside ipykernel and matplotlib");
    bench_session(b->config, b->exe, b->interp.executable, FRESH_STOCK, b->data, s);
    snprintf(b->session_notes[0], sizeof b->session_notes[0],
             "the limit, 1.5 ms; ten take %.0f us in all", 10 * s->run_us);
    set_session(add(b, "session_10", "ten runs in a session, stdio, beyond the box", "us", 1),
                s->rest_us > 0 ? 10 * s->rest_us : s->rest_us, LIVE_MARGIN_US, false,
                b->session_notes[0]);
    set_session(add(b, "session_open", "opening a session over stdio, p50", "us", 1), s->open_us,
                OPEN_US, false, "the limit, 1 ms");
    if (b->data)
        snprintf(b->session_notes[4], sizeof b->session_notes[4], "the limit, 2.5 GiB; %d sessions",
                 s->sessions);
    else
        snprintf(b->session_notes[4], sizeof b->session_notes[4],
                 "numpy, pandas or matplotlib is not installed");
    set_session(add(b, "session_memory", "idle sessions and their server, data stack", "MiB", 1),
                s->total_mib, IDLE_MIB, false, b->session_notes[4]);
    add_kernel_figures(b);
    set_session(add(b, "session_checkpoint", "a run after a checkpoint of 120 MiB, p50", "us", 3),
                s->checkpoint_us, bench_percentile(&b->plain, 50), false, "cold python3 -c, p50");
    set_session(add(b, "file_upload", "10 MB up over REST", "MB/s", 1), s->upload, TRANSFER_MB,
                true, "the limit, 200 MB/s");
    set_session(add(b, "file_download", "10 MB down over REST", "MB/s", 1), s->download,
                TRANSFER_MB, true, "the limit, 200 MB/s");
    set_session(add(b, "session_plot", "a simple figure in a session, p50", "us", 1 / 1.3),
                s->plot_us, s->matplotlib_us, false,
                b->data ? "matplotlib by itself" : "matplotlib is not installed");
    if (s->failure[0])
        snprintf(b->shared->failure, sizeof b->shared->failure, "%s", s->failure);
}

// ---- the network --------------------------------------------------------------------------------

static void measure_network(struct bench *b)
{
    struct bench_network *w = &b->network;
    char(*notes)[sizeof b->network_notes[0]] = b->network_notes;
    progress(b, "the network, beside the same code without a broker");
    bench_network(b->config, b->exe, b->interp.executable, FRESH_STOCK, w);
    double more_us = w->through.request_us - w->direct.request_us;
    bool both = w->through.request_us > 0 && w->direct.request_us > 0;
    double share = w->direct.down * DOWN_PERCENT / 100;
    snprintf(notes[0], sizeof notes[0], "a box without, %.0f us", w->plain_us);
    snprintf(notes[1], sizeof notes[1], "the limit, 300 us; direct %.0f us", w->direct.request_us);
    snprintf(notes[2], sizeof notes[2], "direct %.0f us", w->direct.connect_us);
    snprintf(notes[3], sizeof notes[3], "500 MB/s or 70 %% of direct, %.0f MB/s", w->direct.down);
    set_session(add(b, "network_start", "fresh box with network, 1+1, p50", "us", 0.5),
                w->network_us, w->plain_us, false, notes[0]);
    set_session(add(b, "network_request", "a request, beyond a direct one, p50", "us", 1),
                !both         ? -1
                : more_us > 1 ? more_us
                              : 1,
                REQUEST_US, false, notes[1]);
    set_session(add(b, "network_connect", "a new connection and a request, p50", "us", 0),
                w->through.connect_us, -1, false, notes[2]);
    set_session(add(b, "network_down", "256 MiB down, through the broker", "MB/s", 1),
                w->through.down, share > 0 && share < DOWN_MB ? share : DOWN_MB, true, notes[3]);
    if (w->failure[0])
        snprintf(b->shared->failure, sizeof b->shared->failure, "%s", w->failure);
}

// ---- validate_code ------------------------------------------------------------------------------

static void measure_check(struct bench *b)
{
    struct bench_check *k = &b->check;
    char(*notes)[sizeof b->check_notes[0]] = b->check_notes;
    progress(b, "validate_code, beside a cold python3 -m py_compile");
    bench_check(b->config, b->exe, b->interp.executable, FRESH_STOCK, k);
    snprintf(notes[0], sizeof notes[0],
             "the limit, 1 ms; the same text again, %.0f us; CPython's parser alone, warm, %.0f us",
             k->same_us, k->parse_us);
    snprintf(notes[1], sizeof notes[1], "cold python3 -m py_compile, %.1f ms", k->cold_us / 1000);
    set_session(add(b, "check", "validate_code, 200 new lines, p50", "us", 1), k->new_us, CHECK_US,
                false, notes[0]);
    set_session(add(b, "check_cold", "the same", "us", 10), k->new_us, k->cold_us, false, notes[1]);
    if (k->failure[0])
        snprintf(b->shared->failure, sizeof b->shared->failure, "%.255s", k->failure);
}

// ---- environments -------------------------------------------------------------------------------

static void add_rows(struct bench *b, const struct bench_env_row *rows, size_t count,
                     const char *failure)
{
    for (const struct bench_env_row *r = rows; r < rows + count; r++)
        set_session(add(b, r->key, r->text, r->unit, r->target), r->value, r->other, r->more,
                    r->note);
    if (failure[0])
        snprintf(b->shared->failure, sizeof b->shared->failure, "%.255s", failure);
}

static void measure_env(struct bench *b)
{
    progress(b, "environments, beside uv");
    bench_env(b->config, b->exe, b->interp.executable, FRESH_STOCK, &b->env);
    add_rows(b, b->env.rows, b->env.count, b->env.failure);
}

static void measure_rest(struct bench *b)
{
    progress(b, "REST, beside cold interpreters");
    bench_rest(b->config, b->exe, b->interp.executable, b->cold_rate, &b->rest);
    add_rows(b, b->rest.rows, b->rest.count, b->rest.failure);
}

// ---- output -------------------------------------------------------------------------------------

static bool reached(const struct figure *f)
{
    return f->ratio >= f->target;
}

static void print_table(struct bench *b)
{
    printf("interpreter %s, Python %s, %ld cores\n", b->interp.executable, b->interp.version,
           sysconf(_SC_NPROCESSORS_ONLN));
    printf("cold python3 -c: p50 %.2f ms, p99 %.2f ms; -I -S: p50 %.2f ms; %.0f per second\n",
           bench_percentile(&b->plain, 50) / 1000, bench_percentile(&b->plain, 99) / 1000,
           bench_percentile(&b->bare, 50) / 1000, b->cold_rate);
    if (b->fork_rate > 0)
        printf("bare forks of a warm interpreter that evaluate 1+1, no wall around them: %.0f per "
               "second "
               "(%.2fx)\n",
               b->fork_rate, b->fork_rate / b->cold_rate);
    if (b->data)
        printf("cold import of numpy %.0f ms; of numpy, pandas, matplotlib.pyplot %.0f ms\n",
               bench_percentile(&b->numpy, 50) / 1000, bench_percentile(&b->stack, 50) / 1000);
    printf("\n%-46s %12s %10s %10s  %s\n", "figure", "value", "ratio", "must be", "");
    for (size_t i = 0; i < b->figure_count; i++) {
        const struct figure *f = &b->figures[i];
        if (f->value < 0) {
            printf("%-46s %12s %10s %10s  not measured: %s\n", f->text, "-", "-", "-",
                   f->note ? f->note : "");
            continue;
        }
        if (f->ratio < 0) {
            printf("%-46s %8.2f %-3s %10s %9.2fx  %s\n", f->text, f->value, f->unit, "-", f->target,
                   f->note ? f->note : "");
            continue;
        }
        printf("%-46s %8.2f %-3s %9.2fx %9.2fx  %s (against %s)\n", f->text, f->value, f->unit,
               f->ratio, f->target, reached(f) ? "reached" : "NOT REACHED", f->note ? f->note : "");
    }
}

static void print_growth(struct bench *b)
{
    if (json_array_size(b->growth) == 0)
        return;
    printf("\nhow cost grows with parked boxes\n%8s %10s %10s %14s %12s %12s\n", "boxes", "p50 us",
           "p99 us", "memory MiB", "keeper MiB", "keeper fds");
    size_t i;
    json_t *row;
    json_array_foreach (b->growth, i, row)
        printf("%8d %10.0f %10.0f %14.1f %12.1f %12d\n",
               (int)json_integer_value(json_object_get(row, "boxes")),
               json_real_value(json_object_get(row, "p50_us")),
               json_real_value(json_object_get(row, "p99_us")),
               json_real_value(json_object_get(row, "pss_mib")),
               json_real_value(json_object_get(row, "keeper_rss_mib")),
               (int)json_integer_value(json_object_get(row, "keeper_fds")));
}

static void print_side(const struct bench_mcp_side *s)
{
    const double values[] = {s->p50_us, s->p99_us, s->rate};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (values[i] < 0)
            printf(" %9s", "-");
        else
            printf(" %9.0f", values[i]);
}

static void print_mcp(struct bench *b)
{
    const struct bench_mcp *m = &b->mcp;
    if (!m->rows[0].text)
        return;
    printf(
        "\nMCP, beside %s (its tool echo; ours get_sandbox_info)\n%-36s %9s %9s %9s %9s %9s %9s\n",
        m->reference[0] ? m->reference : "nothing", "", "p50 us", "p99 us", "per s", "p50 us",
        "p99 us", "per s");
    for (size_t i = 0; i < ARRAY_LEN(m->rows); i++) {
        printf("%-36s", m->rows[i].text);
        print_side(&m->rows[i].ours);
        print_side(&m->rows[i].theirs);
        (void)putchar('\n');
    }
    printf("%-36s", "stdio, execute_python 1+1");
    print_side(&m->run_stdio);
    printf("\n%-36s", "HTTP, execute_python 1+1");
    print_side(&m->run_http);
    (void)putchar('\n');
}

static void print_json(struct bench *b)
{
    json_t *figures = json_array();
    for (size_t i = 0; i < b->figure_count; i++) {
        const struct figure *f = &b->figures[i];
        (void)json_array_append_new(
            figures,
            json_pack("{s:s, s:s, s:o, s:s, s:o, s:f, s:b, s:s}", "name", f->key, "text", f->text,
                      "value", f->value < 0 ? json_null() : json_real(f->value), "unit", f->unit,
                      "ratio", f->value < 0 || f->ratio < 0 ? json_null() : json_real(f->ratio),
                      "target", f->target, "reached", f->value >= 0 && reached(f), "against",
                      f->note ? f->note : ""));
    }
    json_t *o = json_pack(
        "{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:O, s:o}", "python", b->interp.executable,
        "version", b->interp.version, "cold_p50_us", bench_percentile(&b->plain, 50), "cold_p99_us",
        bench_percentile(&b->plain, 99), "cold_bare_p50_us", bench_percentile(&b->bare, 50),
        "cold_rate", b->cold_rate, "fork_rate", b->fork_rate, "figures", figures, "growth",
        b->growth, "mcp", bench_mcp_json(&b->mcp));
    (void)json_dumpf(o, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    json_decref(o);
}

// `--soak N`: many runs through one keeper; does anything grow?
static int soak(struct bench *b)
{
    struct bench_load load = {
        .code = "1+1", .runs = (int)b->config->soak, .at_once = 8, .memory = true};
    bool ok = measure(b, 16, NULL, &load);
    const struct bench_shared *s = b->shared;
    json_t *o = json_pack(
        "{s:b, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:i, s:i}", "ok", ok, "runs", load.runs,
        "failed", s->failed, "failure", s->failure, "seconds", s->seconds, "keeper_rss_kb_before",
        s->before.keeper_rss_kb, "keeper_rss_kb_after", s->after.keeper_rss_kb,
        "gate_rss_kb_before", s->before.gate_rss_kb, "gate_rss_kb_after", s->after.gate_rss_kb,
        "keeper_fds_before", s->before.keeper_fds, "keeper_fds_after", s->after.keeper_fds);
    (void)json_dumpf(o, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    json_decref(o);
    return ok ? cli_finish() : 1;
}

static int cmd_bench(const struct config *c, int argc, char **argv)
{
    static struct bench b; // large, and there is one
    struct err e;
    (void)argc;
    (void)argv;
    b.config = c;
    ssize_t n = readlink("/proc/self/exe", b.exe, sizeof b.exe - 1);
    if (n <= 0) {
        err_set(&e, ERR_SYSTEM, errno, NULL, "find this program");
        return cli_fail(&e, c->json);
    }
    if (interp_ask(c->python, &b.interp, &e) < 0)
        return cli_fail(&e, c->json);
    b.shared =
        mmap(NULL, sizeof *b.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.shared == MAP_FAILED) {
        err_set(&e, ERR_SYSTEM, errno, NULL, "map shared memory");
        return cli_fail(&e, c->json);
    }
    b.observer = bench_observe(b.shared);
    if (c->soak)
        return soak(&b);
    if (!measure_cold(&b, false)) {
        err_set(&e, ERR_INTERPRETER, 0, NULL, "start '%s' for comparison", b.interp.executable);
        return cli_fail(&e, c->json);
    }
    b.growth = json_array();
    // In the order of the choices of --only.
    static void (*const measurements[])(struct bench *) = {
        measure_fresh,   measure_stack,        measure_rate,    measure_live, measure_hundred,
        measure_growth,  measure_stack_memory, measure_command, measure_mcp,  measure_session,
        measure_network, measure_check,        measure_env,     measure_rest,
    };
    for (int i = 0; i < (int)ARRAY_LEN(measurements); i++)
        if (c->only == 0 || c->only == i + 1)
            measurements[i](&b);
    (void)measure_cold(&b, true);
    if (b.shared->failure[0])
        fprintf(stderr, "constrictor: a measurement failed: %s\n", b.shared->failure);
    if (c->json)
        print_json(&b);
    else {
        print_table(&b);
        print_growth(&b);
        print_mcp(&b);
    }
    return cli_finish();
}

const struct command command_bench = {
    .name = "bench",
    .section = SECTION_INSPECT,
    .summary = "Measure latency, throughput and memory against a cold python3",
    .usage = "bench [options]",
    .bit = CONFIG_BENCH,
    .function = cmd_bench,
};
