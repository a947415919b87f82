# SPDX-License-Identifier: Apache-2.0
"""`constrictor stdio`: a real client and a real server process, line by line.

What is tested here is the transport: framing, both eras in one process, ends, and that nothing but
the protocol ever reaches stdout. The methods themselves have tests of their own.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from stdio_client import MODERN, Client, cancelled, initialize, modern, request, run_code


@pytest.fixture
def serve(cli):
    def start(*flags, **options):
        options.setdefault("stdin", subprocess.PIPE)
        return Client(cli.start("stdio", *flags, **options))

    return start


@pytest.fixture
def client(serve):
    client = serve()
    client.start_legacy()
    return client


def text_of(answer):
    return json.dumps(answer["result"])


def wait_running(client, tools):
    """Until a box runs user code, seen from outside: some descendant sleeps in `sleep`."""

    def busy():
        for pid in tools.descendants(client.process.pid):
            with contextlib.suppress(OSError):
                if b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
        return False

    assert tools.wait_until(busy), "the code never ran"


# A value that is in no id by accident.
CODE, VALUE = "20011 * 30011", "600550121"
# A child process whose name can be seen from outside.
SLEEP = "import subprocess; subprocess.run(['sleep', '1000'])"


# ---- eras ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_handshake_of_each_legacy_version(serve, version):
    client = serve()
    answer = client.start_legacy(version)
    assert answer["result"]["serverInfo"]["name"] == "constrictor"
    assert client.ask(request("a", "ping"))["result"] == {}
    assert client.end()[0] == 0


def test_modern_needs_no_handshake(serve):
    client = serve()
    answer = client.ask(modern(1, "server/discover"))
    assert MODERN in answer["result"]["supportedVersions"]
    assert answer["result"]["resultType"] == "complete"
    answer = client.ask(run_code(2, CODE, make=modern))
    assert VALUE in text_of(answer) and not answer["result"].get("isError")


def test_both_eras_in_one_process(client):
    assert client.ask(modern(5, "server/discover"))["result"]["resultType"] == "complete"
    assert client.ask(request(6, "ping"))["result"] == {}
    assert client.ask(modern(7, "ping"))["error"]["code"] == -32601
    assert "resultType" not in client.ask(request(8, "tools/list"))["result"]
    assert client.ask(modern(9, "tools/list"))["result"]["resultType"] == "complete"
    assert client.ask(modern(10, "server/discover", version="2030-01-01"))["error"]["code"] == -32022


def test_first_answer_does_not_wait_for_the_interpreter(cli, serve, tmp_path):
    """An interpreter that takes its time to say who it is delays the first run, not the first answer."""
    slow, go = cli.folder / "slow-python", cli.folder / "go"
    slow.write_text(f"#!/bin/sh\nwhile ! [ -e '{go}' ]; do sleep 0.05; done\nexec /usr/bin/python3 \"$@\"\n")
    slow.chmod(0o755)
    client = serve("--python", slow)
    client.start_legacy()
    client.send(run_code(2, "1 + 1"))
    assert client.ask(request(3, "ping"))["result"] == {}
    assert not [m for m in client.all if m.get("id") == 2]
    go.touch()
    answer = client.answer(2)
    assert not answer["result"].get("isError"), answer


def test_the_end_does_not_wait_for_the_interpreter(cli, serve):
    slow = cli.folder / "slow-python"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o755)
    client = serve("--python", slow)
    client.start_legacy()
    status, seconds = client.end()
    assert status == 0 and seconds < 90
    assert client.process.stderr.read() == b""


def test_a_missing_interpreter_is_the_answer_of_every_run(serve):
    client = serve("--python", "/nonexistent/python3")
    client.start_legacy()
    for id in (1, 2, 3):
        answer = client.ask(run_code(id, "1"))
        assert answer["result"]["isError"]
        assert "interpreter" in text_of(answer) and "/nonexistent/python3" in text_of(answer)
    assert client.ask(request(4, "ping"))["result"] == {}
    client.end()
    assert b"/nonexistent/python3" in client.process.stderr.read()


# ---- framing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [b"hello\n", b"{\n", b'{"jsonrpc":"2.0","id":1,"method":"pi\n', b"\xff\xfe\x00\x01\n", b"[\n",
     b'{"jsonrpc":"2.0","id":1,"method":"\xc3\x28"}\n', b"\x00\n", b'"\n', b"[" * 100000 + b"\n"],
    ids=lambda b: repr(b[:12]),
)  # fmt: skip
def test_garbage_is_answered_and_survived(client, garbage):
    client.write(garbage)
    answer = client.receive()
    assert answer["error"]["code"] in (-32700, -32600) and answer["id"] is None
    assert client.ask(request(9, "ping"))["result"] == {}


def test_not_json_is_a_parse_error(client):
    client.write(b"this is not json\n")
    assert client.receive()["error"]["code"] == -32700


@pytest.mark.parametrize("value", [b"1", b"null", b"true", b'"text"', b"{}", b'{"jsonrpc":"1.0"}'])
def test_json_that_is_no_message(client, value):
    client.write(value + b"\n")
    assert client.receive()["error"]["code"] in (-32700, -32600)
    assert client.ask(request(9, "ping"))["result"] == {}


def test_blank_lines_and_crlf(client):
    client.write(b"\n\r\n   \n\t\r\n" + json.dumps(request(3, "ping")).encode() + b"\r\n\r\n")
    assert client.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_a_message_in_single_bytes(client):
    for byte in json.dumps(request(3, "ping")).encode() + b"\n":
        client.write(bytes([byte]))
    assert client.answer(3)["result"] == {}


def test_many_messages_in_one_write(client):
    client.send(*(request(i, "ping") for i in range(5000)))
    assert [client.receive()["id"] for _ in range(5000)] == list(range(5000))


def test_a_line_that_is_too_long(serve):
    client = serve("--body", "64K")
    client.start_legacy()
    long = json.dumps(request(2, "ping", {"x": "y" * 200000})).encode() + b"\n"
    client.write(long + json.dumps(request(3, "ping")).encode() + b"\n")
    answer = client.receive()
    assert answer["id"] == 2 and answer["error"]["code"] == -32600
    assert "65536" in answer["error"]["message"] and "--body" in answer["error"]["message"]
    assert client.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}
    # An id behind what was cut off, in an answer, or in doubt: none.
    for line in ({"params": {"x": "y" * 200000}, "method": "ping", "id": 5}, {"id": 5, "result": {"x": "y" * 200000}},
                 [request(5, "ping", {"x": "y" * 200000})]):
        client.write(json.dumps(line).encode() + b"\n")
        answer = client.receive()
        assert answer["id"] is None and answer["error"]["code"] == -32600, answer
    # Exactly as long as allowed.
    line = json.dumps(request(4, "ping", {"x": ""})).encode()
    line = line.replace(b'"x": ""', b'"x": "' + b"y" * (65536 - len(line)) + b'"')
    client.write(line + b"\n")
    assert client.receive()["id"] == 4


def test_a_long_line_that_never_ends_takes_no_memory(serve):
    client = serve("--body", "64K")
    client.start_legacy()
    for _ in range(300):
        client.write(b"x" * 100000)
    assert client.receive()["error"]["code"] == -32600
    client.write(b"\n")
    assert client.ask(request(3, "ping"))["result"] == {}
    assert len(client.all) == 3  # one error for all of it


def test_ten_megabytes_of_source(serve):
    client = serve("--source", "16M")
    client.start_legacy()
    code = "x = '" + "a" * (10 << 20) + "'\nlen(x)"
    answer = client.ask(run_code(2, code))
    assert str(10 << 20) in text_of(answer)
    small = serve("--source", "1M")
    small.start_legacy()
    assert small.ask(run_code(2, code))["result"]["isError"]
    assert small.ask(request(3, "ping"))["result"] == {}


def test_batches_belong_to_one_version(serve):
    old = serve()
    old.start_legacy("2025-03-26")
    old.send([request(1, "ping"), request("b", "nope"), cancelled(77), 5])
    answers = old.receive()
    assert {a["id"]: a.get("error", {}).get("code") for a in answers} == {1: None, "b": -32601, None: -32600}
    old.send([cancelled(1)])  # nothing to answer
    assert old.ask(request(2, "ping"))["result"] == {}
    old.send([run_code(3, CODE), request(4, "ping"), initialize(5)])
    answers = {a["id"]: a for a in old.receive()}
    assert VALUE in text_of(answers[3]) and answers[4]["result"] == {} and "error" in answers[5]
    for version in ("2024-11-05", "2025-06-18", "2025-11-25"):
        new = serve()
        new.start_legacy(version)
        new.send([request(1, "ping")])
        answer = new.receive()
        assert answer["error"]["code"] == -32600 and answer["id"] is None
        assert new.ask(request(2, "ping"))["result"] == {}


# ---- stdout is the protocol's ----------------------------------------------------------------------


def test_what_code_writes_to_its_descriptors_is_output(client):
    code = """
