# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document: valid, complete, and kept by the server, as schemathesis sees it.

LONG=1 lets it do all that it does by default, for many minutes; without, a part of that.
"""

import base64
import contextlib
import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import jsonschema
import pytest
from conftest import open_cli
from rest_client import Answer, Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1"}
LONG = os.environ.get("LONG") == "1"


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        server = serve(cli, "--offline", env=KEYS)  # there is no index in a test
        client = Rest(server.port, "key-of-ann-1")
        client.folder = cli.folder
        yield client


@pytest.fixture(scope="module")
def document(api):
    return api.get("/openapi.json?exact=true").json


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_it_is_valid(document):
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_it_is_complete(document, tools):
    """Every row of the table of routes is in it, with what it needs to be used."""
    rows = set(re.findall(r'\.operation = "(\w+)"', (tools.top / "src/rest/route.c").read_text()))
    assert {o["operationId"] for _, _, o in operations(document)} == rows
    failure = {"$ref": "#/components/responses/Failure"}
    for path, method, operation in operations(document):
        where = (method, path)
        responses = operation["responses"]
        assert operation["summary"] and responses["default"] == failure, where
        assert any(s.startswith("2") and r["content"] for s, r in responses.items()), where
        if operation.get("security") != []:
            assert responses["401"] == failure, where
        named = {p["name"] for p in operation.get("parameters", []) if p.get("in") == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), where
    content = document["components"]["responses"]["Failure"]["content"]
    assert list(content) == ["application/problem+json"]
    for path in "/execute", "/batch":
        kinds = document["paths"]["/api/v1" + path]["post"]["responses"]["200"]["content"]
        assert set(kinds) == {"application/json", "application/x-ndjson", "text/event-stream"}
    keyed = {o["operationId"] for _, _, o in operations(document)
             if {"$ref": "#/components/parameters/IdempotencyKey"} in o.get("parameters", [])}  # fmt: skip
    rows = (tools.top / "src/rest/route.c").read_text().split("{HTTP_")
    honoured = {re.search(r'\.operation = "(\w+)"', row)[1] for row in rows if ".keyed = true" in row}
    assert keyed == honoured >= {"execute", "batch", "open_session", "create_environment", "install_packages"}
    assert document["security"] == [{"bearer": []}, {"key": []}]


def bounds(schema):
    words = [str(schema["default"]) + " by default"] if "default" in schema else []
    if "minimum" in schema:
        words.append(f"{schema['minimum']} to {schema['maximum']}")
    for most, unit in ("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "names"):
        if most in schema:
            words.append(f"at most {schema[most]} {unit}")
    return f" ({', '.join(words)})" if words else ""


def test_the_table_in_the_docs(document, tools):
    """docs/rest.md says of each field what the table of src/exec/execute.c says."""
    schema = document["paths"]["/api/v1/execute"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    rows = {}
    for name, field in schema["properties"].items():
        if other := re.fullmatch(r"another name of '(\w+)'", field["description"]):
            rows[other[1]][0] += f" or `{name}`"
            continue
        text = field["description"].replace("|", "\\|") + bounds(field)
        rows[name] = [f"`{name}`", ("required: " if name in schema["required"] else "") + text]
    table = "| field | |\n|---|---|\n" + "".join(f"| {name} | {text} |\n" for name, text in rows.values())
    page = tools.top / "docs/rest.md"
    begin, rest = page.read_text().split("pytest tests/api/test_openapi.py -k docs -->\n")
    told, end = rest.split("<!-- /execute -->", 1)
    if os.environ.get("UPDATE"):
        page.write_text(f"{begin}pytest tests/api/test_openapi.py -k docs -->\n{table}<!-- /execute -->{end}")
    else:
        assert told == table, "run this test with UPDATE=1"


def test_without_keys_there_is_no_security(program):
    with open_cli(program) as cli:
        assert serve(cli).get("/openapi.json").json["security"] == []


def test_answers_are_what_it_says(api, document):
    def check(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    items = {"items": [{"code": "1", "id": "a"}, {"code": "1 / 0"}]}
    check("Batch", api.post("/batch", {**items, "stream": False}).json)
    for message in api.post("/batch", items).lines:
        check("BatchMessage", message)
    check("Problem", api.post("/batch", {}).json)
    check("Problem", Rest(api.port).get("/sessions").json)
    check("Problem", api.get("/sessions/nobody").json)


def closed(value):
    """The document, with no field but the ones that it names."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {name: closed(item) for name, item in value.items()}
    return {**value, "additionalProperties": False} if isinstance(value.get("properties"), dict) else value


