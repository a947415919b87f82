// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of cli/saver: what the process writes for an honest gate, and what it does not do
// for one that was taken over.

#include "unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/saver.h"

struct folder {
    char top[64]; // holds the folder of --out, and things beside it
    struct config *config;
    struct saver saver;
};

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static void begin(struct folder *p)
{
    struct err e = {0};
    snprintf(p->top, sizeof p->top, "/var/tmp/constrictor-unit.XXXXXX");
    assert_non_null(mkdtemp(p->top));
    p->config = calloc(1, sizeof *p->config);
    assert_non_null(p->config);
    snprintf(p->config->out, sizeof p->config->out, "%s/out", p->top);
    p->config->json = true; // quiet
    p->config->scratch_bytes = 64 << 20;
    if (saver_start(&p->saver, p->config, &e) < 0)
        fail_msg("%s", e.message);
}

static void end(struct folder *p)
{
    fd_close(&p->saver.sock);
    saver_end(&p->saver, false);
    assert_int_equal(nftw(p->top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(p->config);
}

// The name of a file beside or in the folder.
static const char *at(const struct folder *p, const char *name)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", p->top, name);
    return path;
}

static void assert_holds(const struct folder *p, const char *name, const char *text)
{
    char found[256] = "";
    int fd = open(at(p, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, found, sizeof found - 1);
    assert_true(n >= 0);
    assert_string_equal(found, text);
    fd_close(&fd);
}

static bool is_there(const struct folder *p, const char *name)
{
    struct stat st;
    return lstat(at(p, name), &st) == 0;
}

static struct saver_answer save_text(const struct folder *p, const char *path, const char *text)
{
    struct saver_answer a;
    saver_save_bytes(p->saver.sock, path, text, strlen(text), &a);
    return a;
}

// A file of `size` bytes that begins with a text; the rest is 0.
static struct saver_answer save_file(const struct folder *p, const char *path, const char *text,
                                     uint64_t size)
{
    struct saver_answer a;
    saver_begin(p->saver.sock, path, size);
    saver_data(p->saver.sock, text, strlen(text), 0);
    saver_finish(p->saver.sock, size, &a);
    return a;
}

static void files_and_bytes_arrive(void **state)
{
    (void)state;
    struct folder p;
    struct stat st;
    begin(&p);
    struct saver_answer a = save_text(&p, "image-1.png", "picture");
    assert_true(a.ok);
    assert_string_equal(a.saved, "image-1.png");
    assert_int_equal(a.size, 7);
    assert_holds(&p, "out/image-1.png", "picture");
    a = save_file(&p, "deep/er/table.csv", "a,b\n", 4);
    assert_true(a.ok);
    assert_string_equal(a.saved, "deep/er/table.csv");
    assert_holds(&p, "out/deep/er/table.csv", "a,b\n");
    assert_int_equal(stat(at(&p, "out/deep/er/table.csv"), &st), 0);
    assert_int_equal(st.st_mode & 0133, 0); // not executable, writable by its owner only
    assert_true(save_text(&p, "empty", "").ok);
    assert_holds(&p, "out/empty", "");
    // One that became shorter, and one whose bytes come in another order.
    saver_begin(p.saver.sock, "parts", 100);
    saver_data(p.saver.sock, "def", 3, 3);
    saver_data(p.saver.sock, "abc", 3, 0);
    saver_finish(p.saver.sock, 5, &a);
    assert_true(a.ok && a.size == 5);
    assert_holds(&p, "out/parts", "abcde");
    end(&p);
}

static void what_is_there_stays(void **state)
{
    (void)state;
    struct folder p;
    begin(&p);
    FILE *f = fopen(at(&p, "victim"), "w");
    assert_non_null(f);
    fputs("mine", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(symlink("../victim", at(&p, "out/plot.png")), 0);
    assert_int_equal(symlink("/nowhere/at/all", at(&p, "out/gone")), 0);
    struct saver_answer a = save_text(&p, "plot.png", "theirs");
    assert_true(a.ok);
    assert_string_equal(a.saved, "plot-1.png");
    a = save_text(&p, "plot.png", "again");
    assert_string_equal(a.saved, "plot-2.png");
    a = save_text(&p, "gone", "x");
    assert_string_equal(a.saved, "gone-1");
    assert_holds(&p, "victim", "mine");
    assert_holds(&p, "out/plot-1.png", "theirs");
    end(&p);
}

static void no_folder_that_is_a_link(void **state)
{
    (void)state;
    struct folder p;
    begin(&p);
    assert_int_equal(mkdir(at(&p, "elsewhere"), 0777), 0);
    assert_int_equal(symlink("../elsewhere", at(&p, "out/sub")), 0);
    struct saver_answer a = save_text(&p, "sub/x", "theirs");
    assert_false(a.ok);
    assert_non_null(strstr(a.error, "link"));
    assert_false(is_there(&p, "elsewhere/x"));
    assert_true(save_text(&p, "y", "z").ok); // and it goes on
    end(&p);
}

static void no_path_that_leads_out(void **state)
{
    (void)state;
    static const char *const bad[] = {"../x",
                                      "a/../../x",
                                      "/etc/x",
                                      "/mnt/data/x",
                                      "a//x",
                                      "./x",
                                      ".",
                                      "..",
                                      "",
                                      "x/",
                                      "a\nb",
                                      "a\033[2Jb",
                                      "\xff",
                                      "\xc2\x9b"
                                      "2J",
                                      "a/..",
                                      "\xed\xa0\x80"};
    struct folder p;
    begin(&p);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct saver_answer a = save_text(&p, bad[i], "theirs");
        assert_false(a.ok);
        assert_true(a.error[0]);
    }
    assert_false(is_there(&p, "x"));
    assert_int_equal(rmdir(at(&p, "out")), 0); // nothing came of it
    assert_int_equal(mkdir(at(&p, "out"), 0777), 0);
    end(&p);
}

static void nothing_is_hidden(void **state)
{
    (void)state;
    struct folder p;
    begin(&p);
    assert_string_equal(save_text(&p, ".bashrc", "x").saved, "_bashrc");
    assert_string_equal(save_text(&p, ".git/hooks/.x", "x").saved, "_git/hooks/_x");
    assert_string_equal(save_text(&p, "..x", "x").saved, "_.x");
    end(&p);
}

static void a_file_that_is_given_up(void **state)
{
    (void)state;
    struct folder p;
    begin(&p);
    saver_begin(p.saver.sock, "deep/x", 100);
    saver_data(p.saver.sock, "abc", 3, 0);
    saver_drop(p.saver.sock);
    assert_true(save_text(&p, "y", "z").ok); // and it goes on
    assert_false(is_there(&p, "out/deep/x"));
    end(&p);
}

// A descriptor is none of its business, and more bytes than were announced are the end of it.
static void what_no_gate_sends(void **state)
{
    (void)state;
    struct folder p;
    for (int i = 0; i < 3; i++) {
        begin(&p);
        saver_begin(p.saver.sock, "x", 2);
        if (i == 0)
            saver_data(p.saver.sock, "abc", 3, 0);
        else if (i == 1)
            saver_data(p.saver.sock, "a", 1, UINT64_MAX);
        else
            unit_send_raw(p.saver.sock, "0123456789abcdef", 16, &p.saver.sock, 1);
        saver_end(&p.saver, false); // returns: it has ended although our end is open
        assert_false(is_there(&p, "out/x"));
        end(&p);
    }
}

static void holes_stay_holes_and_room_is_bounded(void **state)
{
    (void)state;
    struct folder p;
    struct stat st;
    begin(&p);
    assert_true(save_file(&p, "sparse", "begin", 40 << 20).ok);
    assert_int_equal(stat(at(&p, "out/sparse"), &st), 0);
    assert_int_equal(st.st_size, 40 << 20);
    assert_true(st.st_blocks * 512 < 1 << 20);
    // A second name for the same file: more in all than the scratch of a box holds.
    struct saver_answer a = save_file(&p, "again", "begin", 40 << 20);
    assert_false(a.ok);
    assert_non_null(strstr(a.error, "--scratch"));
    a = save_file(&p, "huge", "", 1ULL << 50);
    assert_false(a.ok);
    assert_false(is_there(&p, "out/huge"));
    end(&p);
}

static void a_bounded_number(void **state)
{
    (void)state;
    struct folder p;
    unsigned saved = 0;
    begin(&p);
    for (unsigned i = 0; i < SAVER_FILES_MAX + 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%u", i);
        saved += save_text(&p, name, "x").ok;
    }
    assert_int_equal(saved, SAVER_FILES_MAX);
    end(&p);
}

// A gate that dies in the middle of a picture leaves no half picture; one that talks nonsense ends
// it.
static void half_a_file_is_removed(void **state)
{
    (void)state;
    struct folder p;
    begin(&p);
    char ask[16 + SCRATCH_PATH_MAX + 1 + 7] = {1, 0, 0, 0, 0, 0, 0, 0, 100};
    size_t length = 16 + SCRATCH_PATH_MAX + 1;
    length = (length + 7) / 8 * 8;
    snprintf(ask + 16, sizeof ask - 16, "half.png");
    unit_send_raw(p.saver.sock, ask, length, NULL, 0);
    unit_send_raw(p.saver.sock,
                  "\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                  "0123456789",
                  26, NULL, 0);
    fd_close(&p.saver.sock);
    saver_end(&p.saver, false);
    assert_false(is_there(&p, "out/half.png"));
    end(&p);

    begin(&p);
    unit_send_raw(p.saver.sock, "nonsense", 8, NULL, 0);
    saver_end(&p.saver, false); // returns: it has ended although our end is open
    end(&p);
}

static void folders_that_cannot_be(void **state)
{
    (void)state;
    struct config *c = calloc(1, sizeof *c);
    struct saver k;
    struct err e = {0};
    assert_non_null(c);
    static const char *const bad[] = {"/proc/self/exe", "/var/tmp/constrictor-none/none/out",
                                      "/proc/self/fdinfo/x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(c->out, sizeof c->out, "%s", bad[i]);
        assert_true(saver_start(&k, c, &e) < 0);
        assert_int_equal(e.code, ERR_OUT_FOLDER);
        assert_non_null(strstr(e.message, bad[i]));
    }
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_bytes_arrive),
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(no_folder_that_is_a_link),
        cmocka_unit_test(no_path_that_leads_out),
        cmocka_unit_test(nothing_is_hidden),
        cmocka_unit_test(a_file_that_is_given_up),
        cmocka_unit_test(what_no_gate_sends),
        cmocka_unit_test(holes_stay_holes_and_room_is_bounded),
        cmocka_unit_test(a_bounded_number),
        cmocka_unit_test(half_a_file_is_removed),
        cmocka_unit_test(folders_that_cannot_be),
    };
    return cmocka_run_group_tests_name("saver", tests, NULL, NULL);
}
