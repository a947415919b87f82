// SPDX-License-Identifier: Apache-2.0
//
// load: puts one load on boxes without a server and prints what was measured, for bench/bench.py
// and for tests.
//
//   constrictor-load [OPTIONS of 'constrictor bench'] '{"code": "1+1", "runs": 1000, ...}'
//
// The object has the members of struct bench_load, and "memory": weigh the processes.  What is left
// out is 0, or 1 run of "1+1".

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "bench_load.h"
#include "cli/cli.h"
#include "config/config.h"

struct memory {
    struct bench_boxes boxes; // only when the stock is full
    double keeper_rss_kb, gate_rss_kb;
    int keeper_fds;
};

static struct memory before, after;

static double rss_kb(pid_t pid)
{
    char path[64];
    uint64_t kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return file_read_key_at(AT_FDCWD, path, "VmRSS", &kb) < 0 ? -1 : (double)kb;
}

static int open_files(pid_t pid)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return d ? n - 2 : -1;
}

static void look(const struct bench_result *r, bool end)
{
    struct memory *m = end ? &after : &before;
    if (!end)
        m->boxes = bench_weigh(r->zygote);
    m->keeper_rss_kb = rss_kb(r->keeper);
    m->keeper_fds = open_files(r->keeper);
    m->gate_rss_kb = rss_kb(r->gate);
}

static json_t *memory_json(const struct memory *m)
{
    return json_pack("{s:f, s:i, s:f, s:f, s:i}", "pss_kb", m->boxes.pss_kb, "boxes",
                     m->boxes.boxes, "keeper_rss_kb", m->keeper_rss_kb, "gate_rss_kb",
                     m->gate_rss_kb, "keeper_fds", m->keeper_fds);
}

int main(int argc, char **argv)
{
    static struct config config;
    struct bench_load load = {.code = "1+1", .stock = 16, .runs = 1, .at_once = 1};
    struct err e;
    int live = 0, memory = 0;
    argc--;
    argv++;
    config_init_zeroed(&config);
    if (config_load(&config, CONFIG_BENCH, &argc, &argv, &e) < 0)
        return cli_fail(&e, false);
    log_init((enum log_level)config.log_level, "constrictor");
    json_error_t why = {.text = "no load is given"};
    json_auto_t *o = argc == 1 ? json_loads(argv[0], 0, &why) : NULL;
    if (!o || json_unpack_ex(o, &why, 0, "{s?s, s?s, s?i, s?i, s?i, s?i, s?F, s?b, s?b !}", "code",
                             &load.code, "preload", &load.preload, "stock", &load.stock, "runs",
                             &load.runs, "at_once", &load.at_once, "pause_us", &load.pause_us,
                             "seconds", &load.seconds, "live", &live, "memory", &memory) < 0) {
        err_set(&e, ERR_USAGE, 0, NULL, "%s", why.text);
        return cli_fail(&e, false);
    }
    if (load.stock < 1 || load.runs < 1 || load.at_once < 1 || load.at_once > BENCH_AT_ONCE_MAX) {
        err_set(&e, ERR_USAGE, 0, NULL, "stock, runs or at_once is out of range");
        return cli_fail(&e, false);
    }
    load.live = live;
    load.look = memory ? look : NULL;
    struct bench_result *r = bench_load(&config, &load);
    if (!r)
        return 1;
    json_auto_t *report = json_pack(
        "{s:b, s:i, s:i, s:s, s:f, s:f, s:f, s:o, s:o}", "ok", r->failed == 0, "runs", r->runs,
        "failed", r->failed, "failure", r->failure, "seconds", r->seconds, "p50_us",
        bench_percentile(&r->latency, 50), "p99_us", bench_percentile(&r->latency, 99), "before",
        memory_json(&before), "after", memory_json(&after));
    (void)json_dumpf(report, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    return r->failed ? 1 : cli_finish();
}
