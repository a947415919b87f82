// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/peer, the user at the other end of a connection, by both ways to find it; and
// of the users that http/door lets in.

#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/door.h"
#include "http/peer.h"

enum { OTHER = 65534 };

static int fds[PEER_FDS];
static unsigned count;
static struct sockaddr_storage address;
static socklen_t length;

static int with_netlink(void **state)
{
    (void)state;
    struct err e;
    int n = peer_open(fds, &e);
    assert_true(n > 0);
    count = (unsigned)n;
    return 0;
}

static int with_tables(void **state)
{
    (void)state;
    fds[0] = open("/proc/net/tcp", O_RDONLY | O_CLOEXEC);
    fds[1] = open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC);
    if (fds[1] < 0)
        fds[1] = dup(fds[0]);
    count = 2;
    return fds[0] < 0;
}

static int done(void **state)
{
    (void)state;
    for (unsigned i = 0; i < count; i++)
        (void)close(fds[i]);
    return 0;
}

// -1: there is no such address here.
static int listen_on(const char *host)
{
    int v6 = strchr(host, ':') != NULL, off = 0;
    struct sockaddr_in *a4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&address;
    address = (struct sockaddr_storage){.ss_family = v6 ? AF_INET6 : AF_INET};
    length = v6 ? sizeof *a6 : sizeof *a4;
    assert_int_equal(
        inet_pton(address.ss_family, host, v6 ? (void *)&a6->sin6_addr : (void *)&a4->sin_addr), 1);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (v6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 4) < 0) {
        (void)close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return fd;
}

static int dial(void)
{
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
    return fd;
}

static uid_t find(int fd)
{
    return peer_uid(fds, count, fd);
}

static void the_own_user_is_found(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        int listener = listen_on(hosts[i]);
        if (listener < 0)
            continue;
        int client = dial(), server = accept(listener, NULL, NULL);
        assert_int_equal(find(server), getuid());
        assert_int_equal(find(client), getuid()); // it has two ends
        assert_int_equal(shutdown(client, SHUT_WR), 0);
        assert_int_equal(find(server), getuid());
        (void)close(client);
        (void)close(server);
        (void)close(listener);
    }
}

// IPv4 clients of an IPv6 socket, and the other way round.
static void both_forms_of_an_address_are_the_same(void **state)
{
    (void)state;
    int listener = listen_on("::ffff:127.0.0.1");
    if (listener < 0)
        skip();
    in_port_t port = ((struct sockaddr_in6 *)&address)->sin6_port;
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&v4, sizeof v4), 0);
    int server = accept(listener, NULL, NULL);
    assert_int_equal(find(server), getuid());
    assert_int_equal(find(client), getuid());
    (void)close(client);
    (void)close(server);
    (void)close(listener);
}

// The kernel shows a socket that is closed with uid 0.
static void who_has_closed_is_not_root(void **state)
{
    (void)state;
    int listener = listen_on("127.0.0.1"), client = dial();
    assert_int_equal(send(client, "request", 7, MSG_NOSIGNAL), 7);
    (void)close(client);
    int server = accept(listener, NULL, NULL);
    assert_int_equal(find(server), (uid_t)PEER_UNKNOWN);
    (void)close(listener);
    (void)close(server);
    assert_int_equal(find(0), (uid_t)PEER_UNKNOWN); // no socket at all
    assert_int_equal(peer_uid(fds, 0, server), (uid_t)PEER_UNKNOWN);
}

static void another_user_is_found(void **state)
{
    (void)state;
    int listener = listen_on("127.0.0.1"), end[2];
    assert_int_equal(pipe(end), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        if (setuid(OTHER) < 0)
            _exit(1);
        int fd = dial();
        (void)close(end[1]);
        _exit(fd < 0 || read(end[0], &c, 1) != 0);
    }
    int server = accept(listener, NULL, NULL), status;
    assert_int_equal(find(server), OTHER);
    (void)close(end[0]);
    (void)close(end[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)close(server);
    (void)close(listener);
}

// ---- the door -----------------------------------------------------------------------------------

static struct config config;

static int fresh(void **state)
{
    (void)state;
    config_init(&config);
    return 0;
}

static struct door *open_door(void)
{
    struct err e;
    assert_int_equal(door_check_bind(&config, &e), 0);
    struct door *d = door_open(&config, &e);
    assert_non_null(d);
    return d;
}

static int user_at(uid_t peer, struct door_refusal *r)
{
    struct door *d = open_door();
    int n = door_check_user(d, peer, r);
    door_close(d);
    return n;
}

// Without a key on loopback it is the user that started the server, and root.
static void users_of_this_machine(void **state)
{
    (void)state;
    struct door_refusal r;
    uid_t own = getuid(), other = own + 1;
    assert_int_equal(user_at(own, &r), 0);
    assert_int_equal(user_at(0, &r), 0);
    assert_int_equal(user_at(other, &r), -1);
    assert_int_equal(r.status, 403);
    assert_string_equal(r.code, "other_user");
    assert_non_null(strstr(r.hint, "--allow-local-users"));
    assert_int_equal(user_at((uid_t)-1, &r), -1); // it is closed, or on another machine
    config.allow_local_users = true;
    assert_int_equal(user_at(other, &r), 0);
    assert_int_equal(user_at((uid_t)-1, &r), 0);
    config.allow_local_users = false;
    assert_int_equal(text_list_add(&config.api_keys, "alice:secret-one"), 0);
    assert_int_equal(user_at(other, &r), 0); // the key names the owner
}

// "sudo constrictor serve" was started by the user that asked sudo for it.
static void a_user_that_uses_sudo(void **state)
{
    (void)state;
    struct door_refusal r;
    assert_int_equal(setenv("SUDO_UID", "4242", 1), 0);
    assert_int_equal(user_at(4242, &r), getuid() == 0 ? 0 : -1); // only root got it from sudo
    assert_int_equal(user_at(4243, &r), -1);
    assert_int_equal(unsetenv("SUDO_UID"), 0);
}

int main(void)
{
#define BOTH(f)                                                                                    \
    cmocka_unit_test_setup_teardown(f, with_netlink, done),                                        \
        cmocka_unit_test_setup_teardown(f, with_tables, done)
    const struct CMUnitTest tests[] = {
        BOTH(the_own_user_is_found),
        BOTH(both_forms_of_an_address_are_the_same),
        BOTH(who_has_closed_is_not_root),
        cmocka_unit_test_setup(users_of_this_machine, fresh),
        cmocka_unit_test_setup(a_user_that_uses_sudo, fresh),
        BOTH(another_user_is_found), // the last two: they become another user
    };
    size_t count = ARRAY_LEN(tests) - (geteuid() == 0 ? 0 : 2);
    return _cmocka_run_group_tests("peer", tests, count, NULL, NULL);
}
