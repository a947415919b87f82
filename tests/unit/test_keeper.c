// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the keeper with boxes that have network: a whole keeper with a zygote and real
// boxes, in a child; the test plays the gate and a broker that answers
// connections to port 80 with its own pid.

#include "keeper_child.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/net.h"
#include "broker/box_question.h"
#include "keeper/keeper.h"
#include "wire/frame.h"

enum { GUARD_MS = 600000 };

// ---- the broker ---------------------------------------------------------------------------------

enum { BOXES = 64 };
static struct {
    uint64_t id;
    int fds[WIRE_NET_FDS];
    bool introduced;
} served[BOXES];

static void serve_box(uint64_t id, const int *fds)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    size_t i = 0;
    while (i < BOXES && served[i].id)
        i++;
    if (i == BOXES)
        _exit(10);
    served[i].id = id;
    memcpy(served[i].fds, fds, sizeof served[i].fds);
    int listening = 0;
    socklen_t size = sizeof listening;
    (void)getsockopt(fds[2], SOL_SOCKET, SO_ACCEPTCONN, &listening, &size);
    // Of a box that the broker before this one had it listens already.
    if (!listening &&
        (bind(fds[2], (struct sockaddr *)&any, sizeof any) < 0 || listen(fds[2], 64) < 0))
        _exit(11);
}

static void answer_tcp(int listener)
{
    char text[16];
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int n = snprintf(text, sizeof text, "%d", getpid());
    (void)!write(fd, text, (size_t)n);
    (void)close(fd);
}

// For DNS the answer is the question: enough to see that a server answers.  To what the Python
// side asks it is always yes.
static void answer_udp(int sock, bool ask)
{
    char text[512];
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    ssize_t n = recvfrom(sock, text, sizeof text, 0, (struct sockaddr *)&from, &size);
    if (n > 0)
        (void)sendto(sock, ask ? "ok" : text, ask ? 2 : (size_t)n, 0, (struct sockaddr *)&from,
                     size);
}

static bool hear_keeper(int sock, int *link)
{
    union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    int r = wire_recv(sock, &m, fds, WIRE_NET_FDS, &count);
    if (r == -EAGAIN)
        return false;
    if (r <= 0)
        _exit(0);
    if (m.h.type == WIRE_NET_BOX && count == WIRE_NET_FDS) {
        serve_box(m.net_box.box, fds);
    } else if (m.h.type == WIRE_NET_GONE && count == 0) {
        for (size_t i = 0; i < BOXES; i++)
            if (served[i].id == m.net_box.box) {
                net_close(served[i].fds);
                served[i].id = 0;
            }
    } else if (m.h.type == WIRE_NET_LINK && count == 1) {
        char text[16];
        fd_close(link);
        *link = fds[0];
        int n = snprintf(text, sizeof text, "%d", getpid());
        (void)send(*link, text, (size_t)n, MSG_NOSIGNAL);
    } else if (m.h.type == WIRE_FILES && count == 1) {
        (void)send(*link, "files", 5, MSG_NOSIGNAL);
        (void)close(fds[0]);
    } else {
        _exit(12);
    }
    return true;
}

// A question over the link: how many boxes are there?
static void hear_gate(int link)
{
    char text[16];
    unsigned count = 0;
    if (recv(link, text, sizeof text, 0) <= 0)
        return;
    for (size_t i = 0; i < BOXES; i++)
        count += served[i].id != 0;
    int n = snprintf(text, sizeof text, "%u", count);
    (void)send(link, text, (size_t)n, MSG_NOSIGNAL);
}

static _Noreturn void serve(int sock, const struct keeper_facts *facts)
{
    int link = -1;
    (void)fd_set_nonblock(sock, true);
    if (facts->audit_file >= 0)
        (void)!write(facts->audit_file, "begun\n", 6);
    for (;;) {
        struct pollfd p[2 + 3 * BOXES] = {{.fd = sock, .events = POLLIN},
                                          {.fd = link, .events = POLLIN}};
        for (size_t i = 0; i < BOXES; i++)
            for (size_t k = 0; k < 3; k++)
                p[2 + 3 * i + k] =
                    (struct pollfd){.fd = served[i].id ? served[i].fds[k] : -1, .events = POLLIN};
        (void)poll(p, ARRAY_LEN(p), -1);
        while (p[0].revents && hear_keeper(sock, &link)) // first, as it was said first
            ;
        for (size_t i = 0; i < BOXES; i++) {
            for (size_t k = 0; k < 2; k++)
                if (p[2 + 3 * i + k].revents)
                    answer_udp(served[i].fds[k], k == 1);
            if (p[2 + 3 * i + 2].revents)
                answer_tcp(served[i].fds[2]);
        }
        if (p[1].revents && link >= 0)
            hear_gate(link);
    }
}