@pytest.mark.parametrize("code", [
    "x = [1]\nprint(x)\nx", "def f():\n    1 / 0\nf()", "1 +", "import sys; sys.exit(3)", "print('x' * 10**8)",
    "for i in range(150): open(f'f{i}', 'w').close()", "for i in range(120): globals()[f'v{i}'] = i",
    "import os; os.symlink('a', 'b'); os.mkfifo('c')", "import socket; socket.create_connection(('192.0.2.1', 80))",
    "class A:\n    def _repr_html_(self): return '<b>a</b>'\nfor i in range(300): display(A())",
    "open('none')", "import os; os.kill(os.getpid(), 9)", "b = bytearray(10**10)",
])  # fmt: skip
@pytest.mark.parametrize("session", [None, "of the document"])
def test_a_result_has_the_fields_that_it_says(api, document, code, session):
    components = closed(document["components"])
    schema = {"$ref": "#/components/schemas/Execution", "components": components}
    result = api.run(code, session=session)
    assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(result)] == [], result


def test_a_result_of_the_policy_has_the_fields_that_it_says(api, document):
    schema = {"$ref": "#/components/schemas/Execution", "components": closed(document["components"])}
    jsonschema.Draft202012Validator(schema).validate(api.run("import os", policy="guarded"))
    jsonschema.Draft202012Validator(schema).validate(api.run("1", policy="open"))


def test_the_methods_of_a_path(api, document):
    for path, methods in document["paths"].items():
        answer = api.ask("OPTIONS", re.sub(r"{\w+}", "x", path.removeprefix("/api/v1")))
        allowed = set(answer.headers["Allow"].lower().split(", ")) - {"options", "head"}
        assert allowed == set(methods), path


# Names of files at the edge: their bytes are bounded (255, and 1024 with the folders), and an expression counts characters.
NAMES = [(sign * fits, sign * (fits + 1)) for sign, fits in (("a", 255), ("é", 127), ("語", 85), ("\U0001f40d", 63))]
PATHS = [*NAMES, *((f"d/{good}", f"d/{bad}/x") for good, bad in NAMES),
         ("/".join(["a" * 204] * 5), "/".join(["a" * 204] * 4 + ["a" * 205])),
         ("/".join(["é" * 127] * 4), "/".join(["é" * 127] * 4 + ["é" * 3])),
         ("/".join(["語" * 67] * 5), "/".join(["語" * 85] * 4 + ["a"])),
         ("/mnt/data/" + "/".join(["\U0001f40d" * 50] * 5), "/mnt/data/" + "/".join(["\U0001f40d" * 63] * 4 + ["語" * 5]))]

