# SPDX-License-Identifier: Apache-2.0
"""Files over MCP: the tools, the resources sandbox://, links, news of them, and hostile folders.

Over stdio in both eras; links over HTTP. Each structured result is held against the schema that its
tool declares, and each connection ends with the schema oracle.
"""

import base64
import json
import urllib.parse

import jsonschema
import pytest
from conftest import open_cli, wait_until
from mcp_client import LEGACY, MODERN, Http, Server, check_received, connect, refused, several, text, tools_of, use

BOTH = (LEGACY[-1], MODERN)
TEMPLATE = "sandbox://{session}/{path}"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


@pytest.fixture(scope="module", params=BOTH)
def c(request, program):
    with open_cli(program) as cli:
        with connect(cli, version=request.param) as connection:
            yield connection
            check_received(connection)


@pytest.fixture
def fresh(cli):
    with several(cli) as make:
        yield make


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli)


def run(c, code, **arguments):
    answer = c.python(code, **arguments)
    assert "structuredContent" in answer, text(answer)
    found = answer["structuredContent"]
    jsonschema.Draft202012Validator(c.tools["execute_python"]["outputSchema"]).validate(found)
    assert found["verdict"] == "ok", text(answer)
    return {**found, "said": text(answer), "content": answer["content"]}


def resource(c, uri):
    """The bytes of a resource, and its entry."""
    [content] = c.result("resources/read", {"uri": uri})["contents"]
    assert content["uri"] == uri
    if "blob" in content:
        return base64.b64decode(content["blob"], validate=True), content
    return content["text"].encode(), content


def resources(c):
    """All pages."""
    found, cursor = [], {}
    while True:
        page = c.result("resources/list", cursor)
        found += page["resources"]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


# ---- write, list, read, delete -------------------------------------------------------------------


def test_there_and_back(c):
    bodies = {
        "a.csv": "a,b\r\n1,2\r\n".encode(),
        "deep/er/é ü.txt": "grüße\t\x1b[31m".encode(),
        "b.bin": bytes(range(256)) * 7,
        "empty": b"",
        "nul.txt": b"a\0b",
        "p.png": PNG,
    }
    for path, body in bodies.items():
        coded = {"base64": base64.b64encode(body).decode()}
        if path in ("a.csv", "deep/er/é ü.txt"):
            coded = {"text": body.decode()}
        made = use(c, "write_file", session="files", path=path, **coded)
        assert made["path"] == path and made["size"] == len(body)
    listed = use(c, "list_files", session="files")
    assert {f["path"]: f["size"] for f in listed["files"]} == {p: len(b) for p, b in bodies.items()}
    assert listed["state"] == "open" and listed["files_omitted"] == 0
    code = "import os, sys\nprint({p: open(p, 'rb').read() for p in sys.argv[1:]})"
    seen = run(c, code, session="files", args=list(bodies))
    assert eval(seen["stdout"]) == bodies
    for f in listed["files"]:
        assert f["last_modified"].startswith("20") and f["uri"].startswith("sandbox://ses_")
        assert resource(c, f["uri"])[0] == bodies[f["path"]], f
        found = use(c, "read_file", session="files", path=f["path"])
        if found["encoding"] == "utf-8":
            assert found["text"].encode() == bodies[f["path"]]
        elif found["encoding"] == "base64":
            assert base64.b64decode(found["base64"]) == bodies[f["path"]]
        else:
            assert found["encoding"] == "image" and f["path"] == "p.png"
        assert found["next_offset"] is None and found["length"] == len(bodies[f["path"]])
    for path in bodies:
        assert use(c, "delete_file", session="files", path="/mnt/data/" + path)["path"] == path
    assert use(c, "list_files", session="files")["files"] == []
    assert use(c, "delete_file", session="files", path="deep")["deleted"]
    said, _ = refused(c, "delete_file", session="files", path="deep")
    assert "deep" in said


def test_blocks(c):
    use(c, "write_file", session="blocks", path="p.png", base64=base64.b64encode(PNG).decode())
    blocks = c.call("read_file", session="blocks", path="p.png")["content"]
    assert [b["type"] for b in blocks] == ["text", "image"]
    assert base64.b64decode(blocks[1]["data"]) == PNG and blocks[1]["mimeType"] == "image/png"
    use(c, "write_file", session="blocks", path="x.bin", base64="gIGC")
    blocks = c.call("read_file", session="blocks", path="x.bin")["content"]
    assert [b["type"] for b in blocks] == ["text", "resource"]
    assert base64.b64decode(blocks[1]["resource"]["blob"]) == b"\x80\x81\x82"
    use(c, "write_file", session="blocks", path="t.txt", text="just text")
    [block] = c.call("read_file", session="blocks", path="t.txt")["content"]
    assert block["text"] == "just text"
    # a part of a picture is bytes
    found = use(c, "read_file", session="blocks", path="p.png", offset=1, length=3)
    assert base64.b64decode(found["base64"]) == b"PNG"


