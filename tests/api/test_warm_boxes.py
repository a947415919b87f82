# SPDX-License-Identifier: Apache-2.0
"""Boxes that have an environment's modules imported ahead: which runs get them, what they may tell, and what they may cost.

Warmness is shown by facts: the module is in sys.modules before the code imports it, and says that it was imported
before the run was asked for. One wheel has a module for each case, so that all environments have one lock.
"""

import os
import pathlib
import signal
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import descendants, is_gate, open_cli, wait_until
from rest_client import Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:" + "a" * 32 + ",ben:" + "b" * 32}
MODULES = {
    "kit_slow": b"import sys, time, uuid\n"
                b"print('hello from the import', flush=True)\nsys.stderr.write('noise\\n')\n"
                b"time.sleep(0.3)\nAT, MARK = time.time(), uuid.uuid4().hex\n",
    "kit_late": b"import ctypes, threading, time\n"
                b"ctypes.CDLL(None).printf(b'said in C')\n"
                b"def speak():\n    time.sleep(0.1)\n    print('said late', flush=True)\n"
                b"threading.Thread(target=speak, daemon=True).start()\n",
    "kit_main": b"import __main__, sys\n__main__.planted = 1\nsys.argv.append('more')\nprint(end='no end of line')\n",
    "kit_seed": b"import random\nrandom.seed(0)\n",
    "kit_hang": b"import time\nwhile True:\n    time.sleep(1)\n",
    "kit_bomb": b"kept = [bytearray(b'x' * (1 << 20)) for _ in range(4000)]\n",
    "kit_fat": b"kept = bytearray(b'x' * (48 << 20))\n",
    "kit_flood": b"while True:\n    print('x' * 1000)\n",
    "kit_exit": b"import os\nos._exit(3)\n",
    "kit_raise": b"raise ValueError('not today')\n",
    "kit_fork": b"import os\nif os.fork() == 0:\n    raise SystemExit\n",
    "kit_deaf": b"import os\nos.close(1)\n",
    "kit_spy": wheel_lab.SPY + b"attempt('frames', lambda: open('/proc/1/fd/3', 'wb').write(b'x'))\n"
               b"attempt('others', lambda: [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 1000])\n",
}
IS_WARM = "import sys; 'kit_slow' in sys.modules"


@pytest.fixture(scope="module")
def wheels():
    with wheel_lab.Lab() as lab:
        lab.add(wheel_lab.wheel("lab-kit", "1.0", {f"{name}.py": text for name, text in MODULES.items()}))
        lab.add(wheel_lab.wheel("lab-kit", "1.1", {f"{name}.py": text for name, text in MODULES.items()}))
        yield lab


@pytest.fixture(scope="module")
def start(program, wheels):
    with open_cli(program) as cli:
        def start(*flags, key="a" * 32, folder="state"):
            return serve(cli, "--python", sys.executable, "--index-url", wheels.url, "--wall", "3s", "--state",
                         cli.folder / folder, *flags, key=key, env=KEYS)
        yield start


@pytest.fixture(scope="module")
def server(start):
    return start()


def make(server, name, preload=None, packages="lab-kit==1.0"):
    fields = {} if preload is None else {"preload": preload}
    answer = server.post("/environments", {"name": name, "packages": packages, "wait": 60, **fields})
    assert answer.json.get("state") == "ready", answer
    return name


def warm(server, name):
    return server.get(f"/environments/{name}").json["warm"]


def wait_warm(server, name, count=1):
    assert wait_until(lambda: warm(server, name)["boxes"] >= count), server.get(f"/environments/{name}").json
    return name


def wait_problem(server, name):
    assert wait_until(lambda: "problem" in warm(server, name)), warm(server, name)
    return warm(server, name)["problem"]


# ---- The straight way -------------------------------------------------------------------------------

def test_what_runs_import_is_imported_ahead(server):
    name = make(server, "learned")
    code = "import sys\nfound = 'kit_slow' in sys.modules\nimport kit_slow\nprint(found, kit_slow.AT, kit_slow.MARK)\n" \
           "sorted(key for key in globals() if not key.startswith('__'))"
    first = server.run(code, environment=name)
    assert "hello from the import" in first["stdout"] and "noise" in first["stderr"]
    marks = set()
    for _ in range(3):
        wait_warm(server, name)
        asked = time.time()
        run = server.run(code, environment=name)
        found, at, mark = run["stdout"].split()
        assert found == "True" and float(at) < asked, run
        assert run["stderr"] == "" and run["result"] == "['found', 'kit_slow', 'sys']"
        marks.add(mark)
    assert len(marks) == 3              # one box, one run
    assert server.get(f"/environments/{name}").json["learned"] == ["kit_slow"]


