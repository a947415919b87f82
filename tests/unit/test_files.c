// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of box/files: the test plays the gate, and the code that is busy in the folder.

#include "unit.h"

#include "files_server.h"

// ---- LIST ---------------------------------------------------------------------------------------

static void an_empty_folder(void **state)
{
    (void)state;
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_true(got.frames == 1 && got.count == 0);
    assert_true(got.filed.left_out == 0 && got.filed.odd == 0);
}

static void a_list_tells_what_is_there(void **state)
{
    (void)state;
    struct stat st;
    put("table.csv", "1,2\n");
    assert_int_equal(mkdir("a", 0755), 0);
    assert_int_equal(mkdir("a/b", 0755), 0);
    put("a/b/größe 😀.txt", "12345");
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, 4);
    const struct frame_entry *e = find("table.csv");
    assert_non_null(e);
    assert_int_equal(stat("table.csv", &st), 0);
    assert_true(e->stat.size == 4 && e->stat.inode == st.st_ino && e->folder == 0);
    assert_true(e->stat.mtime_ns == st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec);
    assert_true(e->stat.ctime_ns == st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec);
    assert_true((e = find("a/b")) && e->folder == 1 && e->stat.size == 0);
    assert_true((e = find("a/b/größe 😀.txt")) && e->stat.size == 5);
}

static void odd_things_are_counted_and_not_touched(void **state)
{
    (void)state;
    put("plain", "x");
    assert_int_equal(symlink("plain", "link"), 0);
    assert_int_equal(symlink("/etc", "link-to-folder"), 0);
    assert_int_equal(symlink("nothing", "dangling"), 0);
    assert_int_equal(symlink(".", "circle"), 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    put_socket("socket");
    unsigned odd = 6;
    static const char *const names[] = {"new\nline",  "bad\xff",    "over\xc0\xafong", "del\x7f",
                                        "esc\x1b[2J", "c1\xc2\x85", "tail\xe2\x82"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++, odd++)
        put(names[i], "x");
    assert_int_equal(mkdir("odd\nfolder", 0755), 0);
    put("odd\nfolder/inside", "x"); // cannot be named: not even counted
    odd++;
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, 1);
    assert_non_null(find("plain"));
    assert_int_equal(got.filed.odd, odd);
    assert_int_equal(got.filed.left_out, 0);
}

static void a_file_of_a_pebibyte(void **state)
{
    (void)state;
    put("huge", "");
    assert_int_equal(truncate("huge", 1LL << 50), 0);
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_true(find("huge") && find("huge")->stat.size == 1ULL << 50);
    assert_int_equal(ask(FILE_READ, "huge"), 0);
    assert_int_equal(got.filed.stat.size, 1ULL << 50);
    assert_int_equal(got.length, FRAME_DATA_MAX);
}

static void five_thousand_files(void **state)
{
    (void)state;
    put_many("many", 5000);
    put("at hand", "x");
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, FRAME_LIST_MAX);
    assert_int_equal(got.filed.left_out, 5002 - FRAME_LIST_MAX);
    assert_non_null(find("at hand")); // what is further down does not hide it
    assert_non_null(find("many"));
}

static void long_names_take_several_frames(void **state)
{
    (void)state;
    char path[FRAME_NAME_MAX + 1];
    for (unsigned i = 0; i < 600; i++) {
        snprintf(path, sizeof path, "%0*u", FRAME_NAME_MAX, i);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_true(got.frames > 2);
    assert_int_equal(got.count, 600);
    for (unsigned i = 0; i < got.count; i++)
        assert_int_equal(strlen(got.entries[i].path), FRAME_NAME_MAX);
}

// More folders than the list of pending ones holds: all counted, nothing broken.
static void very_many_folders(void **state)
{
    (void)state;
    char path[128];
    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof path, "%0100d", i);
        assert_int_equal(mkdir(path, 0755), 0);
        snprintf(path + 100, sizeof path - 100, "/%02d", i % 100);
        put(path, "x");
    }
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, FRAME_LIST_MAX);
    assert_in_range(got.count + got.filed.left_out, 3000 + 600, 6000);
}

