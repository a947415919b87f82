# SPDX-License-Identifier: Apache-2.0
"""A person answers input() while the code runs: `interactive` of POST /execute, in a session.

The stream says when the code waits, with the prompt; POST /sessions/{id}/input answers, or ends the input.
"""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
import rest_client
from exercises import EXERCISES
from mcp_client import several, text

KEYS = "ada:key-of-ada\nbob:key-of-bob\n"
ASK = "name = input('Name? ')\nprint('Hello', name)"


@pytest.fixture(scope="module")
def api(shared_cli):
    keys = shared_cli.folder / "keys"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    return rest_client.serve(shared_cli, "--stock", "2", "--api-key-file", keys, key="key-of-ada")


def answer(api, session, text=None, end=None):
    body = {} if text is None else {"text": text}
    return api.post(f"/sessions/{session}/input", {**body, **({"end": True} if end else {})})


class Talk:
    """A run that asks: lines of its stream, up to the next question."""

    def __init__(self, api, code, session, **fields):
        self.api, self.session, self.lines, self.prompts = api, session, [], []
        self.manager = api.streaming(code, session=session, interactive=True, **fields)
        self.response = self.manager.__enter__()
        assert self.response.status == 200, self.response.read()

    def next(self):
        """True: the code asks. False: it has ended."""
        while line := self.response.readline():
            if not line.strip():
                continue
            self.lines.append(json.loads(line))
            if "input_request" in self.lines[-1]:
                self.prompts.append(self.lines[-1]["input_request"]["prompt"])
                return True
        self.manager.__exit__(None, None, None)
        return False

    @property
    def printed(self):
        return "".join(line["text"] for line in self.lines if line.get("stream") == "stdout")

    @property
    def whole(self):
        return self.lines[-1]["execution"]


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_with_a_person(api, shared_cli, name):
    code, typed = EXERCISES[name]
    script = shared_cli.folder / "oracle.py"
    script.write_text(code)
    oracle = subprocess.run([sys.executable, script], input=typed.encode(), capture_output=True,
                            env={"LANG": "C.UTF-8"}, timeout=600)  # fmt: skip
    talk, lines = Talk(api, code, "exercises"), typed.splitlines(keepends=True)
    while talk.next():
        said = answer(api, "exercises", lines.pop(0)) if lines else answer(api, "exercises", end=True)
        assert said.status == 200 and said.json["taken"] is True, said
    whole = talk.whole
    assert whole["stdout"] == talk.printed == oracle.stdout.decode()
    assert whole["exit_code"] == oracle.returncode, whole
    last = whole["error"]["text"].strip().splitlines()[-1:] if whole.get("error") else []
    assert last == oracle.stderr.decode().strip().splitlines()[-1:]


def test_the_question_has_the_prompt_and_comes_after_the_output(api):
    talk = Talk(api, "print('before')\n" + ASK, "asks")
    assert talk.next() and talk.prompts == ["Name? "] and talk.printed == "before\nName? "
    assert answer(api, "asks", "Ada").status == 200  # without its newline
    assert not talk.next() and talk.printed == "before\nName? Hello Ada\n"
    assert api.run("print(name)", session="asks")["stdout"] == "Ada\n"


def test_as_server_sent_events(api):
    connection = api.connect()
    body = json.dumps({"code": ASK, "session": "events", "interactive": True})
    connection.request("POST", "/api/v1/execute", body,
                       api.headers({"Content-Type": "application/json", "Accept": "text/event-stream"}))  # fmt: skip
    response = connection.getresponse()
    while (line := response.readline()).strip() != b"event: input_request":
        assert line
    assert answer(api, "events", "Ada").status == 200
    assert b"Hello Ada" in response.read()
    connection.close()


def test_stdin_comes_first_and_then_the_person(api):
    talk = Talk(api, "print(input(), input('2? '))", "both", stdin="one\n")
    assert talk.next() and talk.prompts == ["2? "]
    answer(api, "both", "two")
    assert not talk.next() and talk.printed == "2? one two\n"


def test_programs_and_children_read_what_is_there_until_the_end(api):
    talk = Talk(api, "import subprocess; subprocess.run(['cat'])", "cat", stdin="one\n")
    while answer(api, "cat", end=True).status != 200:
        time.sleep(0.01)
    assert not talk.next() and talk.printed == "one\n"


def test_code_can_wait_in_turns(api):
    code = "import threading\nt = threading.Thread(target=lambda: print(input('a')))\nt.start(); t.join(); print(input('b'))"
    talk = Talk(api, code, "turns")
    while talk.next():
        answer(api, "turns", talk.prompts[-1] * 2)
    assert talk.prompts == ["a", "b"] and talk.printed == "aaa\nbbb\n"


def test_without_interactive_code_never_waits(api):
    for fields in ({}, {"session": "plain"}, {"session": "plain", "interactive": False}):
        assert api.run("input()", **fields)["error"]["type"] == "EOFError"


def test_an_interrupt_and_the_time_limit_end_the_wait(api):
    talk = Talk(api, ASK, "stop")
    assert talk.next()
    assert api.post("/sessions/stop/interrupt").json["interrupted"]
    assert not talk.next() and talk.whole["error"]["type"] == "KeyboardInterrupt", talk.whole
    talk = Talk(api, ASK, "stop", timeout=0.5)
    assert talk.next() and not talk.next()
    assert talk.whole["verdict"] == "timeout_wall" and talk.whole["session_state"] != "ended", talk.whole
    assert api.run("print('alive')", session="stop")["stdout"] == "alive\n"


def test_a_client_that_goes_away_ends_the_wait(api):
    talk = Talk(api, "x = 1\n" + ASK, "away", timeout=300)
    assert talk.next()
    talk.response.close()
    talk.manager.__exit__(None, None, None)
    assert api.run("print(x)", session="away")["stdout"] == "1\n"