def test_a_session_begins_in_such_a_box(server):
    name = wait_warm(server, make(server, "declared", ["kit_slow"]))
    asked = time.time()
    run = server.run("import sys\nprint('kit_slow' in sys.modules)\nimport kit_slow\nx = kit_slow.AT", session="warm",
                     environment=name)
    assert run["stdout"] == "True\n" and run["session_state"] == "new", run
    assert float(server.run("x", session="warm")["result"]) < asked
    opened = server.post("/sessions", {"environment": wait_warm(server, name), "checkpoint": True})
    session = opened.json["session"]
    assert server.run(IS_WARM, session=session)["result"] == "True"
    server.run("y = 1", session=session)
    server.run("y = 2", session=session)
    undone = server.post(f"/sessions/{session}/undo", {"steps": 1})
    assert undone.status == 200, undone
    assert server.run("y", session=session)["result"] == "1"
    for one in session, "warm":
        assert server.ask("DELETE", f"/sessions/{one}").status == 200


def test_packages_of_a_call_are_an_environment_like_others(server):
    code = "import sys\nfound = 'kit_slow' in sys.modules\nimport kit_slow\nfound"
    assert server.run(code, packages=["lab-kit==1.1"])["result"] == "False"
    assert wait_until(lambda: server.run(code, packages=["lab-kit==1.1"])["result"] == "True")


def test_nothing_of_the_warm_up_is_to_be_seen(server):
    name = wait_warm(server, make(server, "quiet", ["kit_late", "kit_main"]))
    time.sleep(0.3)                     # a thread of the package speaks meanwhile
    run = server.run("import sys\nprint(sys.argv, 'planted' in globals(), 'kit_main' in sys.modules)", environment=name)
    assert run["stdout"] == "['<code>'] False True\n" and run["stderr"] == "", run


def test_each_box_draws_its_own_random_numbers(server):
    name = make(server, "random", ["kit_seed"])
    drawn = set()
    for _ in range(3):
        wait_warm(server, name)
        run = server.run("import random, sys, uuid\nassert 'kit_seed' in sys.modules\nprint(random.random(), uuid.uuid4())",
                         environment=name)
        drawn.update(run["stdout"].split())
    assert len(drawn) == 6


# ---- Which runs get one -----------------------------------------------------------------------------------

def test_never_another_owner(server):
    ben = Rest(server.port, "b" * 32)
    make(server, "both", ["kit_slow"])
    make(ben, "both")
    wait_warm(server, "both")
    assert ben.run(IS_WARM, environment="both")["result"] == "False"
    assert warm(ben, "both")["boxes"] == 0 and ben.get("/environments/both").json["preload"] == []
    assert server.run(IS_WARM, environment="both")["result"] == "True"
    base = server.run(IS_WARM)
    assert base["result"] == "False"    # nor another environment


@pytest.mark.parametrize("fields", [{"memory_mb": 300}, {"policy": "guarded", "allowed_imports": ["kit_slow"]}])
def test_other_limits_or_a_policy_take_a_fresh_box(server, fields):
    name = "other"
    if server.get(f"/environments/{name}").status == 404:
        make(server, name, ["kit_slow"])
    wait_warm(server, name)
    run = server.run("import kit_slow", environment=name, **fields)
    assert "hello from the import" in run["stdout"], run


def test_limits_of_the_run_hold(server):
    name = wait_warm(server, make(server, "limits", ["kit_slow"]))
    run = server.run("import sys\nassert 'kit_slow' in sys.modules\nwhile True: pass", environment=name, cpu_seconds=1,
                     timeout=30)
    assert run["verdict"] == "timeout_cpu" and run["stdout"] == run["stderr"] == "", run
    wait_warm(server, name)
    run = server.run("import sys\nassert 'kit_slow' in sys.modules\nx = [bytearray(1 << 20) for _ in range(4000)]",
                     environment=name)
    assert run["verdict"] == "out_of_memory", run
    wait_warm(server, name)
    assert server.run("1 + 1", environment=name)["result"] == "2"


def test_a_change_of_the_environment_ends_its_boxes(server):
    name = wait_warm(server, make(server, "changing", ["kit_slow"]))
    job = server.ask("DELETE", f"/environments/{name}/packages?packages=lab-kit").json
    assert job["state"] == "ready", job
    assert wait_until(lambda: warm(server, name)["boxes"] == 0)
    run = server.run("import sys\nprint('kit_slow' in sys.modules)\nimport kit_slow", environment=name)
    assert run["stdout"] == "False\n" and run["error"]["type"] == "ModuleNotFoundError", run
    again = server.post(f"/environments/{name}/packages", {"packages": "lab-kit==1.1", "wait": 60}).json
    assert again["state"] == "ready", again
    server.run("1", environment=name)
    wait_warm(server, name)
    version = "import sys\nassert 'kit_slow' in sys.modules\nfrom importlib.metadata import version\nversion('lab-kit')"
    assert server.run(version, environment=name)["result"] == "'1.1'"
    assert server.ask("DELETE", f"/environments/{name}").status == 200
    assert server.get(f"/environments/{name}").status == 404


def test_a_new_environment_of_an_old_name_knows_nothing(server):
    name = wait_warm(server, make(server, "reborn", ["kit_slow"]))
    server.run("import kit_seed", environment=name)
    assert wait_until(lambda: server.get(f"/environments/{name}").json["learned"] == ["kit_seed"])
    assert server.ask("DELETE", f"/environments/{name}").status == 200
    made = server.post("/environments", {"name": name}).json
    assert made["preload"] == [] and made["learned"] == [] and made["warm"]["boxes"] == 0, made
    assert server.ask("DELETE", f"/environments/{name}").status == 200