# What texts are: good ones, and ones that the server refuses. The document has to say the same of each.
FORMS = [
    ("execute", {"code": "1"}, {"code": "\0"}),
    ("execute", {"code": "1", "session": "é" * 32}, {"code": "1", "session": "a\nb"}),
    ("execute", {"code": "1", "files": [{"path": "a/./b.txt", "text": ""}]}, {"code": "1", "files": [{"path": "a"}]}),
    ("execute", {"code": "1", "files": [{"path": "/mnt/data/x", "base64": "QQ=="}]},
     {"code": "1", "files": [{"path": "x", "base64": "QR=="}]}),
    ("execute", {"code": "1", "files": [{"path": "...", "content": "QUI=", "encoding": "base64"}]},
     {"code": "1", "files": [{"path": "x", "content": "A", "encoding": "base64"}]}),
    ("execute", {"code": "1", "files": [{"path": "x", "text": "", "base64": None}]},
     {"code": "1", "files": [{"path": "a/../x", "text": ""}]}),
    ("execute", {"code": "1", "variables": {"a": {"ß": [1.5, None]}}}, {"code": "1", "variables": {"if": 1}}),
    ("execute", {"code": "1", "env": {"A_1": "ß"}}, {"code": "1", "env": {"A": 1}}),
    ("execute", {"code": "1", "env": {"a.b-c": ""}}, {"code": "1", "env": {"1A": ""}}),
    ("execute", {"code": "1", "env": {"PYTHONHASHSEED_": "1"}}, {"code": "1", "env": {"PYTHONHASHSEED": "1"}}),
    ("execute", {"code": "1", "env": {"CONSTRICTO": "1"}}, {"code": "1", "env": {"CONSTRICTOR_A": "1"}}),
    ("execute", {"code": "1", "variables": {"a": 2**63 - 1}}, {"code": "1", "variables": {"a": 2**63}}),
    ("execute", {"code": "1", "network": "off"}, {"code": "1", "network": ["http://example.org/"]}),
    ("execute", {"code": "1", "network": {"deny": []}}, {"code": "1", "network": {"deny": ["example.org"]}}),
    ("execute", {"code": "1", "network": False}, {"code": "1", "network": [{"port": 443}]}),
    ("execute", {"code": "1", "allowed_imports": ["os.path", "numpy.*"]}, {"code": "1", "allowed_imports": ["1"]}),
    ("execute", {"code": "1", "policy": "open", "allowed_imports": None},
     {"code": "1", "policy": "open", "allowed_imports": ["math"]}),
    *[("execute", {"code": "1", "files": [{"path": good, "text": ""}]}, {"code": "1", "files": [{"path": bad, "text": ""}]})
      for good, bad in PATHS],
    ("open_session", {"name": "a b"}, {"name": "ses_mine"}),
    ("open_session", {"name": "\U0001f40d" * 128}, {"name": "\U0001f40d" * 129}),  # characters, not bytes
    ("execute", {"code": "1", "session": "ü" * 128}, {"code": "1", "session": "ü" * 129}),
    ("create_environment", {"name": "n1", "preload": ["os.path"]}, {"name": "n2", "preload": ["os."]}),
    ("create_environment", {"name": "n3", "constraints": ["numpy[a,b]>=1.2,<2"]}, {"name": "n4", "constraints": [""]}),
    ("create_environment", {"name": "n5", "constraints": "a==1.*, b~=2.0 c"}, {"name": "n6", "constraints": "a b;"}),
    ("create_environment", {"name": "n7"}, {"name": "set-1"}),
    ("create_environment", {"name": "n8"}, {"name": "n9", "packages": "a", "lock": "b"}),
]  # fmt: skip


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_forms(api, document, form):
    """A body that the server takes fits the schema, and one that it refuses does not."""
    name, good, bad = FORMS[form]
    path, _, operation = next(o for o in operations(document) if o[2]["operationId"] == name)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    for body, fits in (good, True), (bad, False):
        answer = api.post(path.removeprefix("/api/v1"), body)
        assert validator.is_valid(body) is fits and (answer.status < 300) is fits, (body, answer)


