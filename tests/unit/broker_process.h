// SPDX-License-Identifier: Apache-2.0
//
// broker_process: a whole broker in a process of its own, of which the test plays the keeper, the
// gate, a box (in a network namespace made here), the resolver outside and the servers outside.
// Used by test_broker.c, test_broker_life.c and test_broker_inspect.c.

#ifndef CONSTRICTOR_BROKER_PROCESS_H
#define CONSTRICTOR_BROKER_PROCESS_H

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "box/landlock.h"
#include "box/net.h"
#include "broker/box_question.h"
#include "broker/broker.h"
#include "broker/query.h"
#include "wire/wire.h"

#ifdef CONSTRICTOR_SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

enum { THE_BOX = 77, WAIT_MS = 600000, MANY_ADDRESSES = 1000 };

static struct config config;
static struct caps caps; // large
static struct keeper_facts facts;
static pid_t broker_pid;
static int keeper, gate, audit_fd;
static char audit_path[64];

static inline void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

// ---- the resolver outside -----------------------------------------------------------------------

// Names say what it answers: a-B-C-D.anything.test is that address.
static struct {
    pthread_t thread;
    int udp, tcp, stop[2];
    uint16_t port;
    _Atomic unsigned asked;
    _Atomic unsigned flips;
    char last[QUERY_TEXT];
    pthread_mutex_t lock;
} dns;

static inline size_t dns_records(uint8_t *p, unsigned count, unsigned ttl, const uint8_t first[4])
{
    uint8_t *at = p;
    for (unsigned i = 0; i < count; i++) {
        uint8_t record[16] = {0xc0, 12, 0, 1, 0, 1, 0, 0, (uint8_t)(ttl >> 8), (uint8_t)ttl, 0, 4};
        memcpy(record + 12, first, 4);
        record[14] = (uint8_t)(record[14] + i / 250);
        record[15] = (uint8_t)(record[15] + i % 250);
        memcpy(at, record, sizeof record);
        at += sizeof record;
    }
    return (size_t)(at - p);
}

// Returns the answer's length, 0: none.
static inline size_t dns_answer(const uint8_t *data, size_t length, uint8_t *ret, bool tcp)
{
    struct query q;
    unsigned a, b, c, d, count = 0, ttl = 60;
    uint8_t address[4];
    if (query_read(data, length, &q) != 0)
        return 0;
    pthread_mutex_lock(&dns.lock);
    dns.asked++;
    snprintf(dns.last, sizeof dns.last, "%s", q.name);
    pthread_mutex_unlock(&dns.lock);
    size_t n = query_answer(&q, QUERY_OK, NULL, 0, ret);
    if (strstr(q.name, "silent"))
        return 0;
    if (strstr(q.name, "garbage")) {
        memset(ret + 12, 0xff, 200);
        return 212;
    }
    if (strstr(q.name, "servfail")) {
        ret[3] = (uint8_t)(ret[3] | 2);
        return n;
    }
    if (strstr(q.name, "nowhere")) {
        ret[3] = (uint8_t)(ret[3] | 3);
        return n;
    }
    if (q.type != QUERY_A)
        return n;
    if (sscanf(q.name, "a-%u-%u-%u-%u.", &a, &b, &c, &d) == 4)
        count = 1;
    else if (strstr(q.name, "flip")) { // 127.0.0.1 and 10.0.0.1 in turn, to be asked each time
        count = 1, ttl = 0, c = 0, b = 0, d = 1;
        a = dns.flips++ % 2 ? 10 : 127;
    } else if (strstr(q.name, "many")) {
        count = MANY_ADDRESSES, a = 127, b = 0, c = 0, d = 1;
    } else if (strstr(q.name, "mixed")) { // a private one first
        address[0] = 10, address[1] = 0, address[2] = 0, address[3] = 1;
        n += dns_records(ret + n, 1, 60, address);
        count = 1, a = 127, b = 0, c = 0, d = 1;
        ret[7] = 2;
    } else {
        return n;
    }
    address[0] = (uint8_t)a, address[1] = (uint8_t)b, address[2] = (uint8_t)c,
    address[3] = (uint8_t)d;
    if (count > 20 && !tcp) {
        ret[2] = (uint8_t)(ret[2] | 2); // cut off
        return n;
    }
    n += dns_records(ret + n, count, ttl, address);
    if (!ret[7]) {
        ret[6] = (uint8_t)(count >> 8);
        ret[7] = (uint8_t)count;
    }
    return n;
}

