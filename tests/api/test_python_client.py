# SPDX-License-Identifier: Apache-2.0
"""clients/python: its wheel, built and installed into a clean environment, passes its own tests and is typed."""

import os
import subprocess

from conftest import PROGRAM, TOP

TOOLS = TOP / "build/venv-clients/bin"
CLIENT = TOP / "clients/python"


def call(*command, cwd, **env):
    env = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **env}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=env, timeout=3600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_the_wheel_in_a_clean_environment(program, tmp_path):
    call("cp", "-r", CLIENT, tmp_path / "source", cwd=tmp_path)
    call(TOOLS / "python", "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
         "--wheel-dir", tmp_path, tmp_path / "source", cwd=tmp_path)  # fmt: skip
    (wheel,) = tmp_path.glob("constrictor_client-*-py3-none-any.whl")
    python = tmp_path / "clean/bin/python"
    call(TOOLS / "python", "-m", "venv", "--without-pip", tmp_path / "clean", cwd=tmp_path)
    call(TOOLS / "python", "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # httpx and pytest come from where tools/setup put them.
    packages = call(TOOLS / "python", "-c", "import httpx, pathlib; print(pathlib.Path(httpx.__file__).parents[1])", cwd=tmp_path).strip()
    place = call(python, "-c", "import constrictor_client as c, pathlib; print(pathlib.Path(c.__file__).parents[1])", cwd=tmp_path,
                 PYTHONPATH=packages).strip()  # fmt: skip
    assert place.startswith(str(tmp_path / "clean"))
    told = call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=tmp_path / "source", PYTHONPATH=packages,
                CONSTRICTOR=str(PROGRAM), PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
    assert "passed" in told and "skipped" not in told, told


def test_it_is_typed(tmp_path):
    call(TOOLS / "python", "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", CLIENT / "src", cwd=tmp_path)


def test_it_needs_httpx_alone():
    text = (CLIENT / "pyproject.toml").read_text()
    assert 'dependencies = ["httpx>=' in text