static void folders_beyond_the_depth_are_odd(void **state)
{
    (void)state;
    put_deep(FRAME_DEPTH_MAX + 8);
    assert_int_equal(ask(FILE_LIST, ""), 0);
    // The deepest folder that has a name has a folder and a file in it, which have none.
    assert_int_equal(got.count, 2 * FRAME_DEPTH_MAX - 1);
    assert_int_equal(got.filed.odd, 2);
}

static void paths_beyond_the_length_are_odd(void **state)
{
    (void)state;
    char name[FRAME_NAME_MAX + 1];
    memset(name, 'n', FRAME_NAME_MAX);
    name[FRAME_NAME_MAX] = '\0';
    for (int i = 0; i < 6; i++) {
        assert_int_equal(mkdir(name, 0755), 0);
        assert_int_equal(chdir(name), 0);
    }
    assert_int_equal(chdir(root), 0);
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, 4); // 4 * 255 + 3 = 1023 bytes
    assert_int_equal(got.filed.odd, 1);
}

static void a_hundred_thousand_files(void **state)
{
    (void)state;
    put_many("many", FRAME_COUNT_MAX + 500);
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, FRAME_LIST_MAX);
    assert_in_range(got.filed.left_out, FRAME_COUNT_MAX - FRAME_LIST_MAX - 10, FRAME_COUNT_MAX);
    assert_int_equal(ask(FILE_DELETE, "many"), E2BIG); // bounded in one go, and goes on
    assert_int_equal(ask(FILE_DELETE, "many"), 0);
    assert_int_equal(access("many", F_OK), -1);
}

// ---- READ ---------------------------------------------------------------------------------------

static void a_file_is_read_in_parts(void **state)
{
    (void)state;
    assert_int_equal(mkdir("a", 0755), 0);
    put("a/file", "hello");
    assert_int_equal(ask(FILE_READ, "a/file"), 0);
    assert_int_equal(got.filed.stat.size, 5);
    assert_true(got.length == 5 && memcmp(got.data, "hello", 5) == 0);
    uint64_t inode = got.filed.stat.inode;
    assert_int_equal(ask_part("a/file", inode, 1, 3), 0);
    assert_true(got.length == 3 && memcmp(got.data, "ell", 3) == 0);
    assert_int_equal(got.filed.stat.inode, inode);
    assert_int_equal(ask_part("a/file", inode, 4, FRAME_DATA_MAX), 0);
    assert_int_equal(got.length, 1);
    assert_int_equal(ask_part("a/file", inode, 5, 10), 0);
    assert_int_equal(got.length, 0);
    assert_int_equal(ask_part("a/file", inode, 1ULL << 62, 10), 0);
    assert_int_equal(got.length, 0);
    assert_int_equal(ask_part("a/file", inode, 0, 0), 0);
    assert_int_equal(got.length, 0);
}

// Parts of two files are never mixed.
static void another_file_of_that_name_is_stale(void **state)
{
    (void)state;
    put("file", "old");
    put("other", "new");
    assert_int_equal(ask(FILE_READ, "file"), 0);
    uint64_t inode = got.filed.stat.inode;
    assert_int_equal(rename("other", "file"), 0);
    assert_int_equal(ask_part("file", inode, 0, 10), ESTALE);
    assert_int_equal(got.length, 0);
    assert_int_equal(unlink("file"), 0);
    assert_int_equal(ask_part("file", inode, 0, 10), ENOENT);
}