static inline void dns_tcp(void)
{
    static uint8_t answer[2 + 64 * 1024];
    uint8_t data[2048];
    int fd = accept4(dns.tcp, NULL, NULL, SOCK_CLOEXEC);
    struct timeval tv = {.tv_sec = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    size_t n = 0;
    for (;;) {
        ssize_t r = recv(fd, data + n, sizeof data - n, 0);
        if (r <= 0)
            break;
        n += (size_t)r;
        while (n >= 2 && n >= 2 + (size_t)(data[0] << 8 | data[1])) {
            size_t m = (size_t)(data[0] << 8 | data[1]),
                   k = dns_answer(data + 2, m, answer + 2, true);
            answer[0] = (uint8_t)(k >> 8);
            answer[1] = (uint8_t)k;
            (void)!send(fd, answer, 2 + k, MSG_NOSIGNAL);
            memmove(data, data + 2 + m, n - 2 - m);
            n -= 2 + m;
        }
    }
    (void)close(fd);
}

static inline void *dns_main(void *unused)
{
    static uint8_t answer[64 * 1024];
    uint8_t data[2048];
    for (;;) {
        struct pollfd p[3] = {{dns.udp, POLLIN, 0}, {dns.tcp, POLLIN, 0}, {dns.stop[0], POLLIN, 0}};
        (void)poll(p, 3, -1);
        if (p[2].revents)
            return unused;
        if (p[1].revents)
            dns_tcp();
        if (!p[0].revents)
            continue;
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(dns.udp, data, sizeof data, 0, (struct sockaddr *)&from, &length);
        size_t k = n > 0 ? dns_answer(data, (size_t)n, answer, false) : 0;
        if (k)
            (void)!sendto(dns.udp, answer, k, 0, (struct sockaddr *)&from, length);
    }
}

static inline uint16_t port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    return ntohs(at.sin_port);
}

// A listening socket outside, on 127.0.0.1.
static inline int listen_outside(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 128), 0);
    *ret_port = port_of(fd);
    return fd;
}

static inline void dns_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pthread_mutex_init(&dns.lock, NULL);
    dns.asked = dns.flips = 0;
    dns.udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    dns.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // The same port for both; a port that is free for one may be taken for the other.
    for (;;) {
        at.sin_port = 0;
        assert_int_equal(bind(dns.tcp, (struct sockaddr *)&at, sizeof at), 0);
        at.sin_port = htons(port_of(dns.tcp));
        if (bind(dns.udp, (struct sockaddr *)&at, sizeof at) == 0)
            break;
        (void)close(dns.tcp);
        dns.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    assert_int_equal(listen(dns.tcp, 8), 0);
    dns.port = port_of(dns.tcp);
    assert_int_equal(pipe2(dns.stop, O_CLOEXEC), 0);
}

static inline void dns_stop(void)
{
    assert_int_equal(write(dns.stop[1], "x", 1), 1);
    pthread_join(dns.thread, NULL);
    fd_close(&dns.udp);
    fd_close(&dns.tcp);
    fd_close(&dns.stop[0]);
    fd_close(&dns.stop[1]);
}

// ---- a box --------------------------------------------------------------------------------------

static struct {
    pid_t pid;
    int channel; // gives out sockets of its namespace
    int fds[WIRE_NET_FDS];
} box;

