# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document: valid, complete, and kept by the server, as schemathesis sees it.

LONG=1 looks at more, for some minutes.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest
from conftest import open_cli
from rest_client import Rest, serve

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
    return api.get("/openapi.json").json


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
    keyed = {o["operationId"] for _, _, o in operations(document) if {"$ref": "#/components/parameters/IdempotencyKey"}
             in o.get("parameters", [])}  # fmt: skip
    assert {"execute", "batch", "open_session", "create_environment", "install_packages"} <= keyed
    assert document["security"] == [{"bearer": []}, {"key": []}]


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


def test_the_methods_of_a_path(api, document):
    for path, methods in document["paths"].items():
        answer = api.ask("OPTIONS", re.sub(r"{\w+}", "x", path.removeprefix("/api/v1")))
        allowed = set(answer.headers["Allow"].lower().split(", ")) - {"options", "head"}
        assert allowed == set(methods), path


# Not positive_data_acceptance: a schema cannot say that a session has ended, that there is no such package, or that a
# key was used before.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,"
          "ignored_auth,use_after_free")  # fmt: skip
RUNS = {"all": ["--phases", "coverage,fuzzing,stateful", "--max-examples", "100"]} if LONG else {
    "edges": ["--phases", "coverage", "--include-operation-id", "batch", "--include-operation-id", "undo",
              "--include-operation-id", "list_artifacts", "--include-operation-id", "read_file"],
    "fuzzing": ["--phases", "fuzzing", "--max-examples", "2"],
}  # fmt: skip


@pytest.mark.parametrize("run", RUNS)
def test_schemathesis(api, document, run):
    """No error of the server, no answer that the document does not have, nothing taken that it does not allow."""
    file = pathlib.Path(api.folder, "openapi.json")
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(file), "--no-color",
               "--url", f"http://127.0.0.1:{api.port}", "-H", "X-API-Key: key-of-ann-1", "--checks", CHECKS,
               "--generation-deterministic", "--request-timeout", "30", "--continue-on-failure", *RUNS[run]]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=api.folder, timeout=1800)
    generated = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert generated and int(generated.group(1)) > 50, done.stdout[-3000:]
    assert api.run("1")["verdict"] == "ok"