static int test_broker(int sock, const struct keeper_facts *facts)
{
    serve(sock, facts);
}

static int broken_broker(int sock, const struct keeper_facts *facts)
{
    (void)sock;
    (void)facts;
    return 3;
}

// ---- the gate -----------------------------------------------------------------------------------

// In the gate's process nothing can be asserted: it ends with the line where something was wrong.
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(77);                                                                             \
        }                                                                                          \
    } while (0)

static int keeper_sock = -1, link_fd = -1;
static unsigned links;
static struct wire_limits limits;

struct box {
    uint64_t id;
    int control;
    uint32_t error_code;
    char error[WIRE_TEXT_MAX];
};

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

// The next message of a type; takes links as they come.
static void expect(enum wire_type type, union wire_message *m, int *fds, size_t *count)
{
    for (;;) {
        MUST(readable(keeper_sock, GUARD_MS));
        MUST(wire_recv(keeper_sock, m, fds, FD_PASS_MAX, count) == 1);
        if (m->h.type == WIRE_NET_LINK) {
            fd_close(&link_fd);
            link_fd = *count ? fds[0] : -1;
            links++;
        }
        if (m->h.type == type)
            return;
    }
}

static uint64_t next_ticket = 1, cpu_ms = 60000;

static struct box acquire(bool network)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    m.acquire = (struct wire_acquire){
        .ticket = next_ticket, .cpu_ms = cpu_ms, .network = network, .limits = limits};
    MUST(wire_send(keeper_sock, WIRE_ACQUIRE, &m, NULL, 0) == 0);
    expect(WIRE_BOX, &m, fds, &count);
    MUST(m.box.ticket == next_ticket++);
    struct box b = {.id = m.box.box, .control = -1};
    b.error_code = m.box.error_code;
    snprintf(b.error, sizeof b.error, "%s", m.box.error);
    if (b.id) {
        MUST(count == 1);
        b.control = fds[0];
    }
    return b;
}

static void start_code(const struct box *b, const char *code)
{
    struct frame_run head = {.code_length = (uint32_t)strlen(code)};
    struct frame_piece pieces[] = {{&head, sizeof head}, {code, head.code_length}};
    size_t offset = 0;
    MUST(frame_send(b->control, FRAME_RUN, pieces, 2, &offset) == 0);
}

// A line of what the code prints.
static void read_line(const struct box *b, char *ret, size_t cap)
{
    if (unit_read_line(b->control, ret, cap, GUARD_MS) < 0) {
        fprintf(stderr, "%s\n", ret); // what it says about that
        MUST(!"the code prints a line");
    }
}

static void release(struct box *b)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    m.release = (struct wire_release){.box = b->id, .end = END_DONE, .wait_reaped = 1};
    MUST(wire_send(keeper_sock, WIRE_RELEASE, &m, NULL, 0) == 0);
    expect(WIRE_ENDED, &m, fds, &count);
    MUST(m.ended.box == b->id && m.ended.reaped);
    fd_close(&b->control);
}

static int number_of(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

static int broker_says(void)
{
    char text[16] = "";
    MUST(readable(link_fd, GUARD_MS));
    MUST(recv(link_fd, text, sizeof text - 1, 0) > 0);
    return number_of(text);
}

static int boxes_at_broker(void)
{
    MUST(send(link_fd, "?", 1, MSG_NOSIGNAL) == 1);
    return broker_says();
}

// The pid of the broker at the other end of the next link.
static int await_link(unsigned after)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    while (links <= after)
        expect(WIRE_NET_LINK, &m, fds, &count);
    return broker_says();
}

