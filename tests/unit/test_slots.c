// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/slots: each box a number of its own, each keeper a range of its own.  Runs
// as root (ranges of host uids) and as an ordinary user (one uid for all).

#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/slots.h"

enum { BASE = 1987600000 }; // far from the default: keepers may be at work here

static struct slots a, b;
static struct err e;

static void every_slot_is_given_once(void **state)
{
    (void)state;
    static bool taken[SLOTS];
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < SLOT_BOXES; i++) {
        int slot = slots_take(&a);
        assert_true(slot > 0 && slot < SLOT_SAMPLER); // not the zygote's or a helper's
        assert_false(taken[slot]);
        taken[slot] = true;
    }
    assert_int_equal(slots_take(&a), -1);
    assert_int_equal(slots_take(&a), -1);
    slots_give(&a, 17);
    assert_int_equal(slots_take(&a), 17);
    assert_int_equal(slots_take(&a), -1);
    for (int slot = 1; slot <= SLOT_BOXES; slot++)
        slots_give(&a, slot);
    assert_int_equal(a.free_count, SLOT_BOXES);
    slots_close(&a);
}

static void two_keepers_have_different_uids(void **state)
{
    (void)state;
    int before = unit_fd_count();
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    if (!slots_have_uids(&a)) { // an ordinary user: everything runs as the caller
        assert_int_equal(a.uid_first, geteuid());
        assert_int_equal(a.uid_count, 1);
        slots_close(&a);
        return;
    }
    assert_int_equal(slots_open(&b, BASE, &e), 0);
    assert_int_equal(a.uid_count, SLOTS);
    assert_int_equal(b.uid_count, SLOTS);
    assert_true(a.uid_first >= BASE && b.uid_first >= BASE);
    assert_true(a.uid_first + SLOTS <= b.uid_first || b.uid_first + SLOTS <= a.uid_first);
    assert_true(fcntl(a.lock_fd, F_GETFD) & FD_CLOEXEC);
    uint64_t first = a.uid_first;
    slots_close(&a);
    slots_close(&a); // twice is fine
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    assert_true(a.uid_first == first); // a range that was given back is taken again
    slots_close(&a);
    slots_close(&b);
    assert_int_equal(unit_fd_count(), before);
}

static void ranges_that_overlap_are_not_taken_twice(void **state)
{
    (void)state;
    const uint32_t near[] = {BASE - SLOTS + 1, BASE - 1, BASE, BASE + 1, BASE + SLOTS - 1};
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    uint64_t first = a.uid_first;
    for (size_t i = 0; slots_have_uids(&a) && i < ARRAY_LEN(near); i++) {
        assert_int_equal(slots_open(&b, near[i], &e), 0);
        assert_true(first + SLOTS <= b.uid_first || b.uid_first + SLOTS <= first);
        slots_close(&b);
    }
    slots_close(&a);
}

static void an_error_names_who_has_the_range(void **state)
{
    (void)state;
    char who[64];
    const uint32_t last = UINT32_MAX - SLOTS - 8; // there is room for one
    assert_int_equal(slots_open(&a, last, &e), 0);
    if (slots_have_uids(&a)) {
        snprintf(who, sizeof who, "process %d uses those from %u on", getpid(), last);
        assert_true(slots_open(&b, last + 5, &e) < 0);
        assert_non_null(strstr(e.message, who));
        slots_close(&b);
    }
    slots_close(&a);
}

// The lock goes with the process, however it ends.
static void a_killed_keeper_gives_its_range_back(void **state)
{
    (void)state;
    int pipes[2], status;
    uint64_t first = 0;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (slots_open(&a, BASE, &e) < 0 ||
            write(pipes[1], &a.uid_first, sizeof a.uid_first) != sizeof a.uid_first)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(pipes[0], &first, sizeof first), sizeof first);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    assert_true(a.uid_first == first);
    slots_close(&a);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void a_base_without_room_is_an_error_with_a_hint(void **state)
{
    (void)state;
    const uint32_t bases[] = {UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - SLOTS + 1};
    assert_int_equal(slots_open(&a, BASE, &e), 0);
    bool root = slots_have_uids(&a);
    slots_close(&a);
    int before = unit_fd_count();
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        int r = slots_open(&a, bases[i], &e);
        if (!root) {
            assert_int_equal(r, 0); // not used
        } else {
            assert_true(r < 0);
            assert_int_equal(e.code, ERR_LAYER_MISSING);
            assert_true(e.hint[0] != '\0');
            assert_int_equal(a.lock_fd, -1);
        }
        slots_close(&a);
        assert_int_equal(unit_fd_count(), before);
    }
}

// (uid_t)-1 means "leave it as it is" to setresuid, so no range may reach it.
static void no_slot_has_the_uid_that_means_none(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < 8; d++) {
        if (slots_open(&a, UINT32_MAX - SLOTS - d, &e) == 0 && slots_have_uids(&a))
            assert_true(a.uid_first + SLOTS - 1 < UINT32_MAX);
        slots_close(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_is_given_once),
        cmocka_unit_test(two_keepers_have_different_uids),
        cmocka_unit_test(ranges_that_overlap_are_not_taken_twice),
        cmocka_unit_test(an_error_names_who_has_the_range),
        cmocka_unit_test(a_killed_keeper_gives_its_range_back),
        cmocka_unit_test(a_base_without_room_is_an_error_with_a_hint),
        cmocka_unit_test(no_slot_has_the_uid_that_means_none),
    };
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
