// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/watchdog and keeper/stuck: a gate that does not move is noticed, and the box
// that it names is ended if it is the gate's; one that works, or waits for a CPU, is left alone.
// Gate and box are children that sleep or spin.

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/watchdog.h"

enum { BOX = 3 * SLOTS + 17, LOOK_MS = 100 };

static struct stock stock; // large
static struct caps caps;
static struct watchdog dog;
static struct box box;
static pid_t gate, init;
static int pair[2];

static pid_t child(bool spins)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    while (true)
        if (!spins)
            (void)pause();
}

static void begin(enum box_state state, bool spins)
{
    static const struct wire_limits limits;
    memset(&stock, 0, sizeof stock);
    stock_init(&stock, &caps, &limits, 0, KIND_PLAIN);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    stock.gate.sock = pair[0];
    gate = child(spins);
    init = child(false);
    box = (struct box){.id = BOX, .pidfd = (int)syscall(SYS_pidfd_open, init, 0)};
    assert_true(gate > 0 && init > 0 && box.pidfd >= 0);
    stock.by_slot[BOX % SLOTS] = &box;
    stock_enlist(&stock, &box, state);
    dog = (struct watchdog){0};
    watchdog_open(&dog);
    assert_non_null(dog.pulse);
    watchdog_reset(&dog);
    atomic_store(&dog.pulse->box, BOX);
}

static void end(void)
{
    (void)kill(gate, SIGKILL);
    (void)kill(init, SIGKILL);
    assert_int_equal(waitpid(gate, NULL, 0), gate);
    (void)waitpid(init, NULL, 0);
    (void)close(box.pidfd);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

// True: it was noticed.
static bool look_for(int ms)
{
    for (int64_t until_ms = clock_ms() + ms; clock_ms() < until_ms && !dog.noticed;) {
        watchdog_look(&dog, &stock, gate);
        (void)usleep(LOOK_MS * 1000);
    }
    return dog.noticed;
}

static void a_gate_that_sleeps_is_nudged_and_then_noticed(void **state)
{
    (void)state;
    union wire_message m;
    begin(BOX_LIVE, false);
    assert_true(look_for(20000));
    assert_int_equal(wire_recv(pair[1], &m, NULL, 0, NULL), 1);
    assert_int_equal(m.h.type, WIRE_NUDGE);
    assert_int_equal(wire_recv(pair[1], &m, NULL, 0, NULL), -EAGAIN); // once is enough
    assert_int_equal(box.state, BOX_DYING);
    assert_int_equal(box.end, END_STALL);
    int status;
    assert_int_equal(waitpid(init, &status, 0), init);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    end();
}

// SECURITY: the gate names a box that it does not have.
static void only_a_box_that_is_handed_out_is_ended(void **state)
{
    (void)state;
    begin(BOX_LIVE, false);
    struct box other = {.id = BOX + 1, .pidfd = box.pidfd};
    stock.by_slot[other.id % SLOTS] = &other;
    stock_enlist(&stock, &other, BOX_PARKED);
    atomic_store(&dog.pulse->box, other.id);
    assert_true(look_for(20000));
    assert_int_equal(other.state, BOX_PARKED);
    assert_int_equal(box.state, BOX_LIVE);
    assert_int_equal(kill(init, 0), 0);
    end();
}

static void a_gate_that_turns_is_left_alone(void **state)
{
    (void)state;
    begin(BOX_LIVE, false);
    for (int i = 0; i < 25; i++) {
        atomic_fetch_add(&dog.pulse->turns, 1);
        assert_false(look_for(LOOK_MS));
    }
    assert_int_equal(box.state, BOX_LIVE);
    end();
}

static void a_gate_that_uses_a_cpu_is_left_alone(void **state)
{
    (void)state;
    begin(BOX_LIVE, true);
    assert_false(look_for(2500));
    assert_int_equal(box.state, BOX_LIVE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_that_sleeps_is_nudged_and_then_noticed),
        cmocka_unit_test(only_a_box_that_is_handed_out_is_ended),
        cmocka_unit_test(a_gate_that_turns_is_left_alone),
        cmocka_unit_test(a_gate_that_uses_a_cpu_is_left_alone),
    };
    return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
