# SPDX-License-Identifier: Apache-2.0
"""What a page shows of a live session: variables, completions, signatures. A look changes nothing, whatever the values
of the session do."""

import threading

import pytest
import rest_client


@pytest.fixture(scope="module")
def rest(shared_cli):
    return rest_client.serve(shared_cli, "--stock", "2")


@pytest.fixture
def session(rest, request):
    """A session, by name, for one test."""
    name = request.node.name
    assert rest.post("/sessions", {"name": name}).status == 201
    yield name
    rest.ask("DELETE", f"/sessions/{name}")


def variables(rest, session):
    answer = rest.get(f"/sessions/{session}/variables")
    assert answer.status == 200, answer
    return answer.json


def by_name(rest, session):
    return {entry["name"]: entry for entry in variables(rest, session)["variables"]}


def complete(rest, session, code, cursor=None):
    answer = rest.post(f"/sessions/{session}/complete", {"code": code, "cursor": cursor})
    assert answer.status == 200, answer
    return answer.json


def texts(rest, session, code, cursor=None):
    return [match["text"] for match in complete(rest, session, code, cursor)["matches"]]


def inspect(rest, session, code, cursor=None):
    answer = rest.post(f"/sessions/{session}/inspect", {"code": code, "cursor": cursor})
    assert answer.status == 200, answer
    return answer.json


def run(rest, session, code):
    done = rest.run(code, session=session)
    assert done["success"], done
    return done


# ---- variables -----------------------------------------------------------------------------------


def test_names_types_shapes_and_previews(rest, session):
    run(rest, session, "n = 3\nrows = [1, 2, 3]\ntext = 'x' * 1000\ndef f(a): pass\nimport os\n_private = 1")
    found = by_name(rest, session)
    assert list(found) == ["n", "rows", "text", "f"]
    assert found["n"]["type"] == "int" and found["n"]["preview"] == "3" and found["n"]["shape"] is None
    assert found["rows"]["shape"] == [3] and found["rows"]["preview"] == "[1, 2, 3]"
    assert found["text"]["shape"] == [1000] and len(found["text"]["preview"]) < 300
    assert found["text"]["size"] > 1000 and found["f"]["type"] == "function"


def test_an_array_has_its_shape_and_its_bytes(rest, session):
    code = """
class Array:  # like numpy's, which this interpreter may lack
    __module__, __qualname__ = 'numpy', 'ndarray'
    shape, nbytes = (4, 5), 160
    def __repr__(self): return 'array([...])'
a = Array()
"""
    run(rest, session, code)
    a = by_name(rest, session)["a"]
    assert a["shape"] == [4, 5] and a["size"] == 160 and a["type"] == "numpy.ndarray"
    assert a["preview"] == "array([...])"


def test_a_look_is_not_part_of_the_history(rest, session):
    run(rest, session, "x = 1\nx")
    before = rest.get(f"/sessions/{session}").json
    for _ in range(3):
        variables(rest, session)
        complete(rest, session, "x.")
        inspect(rest, session, "x")
    after = rest.get(f"/sessions/{session}").json
    assert after["execution_count"] == before["execution_count"] == 1
    done = run(rest, session, "len(In), list(Out), _, __name__")
    assert done["result"] == "(3, [1], 1, '__main__')" and done["execution_count"] == 2
    assert [item["name"] for item in done.get("variables", [])] == []


