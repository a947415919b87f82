// SPDX-License-Identifier: Apache-2.0
//
// bench_check: see bench_check.h.

#include "cli/bench_check.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/bench_client.h"

enum { LINES = 200, FOLDER_MAX = 64 };

// Ten lines, of the kind that people and models write.
static const char part[] = "def work_%d(values, limit=10):\n"
                           "    \"\"\"Adds up some of the values.\"\"\"\n"
                           "    total = 0\n"
                           "    for index, value in enumerate(values):\n"
                           "        if value > limit and index %% 3 == 0:\n"
                           "            total += value * 2\n"
                           "        elif value < 0:\n"
                           "            continue\n"
                           "    return total / max(len(values), 1)\n"
                           "\n";

// LINES lines; `number` makes them other ones.  The caller frees.
static char *make_source(int number)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    for (int i = 0; i < LINES / 10; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fprintf(f, part, number * LINES + i);
#pragma GCC diagnostic pop
    }
    return fclose(f) == 0 ? text : NULL;
}

// ---- ours ---------------------------------------------------------------------------------------

static bool call(struct bench_clients *clients, int number, struct bench_calls *calls, char *why,
                 size_t cap)
{
    _cleanup_free_ char *source = make_source(number);
    json_t *params =
        json_pack("{s:s, s:{s:s}}", "name", "validate_code", "arguments", "code", source);
    _cleanup_free_ char *text = params ? json_dumps(params, JSON_COMPACT) : NULL;
    json_decref(params);
    calls->params = text;
    return text && bench_clients_call(clients, calls, why, cap);
}

static void measure_ours(const struct bench_ours *ours, int count, struct bench_check *ret)
{
    static struct bench_samples samples[3];
    struct bench_calls calls[ARRAY_LEN(samples)];
    char *why = ret->failure;
    size_t cap = sizeof ret->failure;
    struct bench_server server;
    if (!bench_server_start_ours(&server, ours, 0, why, cap))
        return;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        calls[i] = (struct bench_calls){.method = "tools/call",
                                        .in_flight = 1,
                                        .requests = 1,
                                        .seconds = 30,
                                        .latency = &samples[i]};
    struct bench_clients *clients = bench_clients_open(&server, 1, why, cap);
    bool ok = clients && call(clients, 0, &calls[0], why, cap); // the first one takes a box
    for (int i = 1; i <= count && ok; i++)
        ok = call(clients, i, &calls[1], why, cap);
    for (int i = 0; i < count && ok; i++)
        ok = call(clients, count, &calls[2], why, cap);
    if (ok) {
        ret->new_us = bench_percentile(&samples[1], 50);
        ret->same_us = bench_percentile(&samples[2], 50);
    }
    if (clients)
        bench_clients_free(clients);
    bench_server_end(&server);
}

// ---- the cold one -------------------------------------------------------------------------------

static void remove_folder(const char *folder)
{
    char path[FOLDER_MAX + 300];
    snprintf(path, sizeof path, "%s/__pycache__", folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char file[FOLDER_MAX + 600];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        (void)unlink(file);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
    snprintf(path, sizeof path, "%s/code.py", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void measure_cold(const char *python, int count, struct bench_check *ret)
{
    static struct bench_samples samples;
    char folder[FOLDER_MAX] = "/tmp/constrictor-bench-XXXXXX", path[FOLDER_MAX + 16];
    _cleanup_free_ char *source = make_source(0);
    if (!source || !mkdtemp(folder))
        return;
    snprintf(path, sizeof path, "%s/code.py", folder);
    FILE *f = fopen(path, "w");
    bool written = f && fputs(source, f) >= 0;
    if (f && fclose(f) == 0 && written) {
        char *argv[] = {(char *)python, (char *)"-m", (char *)"py_compile", path, NULL};
        if (bench_cold(argv, count, &samples))
            ret->cold_us = bench_percentile(&samples, 50);
    }
    remove_folder(folder);
}

// The part of it that is CPython's: from the text to a tree.
static void measure_parser(const char *python, struct bench_check *ret)
{
    static const char code[] = "import ast, gc, json, sys, time\n"
                               "gc.disable()\n"
                               "took = []\n"
                               "for number in range(300):\n"
                               "    text = sys.argv[1].replace('work_', f'work_{number}_')\n"
                               "    begin = time.perf_counter()\n"
                               "    tree = ast.parse(text)\n"
                               "    took.append(time.perf_counter() - begin)\n"
                               "print(json.dumps({'us': sorted(took)[len(took) // 2] * 1e6}))\n";
    _cleanup_free_ char *source = make_source(0);
    json_t *said = source ? bench_helper(python, code, (const char *const[]){source, NULL}) : NULL;
    json_t *us = json_object_get(said, "us");
    if (json_is_number(us))
        ret->parse_us = json_number_value(us);
    json_decref(said);
}

void bench_check(const struct config *c, const char *program, const char *python, int stock,
                 struct bench_check *ret)
{
    struct bench_ours ours = {.config = c, .program = program, .python = python, .stock = stock};
    *ret = (struct bench_check){.new_us = -1, .same_us = -1, .cold_us = -1, .parse_us = -1};
    measure_ours(&ours, c->quick ? 150 : 600, ret);
    measure_parser(python, ret);
    measure_cold(python, c->quick ? 10 : 30, ret);
}
