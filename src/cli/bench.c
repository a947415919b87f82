// SPDX-License-Identifier: Apache-2.0
//
// bench: `constrictor bench`, a short measurement of this machine: what a client of `constrictor
// stdio` waits for, beside cold interpreters of the same run.  Nothing here is a limit; `make
// bench` has more figures and their targets.

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "keeper/interp.h"

enum {
    SAMPLES_MAX = 20000,
    AT_ONCE = 8,
    FRESH_STOCK = 16,
    RATE_STOCK = 32,
    PARKED_FEW = 10,
    PARKED_MANY = 100,
    REFILL_US = 12000, // the stock is full again
    SETTLED_US = 300000,
};

struct figure {
    const char *name, *text, *unit;
    double value, cold; // -1: not measured, nothing to compare with
    bool more;          // more is better
};

struct samples { // microseconds
    int count;
    double us[SAMPLES_MAX];
};

struct bench {
    struct config config; // of the server; with the interpreter's path
    bool quick, json;
    char exe[4096]; // this program
    struct interp interp;
    struct samples cold;
    double cold_rate; // per second, one worker on each core
    struct figure figures[8];
    size_t count;
    char failure[256]; // the first
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(struct samples *s, int percent)
{
    if (s->count == 0)
        return -1;
    qsort(s->us, (size_t)s->count, sizeof *s->us, compare);
    int i = s->count * percent / 100;
    return s->us[i < s->count ? i : s->count - 1] / 1000;
}

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

static bool start_often(char *const *argv, int count, struct samples *ret)
{
    ret->count = 0;
    if (!start_once(argv)) // fills the page cache: cold means a new process, not a cold disk
        return false;
    for (int i = 0; i < count; i++) {
        int64_t begin = clock_us();
        if (!start_once(argv))
            return false;
        ret->us[ret->count++] = (double)(clock_us() - begin);
    }
    return true;
}

// Per second, with one at a time for each core.
static double start_rate(char *const *argv, double seconds)
{
    int running = 0, ended = 0;
    int64_t begin = clock_us(), end = begin + (int64_t)(seconds * 1e6);
    for (;;) {
        while (running < sysconf(_SC_NPROCESSORS_ONLN) && clock_us() < end && spawn(argv) > 0)
            running++;
        if (running == 0)
            return ended / ((double)(clock_us() - begin) / 1e6);
        if (wait(NULL) > 0)
            ended++;
        running--;
    }
}

// ---- a server and its client --------------------------------------------------------------------

struct server {
    pid_t pid;
    FILE *to, *from;
    unsigned calls;
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static void server_stop(struct bench *b, struct server *s)
{
    if (s->to)
        (void)fclose(s->to); // it ends with its stdin
    if (s->from)
        (void)fclose(s->from);
    if (s->pid > 0)
        (void)waitpid(s->pid, NULL, 0);
    (void)nftw(b->config.state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static bool fail(struct bench *b, const char *what)
{
    if (!b->failure[0])
        snprintf(b->failure, sizeof b->failure, "%s", what);
    return false;
}

// Sends a call of execute_python.
static void call(struct server *s, const char *more)
{
    (void)fprintf(s->to,
                  "{\"jsonrpc\": \"2.0\", \"id\": %u, \"method\": \"tools/call\", \"params\": "
                  "{\"name\": \"execute_python\", \"arguments\": {\"code\": \"1+1\"%s}}}\n",
                  ++s->calls, more);
    (void)fflush(s->to);
}

static bool take_answer(struct bench *b, struct server *s)
{
    static char *line;
    static size_t size;
    if (getline(&line, &size, s->from) <= 0)
        return fail(b, "the server ended");
    return strstr(line, "\"verdict\":\"ok\"") || fail(b, line);
}

// Pid 1 of a namespace in the zygote's: "NSpid: 4711 23 1".
static bool is_init(pid_t pid)
{
    char path[64], text[4096];
    int inner;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *line = strstr(text, "\nNSpid:");
    return line && sscanf(line, " NSpid: %*d %*d %d", &inner) == 1 && inner == 1;
}

// Boxes and what makes them: the processes below `pid`, and their memory.  An init shares its own
// with the user process, so it counts for both.
static int weigh(pid_t pid, double *pss_kb)
{
    char path[64];
    uint64_t kb = 0;
    int processes = 1;
    _cleanup_free_ char *text = malloc(65536);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (file_read_key_at(AT_FDCWD, path, "Pss", &kb) == 0)
        *pss_kb += (double)kb;
    else
        *pss_kb = -INFINITY; // of another account: the whole is not known
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (is_init(pid) || !text || file_read_at(AT_FDCWD, path, text, 65536) <= 0)
        return processes;
    for (char *p = text, *end; *p; p = end) {
        pid_t child = (pid_t)strtol(p, &end, 10);
        if (end == p)
            break;
        processes += weigh(child, pss_kb);
    }
    return processes;
}

// Waits until the stock is full: until no more processes come.  Their memory in KiB.
static double settle(const struct server *s)
{
    double pss_kb = 0;
    for (int before = -1, now = 0, looks = 0; now != before && looks < 200; looks++) {
        before = now;
        (void)usleep(SETTLED_US);
        pss_kb = 0;
        now = weigh(s->pid, &pss_kb);
    }
    return pss_kb;
}

static bool server_start(struct bench *b, int stock, struct server *s)
{
    static const char hello[] =
        "{\"jsonrpc\": \"2.0\", \"id\": 0, \"method\": \"initialize\", \"params\": "
        "{\"protocolVersion\": \"2025-06-18\", \"capabilities\": {}, \"clientInfo\": "
        "{\"name\": \"bench\", \"version\": \"1\"}}}\n"
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n";
    int in[2] = {-1, -1}, out[2] = {-1, -1}, c;
    *s = (struct server){0};
    snprintf(b->config.state, sizeof b->config.state, "/tmp/constrictor-bench.XXXXXX");
    if (!mkdtemp(b->config.state) || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return fail(b, "no folder or pipe for a server");
    b->config.stock = (uint32_t)stock;
    b->config.preload = (struct text_list){0};
    (void)fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)close(in[1]); // else it would never see the end of its stdin
        _exit(command_stdio.function(&b->config, 0, NULL));
    }
    (void)close(in[0]);
    (void)close(out[1]);
    s->to = fdopen(in[1], "w");
    s->from = fdopen(out[0], "r");
    if (s->pid < 0 || !s->to || !s->from)
        return fail(b, "no server could be started");
    (void)fputs(hello, s->to);
    (void)fflush(s->to);
    while ((c = getc(s->from)) != EOF && c != '\n')
        ;
    (void)settle(s);
    return c != EOF || fail(b, "the server did not start");
}

// ---- figures ------------------------------------------------------------------------------------

static void add(struct bench *b, struct figure f)
{
    b->figures[b->count++] = f;
}

static void progress(const struct bench *b, const char *what)
{
    if (!b->json)
        fprintf(stderr, "  %s ...\n", what);
}

// Calls one after the other; no samples when one fails.
static struct samples *calls(struct bench *b, const char *what, int stock, int count,
                             const char *more, useconds_t pause_us)
{
    static struct samples s;
    struct server server;
    progress(b, what);
    s.count = 0;
    bool ok = server_start(b, stock, &server);
    for (int i = 0; ok && i < count; i++) {
        int64_t begin = clock_us();
        call(&server, more);
        ok = take_answer(b, &server);
        s.us[s.count++] = (double)(clock_us() - begin);
        (void)usleep(pause_us);
    }
    server_stop(b, &server);
    s.count = ok ? s.count : 0;
    return &s;
}

static void measure_fresh(struct bench *b)
{
    struct samples *s =
        calls(b, "fresh boxes, one at a time", FRESH_STOCK, b->quick ? 200 : 1000, "", REFILL_US);
    add(b, (struct figure){"fresh_p50", "1+1 in a fresh box, p50", "ms", percentile_ms(s, 50),
                           percentile_ms(&b->cold, 50), false});
    add(b, (struct figure){"fresh_p99", "1+1 in a fresh box, p99", "ms", percentile_ms(s, 99),
                           percentile_ms(&b->cold, 99), false});
}

static void measure_rate(struct bench *b)
{
    struct server server;
    int64_t us = b->quick ? 2000000 : 5000000;
    int ended = 0;
    progress(b, "fresh boxes, as many as possible");
    bool ok = server_start(b, RATE_STOCK, &server);
    int64_t begin = clock_us();
    for (int i = 0; ok && i < AT_ONCE; i++)
        call(&server, "");
    while (ok && clock_us() - begin < us && (ok = take_answer(b, &server))) {
        ended++;
        call(&server, "");
    }
    double seconds = (double)(clock_us() - begin) / 1e6;
    server_stop(b, &server);
    add(b, (struct figure){"rate", "fresh boxes per second", "/s", ok ? ended / seconds : -1,
                           b->cold_rate, true});
}

static void measure_live(struct bench *b)
{
    struct samples *s =
        calls(b, "runs in one live box", 2, b->quick ? 5000 : 20000, ", \"session\": \"bench\"", 0);
    double live = percentile_ms(s, 50);
    add(b, (struct figure){"live_10", "ten runs in one live box", "ms", live < 0 ? -1 : 10 * live,
                           10 * percentile_ms(&b->cold, 50), false});
}

static double weigh_parked(struct bench *b, int stock)
{
    struct server server;
    double pss_kb = server_start(b, stock, &server) ? settle(&server) : 0;
    server_stop(b, &server);
    return pss_kb;
}

static void measure_memory(struct bench *b)
{
    progress(b, "memory of parked boxes");
    double few = weigh_parked(b, PARKED_FEW), many = weigh_parked(b, PARKED_MANY);
    add(b, (struct figure){"memory", "memory of a parked box", "MiB",
                           few > 0 && many > few ? (many - few) / (PARKED_MANY - PARKED_FEW) / 1024
                                                 : -1,
                           -1, false});
}

static void measure_command(struct bench *b)
{
    static struct samples s;
    char *argv[] = {b->exe, "run", "--python", b->interp.executable, "-c", "print(1)", NULL};
    progress(b, "the command 'constrictor run'");
    bool ok = start_often(argv, b->quick ? 20 : 60, &s);
    add(b, (struct figure){"command", "constrictor run -c 'print(1)', p50", "ms",
                           ok ? percentile_ms(&s, 50) : -1, percentile_ms(&b->cold, 50), false});
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
    static struct bench b; // large
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
    b.config = *c;
    snprintf(b.config.python, sizeof b.config.python, "%s", b.interp.executable);
    b.quick = c->quick;
    b.json = c->json;
    (void)signal(SIGPIPE, SIG_IGN); // a server that ended is an error, not our end
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
