# SPDX-License-Identifier: Apache-2.0
"""Several servers on one state folder, as desktop clients start them: one `stdio` for each client, and commands beside them.

Everybody sees and installs packages; nothing is lost when one of them is killed.
"""

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading

import pytest
import wheel_lab
from conftest import TOP, descendants, open_cli, wait_until
from mcp_client import Stdio, text
from rest_client import serve

OVER = ("ready", "failed", "cancelled")


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture
def cli(program):
    with open_cli(program) as cli:
        yield cli


def flags(cli, index):
    return "--index-url", index.url, "--state", cli.folder / "state", "--stock", "1"


@contextlib.contextmanager
def client(cli, index, *more):
    c = Stdio(cli, *flags(cli, index), *more)
    c.open()
    try:
        yield c
    finally:
        c.close()


def call(c, tool, /, **arguments):
    answer = c.call(tool, **arguments)
    assert not answer.get("isError"), answer
    return answer["structuredContent"]


def out(c, code, **arguments):
    answer = c.python(code, **arguments)
    assert not answer.get("isError"), text(answer)
    return answer["structuredContent"]["stdout"].strip()


def names(c, environment="base"):
    """Those of the index; the interpreter has its own."""
    found = call(c, "list_installed_packages", environment=environment)["packages"]
    return {one["name"] for one in found if one["name"].startswith("lab-")}


VERSION = "import lab_good; print(lab_good.VERSION)"


def check_disk(cli):
    """What the rows name is on the disk to the last file, no job is left open, and soon nothing temporary is there."""
    folder = cli.folder / "state/environments"
    with contextlib.closing(sqlite3.connect(f"file:{folder}/rows/environments.db?mode=ro", uri=True)) as rows:
        files = dict(rows.execute("SELECT id, files FROM wheel"))
        members = {row[0] for row in rows.execute("SELECT wheel FROM member")}
    assert members <= set(files)
    wheels = folder / "wheels"
    if os.geteuid():
        os.chmod(wheels, 0o711)
    assert set(os.listdir(wheels)) <= set(files), os.listdir(wheels)
    for wheel, count in files.items():
        assert sum(len(found) for _, _, found in os.walk(wheels / wheel)) == count
    if os.geteuid():
        os.chmod(wheels, 0o311)


# ---- what people do ------------------------------------------------------------------------------