def test_values_that_loop_raise_exit_or_grow_without_end(rest, session):
    run(
        rest,
        session,
        """
class Loops:
    def __repr__(self):
        while True: pass
class Stubborn:
    def __repr__(self):
        while True:
            try:
                while True: pass
            except BaseException: pass
class Deaf:
    def __repr__(self):
        import signal
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        while True: pass
class Raises:
    def __repr__(self): raise RuntimeError('no')
class Exits:
    def __repr__(self): import os; os._exit(3)
class Leaves:
    def __repr__(self): raise SystemExit
class Huge:
    def __repr__(self): return 'x' * (1 << 30)
class Number:
    def __repr__(self): return 5
class Lies:
    __module__ = 'numpy'
    @property
    def shape(self): raise KeyError
first, loops, raises, leaves, huge, number, lies = 1, Loops(), Raises(), Leaves(), Huge(), Number(), Lies()
stubborn = Stubborn()
last = 2
""",
    )
    found = by_name(rest, session)
    assert found["first"]["preview"] == "1" and found["last"]["preview"] == "2"
    for name in ("loops", "stubborn", "raises", "leaves", "huge", "number"):
        assert found[name]["preview"] is None, found[name]
    assert found["lies"]["shape"] is None and found["raises"]["type"] == "Raises"
    # One that cannot be stopped, and one that ends the copy: names and types are there all the same.
    for value in "Deaf()", "Exits()":
        run(rest, session, f"worst = {value}")
        answer = variables(rest, session)
        assert not answer["complete"] and "worst" in [entry["name"] for entry in answer["variables"]]
    assert run(rest, session, "first + last")["result"] == "3"


def test_a_look_cannot_change_the_session_or_its_files(rest, session):
    run(
        rest,
        session,
        """
class Writes:
    def __repr__(self):
        global changed
        changed = True
        try: open('/mnt/data/written', 'w').write('x' * 10)
        except OSError: pass
        try:
            import os
            if os.fork() == 0: os._exit(0)
            return 'forked'
        except OSError: return 'not forked'
changed, w = False, Writes()
""",
    )
    assert by_name(rest, session)["w"]["preview"] == "not forked"
    done = run(rest, session, "import os\nchanged, os.path.exists('/mnt/data/written') and os.path.getsize('/mnt/data/written')")
    assert done["result"] in ("(False, False)", "(False, 0)")


def test_a_hundred_thousand_variables(rest, session):
    run(rest, session, "globals().update({f'v{i}': i for i in range(100_000)})")
    answer = variables(rest, session)
    assert len(answer["variables"]) == 500 and answer["omitted"] == 99_500
    matches = complete(rest, session, "v1")
    assert len(matches["matches"]) == 500 and matches["omitted"] > 10_000


def test_names_and_values_that_are_html_or_bidi(rest, session):
    run(rest, session, "globals()['<img src=x onerror=alert(1)>'] = '<script>\\u202e\\ud800\\0'\nß = '\\u202e'")
    found = by_name(rest, session)
    assert found["<img src=x onerror=alert(1)>"]["type"] == "str"
    assert "\0" not in found["<img src=x onerror=alert(1)>"]["preview"] and "ß" in found


# ---- completion ----------------------------------------------------------------------------------


def test_completion_of_names_attributes_modules_and_keys(rest, session):
    run(rest, session, "import json\nprices = {'apple': 1, 'apricot': 2, 3: 4}\nprintable = 1")
    answer = complete(rest, session, "x = print")
    assert [match["text"] for match in answer["matches"]] == ["print", "printable"]
    assert answer["cursor_start"] == 4 and answer["cursor_end"] == 9
    assert answer["matches"][0] == {"text": "print", "type": "function", "start": 4, "end": 9}
    assert texts(rest, session, "json.du") == ["dump", "dumps"]
    assert texts(rest, session, "json.dumps(x) + pri", 7) == ["dump", "dumps"]
    assert texts(rest, session, "prices['ap") == ["apple", "apricot"]
    assert "json" in texts(rest, session, "import js") and "loads" in texts(rest, session, "from json import lo")
    assert texts(rest, session, "x = 1\nprices.va\ny = 2", 15) == ["values"]
    for code in ("no_such.na", "", "1.5e", "f().na", "prices[0].na", "'text"):
        assert texts(rest, session, code) == [], code
    assert texts(rest, session, "ä = '€'; prin", 13) == ["print", "printable"]


def test_completion_calls_no_code_of_the_session(rest, session):
    run(
        rest,
        session,
        """
class Thing:
    calls = []
    @property
    def inner(self): open('/proc/self/nothing'); return 'text'
    def __getattr__(self, name): return 'text'
    def __dir__(self): return ['from_dir']
    def method(self): pass
thing = Thing()
""",
    )
    assert texts(rest, session, "thing.") == ["calls", "inner", "method"]
    assert texts(rest, session, "thing.inner.") == [] and texts(rest, session, "thing.other.") == []
    assert "upper" in texts(rest, session, "thing.method.__name__.up")
    types = {m["text"]: m["type"] for m in complete(rest, session, "thing.")["matches"]}
    assert types == {"calls": "instance", "inner": "property", "method": "function"}