def test_reading_on(c):
    body = "".join(f"{i:05} grün €\n" for i in range(6000))
    use(c, "write_file", session="long", path="long.txt", text=body)
    whole, offset, answers = "", 0, 0
    while offset is not None:
        answer = c.call("read_file", session="long", path="long.txt", offset=offset)
        found = answer["structuredContent"]
        assert found["offset"] == offset and found["size"] == len(body.encode())
        whole += found["text"]
        said = text(answer)
        assert f"bytes {offset} to" in said
        offset, answers = found["next_offset"], answers + 1
        if offset:
            assert f"offset={offset}" in said
    assert whole == body and answers > 3
    # a character that is cut belongs to neither side
    at = len("00000 gr".encode())
    found = use(c, "read_file", session="long", path="long.txt", offset=at, length=1)
    assert found["length"] in (0, 1)
    found = use(c, "read_file", session="long", path="long.txt", offset=at + 1, length=5)
    assert found["text"] == "n " and found["offset"] == at + 2
    said, code = refused(c, "read_file", session="long", path="long.txt", offset=10**6)
    assert code == "bad_value" and "'offset'" in said


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "/etc/passwd", "", ".", "/mnt/data", "a\0b", "a\nb", "x" * 300, "d/" * 40]
    + ["/mnt/data/../x"],
)
def test_paths_that_are_none(c, path):
    run(c, "1", session="paths")
    for tool, more in (("read_file", {}), ("write_file", {"text": ""}), ("delete_file", {})):
        said, code = refused(c, tool, session="paths", path=path, **more)
        assert code in ("bad_file_path", "bad_value"), said
        assert "path" in said


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({}, "'text' or 'base64'"),
        ({"text": "a", "base64": "YQ=="}, "not both"),
        ({"base64": "not base64!"}, "'base64'"),
        ({"base64": "YQ"}, "'base64'"),
    ],
)
def test_bodies_that_are_none(c, arguments, words):
    said, code = refused(c, "write_file", session="never opened", path="x", **arguments)
    assert code == "bad_value" and words in said
    names = [s["name"] for s in use(c, "list_sessions")["sessions"]]
    assert "never opened" not in names


def test_missing(c):
    run(c, "1", session="missing")
    said, code = refused(c, "read_file", session="missing", path="nothing.txt")
    assert code == "file_not_found" and "nothing.txt" in said
    for tool in ("list_files", "read_file", "delete_file"):
        more = {} if tool == "list_files" else {"path": "x"}
        assert refused(c, tool, session="no such", **more)[1] == "session_not_found"
    assert refused(c, "write_file", session="ses_" + "x" * 23, path="x", text="")[1] == (
        "session_not_found"
    )


# ---- what a run leaves behind --------------------------------------------------------------------


def test_new_and_changed_files_are_announced(c):
    code = "import os\nos.makedirs('out')\nopen('out/a.txt', 'w').write('one')\nopen('b', 'w')"
    first = run(c, code, session="left")
    assert sorted(f["path"] for f in first["files"]) == ["b", "out/a.txt"]
    for f in first["files"]:
        [link] = [b for b in first["content"] if b.get("uri") == f["uri"]]
        assert link["type"] == "resource_link" and link["size"] == f["size"]
        assert link["title"] == f["path"] and link["mimeType"] == f["mime_type"]
        assert f["path"] in first["said"] and f["uri"] in first["said"]
    assert run(c, "1", session="left")["files"] == []
    again = run(c, "open('out/a.txt', 'w').write('three')", session="left")
    assert [(f["path"], f["size"]) for f in again["files"]] == [("out/a.txt", 5)]
    use(c, "write_file", session="left", path="mine.txt", text="x")
    assert run(c, "2", session="left")["files"] == [], "an upload is not the code's work"


def test_files_outlive_their_session(c):
    made = run(c, "open('keep.txt', 'w').write('kept')", session="ending")
    use(c, "write_file", session="ending", path="upload.txt", text="never announced")
    use(c, "close_session", session="ending")
    [f] = made["files"]
    assert resource(c, f["uri"])[0] == b"kept"
    listed = use(c, "list_files", session=made["session"])
    assert listed["state"] == "closed" and [e["path"] for e in listed["files"]] == ["keep.txt", "upload.txt"]
    assert use(c, "read_file", session=made["session"], path="keep.txt")["text"] == "kept"
    assert use(c, "read_file", session=made["session"], path="upload.txt")["text"] == "never announced"
    assert refused(c, "write_file", session=made["session"], path="x", text="")[1] == (
        "session_ended"
    )
    for path in ("keep.txt", "upload.txt"):
        assert use(c, "delete_file", session=made["session"], path=path)["deleted"]
    c.error("resources/read", {"uri": f["uri"]})
    assert refused(c, "list_files", session=made["session"])[1] == "session_ended"


