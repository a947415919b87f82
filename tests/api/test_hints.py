# SPDX-License-Identifier: Apache-2.0
"""Hints are followed: an agent that does only what the server's texts say reaches its goal with the six default tools.

The agent knows no tool but execute_python, and nothing about this server. It tries, reads the text of the answer, and does what the
first rule that fits says: each rule is a sentence of the server, with what it asks for.
"""

import json
import re
import sys

import pytest
import wheel_lab
from conftest import open_cli
from mcp_client import connect, text

STEPS_MAX = 8


class Agent:
    def __init__(self, c, data=""):
        self.c, self.data, self.trail = c, data, []

    def ask(self, tool, **arguments):
        self.trail.append(tool)
        answer = self.c.request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            return answer["error"]["message"], True
        return text(answer["result"]), bool(answer["result"].get("isError"))

    def read(self, uri):
        self.trail.append("resources/read")
        return self.c.result("resources/read", {"uri": uri})["contents"][0]["text"]

    def run(self, goal, tool="execute_python", **arguments):
        """Goes on until `goal` is in what it has read; returns that."""
        said = ""
        for _ in range(STEPS_MAX):
            said, failed = self.ask(tool, **arguments)
            if goal in said:
                return said
            follow = self.advice(said, tool, arguments)
            assert follow, f"no advice to follow in: {said}"
            tool, arguments, read = follow
            if read is not None:
                if goal in read:
                    return read
                said = read
        raise AssertionError(f"not reached after {self.trail}: {said}")

    def advice(self, said, tool, arguments):
        """What to call next, and a text that was fetched on the way."""
        again = dict(arguments)
        if found := re.search(r"call (\w+) with ((?:\w+=\"[^\"]*\"(?:, )?)+)", said):
            words, failed = self.ask(found[1], **dict(re.findall(r"(\w+)=\"([^\"]*)\"", found[2])))
            assert not failed, words
            return tool, again, None
        if found := re.search(r"call (\w+) with (\{.*?\})", said):
            return found[1], json.loads(found[2]), None
        if found := re.search(r"or set '(\w+)', at most (\d+)(, above 50 with background=true)?", said):
            again[found[1]] = min(int(found[2]), 8 * (again.get(found[1]) or 8))
            return tool, again, None
        if found := re.search(r"add it to (\w+) of the call", said):
            missing = re.search(r"Import '(\w+)' is not allowed", said)[1]
            again[found[1]] = [*again[found[1]], missing]
            return tool, again, None
        if "put the data into a file with write_file" in said:
            words, failed = self.ask("write_file", session="work", path="data.csv", text=self.data)
            assert not failed, words
            again.update(session="work", code=re.sub(r"urllib\.request\.urlopen\([^)]*\)", "open('/mnt/data/data.csv', 'rb')", again["code"]))
            return tool, again, None
        if "pass it as 'stdin'" in said:
            return tool, {**again, "stdin": self.data}, None
        if found := re.search(r"pip cannot install (\w+) in a box: use the tool (\w+)", said):
            words, failed = self.ask(found[2], packages=found[1])
            assert not failed, words
            again["code"] = again["code"].partition("\n")[2]
            return tool, again, None
        if found := re.search(r"did you mean '(\w+)'", said):
            return found[1], again, None
        if found := re.search(r"argument '(\w+)' is \d+, but must be at most (\d+)", said):
            return tool, {**again, found[1]: int(found[2])}, None
        if found := re.search(r"argument '(\w+)' is \"[^\"]*\", but must be a number", said):
            again.pop(found[1])
            return tool, again, None
        if "use a name of your choice as 'session'" in said:
            return tool, {**again, "session": "mine"}, None
        if found := re.search(r"full text: (\S+?)\]", said):
            return tool, again, self.read(found[1])
        if found := re.search(r"read on with offset=(\d+)", said):
            return tool, {**again, "offset": int(found[1])}, None
        if "running for " in said and "execution_id" in arguments:
            return tool, again, None
        return None


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        for name, module in (("scikit-learn", "sklearn"), ("lab-words", "lab_words"), ("labtool", "labtool")):
            lab.add(wheel_lab.wheel(name, "1.0", {f"{module}.py": f"NAME = 'the {name} package'\n".encode()}))
        yield lab


