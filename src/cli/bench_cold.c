// SPDX-License-Identifier: Apache-2.0
//
// bench_cold: cold interpreters, interpreters that help, and the observer of memory.  See bench.h.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/bench.h"

double bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(struct bench_samples *s, double percent)
{
    if (s->count == 0)
        return -1;
    qsort(s->us, (size_t)s->count, sizeof *s->us, compare);
    int i = (int)((double)s->count * percent / 100.0);
    return s->us[i < s->count ? i : s->count - 1];
}

static bool once(char *const *argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r)
        return false;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool bench_cold(char *const *argv, int count, struct bench_samples *ret)
{
    if (!once(argv)) // also fills the page cache: cold means a new process, not a cold disk
        return false;
    for (int i = 0; i < count && ret->count < BENCH_SAMPLES_MAX; i++) {
        double begin = bench_now_us();
        if (!once(argv))
            return false;
        ret->us[ret->count++] = bench_now_us() - begin;
    }
    return true;
}

double bench_cold_rate(char *const *argv, int workers, double seconds)
{
    int fds[2];
    double total = 0, begin = bench_now_us();
    if (pipe(fds) < 0)
        return -1;
    for (int i = 0; i < workers; i++)
        if (fork() == 0) {
            int n = 0;
            while (bench_now_us() - begin < seconds * 1e6 && once(argv))
                n++;
            (void)!write(fds[1], &n, sizeof n);
            _exit(0);
        }
    (void)close(fds[1]);
    for (int n; read(fds[0], &n, sizeof n) == (ssize_t)sizeof n;)
        total += n;
    double took = (bench_now_us() - begin) / 1e6;
    (void)close(fds[0]);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return total / took;
}

// ---- helpers ------------------------------------------------------------------------------------

json_t *bench_helper(const char *python, const char *code, const char *const *arguments)
{
    enum { HELPER_MAX = 64 * 1024 }; // bytes that it may print
    static char text[HELPER_MAX];
    char *argv[8] = {(char *)python, (char *)"-c", (char *)code};
    int fds[2], status = 1;
    size_t have = 0;
    posix_spawn_file_actions_t actions;
    pid_t pid;
    for (size_t i = 0; arguments[i] && i + 4 < ARRAY_LEN(argv); i++)
        argv[i + 3] = (char *)arguments[i];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int r = posix_spawn(&pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    for (ssize_t n;
         r == 0 && have < sizeof text && (n = read(fds[0], text + have, sizeof text - have)) > 0;)
        have += (size_t)n;
    (void)close(fds[0]);
    while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return r == 0 && status == 0 ? json_loadb(text, have, 0, NULL) : NULL;
}

// The warm interpreter forks itself, the child evaluates what the boxes evaluate and is gone: no
// wall, no pipes, nobody to answer to.  What a design of warm interpreters can reach at most on
// this machine.
static const char fork_code[] =
    "import gc, json, os, sys, time\n"
    "workers, seconds = int(sys.argv[1]), float(sys.argv[2])\n"
    "gc.freeze(); gc.disable()\n"
    "begin = time.perf_counter()\n"
    "here, there = os.pipe()\n"
    "for _ in range(workers):\n"
    "    if os.fork() == 0:\n"
    "        count = 0\n"
    "        while time.perf_counter() - begin < seconds:\n"
    "            child = os.fork()\n"
    "            if child == 0:\n"
    "                eval(compile('1+1', '<code>', 'eval'), {})\n"
    "                os._exit(0)\n"
    "            os.waitpid(child, 0)\n"
    "            count += 1\n"
    "        os.write(there, b'%d ' % count)\n"
    "        os._exit(0)\n"
    "for _ in range(workers):\n"
    "    os.wait()\n"
    "total = sum(map(int, os.read(here, 4096).split()))\n"
    "print(json.dumps({'rate': total / (time.perf_counter() - begin)}))\n";

double bench_fork_rate(const char *python, int workers, double seconds)
{
    char first[16], second[32];
    snprintf(first, sizeof first, "%d", workers);
    snprintf(second, sizeof second, "%g", seconds);
    json_t *said = bench_helper(python, fork_code, (const char *const[]){first, second, NULL});
    json_t *rate = json_object_get(said, "rate");
    double value = json_is_number(rate) ? json_number_value(rate) : -1;
    json_decref(said);
    return value;
}

// ---- the observer -------------------------------------------------------------------------------

static double pss_kb(pid_t pid)
{
    char path[64];
    uint64_t kb = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return file_read_key_at(AT_FDCWD, path, "Pss", &kb) < 0 ? 0 : (double)kb;
}

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

// Pid 1 of a namespace in the zygote's: "NSpid: 4711 23 1".
static bool is_init(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    char *line = strstr(text, "\nNSpid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end[-1] == '1' && end[-2] == '\t';
}

// What is below the zygote: boxes, and stems with theirs.  An init shares its memory with the user
// process, so it counts for both.
static void weigh_children(pid_t pid, struct bench_memory *ret)
{
    char path[64];
    _cleanup_free_ char *text = malloc(65536);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (!text || file_read_at(AT_FDCWD, path, text, 65536) <= 0)
        return;
    for (char *p = text, *end; *p; p = end) {
        pid_t child = (pid_t)strtol(p, &end, 10);
        if (end == p)
            break;
        ret->pss_kb += pss_kb(child);
        if (is_init(child))
            ret->boxes++;
        else
            weigh_children(child, ret);
    }
}

static void weigh(pid_t zygote, struct bench_memory *ret)
{
    ret->pss_kb = pss_kb(zygote);
    ret->boxes = 0;
    weigh_children(zygote, ret);
}

pid_t bench_observe(struct bench_shared *shared)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        int question = atomic_load(&shared->question);
        if (question == ASK_NOTHING) {
            (void)usleep(20000); // seldom: what it measures is beside it
            continue;
        }
        struct bench_memory *m = &shared->answer;
        *m = (struct bench_memory){0};
        if (question == ASK_ZYGOTE_PSS)
            weigh(shared->zygote, m);
        m->keeper_rss_kb = rss_kb(shared->keeper);
        m->keeper_fds = open_files(shared->keeper);
        m->gate_rss_kb = rss_kb(shared->gate);
        atomic_store(&shared->question, ASK_NOTHING);
    }
}