static void what_is_not_read(void **state)
{
    (void)state;
    char deep[3 * FRAME_DEPTH_MAX] = "", name[FRAME_NAME_MAX + 2];
    put("plain", "x");
    put(".hidden", "x");
    assert_int_equal(mkdir("folder", 0755), 0);
    assert_int_equal(symlink("plain", "link"), 0);
    assert_int_equal(symlink("/etc", "etc"), 0);
    assert_int_equal(symlink("folder", "other"), 0);
    put("folder/file", "x");
    assert_int_equal(mkfifo("fifo", 0644), 0);
    put_socket("socket");
    for (int i = 0; i < FRAME_DEPTH_MAX + 1; i++)
        memcpy(deep + 2 * i, "d/", 3);
    deep[2 * (FRAME_DEPTH_MAX + 1) - 1] = '\0';
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct {
        const char *path;
        int errnum;
    } cases[] = {
        {"nothing", ENOENT},
        {"folder/nothing", ENOENT},
        {"folder", EISDIR},
        {"link", ELOOP},
        {"etc/passwd", ELOOP},
        {"other/file", ELOOP},
        {"plain/file", ENOTDIR},
        {"fifo", ENXIO},
        {"socket", ENXIO},
        {"../x", EINVAL},
        {"..", EINVAL},
        {".", EINVAL},
        {"", EINVAL},
        {"/etc/passwd", EINVAL},
        {"folder/../plain", EINVAL},
        {"folder//file", EINVAL},
        {"folder/", EINVAL},
        {"./plain", EINVAL},
        {"folder/./file", EINVAL},
        {deep, EINVAL},
        {name, EINVAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int errnum = ask(FILE_READ, cases[i].path);
        if (errnum != cases[i].errnum)
            fail_msg("'%s' gave %d", cases[i].path, errnum);
    }
    assert_int_equal(ask_raw(FILE_READ, "plain\0x", 7, 0), EINVAL);
    assert_int_equal(ask(FILE_READ, ".hidden"), 0);
}

// It would see the end of its file, and be killed by SIGPIPE at the next write.
static void a_writer_that_waits_at_a_fifo_goes_on_waiting(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("fifo", 0644), 0);
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open("fifo", O_WRONLY);
        _exit(fd >= 0);
    }
    (void)usleep(20000);
    assert_int_equal(ask(FILE_READ, "fifo"), ENXIO);
    (void)usleep(20000);
    int status;
    assert_int_equal(waitpid(writer, &status, WNOHANG), 0);
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, &status, 0), writer);
}

// ---- CREATE, WRITE, COMMIT, ABORT ---------------------------------------------------------------

static void a_file_is_replaced_at_once_or_not_at_all(void **state)
{
    (void)state;
    struct stat st;
    put("file", "old");
    assert_int_equal(ask(FILE_CREATE, "file"), 0);
    assert_int_equal(ask_write("file", 7, 2, "w!"), 0);
    assert_int_equal(ask_write("file", 7, 0, "ne"), 0);
    assert_true(holds("file", "old"));
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, 1); // what is on its way is not shown
    assert_int_equal(ask(FILE_COMMIT, "file"), 0);
    assert_int_equal(got.filed.stat.size, 4);
    assert_true(holds("file", "new!"));
    assert_int_equal(stat("file", &st), 0);
    assert_int_equal(got.filed.stat.inode, st.st_ino);
    assert_int_equal(st.st_mtim.tv_nsec, 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    // Code changes it in the same tick of the clock, to the same size.
    put("file", "NEW!");
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_true(find("file")->stat.mtime_ns % 1000000000 != 0);

    assert_int_equal(ask(FILE_CREATE, "file"), 0);
    assert_int_equal(ask_write("file", 7, 0, "never"), 0);
    assert_int_equal(ask(FILE_ABORT, "file"), 0);
    assert_int_equal(ask(FILE_ABORT, "file"), ENOENT);
    assert_int_equal(ask(FILE_COMMIT, "file"), ENOENT);
    assert_int_equal(ask_write("file", 7, 0, "x"), ENOENT);
    assert_true(holds("file", "NEW!"));
}

static void folders_on_the_way_are_made(void **state)
{
    (void)state;
    assert_int_equal(mkdir("a", 0755), 0);
    struct frame_file f = {.op = FILE_CREATE, .ticket = 7, .length = 1};
    assert_int_equal(ask_file(f, "a/b/c/d.txt", 11, "x"), 0); // with its first bytes
    assert_int_equal(ask(FILE_COMMIT, "a/b/c/d.txt"), 0);
    assert_true(holds("a/b/c/d.txt", "x"));
}

static void two_files_are_written_at_one_time(void **state)
{
    (void)state;
    assert_int_equal(ask_raw(FILE_CREATE, "one", 3, 1), 0);
    assert_int_equal(ask_raw(FILE_CREATE, "two", 3, 0xfffffffe), 0);
    assert_int_equal(ask_write("two", 0xfffffffe, 0, "2"), 0);
    assert_int_equal(ask_write("one", 1, 0, "1"), 0);
    assert_int_equal(ask_raw(FILE_COMMIT, "two", 3, 0xfffffffe), 0);
    assert_int_equal(ask_raw(FILE_COMMIT, "one", 3, 1), 0);
    assert_true(holds("one", "1") && holds("two", "2"));
}

