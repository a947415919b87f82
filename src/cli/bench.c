// SPDX-License-Identifier: Apache-2.0
//
// bench: `constrictor bench`, a short measurement of this machine: boxes beside cold interpreters
// of the same run.  Nothing here is a limit; `make bench` has more figures and their targets.

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench_load.h"
#include "cli/cli.h"
#include "keeper/interp.h"

enum { FRESH_STOCK = 16, RATE_STOCK = 32, PARKED_FEW = 10, PARKED_MANY = 100 };

struct figure {
    const char *name, *text, *unit;
    double value, cold; // -1: not measured, nothing to compare with
    bool more;          // more is better
};

struct bench {
    const struct config *config; // with the interpreter's path
    char exe[4096];              // this program
    struct interp interp;
    struct bench_samples cold;
    double cold_rate; // per second, one worker on each core
    struct figure figures[8];
    size_t count;
    char failure[256]; // the first
};

// ---- cold interpreters --------------------------------------------------------------------------

static pid_t spawn(char *const *argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    int r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r ? -1 : pid;
}

static bool start_once(char *const *argv)
{
    int status;
    pid_t pid = spawn(argv);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool start_often(char *const *argv, int count, struct bench_samples *ret)
{
    ret->count = 0;
    if (!start_once(argv)) // fills the page cache: cold means a new process, not a cold disk
        return false;
    for (int i = 0; i < count; i++) {
        double begin = bench_now_us();
        if (!start_once(argv))
            return false;
        ret->us[ret->count++] = bench_now_us() - begin;
    }
    return true;
}

// Per second, with one at a time for each core.
static double start_rate(char *const *argv, double seconds)
{
    int running = 0, ended = 0;
    double begin = bench_now_us(), end = begin + seconds * 1e6;
    for (;;) {
        while (running < sysconf(_SC_NPROCESSORS_ONLN) && bench_now_us() < end && spawn(argv) > 0)
            running++;
        if (running == 0)
            return ended / ((bench_now_us() - begin) / 1e6);
        if (wait(NULL) > 0)
            ended++;
        running--;
    }
}

// ---- figures ------------------------------------------------------------------------------------

static void add(struct bench *b, struct figure f)
{
    b->figures[b->count++] = f;
}

static void progress(const struct bench *b, const char *what)
{
    if (!b->config->json)
        fprintf(stderr, "  %s ...\n", what);
}

// The result of a load that failed is empty.
static struct bench_result *load(struct bench *b, const char *what, struct bench_load load)
{
    static struct bench_result none;
    progress(b, what);
    load.code = "1+1";
    struct bench_result *r = bench_load(b->config, &load);
    if (r && r->failed == 0)
        return r;
    if (!b->failure[0])
        snprintf(b->failure, sizeof b->failure, "%s: %.200s", what,
                 r && r->failure[0] ? r->failure : "no boxes could be made");
    return &none;
}

static double p50_ms(struct bench_samples *s)
{
    return bench_percentile(s, 50) / 1000;
}

static double p99_ms(struct bench_samples *s)
{
    return bench_percentile(s, 99) / 1000;
}

static void measure_fresh(struct bench *b)
{
    struct bench_load fresh = {.stock = FRESH_STOCK,
                               .runs = b->config->quick ? 200 : 1000,
                               .at_once = 1,
                               .pause_us = 12000}; // the stock is full again
    struct bench_samples *s = &load(b, "fresh boxes, one at a time", fresh)->latency;
    add(b, (struct figure){"fresh_p50", "1+1 in a fresh box, p50", "ms", p50_ms(s),
                           p50_ms(&b->cold), false});
    add(b, (struct figure){"fresh_p99", "1+1 in a fresh box, p99", "ms", p99_ms(s),
                           p99_ms(&b->cold), false});
}

static void measure_rate(struct bench *b)
{
    struct bench_load many = {
        .stock = RATE_STOCK, .runs = 1000000, .at_once = 8, .seconds = b->config->quick ? 2 : 5};
    const struct bench_result *r = load(b, "fresh boxes, as many as possible", many);
    add(b, (struct figure){"rate", "fresh boxes per second", "/s",
                           r->runs ? r->runs / r->seconds : -1, b->cold_rate, true});
}

static void measure_live(struct bench *b)
{
    struct bench_load live = {
        .stock = 2, .runs = b->config->quick ? 5000 : 20000, .at_once = 1, .live = true};
    struct bench_samples *s = &load(b, "runs in one live box", live)->latency;
    add(b, (struct figure){"live_10", "ten runs in one live box", "ms", 10 * p50_ms(s),
                           10 * p50_ms(&b->cold), false});
}

static struct bench_boxes weighed;

static void look(const struct bench_result *r, bool end)
{
    if (!end)
        weighed = bench_weigh(r->zygote);
}

static struct bench_boxes weigh_parked(struct bench *b, int stock)
{
    struct bench_load parked = {.stock = stock, .runs = 1, .at_once = 1, .look = look};
    weighed = (struct bench_boxes){0};
    (void)load(b, "memory of parked boxes", parked);
    return weighed;
}

static void measure_memory(struct bench *b)
{
    struct bench_boxes few = weigh_parked(b, PARKED_FEW), many = weigh_parked(b, PARKED_MANY);
    int more = many.boxes - few.boxes;
    bool ok = few.boxes > 0 && more > 0;
    add(b, (struct figure){"memory", "memory of a parked box", "MiB",
                           ok ? (many.pss_kb - few.pss_kb) / more / 1024 : -1, -1, false});
}

static void measure_command(struct bench *b)
{
    static struct bench_samples s;
    char *argv[] = {b->exe, "run", "--python", b->interp.executable, "-c", "print(1)", NULL};
    progress(b, "the command 'constrictor run'");
    bool ok = start_often(argv, b->config->quick ? 20 : 60, &s);
    add(b, (struct figure){"command", "constrictor run -c 'print(1)', p50", "ms",
                           ok ? p50_ms(&s) : -1, p50_ms(&b->cold), false});
}

// ---- output -------------------------------------------------------------------------------------

// How many times better than the cold interpreters, -1: not known.
static double ratio(const struct figure *f)
{
    if (f->value <= 0 || f->cold <= 0)
        return -1;
    return f->more ? f->value / f->cold : f->cold / f->value;
}

static void print_number(double value, const char *unit)
{
    if (value < 0)
        printf(" %15s", "-");
    else
        printf(" %11.2f %-3s", value, unit);
}

static void print_table(struct bench *b)
{
    printf("Python %s (%s), %ld cores\n\n%-36s %15s %15s %9s\n", b->interp.version,
           b->interp.executable, sysconf(_SC_NPROCESSORS_ONLN), "", "constrictor", "cold python3",
           "ratio");
    for (size_t i = 0; i < b->count; i++) {
        const struct figure *f = &b->figures[i];
        printf("%-36s", f->text);
        print_number(f->value, f->unit);
        print_number(f->cold, f->unit);
        if (ratio(f) < 0)
            printf(" %9s\n", "-");
        else
            printf(" %8.1fx\n", ratio(f));
    }
    printf(
        "\nA cold python3 is a new process that runs 'python3 -c 1+1'; for the rate one after the\n"
        "other on each core, for the live box ten of them.  The ratio is how many times faster\n"
        "constrictor is.\n");
}

static json_t *number_json(double value)
{
    return value < 0 ? json_null() : json_real(value);
}

static void print_json(struct bench *b)
{
    json_auto_t *figures = json_array();
    for (size_t i = 0; i < b->count; i++) {
        const struct figure *f = &b->figures[i];
        (void)json_array_append_new(
            figures, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "name", f->name, "text", f->text,
                               "unit", f->unit, "value", number_json(f->value), "cold",
                               number_json(f->cold), "ratio", number_json(ratio(f))));
    }
    json_auto_t *o = json_pack("{s:s, s:s, s:i, s:O}", "python", b->interp.executable, "version",
                               b->interp.version, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN),
                               "figures", figures);
    (void)json_dumpf(o, stdout, JSON_INDENT(2));
    (void)putchar('\n');
}

