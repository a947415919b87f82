// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of porter/wheels, piece and tree: wheels are whole or not there, whatever happens, and
// nothing leads out of them.

#include "open_wheels.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "porter/folder.h"
#include "porter/unpack.h"

// ---- names --------------------------------------------------------------------------------------

static void ids_follow_the_secret_the_wheel_and_the_scope(void **state)
{
    (void)state;
    char a[WHEEL_ID + 1], b[WHEEL_ID + 1];
    struct stat st;
    assert_int_equal(wheels_id(&wheels, WHEEL_A, "", a), 0);
    assert_int_equal(wheels_id(&wheels, WHEEL_A, "", b), 0);
    assert_string_equal(a, b);
    assert_true(wheels_is_id(a));
    assert_int_equal(wheels_id(&wheels, WHEEL_B, "", b), 0);
    assert_string_not_equal(a, b);
    assert_int_equal(wheels_id(&wheels, WHEEL_A, "key", b), 0);
    assert_string_not_equal(a, b);
    // The secret stays when the server starts again.
    wheels_close(&wheels);
    open_test_wheels(&wheels);
    assert_int_equal(wheels_id(&wheels, WHEEL_A, "", b), 0);
    assert_string_equal(a, b);
    assert_int_equal(fstatat(wheels.parent, "secret", &st, 0), 0);
    assert_true((st.st_mode & 0777) == 0600 && st.st_size == WHEEL_SECRET);
    // Another one, other names.
    assert_int_equal(unlinkat(wheels.parent, "secret", 0), 0);
    wheels_close(&wheels);
    open_test_wheels(&wheels);
    assert_int_equal(wheels_id(&wheels, WHEEL_A, "", b), 0);
    assert_string_not_equal(a, b);
    static const char *const bad[] = {"", "a", WHEEL_A "a", "../../../../etc/passwd"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(wheels_id(&wheels, bad[i], "", b), -1);
    char capital[] = WHEEL_A;
    capital[5] = 'A';
    assert_int_equal(wheels_id(&wheels, capital, "", b), -1);
    assert_false(wheels_is_id(NULL));
    assert_false(wheels_is_id("tmp-"));
}

static void a_secret_that_is_none_is_not_replaced(void **state)
{
    (void)state;
    struct wheels other;
    static const char *const texts[] = {"", "short", "012345678901234567890123456789012"};
    int fds = unit_fd_count();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = {0};
        int folder, below;
        (void)unlinkat(wheels.parent, "secret", 0);
        int fd = openat(wheels.parent, "secret", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(fd_write_all(fd, texts[i], strlen(texts[i])), 0);
        (void)close(fd);
        open_wheel_folders(&folder, &below);
        assert_true(wheels_open(&other, folder, below, 0, &e) < 0);
        assert_int_equal(e.code, ERR_STATE_FOLDER);
    }
    assert_int_equal(unlinkat(wheels.parent, "secret", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", wheels.parent, "secret"), 0);
    int folder, below;
    open_wheel_folders(&folder, &below);
    assert_true(wheels_open(&other, folder, below, 0, NULL) < 0);
    assert_int_equal(unlinkat(wheels.parent, "secret", 0), 0);
    assert_int_equal(mkfifoat(wheels.parent, "secret", 0600), 0);
    open_wheel_folders(&folder, &below);
    assert_true(wheels_open(&other, folder, below, 0, NULL) < 0);
    assert_int_equal(unit_fd_count(), fds);
}

// ---- storing ------------------------------------------------------------------------------------

static void a_wheel_is_what_was_in_the_bundle(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1], text[64];
    int fds = unit_fd_count();
    store_good(WHEEL_A, id);
    assert_int_equal(unit_fd_count(), fds);
    assert_true(wheels_has(&wheels, id));
    read_in_wheel(&wheels, id, "pkg/deep/er/__init__.py", text, sizeof text);
    assert_string_equal(text, "x = 1\n");
    read_in_wheel(&wheels, id, "pkg/empty.py", text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(mode_of(id, "pkg/deep/tool"), S_IFREG | 0555);
    assert_int_equal(mode_of(id, "pkg/__init__.py"), S_IFREG | 0444);
    assert_int_equal(mode_of(id, "pkg/deep"), S_IFDIR | 0755);
    assert_int_equal(look(id).st_mode, S_IFDIR | 0755);
    assert_int_equal(look(".").st_mode, S_IFDIR | 0311);
    assert_int_equal(count_below("tmp-"), 0);
    // The same once more: the first one stays.
    ino_t before = look(id).st_ino;
    store_good(WHEEL_A, id);
    assert_int_equal(look(id).st_ino, before);
    assert_int_equal(count_below(""), 1);
}

static void a_bad_bundle_leaves_nothing(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1];
    draft_good(&draft);
    int fds = unit_fd_count();
    for (size_t n = 0; n < draft.size; n += 3) {
        struct err e = {0};
        int fd = draft_open(draft.data, n);
        assert_int_equal(store_fd(fd, WHEEL_A, &plenty, id, &e), -EBADMSG);
        (void)close(fd);
    }
    assert_int_equal(count_below(""), 0);
    assert_int_equal(unit_fd_count(), fds);
}

// Even if the bundle's check of paths failed.
static void a_piece_cannot_be_left(void **state)
{
    (void)state;
    struct unpack piece;
    struct err e = {0};
    assert_int_equal(unpack_begin(&piece, &wheels, &e), 0);
    struct bundle_sink sink = unpack_sink(&piece);
    assert_int_equal(symlinkat(wheels_parent, piece.folders[0], "out"), 0);
    static const char *const paths[] = {"out/x", "out"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct bundle_entry entry = {.length = strlen(paths[i])};
        memcpy(entry.path, paths[i], entry.length + 1);
        assert_true(sink.begin(sink.argument, &entry, &e) < 0);
    }
    unpack_discard(&piece);
    assert_int_equal(faccessat(wheels.parent, "x", F_OK, 0), -1);
    assert_int_equal(faccessat(wheels.parent, "secret", F_OK, 0), 0);
    assert_int_equal(count_below(""), 0);
}

static void many_folders_in_any_order(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1], path[64], text[16];
    struct err e = {0};
    draft_begin(&draft);
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "p%d/q%d/r%d/f%d", i % 3, i % 7, i % 11, i);
        snprintf(text, sizeof text, "%d", i);
        draft_file(&draft, path, 0, text);
    }
    draft_end(&draft);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    struct bundle_size limit = {.bytes = 10000, .files = 400};
    assert_int_equal(store_fd(fd, WHEEL_A, &limit, id, &e), 0);
    for (int i = 0; i < 300; i++) {
        char want[16];
        snprintf(path, sizeof path, "p%d/q%d/r%d/f%d", i % 3, i % 7, i % 11, i);
        snprintf(want, sizeof want, "%d", i);
        read_in_wheel(&wheels, id, path, text, sizeof text);
        assert_string_equal(text, want);
    }
}

