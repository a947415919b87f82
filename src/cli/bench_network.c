// SPDX-License-Identifier: Apache-2.0
//
// bench_network: see bench_network.h.
//
// The same Python code is the client twice: in a box, through the broker, and in a plain
// interpreter.

#include "cli/bench_network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/bench_client.h"

enum {
    LARGE_BYTES = 256 * 1024 * 1024,
    CHUNK = 256 * 1024,
    CLIENTS_MAX = 64,
    REQUEST_MAX = 4096,
};

struct plan {
    const struct config *config;
    const char *program, *python;
    int stock, port;
    struct bench_network *ret;
    char why[sizeof((struct bench_network *)0)->failure]; // of the newest failure
};

// The first failure is the one to report: others may follow from it.
static bool note(struct plan *p, bool ok)
{
    if (!ok && !p->ret->failure[0])
        memcpy(p->ret->failure, p->why, sizeof p->why);
    return ok;
}

// ---- the far side -------------------------------------------------------------------------------

static bool send_all(int fd, const char *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t n = send(fd, data + at, length - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// One read is one request: the clients are ours.  False: the connection is over.
static bool serve(int fd)
{
    static const char small[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static char chunk[CHUNK];
    char request[REQUEST_MAX];
    ssize_t n = recv(fd, request, sizeof request, 0);
    if (n <= 0)
        return false;
    if (!memmem(request, (size_t)n, "/large", 6))
        return send_all(fd, small, sizeof small - 1);
    int head = snprintf(request, sizeof request, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
                        LARGE_BYTES);
    bool ok = send_all(fd, request, (size_t)head);
    for (size_t at = 0; ok && at < LARGE_BYTES; at += CHUNK)
        ok = send_all(fd, chunk, CHUNK);
    return ok;
}

static void run_server(int listener)
{
    struct pollfd fds[1 + CLIENTS_MAX] = {{.fd = listener, .events = POLLIN}};
    nfds_t count = 1;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (poll(fds, count, -1) > 0) {
        for (nfds_t i = 1; i < count; i++)
            if (fds[i].revents && !serve(fds[i].fd)) {
                (void)close(fds[i].fd);
                fds[i--] = fds[--count];
            }
        int fd = fds[0].revents && count <= CLIENTS_MAX ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0)
            fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    _exit(0);
}

static pid_t start_server(struct plan *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(p->why, sizeof p->why, "listen on 127.0.0.1");
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 128) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) < 0)
        return -1;
    p->port = ntohs(at.sin_port);
    pid_t pid = fork();
    if (pid == 0)
        run_server(fd);
    return pid;
}

// ---- the near side ------------------------------------------------------------------------------

// Arguments: port, requests, new connections, downloads.
static const char client_code[] =
    "import json, socket, statistics, sys, time\n"
    "port, requests, connections, downloads = (int(a) for a in sys.argv[1:5])\n"
    "def dial():\n"
    "    s = socket.create_connection(('127.0.0.1', port))\n"
    "    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
    "    return s\n"
    "def ask(s, path):\n"
    "    s.sendall(b'GET /' + path + b' HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % port)\n"
    "def small(s):\n"
    "    ask(s, b'small')\n"
    "    data = b''\n"
    "    while not data.endswith(b'ok'):\n"
    "        part = s.recv(4096)\n"
    "        assert part\n"
    "        data += part\n"
    "def timed(f, count):\n"
    "    times = []\n"
    "    for i in range(count):\n"
    "        begin = time.perf_counter()\n"
    "        f()\n"
    "        times.append(time.perf_counter() - begin)\n"
    "    return statistics.median(times) * 1e6\n"
    "def once():\n"
    "    with dial() as s:\n"
    "        small(s)\n"
    "def large():\n"
    "    with dial() as s:\n"
    "        room, got, head = bytearray(1 << 20), 0, None\n"
    "        begin = time.perf_counter()\n"
    "        ask(s, b'large')\n"
    "        while head is None or got < head:\n"
    "            n = s.recv_into(room)\n"
    "            assert n\n"
    "            if head is None:\n"
    "                text = bytes(room[:n])\n"
    "                size = int(text.split(b'Content-Length: ')[1].split(b'\\r\\n')[0])\n"
    "                head = size + text.index(b'\\r\\n\\r\\n') + 4\n"
    "            got += n\n"
    "        return got / (time.perf_counter() - begin) / 1e6\n"
    "with dial() as kept:\n"
    "    timed(lambda: small(kept), 50)\n"
    "    request_us = timed(lambda: small(kept), requests)\n"
    "timed(once, 5)\n"
    "connect_us = timed(once, connections)\n"
    "large()\n"
    "down = statistics.median(large() for i in range(downloads))\n"
    "print(json.dumps({'request_us': request_us, 'connect_us': connect_us, 'down': down}))\n";

enum { ARGUMENTS = 4 };

static void make_arguments(const struct plan *p, char texts[ARGUMENTS][16],
                           const char *ret[ARGUMENTS + 1])
{
    const int values[ARGUMENTS] = {p->port, p->config->quick ? 500 : 3000,
                                   p->config->quick ? 100 : 400, p->config->quick ? 1 : 3};
    for (int i = 0; i < ARGUMENTS; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", values[i]);
        ret[i] = texts[i];
    }
    ret[ARGUMENTS] = NULL;
}

static bool take_route(json_t *o, struct bench_route *ret)
{
    json_t *request = json_object_get(o, "request_us");
    if (!json_is_number(request))
        return false;
    ret->request_us = json_number_value(request);
    ret->connect_us = json_number_value(json_object_get(o, "connect_us"));
    ret->down = json_number_value(json_object_get(o, "down"));
    return true;
}

