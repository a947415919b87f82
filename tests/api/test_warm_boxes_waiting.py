# SPDX-License-Identifier: Apache-2.0
"""A box that waits with its modules imported must do nothing: also where no cgroup counts its processor time.

So these few run for both users, the other tests are in test_warm_boxes.py.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli, wait_until
from rest_client import serve

MODULES = {
    "kit_thread": b"import threading\ndef turn():\n    while True:\n        pass\n"
                  b"threading.Thread(target=turn, daemon=True).start()\n",
    # No process waits for them, so none has their time, and each is gone soon.
    "kit_relay": b"import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n"
                 b"    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n    while True:\n"
                 b"        if os.fork() == 0:\n            end = time.monotonic() + 0.2\n"
                 b"            while time.monotonic() < end:\n                pass\n            os._exit(0)\n"
                 b"        time.sleep(0.2)\n",
    "kit_grows": b"import threading, time\nkept = []\ndef grow():\n    time.sleep(0.2)\n"
                 b"    kept.append(bytearray(b'x' * (320 << 20)))\n"
                 b"threading.Thread(target=grow, daemon=True).start()\n",
    "kit_quiet": b"import os, threading, time\nif os.fork() == 0:\n    os._exit(0)\n"
                 b"threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
}


@pytest.fixture(scope="module")
def server(program):
    with wheel_lab.Lab() as lab, open_cli(program) as cli:
        lab.add(wheel_lab.wheel("lab-kit", "1.0", {f"{name}.py": text for name, text in MODULES.items()}))
        server = serve(cli, "--python", sys.executable, "--index-url", lab.url, "--state", cli.folder / "state",
                       "--warm-memory", "300M", "--memory", "1G", "--cpu", "1h")
        for name in MODULES:            # all at once: they burn side by side
            made = server.post("/environments", {"name": name.replace("_", "-"), "packages": "lab-kit", "wait": 60,
                                                 "preload": [name]}).json
            assert made.get("state") == "ready", made
        yield server


def warm(server, module):
    return server.get(f"/environments/{module.replace('_', '-')}").json["warm"]


@pytest.mark.parametrize("module, words", [("kit_thread", "processor"), ("kit_relay", "process"),
                                           ("kit_grows", "memory")])
def test_a_box_that_works_while_it_waits_is_given_up(server, module, words):
    assert wait_until(lambda: words in warm(server, module).get("problem", "")), warm(server, module)
    assert warm(server, module)["boxes"] == 0


def test_one_that_is_quiet_stays(server):
    assert wait_until(lambda: warm(server, "kit_quiet")["boxes"] == 1), warm(server, "kit_quiet")
    assert server.run("import sys; 'kit_quiet' in sys.modules", environment="kit-quiet")["result"] == "True"