def test_two_desktop_clients_share_packages(cli, index):
    """With the SDK's own client: what one installs the other has, also in a session that was open before."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    target = StdioServerParameters(command=str(cli.program), args=["stdio", "--tools", "full", *map(str, flags(cli, index))],
                                   env=cli.environ())

    async def run(connection, code, **more):
        answer = await connection.call_tool("execute_python", {"code": code, **more})
        return answer.structured_content

    async def both():
        async with contextlib.AsyncExitStack() as stack:
            sessions = []
            for _ in range(2):
                streams = await stack.enter_async_context(stdio_client(target))
                session = await stack.enter_async_context(ClientSession(*streams[:2]))
                await session.initialize()
                sessions.append(session)
            one, two = sessions
            before = await run(two, "x = 1\nimport lab_good", session="open")
            assert "ModuleNotFoundError" in before["stderr"] + str(before.get("error")), before
            made = await one.call_tool("install_package", {"packages": "lab-good"})
            assert not made.is_error, made
            after = await run(two, VERSION + "\nprint(x)", session="open")
            assert after["stdout"].split()[1:] == ["1"], after
            listed = await two.call_tool("list_installed_packages", {})
            assert "lab-good" in [p["name"] for p in listed.structured_content["packages"]]
            # And the other way, with another package, which does not undo the first.
            made = await two.call_tool("install_package", {"packages": "lab-data"})
            assert not made.is_error, made
            seen = await run(one, "import lab_good, lab_data; print('both')")
            assert seen["stdout"] == "both\n", seen

    asyncio.run(both())


def test_commands_work_beside_a_server(cli, index):
    """`run --package`, `run --env` and `env` while a stdio server has the folder."""
    with client(cli, index) as c:
        at = flags(cli, index)[:4]
        assert cli.call("env", *at, "create", "mine", "lab-good").status == 0
        assert out(c, VERSION, environment="mine")
        end = cli.call("run", *at, "--package", "lab-good", "-c", "import lab_good; print(1)")
        assert end.status == 0 and end.out == "1\n", end
        call(c, "install_package", packages="lab-data", environment="mine")
        end = cli.call("run", *at, "--env", "mine", "-c", "import lab_data, lab_good; print(2)")
        assert end.status == 0 and end.out == "2\n", end
        assert cli.call("env", *at, "delete", "mine").status == 0
        assert "mine" not in call(c, "list_installed_packages")["environments"]


def test_a_command_asks_the_server_that_has_an_address(cli, index):
    with client(cli, index) as c:
        api = serve(cli, *flags(cli, index))
        assert cli.call("env", *flags(cli, index)[:4], "create", "there", "lab-good").status == 0
        assert [e["name"] for e in api.get("/environments").json["environments"]] == ["base", "there"]
        assert out(c, VERSION, environment="there")
        # Its end leaves no address behind.
        api.process.send_signal(signal.SIGTERM)
        assert api.process.wait(60) == 0
        assert cli.call("env", *flags(cli, index)[:4], "packages", "there").status == 0


def test_uninstalling_while_the_other_uses_it(cli, index):
    with client(cli, index) as one, client(cli, index) as two:
        call(one, "install_package", packages="lab-good")
        assert out(two, VERSION, session="s")
        before = out(two, "import lab_good, os; print(os.path.dirname(lab_good.__file__))", session="s")
        call(one, "reset_sandbox", environment="base")
        assert names(two) == set()
        # Its folder stays for the interpreter that has it.
        assert out(two, f"import os; print(len(os.listdir({before!r})) > 0)", session="s") == "True"
        assert "ModuleNotFoundError" in str(two.python("import lab_good")["structuredContent"])


def test_both_install_into_one_environment_at_once(cli, index):
    """Different packages: both are there afterwards.  The same one: both calls say that it is there."""
    with client(cli, index) as one, client(cli, index) as two:
        for first, second in (("lab-good", "lab-data"), ("lab-needs", "lab-needs")):
            answers = {}

            def install(c, package):
                answers[c] = call(c, "install_package", packages=package, wait=50)

            threads = [threading.Thread(target=install, args=pair) for pair in ((one, first), (two, second))]
            with wheel_lab.held(index, f"/simple/{second}") as release:
                for thread in threads:
                    thread.start()
                wait_until(lambda: index.requests)
                release.set()
            for thread in threads:
                thread.join(300)
            assert len(answers) == 2 and all(said["state"] == "ready" for said in answers.values()), answers
            assert {first, second} <= names(one) == names(two)


def test_an_install_of_the_other_is_seen_and_ends_with_it(cli, index):
    """Its state can be asked for anywhere; when its server is killed it has failed, and the environment is free."""
    with client(cli, index) as one:
        two = Stdio(cli, *flags(cli, index))
        two.open()
        with wheel_lab.held(index, "/simple/lab-large"):
            job = call(two, "install_package", packages="lab-large", wait=0)
            status = lambda: one.call("check_package_status", job=job["job"])["structuredContent"]
            assert status()["state"] not in OVER
            os.kill(two.process.pid, signal.SIGKILL)
            two.process.wait(60)
            said = wait_until(lambda: (lambda s: s if s["state"] in OVER else None)(status()))
        assert said["state"] == "failed" and said["error"]["code"] == "interrupted", said
        assert call(one, "install_package", packages="lab-good")["state"] == "ready"
        assert names(one) == {"lab-good"}


@pytest.mark.parametrize("stage", ["resolving", "downloading", "unpacking", "storing"])
def test_killed_in_the_middle_of_the_same_install(cli, index, stage):
    """kill -9 of one of two that install the same: the other one ends well, and no half of anything stays."""
    with client(cli, index) as one:
        two = Stdio(cli, *flags(cli, index))
        two.open()
        done = {}
        thread = threading.Thread(
            target=lambda: done.update(call(one, "install_package", packages="lab-large lab-good", wait=50)))
        job = call(two, "install_package", packages="lab-large lab-good", wait=0)["job"]
        thread.start()
        order = ["queued", "resolving", "downloading", "unpacking", "compiling", "storing", *OVER]
        wait_until(lambda: order.index(call(one, "check_package_status", job=job)["state"]) >= order.index(stage))
        for pid in (two.process.pid, *descendants(two.process.pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        two.process.wait(60)
        thread.join(300)
        assert done.get("state") == "ready", done
        assert names(one) == {"lab-large", "lab-good"}
        assert out(one, VERSION)
    # The next start finds all of it, and sweeps the rest.
    with client(cli, index) as three:
        assert out(three, VERSION)
    check_disk(cli)


def test_garbage_of_a_killed_server_goes_while_others_live(cli, index):
    """A folder that its porter did not finish is removed by a server that starts later, one in use is not."""
    with client(cli, index) as one:
        call(one, "install_package", packages="lab-good")
        wheels = cli.folder / "state/environments/wheels"
        number = next(int(f.name) for f in (cli.folder / "state").iterdir() if f.name.isdigit())
        os.mkdir(wheels / f"tmp-{number:04}{'a' * 16}")
        os.mkdir(wheels / f"tmp-{4000:04}{'b' * 16}")
        with client(cli, index) as two:
            assert out(two, VERSION)
            gone = lambda name: not os.path.exists(wheels / name)
            assert wait_until(lambda: gone(f"tmp-{4000:04}{'b' * 16}"))
            assert not gone(f"tmp-{number:04}{'a' * 16}")


def test_a_server_of_another_version_is_named(cli, index):
    """One that has the folder for itself: an error that says so, and everything else works."""
    import fcntl

    state = cli.folder / "state"
    state.mkdir(mode=0o700)
    with open(state / "environments.lock", "w") as lock:
        lock.write("4711\nhttp://127.0.0.1:9\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with client(cli, index) as c:
            answer = c.call("install_package", packages="lab-good")
            assert answer["isError"] and "another server, process 4711" in text(answer), answer
            assert out(c, "print(1)") == "1"


def test_each_has_its_own_sessions_and_artifacts(cli, index):
    """The end of one takes nothing of the other's."""
    with client(cli, index) as one:
        with client(cli, index) as two:
            out(one, "open('kept.txt', 'w').write('1')", session="s")
            out(two, "open('mine.txt', 'w').write('2')", session="s")
            assert out(one, "import os; print(os.listdir())", session="s") == "['kept.txt']"
            assert out(two, "import os; print(os.listdir())", session="s") == "['mine.txt']"
        with client(cli, index):
            assert out(one, "print(open('kept.txt').read())", session="s") == "1"


def test_as_many_as_a_desktop_has(cli, index):
    """Several at once, all of which install: everything is there, in each."""
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(client(cli, index)) for _ in range(4)]
        answers = []
        threads = [threading.Thread(target=lambda c=c, n=n: answers.append(
            call(c, "install_package", packages="lab-good", environment="base", wait=50) if n % 2
            else call(c, "create_python_env", name=f"env{n}", packages="lab-data", wait=50)))
            for n, c in enumerate(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(400)
        assert len(answers) == 4, answers
        for c in many:
            assert set(call(c, "list_installed_packages")["environments"]) == {"base", "env0", "env2"}
            assert out(c, VERSION)
