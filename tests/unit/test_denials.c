// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/denials and box/denial: what a box was denied, counted and bounded, and its
// words.

#include "unit.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "box/denial.h"
#include "run/denials.h"

static void note(struct denials **all, int nr, uint32_t detail, uint64_t count)
{
    denials_note(all, &(struct wire_denied){.nr = nr, .detail = detail, .count = count});
}

static void the_same_again_is_counted(void **state)
{
    (void)state;
    struct denials *all = NULL;
    note(&all, SYS_mount, 0, 1);
    note(&all, SYS_socket, AF_INET, 2);
    note(&all, SYS_mount, 0, 40);
    json_t *events = denials_events(all);
    assert_int_equal(json_array_size(events), 2);
    json_t *first = json_array_get(events, 0);
    assert_string_equal(json_string_value(json_object_get(first, "target")), "mount");
    assert_string_equal(json_string_value(json_object_get(first, "layer")), "seccomp");
    assert_int_equal(json_integer_value(json_object_get(first, "count")), 41);
    assert_int_equal(all->omitted, 0);
    json_decref(events);
    free(all);
}

static void more_than_fit_are_omitted_and_counts_have_an_end(void **state)
{
    (void)state;
    struct denials *all = NULL;
    for (uint32_t i = 0; i < 3 * DENIALS_MAX; i++)
        note(&all, SYS_bpf, i, 2);
    assert_int_equal(all->count, DENIALS_MAX);
    assert_int_equal(all->omitted, 4 * DENIALS_MAX);
    note(&all, WIRE_DENIED_OMITTED, 0, 7);
    assert_int_equal(all->omitted, 4 * DENIALS_MAX + 7);
    for (int i = 0; i < 4; i++) { // a keeper that miscounts must not make it negative
        note(&all, SYS_bpf, 0, UINT64_MAX);
        note(&all, WIRE_DENIED_OMITTED, 0, UINT64_MAX);
    }
    assert_true(all->omitted == INT64_MAX && all->rows[0].count == INT64_MAX);
    json_t *events = denials_events(all);
    assert_int_equal(json_array_size(events), DENIALS_MAX);
    json_decref(events);
    events = denials_events(NULL);
    assert_int_equal(json_array_size(events), 0);
    json_decref(events);
    free(all);
}

static void check_text(int nr, const uint64_t args[6], const char *expected)
{
    char text[DENIAL_TEXT];
    denial_text(nr, denial_detail(nr, args), text);
    assert_string_equal(text, expected);
}

static void the_telling_argument_is_named(void **state)
{
    (void)state;
    check_text(SYS_mount, (uint64_t[6]){1, 2, 3, 4, 5, 6}, "mount");
    check_text(SYS_socket, (uint64_t[6]){AF_INET, SOCK_STREAM | SOCK_CLOEXEC}, "socket AF_INET");
    check_text(SYS_socket, (uint64_t[6]){AF_INET6, SOCK_RAW}, "socket AF_INET6 SOCK_RAW");
    check_text(SYS_socket, (uint64_t[6]){38, SOCK_SEQPACKET}, "socket AF_ALG");
    check_text(SYS_unshare, (uint64_t[6]){CLONE_NEWUSER | CLONE_NEWNS | CLONE_FS},
               "unshare CLONE_NEWUSER|CLONE_NEWNS");
    check_text(SYS_unshare, (uint64_t[6]){CLONE_FS}, "unshare");
    check_text(SYS_setns, (uint64_t[6]){3, CLONE_NEWNET}, "setns CLONE_NEWNET");
    check_text(SYS_ptrace, (uint64_t[6]){16}, "ptrace PTRACE_ATTACH");
    check_text(SYS_ptrace, (uint64_t[6]){9999}, "ptrace 63");
    check_text(4000, (uint64_t[6]){0}, "system call 4000");
}

// However many numbers code puts there, kinds are few; and no text is longer than its room.
static void arguments_cannot_make_many_kinds(void **state)
{
    (void)state;
    static const int calls[] = {SYS_socket, SYS_unshare, SYS_clone, SYS_setns, SYS_ptrace, SYS_bpf};
    for (size_t c = 0; c < ARRAY_LEN(calls); c++)
        for (uint64_t v = 1; v; v = v * 3 + 1) {
            char text[DENIAL_TEXT];
            uint64_t args[6] = {v, v >> 7, v >> 13, v, v, v};
            uint32_t detail = denial_detail(calls[c], args);
            if (calls[c] == SYS_ptrace || calls[c] == SYS_bpf)
                assert_in_range(detail, 0, 63);
            if (calls[c] == SYS_socket)
                assert_in_range(detail, 0, 63 + (15 << 8));
            denial_text(calls[c], ~0U, text);
            assert_in_range(strlen(text), 3, DENIAL_TEXT - 1);
            assert_true(denial_hint(calls[c], detail)[0]);
            if (v > UINT64_MAX / 4)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_again_is_counted),
        cmocka_unit_test(more_than_fit_are_omitted_and_counts_have_an_end),
        cmocka_unit_test(the_telling_argument_is_named),
        cmocka_unit_test(arguments_cannot_make_many_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