// ---- listing, dropping, sweeping ----------------------------------------------------------------

static void listing_goes_in_pages_and_needs_no_mode(void **state)
{
    (void)state;
    enum { LAYERS = 137, PAGE = 10 };
    char wheel[WHEEL_SHA256 + 1] = WHEEL_A, id[WHEEL_ID + 1], page[PAGE][WHEEL_ID + 1];
    char after[WHEEL_ID + 1] = "";
    unsigned seen = 0;
    for (int i = 0; i < LAYERS; i++) {
        snprintf(wheel, sizeof wheel, "%064x", i);
        assert_int_equal(wheels_id(&wheels, wheel, "", id), 0);
        assert_int_equal(mkdirat(wheels.folder, id, 0755), 0);
    }
    assert_int_equal(mkdirat(wheels.folder, "tmp-0123456789abcdef", 0755), 0);
    assert_int_equal(mkdirat(wheels.folder, "other", 0755), 0);
    for (;;) {
        size_t count;
        bool more;
        assert_int_equal(wheels_list(&wheels, after, page, PAGE, &count, &more, NULL), 0);
        for (size_t i = 0; i < count; i++, seen++) {
            assert_true(strcmp(page[i], after) > 0);
            memcpy(after, page[i], sizeof after);
        }
        assert_int_equal(more, seen < LAYERS);
        if (!more)
            break;
        assert_int_equal(count, PAGE);
    }
    assert_int_equal(seen, LAYERS);
    size_t count;
    bool more;
    assert_int_equal(
        wheels_list(&wheels, "ffffffffffffffffffffffffffffffff", page, PAGE, &count, &more, NULL),
        0);
    assert_true(count == 0 && !more);
}