# ---- inspection ----------------------------------------------------------------------------------


def test_signature_and_docstring(rest, session):
    run(rest, session, 'def add(a, b=2, *, c: int = 3):\n    "Adds.\\n\\n    More."\n    return a')
    found = inspect(rest, session, "add(1, [2", 9)
    assert found["found"] and found["signature"] == "add(a, b=2, *, c: int = 3)"
    assert found["docstring"].startswith("Adds.") and found["type"] == "function"
    assert inspect(rest, session, "str.join", 5)["name"] == "str.join"
    nothing = inspect(rest, session, "nothing_like_it")
    assert nothing == {"found": False, "name": None, "type": None, "signature": None, "docstring": None}


def test_inspection_of_what_loops_and_lies(rest, session):
    run(
        rest,
        session,
        """
class Default:
    def __repr__(self):
        while True: pass
def f(a=Default()): pass
class D:
    @property
    def __doc__(self): raise KeyError
    @property
    def __signature__(self): return '<script>'
d = D()
""",
    )
    assert inspect(rest, session, "f(")["signature"] is None
    assert inspect(rest, session, "d")["found"]
    assert run(rest, session, "1")["result"] == "1"


# ---- when it cannot ------------------------------------------------------------------------------


def test_a_busy_session_says_so_at_once(rest, session):
    with rest.streaming("import time\nprint('in', flush=True)\ntime.sleep(600)", session=session) as stream:
        assert b"in" in stream.readline()
        for answer in (
            rest.get(f"/sessions/{session}/variables"),
            rest.post(f"/sessions/{session}/complete", {"code": "x"}),
        ):
            assert answer.status == 409 and answer.error["code"] == "session_busy", answer
            assert "interrupt" in answer.error["hint"]
        rest.post(f"/sessions/{session}/interrupt")
        stream.read()
    assert variables(rest, session)["complete"]


def test_many_looks_at_once(rest, session):
    run(rest, session, "x = 1")
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(rest.get(f"/sessions/{session}/variables").status))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 6


def test_a_client_that_leaves_does_not_interrupt_the_session(rest, session):
    run(rest, session, "class L:\n    def __repr__(self):\n        while True: pass\nx = 5\nl = [L() for _ in range(9)]")
    connection = rest.connect()
    connection.request("GET", f"/api/v1/sessions/{session}/variables")
    connection.close()
    assert run(rest, session, "x")["result"] == "5"


def test_no_session_and_bad_bodies(rest, session):
    assert rest.get("/sessions/none/variables").status == 404
    assert rest.post("/sessions/none/complete", {"code": ""}).error["code"] == "session_not_found"
    for body in ({}, {"code": 1}, {"code": "x", "cursor": -1}, {"code": "x", "cursor": "1"}, {"code": "x", "more": 1}):
        assert rest.post(f"/sessions/{session}/complete", body).status == 400, body
    assert rest.post(f"/sessions/{session}/inspect", {"code": "x" * (1 << 20) + "x"}).status == 400
    rest.ask("DELETE", f"/sessions/{session}")
    gone = rest.get(f"/sessions/{session}/variables")
    assert gone.status == 409 and gone.error["reason"] == "closed"


def test_a_fork_shows_its_own_variables(rest, session):
    run(rest, session, "x = 1")
    fork = rest.post(f"/sessions/{session}/fork", {"name": session + "-b"}).json["fork"]
    run(rest, fork, "x = 2\ny = 3")
    assert by_name(rest, session)["x"]["preview"] == "1" and "y" not in by_name(rest, session)
    assert by_name(rest, fork)["x"]["preview"] == "2" and by_name(rest, fork)["y"]["preview"] == "3"
    assert texts(rest, session, "x.re") == texts(rest, fork, "x.re") == ["real"]