def test_files_of_a_run_without_a_session(c):
    made = run(c, "open('alone.csv', 'w').write('a,b')")
    [f] = made["files"]
    assert f["uri"] == f"sandbox://{made['execution_id']}/alone.csv"
    assert f["mime_type"] == "text/csv"
    assert resource(c, f["uri"])[0] == b"a,b"
    listed = use(c, "list_files", session=made["execution_id"])
    assert listed["state"] == "finished" and [e["path"] for e in listed["files"]] == ["alone.csv"]
    assert use(c, "read_file", session=made["execution_id"], path="alone.csv")["text"] == "a,b"


def test_an_announced_file_can_be_read_when_the_code_removed_it(c):
    [f] = run(c, "open('gone.txt', 'w').write('once')", session="removing")["files"]
    run(c, "import os\nos.remove('gone.txt')", session="removing")
    assert resource(c, f["uri"])[0] == b"once"


def test_hostile_folder(c):
    code = """
import os, socket
os.symlink('/etc/passwd', 'link.txt')
os.symlink('/', 'root')
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('sock')
open(b'bad\\xff.txt', 'w').write('x')
open('new\\nline.txt', 'w').write('x')
with open('sparse', 'wb') as f:
    try:
        f.truncate(1 << 50)
    except OSError:
        f.truncate(64 << 20)
open('good.txt', 'w').write('good')
"""
    made = run(c, code, session="hostile")
    paths = [f["path"] for f in made["files"]]
    assert "good.txt" in paths and not {"link.txt", "pipe", "sock", "root"} & set(paths)
    listed = use(c, "list_files", session="hostile")
    assert listed["other_entries"] >= 6
    for path in ("link.txt", "root/etc/passwd", "pipe", "sock"):
        said, _ = refused(c, "read_file", session="hostile", path=path)
        assert "root:" not in said
        c.error("resources/read", {"uri": f"sandbox://{made['session']}/{path}"})
    refused(c, "write_file", session="hostile", path="root/tmp/x", text="x")
    head = use(c, "read_file", session="hostile", path="sparse", length=100)
    assert head["length"] == 100 and head["next_offset"] == 100
    error = c.error("resources/read", {"uri": f"sandbox://{made['session']}/sparse"})
    assert "read_file" in error["message"] and error["data"]["maximum"] < error["data"]["size"]


def test_many_files(c):
    made = run(c, "for i in range(1200): open(f'{i:04}', 'w').write(str(i))", session="many")
    assert len(made["files"]) == 100 and made["files_omitted"] == 1100
    assert len([b for b in made["content"] if b["type"] == "resource_link"]) <= 20
    assert len(made["said"]) < 20000
    listed = use(c, "list_files", session="many")
    assert len(listed["files"]) == 1000 and listed["files_omitted"] == 200
    assert use(c, "read_file", session="many", path="1199")["text"] == "1199"
    use(c, "close_session", session="many")


# ---- resources -----------------------------------------------------------------------------------


def test_resources_are_listed_in_pages(fresh):
    c = fresh()
    made = run(c, "for i in range(120): open(f'{i:03}.txt', 'w').write('x' * i)", session="pages")
    found = {r["uri"]: r for r in resources(c)}
    mine = [r for uri, r in found.items() if uri.startswith(f"sandbox://{made['session']}/")]
    assert len(mine) == 120, "those that were not kept are there as long as the session"
    for r in mine:
        assert r["size"] == int(r["name"][:3]) and r["mimeType"] == "text/plain"
        assert r["annotations"]["lastModified"].startswith("20") and r["title"] == r["name"]
    assert resource(c, f"sandbox://{made['session']}/119.txt")[0] == b"x" * 119
    # by the name of the session, and as other clients write it
    assert resource(c, "sandbox://pages/007.txt")[0] == b"x" * 7
    run(c, "import os\nos.mkdir('d')\nopen('d/a b', 'w').write('y')", session="pages")
    for uri in ("d/a%20b", "d%2Fa%20b", "d%2fa%20b"):
        assert resource(c, f"sandbox://pages/{uri}")[0] == b"y"
    for uri in ("", "x", "x/%zz", "x/%", "x/a%00", "x/../y", "/a", "x/" + "y" * 5000):
        c.error("resources/read", {"uri": "sandbox://" + uri})