@pytest.mark.parametrize("body, fits", [
    ({}, False), ({"text": None}, False), ({"end": False}, False), ({"text": None, "end": None}, False),
    ({"text": ""}, True), ({"end": True}, True), ({"text": "a", "end": None}, True), ({"text": None, "end": True}, True),
])  # fmt: skip
def test_an_answer_is_a_line_or_the_end(api, document, body, fits):
    api.run("1", session="answered")
    operation = document["paths"]["/api/v1/sessions/{id}/input"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    status = api.post("/sessions/answered/input", body).status
    assert validator.is_valid(body) is fits and status == (409 if fits else 400), (body, status)  # 409: nothing waits


def test_names_of_files_at_the_edge(api, document):
    """In a URL, too; and of artifacts, where the whole path is one text."""
    def fits(path, method, name, value):
        (schema,) = [p["schema"] for p in document["paths"]["/api/v1" + path][method]["parameters"] if p.get("name") == name]
        return jsonschema.Draft202012Validator(schema).is_valid(value)

    for good, bad in NAMES:
        for name, taken in (good, True), (bad, False):
            assert (api.put("edge", name, b"").status < 300) is taken is fits("/sessions/{id}/files/{path}", "put", "path", name)
    for sign, most in ("a", 1024), ("é", 512), ("語", 341), ("\U0001f40d", 256):
        for count, taken in (most, True), (most + 1, False):
            answer = api.get("/artifacts?path=" + urllib.parse.quote(sign * count))
            assert (answer.status == 200) is taken is fits("/artifacts", "get", "path", sign * count), answer


@pytest.mark.parametrize("value", ["k", "a b\\c", '"a"', '"a \\" \\\\ b"', "x" * 255, '"' + "x" * 255 + '"', "!~", "end "])
def test_keys_that_are_taken(api, document, value):
    assert is_key(document, value)
    answer = api.ask("POST", "/execute", {"code": "1"}, {"Idempotency-Key": value})
    assert answer.status == 200, answer


@pytest.mark.parametrize("value", ["", '"', '""', '"a', 'a"b', '"a"b"', '"a\\"', "x" * 256, '"' + "x" * 256 + '"', "a\tb"])
def test_keys_that_are_refused(api, document, value):
    assert not is_key(document, value)
    answer = api.ask("POST", "/execute", {"code": "1"}, {"Idempotency-Key": value})
    assert answer.status == 400, answer


def is_key(document, value):
    schema = document["components"]["parameters"]["IdempotencyKey"]["schema"]
    return jsonschema.Draft202012Validator(schema).is_valid(value)


# All checks that schemathesis has. In one process: it takes seconds to begin. The rest is for LONG, which has what
# schemathesis does by itself, every time with other data: a batch of the largest size, calls that build on each other.
QUICK = """
continue-on-failure = true
request-timeout = 600

[generation]
deterministic = true
max-examples = 1

[phases]
examples.enabled = false
stateful.enabled = false

[[operations]]
exclude-operation-id = ["undo", "read_file"]
phases.coverage.enabled = false
"""


def test_schemathesis(api):
    """No error of the server, no answer that the document does not have, nothing taken that it does not allow."""
    pathlib.Path(api.folder, "quick.toml").write_text(QUICK)
    command = [sys.executable, "-m", "schemathesis.cli", *([] if LONG else ["--config-file", "quick.toml"]),
               "run", f"http://127.0.0.1:{api.port}/api/v1/openapi.json?exact=true", "--no-color",
               "-H", "X-API-Key: key-of-ann-1"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=api.folder, timeout=3600)
    generated = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert generated and int(generated.group(1)) > (3000 if LONG else 100), done.stdout[-3000:]
    assert api.run("1")["verdict"] == "ok"


# ---- GET /docs -------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """What a reader sees: the tags, and the text of each section and of each example by the id of the section."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.ids, self.links = set(), set(), [], []
        self.sections, self.examples, self.section, self.within = {}, {}, "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        self.section = values.get("id") if tag == "section" else self.section
        self.within = tag

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        self.sections[self.section] = self.sections.get(self.section, "") + data
        if self.within == "pre":
            self.examples[self.section] = self.examples.get(self.section, "") + data


def fetch_docs(rest, method="GET"):
    with contextlib.closing(rest.connect()) as connection:
        connection.request(method, "/docs", headers=rest.headers())
        response = connection.getresponse()
        return Answer(response, response.read())


@pytest.fixture(scope="module")
def page(api):
    return Page(fetch_docs(api).data.decode())


def type_in(example, folder, key="key-of-ann-1"):
    """The status and the body, of an example as someone pastes it into a shell."""
    done = subprocess.run(["sh", "-c", example + " -s -w '\\n%{http_code}'"], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "KEY": key}, timeout=60)  # fmt: skip
    assert done.returncode == 0, (example, done.stderr)
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


