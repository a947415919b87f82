// SPDX-License-Identifier: Apache-2.0
//
// bench_client: see bench_client.h.

#include "cli/bench_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

enum {
    REQUEST_MAX = 16384,
    ANSWER_MAX = 256 * 1024,
    ID_FIRST = 1000000000, // always ten digits, so that every request has the same length
    ID_DIGITS = 10,
    IN_FLIGHT_MAX = 64,
    START_TRIES = 1500, // of 10 ms
    SILENCE_S = 15,     // a server that says nothing for so long is broken
    END_TRIES = 300,    // of 10 ms
    EVENTS_MAX = 64,
    ARGUMENTS_MAX = 40,
};

static const char version[] = "2025-11-25";
static const char hello[] = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                            "\"clientInfo\":{\"name\":\"constrictor-bench\",\"version\":\"1\"}}";

// ---- servers ------------------------------------------------------------------------------------

int bench_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &length) < 0)
        return 0;
    return ntohs(a.sin_port);
}

// Blocking, but never for longer than SILENCE_S.
static void set_patience(int fd)
{
    struct timeval t = {.tv_sec = SILENCE_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

int bench_dial(int port)
{
    int on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        (void)close(fd);
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    set_patience(fd);
    return fd;
}

// In the child.  A plain environment, so that no key or setting of the caller's changes the server,
// and no .env of the current folder.
static void become_server(char *const *argv, int stdio, int errors, const char *environment)
{
    static const char *const kept[] = {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME"};
    static char text[ARRAY_LEN(kept)][4096];
    char *env[ARRAY_LEN(kept) + 2];
    size_t n = 0;
    int null = open("/dev/null", O_RDWR);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = getenv(kept[i]);
        if (!value)
            continue;
        snprintf(text[n], sizeof text[n], "%s=%s", kept[i], value);
        env[n] = text[n];
        n++;
    }
    if (environment)
        env[n++] = (char *)environment;
    env[n] = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (null < 0 || dup2(stdio < 0 ? null : stdio, 0) < 0 ||
        dup2(stdio < 0 ? null : stdio, 1) < 0 || dup2(errors, 2) < 0 || chdir("/") < 0)
        _exit(126);
    (void)execve(argv[0], argv, env);
    _exit(127);
}

// Forgets a process that has ended: its number may soon be another's.
static bool is_alive(struct bench_server *s)
{
    if (waitpid(s->pid, NULL, WNOHANG) == 0)
        return true;
    s->pid = -1;
    return false;
}

// The first line that it wrote to stderr.
static void last_words(const struct bench_server *s, char *why, size_t cap)
{
    char text[256];
    ssize_t n = pread(s->errors, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    text_sanitize(text);
    size_t have = strlen(why);
    if (text[0] && have < cap)
        snprintf(why + have, cap - have, ": %s", text);
}

static bool listens(struct bench_server *s)
{
    for (int i = 0; i < START_TRIES; i++) {
        int fd = bench_dial(s->port);
        if (fd >= 0) {
            (void)close(fd);
            return true;
        }
        if (!is_alive(s))
            return false;
        (void)usleep(10000);
    }
    return false;
}

bool bench_server_start(struct bench_server *ret, char *const *argv, int port,
                        const char *environment, char *why, size_t why_cap)
{
    int pair[2] = {-1, -1};
    *ret = (struct bench_server){.pid = -1, .fd = -1, .port = port, .errors = -1};
    snprintf(why, why_cap, "start '%s'", argv[0]);
    if (port == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    _cleanup_close_ int theirs = pair[1];
    ret->fd = pair[0];
    ret->errors = memfd_create("stderr", MFD_CLOEXEC);
    (void)fflush(stdout);
    ret->pid = ret->errors < 0 ? -1 : fork();
    if (ret->pid == 0)
        become_server(argv, theirs, ret->errors, environment);
    if (ret->fd >= 0)
        set_patience(ret->fd);
    if (ret->pid > 0 && (port == 0 || listens(ret))) {
        why[0] = '\0'; // what follows says what failed, and this did not
        return true;
    }
    last_words(ret, why, why_cap);
    bench_server_end(ret);
    return false;
}

bool bench_server_start_ours(struct bench_server *ret, const struct bench_ours *ours, int port,
                             char *why, size_t why_cap)
{
    const struct config *c = ours->config;
    char text[3][32], state[] = "/var/tmp/constrictor-bench.XXXXXX", *argv[ARGUMENTS_MAX];
    static char degraded[TEXT_LIST_MAX * (TEXT_ITEM_MAX + 2)];
    size_t n = 0, length = 0;
    *ret = (struct bench_server){.pid = -1, .fd = -1, .errors = -1};
    // One server at a time has a state folder, and that of the machine is not for tests.
    if (!mkdtemp(state)) {
        snprintf(why, why_cap, "make a folder below /var/tmp: %s", strerror(errno));
        return false;
    }
    snprintf(text[0], sizeof text[0], "%d", ours->stock);
    snprintf(text[1], sizeof text[1], "%u", (unsigned)c->uid_base);
    snprintf(text[2], sizeof text[2], "%d", port);
    for (size_t i = 0; i < c->allow_degraded.count; i++)
        length += (size_t)snprintf(degraded + length, sizeof degraded - length, "%s%s",
                                   i ? "," : "", c->allow_degraded.items[i]);
    const char *const always[] = {ours->program, port ? "serve" : "stdio",
                                  "--python",    ours->python,
                                  "--stock",     text[0],
                                  "--uid-base",  text[1],
                                  "--state",     state};
    const char *const perhaps[][2] = {{"--port", port ? text[2] : NULL},
                                      {"--allow-degraded", length ? degraded : NULL}};
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        argv[n++] = (char *)always[i];
    for (size_t i = 0; i < ARRAY_LEN(perhaps); i++)
        for (size_t k = 0; k < 2 && perhaps[i][1]; k++)
            argv[n++] = (char *)perhaps[i][k];
    for (size_t i = 0; i < ARRAY_LEN(ours->options) && ours->options[i]; i++)
        argv[n++] = (char *)ours->options[i];
    argv[n] = NULL;
    bool ok = bench_server_start(ret, argv, port, NULL, why, why_cap);
    snprintf(ret->state, sizeof ret->state, "%s", state);
    if (!ok)
        bench_server_end(ret);
    return ok;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_state(struct bench_server *s)
{
    if (s->state[0])
        (void)nftw(s->state, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    s->state[0] = '\0';
}

void bench_server_end(struct bench_server *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    if (s->errors >= 0)
        (void)close(s->errors);
    s->fd = s->errors = -1;
    if (s->pid <= 0) {
        remove_state(s);
        return;
    }
    (void)kill(s->pid, SIGTERM);
    for (int i = 0; waitpid(s->pid, NULL, WNOHANG) == 0; i++) {
        if (i == END_TRIES)
            (void)kill(s->pid, SIGKILL);
        (void)usleep(10000);
    }
    s->pid = -1;
    remove_state(s);
}

// ---- clients ------------------------------------------------------------------------------------

struct client {
    int fd;
    char session[128];
    char request[REQUEST_MAX];
    size_t request_length, id_at;
    bool single;         // one request at a time: its answer must have its id
    char *answer;        // ANSWER_MAX
    size_t have, looked; // bytes of it, and how many were searched for an end
    double sent_us;
};

struct bench_clients {
    struct bench_server *server;
    int count, epoll;
    unsigned next_id;
    struct client list[];
};

// What one look at the bytes of a client found.
struct found {
    size_t length; // of a whole message, 0: there is none yet
    bool broken;   // this is no protocol that we know
    bool answer;   // an answer, not a notification
    bool good;     // with a result
};

static bool has(const char *text, size_t length, const char *what)
{
    return memmem(text, length, what, strlen(what)) != NULL;
}

static bool is_good(const char *text, size_t length)
{
    return has(text, length, "\"result\"") && !has(text, length, "\"isError\":true") &&
           !has(text, length, "\"isError\": true");
}

// A line.  Ours are the only ids, and a notification has none.
static struct found look_at_line(struct client *c, size_t from)
{
    struct found f = {0};
    const char *text = c->answer + from;
    size_t skip = c->looked > from ? c->looked - from : 0;
    const char *end = memchr(text + skip, '\n', c->have - from - skip);
    if (!end) {
        c->looked = c->have;
        return f;
    }
    f.length = (size_t)(end - text) + 1;
    f.answer = has(text, f.length, "\"id\"");
    f.good = is_good(text, f.length);
    return f;
}

// The value of a header, or NULL.  `head` ends with an empty line.
static const char *header(const char *head, size_t length, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = head, *end = head + length; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        if (!line)
            return NULL;
        if ((size_t)(line - p) > n && strncasecmp(p, name, n) == 0 && p[n] == ':')
            return p + n + 1 + strspn(p + n + 1, " ");
        p = line + 1;
    }
    return NULL;
}

// Length of a chunked body, 0: not all is there.
static size_t chunked_length(const char *body, size_t length)
{
    size_t at = 0;
    while (at < length) {
        char *end;
        const char *line = memchr(body + at, '\n', length - at);
        if (!line)
            return 0;
        size_t size = strtoul(body + at, &end, 16);
        at = (size_t)(line - body) + 1;
        if (size > ANSWER_MAX || length - at < size + 2)
            return 0;
        at += size + 2;
        if (size == 0)
            return at;
    }
    return 0;
}

static struct found look_at_http(struct client *c, size_t from)
{
    struct found f = {0};
    const char *head = c->answer + from;
    const char *blank = memmem(head, c->have - from, "\r\n\r\n", 4);
    if (!blank)
        return f;
    const char *body = blank + 4;
    size_t head_length = (size_t)(body - head), there = c->have - from - head_length, length = 0;
    const char *size = header(head, head_length, "Content-Length");
    const char *chunked = header(head, head_length, "Transfer-Encoding");
    f.broken = strncmp(head, "HTTP/1.1 20", 11) != 0;
    if (chunked) {
        length = chunked_length(body, there);
        if (length == 0)
            return f;
    } else if (size) {
        length = strtoul(size, NULL, 10);
        if (length > there)
            return f;
    }
    f.length = head_length + length;
    f.answer = true;
    f.good = is_good(body, length);
    return f;
}

static struct found look(const struct bench_clients *all, struct client *c, size_t from)
{
    // A terminator lets strtoul and strspn stop; the buffer has room for it.
    c->answer[c->have] = '\0';
    struct found f = all->server->port ? look_at_http(c, from) : look_at_line(c, from);
    if (f.answer && f.length && c->single && c->id_at)
        f.good &= memmem(c->answer + from, f.length, c->request + c->id_at, ID_DIGITS) != NULL;
    return f;
}

// The text of a request, whose id is filled in later.  `id` false: a notification.
static bool make_request(const struct bench_clients *all, struct client *c, const char *method,
                         const char *params, bool id, bool anonymous)
{
    char body[REQUEST_MAX], session[192] = "";
    int port = all->server->port;
    int n = snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",%s\"method\":\"%s\",\"params\":%s}",
                     id ? "\"id\":0123456789," : "", method, params);
    if (!anonymous && c->session[0])
        snprintf(session, sizeof session, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n",
                 c->session, version);
    int m = port ? snprintf(c->request, REQUEST_MAX,
                            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                            "Content-Type: application/json\r\n"
                            "Accept: application/json, text/event-stream\r\n%s"
                            "Content-Length: %d\r\n\r\n%s",
                            port, session, n, body)
                 : snprintf(c->request, REQUEST_MAX, "%s\n", body);
    if (n >= REQUEST_MAX || m >= REQUEST_MAX)
        return false;
    c->request_length = (size_t)m;
    const char *digits = strstr(c->request, "0123456789,");
    c->id_at = digits ? (size_t)(digits - c->request) : 0;
    return true;
}

static void fill_id(struct client *c, unsigned id)
{
    for (int i = ID_DIGITS - 1; c->id_at && i >= 0; i--, id /= 10)
        c->request[c->id_at + (size_t)i] = (char)('0' + id % 10);
}

// `count` requests in one go.
static bool send_requests(struct bench_clients *all, struct client *c, int count)
{
    static char out[IN_FLIGHT_MAX * REQUEST_MAX];
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        fill_id(c, ID_FIRST + all->next_id++ % ID_FIRST);
        memcpy(out + length, c->request, c->request_length);
        length += c->request_length;
    }
    for (size_t at = 0; at < length;) {
        ssize_t n = send(c->fd, out + at, length - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// Reads what there is; waits for it when `wait`.
static bool receive(struct client *c, bool wait)
{
    ssize_t n;
    if (c->have >= ANSWER_MAX - 1)
        return false;
    do
        n = recv(c->fd, c->answer + c->have, ANSWER_MAX - 1 - c->have, wait ? 0 : MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN && !wait)
        return true;
    if (n <= 0)
        return false;
    c->have += (size_t)n;
    return true;
}

static void consume(struct client *c, size_t length)
{
    c->have -= length;
    memmove(c->answer, c->answer + length, c->have);
    c->looked = c->looked > length ? c->looked - length : 0;
}

// ---- the handshake ------------------------------------------------------------------------------

static void take_session(struct client *c, size_t length)
{
    const char *id = header(c->answer, length, "Mcp-Session-Id");
    size_t n = id ? strcspn(id, "\r\n") : 0;
    snprintf(c->session, sizeof c->session, "%.*s", (int)n, id ? id : "");
}

static bool exchange(struct bench_clients *all, struct client *c, bool must_be_good)
{
    struct found f = {0};
    if (!send_requests(all, c, 1))
        return false;
    while (!f.length) {
        f = look(all, c, 0);
        if (f.broken || (!f.length && !receive(c, true)))
            return false;
        if (f.length && !f.answer) {
            consume(c, f.length);
            f.length = 0;
        }
    }
    if (must_be_good && all->server->port)
        take_session(c, f.length);
    consume(c, f.length);
    return f.good || !must_be_good;
}

static bool shake_hands(struct bench_clients *all, struct client *c)
{
    if (!make_request(all, c, "initialize", hello, true, true) || !exchange(all, c, true) ||
        !make_request(all, c, "notifications/initialized", "{}", false, false))
        return false;
    // Over HTTP also a notification is answered, with nothing.
    return all->server->port ? exchange(all, c, false) : send_requests(all, c, 1);
}

static bool open_client(struct bench_clients *all, struct client *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    c->answer = malloc(ANSWER_MAX);
    c->fd = all->server->port ? bench_dial(all->server->port) : all->server->fd;
    return c->answer && c->fd >= 0 && epoll_ctl(all->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0 &&
           shake_hands(all, c);
}

struct bench_clients *bench_clients_open(struct bench_server *s, int count, char *why,
                                         size_t why_cap)
{
    struct bench_clients *all = calloc(1, sizeof *all + (size_t)count * sizeof all->list[0]);
    if (!all)
        return NULL;
    all->server = s;
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < count; i++) {
        all->count++;
        if (open_client(all, &all->list[i]))
            continue;
        snprintf(why, why_cap, "client %d could not shake hands", i + 1);
        last_words(s, why, why_cap);
        bench_clients_free(all);
        return NULL;
    }
    return all;
}

void bench_clients_free(struct bench_clients *c)
{
    for (int i = 0; c && i < c->count; i++) {
        free(c->list[i].answer);
        if (c->server->port && c->list[i].fd >= 0)
            (void)close(c->list[i].fd);
    }
    if (c && c->epoll >= 0)
        (void)close(c->epoll);
    free(c);
}

// ---- load ---------------------------------------------------------------------------------------

struct load {
    struct bench_clients *all;
    struct bench_calls *calls;
    double begin_us;
    long sent, done; // of this time
    bool failed;
    const struct client *culprit; // whose answer was bad
};

static bool is_over(const struct load *l, double now_us)
{
    return (l->calls->requests && l->sent >= l->calls->requests) ||
           now_us - l->begin_us > l->calls->seconds * 1e6;
}

static void issue(struct load *l, struct client *c, int count)
{
    if (l->calls->pause_us)
        (void)usleep((useconds_t)l->calls->pause_us);
    c->sent_us = bench_now_us();
    l->sent += count;
    if (!send_requests(l->all, c, count))
        l->failed = true;
}

// Takes the whole answers that a client has, and sends as many requests again.
static void serve_client(struct load *l, struct client *c)
{
    size_t at = 0;
    int answers = 0;
    for (struct found f; !l->failed && at < c->have; at += f.length) {
        f = look(l->all, c, at);
        if (f.broken || (f.answer && !f.good)) {
            l->failed = true;
            l->culprit = c;
        }
        if (!f.length || l->failed)
            break;
        if (f.answer && l->calls->on_answer)
            l->calls->on_answer(c->answer + at, f.length, bench_now_us() - c->sent_us,
                                l->calls->argument);
        answers += f.answer;
    }
    consume(c, at);
    if (answers == 0 || l->failed)
        return;
    double now_us = bench_now_us();
    struct bench_samples *s = l->calls->latency;
    if (s && l->calls->in_flight == 1) {
        s->us[l->calls->done % BENCH_SAMPLES_MAX] = now_us - c->sent_us;
        s->count += s->count < BENCH_SAMPLES_MAX;
    }
    l->calls->done += answers;
    l->done += answers;
    if (!is_over(l, now_us))
        issue(l, c, answers);
}

// One client waits in recv(), which is a system call less than asking epoll first.
static void wait_and_serve(struct load *l)
{
    struct epoll_event events[EVENTS_MAX];
    if (l->all->count == 1) {
        l->failed |= !receive(&l->all->list[0], true);
        serve_client(l, &l->all->list[0]);
        return;
    }
    int n = epoll_wait(l->all->epoll, events, EVENTS_MAX, SILENCE_S * 1000);
    if (n == 0 || (n < 0 && errno != EINTR))
        l->failed = true;
    for (int i = 0; i < n && !l->failed; i++) {
        struct client *c = events[i].data.ptr;
        l->failed |= !receive(c, false);
        serve_client(l, c);
    }
}

bool bench_clients_call(struct bench_clients *c, struct bench_calls *calls, char *why,
                        size_t why_cap)
{
    struct load l = {.all = c, .calls = calls, .begin_us = bench_now_us()};
    for (int i = 0; i < c->count && !l.failed; i++) {
        l.failed =
            !make_request(c, &c->list[i], calls->method, calls->params, true, calls->anonymous);
        c->list[i].single = calls->in_flight == 1;
        if (!l.failed && !is_over(&l, bench_now_us()))
            issue(&l, &c->list[i], calls->in_flight);
    }
    while (!l.failed && l.done < l.sent)
        wait_and_serve(&l);
    calls->took += (bench_now_us() - l.begin_us) / 1e6;
    if (!l.failed)
        return true;
    size_t said = l.culprit ? l.culprit->have : 0;
    snprintf(why, why_cap, "%s failed after %ld answers: %.*s", calls->method, l.done,
             (int)(said < 400 ? said : 400), l.culprit ? l.culprit->answer : "");
    text_sanitize(why);
    return false;
}

bool bench_clients_tool(struct bench_clients *c, const char *tool, const char *arguments, char *why,
                        size_t why_cap)
{
    char params[REQUEST_MAX];
    struct bench_calls calls = {
        .method = "tools/call", .params = params, .in_flight = 1, .requests = 1, .seconds = 60};
    snprintf(params, sizeof params, "{\"name\":\"%s\",\"arguments\":%s}", tool, arguments);
    return bench_clients_call(c, &calls, why, why_cap);
}