static inline _Noreturn void box_main(int channel)
{
    int fds[WIRE_NET_FDS];
    enum net_step step;
    unsigned uid = geteuid(), gid = getegid();
    if (uid) {
        char map[64];
        if (unshare(CLONE_NEWUSER) < 0)
            _exit(1);
        (void)file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", uid);
        (void)file_write_at(AT_FDCWD, "/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", gid);
        (void)file_write_at(AT_FDCWD, "/proc/self/gid_map", map);
    }
    int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (net_enter(proc, fds, &step) < 0)
        _exit(2 + (int)step);
    if (fd_send(channel, "s", 1, fds, WIRE_NET_FDS) < 0)
        _exit(100);
    net_close(fds);
    char what;
    while (recv(channel, &what, 1, 0) == 1) {
        int fd = socket(what == '6' ? AF_INET6 : AF_INET,
                        (what == 'u' ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
        (void)fd_send(channel, "f", 1, &fd, 1);
        fd_close(&fd);
    }
    _exit(0);
}

static inline void box_start(void)
{
    int pair[2];
    char byte;
    size_t count;
    unit_socketpair(pair);
    box.pid = fork();
    assert_true(box.pid >= 0);
    if (box.pid == 0) {
        (void)close(pair[0]);
        box_main(pair[1]);
    }
    (void)close(pair[1]);
    box.channel = pair[0];
    assert_int_equal(fd_recv(box.channel, &byte, 1, box.fds, WIRE_NET_FDS, &count), 1);
    assert_int_equal(count, WIRE_NET_FDS);
}

static inline void box_stop(void)
{
    int status;
    fd_close(&box.channel);
    for (int i = 0; i < WIRE_NET_FDS; i++)
        fd_close(&box.fds[i]);
    assert_int_equal(waitpid(box.pid, &status, 0), box.pid);
    assert_int_equal(status, 0);
}

static inline int box_socket(char what)
{
    int fd;
    char byte;
    size_t count;
    struct timeval tv = {.tv_sec = WAIT_MS / 1000};
    assert_int_equal(send(box.channel, &what, 1, 0), 1);
    assert_int_equal(fd_recv(box.channel, &byte, 1, &fd, 1, &count), 1);
    assert_int_equal(count, 1);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    return fd;
}

static inline struct sockaddr_in at_v4(const char *address, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    return at;
}

// The code of the answer, and the address as text, "" when there is none.
static inline int box_lookup_type(const char *name, uint16_t type,
                                  char ret_address[INET_ADDRSTRLEN])
{
    uint8_t message[600] = {0x12, 0x34, 1, 0, 0, 1}, *p = message + 12;
    struct sockaddr_in at = at_v4("127.0.0.1", NET_DNS_PORT);
    for (const char *s = name; *s;) {
        size_t n = strcspn(s, ".");
        *p++ = (uint8_t)n;
        memcpy(p, s, n);
        p += n;
        s += n + (s[n] == '.');
    }
    *p++ = 0;
    *p++ = (uint8_t)(type >> 8);
    *p++ = (uint8_t)type;
    *p++ = 0;
    *p++ = 1;
    int fd = box_socket('u');
    assert_true(sendto(fd, message, (size_t)(p - message), 0, (struct sockaddr *)&at, sizeof at) >
                0);
    ssize_t n = recv(fd, message, sizeof message, 0);
    (void)close(fd);
    assert_true(n >= 12);
    assert_int_equal(message[0] << 8 | message[1], 0x1234);
    ret_address[0] = '\0';
    if (message[7])
        inet_ntop(AF_INET, message + n - 4, ret_address, INET_ADDRSTRLEN);
    return message[3] & 15;
}

static inline int box_lookup(const char *name, char ret_address[INET_ADDRSTRLEN])
{
    return box_lookup_type(name, QUERY_A, ret_address);
}

static inline int box_connect(const char *address, uint16_t port)
{
    struct sockaddr_in at = at_v4(address, port);
    int fd = box_socket('t');
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        int e = errno;
        (void)close(fd);
        return -e;
    }
    return fd;
}

// Looks up and connects; the far side is accepted from `listener`.
static inline int box_reach(const char *name, uint16_t port, int listener, int *ret_far)
{
    char address[INET_ADDRSTRLEN];
    assert_int_equal(box_lookup(name, address), 0);
    int fd = box_connect(address, port);
    assert_true(fd >= 0);
    if (ret_far) {
        struct timeval tv = {.tv_sec = WAIT_MS / 1000};
        wait_readable(listener);
        *ret_far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(*ret_far >= 0);
        (void)setsockopt(*ret_far, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    }
    return fd;
}

// The answer to one question of box_question.h.
static inline void box_ask(const char *question, char ret[QUESTION_MAX + 1])
{
    struct sockaddr_in at = at_v4("127.0.0.1", NET_ASK_PORT);
    int fd = box_socket('u');
    assert_true(sendto(fd, question, strlen(question), 0, (struct sockaddr *)&at, sizeof at) > 0);
    ssize_t n = recv(fd, ret, QUESTION_MAX, 0);
    assert_true(n > 0);
    ret[n] = '\0';
    (void)close(fd);
}

static inline void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static inline void hears(int fd, const char *text)
{
    char buf[70000];
    size_t n = 0, want = strlen(text);
    while (n < want) {
        ssize_t r = recv(fd, buf + n, want - n, 0);
        if (r <= 0)
            fail_msg("wanted '%s', had '%.*s', then %s", text, (int)n, buf,
                     r ? strerror(errno) : "the end");
        n += (size_t)r;
    }
    assert_memory_equal(buf, text, want);
}

static inline void hears_end(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static inline void hears_reset(int fd)
{
    char buf[4096];
    ssize_t n;
    while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
        ;
    if (n == 0)
        fail_msg("the connection ended in order");
    assert_int_equal(errno, ECONNRESET);
}

// A connection that the broker takes and resets at once: the reset can overtake the connecting
// thread, which is then told by connect() instead of recv().
static inline void connect_is_reset(const char *address, uint16_t port)
{
    int fd = box_connect(address, port);
    if (fd < 0) {
        assert_int_equal(fd, -ECONNRESET);
        return;
    }
    hears_reset(fd);
    (void)close(fd);
}

// ---- the keeper and the gate --------------------------------------------------------------------

static inline void send_box(uint64_t id)
{
    union wire_message m = {.net_box = {.box = id}};
    assert_int_equal(wire_send(keeper, WIRE_NET_BOX, &m, box.fds, WIRE_NET_FDS), 0);
}

static inline void link_gate(void)
{
    int pair[2];
    union wire_message m = {0};
    fd_close(&gate);
    unit_socketpair(pair);
    gate = pair[0];
    struct timeval tv = {.tv_sec = WAIT_MS / 1000};
    (void)setsockopt(gate, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    assert_int_equal(wire_send(keeper, WIRE_NET_LINK, &m, &pair[1], 1), 0);
    (void)close(pair[1]);
}

static inline void start_broker(void)
{
    int pair[2];
    unit_socketpair(pair);
    facts.keeper = getpid();
    fflush(NULL);
    broker_pid = fork();
    assert_true(broker_pid >= 0);
    if (broker_pid == 0) {
        (void)close(pair[0]);
        int status = broker_main(pair[1], &facts);
#ifdef CONSTRICTOR_SANITIZED
        status |= __lsan_do_recoverable_leak_check();
#endif
        _exit(status);
    }
    (void)close(pair[1]);
    keeper = pair[0];
}

static inline void stop_broker(void)
{
    int status;
    fd_close(&keeper);
    assert_int_equal(waitpid(broker_pid, &status, 0), broker_pid);
    assert_int_equal(status, 0); // sanitizers and leaks included
}

static inline void send_gate(const char *json)
{
    assert_int_equal(send(gate, json, strlen(json), 0), strlen(json));
}

// `rules` is JSON: "[]", "[[\"a.test\"]]".
static inline void grant(const char *rules)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"op\": \"grant\", \"box\": %d, \"key\": \"k\", \"run\": \"r1\", \"rule_sets\": %s}",
             THE_BOX, rules);
    send_gate(text);
}

static inline json_t *settle(void)
{
    static char buf[BROKER_DATAGRAM + 1];
    char text[100];
    snprintf(text, sizeof text, "{\"op\": \"settle\", \"box\": %d}", THE_BOX);
    send_gate(text);
    ssize_t n = recv(gate, buf, sizeof buf, 0);
    assert_true(n > 0);
    json_t *o = json_loadb(buf, (size_t)n, 0, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "op")), "report");
    return o;
}