// Sockets, pipes, processes, folders; not the groups, of which the keeper has a pool.
static int fds_of(pid_t pid)
{
    char path[64], target[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    MUST(d);
    for (const struct dirent *one; (one = readdir(d));) {
        ssize_t length = readlinkat(dirfd(d), one->d_name, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = '\0';
        n += strncmp(target, "/sys/fs/cgroup", 14) != 0;
    }
    (void)closedir(d);
    return n;
}

static uint32_t ask_status(uint32_t *ret_zygote)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    m.status = (struct wire_status){0};
    MUST(wire_send(keeper_sock, WIRE_STATUS, &m, NULL, 0) == 0);
    expect(WIRE_STATUS_REPLY, &m, fds, &count);
    if (ret_zygote)
        *ret_zygote = m.status_reply.zygote_pid;
    return m.status_reply.parked;
}

static void await_parked(uint32_t count)
{
    int64_t until = clock_ms() + GUARD_MS;
    while (ask_status(NULL) != count) {
        MUST(clock_ms() < until);
        (void)usleep(5000);
    }
}

// ---- what is tried ------------------------------------------------------------------------------

static const char look[] =
    "import socket, time, os\n"
    "def errno_of(f, *a):\n"
    "    begin = time.monotonic()\n"
    "    try: f(*a); name = 'ok'\n"
    "    except OSError as e: name = __import__('errno').errorcode.get(e.errno, str(e))\n"
    "    return name if time.monotonic() - begin < 1 else 'slow ' + name\n"
    "S = socket\n"
    "def connect(family, kind, at):\n"
    "    s = S.socket(family, kind); s.settimeout(3); s.connect(at)\n"
    "    if kind == S.SOCK_DGRAM: s.send(b'x'); time.sleep(0.01); s.send(b'y')\n"
    "def served(at, family=S.AF_INET):\n"
    "    s = S.socket(family); s.settimeout(3); s.connect(at); return s.recv(9).decode()\n"
    "def echo(port):\n"
    "    s = S.socket(S.AF_INET, S.SOCK_DGRAM); s.settimeout(3)\n"
    "    s.sendto(b'why', ('127.0.0.1', port)); return s.recv(9).decode()\n"
    "names = [l.split(':')[0].strip() for l in open('/proc/self/net/dev').readlines()[2:]]\n"
    "print(names == ['lo'],\n"
    "  errno_of(connect, S.AF_INET, S.SOCK_STREAM, ('192.0.2.1', 81)),\n"
    "  errno_of(connect, S.AF_INET, S.SOCK_STREAM, ('169.254.169.254', 81)),\n"
    "  errno_of(connect, S.AF_INET6, S.SOCK_STREAM, ('2001:db8::1', 81)),\n"
    "  errno_of(connect, S.AF_INET, S.SOCK_DGRAM, ('203.0.113.9', 9)),\n"
    "  errno_of(S.socket, S.AF_INET, S.SOCK_RAW, 1), errno_of(S.socket, S.AF_INET, S.SOCK_DGRAM, "
    "1),\n"
    "  errno_of(S.socket, S.AF_NETLINK, S.SOCK_RAW, 0), errno_of(S.socket, S.AF_PACKET, 3, 3),\n"
    "  errno_of(S.socket, S.AF_INET, S.SOCK_STREAM, 262), errno_of(S.socket, S.AF_UNIX, 5),\n"
    "  errno_of(S.socket().setsockopt, 6, 31, b'tls'),\n"
    "  served(('192.0.2.1', 80)) == served(('2001:db8::1', 80), S.AF_INET6), echo(53), echo(54))\n";

static const char look_expected[] =
    "True ECONNREFUSED ECONNREFUSED ECONNREFUSED ECONNREFUSED ESOCKTNOSUPPORT EPROTONOSUPPORT "
    "EAFNOSUPPORT EAFNOSUPPORT EPROTONOSUPPORT ok ENOPROTOOPT True why ok";

static int start_gate(int sock, const struct keeper_facts *facts)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    keeper_sock = sock;
    limits = keeper_limits(facts->config);
    return await_link(0);
}

static int gate_looks(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    char line[512];
    int broker = start_gate(sock, facts);
    MUST(broker > 0 && broker != getpid() && facts->audit_file == -1);
    struct box plain = acquire(false);
    MUST(plain.id);
    start_code(&plain, "import socket\n"
                       "try: socket.socket().connect(('192.0.2.1', 80))\n"
                       "except OSError as e: print(e.errno)\n");
    read_line(&plain, line, sizeof line);
    MUST(number_of(line) == ENETUNREACH);
    MUST(boxes_at_broker() == 0);
    struct box b = acquire(true);
    if (!b.id)
        fprintf(stderr, "%s\n", b.error);
    MUST(b.id);
    MUST(boxes_at_broker() == 1);
    start_code(&b, look);
    read_line(&b, line, sizeof line);
    if (strcmp(line, look_expected) != 0)
        fprintf(stderr, "got      %s\nexpected %s\n", line, look_expected);
    MUST(strcmp(line, look_expected) == 0);
    release(&b);
    release(&plain);
    MUST(boxes_at_broker() == 0);
    return 0;
}