static void where_no_file_can_be_written(void **state)
{
    (void)state;
    put("plain", "x");
    assert_int_equal(mkdir("folder", 0755), 0);
    assert_int_equal(symlink(outside, "out"), 0);
    assert_int_equal(ask(FILE_CREATE, "folder"), EISDIR);
    assert_int_equal(ask(FILE_CREATE, "plain/file"), ENOTDIR);
    assert_int_equal(ask(FILE_CREATE, "plain/more/file"), ENOTDIR);
    assert_int_equal(ask(FILE_CREATE, "out/file"), ELOOP);
    assert_int_equal(ask(FILE_CREATE, "out/more/file"), ELOOP);
    assert_int_equal(ask(FILE_CREATE, "../file"), EINVAL);
    // It became a folder meanwhile: what was written goes.
    assert_int_equal(ask(FILE_CREATE, "later"), 0);
    assert_int_equal(ask_write("later", 7, 0, "x"), 0);
    assert_int_equal(mkdir("later", 0755), 0);
    assert_int_equal(ask(FILE_COMMIT, "later"), EISDIR);
    assert_int_equal(ask(FILE_ABORT, "later"), ENOENT);
    assert_int_equal(ask(FILE_DELETE, "later"), 0);
}

// Code puts something else in the place of what is being written.
static void what_is_written_is_not_what_was_made(void **state)
{
    (void)state;
    static const char part[] = ".constrictor-00000007.part";
    char target[128];
    snprintf(target, sizeof target, "%s/target", outside);
    put(target, "theirs");
    assert_int_equal(ask(FILE_CREATE, "file"), 0);
    uint64_t inode = got.filed.stat.inode;
    struct frame_file f = {.op = FILE_WRITE, .ticket = 7, .inode = inode, .length = 4};
    assert_int_equal(ask_file(f, "file", 4, "ours"), 0);
    put("other", "other");
    assert_int_equal(rename("other", part), 0);
    assert_int_equal(ask_file(f, "file", 4, "ours"), ESTALE);
    assert_true(holds(part, "other"));
    assert_int_equal(unlink(part), 0);
    assert_int_equal(ask_file(f, "file", 4, "ours"), ENOENT);
    f.inode = 0;
    assert_int_equal(symlink(target, part), 0);
    assert_int_equal(ask_file(f, "file", 4, "ours"), ELOOP);
    assert_int_equal(unlink(part), 0);
    assert_int_equal(mkfifo(part, 0644), 0);
    assert_int_equal(ask_file(f, "file", 4, "ours"), ENXIO);
    assert_true(holds(target, "theirs"));
}

static void a_link_is_replaced_and_not_followed(void **state)
{
    (void)state;
    char target[128];
    snprintf(target, sizeof target, "%s/target", outside);
    put(target, "theirs");
    assert_int_equal(symlink(target, "link"), 0);
    assert_int_equal(ask(FILE_CREATE, "link"), 0);
    assert_int_equal(ask_write("link", 7, 0, "ours"), 0);
    assert_int_equal(ask(FILE_COMMIT, "link"), 0);
    assert_true(holds(target, "theirs") && holds("link", "ours"));
}

static void what_another_gate_left_behind_is_in_nobodys_way(void **state)
{
    (void)state;
    put(".constrictor-00000007.part", "old and longer");
    assert_int_equal(ask(FILE_CREATE, "file"), 0);
    assert_int_equal(ask_write("file", 7, 0, "new"), 0);
    assert_int_equal(ask(FILE_COMMIT, "file"), 0);
    assert_true(holds("file", "new"));
    // No request names it: a list sweeps it, once it is old.
    put(".constrictor-0000000a.part", "half of");
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(access(".constrictor-0000000a.part", F_OK), 0);
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, ".constrictor-0000000a.part", times, 0), 0);
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(access(".constrictor-0000000a.part", F_OK), -1);
    assert_int_equal(got.count, 1);
    // Code that takes the name for itself gets an error and nothing else.
    assert_int_equal(mkdir(".constrictor-00000007.part", 0755), 0);
    assert_int_equal(ask(FILE_CREATE, "file"), EEXIST);
}

// ---- DELETE -------------------------------------------------------------------------------------

