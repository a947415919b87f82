// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/environments, keeper/helper and the jail's /opt/wheels: a whole keeper with
// the real porter, a zygote and real boxes, in a child; the test plays the gate.

#include "bundles.h"
#include "keeper_child.h"

#include <dirent.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/log.h"
#include "keeper/environments.h"
#include "keeper/keeper.h"
#include "porter/porter.h"
#include "wire/frame.h"

enum { GUARD_MS = 600000 };

static struct config config;
static struct draft draft;

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

static void expect(enum wire_type type, union wire_message *m, int *fds, size_t *count)
{
    for (;;) {
        struct pollfd p = {.fd = keeper_sock, .events = POLLIN};
        MUST(poll(&p, 1, GUARD_MS) == 1);
        MUST(wire_recv(keeper_sock, m, fds, FD_PASS_MAX, count) == 1);
        if (m->h.type == WIRE_PORTER_LINK) {
            fd_close(&link_fd);
            link_fd = *count ? fds[0] : -1;
            links++;
        }
        if (m->h.type == type)
            return;
    }
}

static void await_link(unsigned after)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    while (links <= after)
        expect(WIRE_PORTER_LINK, &m, fds, &count);
}

static json_t *ask(const char *text, int fd)
{
    static char reply[PORTER_DATAGRAM];
    struct pollfd p = {.fd = link_fd, .events = POLLIN};
    MUST(fd_send(link_fd, text, strlen(text), &fd, fd >= 0) == 0);
    MUST(poll(&p, 1, GUARD_MS) == 1);
    ssize_t n = recv(link_fd, reply, sizeof reply, 0);
    MUST(n > 0);
    json_t *o = json_loadb(reply, (size_t)n, 0, NULL);
    if (!o || strcmp(json_string_value(json_object_get(o, "op")), "failed") == 0)
        fprintf(stderr, "%.*s\n", (int)n, reply);
    MUST(o);
    return o;
}

static void store(char ret_id[WHEEL_ID + 1])
{
    draft.size = 0;
    memcpy(draft.data, "CBUN1\n", 6);
    draft.size = 6;
    static const char path[] = "pkg/__init__.py", text[] = "x = 'from a wheel'\n";
    fileio_put_u32(draft.data + 6, sizeof path - 1);
    fileio_put_u32(draft.data + 10, 0);
    fileio_put_u64(draft.data + 14, sizeof text - 1);
    memcpy(draft.data + 22, path, sizeof path - 1);
    memcpy(draft.data + 22 + sizeof path - 1, text, sizeof text - 1);
    size_t at = 22 + sizeof path - 1 + sizeof text - 1;
    fileio_put_u32(draft.data + at, 0);
    fileio_put_u32(draft.data + at + 4, 1);
    fileio_put_u64(draft.data + at + 8, sizeof text - 1);
    int fd = memfd_create("bundle", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, draft.data, at + 16) == (ssize_t)at + 16);
    json_t *o = ask("{\"op\":\"store\",\"request\":1,\"sha256\":\"" WHEEL_A
                    "\",\"bytes_max\":1000,\"files_max\":10}",
                    fd);
    const char *id = json_string_value(json_object_get(o, "wheel"));
    MUST(id && wheels_is_id(id));
    memcpy(ret_id, id, WHEEL_ID + 1);
    json_decref(o);
    (void)close(fd);
}

static struct wire_limits limits;

// A line of what the code prints in a box of its own.
static void run_in_box(const char *code, char *ret, size_t cap)
{
    static union wire_message m;
    int fds[FD_PASS_MAX];
    size_t count = 0, offset = 0;
    m.acquire = (struct wire_acquire){.ticket = 1, .cpu_ms = 60000, .limits = limits};
    MUST(wire_send(keeper_sock, WIRE_ACQUIRE, &m, NULL, 0) == 0);
    expect(WIRE_BOX, &m, fds, &count);
    if (!m.box.box)
        fprintf(stderr, "%s\n", m.box.error);
    MUST(m.box.box && count == 1);
    struct frame_run head = {.code_length = (uint32_t)strlen(code)};
    struct frame_piece pieces[] = {{&head, sizeof head}, {code, head.code_length}};
    MUST(frame_send(fds[0], FRAME_RUN, pieces, 2, &offset) == 0);
    MUST(unit_read_line(fds[0], ret, cap, GUARD_MS) == 0);
    uint64_t box = m.box.box;
    m.release = (struct wire_release){.box = box, .end = END_DONE, .wait_reaped = 1};
    MUST(wire_send(keeper_sock, WIRE_RELEASE, &m, NULL, 0) == 0);
    int rest[FD_PASS_MAX];
    expect(WIRE_ENDED, &m, rest, &count);
    (void)close(fds[0]);
}

