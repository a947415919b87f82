// SPDX-License-Identifier: Apache-2.0
//
// bench_rest: see bench_rest.h.

#include "cli/bench_rest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/bench_client.h"

enum {
    STOCK = 32,
    BATCH = 1000,
    OUTPUT_BYTES = 10 * 1000 * 1000,
    READ_MAX = 1 << 20,
    TAIL = 256, // the end of an answer, which is looked at
    STREAM_US = 300,
    OUTPUT_MB = 100,
    GROWTH_MIB = 4,
    CHILDREN_MAX = 64,
};

struct plan {
    const struct config *config;
    struct bench_server server;
    struct bench_rest *ret;
    int fd;
};

static bool fail(struct plan *p, const char *what)
{
    if (!p->ret->failure[0])
        snprintf(p->ret->failure, sizeof p->ret->failure, "%s", what);
    return false;
}

// ---- one call -----------------------------------------------------------------------------------

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

// The last bytes of what has come so far.
static void keep_tail(char tail[TAIL + 1], size_t *have, const char *data, size_t n)
{
    if (n >= TAIL) {
        memcpy(tail, data + n - TAIL, TAIL);
        *have = TAIL;
    } else {
        size_t keep = *have < TAIL - n ? *have : TAIL - n;
        memmove(tail, tail + *have - keep, keep);
        memcpy(tail + keep, data, n);
        *have = keep + n;
    }
    tail[*have] = '\0';
}