// Killed while a box asks and asks: the next one serves the same box.
static int gate_kills(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    char line[64];
    int broker = start_gate(sock, facts);
    struct box b = acquire(true);
    MUST(b.id);
    start_code(&b, "import socket, time\n"
                   "while True:\n"
                   "    s = socket.socket(); s.settimeout(5); s.connect(('192.0.2.1', 80))\n"
                   "    try: print(s.recv(9).decode(), flush=True)\n"
                   "    except OSError: pass\n"
                   "    time.sleep(0.02)\n");
    for (int i = 0; i < 3; i++) {
        read_line(&b, line, sizeof line);
        MUST(number_of(line) == broker);
        unsigned before = links;
        MUST(kill(broker, SIGKILL) == 0);
        int next = await_link(before);
        MUST(next != broker);
        int64_t until = clock_ms() + GUARD_MS;
        do {
            read_line(&b, line, sizeof line);
            MUST(clock_ms() < until);
        } while (number_of(line) != next);
        broker = next;
        MUST(boxes_at_broker() == 1);
    }
    release(&b);
    MUST(boxes_at_broker() == 0);
    return 0;
}

// Boxes come and go; nothing of them stays, in the keeper, the broker or the zygote.
static int gate_leaks(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    int broker = start_gate(sock, facts);
    uint32_t zygote, stock = facts->config->stock;
    char path[64], home[64] = "", now[64] = "", line[8];
    struct box first = acquire(true);
    release(&first);
    await_parked(stock); // the plain kind was not asked for
    (void)ask_status(&zygote);
    MUST(boxes_at_broker() == 0);
    snprintf(path, sizeof path, "/proc/%u/ns/net", zygote);
    MUST(readlink(path, home, sizeof home - 1) > 0);
    int before[3] = {};
    for (int round = 0; round < 6; round++) {
        struct box some[6];
        for (size_t i = 0; i < ARRAY_LEN(some); i++) {
            some[i] = acquire(true);
            MUST(some[i].id);
            start_code(&some[i],
                       "import socket\ns = socket.socket(); s.connect(('192.0.2.1', 80))\n"
                       "print('x', flush=True)\nimport time; time.sleep(60)\n");
        }
        for (size_t i = 0; i < ARRAY_LEN(some); i++)
            read_line(&some[i], line, sizeof line);
        MUST(boxes_at_broker() == (int)ARRAY_LEN(some));
        for (size_t i = 0; i < ARRAY_LEN(some); i++)
            release(&some[i]);
        await_parked(stock);
        MUST(boxes_at_broker() == 0);
        int now_open[] = {fds_of(facts->keeper), fds_of(broker), fds_of((pid_t)zygote)};
        if (round == 0) // it started the sampler
            memcpy(before, now_open, sizeof before);
        MUST(memcmp(now_open, before, sizeof before) == 0);
        MUST(readlink(path, now, sizeof now - 1) > 0 && strcmp(home, now) == 0);
    }
    return 0;
}

// What ends by itself is told to the broker a little later: the gate may want to ask about it.
static int gate_waits(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    (void)start_gate(sock, facts);
    struct box b = acquire(true);
    MUST(b.id);
    cpu_ms = 100;
    limits.memory_bytes += 1 << 20; // made to order
    struct box busy = acquire(true);
    MUST(busy.id && boxes_at_broker() == 2);
    start_code(&busy, "while True: pass");
    expect(WIRE_ENDED, &m, fds, &count);
    MUST(m.ended.box == busy.id && m.ended.end == END_CPU);
    MUST(boxes_at_broker() == 2);
    release(&b);
    int64_t until = clock_ms() + GUARD_MS;
    while (boxes_at_broker()) {
        MUST(clock_ms() < until);
        (void)usleep(20000);
    }
    return 0;
}

static int gate_is_refused(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    keeper_sock = sock;
    limits = keeper_limits(facts->config);
    struct box b = acquire(true);
    MUST(b.id == 0 && b.error_code == ERR_NETWORK && strstr(b.error, "network"));
    b = acquire(false);
    MUST(b.id);
    release(&b);
    return 0;
}

// A hundred times at once, and then no more; boxes without network go on.
static int gate_gives_up(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    keeper_sock = sock;
    limits = keeper_limits(facts->config);
    int64_t until = clock_ms() + GUARD_MS;
    struct box b;
    while ((b = acquire(true)).id) {
        release(&b);
        MUST(clock_ms() < until);
        (void)usleep(20000);
    }
    MUST(b.error_code == ERR_NETWORK && strstr(b.error, "100 times"));
    b = acquire(false);
    MUST(b.id);
    release(&b);
    MUST(link_fd == -1); // the last one leads nowhere
    return 0;
}