# ---- Hostile packages -------------------------------------------------------------------------------

@pytest.mark.parametrize("module, words", [
    ("kit_hang", "too long"), ("kit_bomb", "memory"), ("kit_flood", "print"), ("kit_exit", "exited"),
    ("kit_raise", "not today"), ("kit_deaf", "close"),
])
def test_what_goes_wrong_is_given_up(server, module, words):
    name = make(server, module.replace("_", "-"), [module])
    assert words in wait_problem(server, name), warm(server, name)
    assert warm(server, name)["boxes"] == 0
    assert server.run("import sys; len(sys.modules) > 1", environment=name)["result"] == "True"
    assert server.ask("DELETE", f"/environments/{name}").status == 200


def test_a_fork_at_import_does_not_answer_for_the_box(server):
    name = wait_warm(server, make(server, "forked", ["kit_fork"]))
    assert server.run("import os, sys; 'kit_fork' in sys.modules", environment=name)["result"] == "True"


def test_the_other_modules_are_imported_all_the_same(server):
    name = wait_warm(server, make(server, "half", ["kit_raise", "kit_slow"]))
    assert server.run("import sys; 'kit_raise' in sys.modules, 'kit_slow' in sys.modules",
                      environment=name)["result"] == "(False, True)"


def test_escapes_at_import_meet_the_wall(server):
    name = wait_warm(server, make(server, "spy", ["kit_spy"]))
    ahead = server.run("import sys\nassert 'kit_spy' in sys.modules\nimport kit_spy\nkit_spy.FOUND", environment=name)
    found = ahead["result_json"]
    assert found["kill"] in ("None", "refused: PermissionError") and found["others"] == "[]", found
    for attempt in "wheels", "write", "connect", "passwd", "frames":
        assert found[attempt].startswith("refused: "), found
    other = server.run("import kit_spy\nkit_spy.FOUND", environment=name, memory_mb=300)["result_json"]
    assert other == found               # as in any box


@pytest.mark.parametrize("preload", [["import os"], ["-x"], ["a;b"], ["../x"], ["1x"], ["m"] * 40, [1], "kit"])
def test_names_that_are_none(server, preload):
    answer = server.post("/environments", {"name": "bad", "preload": preload})
    assert answer.status in (400, 409), answer
    assert server.get("/environments/bad").status == 404


# ---- Bounds and durability --------------------------------------------------------------------------

def test_bounds_hold(start):
    server = start("--warm-boxes", "2", "--warm-memory", "120M", folder="bounds")
    names = [make(server, f"small-{number}", ["kit_slow"]) for number in range(3)]
    for _ in range(2):
        for name in names:
            server.run("import kit_slow", environment=name)
            assert sum(warm(server, one)["boxes"] for one in names) <= 2
    wait_warm(server, names[2])
    wait_warm(server, names[1])
    assert warm(server, names[0])["boxes"] == 0     # wanted least lately
    fat = make(server, "fat", ["kit_fat"])
    for _ in range(3):
        server.run("import kit_fat", environment=fat)
        wait_warm(server, fat)
        everything = [warm(server, one) for one in (*names, fat)]
        assert sum(one["boxes"] for one in everything) <= 2
        assert sum(one["memory_bytes"] for one in everything) <= 120 << 20
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)
    off = start("--warm-boxes", "0", folder="bounds")
    off.run("import kit_slow", environment=names[0])
    time.sleep(0.5)
    assert warm(off, names[0])["boxes"] == 0 and off.run(IS_WARM, environment=names[0])["result"] == "False"


def test_what_was_learned_survives(start):
    server = start(folder="again")
    name = make(server, "keeps")
    server.run("import kit_slow", environment=name)
    wait_warm(server, name)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20)
    server = start(folder="again")
    assert server.get(f"/environments/{name}").json["learned"] == ["kit_slow"]
    assert warm(server, name)["boxes"] == 0         # no run has used it yet
    server.run("1", environment=name)
    wait_warm(server, name)
    assert server.run(IS_WARM, environment=name)["result"] == "True"


def test_a_gate_that_is_killed_leaves_no_boxes(start):
    server = start("--warm-boxes", "4", folder="killed")
    name = make(server, "lost", ["kit_slow"])
    for _ in range(3):
        server.run("import kit_slow", environment=name)
    wait_warm(server, name, 2)
    gate = [pid for pid in descendants(server.process.pid) if is_gate(pid)]
    before = len(descendants(server.process.pid))
    os.kill(gate[0], signal.SIGKILL)

    def back():
        try:
            return warm(server, name)["boxes"] == 0
        except OSError:
            return False
    assert wait_until(back)
    assert wait_until(lambda: len(descendants(server.process.pid)) < before)
    server.run("import kit_slow", environment=name)
    wait_warm(server, name)
    assert server.run(IS_WARM, environment=name)["result"] == "True"