// Sends a body and reads the whole answer; counts its bytes.  True when its end has `words`.
static bool call(struct plan *p, const char *path, const char *body, const char *words,
                 uint64_t *ret_bytes)
{
    static char buf[READ_MAX + 1];
    char head[256], tail[TAIL + 1] = "";
    size_t have = 0, length = strlen(body), total = 0, want = 0;
    bool chunked = false;
    int n = snprintf(head, sizeof head,
                     "POST /api/v1/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     path, p->server.port, length);
    if (!send_all(p->fd, head, (size_t)n) || !send_all(p->fd, body, length))
        return fail(p, "the server does not listen");
    while (!(want && total >= want) &&
           !(chunked && have >= 7 && memcmp(tail + have - 7, "\r\n0\r\n\r\n", 7) == 0)) {
        ssize_t got = recv(p->fd, buf, READ_MAX, 0);
        if (got <= 0)
            return fail(p, "the server does not answer");
        if (total == 0) { // the head comes in one piece
            buf[got] = '\0';
            const char *blank = strstr(buf, "\r\n\r\n"),
                       *size = strcasestr(buf, "\r\nContent-Length:");
            chunked = strcasestr(buf, "\r\nTransfer-Encoding: chunked") != NULL;
            if (!blank || strncmp(buf, "HTTP/1.1 200", 12) != 0 || (!chunked && !size))
                return fail(p, "the server refuses the call");
            if (!chunked)
                want = (size_t)(blank + 4 - buf) + strtoul(size + 17, NULL, 10);
        }
        total += (size_t)got;
        keep_tail(tail, &have, buf, (size_t)got);
    }
    if (ret_bytes)
        *ret_bytes = total;
    return strstr(tail, words) ? true : fail(p, "an answer is not what was expected");
}

// ---- memory -------------------------------------------------------------------------------------

static double rss_kib(long pid)
{
    char path[64];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    return file_read_key_at(AT_FDCWD, path, "VmRSS", &kib) < 0 ? 0 : (double)kib;
}

// The server itself: the keeper and the processes of its own name, without zygote and boxes; MiB.
static double server_mib(const struct plan *p)
{
    char path[64], text[4096], name[64];
    double sum = rss_kib(p->server.pid);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", p->server.pid, p->server.pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    int count = 0;
    for (char *at = text, *end; *at && count < CHILDREN_MAX; at = end, count++) {
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        if (file_read_at(AT_FDCWD, path, name, sizeof name) > 0 &&
            strncmp(name, "constrictor", 11) == 0)
            sum += rss_kib(pid);
    }
    return sum / 1024;
}

// ---- the rows -----------------------------------------------------------------------------------

static struct bench_env_row *add(struct plan *p, const char *key, const char *text,
                                 const char *unit, double target)
{
    struct bench_env_row *r = &p->ret->rows[p->ret->count++];
    *r = (struct bench_env_row){
        .key = key, .text = text, .unit = unit, .target = target, .value = -1, .other = -1};
    return r;
}

// In turns, so that both meet the same machine.
static void measure_stream(struct plan *p)
{
    static const char stream[] = "{\"code\":\"1+1\"}",
                      whole[] = "{\"code\":\"1+1\",\"stream\":false}";
    static struct bench_samples samples[2]; // large
    struct bench_env_row *r = add(p, "rest_stream", "NDJSON, beyond a plain run, p50", "us", 1);
    int rounds = p->config->quick ? 100 : 400;
    samples[0].count = samples[1].count = 0;
    for (int i = 0; i < 2 * rounds + 20; i++) {
        double begin = bench_now_us();
        if (!call(p, "execute", i % 2 ? stream : whole, "\"", NULL))
            return;
        struct bench_samples *s = &samples[i % 2];
        if (i >= 20) // it is warm then
            s->us[s->count++] = bench_now_us() - begin;
        (void)usleep(12000); // the stock is full again
    }
    double plain = bench_percentile(&samples[0], 50), lines = bench_percentile(&samples[1], 50);
    r->value = lines - plain > 1 ? lines - plain : 1;
    r->other = STREAM_US;
    snprintf(r->note, sizeof r->note, "the limit, 300 us; a plain run %.0f us", plain);
}

static void measure_output(struct plan *p)
{
    static const char body[] =
        "{\"code\":\"import sys; sys.stdout.write(('x' * 99 + '\\\\n') * 100000)\"}";
    static struct bench_samples samples; // large
    struct bench_env_row *r = add(p, "rest_output", "10 MB of output in a stream", "MB/s", 1);
    samples.count = 0;
    for (int i = 0; i < (p->config->quick ? 5 : 15); i++) {
        uint64_t bytes;
        double begin = bench_now_us();
        // Its lines, and the whole object behind them.
        if (!call(p, "execute", body, "\"", &bytes))
            return;
        samples.us[samples.count++] = bench_now_us() - begin;
        if (bytes < 2 * OUTPUT_BYTES) {
            (void)fail(p, "output is missing");
            return;
        }
    }
    r->more = true;
    r->value = OUTPUT_BYTES / bench_percentile(&samples, 50);
    r->other = OUTPUT_MB;
    snprintf(r->note, sizeof r->note, "the limit, 100 MB/s; from the request to the end of it all");
}

// `count` items; the code of one is made from its number.
static char *make_batch(int count, const char *const *codes, size_t kinds)
{
    json_t *items = json_array();
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(items, json_pack("{s:s}", "code", codes[(size_t)i % kinds]));
    json_t *o = json_pack("{s:o, s:s}", "items", items, "order", "finish");
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

// Seconds for all of it, -1: something went wrong.
static double run_batch(struct plan *p, const char *const *codes, size_t kinds)
{
    _cleanup_free_ char *body = make_batch(BATCH, codes, kinds);
    double begin = bench_now_us();
    if (!body || !call(p, "batch", body, "\"failed\":0,", NULL))
        return -1;
    return (bench_now_us() - begin) / 1e6;
}

static void measure_batch(struct plan *p, double cold_rate)
{
    static const char *const code[] = {"1+1"};
    struct bench_env_row *r =
        add(p, "rest_batch", "a batch of 1,000 1+1, each in a fresh box", "/s", 8);
    double best = -1;
    for (int i = 0; i < (p->config->quick ? 1 : 3); i++) {
        double took = run_batch(p, code, 1);
        if (took < 0)
            return;
        best = best < 0 || took < best ? took : best;
    }
    r->more = true;
    r->value = BATCH / best;
    r->other = cold_rate;
    snprintf(r->note, sizeof r->note, "cold python3 -c per second, one worker per core");
}

// Short programs with asserts, of the kind that models are tested with.
static const char *const programs[] = {
    "from typing import List\n"
    "def has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
    "    for i, a in enumerate(numbers):\n"
    "        for b in numbers[i + 1:]:\n"
    "            if abs(a - b) < threshold:\n"
    "                return True\n"
    "    return False\n"
    "assert has_close_elements([1.0, 2.0, 3.9, 4.0], 0.3)\n"
    "assert not has_close_elements([1.0, 2.0, 3.0], 0.5)\n",
    "def below_zero(operations):\n"
    "    balance = 0\n"
    "    for operation in operations:\n"
    "        balance += operation\n"
    "        if balance < 0:\n"
    "            return True\n"
    "    return False\n"
    "assert below_zero([1, 2, -4, 5]) and not below_zero([1, 2, 3])\n",
    "import math\n"
    "def is_prime(n):\n"
    "    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))\n"
    "assert [n for n in range(30) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\n",
    "import re, collections\n"
    "def count_words(text):\n"
    "    return collections.Counter(re.findall(r'[a-z]+', text.lower()))\n"
    "assert count_words('A b a, c. B a')['a'] == 3\n"
    "print('ok')\n",
};

static void measure_programs(struct plan *p)
{
    struct bench_env_row *rate =
        add(p, "rest_programs", "1,000 short programs with asserts, in a batch", "/s", 0);
    struct bench_env_row *memory =
        add(p, "rest_memory", "what the server grew by with them", "MiB", 1);
    if (run_batch(p, programs, sizeof programs / sizeof *programs) < 0)
        return;
    double before = server_mib(p), took = 0;
    int rounds = p->config->quick ? 1 : 4;
    for (int i = 0; i < rounds; i++) {
        double one = run_batch(p, programs, sizeof programs / sizeof *programs);
        if (one < 0)
            return;
        took += one;
    }
    double after = server_mib(p);
    rate->more = true;
    rate->value = rounds * BATCH / took;
    snprintf(rate->note, sizeof rate->note, "no limit of its own");
    if (before < 0 || after < 0)
        return;
    memory->value = after - before > 0.1 ? after - before : 0.1;
    memory->other = GROWTH_MIB;
    snprintf(memory->note, sizeof memory->note, "the limit, %d MiB; it has %.1f, and had %.1f",
             GROWTH_MIB, after, before);
}

void bench_rest(const struct config *c, const char *program, const char *python, double cold_rate,
                struct bench_rest *ret)
{
    static struct plan p;
    struct bench_ours ours = {.config = c,
                              .program = program,
                              .python = python,
                              .stock = STOCK,
                              .options = {"--output", "32M"}};
    *ret = (struct bench_rest){0};
    p = (struct plan){.config = c, .ret = ret, .fd = -1};
    char why[sizeof ret->failure];
    int port = bench_free_port();
    if (!port || !bench_server_start_ours(&p.server, &ours, port, why, sizeof why)) {
        (void)fail(&p, port ? why : "no port is free");
        return;
    }
    p.fd = bench_dial(port);
    if (p.fd < 0) {
        (void)fail(&p, "the server does not listen");
    } else {
        measure_stream(&p);
        measure_output(&p);
        measure_batch(&p, cold_rate);
        measure_programs(&p);
        (void)close(p.fd);
    }
    bench_server_end(&p.server);
}