import os, subprocess, sys
os.write(1, b'one\\n'); os.write(2, b'two\\n')
subprocess.run(['sh', '-c', 'echo three; echo four >&2'])
sys.__stdout__.write('five\\n'); print('six')
for fd in range(3, 64):
    try:
        os.write(fd, b'{"jsonrpc": "2.0", "method": "forged"}\\n')
    except OSError:
        pass
"""
    answer = client.ask(run_code(2, code))
    for word in ("one", "three", "five", "six"):
        assert word in text_of(answer)
    client.send(request(3, "ping"))
    client.process.stdin.close()
    assert [m for m in client.all + client.rest() if "forged" in m.get("method", "")] == []


def test_code_has_no_stdin(client):
    answer = client.ask(run_code(2, "import sys; repr(sys.stdin.read(1)) if sys.stdin else 'none'"))
    assert "error" not in answer
    assert client.ask(request(3, "ping"))["result"] == {}


def test_no_process_but_the_gate_has_the_pipes(client, tools):
    client.ask(run_code(2, "1"))
    mine = {os.readlink(f"/proc/self/fd/{f.fileno()}") for f in (client.process.stdin, client.process.stdout)}
    holders = []
    for pid in [client.process.pid, *tools.descendants(client.process.pid)]:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}") in mine:
                        holders.append(pid)
    assert client.process.pid not in holders
    assert len(set(holders)) <= 1  # its descriptors may be unreadable


# ---- cancellation --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [request, modern])
def test_cancelled_code_is_dead_and_says_nothing(client, tools, make):
    client.send(run_code(2, SLEEP, make=make))
    wait_running(client, tools)
    client.send(cancelled(2))

    def gone():
        cmdlines = []
        for pid in tools.descendants(client.process.pid):
            with contextlib.suppress(OSError):
                cmdlines.append(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        return not any(b"sleep" in c for c in cmdlines)

    assert tools.wait_until(gone)
    assert client.ask(request(3, "ping"))["result"] == {}
    time.sleep(0.3)
    client.process.stdin.close()
    assert not [m for m in client.all + client.rest() if m.get("id") == 2]


def test_an_id_can_be_used_again(client):
    for _ in range(5):
        assert VALUE in text_of(client.ask(run_code("same", CODE)))


# ---- ends ----------------------------------------------------------------------------------------


def all_gone(pids):
    return all(not os.path.exists(f"/proc/{pid}") for pid in pids)


TRIES = 5  # a busy machine may keep a client waiting for a second, but not again and again


def seconds_of_forty_starts():
    """Of an idle interpreter: half a second, and more where all that runs has to wait for a processor."""
    started = time.monotonic()
    for _ in range(40):
        subprocess.run(["/usr/bin/python3", "-S", "-I", "-c", ""], check=True)
    return time.monotonic() - started


def test_the_end_of_stdin_ends_everything_within_a_second(serve, tools):
    took, bound = [], max(1, seconds_of_forty_starts())
    while not took or (took[-1] >= bound and len(took) < TRIES):
        client = serve()
        client.start_legacy()
        client.send(run_code(2, SLEEP), run_code(3, "while True: pass"))
        wait_running(client, tools)
        tree = tools.descendants(client.process.pid)
        assert len(tree) >= 4
        status, seconds = client.end()
        took.append(seconds)
        assert status == 0
        assert tools.wait_until(lambda: all_gone(tree))
        assert client.process.stderr.read() == b""
    assert took[-1] < bound, (took, bound)


def test_the_end_of_stdin_at_once(serve):
    client = serve()
    assert client.end()[0] == 0
    assert client.rest() == []


def test_answers_are_out_before_the_end(cli):
    lines = [initialize(1), request(2, "ping"), modern(3, "server/discover")]
    text = b"".join(json.dumps(m).encode() + b"\n" for m in lines)[:-1]  # and no last line feed
    result = cli.call("stdio", input=text)
    assert result.status == 0
    assert [json.loads(line)["id"] for line in result.raw.splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_within_a_second(serve, tools, sig):
    took = []
    while not took or (took[-1] >= 1 and len(took) < TRIES):
        client = serve()
        client.start_legacy()
        client.send(run_code(2, SLEEP))
        wait_running(client, tools)
        tree = tools.descendants(client.process.pid)
        began = time.monotonic()
        client.process.send_signal(sig)
        assert client.process.wait(timeout=60) == 0
        took.append(time.monotonic() - began)
        assert tools.wait_until(lambda: all_gone(tree))
        assert not [m for m in client.rest() if m.get("id") == 2]
    assert took[-1] < 1, took


def test_a_client_that_closes_stdout(cli):
    process = cli.start("stdio", stdin=subprocess.PIPE, bufsize=0)
    process.stdin.write(json.dumps(initialize()).encode() + b"\n")
    assert process.stdout.readline()
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        for i in range(1000):
            process.stdin.write(json.dumps(request(i, "ping")).encode() + b"\n")
            if process.poll() is not None:
                break
            time.sleep(0.01)
    assert process.wait(timeout=60) == 0


def test_the_server_does_not_outlive_its_parent(program, cli, tools):
    """The parent is killed while another process still holds the pipes open."""
    parent = """
