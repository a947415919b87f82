# SPDX-License-Identifier: Apache-2.0
"""One line to try it: the wheel (`uvx`, `pipx`, `pip install`) and the npm package (`npx`), built and used.

Both are built once, unoptimised so that it is quick, and installed where nothing of this tree is beside them.
"""

import base64
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import TOP, open_cli
from mcp_client import Stdio, text

BUILD = {**os.environ, "STATIC_BUILDTYPE": "debug"}
UV = TOP / "build" / "venv-net" / "bin" / "uv"


def make(tool, out):
    done = subprocess.run([TOP / "tools" / tool, out], env=BUILD, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return pathlib.Path(done.stdout.split("\n", 1)[0])


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="module")
def wheel(cli):
    path = make("wheel", cli.folder / "wheel")
    assert path.exists()
    return path


@pytest.fixture(scope="module")
def environment(cli, wheel):
    """A virtual environment with the wheel and a module of its own, as `pip install` leaves it."""
    folder = cli.folder / "venv"
    command = [sys.executable, "-m", "venv"]
    subprocess.run([*command, *(["--without-pip"] if UV.exists() else []), folder], check=True, timeout=300)
    install = [UV, "pip", "install", "--python", folder] if UV.exists() else [folder / "bin" / "pip", "install"]
    done = subprocess.run([*install, "--no-index", "--no-deps", wheel], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "UV_CACHE_DIR": str(cli.folder / "uv")})
    assert done.returncode == 0, done.stdout + done.stderr
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "guest.py").write_text("answer = 6 * 7\n")
    return folder


# ---- the wheel


def test_the_name_of_the_wheel_says_which_c_library_it_needs(wheel, tmp_path):
    tag = re.fullmatch(r"constrictor_mcp-\d+\.\d+\.\d+-py3-none-manylinux_2_(\d+)_(\w+)\.whl", wheel.name)
    assert tag and tag[2] == os.uname().machine
    with zipfile.ZipFile(wheel) as archive:
        programs = [n for n in archive.namelist() if n.endswith(("/constrictor", ".so"))]
        assert len(programs) == 3
        archive.extractall(tmp_path, programs)
    needed = set()
    for name in programs:
        out = subprocess.run(["readelf", "-V", tmp_path / name], capture_output=True, text=True, check=True).stdout
        needed |= {int(n) for n in re.findall(r"GLIBC_2\.(\d+)", out)}
    assert max(needed) == int(tag[1])
    if (os.confstr("CS_GNU_LIBC_VERSION") or "").split(".")[-1] == "36":  # Debian 12, where releases are built
        assert tag[1] == "34"


def test_the_record_of_the_wheel_lists_every_file_with_its_hash(wheel):
    with zipfile.ZipFile(wheel) as archive:
        record = next(n for n in archive.namelist() if n.endswith("/RECORD"))
        rows = {name: (digest, size) for name, digest, size in csv.reader(archive.read(record).decode().split("\n")[:-1])}
        assert set(rows) == set(archive.namelist())
        for name in set(rows) - {record}:
            data = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert rows[name] == (f"sha256={digest}", str(len(data))), name


def test_the_packages_hold_the_whole_python_side(wheel):
    """A child interpreter finds the packages of its environment by a file that was once forgotten."""
    here = {p.relative_to(TOP / "build").as_posix() for p in (TOP / "build" / "python").rglob("*.py")}
    assert "python/children/sitecustomize.py" in here
    with zipfile.ZipFile(wheel) as archive:
        inside = {n.partition("program/")[2] for n in archive.namelist() if "/program/python/" in n}
    assert {n for n in inside if n.endswith(".py")} == here
    assert not [n for n in inside if n.endswith(".pyc")]


def test_building_twice_gives_the_same_bytes(wheel, tmp_path):
    assert make("wheel", tmp_path).read_bytes() == wheel.read_bytes()


def test_constrictor_of_the_wheel_runs_code(environment, cli):
    done = cli.call("run", "-c", "print(6 * 7)", program=environment / "bin" / "constrictor")
    assert (done.status, done.out) == (0, "42\n"), done


def test_code_has_the_packages_of_the_environment_of_the_wheel(environment, cli):
    done = cli.call("run", "-c", "import guest; print(guest.answer)", program=environment / "bin" / "constrictor")
    assert (done.status, done.out) == (0, "42\n"), done


def test_an_interpreter_that_the_caller_names_comes_before_the_environments(environment, cli):
    done = cli.call("run", "-c", "import guest", program=environment / "bin" / "constrictor",
                    env={"CONSTRICTOR_PYTHON": "/usr/bin/python3"})
    assert done.status == 1 and "No module named 'guest'" in done.err, done


def test_constrictor_mcp_of_the_wheel_is_an_mcp_server(environment, cli):
    """Started as a client does it, by its path and with options of the server."""
    script = cli.folder / "as-stdio"  # Stdio puts the word 'stdio' first, which this command brings itself
    script.write_text(f'#!/bin/sh\n[ "$1" = stdio ] && shift\nexec {environment}/bin/constrictor-mcp "$@"\n')
    script.chmod(0o755)
    with open_cli(script) as started, Stdio(started, "--memory", "100M") as client:
        assert client.open()["serverInfo"]["name"] == "constrictor"
        assert "42" in text(client.python("import guest; print(guest.answer)"))
        limits = client.call("get_sandbox_info")["structuredContent"]["limits"]
        assert limits["memory"]["default"] == 100


# ---- npm


@pytest.fixture(scope="module")
def npm(cli):
    path = make("npm", cli.folder / "npm")
    assert path.exists()
    return path


def test_the_npm_package_is_for_the_machines_that_can_run_it(npm):
    with tarfile.open(npm) as archive:
        package = json.load(archive.extractfile("package/package.json"))
        modes = {m.name: m.mode for m in archive.getmembers()}
    assert package["os"] == ["linux"] and package["libc"] == ["glibc"]
    assert package["cpu"] == [{"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]]
    assert package["version"] == re.search(r"^  version: '(.*)',$", (TOP / "meson.build").read_text(), re.M)[1]
    assert "scripts" not in package  # nothing of it runs at installation
    for target in package["bin"].values():
        assert modes[f"package/{target}"] & 0o111


def test_npx_runs_code_and_the_server(npm, cli):
    if not shutil.which("npm"):
        pytest.skip("there is no npm")
    home = cli.folder / "npm-home"
    home.mkdir()
    env = {"HOME": str(home), "npm_config_update_notifier": "false"}
    npx = ["exec", "--offline", "--yes", f"--package={npm}", "--"]
    done = cli.call(*npx, "constrictor", "run", "-c", "print(6 * 7)", program=shutil.which("npm"), env=env)
    assert (done.status, done.out) == (0, "42\n"), done
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    done = cli.call(*npx, "constrictor-mcp", program=shutil.which("npm"), env=env,
                    input=json.dumps(hello).encode() + b"\n")
    assert done.json["result"]["serverInfo"]["name"] == "constrictor", done
