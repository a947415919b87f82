# SPDX-License-Identifier: Apache-2.0
"""A service manager starts the server: readiness and signs of life (sd_notify), and sockets that it opened (socket activation).

The test is the manager: it has the socket of NOTIFY_SOCKET, and passes descriptor 3 with LISTEN_FDS.
"""

import os
import signal
import socket
import sys
import urllib.request

import pytest
from conftest import open_cli, wait_until

# What a manager does between fork and exec: the socket becomes descriptor 3, and LISTEN_PID names the process.
ACTIVATE = ("import os, sys\n"
            "os.dup2(int(sys.argv[1]), 3)\n"
            "os.set_inheritable(3, True)\n"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])\n"
            "os.execv(sys.argv[3], sys.argv[3:])\n")
QUICK = ("--python", "/usr/bin/python3")


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as s:
        yield s


def activate(sock, count=1):
    return [sys.executable, "-c", ACTIVATE, sock.fileno(), count]


def texts(manager, wanted):
    """Reads datagrams until one has a line of `wanted`."""
    seen = []
    manager.settimeout(600)
    while not any(wanted in text.split("\n") for text in seen):
        seen.append(manager.recv(4096).decode())
    return seen


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        name = str(tmp_path / "notify") if request.param == "path" else f"\0constrictor-test-{os.getpid()}"
        s.bind(name)
        yield s, name.replace("\0", "@")


def test_the_manager_hears_when_boxes_are_ready_that_it_lives_and_that_it_ends(cli, manager):
    sock, name = manager
    server = cli.start("serve", "--port", 0, *QUICK, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"})
    assert "STATUS=boxes are ready" in texts(sock, "READY=1")[-1].split("\n")
    for _ in range(3):
        assert texts(sock, "WATCHDOG=1")
    server.send_signal(signal.SIGTERM)
    texts(sock, "STOPPING=1")
    assert server.wait(600) == 0, server.stderr.read()


@pytest.mark.parametrize("name", ["/nonexistent/notify", "relative", "@" + "x" * 200])
def test_a_manager_that_does_not_answer_stops_nothing(cli, name):
    done = cli.call("run", "-c", "print(6 * 7)", *QUICK, env={"NOTIFY_SOCKET": name})
    assert (done.status, done.out) == (0, "42\n"), done


def test_the_server_takes_the_socket_that_the_manager_opened(cli, listener):
    server = cli.start("serve", *QUICK, prefix=activate(listener), pass_fds=[listener.fileno()])
    port = listener.getsockname()[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=600) as answer:  # it waits in the queue
        assert answer.status == 200
    server.send_signal(signal.SIGTERM)
    assert server.wait(600) == 0
    out = server.stdout.read().decode()
    assert f"http://127.0.0.1:{port}/mcp" in out


def test_the_socket_of_the_manager_listens_after_the_server(cli, listener):
    """The next client waits in its queue, and the manager starts the server for it."""
    server = cli.start("serve", *QUICK, prefix=activate(listener), pass_fds=[listener.fileno()])
    assert any(b"/mcp" in server.stdout.readline() for _ in range(5))
    server.send_signal(signal.SIGTERM)
    assert server.wait(600) == 0
    with socket.create_connection(listener.getsockname(), timeout=60):
        assert listener.accept()


def test_a_public_socket_of_the_manager_needs_a_key(cli):
    """--host says 127.0.0.1, and the socket that counts is another one."""
    with socket.create_server(("0.0.0.0", 0)) as public:
        done = cli.call("serve", *QUICK, "--host", "127.0.0.1", prefix=activate(public), pass_fds=[public.fileno()])
    assert done.status == 64 and "'0.0.0.0' can be reached from other machines" in done.err, done


def test_sockets_that_cannot_be_served_are_refused(cli, listener, tmp_path):
    with socket.socket(socket.AF_UNIX) as local, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        for sock, count in ((local, 1), (datagrams, 1), (listener, 2)):
            done = cli.call("serve", *QUICK, prefix=activate(sock, count), pass_fds=[sock.fileno()])
            assert done.status == 64 and "ListenStream=" in done.err, done


def test_variables_for_another_process_are_ignored(cli):
    """A child of an activated service inherits them."""
    server = cli.start("serve", "--port", 0, *QUICK, env={"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    wait_until(lambda: b"/mcp" in server.stdout.readline())
    server.send_signal(signal.SIGTERM)
    assert server.wait(600) == 0
