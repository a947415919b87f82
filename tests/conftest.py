# SPDX-License-Identifier: Apache-2.0
"""What every black-box test shares: the program, one run of it, and the check that it leaves nothing behind.

The tests run as the caller of pytest, root or an ordinary user. The environment variable CONSTRICTOR names the program
(default: build/constrictor of this tree). The fixture `cli` starts it, and fails the test if a process of it is alive
at the end: pytest is the reaper of its descendants, so a daemon cannot hide.

MUST_WORK=1 turns every skip into a failure. A test that cannot apply to this user or machine is not collected, so a
skip means that something is missing that could be installed.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

# A shell's background job ignores the first two, nohup the third; programs under test must not inherit that.
for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

TOP = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("CONSTRICTOR", TOP / "build" / "constrictor")).absolute()
# The program with what the official MCP suite looks for: tests/conformance, built by tests/run.
CONFORMANCE = PROGRAM.with_name("constrictor-conformance")
LOAD = PROGRAM.with_name("constrictor-load")  # bench/load.c: many runs without a server
MUST_WORK = os.environ.get("MUST_WORK") == "1"
ROOT = os.geteuid() == 0
# Nothing here asserts speed. This is only how long a hang may last before it is called one, on a machine that is busy
# with other work and has ten groups of tests to do at a time.
GUARD_S = 600
# Where tests make their folders. tests/run makes one and removes it. Not /tmp: a box has a /tmp of its own, which would
# hide an interpreter that a test made.
FOLDER = os.environ.get("TEST_FOLDER", "/var/tmp")
PR_SET_CHILD_SUBREAPER = 36
VERDICTS = {
    "ok",
    "error",
    "timeout_wall",
    "timeout_cpu",
    "out_of_memory",
    "too_many_processes",
    "disk_full",
    "output_limit",
    "denied",
    "cancelled",
    "lost",
}


def pytest_configure(config):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.dont_write_bytecode = True
    config.addinivalue_line("markers", "root: applies to a privileged caller only")
    config.addinivalue_line("markers", "user: applies to an unprivileged caller only")


def pytest_collection_modifyitems(config, items):
    """Tests that cannot apply to this caller are not collected, rather than skipped."""
    other = "user" if ROOT else "root"
    gone = [item for item in items if item.get_closest_marker(other)]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if MUST_WORK and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but MUST_WORK=1: {report.longrepr}"


class Result:
    """One finished command: its exit status, its two streams and, with --json, its object."""

    def __init__(self, args, status, stdout, stderr):
        self.args = args
        self.status = status
        self.raw = stdout
        self.out = stdout.decode("utf-8", "backslashreplace")
        self.err = stderr.decode("utf-8", "backslashreplace")
        self._json = None

    @property
    def json(self):
        if self._json is None:
            try:
                self._json = json.loads(self.raw)
            except ValueError as error:
                raise AssertionError(f"stdout is not one JSON object: {error}\n{self}") from None
        return self._json

    def __getattr__(self, name):
        """The fields of the result object read as attributes: r.verdict, r.usage."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.json:
            raise AssertionError(f"the result object has no '{name}'\n{self}")
        return self.json[name]

    @property
    def counted(self):
        """Whether a cgroup counted the box; without one, limits are kept by other means."""
        return self.isolation["cgroup"].startswith("live")

    def __repr__(self):
        args = [a if len(a) < 200 else a[:200] + "..." for a in map(str, self.args)]
        return (
            f"{args}\nexit status {self.status}\n"
            f"stdout: {self.out[:3000]}\nstderr: {self.err[:3000]}"
        )


class Cli:
    """Starts the program, with an environment that holds nothing of the caller's settings."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.started = []

    def environ(self, extra=None):
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("CONSTRICTOR", "SANDBOX_", "MAX_", "PYTEST_", "PYTHON"))
        }
        env["TMPDIR"] = str(self.folder)
        env["LANG"] = "C.UTF-8"
        env["CONSTRICTOR_STATE"] = str(self.folder / "state")  # not the machine's own
        env.update(extra or {})
        return env

    def start(
        self, *args, env=None, stdin=subprocess.DEVNULL, prefix=(), program=None, **popen
    ):
        """A running command; the caller ends it, or the fixture does."""
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        if args and args[0] in ("serve", "stdio"):  # tests of the six default tools say --tools default
            env = {"CONSTRICTOR_TOOLS": "full", **(env or {})}
        process = subprocess.Popen(
            [*map(str, prefix), str(program or self.program), *map(str, args)],
            env=self.environ(env),
            stdin=stdin,
            cwd=popen.pop("cwd", self.folder),
            **popen,
        )
        self.started.append(process)
        return process

    def call(self, *args, input=None, guard=GUARD_S, **options):
        """A command from start to end. A hang is a failure, and says what was waited for."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*args, **options)
        try:
            out, err = process.communicate(input, timeout=guard)
        except subprocess.TimeoutExpired:
            tree = describe(descendants(process.pid))
            kill_tree(process.pid)
            out, err = process.communicate()
            raise AssertionError(
                f"{list(map(str, args))[:8]} hangs: no end after {guard} s\n"
                f"stdout {out[:2000]!r}\nstderr {err[:2000]!r}\n{tree}"
            ) from None
        return Result(process.args, process.returncode, out or b"", err or b"")

    def run(self, code, *flags, args=(), **options):
        """`constrictor run --json FLAGS -`, with the code on stdin: the whole result object."""
        if isinstance(code, str):
            code = code.encode("utf-8", "surrogatepass")
        result = self.call("run", "--json", *flags, "-", *args, input=code, **options)
        if "error" not in result.json or "verdict" in result.json:
            assert result.json.get("verdict") in VERDICTS, result
        return result

    def plain(self, code, *flags, args=(), **options):
        """The same without --json: output streams through."""
        if isinstance(code, str):
            code = code.encode()
        return self.call("run", *flags, "-", *args, input=code, **options)

    def ready(self, code, *flags, mark=b"ready\n", guard=GUARD_S, **options):
        """A streaming run that is now past the line that prints `mark`; returns the process."""
        process = self.start("run", *flags, "-c", code, bufsize=0, **options)
        seen = b""
        deadline = time.monotonic() + guard
        os.set_blocking(process.stdout.fileno(), False)
        while mark not in seen:
            part = process.stdout.read(65536)
            seen += part or b""
            if part == b"" or time.monotonic() > deadline:
                kill_tree(process.pid)
                _, err = process.communicate()
                raise AssertionError(f"the run never printed {mark!r}: {seen!r} {err!r}")
            if part is None:
                time.sleep(0.005)
        process.seen = seen
        return process