# ---- bad input -----------------------------------------------------------------------------------


def test_an_answer_that_nothing_waits_for_is_refused(api):
    assert answer(api, "no-such", "x").status == 404
    api.run("1", session="idle")
    late = answer(api, "idle", "x")
    assert late.status == 409 and late.json["code"] == "input_not_wanted" and "interactive" in late.json["hint"], late
    assert answer(api, "idle", end=True).status == 409
    assert api.run("input()", session="idle")["error"]["type"] == "EOFError"


def test_of_two_answers_one_is_taken(api):
    talk = Talk(api, "import time\na = input()\ntime.sleep(1)\nprint(a)", "twice")
    assert talk.next()
    said = []
    threads = [threading.Thread(target=lambda n=n: said.append(answer(api, "twice", str(n)).status)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [200] + [409] * 7
    assert not talk.next() and talk.printed.strip() in "01234567"


def test_another_key_cannot_answer(api):
    talk = Talk(api, ASK, "mine")
    assert talk.next()
    session = api.get("/sessions/mine").json["session"]
    bob = rest_client.Rest(api.port, "key-of-bob")
    for name in ("mine", session):
        assert answer(bob, name, "evil").status == 404
    assert answer(api, session, "Ada").status == 200
    assert not talk.next() and talk.printed.endswith("Hello Ada\n")


@pytest.mark.parametrize("body, words", [
    ({}, "text"), ({"text": 1}, "text"), ({"text": None}, "text"), ({"end": False}, "text"), ({"line": "x"}, "line"),
    ({"text": "x" * 200_000}, "text"), ([], "object"),
])  # fmt: skip
def test_bad_answers(api, body, words):
    api.run("1", session="bad")
    said = api.post("/sessions/bad/input", body)
    assert said.status == 400 and words in said.json["detail"], said


@pytest.mark.parametrize("fields", [{"session": "s", "stream": False}, {"stream": True}, {"session": "", "stream": True}])
def test_a_person_needs_a_session_and_a_stream(api, fields):
    said = api.post("/execute", {"code": "1", "interactive": True, **fields})
    assert said.status == 400 and "interactive" in said.json["detail"], said


# The runner's own extension, which code finds on the disk.
NATIVE = """
import glob, importlib.util
spec = importlib.util.spec_from_file_location('_constrictor', glob.glob('/opt/constrictor/_constrictor*.so')[0])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
"""


def test_questions_without_end_meet_the_output_limit(api):
    """A person sees few of them: each would be a dialog."""
    talk = Talk(api, NATIVE + "while True: native.ask(b'x')\n", "flood")
    while talk.next():
        pass
    assert 1 < len(talk.prompts) < 100 and talk.whole["verdict"] == "output_limit", talk.whole["verdict"]


@pytest.mark.parametrize("code", [
    "native.send(9, b'')", "native.send(10, b'?')", "native.send(8, b'x')", "native.ask(b'?')",
    "import os; os.close(0); native.ask(b'?')", "native.open_input()", "native.open_input(); native.open_input()",
])  # fmt: skip
def test_code_that_lies_about_stdin_harms_its_own_run_only(api, code):
    for fields in ({}, {"stdin": "x" * 200_000}):
        told = api.run(NATIVE + code, timeout=2, **fields)
        assert not (told.get("error") and told["error"]["type"] in ("ImportError", "IndexError")), told
    assert api.run("print(input())", stdin="fine\n")["stdout"] == "fine\n"


# ---- MCP: elicitation ----------------------------------------------------------------------------


def typed(*texts):
    """A client whose person types these, and then declines."""
    left = list(texts)
    return lambda params: {"action": "accept", "content": {"text": left.pop(0)}} if left else {"action": "decline"}


def test_input_asks_the_person_at_the_client(cli):
    asked = []
    with several(cli) as make:
        c = make(capabilities={"elicitation": {}})
        says = typed("Ada", "36")
        c.on_request = {"elicitation/create": lambda params: asked.append(params) or says(params)}
        code = "print(input('Name? '), input('Age? '))\ntry: input()\nexcept EOFError: print('end')"
        done = c.python(code, interactive=True)
        assert done["structuredContent"]["stdout"] == "Name? Age? Ada 36\nend\n", done
        assert [("Name? " in p["message"], "Age? " in p["message"]) for p in asked] == [(1, 0), (0, 1), (0, 0)]
        assert "code" in asked[0]["message"]
        assert "EOFError" in text(c.python("input()")) and len(asked) == 3  # the person is asked for `interactive` only
        c.on_request = {"elicitation/create": lambda params: {"action": "accept", "content": {"text": 1}}}
        assert "EOFError" in text(c.python("input()", interactive=True))
        assert "Ada" in text(c.python("print(input())", interactive=True, stdin="Ada\n"))


def test_a_client_without_elicitation_gets_eof(cli):
    with several(cli) as make:
        done = text(make().python("input('Name? ')", interactive=True))
        assert "EOFError" in done and "'stdin'" in done


def test_a_client_that_refuses_the_question_gets_eof_and_one_that_waits_the_limit(cli):
    with several(cli) as make:
        c = make(capabilities={"elicitation": {}})
        c.on_request = {}  # answers with an error
        assert "EOFError" in text(c.python("input()", interactive=True))
        c.on_request = {"elicitation/create": lambda params: time.sleep(3) or {"action": "decline"}}
        done = c.python("input()", interactive=True, timeout=0.5)
        assert done["structuredContent"]["verdict"] == "timeout_wall", done
        assert "alive" in text(c.python("print('alive')"))