def test_the_page_of_the_api_runs_nothing_and_is_for_those_who_may_read_the_document(api):
    answer = fetch_docs(api)
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    style = re.findall("<style>(.*?)</style>", answer.data.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    assert len(style) == 1 and policy == {"default-src": "'none'", "style-src": f"'sha256-{digest}'", "base-uri": "'none'",
                                          "form-action": "'none'", "frame-ancestors": "'none'"}  # fmt: skip
    page = Page(answer.data.decode())
    assert not page.tags & {"script", "link", "img", "iframe", "form", "object", "base"}
    assert not [name for name in page.attributes if name.startswith("on") or name in ("style", "src")]
    assert all(re.match("[#/](?!/)", link) for link in page.links)     # nothing of another host
    assert fetch_docs(api).data == answer.data and fetch_docs(api, "HEAD").data == b""
    assert fetch_docs(api, "POST").status == 405
    keyless = Rest(api.port)
    assert fetch_docs(keyless).status == keyless.get("/openapi.json").status == 401


def test_the_page_of_the_api_has_all_of_the_document(page, document):
    assert len(page.ids) == len(set(page.ids)) and {link[1:] for link in page.links if link[0] == "#"} <= set(page.ids)
    for path, method, operation in operations(document):
        text, name = page.sections[operation["operationId"]], operation["operationId"]
        assert f"#{name}" in page.links
        assert f"{method.upper()} {path}" in text and operation["summary"] in text
        fields = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        listed = [(field, schema, field in fields.get("required", [])) for field, schema in fields.get("properties", {}).items()]
        listed += [(p["name"], {"description": p["description"], **p["schema"]}, p["required"])
                   for p in operation.get("parameters", []) if "name" in p]  # fmt: skip
        for field, schema, required in listed:
            row = re.search(rf"^{re.escape(field)} (.*)$", text, re.MULTILINE)
            assert row and schema["description"] in row[1] and (", required" in row[1]) == required, (name, field)
            for bound in "default", "minimum", "maximum", "maxLength", "maxItems", "maxProperties":
                assert bound not in schema or json.dumps(schema[bound]) in row[1], (name, field, bound)
            kind = schema.get("type", "")
            assert (kind if isinstance(kind, str) else kind[0]) in row[1], (name, field)
        for status, answer in operation["responses"].items():
            assert status == "default" or status in text, (name, status)
            for content in answer.get("content", {}).values():
                assert content["schema"].get("$ref", "/").rsplit("/", 1)[1] in text, (name, status)
            assert status == "default" or "$ref" not in answer or f"error-{status}" in page.ids, (name, status)
    for name in document["components"]["schemas"]:
        assert f"object-{name}" in page.ids


def test_the_page_of_the_api_has_the_errors_of_the_docs(page, tools):
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", (tools.top / "docs/rest.md").read_text(), re.MULTILINE)
    shown = dict(re.findall(r"^(\d{3})(\D.*)$", page.sections["errors"], re.MULTILINE))
    assert shown == {status: text.replace("`", "") for status, text in rows}


def test_the_examples_of_the_page_of_the_api_work_as_typed(api, page, document):
    """Those of routes that read, and the ones that make what these read; the body of each is allowed."""
    status, body = type_in(page.examples["execute"], api.folder)
    assert status == 200 and json.loads(body)["stdout"] == "42\n" and json.loads(body)["session"]
    assert type_in(page.examples["execute"], api.folder, "wrong")[0] == 401
    assert type_in(page.examples["write_file"], api.folder)[0] == 200
    for path, method, operation in operations(document):
        example = page.examples[operation["operationId"]]
        assert example.startswith(f"curl -X {method.upper()} 'http://127.0.0.1:{api.port}/api/v1")
        assert ("$KEY" in example) == (operation.get("security") != [])
        if schema := operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema"):
            sent = re.search("--data-binary '(.*)'", example, re.DOTALL)
            assert sent or not schema.get("required"), example
            schema = {**schema, "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(json.loads(sent[1]) if sent else {})
        elif method == "get" and not re.search("{execution}|{job}|/export", path):   # these want an id, or an index
            assert type_in(example, api.folder)[0] == 200, example


def test_the_examples_of_a_server_without_keys_send_none(program):
    with open_cli(program) as cli:
        rest = serve(cli)
        assert rest.get("/openapi.json").json["externalDocs"]["url"] == f"http://127.0.0.1:{rest.port}/docs"
        example = Page(fetch_docs(rest).data.decode()).examples["execute"]
        assert "KEY" not in example
        assert json.loads(type_in(example, cli.folder)[1])["stdout"] == "42\n"
