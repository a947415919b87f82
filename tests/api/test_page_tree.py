# SPDX-License-Identifier: Apache-2.0
"""A session as a tree of checkpoints and forks, what differs between two of them, and their names, over REST."""

import pytest
import rest_client


@pytest.fixture(scope="module")
def rest(shared_cli):
    return rest_client.serve(shared_cli, "--stock", "2")


@pytest.fixture
def session(rest, request):
    name = request.node.name[:60]
    assert rest.post("/sessions", {"name": name, "checkpoint": True}).status == 201
    yield name
    rest.ask("DELETE", f"/sessions/{name}")


def run(rest, session, code):
    done = rest.run(code, session=session)
    assert done["success"], done
    return done


def tree(rest, session):
    answer = rest.get(f"/sessions/{session}/tree")
    assert answer.status == 200, answer.data
    found = answer.json
    ids = [node["id"] for node in found["nodes"]]
    assert len(set(ids)) == len(ids) and found["current"] in ids
    assert all(node["parent"] is None or node["parent"] in ids for node in found["nodes"]), found
    return found


def nodes(rest, session):
    return {node["id"]: node for node in tree(rest, session)["nodes"]}


def line(rest, session):
    """Codes of the checkpoints from the present back to the beginning."""
    found = tree(rest, session)
    by_id, codes, at = {node["id"]: node for node in found["nodes"]}, [], found["current"]
    while at:
        codes.append((by_id[at]["kind"], by_id[at]["code"]))
        at = by_id[at]["parent"]
    return codes


def fork(rest, session, name):
    answer = rest.post(f"/sessions/{session}/fork", {"name": name})
    assert answer.status == 201, answer
    return answer.json["fork"]


def compare(rest, session, other):
    answer = rest.post(f"/sessions/{session}/compare", {"with": other})
    assert answer.status == 200, answer.data
    return answer.json


def test_a_session_without_checkpoints_is_one_node(rest):
    handle = rest.post("/sessions", {}).json["session"]
    run(rest, handle, "x = 1")
    found = tree(rest, handle)
    assert [node["id"] for node in found["nodes"]] == [handle] == [found["current"]]
    node = found["nodes"][0]
    assert node["parent"] is None and node["kind"] == "session" and node["runs"] == 1 and node["label"] is None
    rest.ask("DELETE", f"/sessions/{handle}")


def test_checkpoints_are_a_line_and_lead_back(rest, session):
    for code in ("a = 1", "b = 2", "c = 3"):
        run(rest, session, code)
    assert rest.post(f"/sessions/{session}/checkpoint", {"name": "good"}).status == 200
    run(rest, session, "d = 4")
    kinds = line(rest, session)
    assert kinds[0][0] == "session" and ("checkpoint", "a = 1") in kinds and ("checkpoint", "b = 2") in kinds
    found = tree(rest, session)
    good = next(node for node in found["nodes"] if node["label"] == "good")
    assert good["undo"] == {"checkpoint": "good"} and good["runs"] == 3
    back = next(node for node in found["nodes"] if node["code"] == "a = 1")
    assert back["undo"] == {"steps": 3}
    assert rest.post(f"/sessions/{session}/undo", back["undo"]).status == 200
    assert run(rest, session, "[name for name in 'abcd' if name in globals()]")["result"] == "['a']"


def test_forks_branch_off_where_they_were_made(rest, session):
    run(rest, session, "a = 1")
    run(rest, session, "b = 2")
    other = fork(rest, session, "branch")
    run(rest, session, "c = 3")
    run(rest, other, "d = 4")
    found = nodes(rest, session)
    assert found[other]["label"] == "branch" and found[other]["kind"] == "session"
    shared = {code for kind, code in line(rest, session)} & {code for kind, code in line(rest, other)}
    assert "a = 1" in shared
    assert nodes(rest, "branch").keys() == found.keys()
    rest.ask("DELETE", "/sessions/branch")
    assert other not in nodes(rest, session)


def test_a_fork_of_a_session_without_checkpoints(rest):
    handle = rest.post("/sessions", {}).json["session"]
    other = fork(rest, handle, None)
    found = nodes(rest, handle)
    assert found[other]["parent"] == handle and found[handle]["parent"] is None
    rest.ask("DELETE", f"/sessions/{handle}")
    assert nodes(rest, other)[other]["parent"] is None
    rest.ask("DELETE", f"/sessions/{other}")


def test_two_forks_differ_in_variables_and_files(rest, session):
    run(rest, session, "same = list(range(100))\nchanged = {'a': [1]}\ngone = 1\nopen('same.txt', 'w').write('s')")
    run(rest, session, "open('changed.txt', 'w').write('one')\nopen('gone.txt', 'w').write('x')")
    other = fork(rest, session, "fork-of-" + session)
    run(
        rest,
        other,
        "import os\nchanged['a'][0] = 2\ndel gone\nnew = 1\nos.remove('gone.txt')\n"
        "open('changed.txt', 'w').write('two')\nopen('new.txt', 'w').write('n')\nsame = list(range(100))",
    )
    found = compare(rest, other, session)
    assert found["complete"]
    assert found["variables"] == {"added": ["new"], "removed": ["gone"], "changed": ["changed"], "omitted": 0}
    assert found["files"] == {"added": ["new.txt"], "removed": ["gone.txt"], "changed": ["changed.txt"], "omitted": 0}
    turned = compare(rest, session, other)["variables"]
    assert turned["added"] == ["gone"] and turned["removed"] == ["new"]
    same = compare(rest, session, session)
    assert not any(same["variables"][key] or same["files"][key] for key in ("added", "removed", "changed"))
    rest.ask("DELETE", "/sessions/fork-of-" + session)