def test_completion(c):
    made = run(c, "open('alpha.txt', 'w'); open('beta.txt', 'w')", session="complete me")

    def complete(name, value, **context):
        params = {
            "ref": {"type": "ref/resource", "uri": TEMPLATE},
            "argument": {"name": name, "value": value},
        }
        if context:
            params["context"] = {"arguments": context}
        return c.result("completion/complete", params)["completion"]["values"]

    assert "complete me" in complete("session", "comp")
    assert made["session"] in complete("session", "ses_")
    assert complete("path", "al", session="complete me") == ["alpha.txt"]
    assert complete("path", "", session=made["session"]) == ["alpha.txt", "beta.txt"]
    assert complete("path", "", session="no such") == []
    assert "alpha.txt" in complete("path", "al")
    params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}}
    params["argument"] = {"name": "nothing", "value": ""}
    assert c.error("completion/complete", params)["code"] == -32602


def test_news_of_files(fresh):
    c = fresh()
    made = run(c, "open('watch.txt', 'w').write('1')", session="news")
    [f] = made["files"]
    c.until_note("notifications/resources/list_changed")
    c.result("resources/subscribe", {"uri": f["uri"]})
    run(c, "open('watch.txt', 'w').write('22')", session="news")
    [note] = c.until_note("notifications/resources/updated")
    assert note["uri"] == f["uri"]
    run(c, "open('other.txt', 'w').write('22')", session="news")
    use(c, "write_file", session="news", path="watch.txt", text="333")
    assert len(c.notes("notifications/resources/updated")) == 2
    c.result("resources/unsubscribe", {"uri": f["uri"]})
    use(c, "delete_file", session="news", path="watch.txt")
    assert len(c.notes("notifications/resources/updated")) == 2
    c.error("resources/subscribe", {"uri": "sandbox://ses_" + "x" * 23 + "/a"})


def test_news_of_files_modern(fresh):
    c = fresh(version=MODERN)
    made = run(c, "open('watch.txt', 'w').write('1')", session="news")
    [f] = made["files"]
    wish = {
        "resourcesListChanged": True,
        "toolsListChanged": True,
        "resourceSubscriptions": [f["uri"]],
    }
    id = c.begin("subscriptions/listen", {"notifications": wish})
    [agreed] = c.until_note("notifications/subscriptions/acknowledged")
    assert agreed["notifications"] == {
        "resourcesListChanged": True,
        "resourceSubscriptions": [f["uri"]],
    }
    run(c, "open('watch.txt', 'w').write('22')", session="news")
    assert c.until_note("notifications/resources/updated")[0]["uri"] == f["uri"]
    c.until_note("notifications/resources/list_changed")
    c.cancel(id)


def test_the_list_is_private(fresh):
    c = fresh(version=MODERN)
    answer = c.result("resources/list")
    assert answer["cacheScope"] == "private" and answer["ttlMs"] <= 5000


# ---- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BOTH)
def test_links_can_be_downloaded(server, version):
    c = Http(server, version=version)
    c.open()
    c.tools = tools_of(c)
    code = "import os\nbody = os.urandom(300000)\nopen('r é.bin', 'wb').write(body)\nbody[:8].hex()"
    made = run(c, code, session=f"links {version}")
    [f] = made["files"]
    assert f["url"].startswith(server.url + "/files/") and f["url"] in made["said"]
    status, headers, body = server.fetch("GET", urllib.parse.urlsplit(f["url"]).path)
    assert status == 200 and len(body) == 300000 and body[:8].hex() == made["result_json"]
    assert resource(c, f["uri"])[0] == body
    [listed] = use(c, "list_files", session=made["session"])["files"]
    assert listed["url"] == f["url"]
    parts, offset = b"", 0
    while offset is not None:
        part = use(
            c, "read_file", session=made["session"], path=f["path"], offset=offset, length=131072
        )
        parts += base64.b64decode(part["base64"])
        offset = part["next_offset"]
    assert parts == body
    # the link of a file that changed since is not given for what it is now
    run(c, "open('r é.bin', 'wb').write(b'other')", session=made["session"])
    [now] = use(c, "list_files", session=made["session"])["files"]
    assert now["size"] == 5 and now["url"] != f["url"]
    use(c, "close_session", session=made["session"])
    assert server.fetch("GET", urllib.parse.urlsplit(now["url"]).path)[2] == b"other"
    assert json.dumps(made["files"]).count(made["session"]) == 1


def test_old_revisions_get_no_links(fresh):
    c = fresh(version=LEGACY[0])
    answer = c.python("open('a.txt', 'w').write('x')", session="old")
    assert [b["type"] for b in answer["content"]] == ["text"]
    assert "sandbox://" in text(answer) and "structuredContent" not in answer


def test_files_are_forgotten_in_time(fresh):
    c = fresh("--artifact-ttl", "1s")
    [f] = run(c, "open('a.txt', 'w').write('x')")["files"]

    def gone():
        return "error" in c.request("resources/read", {"uri": f["uri"]})

    assert wait_until(gone)