static inline long long number_of(const json_t *o, const char *name)
{
    assert_true(json_is_integer(json_object_get(o, name)));
    return json_integer_value(json_object_get(o, name));
}

// There is an event with this action and reason; its fields are those of `more`, "name=value" up to
// NULL.
static inline json_t *event_of(const json_t *report, const char *action, const char *reason)
{
    size_t i;
    json_t *e;
    json_array_foreach (json_object_get(report, "events"), i, e) {
        if (strcmp(json_string_value(json_object_get(e, "action")), action) == 0 &&
            strcmp(json_string_value(json_object_get(e, "reason")), reason) == 0)
            return e;
    }
    char *text = json_dumps(report, 0);
    fail_msg("no event '%s' '%s' in %s", action, reason, text);
    return NULL;
}

static inline const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

// One event, of which the fields are checked at once.
static inline void expect_event(const char *action, const char *reason, const char *target)
{
    json_t *o = settle(), *e = event_of(o, action, reason);
    assert_string_equal(text_of(e, "target"), target);
    assert_true(strlen(text_of(e, "hint")) > 10);
    json_decref(o);
}

static inline void expect_quiet(void)
{
    json_t *o = settle();
    if (json_array_size(json_object_get(o, "events"))) {
        char *text = json_dumps(o, 0);
        fail_msg("events: %s", text);
    }
    json_decref(o);
}

