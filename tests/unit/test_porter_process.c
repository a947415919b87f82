// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of porter/porter: the whole process, of which the test plays the keeper and the gate.

#include "bundles.h"

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "box/landlock.h"
#include "porter/porter.h"
#include "wire/wire.h"

#ifdef CONSTRICTOR_SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

enum { WAIT_MS = 600000 };

static struct draft draft;
static struct config config;
static struct caps caps; // large
static struct environments environments;
static pid_t porter_pid;
static int keeper, gate;
static char reply_text[PORTER_DATAGRAM + 1];

// ---- keeper and gate ----------------------------------------------------------------------------

static void link_gate(void)
{
    union wire_message m = {0};
    int pair[2];
    unit_socketpair(pair);
    assert_int_equal(wire_send(keeper, WIRE_NET_LINK, &m, &pair[1], 1), 0);
    (void)close(pair[1]);
    gate = pair[0];
}

static void start(void)
{
    int pair[2], folder, below;
    struct keeper_facts facts = {.keeper = getpid(), .config = &config, .caps = &caps};
    unit_socketpair(pair);
    open_wheel_folders(&folder, &below);
    environments = (struct environments){.folder = folder, .wheels = below};
    facts.environments = &environments;
    caps.landlock_abi = landlock_abi();
    caps.slots = (struct slots){.lock_fd = -1, .uid_first = geteuid(), .uid_count = 1};
    config.log_level = 0;
    porter_pid = fork();
    assert_true(porter_pid >= 0);
    if (porter_pid == 0) {
        (void)close(pair[0]);
        int status = porter_main(pair[1], &facts);
#ifdef CONSTRICTOR_SANITIZED
        __lsan_do_leak_check(); // ends it when there are any
#endif
        _exit(status);
    }
    (void)close(pair[1]);
    (void)close(folder);
    (void)close(below);
    keeper = pair[0];
    link_gate();
}

static int begin(void **state)
{
    (void)state;
    make_wheel_folders(false);
    start();
    return 0;
}

static void stop(void)
{
    int status;
    fd_close(&gate);
    fd_close(&keeper); // a porter without a keeper ends
    assert_int_equal(waitpid(porter_pid, &status, 0), porter_pid);
    assert_int_equal(status, 0);
}

static int end(void **state)
{
    (void)state;
    stop();
    remove_wheel_folders();
    return 0;
}

static void say(const char *text, const int *fds, size_t count)
{
    assert_int_equal(fd_send(gate, text, strlen(text), fds, count), 0);
}

// The next that is no progress.
static json_t *hear_with(int *ret_fd, unsigned *ret_progress)
{
    for (;;) {
        struct pollfd p = {.fd = gate, .events = POLLIN};
        int fds[2];
        size_t count = 0;
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        ssize_t n = fd_recv(gate, reply_text, PORTER_DATAGRAM, fds, 2, &count);
        assert_true(n > 0);
        reply_text[n] = '\0';
        json_t *o = json_loads(reply_text, 0, NULL);
        assert_non_null(o);
        assert_true(count <= 1);
        if (ret_fd)
            *ret_fd = count ? fds[0] : -1;
        else
            assert_int_equal(count, 0);
        if (strcmp(json_string_value(json_object_get(o, "op")), "progress") != 0)
            return o;
        if (ret_progress)
            ++*ret_progress;
        json_decref(o);
    }
}

static json_t *hear(void)
{
    return hear_with(NULL, NULL);
}

// It is that operation for that request, and has these members.
static json_t *hear_op(const char *op, int number)
{
    json_t *o = hear();
    if (strcmp(json_string_value(json_object_get(o, "op")), op) != 0 ||
        json_integer_value(json_object_get(o, "request")) != number)
        fail_msg("not '%s' of %d but %s", op, number, reply_text);
    return o;
}

static void hear_failure(int number, const char *code)
{
    json_t *o = hear_op("failed", number);
    if (strcmp(json_string_value(json_object_get(o, "code")), code) != 0)
        fail_msg("not '%s' but %s", code, reply_text);
    assert_true(json_string_length(json_object_get(o, "message")) > 0);
    json_decref(o);
}

static void ask_store(int number, const char *wheel, const char *more)
{
    char text[512];
    draft_good(&draft);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    snprintf(text, sizeof text,
             "{\"op\":\"store\",\"request\":%d,\"sha256\":\"%s\",\"bytes_max\":100000,\"files_"
             "max\":100%s}",
             number, wheel, more);
    say(text, &fd, 1);
}