static void dropping_and_sweeping_follow_no_link(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1], id_b[WHEEL_ID + 1];
    struct err e = {0};
    store_good(WHEEL_A, id);
    store_good(WHEEL_B, id_b);
    // Something that is worth to be kept, and links to it from everywhere.
    assert_int_equal(mkdirat(wheels.parent, "precious", 0755), 0);
    int fd = openat(wheels.parent, "precious/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    char full[128];
    snprintf(full, sizeof full, "%s/pkg/link", id);
    assert_int_equal(symlinkat("../../../precious", wheels.folder, full), 0);
    assert_int_equal(symlinkat("../precious", wheels.folder, "tmp-link"), 0);
    assert_int_equal(mkdirat(wheels.folder, "tmp-0", 0755), 0);
    assert_int_equal(symlinkat("../../precious", wheels.folder, "tmp-0/l"), 0);
    assert_int_equal(mkfifoat(wheels.folder, "tmp-0/p", 0600), 0);
    assert_int_equal(mkdirat(wheels.folder, "tmp-0/d", 0755), 0);
    assert_int_equal(wheels_drop(&wheels, id, &e), 0);
    assert_int_equal(wheels_drop(&wheels, id, &e), -ENOENT);
    assert_false(wheels_has(&wheels, id));
    assert_int_equal(wheels_sweep(&wheels, &e), 0);
    assert_int_equal(count_below(""), 1);
    assert_true(wheels_has(&wheels, id_b));
    assert_int_equal(faccessat(wheels.parent, "precious/x", F_OK, 0), 0);
    static const char *const bad[] = {"", "..", "../precious", "tmp-0", "."};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(wheels_drop(&wheels, bad[i], &e), -EINVAL);
}

static void a_tree_that_is_too_deep_is_left(void **state)
{
    (void)state;
    int at = openat(wheels.folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fds = unit_fd_count();
    for (int i = 0; i < FOLDER_DEPTH_MAX + 3; i++) {
        const char *name = i ? "d" : "tmp-deep";
        assert_int_equal(mkdirat(at, name, 0755), 0);
        int below = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = below;
    }
    struct err e = {0};
    assert_true(wheels_sweep(&wheels, &e) < 0);
    assert_int_equal(unit_fd_count(), fds);
    (void)close(at);
}

// ---- kill -9 ------------------------------------------------------------------------------------

static void killed_at_any_moment_no_wheel_is_half(void **state)
{
    (void)state;
    enum { KILLS = 50 };
    unsigned done = 0, cut = 0;
    srandom((unsigned)time(NULL));
    for (unsigned i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            // Layers as fast as it can, and every second one goes again.
            for (unsigned n = 0;; n++) {
                char wheel[WHEEL_SHA256 + 1], id[WHEEL_ID + 1];
                snprintf(wheel, sizeof wheel, "%060x%04x", i, n);
                store_good(wheel, id);
                if (n % 2)
                    (void)wheels_drop(&wheels, id, NULL);
            }
        }
        (void)usleep((useconds_t)(random() % 10000));
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        cut += count_below("tmp-") > 0;
        assert_int_equal(wheels_sweep(&wheels, NULL), 0);
        assert_int_equal(count_below("tmp-"), 0);
        char page[2048][WHEEL_ID + 1];
        size_t count;
        bool more;
        assert_int_equal(wheels_list(&wheels, "", page, 2048, &count, &more, NULL), 0);
        for (size_t k = 0; k < count; k++) {
            is_whole(page[k]);
            assert_int_equal(wheels_drop(&wheels, page[k], NULL), 0);
        }
        done += (unsigned)count;
    }
    // Else the test would not have met the moments that matter.
    print_message("%u wheels, %u of %d kills met one half way\n", done, cut, KILLS);
    assert_true(done > 0 && cut > 0);
}