static const char look[] =
    "import os, sys, errno\n"
    "def e(f, *a):\n"
    "    try: f(*a); return 'ok'\n"
    "    except OSError as x: return errno.errorcode[x.errno]\n"
    "base = '/opt/wheels/%s'\n"
    "sys.path.append(base)\n"
    "import pkg\n"
    "print(pkg.x, e(os.listdir, '/opt/wheels'), e(os.listdir, base), e(os.mkdir, base + '/d'),\n"
    "  e(os.mkdir, '/opt/wheels/d'), e(open, base + '/pkg/__init__.py', 'a'),\n"
    "  e(os.chmod, '/opt/wheels', 0o777), e(os.listdir, '/opt/wheels/..'), e(os.stat, "
    "'/opt/wheels/../secret'))\n";

static void start_gate(int sock, const struct keeper_facts *facts)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    keeper_sock = sock;
    limits = keeper_limits(facts->config);
    (void)umask(0022);
    await_link(0);
}

static int gate_stores(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    char id[WHEEL_ID + 1], code[2048], line[512];
    start_gate(sock, facts);
    MUST(facts->environments && facts->environments->folder >= 0);
    store(id);
    snprintf(code, sizeof code, look, id);
    run_in_box(code, line, sizeof line);
    static const char expected[] = "from a wheel EACCES ok EROFS EROFS EACCES EROFS ok ENOENT";
    if (strcmp(line, expected) != 0)
        fprintf(stderr, "got      %s\nexpected %s\n", line, expected);
    MUST(strcmp(line, expected) == 0);
    MUST(environments_write_note(facts->environments_note, facts->keeper,
                                 "http://127.0.0.1:1234") == 0);
    return 0;
}

// By its name, among the keeper's children.
static pid_t find_porter(pid_t keeper)
{
    char path[64], text[512];
    for (pid_t pid = keeper + 1; pid < keeper + 400; pid++) {
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC), parent = 0;
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            (void)close(fd);
        if (n <= 0)
            continue;
        text[n] = '\0';
        const char *behind = strrchr(text, ')');
        if (strstr(text, "(constrictor-env)") && behind &&
            sscanf(behind, ") %*c %d", &parent) == 1 && parent == keeper)
            return pid;
    }
    return 0;
}

static int gate_kills(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)argument;
    char id[WHEEL_ID + 1], again[WHEEL_ID + 1];
    start_gate(sock, facts);
    store(id);
    for (int i = 0; i < 5; i++) {
        unsigned before = links;
        pid_t porter = find_porter(facts->keeper);
        MUST(porter > 0 && kill(porter, SIGKILL) == 0);
        await_link(before);
        while (link_fd < 0)
            await_link(links);
        store(again);
        MUST(strcmp(id, again) == 0); // the same secret, the same folder
        json_t *o = ask("{\"op\":\"list\",\"request\":2}", -1);
        MUST(json_array_size(json_object_get(o, "wheels")) == 1);
        json_decref(o);
    }
    return 0;
}

static int gate_is_second(int sock, const struct keeper_facts *facts, void *argument)
{
    (void)sock, (void)argument;
    const struct environments *env = facts->environments;
    MUST(env && env->folder == -1 && env->wheels == -1 && env->error.code == ERR_BUSY);
    MUST(strstr(env->error.message, "another server, process 4711"));
    return 0;
}

// ---- running it ---------------------------------------------------------------------------------

static int begin(void **state)
{
    (void)state;
    config_init(&config);
    config.stock = 1;
    snprintf(wheels_parent, sizeof wheels_parent, "/var/tmp/constrictor-porter-XXXXXX");
    assert_non_null(mkdtemp(wheels_parent));
    snprintf(config.state, sizeof config.state, "%s/state", wheels_parent);
    log_init(LOG_ERROR, "test");
    return 0;
}

static int end(void **state)
{
    (void)state;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/environments/wheels", config.state);
    (void)chmod(path, 0700);
    assert_int_equal(nftw(wheels_parent, remove_one, 32, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}

static int keep(int (*gate)(int, const struct keeper_facts *, void *))
{
    struct keeper_plan plan = {.config = &config,
                               .start = KEEPER_WARM_FIRST,
                               .gate = gate,
                               .state = true,
                               .porter = porter_main};
    return keeper_child(&plan);
}

static void a_box_reads_a_wheel_that_it_was_told_of(void **state)
{
    (void)state;
    assert_int_equal(keep(gate_stores), 0);
    // The next server finds it.
    assert_int_equal(keep(gate_stores), 0);
    char path[PATH_MAX], text[64];
    snprintf(path, sizeof path, "%s/environments.server", config.state);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "\nhttp://127.0.0.1:1234\n"));
}