def children(pid):
    """The children of each thread of a process; none if it is gone."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def descendants(*pids):
    """All processes below `pids`, without these. Walks from child to child: a table of the whole machine, on which
    other tests run as well, would cost much more."""
    found, queue = dict.fromkeys(pids), list(pids)
    while queue:
        for child in children(queue.pop()):
            if child not in found:
                found[child] = None
                queue.append(child)
    return [pid for pid in found if pid not in pids]


def is_gate(pid, command=b"serve"):
    """Whether this is the child of the keeper that has its command line; broker and porter have other names."""
    folder = pathlib.Path(f"/proc/{pid}")
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        name = (folder / "comm").read_text().strip()
        return command in words and name in (PROGRAM.name[:15], CONFORMANCE.name[:15])
    except OSError:
        return False


def zygote(server):
    """The child of the server's process that has children of its own."""
    return next(filter(children, children(server.pid)))


def describe(pids):
    lines = []
    for pid in pids:
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            keep = ("Name", "State", "PPid", "Uid", "NSpid")
            lines.append(" ".join(l for l in status.splitlines() if l.startswith(keep)))
    return "\n".join(lines)


def kill_tree(pid):
    for victim in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError):
            os.kill(victim, signal.SIGKILL)


def reap(pids):
    """Collects the dead children among `pids`; returns those that are alive."""
    alive = []
    for pid in pids:
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
            if done == 0:
                alive.append(pid)
        except ChildProcessError:  # the child of another descendant, or gone
            if os.path.exists(f"/proc/{pid}"):
                alive.append(pid)
        except OSError:
            alive.append(pid)
    return alive


def wait_until(question, guard=GUARD_S, pause=0.02):
    """Asks until the answer is true or the guard is over; returns the last answer. Only a wait for something that must
    not happen needs a guard of its own."""
    deadline = time.monotonic() + guard
    while True:
        answer = question()
        if answer or time.monotonic() > deadline:
            return answer
        time.sleep(pause)


@pytest.fixture(scope="session")
def program():
    if not os.access(PROGRAM, os.X_OK):
        pytest.fail(f"no program at '{PROGRAM}': build it with 'make', or set CONSTRICTOR")
    return PROGRAM


@pytest.fixture(scope="session")
def tools():
    """The helpers above, for tests that look at processes themselves."""

    class Tools:
        pass

    for helper in (children, descendants, describe, is_gate, kill_tree, reap, wait_until, zygote):
        setattr(Tools, helper.__name__, staticmethod(helper))
    Tools.root = ROOT
    Tools.LOAD = LOAD
    Tools.top = TOP
    Tools.result = Result
    return Tools


@contextlib.contextmanager
def open_cli(program):
    before = set(descendants(os.getpid()))
    prefix = "constrictor-test-" if FOLDER == "/var/tmp" else "test-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=FOLDER) as folder:
        cli = Cli(program, pathlib.Path(folder))
        try:
            yield cli
        finally:
            for process in cli.started:
                if process.poll() is None:
                    kill_tree(process.pid)
                process.wait()
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream:
                        stream.close()

            def left():
                """New processes that are not below a process that was there before."""
                found = set(descendants(os.getpid()))  # first: others may be born meanwhile
                return reap(found - before.union(descendants(*before)))

            wait_until(lambda: not left(), guard=120)
            survivors = left()
            text = describe(survivors)
            for pid in survivors:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not left(), guard=10)
    assert not survivors, f"processes survived the test:\n{text}"


@pytest.fixture
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="session")
def lab():
    """Two network namespaces, and servers: for tests that reach hosts."""
    import net_lab

    with net_lab.open_lab() as lab:
        yield lab


@pytest.fixture(scope="session")
def shared_cli(program):
    """A program for fixtures that make one run and share its result."""
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(autouse=True)
def valid_messages():
    """Every message that a test receives over MCP is valid by the official schema of its revision."""
    yield
    if "mcp_client" in sys.modules:
        sys.modules["mcp_client"].check_all()