static void files_links_and_folders_are_removed(void **state)
{
    (void)state;
    char target[128];
    snprintf(target, sizeof target, "%s/target", outside);
    put(target, "theirs");
    put("file", "x");
    assert_int_equal(symlink(target, "link"), 0);
    assert_int_equal(symlink(outside, "folder-link"), 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_int_equal(mkdir("empty", 0755), 0);
    static const char *const names[] = {"file", "link", "folder-link", "fifo", "empty"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(ask(FILE_DELETE, names[i]), 0);
        assert_int_equal(ask(FILE_DELETE, names[i]), ENOENT);
    }
    assert_true(holds(target, "theirs"));
    assert_int_equal(symlink(outside, "out"), 0);
    assert_int_equal(ask(FILE_DELETE, "out/target"), ELOOP);
    assert_true(holds(target, "theirs"));
}

static void a_whole_tree_is_removed_and_nothing_beside_it(void **state)
{
    (void)state;
    char target[128];
    snprintf(target, sizeof target, "%s/target", outside);
    put(target, "theirs");
    assert_int_equal(mkdir("keep", 0755), 0);
    put("keep/this", "x");
    assert_int_equal(mkdir("tree", 0755), 0);
    put_many("tree/many", 3000);
    put_many("tree/many/more", 10);
    assert_int_equal(mkdir("tree/.constrictor-00000000.part", 0755), 0); // in the way of a move
    put_many("tree/.constrictor-00000000.part/x", 1);
    put("tree/bad\xff\n", "x");
    assert_int_equal(symlink(outside, "tree/out"), 0);
    assert_int_equal(symlink(outside, "tree/many/out"), 0);
    assert_int_equal(symlink("../../keep", "tree/many/more/keep"), 0);
    assert_int_equal(mkfifo("tree/many/fifo", 0), 0);
    assert_int_equal(chdir("tree"), 0);
    put_deep(300); // far beyond what can be named, and back in the root
    assert_int_equal(ask(FILE_DELETE, "tree"), 0);
    assert_int_equal(access("tree", F_OK), -1);
    assert_true(holds(target, "theirs") && holds("keep/this", "x"));
    assert_int_equal(ask(FILE_LIST, ""), 0);
    assert_int_equal(got.count, 2);
}

// The same without the right to do everything: folders that their owner made read-only go as well.
static void a_tree_without_permissions(void **state)
{
    (void)state;
    assert_int_equal(mkdir("tree", 0777), 0);
    assert_int_equal(chown(root, 65534, 65534), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        bool fine =
            mkdir("mine", 0777) == 0 && mkdir("mine/a", 0777) == 0 && mkdir("mine/a/b", 0777) == 0;
        put("mine/a/b/file", "x");
        fine = fine && chmod("mine/a/b", 0) == 0 && chmod("mine/a", 0555) == 0 &&
               chmod("mine", 0500) == 0;
        int pair[2];
        unit_socketpair(pair);
        struct frame_file f = {.op = FILE_DELETE, .path_length = 4};
        char frame[sizeof f + 4], answer[256];
        memcpy(frame, &f, sizeof f);
        memcpy(frame + sizeof f, "mine", 4);
        fine = fine && files_serve(pair[0], root, true, frame, sizeof frame);
        struct frame_filed filed;
        fine = fine && recv(pair[1], answer, sizeof answer, 0) ==
                           (ssize_t)(sizeof(struct frame_header) + sizeof filed);
        memcpy(&filed, answer + sizeof(struct frame_header), sizeof filed);
        _exit(fine && filed.errnum == 0 && access("mine", F_OK) < 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

// ---- the rest -----------------------------------------------------------------------------------

static void requests_that_no_gate_makes(void **state)
{
    (void)state;
    struct frame_file f = {.op = FILE_LIST};
    char frame[sizeof f + 8] = {0};
    int pair[2];
    unit_socketpair(pair);
    for (size_t n = 0; n < sizeof f; n++)
        assert_false(files_serve(pair[0], root, true, frame, n));
    const struct frame_file bad[] = {
        {.op = 0},
        {.op = FILE_OP_MAX},
        {.op = 0xffffffff},
        {.op = FILE_READ, .path_length = 9},
        {.op = FILE_READ, .path_length = 7},
        {.op = FILE_READ, .path_length = 0xffffffff},
        {.op = FILE_READ, .path_length = FRAME_PATH_MAX + 1},
        {.op = FILE_READ, .path_length = 8, .length = FRAME_DATA_MAX + 1},
        {.op = FILE_READ, .path_length = 8, .offset = INT64_MAX},
        {.op = FILE_READ, .path_length = 8, .offset = UINT64_MAX},
        {.op = FILE_READ, .path_length = 8, .reserved = 1},
        {.op = FILE_WRITE, .path_length = 8, .length = 1},
        {.op = FILE_WRITE, .path_length = 4, .length = 5},
        {.op = FILE_WRITE, .path_length = 4, .length = 0xfffffffc},
        {.op = FILE_CREATE, .path_length = 4, .length = 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        memcpy(frame, &bad[i], sizeof f);
        assert_false(files_serve(pair[0], root, true, frame, sizeof frame));
    }
    char answer[256];
    assert_int_equal(recv(pair[1], answer, sizeof answer, MSG_DONTWAIT), -1);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void without_the_folder_there_is_an_answer(void **state)
{
    (void)state;
    assert_int_equal(rmdir(root), 0);
    for (int op = FILE_LIST; op <= FILE_DELETE; op++)
        assert_int_equal(ask((enum frame_file_op)op, op == FILE_LIST ? "" : "x"), ENOENT);
    assert_int_equal(symlink("/etc", root), 0);
    assert_int_equal(ask(FILE_LIST, ""), ENOTDIR); // not even there is a link followed
    assert_int_equal(unlink(root), 0);
}

static void whether_a_run_goes_on(void **state)
{
    (void)state;
    assert_int_equal(rmdir(root), 0); // needs no folder
    assert_int_equal(ask(FILE_BUSY, ""), 0);
    assert_int_equal(got.filed.count, 1);
    int pair[2];
    unit_socketpair(pair);
    struct frame_file f = {.op = FILE_BUSY};
    struct {
        struct frame_header h;
        struct frame_filed filed;
    } m;
    assert_true(files_serve(pair[0], root, false, &f, sizeof f));
    assert_int_equal(recv(pair[1], &m, sizeof m, 0), sizeof m.h + sizeof m.filed);
    assert_int_equal(m.filed.count, 0);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

static void usage_tells_that_something_was_made(void **state)
{
    (void)state;
    struct files_usage before = files_usage(root);
    assert_true(before.inodes > 0 && before.inodes != UINT64_MAX);
    put("empty", "");
    struct files_usage after = files_usage(root);
    assert_true(after.inodes > before.inodes); // others use /dev/shm as well, but seldom remove
    put("empty", "x");
    assert_true(files_usage(root).blocks > before.blocks);
    assert_true(files_usage("/nothing/there").inodes == UINT64_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_folder),
        TEST(a_list_tells_what_is_there),
        TEST(odd_things_are_counted_and_not_touched),
        TEST(a_file_of_a_pebibyte),
        TEST(five_thousand_files),
        TEST(long_names_take_several_frames),
        TEST(very_many_folders),
        TEST(folders_beyond_the_depth_are_odd),
        TEST(paths_beyond_the_length_are_odd),
        TEST(a_hundred_thousand_files),
        TEST(a_file_is_read_in_parts),
        TEST(another_file_of_that_name_is_stale),
        TEST(what_is_not_read),
        TEST(a_writer_that_waits_at_a_fifo_goes_on_waiting),
        TEST(a_file_is_replaced_at_once_or_not_at_all),
        TEST(folders_on_the_way_are_made),
        TEST(two_files_are_written_at_one_time),
        TEST(where_no_file_can_be_written),
        TEST(what_is_written_is_not_what_was_made),
        TEST(a_link_is_replaced_and_not_followed),
        TEST(what_another_gate_left_behind_is_in_nobodys_way),
        TEST(files_links_and_folders_are_removed),
        TEST(a_whole_tree_is_removed_and_nothing_beside_it),
        TEST(requests_that_no_gate_makes),
        TEST(without_the_folder_there_is_an_answer),
        TEST(whether_a_run_goes_on),
        TEST(usage_tells_that_something_was_made),
        TEST(a_tree_without_permissions),
    };
    // The last ones change owners, which only root can.
    size_t count = ARRAY_LEN(tests) - (geteuid() == 0 ? 0 : 1);
    return _cmocka_run_group_tests("files", tests, count, NULL, NULL);
}