static void a_porter_that_is_killed_is_replaced(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    assert_int_equal(keep(gate_kills), 0);
}

static void a_server_that_does_not_share_is_named(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(mkdir(config.state, 0700), 0);
    snprintf(path, sizeof path, "%s/environments.lock", config.state);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(pwrite(fd, "4711\nhttp://127.0.0.1:9\n", 24, 0), 24);
    assert_int_equal(keep(gate_is_second), 0);
    (void)close(fd);
}

// ---- the folder alone ---------------------------------------------------------------------------

static void the_folder_is_opened_locked_and_found_again(void **state)
{
    (void)state;
    struct slots slots = {.lock_fd = -1, .uid_first = geteuid(), .uid_count = 1};
    struct environments a, b;
    struct err e = {0};
    struct stat st;
    int fds = unit_fd_count();
    int parent = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(environments_open(&a, parent, wheels_parent, &slots, &e), 0);
    assert_int_equal(environments_write_note(a.note, 4711, "http://127.0.0.1:9"), 0);
    assert_int_equal(fstat(a.wheels, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0311);
    assert_true(a.first);
    // A second one shares it, and can list the wheels though the mode does not change.
    assert_int_equal(environments_open(&b, parent, wheels_parent, &slots, &e), 0);
    assert_false(b.first);
    assert_int_equal(fstat(b.wheels, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0311);
    DIR *names = fdopendir(dup(b.wheels));
    assert_non_null(names);
    (void)closedir(names);
    // One address at a time.
    assert_int_equal(environments_write_note(b.note, 4712, "http://127.0.0.1:8"), -EWOULDBLOCK);
    environments_close(&a);
    assert_int_equal(environments_write_note(b.note, 4712, "http://127.0.0.1:8"), 0);
    environments_close(&b);
    assert_int_equal(environments_open(&b, parent, wheels_parent, &slots, &e), 0);
    assert_true(b.first);
    environments_close(&b);
    (void)close(parent);
    assert_int_equal(unit_fd_count(), fds);
    snprintf(config.state, sizeof config.state, "%s", wheels_parent); // for end()
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    struct slots slots = {.lock_fd = -1, .uid_first = geteuid(), .uid_count = 1};
    static const char *const texts[] = {"", "\n", "x\nhttp://a\n", "12\nformat 3\n",
                                        "12\n\x1b[2J\n"};
    int parent = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(parent, "environments.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct environments env;
        struct err e = {0};
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, texts[i], strlen(texts[i]), 0), strlen(texts[i]));
        assert_true(environments_open(&env, parent, wheels_parent, &slots, &e) < 0);
        assert_int_equal(e.code, ERR_STATE_FOLDER);
        assert_non_null(strstr(e.message, "another version"));
    }
    (void)close(fd);
    (void)close(parent);
}

