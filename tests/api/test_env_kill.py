# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of installations: of the gate, the porter, the box that installs, and the keeper.

Every round installs packages that no wheel is unpacked of yet. Afterwards every environment that is listed is whole (its wheels
are there to the last file, and all of it can be imported), every installation that was announced as ready is listed,
and nothing temporary stays. KILLS says how many rounds (50 for the record; a few in the suite).
"""

import contextlib
import os
import pathlib
import random
import signal
import sqlite3
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP, descendants, is_gate, wait_until
from rest_client import serve

KILLS = int(os.environ.get("KILLS", "8"))
UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
WHEELS, MODULES = 3, 40     # of one installation
OVER = ("ready", "failed", "cancelled")
SWEPT_S = 120


def publish(lab, round_):
    """A package of this round, and what it needs."""
    names = [f"lab-r{round_}-{number}" for number in range(WHEELS)]
    for number, name in enumerate(names):
        module = name.replace("-", "_")
        files = {f"{module}/m{n}.py": f"VALUE = {n}\n".encode() * 20 for n in range(MODULES)}
        files[f"{module}/__init__.py"] = b"from . import " + b", ".join(b"m%d" % n for n in range(MODULES)) + b"\n"
        lab.add(wheel_lab.wheel(name, "1.0", files, requires=names[number + 1:number + 2]))
    return names


class Lab:
    """A server that is killed, and what is known of it."""

    def __init__(self, cli, index, tools):
        self.cli, self.index, self.tools = cli, index, tools
        self.state, self.ready, self.took = cli.folder / "state", {}, 1.0
        self.start()

    def start(self):
        self.server = serve(self.cli, "--python", PYTHON, "--index-url", self.index.url, "--stock", "2")

    def pids(self, part):
        """Those of a part of the server that are there now."""
        root = self.server.process.pid
        found = {"keeper": [root], "gate": [], "porter": [], "box": []}
        for pid in descendants(root):
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if is_gate(pid):
                    found["gate"].append(pid)
                elif name == "constrictor-env":
                    found["porter"].append(pid)
                elif name == "uv" or b"pip" in words or len(ns_pids(pid)) > 2:
                    found["box"].append(pid)
        return found[part]

    def install(self, round_, names):
        """In a thread: notes what was announced."""
        begin, name = time.monotonic(), f"e{round_}"
        with contextlib.suppress(Exception):
            self.server.post("/environments", {"name": name})
            job = self.server.post(f"/environments/{name}/packages", {"packages": names[0], "wait": 50}).json
            if job.get("state") == "ready":
                self.ready[name] = names
                self.took = time.monotonic() - begin

    def round(self, round_, part, chance):
        names = publish(self.index, round_)
        thread = threading.Thread(target=self.install, args=(round_, names))
        thread.start()
        time.sleep(chance.uniform(0.02, 1.05 * self.took))
        killed = False
        for pid in self.pids(part)[:3 if part == "box" else 1]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed = True
        if part == "keeper":
            self.server.process.wait(600)
            thread.join(60)
            self.start()
        else:
            thread.join(60)
            assert wait_until(self.answers), "the server does not come back"
        assert not thread.is_alive(), "an installation never ends"
        return killed

    def answers(self):
        with contextlib.suppress(Exception):
            return self.server.get("/environments").status == 200
        return False

    def check(self):
        """Every environment that is listed is whole; every one that was announced is listed."""
        listed = {}
        for item in self.server.get("/environments").json["environments"]:
            one = self.server.get(f"/environments/{item['name']}").json
            listed[item["name"]] = {package["name"] for package in one["lock"]}
            assert wait_until(lambda: all(job["state"] in OVER for job in self.jobs(item["name"]))), self.jobs(item["name"])
        for name, names in self.ready.items():
            assert listed.get(name) == set(names), (name, listed.get(name))
        for name, packages in listed.items():
            whole = {f"lab-r{name[1:]}-{number}" for number in range(WHEELS)}
            assert packages in (set(), whole), (name, packages)
            if packages:
                modules = ", ".join(package.replace("-", "_") for package in sorted(packages))
                found = self.server.run(f"import {modules}\n{modules.split(',')[0]}.m{MODULES - 1}.VALUE", environment=name)
                assert found["result"] == str(MODULES - 1), (name, found)
        return listed

    def jobs(self, name):
        return self.server.get(f"/environments/{name}").json["jobs"]

    def check_disk(self):
        """What the rows name is on the disk to the last file, and soon nothing else is."""
        folder = self.state / "environments"
        rows = sqlite3.connect(f"file:{folder}/rows/environments.db?mode=ro", uri=True)
        with contextlib.closing(rows):
            files = dict(rows.execute("SELECT id, files FROM wheel"))
            members = {row[0] for row in rows.execute("SELECT wheel FROM member")}
            open_jobs = rows.execute("SELECT COUNT(*) FROM job WHERE done = 0").fetchone()[0]
        assert members <= set(files) and open_jobs == 0
        for wheel, count in files.items():
            found = sum(len(names) for _, _, names in os.walk(folder / "wheels" / wheel))
            assert found == count, (wheel, found, count)
        left = wait_until(lambda: set(os.listdir(folder / "wheels")) <= set(files), SWEPT_S)
        assert left, sorted(set(os.listdir(folder / "wheels")) - set(files))
        strange = [path for path in folder.rglob("*tmp*") if "wheels" not in path.parts]
        assert not strange, strange


def ns_pids(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []


@pytest.mark.root
def test_killed_at_any_moment_of_an_installation(cli, tools):
    """As root, who can look into the folder of wheels."""
    chance, kills = random.Random(int(os.environ.get("SEED", "6"))), {}
    with wheel_lab.Lab() as index:
        lab = Lab(cli, index, tools)
        lab.install("w", publish(index, "w"))       # how long it takes
        assert lab.ready, "nothing can be installed at all"
        for round_ in range(KILLS):
            part = ("keeper", "gate", "porter", "box")[round_ % 4]
            kills[part] = kills.get(part, 0) + lab.round(round_, part, chance)
            lab.check()
        lab.server.process.kill()
        lab.server.process.wait(600)
        lab.start()
        listed = lab.check()
        lab.check_disk()
        print(f"kills {kills}, ready {len(lab.ready)} of {KILLS + 1}, listed {len(listed)}")
        # Whatever was killed, the same can be installed now.
        for name, packages in listed.items():
            if name != "base" and not packages:
                answer = lab.server.post(f"/environments/{name}/packages", {"packages": f"lab-r{name[1:]}-0", "wait": 50})
                assert answer.json["state"] == "ready", answer
        lab.check()