static void stored(int number, char ret_id[WHEEL_ID + 1])
{
    json_t *o = hear_op("stored", number);
    assert_int_equal(json_integer_value(json_object_get(o, "files")), 6);
    assert_int_equal(json_integer_value(json_object_get(o, "bytes")), draft.bytes);
    const char *id = json_string_value(json_object_get(o, "wheel"));
    assert_true(wheels_is_id(id));
    memcpy(ret_id, id, WHEEL_ID + 1);
    json_decref(o);
}

// A bundle of zeros that takes a while.
static int large_bundle(uint64_t size)
{
    draft_begin(&draft);
    draft_head(&draft, 5, 0, size);
    draft_put(&draft, "large", 5);
    int fd = draft_open(draft.data, draft.size);
    off_t at = (off_t)draft.size + (off_t)size;
    draft.size = 0;
    draft_head(&draft, 0, 1, size);
    assert_int_equal(pwrite(fd, draft.data, draft.size, at), draft.size);
    return fd;
}

// ---- tests --------------------------------------------------------------------------------------

static void store_list_drop(void **state)
{
    (void)state;
    char a[WHEEL_ID + 1], b[WHEEL_ID + 1], again[WHEEL_ID + 1], text[256];
    ask_store(1, WHEEL_A, "");
    stored(1, a);
    ask_store(2, WHEEL_A, ",\"scope\":\"key\"");
    stored(2, b);
    assert_string_not_equal(a, b);
    ask_store(3, WHEEL_A, "");
    stored(3, again);
    assert_string_equal(a, again);
    say("{\"op\":\"list\",\"request\":4}", NULL, 0);
    json_t *o = hear_op("listed", 4);
    assert_int_equal(json_array_size(json_object_get(o, "wheels")), 2);
    assert_true(json_is_false(json_object_get(o, "more")));
    const char *first = json_string_value(json_array_get(json_object_get(o, "wheels"), 0));
    snprintf(text, sizeof text, "{\"op\":\"list\",\"request\":5,\"after\":\"%s\"}", first);
    json_decref(o);
    say(text, NULL, 0);
    o = hear_op("listed", 5);
    assert_int_equal(json_array_size(json_object_get(o, "wheels")), 1);
    json_decref(o);
    snprintf(text, sizeof text, "{\"op\":\"drop\",\"request\":6,\"wheel\":\"%s\"}", a);
    say(text, NULL, 0);
    json_decref(hear_op("dropped", 6));
    say(text, NULL, 0); // it was never there: that is as good
    json_decref(hear_op("dropped", 6));
    assert_int_equal(count_below(""), 1);
}

static void many_at_once_are_answered_in_order(void **state)
{
    (void)state;
    enum { MANY = 100 };
    char ids[MANY][WHEEL_ID + 1], wheel[WHEEL_SHA256 + 1];
    for (int i = 0; i < MANY; i++) {
        snprintf(wheel, sizeof wheel, "%064x", i / 2); // each twice
        ask_store(i + 1, wheel, "");
    }
    for (int i = 0; i < MANY; i++)
        stored(i + 1, ids[i]);
    for (int i = 0; i < MANY; i += 2)
        assert_string_equal(ids[i], ids[i + 1]);
    assert_int_equal(count_below(""), MANY / 2);
}