static void what_is_in_the_way_is_not_used(void **state)
{
    (void)state;
    struct slots slots = {.lock_fd = -1, .uid_first = geteuid(), .uid_count = 1};
    struct environments env;
    struct err e = {0};
    int parent = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/etc", parent, "environments"), 0);
    assert_true(environments_open(&env, parent, wheels_parent, &slots, &e) < 0);
    assert_int_equal(e.code, ERR_STATE_FOLDER);
    assert_int_equal(unlinkat(parent, "environments", 0), 0);
    assert_int_equal(mkdirat(parent, "environments", 0700), 0);
    assert_int_equal(symlinkat("/etc", parent, "environments/wheels"), 0);
    assert_true(environments_open(&env, parent, wheels_parent, &slots, &e) < 0);
    assert_int_equal(unlinkat(parent, "environments/wheels", 0), 0);
    assert_int_equal(unlinkat(parent, "environments.lock", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", parent, "environments.lock"), 0);
    assert_true(environments_open(&env, parent, wheels_parent, &slots, &e) < 0);
    (void)close(parent);
}

// Early versions called the folder "layers".
static void an_old_folder_gets_its_new_name(void **state)
{
    (void)state;
    struct slots slots = {.lock_fd = -1, .uid_first = 70000, .uid_count = SLOTS};
    struct environments env;
    struct err e = {0};
    struct stat st;
    int parent = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(parent, "environments", 0700), 0);
    assert_int_equal(mkdirat(parent, "environments/layers", 0311), 0);
    assert_int_equal(mkdirat(parent, "environments/layers/a", 0755), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(environments_open(&env, parent, wheels_parent, &slots, &e), 0);
        environments_close(&env);
        assert_int_equal(fstatat(parent, "environments/wheels/a", &st, 0), 0);
        assert_int_equal(fstatat(parent, "environments/layers", &st, 0), -1);
        (void)mkdirat(parent, "environments/layers", 0711); // beside the new one it stays
        assert_int_equal(environments_open(&env, parent, wheels_parent, &slots, &e), 0);
        environments_close(&env);
        assert_int_equal(unlinkat(parent, "environments/layers", AT_REMOVEDIR), 0);
        // Neither do a file and a link of this name keep the server from its packages.
        assert_int_equal(mknodat(parent, "environments/layers", S_IFREG | 0600, 0), 0);
        assert_int_equal(environments_open(&env, parent, wheels_parent, &slots, &e), 0);
        environments_close(&env);
        assert_int_equal(unlinkat(parent, "environments/layers", 0), 0);
        assert_int_equal(symlinkat("/etc", parent, "environments/layers"), 0);
        assert_int_equal(environments_open(&env, parent, wheels_parent, &slots, &e), 0);
        environments_close(&env);
        assert_int_equal(fstatat(parent, "environments/wheels/a", &st, 0), 0);
        assert_int_equal(unlinkat(parent, "environments/layers", 0), 0);
    }
    // A link instead of the folder is moved, and then not followed.
    assert_int_equal(unlinkat(parent, "environments/wheels/a", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(parent, "environments/wheels", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("/etc", parent, "environments/layers"), 0);
    assert_true(environments_open(&env, parent, wheels_parent, &slots, &e) < 0);
    assert_int_equal(stat("/etc", &st), 0);
    assert_int_equal(st.st_uid, 0);
    (void)close(parent);
}

static void a_new_uid_gets_all_of_it_and_no_more(void **state)
{
    (void)state;
    struct slots slots = {.lock_fd = -1, .uid_first = 70000, .uid_count = SLOTS};
    uid_t uid = 70000 + SLOT_PORTER;
    struct environments env;
    struct err e = {0};
    struct stat st;
    int parent = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(parent, "environments", 0700), 0);
    assert_int_equal(mkdirat(parent, "environments/wheels", 0311), 0);
    assert_int_equal(mkdirat(parent, "environments/wheels/a", 0755), 0);
    assert_int_equal(mkdirat(parent, "environments/rows", 0700), 0);
    int fd = openat(parent, "environments/rows/list", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    fd = openat(parent, "environments/wheels/a/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    (void)close(fd);
    fd = openat(parent, "precious", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    assert_int_equal(symlinkat("../../../precious", parent, "environments/wheels/a/l"), 0);
    assert_int_equal(linkat(parent, "precious", parent, "environments/wheels/a/h", 0), 0);
    for (int i = 0; i < 2; i++) { // and once more with another
        assert_int_equal(environments_open(&env, parent, wheels_parent, &slots, &e), 0);
        static const char *const all[] = {"environments", "environments/wheels",
                                          "environments/wheels/a", "environments/wheels/a/f"};
        for (size_t k = 0; k < ARRAY_LEN(all); k++) {
            assert_int_equal(fstatat(parent, all[k], &st, 0), 0);
            assert_int_equal(st.st_uid, uid);
        }
        assert_int_equal(fstatat(parent, "environments/rows", &st, 0), 0);
        assert_int_equal(st.st_uid, uid - SLOT_PORTER + SLOT_GATE);
        assert_int_equal(fstatat(parent, "environments/rows/list", &st, 0), 0);
        assert_int_equal(st.st_uid, uid - SLOT_PORTER + SLOT_GATE);
        assert_int_equal(fstatat(parent, "precious", &st, 0), 0);
        assert_int_equal(st.st_uid, 0);
        environments_close(&env);
        slots.uid_first += SLOTS;
        uid += SLOTS;
    }
    (void)close(parent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(the_folder_is_opened_locked_and_found_again),
        TEST(other_versions_are_refused),
        TEST(what_is_in_the_way_is_not_used),
        TEST(a_box_reads_a_wheel_that_it_was_told_of),
        TEST(a_porter_that_is_killed_is_replaced),
        TEST(a_server_that_does_not_share_is_named),
        TEST(an_old_folder_gets_its_new_name), // these two are root's business
        TEST(a_new_uid_gets_all_of_it_and_no_more),
    };
    size_t count = ARRAY_LEN(tests) - (geteuid() == 0 ? 0 : 2);
    return _cmocka_run_group_tests("porter_keeper", tests, count, NULL, NULL);
}