static int gate_reloads(int sock, const struct keeper_facts *facts, void *argument)
{
    char text[64] = "";
    (void)start_gate(sock, facts);
    MUST(facts->network_file >= 0 && pread(facts->network_file, text, sizeof text, 0) == 2);
    MUST(kill(facts->keeper, SIGHUP) == 0);
    MUST(readable(link_fd, GUARD_MS));
    MUST(recv(link_fd, text, sizeof text, 0) == 5 && memcmp(text, "files", 5) == 0);
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    expect(WIRE_FILES, &m, fds, &count);
    MUST(m.files.present == 1U << (WIRE_FILES_MAX - 1) && count == 1);
    // What was appended is the broker's first words, in a file of its own.
    int audit = open(argument, O_RDONLY | O_CLOEXEC);
    MUST(audit >= 0 && read(audit, text, sizeof text) == 6 && memcmp(text, "begun\n", 6) == 0);
    return 0;
}

// ---- running it ---------------------------------------------------------------------------------

static struct config config;

static int begin(void **state)
{
    (void)state;
    config_init(&config);
    config.stock = 2;
    assert_int_equal(text_list_add(&config.allow_hosts, "host.test"), 0);
    log_init(LOG_ERROR, "test");
    return 0;
}

static int keep(int (*gate)(int, const struct keeper_facts *, void *),
                int (*broker)(int, const struct keeper_facts *), void *argument, bool reload)
{
    struct keeper_plan plan = {.config = &config,
                               .start = KEEPER_WARM_FIRST,
                               .gate = gate,
                               .argument = argument,
                               .broker = broker,
                               .reload = reload};
    plan.files[WIRE_FILES_MAX - 1] = config.network_file;
    return keeper_child(&plan);
}

static void a_box_with_network_reaches_the_broker_and_nobody_else(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_looks, test_broker, NULL, false), 0);
}

static void a_broker_that_is_killed_is_replaced_and_gets_the_boxes(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_kills, test_broker, NULL, false), 0);
}

static void nothing_stays_of_boxes_with_network(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_leaks, test_broker, NULL, false), 0);
}

static void the_broker_knows_a_box_a_little_longer_than_it_lives(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_waits, test_broker, NULL, false), 0);
}

static void without_a_broker_there_is_no_network(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_is_refused, NULL, NULL, false), 0);
}

static void a_broker_that_always_breaks_is_given_up(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    assert_int_equal(keep(gate_gives_up, broken_broker, NULL, false), 0);
    log_init(LOG_ERROR, "test");
}

static void files_are_opened_for_the_broker_and_again_on_a_signal(void **state)
{
    (void)state;
    char folder[] = "/var/tmp/constrictor-keeper-XXXXXX", link[128];
    assert_non_null(mkdtemp(folder));
    snprintf(config.network_file, sizeof config.network_file, "%s/rules", folder);
    snprintf(config.audit_file, sizeof config.audit_file, "%s/audit", folder);
    FILE *f = fopen(config.network_file, "w");
    assert_true(f && fputs("{}", f) >= 0 && fclose(f) == 0);
    assert_int_equal(keep(gate_reloads, test_broker, config.audit_file, true), 0);
    // SECURITY: never through a link.
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("audit", link), 0);
    snprintf(config.audit_file, sizeof config.audit_file, "%s", link);
    assert_int_equal(keep(gate_reloads, test_broker, config.audit_file, true), 79);
    (void)unlink(link);
    (void)unlink(config.network_file);
    snprintf(link, sizeof link, "%s/audit", folder);
    (void)unlink(link);
    (void)rmdir(folder);
    config.audit_file[0] = config.network_file[0] = '\0';
}

static void both_sides_mean_the_same_port(void **state)
{
    (void)state;
    assert_int_equal(NET_ASK_PORT, QUESTION_PORT);
    assert_true(1 + WIRE_NET_FDS <= FD_PASS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_mean_the_same_port),
        cmocka_unit_test(a_box_with_network_reaches_the_broker_and_nobody_else),
        cmocka_unit_test(a_broker_that_is_killed_is_replaced_and_gets_the_boxes),
        cmocka_unit_test(nothing_stays_of_boxes_with_network),
        cmocka_unit_test(the_broker_knows_a_box_a_little_longer_than_it_lives),
        cmocka_unit_test(without_a_broker_there_is_no_network),
        cmocka_unit_test(a_broker_that_always_breaks_is_given_up),
        cmocka_unit_test(files_are_opened_for_the_broker_and_again_on_a_signal),
    };
    return cmocka_run_group_tests_name("keeper", tests, begin, NULL);
}
