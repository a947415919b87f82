# SPDX-License-Identifier: Apache-2.0
"""The report of a session as HTML without script, as a download and as a link that needs no key. It shows what was run
and what came of it, whatever code, output and names contain."""

import base64
import contextlib
import hashlib
import html.parser
import json
import re
import urllib.parse

import pytest
import rest_client

KEYS = {"alice": "alice-key-0123456789", "bob": "bob-key-0123456789"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m&amp;\"'"


class Document(html.parser.HTMLParser):
    """The elements of a document with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def server(shared_cli):
    path = shared_cli.folder / "share-keys"
    path.write_text("".join(f"{name}:{key}\n" for name, key in KEYS.items()))
    return rest_client.serve(shared_cli, "--stock", "2", "--api-key-file", path)


@pytest.fixture
def rest(server):
    return rest_client.Rest(server.port, KEYS["alice"])


@pytest.fixture
def bob(server):
    return rest_client.Rest(server.port, KEYS["bob"])


def share(rest, session, **fields):
    answer = rest.post(f"/sessions/{urllib.parse.quote(session, safe='')}/share", fields)
    assert answer.status == 201, answer.data
    return answer.json


def look(server, url):
    """The link, without any key."""
    with contextlib.closing(server.connect()) as connection:
        connection.request("GET", urllib.parse.urlsplit(url).path)
        response = connection.getresponse()
        return rest_client.Answer(response, response.read())


def document(server, url):
    answer = look(server, url)
    assert answer.status == 200, answer.data
    return Document(answer.data.decode())


def test_a_finished_session_is_shared(server, rest):
    rest.run("x = 6 * 7\nprint('hello')\nx", session="finished")
    rest.run("import sys\nprint('oops', file=sys.stderr)\n1/0", session="finished")
    rest.ask("DELETE", "/sessions/finished")
    link = share(rest, "finished")
    assert link["runs"] == 2 and re.fullmatch(r"http://127\.0\.0\.1:\d+/share/[\w-]{43}", link["url"])
    shown = document(server, link["url"])
    for text in ("finished", "x = 6 * 7", "hello", "42", "oops", "ZeroDivisionError", "Run 1", "Run 2"):
        assert text in shown.text, text
    assert share(rest, link["session"])["url"] != link["url"]


def test_the_document_can_load_and_run_nothing(server, rest):
    rest.run("1", session="quiet")
    answer = look(server, share(rest, "quiet")["url"])
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "script" not in policy and policy.endswith("sandbox")
    body = answer.data.decode()
    style = re.search("<style>(.*?)</style>", body, re.S).group(1)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer.headers["Cache-Control"] and answer.headers["X-Frame-Options"] == "DENY"
    assert {tag for tag, _ in Document(body).tags} <= {
        "html", "meta", "title", "style", "h1", "bdi", "p", "section", "h2", "pre", "img"}
    meta = [attributes for _, attributes in Document(body).tags if "http-equiv" in attributes]
    assert meta and meta[0]["content"] == policy.partition("; frame-ancestors")[0]


def test_hostile_names_code_and_output_stay_text(server, rest):
    name = "<script>alert(1)</script>\u202e"
    text = json.dumps(HOSTILE)
    rest.run(f"print({text})\nclass A:\n    def __repr__(self): return {text}\nA()  # {HOSTILE}".replace("\x1b", ""), session=name)
    rest.run(f"raise ValueError({text})", session=name)
    shown = document(server, share(rest, name)["url"])
    assert not [tag for tag, _ in shown.tags if tag in ("script", "img", "a", "iframe", "svg", "form", "link")]
    assert not [key for _, attributes in shown.tags for key in attributes if key.startswith("on") or key == "href"]
    assert shown.text.count("<script>alert(1)</script>") >= 4
    assert "\u202e" not in shown.text and "\\u202e" in shown.text and "\x1b" not in shown.text


def test_pictures_are_data_of_types_without_script(server, rest):
    code = f"""
from base64 import b64decode
class Png:
    def _repr_png_(self): return b64decode({PIXEL!r})
class Svg:
    def _repr_svg_(self): return '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
class Html:
    def _repr_html_(self): return '<script>alert(1)</script><b>bold</b>'
class Liar:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {{'image/png': 'x" onerror="alert(1)', 'text/plain': 'lie'}}
from IPython.display import display
display(Png(), Svg(), Html(), Liar())
"""
    assert rest.run(code, session="pictures")["display"]
    shown = document(server, share(rest, "pictures")["url"])
    images = [attributes for tag, attributes in shown.tags if tag == "img"]
    assert [image["src"] for image in images] == [f"data:image/png;base64,{PIXEL}"]
    assert set(images[0]) == {"alt", "src"} and not [tag for tag, _ in shown.tags if tag in ("script", "svg", "b")]


def test_output_that_streams_is_in_the_report(server, rest):
    rest.stream("for i in range(20000): print('line', i)", session="streams")
    shown = document(server, share(rest, "streams")["url"])
    assert "line 0\n" in shown.text and "line 19999" not in shown.text and "too long for this report" in shown.text


def test_a_link_shows_what_was_there_when_it_was_made(server, rest):
    rest.run("'first'", session="then")
    link = share(rest, "then")
    rest.run("'later'", session="then")
    assert "later" not in document(server, link["url"]).text


def test_a_report_is_a_download(rest):
    rest.run("'kept'", session="report")
    answer = rest.get("/sessions/report/report")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="session-report.html"'
    assert "kept" in Document(answer.data.decode()).text


def test_old_runs_go_when_the_history_is_full(server, rest):
    for i in range(70):
        rest.run(f"print('mark {i:03}')\nprint('y' * 65000)", session="long")
    link = share(rest, "long")
    assert 40 < link["runs"] < 70
    shown = document(server, link["url"])
    assert "mark 000" not in shown.text and "mark 069" in shown.text and "earlier runs are not in this report" in shown.text


def test_a_fork_has_the_history_of_its_session(server, rest):
    rest.run("'before'", session="trunk")
    fork = rest.post("/sessions/trunk/fork", {"name": "branch"}).json["fork"]
    rest.run("'in the branch'", session=fork)
    rest.run("'in the trunk'", session="trunk")
    shown = document(server, share(rest, "branch")["url"]).text
    assert "before" in shown and "in the branch" in shown and "in the trunk" not in shown


def test_others_see_nothing_and_links_can_be_removed(server, rest, bob):
    rest.run("'secret'", session="mine")
    for method, path in (("POST", "share"), ("GET", "report")):
        assert bob.ask(method, f"/sessions/mine/{path}").error["code"] == "nothing_to_report"
    assert rest_client.Rest(server.port).post("/sessions/mine/share").status == 401
    link = share(rest, "mine", expires_in=60)
    assert bob.ask("DELETE", "/sessions/mine/share").json["removed"] == 0
    assert look(server, link["url"]).status == 200
    assert rest.ask("DELETE", "/sessions/mine/share").json["removed"] == 1
    gone = look(server, link["url"])
    assert gone.status == 404 and gone.error["code"] == "share_not_found"
    for token in ("", "x", "A" * 43, "A" * 500, "..%2f..", link["url"][-43:-1] + "%00"):
        assert look(server, "http://x/share/" + token).status in (400, 401, 404), token


def test_a_key_has_so_many_links(rest):
    rest.run("1", session="links")
    for _ in range(32):
        answer = rest.post("/sessions/links/share")
    assert answer.status in (201, 409)
    full = rest.post("/sessions/links/share")
    assert full.status == 409 and full.error["code"] == "too_many_shares"
    rest.ask("DELETE", "/sessions/links/share")
    share(rest, "links")


def test_nothing_was_run_and_bad_bodies(rest):
    rest.post("/sessions", {"name": "empty"})
    assert rest.post("/sessions/empty/share").error["code"] == "nothing_to_report"
    for body in ({"expires_in": 59}, {"expires_in": 604801}, {"expires_in": "x"}, {"more": 1}):
        assert rest.post("/sessions/empty/share", body).status == 400, body