static void measure_direct(struct plan *p)
{
    char texts[ARGUMENTS][16];
    const char *arguments[ARGUMENTS + 1];
    make_arguments(p, texts, arguments);
    json_t *o = bench_helper(p->python, client_code, arguments);
    snprintf(p->why, sizeof p->why, "the client did not reach the server by itself");
    (void)note(p, take_route(o, &p->ret->direct));
    json_decref(o);
}

// ---- boxes --------------------------------------------------------------------------------------

struct side {
    struct bench_server server;
    struct bench_clients *client;
};

static void close_side(struct side *s)
{
    bench_clients_free(s->client);
    bench_server_end(&s->server);
}

static bool open_side(struct plan *p, struct side *ret, bool network)
{
    char rule[32];
    snprintf(rule, sizeof rule, "127.0.0.1:%d", p->port);
    struct bench_ours ours = {.config = p->config,
                              .program = p->program,
                              .python = p->python,
                              .stock = p->stock,
                              .options = {"--network", network ? "auto" : "off", "--allow-host",
                                          rule, "--net-rate", "100000", "--net-connections",
                                          "100000", "--net-requests", "1000000"}};
    *ret = (struct side){.server = {.pid = -1, .fd = -1, .errors = -1}};
    if (!note(p, bench_server_start_ours(&ret->server, &ours, 0, p->why, sizeof p->why)))
        return false;
    ret->client = bench_clients_open(&ret->server, 1, p->why, sizeof p->why);
    if (note(p, ret->client != NULL))
        return true;
    close_side(ret);
    return false;
}

// Fresh boxes on one side; figures of all rounds add up.
struct starts {
    struct side side;
    struct bench_calls calls;
    struct bench_samples latency;
};

static bool call_some(struct plan *p, struct starts *s, int requests)
{
    s->calls.requests = requests;
    return note(p, bench_clients_call(s->side.client, &s->calls, p->why, sizeof p->why));
}

static bool open_starts(struct plan *p, struct starts *s, bool network)
{
    static const char run[] = "{\"name\":\"execute_python\",\"arguments\":{\"code\":\"1+1\"}}";
    if (!open_side(p, &s->side, network))
        return false;
    s->calls = (struct bench_calls){.method = "tools/call",
                                    .params = run,
                                    .in_flight = 1,
                                    .pause_us = 20000,
                                    .seconds = 60,
                                    .latency = &s->latency};
    bool ok = call_some(p, s, 20); // it is warm then
    s->latency.count = 0;
    s->calls.done = 0;
    if (!ok)
        close_side(&s->side);
    return ok;
}

// One at a time, and the stock is full again before the next: as fresh boxes are measured.  In
// turns, so that both meet the same machine.
static void measure_start(struct plan *p)
{
    static struct starts plain, network; // large
    if (!open_starts(p, &plain, false))
        return;
    if (open_starts(p, &network, true)) {
        bool ok = true;
        for (int i = 0; ok && i < (p->config->quick ? 4 : 16); i++)
            ok = call_some(p, &plain, 25) && call_some(p, &network, 25);
        if (ok) {
            p->ret->plain_us = bench_percentile(&plain.latency, 50);
            p->ret->network_us = bench_percentile(&network.latency, 50);
        }
        close_side(&network.side);
    }
    close_side(&plain.side);
}

static void take_answer(const char *answer, size_t length, double us, void *argument)
{
    json_t **ret = argument;
    (void)us;
    json_decref(*ret);
    *ret = json_loadb(answer, length, 0, NULL);
}

static char *make_call(const struct plan *p)
{
    char texts[ARGUMENTS][16];
    const char *arguments[ARGUMENTS + 1];
    make_arguments(p, texts, arguments);
    json_t *list = json_array();
    for (int i = 0; i < ARGUMENTS; i++)
        (void)json_array_append_new(list, json_string(arguments[i]));
    json_t *o = json_pack("{s:s, s:{s:s, s:o, s:i}}", "name", "execute_python", "arguments", "code",
                          client_code, "args", list, "timeout", 50);
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

static void measure_through(struct plan *p)
{
    struct side s;
    json_t *answer = NULL;
    _cleanup_free_ char *params = make_call(p);
    if (!params || !open_side(p, &s, true))
        return;
    struct bench_calls calls = {.method = "tools/call",
                                .params = params,
                                .in_flight = 1,
                                .requests = 1,
                                .seconds = 60,
                                .on_answer = take_answer,
                                .argument = &answer};
    if (note(p, bench_clients_call(s.client, &calls, p->why, sizeof p->why))) {
        json_t *result = json_object_get(json_object_get(answer, "result"), "structuredContent");
        const char *text = json_string_value(json_object_get(result, "stdout"));
        json_t *o = text ? json_loads(text, 0, NULL) : NULL;
        const char *why =
            json_string_value(json_object_get(json_object_get(result, "error"), "message"));
        snprintf(p->why, sizeof p->why, "the client in the box failed: %.300s",
                 why ? why : "no answer");
        (void)note(p, take_route(o, &p->ret->through));
        json_decref(o);
    }
    json_decref(answer);
    close_side(&s);
}

void bench_network(const struct config *c, const char *program, const char *python, int stock,
                   struct bench_network *ret)
{
    static const struct bench_route none = {-1, -1, -1};
    static struct plan p;
    *ret =
        (struct bench_network){.plain_us = -1, .network_us = -1, .direct = none, .through = none};
    p = (struct plan){
        .config = c, .program = program, .python = python, .stock = stock, .ret = ret};
    pid_t server = start_server(&p);
    if (!note(&p, server > 0))
        return;
    measure_start(&p);
    measure_direct(&p);
    measure_through(&p);
    (void)kill(server, SIGKILL);
    while (waitpid(server, NULL, 0) < 0 && errno == EINTR)
        ;
}