// ---- a full disk --------------------------------------------------------------------------------

// In a mount namespace, so that no other process sees it.  False: there can be none here.
static bool small_disk(const char *options)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[32];
    if (unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0)
        return false;
    if (uid) {
        snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
        (void)file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        if (file_write_at(AT_FDCWD, "/proc/self/uid_map", map) < 0)
            return false;
        snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
        if (file_write_at(AT_FDCWD, "/proc/self/gid_map", map) < 0)
            return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("small", wheels_parent, "tmpfs", 0, options) == 0;
}

static _Noreturn void fill_disk(const char *options)
{
    char id[WHEEL_ID + 1], text[32 * 1024];
    struct err e = {0};
    if (!small_disk(options))
        _exit(77);
    open_test_wheels(&wheels);
    int fds = unit_fd_count();
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    draft_begin(&draft);
    draft_file(&draft, "a/b/c", 0, text);
    draft_file(&draft, "a/b/d", 0, "x");
    draft_end(&draft);
    int r = 0, stored = 0;
    for (int i = 0; r == 0 && i < 100; i++) {
        char wheel[WHEEL_SHA256 + 1];
        snprintf(wheel, sizeof wheel, "%064x", i);
        int fd = draft_open(draft.data, draft.size);
        r = store_fd(fd, wheel, &plenty, id, &e);
        stored += r == 0;
        (void)close(fd);
    }
    if (r != -ENOSPC || e.code != ERR_DISK_FULL || !e.hint[0] || !stored)
        _exit(2);
    if ((int)count_below("") != stored || count_below("tmp-") || unit_fd_count() != fds)
        _exit(3);
    // When there is room again, it works again.
    char page[1][WHEEL_ID + 1];
    size_t count;
    bool more;
    if (wheels_list(&wheels, "", page, 1, &count, &more, &e) < 0 || count != 1 ||
        wheels_drop(&wheels, page[0], &e) < 0)
        _exit(4);
    int fd = draft_open(draft.data, draft.size);
    if (store_fd(fd, WHEEL_B, &plenty, id, &e) < 0)
        _exit(5);
    if (wheels_check_room(&wheels, 1 << 20, &e) != -ENOSPC || e.code != ERR_DISK_FULL)
        _exit(6);
    _exit(0);
}

static void a_full_disk_leaves_nothing_half(void **state)
{
    (void)state;
    static const char *const disks[] = {"size=512k", "size=900k,nr_inodes=30"};
    for (size_t i = 0; i < ARRAY_LEN(disks); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            fill_disk(disks[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            print_message("no mount namespace here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void a_file_that_is_larger_than_allowed_here(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char id[WHEEL_ID + 1];
        struct err e = {0};
        struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
        draft_good(&draft);
        int fd = draft_open(draft.data, draft.size);
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)setrlimit(RLIMIT_FSIZE, &limit);
        int r = store_fd(fd, WHEEL_A, &plenty, id, &e);
        _exit(r == -EFBIG && e.code == ERR_DISK_FULL && count_below("") == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(ids_follow_the_secret_the_wheel_and_the_scope),
        TEST(a_secret_that_is_none_is_not_replaced),
        TEST(a_wheel_is_what_was_in_the_bundle),
        TEST(a_bad_bundle_leaves_nothing),
        TEST(a_piece_cannot_be_left),
        TEST(many_folders_in_any_order),
        TEST(listing_goes_in_pages_and_needs_no_mode),
        TEST(dropping_and_sweeping_follow_no_link),
        TEST(a_tree_that_is_too_deep_is_left),
        cmocka_unit_test_setup_teardown(killed_at_any_moment_no_wheel_is_half, begin_fast, end),
        TEST(a_full_disk_leaves_nothing_half),
        TEST(a_file_that_is_larger_than_allowed_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