import subprocess, sys
p = subprocess.Popen([sys.argv[1], 'stdio'], stdin=int(sys.argv[2]), stdout=int(sys.argv[3]))
print(p.pid, flush=True)
p.wait()
"""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", parent, str(program), str(in_read), str(out_write)],
            pass_fds=(in_read, out_write), stdout=subprocess.PIPE, env=cli.environ(),
        )  # fmt: skip
        pid = int(process.stdout.readline())
        os.write(in_write, json.dumps(initialize()).encode() + b"\n")
        assert select.select([out_read], [], [], 120)[0]
        tree = [pid, *tools.descendants(pid)]
        process.kill()
        process.wait()
        process.stdout.close()
        assert tools.wait_until(lambda: tools.reap([p for p in tree if os.path.exists(f"/proc/{p}")]) == [])
    finally:
        for fd in (in_read, in_write, out_read, out_write):
            os.close(fd)


def test_the_death_of_the_gate_ends_it(client, tools):
    client.ask(run_code(2, "1"))
    # A helper has the same name until it has given itself another; the gate is the keeper's first child.
    gate = min(p for p in tools.children(client.process.pid) if tools.is_gate(p, b"stdio"))
    tree = tools.descendants(client.process.pid)
    os.kill(gate, signal.SIGKILL)
    assert client.process.wait(timeout=60) != 0
    assert tools.wait_until(lambda: all_gone(tree))
    assert b"signal 9" in client.process.stderr.read()


# ---- other kinds of stdin and stdout -----------------------------------------------------------------


def conversation():
    lines = [initialize(1), request(2, "ping"), run_code(3, "20 + 22")]
    return b"".join(json.dumps(m).encode() + b"\n" for m in lines)


def test_files_as_stdin_and_stdout(cli):
    (cli.folder / "in").write_bytes(conversation())
    with open(cli.folder / "in", "rb") as stdin, open(cli.folder / "out", "wb") as stdout:
        assert cli.start("stdio", stdin=stdin, stdout=stdout).wait(timeout=60) == 0
    answers = [json.loads(line) for line in (cli.folder / "out").read_bytes().splitlines()]
    assert [a["id"] for a in answers if "id" in a][:2] == [1, 2]


def test_nothing_as_stdin(cli):
    result = cli.call("stdio")
    assert result.status == 0 and result.raw == b""


def test_a_socket_as_stdin_and_stdout(cli):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = cli.start("stdio", stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
        ours.sendall(conversation())
        ours.settimeout(120)
        text = b""
        while text.count(b"\n") < 3:
            text += ours.recv(65536)
        assert [json.loads(line)["id"] for line in text.splitlines()] == [1, 2, 3]
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(timeout=60) == 0


def test_descriptors_of_the_caller_stay_blocking(cli):
    """Other processes that have the same pipe would get O_NONBLOCK as well."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    process = cli.start("stdio", stdin=in_read, stdout=out_write)
    os.write(in_write, conversation())
    assert select.select([out_read], [], [], 120)[0]
    assert os.get_blocking(in_read) and os.get_blocking(out_write)
    for fd in (in_read, in_write, out_write):
        os.close(fd)
    assert process.wait(timeout=60) == 0
    os.close(out_read)