static int cmd_bench(const struct config *c, int argc, char **argv)
{
    static struct bench b;       // large
    static struct config config; // the same, with the path of the interpreter
    struct err e;
    (void)argc;
    (void)argv;
    ssize_t n = readlink("/proc/self/exe", b.exe, sizeof b.exe - 1);
    if (n <= 0) {
        err_set(&e, ERR_SYSTEM, errno, NULL, "find this program");
        return cli_fail(&e, c->json);
    }
    if (interp_ask(c->python, &b.interp, &e) < 0)
        return cli_fail(&e, c->json);
    config = *c;
    snprintf(config.python, sizeof config.python, "%s", b.interp.executable);
    b.config = &config;
    progress(&b, "cold interpreters");
    char *cold[] = {b.interp.executable, (char *)"-c", (char *)"1+1", NULL};
    if (!start_often(cold, c->quick ? 20 : 60, &b.cold)) {
        err_set(&e, ERR_INTERPRETER, 0, NULL, "start '%s' for comparison", b.interp.executable);
        return cli_fail(&e, c->json);
    }
    b.cold_rate = start_rate(cold, c->quick ? 1 : 3);
    measure_fresh(&b);
    measure_rate(&b);
    measure_live(&b);
    measure_memory(&b);
    measure_command(&b);
    if (b.failure[0])
        fprintf(stderr, "constrictor: a measurement failed: %s\n", b.failure);
    if (c->json)
        print_json(&b);
    else
        print_table(&b);
    return cli_finish();
}

const struct command command_bench = {
    .name = "bench",
    .section = SECTION_INSPECT,
    .summary = "Measure latency, throughput and memory beside a cold python3",
    .usage = "bench [options]",
    .bit = CONFIG_BENCH,
    .function = cmd_bench,
};