static void bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned fds;
        const char *code; // NULL: no answer
    } cases[] = {
        {"{\"op\":\"fly\",\"request\":1}", 0, "protocol"},
        {"{\"op\":\"drop\",\"request\":1,\"wheel\":\"../..\"}", 0, "protocol"},
        {"{\"op\":\"drop\",\"request\":1,\"wheel\":7}", 0, "protocol"},
        {"{\"op\":\"drop\",\"request\":1}", 1, "protocol"},
        {"{\"op\":\"list\",\"request\":1,\"after\":\"zz\"}", 0, "protocol"},
        {"{\"op\":\"store\",\"request\":1}", 0, "protocol"},
        {"{\"op\":\"store\",\"request\":1}", 1, "protocol"},
        {"{\"op\":\"store\",\"request\":1,\"sha256\":\"" WHEEL_A "\",\"files_max\":1}", 1,
         "protocol"},
        {"{\"op\":\"store\",\"request\":1,\"sha256\":\"" WHEEL_A
         "\",\"bytes_max\":-1,\"files_max\":1}",
         1, "protocol"},
        {"{\"op\":\"store\",\"request\":1,\"sha256\":\"" WHEEL_A
         "\",\"bytes_max\":1,\"files_max\":1}",
         1, "package_too_large"},
        {"{\"op\":\"import\",\"request\":1,\"bytes_max\":1,\"files_max\":1}", 1,
         "bad_environment_file"},
        {"{\"op\":\"import\",\"request\":1,\"bytes_max\":1,\"files_max\":1}", 2, "protocol"},
        {"{\"op\":\"export\",\"request\":1,\"manifest\":{}}", 1, "protocol"},
        {"{\"op\":\"export\",\"request\":1,\"manifest\":{},\"wheels\":[1]}", 1, "protocol"},
        {"{\"op\":\"export\",\"request\":1,\"manifest\":[],\"wheels\":[]}", 1, "protocol"},
        {"{\"op\":\"export\",\"request\":1,\"wheels\":[]}", 1, "protocol"},
        {"{\"op\":\"export\",\"request\":1,\"manifest\":{},\"wheels\":[{\"sha256\":\"" WHEEL_A
         "\",\"wheel\":\"00000000000000000000000000000000\"}]}",
         1, "file_not_found"},
        {"{\"op\":\"list\"}", 2, NULL},
        {"{\"op\":\"list\",\"request\":-1}", 0, NULL},
        {"{\"op\":\"list\",\"request\":\"1\"}", 0, NULL},
        {"nonsense", 1, NULL},
        {"[]", 0, NULL},
        {"{\"op\":\"cancel\",\"request\":99}", 1, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        draft_good(&draft);
        int fds[2] = {draft_open(draft.data, draft.size), draft_open(draft.data, draft.size)};
        say(cases[i].text, fds, cases[i].fds);
        if (cases[i].code)
            hear_failure(1, cases[i].code);
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
    // It is still there, has nothing more to say, and no descriptor too many.
    say("{\"op\":\"list\",\"request\":7}", NULL, 0);
    json_decref(hear_op("listed", 7));
    char path[64];
    unsigned open_fds = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", porter_pid);
    DIR *d = opendir(path);
    if (d) { // it may not be looked at by others
        for (const struct dirent *one; (one = readdir(d));)
            open_fds += one->d_name[0] != '.';
        (void)closedir(d);
        assert_true(open_fds <= 3 + 4 + 1);
    }
    assert_int_equal(count_below(""), 0);
}

static void too_large_a_datagram_is_survived(void **state)
{
    (void)state;
    enum { LARGE = PORTER_DATAGRAM + 10 };
    char *text = malloc(LARGE);
    assert_non_null(text);
    memset(text, ' ', LARGE);
    int fd = draft_open("x", 1);
    assert_int_equal(fd_send(gate, text, LARGE, &fd, 1), 0);
    (void)close(fd);
    free(text);
    say("{\"op\":\"list\",\"request\":7}", NULL, 0);
    json_decref(hear_op("listed", 7));
}

static void export_and_import(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1], text[512];
    ask_store(1, WHEEL_A, "");
    stored(1, id);
    int fd = memfd_create("archive", MFD_CLOEXEC);
    snprintf(text, sizeof text,
             "{\"op\":\"export\",\"request\":2,\"manifest\":{\"name\":\"e\"},\"wheels\":[{"
             "\"sha256\":\"%s\","
             "\"wheel\":\"%s\"}]}",
             WHEEL_A, id);
    say(text, &fd, 1);
    json_t *o = hear_op("exported", 2);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(json_integer_value(json_object_get(o, "bytes")), st.st_size);
    json_decref(o);
    say("{\"op\":\"import\",\"request\":3,\"bytes_max\":100000,\"files_max\":100}", &fd, 1);
    o = hear_op("imported", 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(o, "manifest"), "name")),
                        "e");
    json_t *wheel = json_array_get(json_object_get(o, "wheels"), 0);
    assert_string_equal(json_string_value(json_object_get(wheel, "sha256")), WHEEL_A);
    assert_int_equal(json_integer_value(json_object_get(wheel, "files")), 6);
    assert_string_not_equal(json_string_value(json_object_get(wheel, "wheel")), id);
    json_decref(o);
    (void)close(fd);
    assert_int_equal(count_below(""), 2);
}