# ---- a client that does not read -----------------------------------------------------------------------


def rss(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return total


def ticks(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return sum(int(x) for x in text.rpartition(")")[2].split()[11:13])


def test_a_client_that_never_reads(cli, tools):
    """Its requests are not read any more after a while; nothing grows, nothing spins, it ends at EOF."""
    process = cli.start("stdio", stdin=subprocess.PIPE)
    os.set_blocking(process.stdin.fileno(), False)
    data = json.dumps(initialize()).encode() + b"\n"
    data += b"".join(json.dumps(request(i, "tools/list")).encode() + b"\n" for i in range(2, 40000))
    sent, quiet = 0, time.monotonic()
    while sent < len(data) and time.monotonic() - quiet < 1:
        try:
            sent += os.write(process.stdin.fileno(), data[sent : sent + 65536])
            quiet = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < len(data), "everything was read although nothing is taken"
    gate = [p for p in tools.descendants(process.pid)
            if pathlib.Path(f"/proc/{p}/cmdline").read_bytes().endswith(b"stdio\0")]  # fmt: skip
    assert rss(gate) < 64 << 20
    def rests():
        before = ticks(gate[0])
        time.sleep(0.5)
        return ticks(gate[0]) - before <= 5

    assert tools.wait_until(rests), "it spins"
    process.stdin.close()
    assert process.wait(timeout=60) == 0


def test_a_client_that_reads_late_gets_everything(cli):
    process = cli.start("stdio", stdin=subprocess.PIPE)
    count = 500
    lines = [initialize(0), *(request(i, "tools/list") for i in range(1, count + 1))]
    data = b"".join(json.dumps(m).encode() + b"\n" for m in lines)

    writer = threading.Thread(target=process.stdin.write, args=[data])
    writer.start()
    time.sleep(1)  # by now it has stopped reading
    client = Client(process)
    writer.join(timeout=60)
    process.stdin.flush()
    assert [client.receive()["id"] for _ in range(count + 1)] == list(range(count + 1))
    assert client.end()[0] == 0


def test_a_slow_pipeline_gets_everything(cli):
    """`requests | constrictor stdio | slow reader`: the end of stdin does not cut off the answers."""
    count = 500
    lines = [initialize(0), *(request(i, "tools/list") for i in range(1, count + 1))]
    (cli.folder / "in").write_bytes(b"".join(json.dumps(m).encode() + b"\n" for m in lines))
    with open(cli.folder / "in", "rb") as stdin:
        process = cli.start("stdio", stdin=stdin)
    parts = []
    while part := os.read(process.stdout.fileno(), 65536):
        parts.append(part)
        if len(parts) % 16 == 0:
            time.sleep(0.02)
    lines = b"".join(parts).splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(count + 1))
    assert process.wait(timeout=60) == 0