static inline void add_rule(struct text_list *list, const char *rule)
{
    assert_int_equal(text_list_add(list, rule), 0);
}

// Everything but the rules; the test adds those and calls broker_run.
static inline int broker_setup(void **state)
{
    char server[32];
    (void)state;
    config_init(&config);
    config.network = 1;
    dns_start();
    snprintf(server, sizeof server, "127.0.0.1:%u", dns.port);
    add_rule(&config.dns_servers, server);
    caps.landlock_abi = landlock_abi();
    gate = keeper = -1;
    snprintf(audit_path, sizeof audit_path, "/tmp/constrictor-broker-XXXXXX");
    audit_fd = mkostemp(audit_path, O_CLOEXEC | O_APPEND);
    assert_true(audit_fd >= 0);
    facts = (struct keeper_facts){.config = &config,
                                  .caps = &caps,
                                  .network_file = -1,
                                  .audit_file = audit_fd,
                                  .state_folder = -1};
    box_start();
    return 0;
}

static inline void broker_run(void)
{
    start_broker();
    assert_int_equal(pthread_create(&dns.thread, NULL, dns_main, NULL), 0);
    send_box(THE_BOX);
    link_gate();
    grant("[]");
}

// The usual rules: names below .test, and the address where the servers outside are.
static inline void broker_run_usual(void)
{
    add_rule(&config.allow_hosts, "*.ok.test");
    add_rule(&config.allow_hosts, "127.0.0.1");
    broker_run();
}

static inline int broker_teardown(void **state)
{
    (void)state;
    stop_broker();
    fd_close(&gate);
    dns_stop();
    box_stop();
    fd_close(&audit_fd);
    (void)unlink(audit_path);
    if (facts.network_file >= 0)
        fd_close(&facts.network_file);
    return 0;
}

// ---- a server outside ---------------------------------------------------------------------------

#define LOCAL "a-127-0-0-1.ok.test"

static uint16_t port;
static int listener;

static int begin(void **state)
{
    broker_setup(state);
    listener = listen_outside(&port);
    return 0;
}

static int finish(void **state)
{
    fd_close(&listener);
    return broker_teardown(state);
}

#endif