static void a_long_manifest_travels_as_a_file(void **state)
{
    (void)state;
    enum { LONG = 300 * 1024 };
    json_t *manifest = json_object();
    char *value = malloc(LONG + 1);
    memset(value, 'm', LONG);
    value[LONG] = '\0';
    assert_int_equal(json_object_set_new(manifest, "text", json_string(value)), 0);
    char *text = json_dumps(manifest, JSON_COMPACT);
    int fds[2] = {memfd_create("archive", MFD_CLOEXEC), draft_open(text, strlen(text))};
    say("{\"op\":\"export\",\"request\":2,\"wheels\":[]}", fds, 2);
    json_decref(hear_op("exported", 2));
    say("{\"op\":\"import\",\"request\":3,\"bytes_max\":1,\"files_max\":1}", fds, 1);
    int file = -1;
    json_t *o = hear_with(&file, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "op")), "imported");
    assert_true(json_is_null(json_object_get(o, "manifest")));
    json_decref(o);
    assert_true(file >= 0);
    json_t *back = json_loadfd(file, 0, NULL);
    assert_true(json_equal(back, manifest));
    json_decref(back);
    json_decref(manifest);
    free(text);
    free(value);
    (void)close(file);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

// ---- long requests
// ----------------------------------------------------------------------------------

static const char long_request[] = "{\"op\":\"store\",\"request\":1,\"sha256\":\"" WHEEL_A
                                   "\",\"bytes_max\":1000000000000,\"files_max\":10%s}";

static void ask_long(const char *more)
{
    char text[256];
    _cleanup_close_ int fd = large_bundle((uint64_t)1 << 36);
    snprintf(text, sizeof text, long_request, more);
    say(text, &fd, 1);
}

// Until the long request has begun to write: how long that takes depends on the machine.
static void await_piece(void)
{
    int64_t until_ms = clock_ms() + WAIT_MS;
    while (count_below("tmp-") == 0) {
        assert_true(clock_ms() < until_ms);
        (void)usleep(500);
    }
}

static void a_job_is_cancelled_half_way(void **state)
{
    (void)state;
    int64_t begun_ms = clock_ms();
    _cleanup_close_ int fd = large_bundle((uint64_t)192 << 20);
    char text[256];
    snprintf(text, sizeof text, long_request, "");
    say(text, &fd, 1);
    ask_store(2, WHEEL_B, "");
    ask_store(3, WHEEL_B, "");
    await_piece();
    say("{\"op\":\"cancel\",\"request\":2}", NULL, 0);
    say("{\"op\":\"cancel\",\"request\":1}", NULL, 0);
    hear_failure(2, "cancelled"); // it waited
    hear_failure(1, "cancelled"); // it went on
    char id[WHEEL_ID + 1];
    draft_good(&draft);
    stored(3, id);
    assert_true(clock_ms() - begun_ms < WAIT_MS);
    assert_int_equal(count_below(""), 1);
}

static void a_disk_that_has_no_room_is_not_begun(void **state)
{
    (void)state;
    ask_long("");
    hear_failure(1, "disk_full");
    assert_int_equal(count_below(""), 0);
}

static void time_is_limited(void **state)
{
    (void)state;
    char text[256];
    _cleanup_close_ int fd = large_bundle((uint64_t)192 << 20);
    snprintf(text, sizeof text, long_request, ",\"time_max_ms\":1");
    say(text, &fd, 1);
    hear_failure(1, "file_timeout");
    assert_int_equal(count_below(""), 0);
}

static void a_gate_that_is_gone_wants_nothing(void **state)
{
    (void)state;
    char text[256], id[WHEEL_ID + 1];
    _cleanup_close_ int fd = large_bundle((uint64_t)192 << 20);
    snprintf(text, sizeof text, long_request, "");
    ask_store(7, WHEEL_B, ""); // waits for the sync when the gate goes
    say(text, &fd, 1);
    await_piece();
    fd_close(&gate);
    link_gate();
    ask_store(2, WHEEL_A, "");
    stored(2, id); // and nothing else was said
    assert_int_equal(count_below("tmp-"), 0);
    assert_true(count_below("") <= 2);
}

static void a_new_link_takes_the_place_of_a_gate_that_hangs(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1];
    int old = gate;
    link_gate();
    ask_store(2, WHEEL_A, "");
    stored(2, id);
    (void)close(old);
}

static void killed_and_started_again_it_sweeps(void **state)
{
    (void)state;
    char text[256], id[WHEEL_ID + 1];
    _cleanup_close_ int fd = large_bundle((uint64_t)192 << 20);
    ask_store(1, WHEEL_B, "");
    stored(1, id);
    snprintf(text, sizeof text, long_request, "");
    say(text, &fd, 1);
    await_piece();
    assert_int_equal(kill(porter_pid, SIGKILL), 0);
    assert_int_equal(waitpid(porter_pid, NULL, 0), porter_pid);
    assert_int_equal(count_below("tmp-"), 1);
    fd_close(&gate);
    fd_close(&keeper);
    start();
    say("{\"op\":\"list\",\"request\":4}", NULL, 0);
    json_t *o = hear_op("listed", 4);
    assert_int_equal(json_array_size(json_object_get(o, "wheels")), 1);
    json_decref(o);
    assert_int_equal(count_below("tmp-"), 0);
}