@pytest.fixture(scope="module")
def c(program, index):
    with open_cli(program) as cli, connect(cli, "--tools", "default", "--stock", "1", "--python", "/usr/bin/python3", "--index-url",
                                           index.url, "--cpu", "1s") as c:
        yield c


@pytest.fixture
def agent(c):
    return Agent(c, "n\n20\n22\n")


def test_a_module_whose_package_has_another_name(agent):
    agent.run("the scikit-learn package", code="import sklearn\nsklearn.NAME")
    assert agent.trail == ["execute_python", "install_package", "execute_python"]


def test_a_module_that_is_in_no_table(agent):
    agent.run("the lab-words package", code="import lab_words\nlab_words.NAME", session="a")


def test_pip_in_the_code(agent):
    agent.run("the labtool package", code="!pip install labtool\nimport labtool\nlabtool.NAME")


def test_the_network_is_off(agent):
    code = "import urllib.request\nlines = urllib.request.urlopen('http://example.org/data.csv').read().split()\nsum(map(int, lines[1:]))"
    agent.run("result: 42", code=code)
    assert agent.trail == ["execute_python", "write_file", "execute_python"]


def test_too_little_time(agent):
    agent.run("result: 'done'", code="import time\ntime.sleep(1)\n'done'", timeout=0.4)
    assert len(agent.trail) == 2


def test_more_time_than_a_call_may_take(agent):
    agent.run("result: 42", code="import time\ntime.sleep(1.5)\n42", background=True)
    assert agent.trail == ["execute_python", "check_run"]


def test_too_much_time_asked_for(agent):
    agent.run("result: 42", code="6 * 7", timeout=9999)


def test_too_little_processor_time(agent):
    code = "import time\nwhile time.process_time() < 1.5: pass\n'done'"
    agent.run("result: 'done'", code=code, cpu_seconds=1)


def test_too_little_memory(agent):
    agent.run("result: 150", code="x = bytearray(150 << 20)\nlen(x) >> 20", memory_mb=64)


def test_long_output_is_read_from_its_resource(agent):
    agent.run("the needle", code="for i in range(20000): print('the needle' if i == 9000 else i)")
    assert agent.trail == ["execute_python", "resources/read"]


def test_a_long_file_is_read_to_its_end(agent):
    agent.ask("execute_python", code="open('long.txt', 'w').write('x' * 20000 + 'the end')", session="files")
    agent.run("the end", tool="read_file", session="files", path="long.txt")
    assert agent.trail.count("read_file") > 1


def test_input_without_stdin(agent):
    agent.run("result: 42", code="input()\nint(input()) + int(input())")


def test_a_module_that_the_call_forbids(agent):
    agent.run("result: 4.0", code="import math, json\nmath.sqrt(16)", allowed_imports=["math"])


def test_a_tool_of_another_name(agent):
    agent.run("result: 42", tool="run_python", code="6 * 7")


def test_a_number_that_is_a_word(agent):
    agent.run("result: 42", code="6 * 7", timeout="soon")


def test_a_session_that_is_gone(agent):
    agent.run("result: 42", code="6 * 7", session="ses_0123456789ABCDEFGHabcdef")


@pytest.mark.parametrize("module, package", [("cv2", "opencv-python-headless"), ("PIL.Image", "pillow"), ("bs4", "beautifulsoup4"),
                                             ("yaml", "pyyaml"), ("dateutil", "python-dateutil"), ("Crypto.Cipher", "pycryptodome"),
                                             ("skimage", "scikit-image"), ("dotenv", "python-dotenv"), ("docx", "python-docx")])
def test_the_hint_knows_the_package(c, module, package):
    said = text(c.python(f"import {module}"))
    assert f'call install_package with packages="{package}", then run it again' in said, said


def test_the_command_line_names_its_own_option(cli):
    said = cli.plain("import sklearn").err
    assert "add --package scikit-learn" in said and "install_package" not in said and "POST" not in said
    said = cli.plain("import urllib.request\nurllib.request.urlopen('http://example.org')").err
    assert "--allow-host HOST" in said and "write_file" not in said


def test_a_server_without_packages_does_not_send_for_them(cli):
    with connect(cli, "--tools", "default", "--stock", "1", "--offline", "--python", sys.executable) as c:
        said = text(c.python("import no_such_module_here"))
    assert "installs no packages" in said and "install_package" not in said, said