def test_two_sessions_that_share_nothing(rest, session):
    other = rest.post("/sessions", {}).json["session"]
    for each in (session, other):
        run(rest, each, "x = {'rows': [1, 2], 's': {'b', 'a'}}\ndef f(a): return a\nopen('f', 'w').write('1')")
    run(rest, other, "def f(a): return a + 1")
    found = compare(rest, session, other)
    assert found["variables"]["changed"] == ["f"] and not found["files"]["changed"]
    rest.ask("DELETE", f"/sessions/{other}")


def test_a_session_differs_from_its_checkpoint(rest, session):
    run(rest, session, "kept = [1, 2]\ncounter = 1\ngone = 'text'\nopen('f', 'w').write('1')\nopen('g', 'w').write('1')")
    assert rest.post(f"/sessions/{session}/checkpoint", {"name": "then"}).status == 200
    run(rest, session, "counter = 2\ndel gone\nnew = None\nopen('f', 'w').write('22')\nopen('h', 'w').write('')")
    point = next(node for node in tree(rest, session)["nodes"] if node["label"] == "then")
    for name in ("then", point["id"]):
        found = compare(rest, session, name)
        assert found["with"] == point["id"]
        assert found["variables"] == {"added": ["new"], "removed": ["gone"], "changed": ["counter"], "omitted": 0}
        assert found["files"] == {"added": ["h"], "removed": [], "changed": ["f"], "omitted": 0}


def test_values_that_cannot_be_compared_quietly(rest, session):
    code = """
class Loops:
    def __reduce__(self):
        while True: pass
class Raises:
    def __reduce__(self): raise KeyError
loops, raises, circle, source = Loops(), Raises(), [], (i for i in range(3))
circle.append(circle)
names = {f'<b>{i}\\u202e': i for i in range(3)}
"""
    run(rest, session, code)
    other = fork(rest, session, "quiet")
    found = compare(rest, session, other)
    assert not found["complete"] and found["variables"]["added"] == []
    assert "circle" not in found["variables"]["changed"]
    run(rest, other, "globals().update({f'v{i}': i for i in range(100_000)})")
    many = compare(rest, session, other)
    assert not many["complete"] and len(many["variables"]["removed"]) <= 200
    rest.ask("DELETE", "/sessions/quiet")


def test_a_box_that_lies_about_its_checkpoints(rest, session):
    run(rest, session, "x = 1")
    run(rest, session, "import os\nfor name in os.listdir('/mnt/.undo'):\n    if name[0] == 'v':\n"
        "        open('/mnt/.undo/' + name, 'w').write('[' * 100000)\n" "In.append(5)")
    point = next(node for node in tree(rest, session)["nodes"] if node["kind"] == "checkpoint")
    answer = rest.post(f"/sessions/{session}/compare", {"with": point["id"]})
    assert answer.status == 503 and answer.error["code"] == "look_failed", answer
    assert run(rest, session, "x")["result"] == "1"


def test_names_of_sessions(rest, session):
    handle = rest.get(f"/sessions/{session}").json["session"]
    other = fork(rest, session, "second")
    assert rest.post(f"/sessions/{other}/rename", {"name": session}).error["code"] == "session_exists"
    renamed = rest.post(f"/sessions/{other}/rename", {"name": "<b>\u202eé"})
    assert renamed.status == 200 and renamed.json["name"] == "<b>\u202eé"
    assert rest.get("/sessions/second").status == 404
    assert rest.run("1", session="<b>\u202eé")["session"] == other
    assert nodes(rest, handle)[other]["label"] == "<b>\u202eé"
    for name in ("ses_x", "a\nb", "x" * 129):
        assert rest.post(f"/sessions/{other}/rename", {"name": name}).status == 400, name
    assert rest.post(f"/sessions/{other}/rename", {"name": ""}).json["name"] is None
    assert rest.post(f"/sessions/{other}/rename", {"name": ""}).status == 200
    rest.ask("DELETE", f"/sessions/{other}")
    assert rest.post("/sessions/none/rename", {"name": "x"}).status == 404


def test_nothing_to_compare_with(rest, session):
    for other in ("none", "ses_nothing", "ses_x@1"):
        answer = rest.post(f"/sessions/{session}/compare", {"with": other})
        assert answer.status == 404 and answer.error["code"] == "nothing_to_compare", answer
    assert rest.post("/sessions/none/compare", {"with": session}).status == 404
    assert rest.post(f"/sessions/{session}/compare", {}).status == 400
