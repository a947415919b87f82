# SPDX-License-Identifier: Apache-2.0
"""Row E-02: people and models ask for packages by the name that they import. The answer always says what was installed."""

import pytest
import wheel_lab
from conftest import open_cli
from mcp_client import LEGACY, Stdio, text

HOST = "/usr/bin/python3"


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        for name, module in (("scikit-learn", "sklearn"), ("pyyaml", "yaml"), ("pyjwt", "jwt"), ("jwt", "jwt")):
            for version in ("1.0", "2.0"):
                lab.add(wheel_lab.wheel(name, version, {f"{module}.py": f"NAME = '{name} {version}'\n".encode()}))
        lab.add(wheel_lab.source("sklearn", "0.0"))     # as on the index: it only says how it is called
        yield lab


@pytest.fixture
def c(program, index):
    with open_cli(program) as cli:
        c = Stdio(cli, "--stock", "1", "--tools", "full,executor", "--python", HOST, "--index-url", index.url,
                  version=LEGACY[-1])
        c.open()
        c.cli = cli
        yield c


def install(c, names, **more):
    return c.call("install_package", package_names=names, **more)


@pytest.mark.parametrize("asked, module, found", [("sklearn", "sklearn", "scikit-learn 2.0"),
                                                  ("sklearn<2", "sklearn", "scikit-learn 1.0"),
                                                  ("YAML", "yaml", "pyyaml 2.0")])
def test_the_package_of_a_module_is_installed_and_named(c, asked, module, found):
    answer = install(c, asked)
    assert not answer.get("isError"), text(answer)
    name = found.split()[0]
    assert f"{module} is the name of a module: its package, {name}, was installed" in text(answer), text(answer)
    said = c.call("execute_python", code=f"import {module}; print({module}.NAME)")
    assert found in text(said), text(said)


def test_another_project_of_that_name_is_not_installed_by_accident(c):
    answer = install(c, "jwt")
    assert answer["isError"], text(answer)
    assert "'jwt' on the index is another project" in text(answer) and "install pyjwt" in text(answer), text(answer)
    answer = install(c, "jwt>=0")
    assert not answer.get("isError"), text(answer)
    said = c.call("execute_python", code="import jwt; print(jwt.NAME)")
    assert "jwt 2.0" in text(said) and "pyjwt" not in text(said), text(said)


def test_what_was_installed_is_known_by_both_names(c):
    install(c, "sklearn")
    for name in ("sklearn", "scikit-learn"):
        answer = c.call("check_package_status", package_name=name)
        assert not answer.get("isError") and "scikit-learn" in text(answer), text(answer)


def test_a_missing_module_names_its_package_and_the_ways_to_install_it(c):
    for code, package in (("import sklearn.svm", "scikit-learn"), ("import cv2", "opencv-python-headless"),
                          ("import PIL.Image", "pillow"), ("import nothing_at_all", "nothing_at_all")):
        said = text(c.call("execute_python", code=code))
        assert f'call install_package with packages="{package}"' in said, said


@pytest.mark.parametrize("tools, tool", [("executor", "execute_python"), ("kernels", "execute_python_code"),
                                         ("restricted", "execute_code")])
def test_every_set_says_so(cli, tools, tool):
    with Stdio(cli, "--tools", tools, "--policy", "open", "--stock", "1", "--python", HOST, "--offline",
               version=LEGACY[-1]) as c:
        c.open()
        said = text(c.call(tool, code="import sklearn"))
        assert "install_package" in said and "env install base scikit-learn" in said, said


@pytest.mark.parametrize("name", ["x" * 5000, "a'b; rm -rf /", "\n\x1b[31m", "../../etc"])
def test_a_message_of_the_code_cannot_write_the_hint(c, name):
    said = c.call("execute_python", code=f"raise ModuleNotFoundError('No module named ' + repr({name!r}))")
    hint = text(said).rpartition("hint: ")[2]
    assert "the name of the package" in hint or 'packages="a"' in hint, text(said)


def test_run_takes_such_a_name_too(cli, index):
    result = cli.run("import sklearn; print(sklearn.NAME)", "--package", "sklearn", "--python", HOST, "--index-url", index.url)
    assert result.stdout == "scikit-learn 2.0\n", result