static void progress_is_told(void **state)
{
    (void)state;
    char text[256];
    unsigned progress = 0;
    // To a pipe that is read slowly: as long as wanted.
    char id[WHEEL_ID + 1];
    ask_store(1, WHEEL_A, "");
    stored(1, id);
    _cleanup_close_ int fd = large_bundle((uint64_t)8 << 20);
    snprintf(text, sizeof text,
             "{\"op\":\"store\",\"request\":2,\"sha256\":\"%s\",\"bytes_max\":100000000,\"files_"
             "max\":9}",
             WHEEL_B);
    say(text, &fd, 1);
    json_t *o = hear_op("stored", 2);
    snprintf(
        text, sizeof text,
        "{\"op\":\"export\",\"request\":3,\"manifest\":{},\"wheels\":[{\"sha256\":\"%s\",\"wheel\":"
        "\"%s\"}]}",
        WHEEL_B, json_string_value(json_object_get(o, "wheel")));
    json_decref(o);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    say(text, &ends[1], 1);
    (void)close(ends[1]);
    static char sink[1 << 20];
    ssize_t n;
    while ((n = read(ends[0], sink, sizeof sink)) > 0)
        (void)usleep(8000);
    o = hear_with(NULL, &progress);
    assert_string_equal(json_string_value(json_object_get(o, "op")), "exported");
    json_decref(o);
    (void)close(ends[0]);
    assert_true(progress > 0);
}

// ---- sealed -------------------------------------------------------------------------------------

static void it_is_sealed(void **state)
{
    (void)state;
    char path[64], text[4096];
    char id[WHEEL_ID + 1];
    ask_store(1, WHEEL_A, ""); // it serves, so it is
    stored(1, id);
    snprintf(path, sizeof path, "/proc/%d/status", porter_pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "NoNewPrivs:\t1"));
    assert_non_null(strstr(text, "CapEff:\t0000000000000000"));
    if (geteuid() == 0)
        assert_non_null(strstr(text, "CapBnd:\t0000000000000000"));
#ifndef CONSTRICTOR_SANITIZED
    assert_non_null(strstr(text, "Seccomp:\t2"));
#endif
}

// What the seal is about, tried by a process that has nothing else.
static void its_landlock_is_the_wheels_alone(void **state)
{
    (void)state;
    int folder, below, status;
    if (!landlock_abi()) {
        const char *must = getenv("MUST_WORK");
        assert_false(must && must[0] == '1');
        skip();
    }
    open_wheel_folders(&folder, &below);
    assert_int_equal(mkdirat(folder, "rows", 0700), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            landlock_seal_porter(landlock_abi(), below) < 0)
            _exit(1);
        int fd = openat(below, "f", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        bool can = fd >= 0 && mkdirat(below, "a", 0755) == 0 &&
                   renameat(below, "a", below, "b") == 0 && mkdirat(below, "b/c", 0755) == 0 &&
                   unlinkat(below, "b/c", AT_REMOVEDIR) == 0 &&
                   unlinkat(below, "b", AT_REMOVEDIR) == 0 && unlinkat(below, "f", 0) == 0;
        bool cannot = mkdirat(folder, "x", 0755) < 0 && mkdirat(folder, "rows/x", 0755) < 0 &&
                      openat(folder, "secret", O_RDONLY | O_CLOEXEC) < 0 &&
                      openat(folder, "rows/y", O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0 &&
                      renameat(folder, "wheels", folder, "other") < 0 &&
                      symlinkat("/etc", below, "l") < 0 &&
                      open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0;
        _exit(can ? cannot ? 0 : 3 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    (void)close(folder);
    (void)close(below);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(store_list_drop),
        TEST(many_at_once_are_answered_in_order),
        TEST(bad_requests),
        TEST(too_large_a_datagram_is_survived),
        TEST(export_and_import),
        TEST(a_long_manifest_travels_as_a_file),
        TEST(a_job_is_cancelled_half_way),
        TEST(a_disk_that_has_no_room_is_not_begun),
        TEST(time_is_limited),
        TEST(a_gate_that_is_gone_wants_nothing),
        TEST(a_new_link_takes_the_place_of_a_gate_that_hangs),
        TEST(killed_and_started_again_it_sweeps),
        TEST(progress_is_told),
        TEST(it_is_sealed),
        TEST(its_landlock_is_the_wheels_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
