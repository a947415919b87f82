# SPDX-License-Identifier: Apache-2.0
"""Clients that generators make from the OpenAPI document run code, stream, upload and download."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import TOP, open_cli
from rest_client import Rest, serve

KEY = "key-of-ann-1"
TOOLS = TOP / "build/venv-clients/bin"
NODE = TOP / "build/npm/node_modules"
PATTERN_MAX = 100
OPTIONS = {"strict": True, "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom", "dom.asynciterable"], "types": []}


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        client = Rest(serve(cli, "--offline", env={"CONSTRICTOR_API_KEY": f"ann:{KEY}"}).port, KEY)
        client.folder = cli.folder
        (cli.folder / "openapi.json").write_bytes(client.get("/openapi.json").data)
        yield client


def call(*command, cwd):
    env = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=env, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def walk(value, seen=()):
    """Every object of the document, with the names of the schemas that lead to it."""
    if isinstance(value, dict):
        yield value, seen
        for item in value.values():
            yield from walk(item, seen)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item, seen)


def test_no_type_contains_itself(api):
    schemas = api.get("/openapi.json").json["components"]["schemas"]
    uses = {name: {part["$ref"].rsplit("/", 1)[1] for part, _ in walk(schema) if "$ref" in part} for name, schema in schemas.items()}

    def reach(name, path):
        assert name not in path, [*path, name]
        for other in uses[name]:
            reach(other, [*path, name])

    for name in schemas:
        reach(name, [])


def test_expressions_are_short_and_look_nowhere(api):
    patterns = {part["pattern"] for part, _ in walk(api.get("/openapi.json").json) if isinstance(part.get("pattern"), str)}
    assert patterns and not [p for p in patterns if len(p) > PATTERN_MAX or "(?" in p], patterns


def test_openapi_python_client(api):
    told = call(TOOLS / "openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none",
                "--output-path", "python/generated", cwd=api.folder)  # fmt: skip
    assert not re.search("warning|unable|will not", told, re.IGNORECASE), told
    ran = call(TOOLS / "python", TOP / "tests/clients/generated.py", "python", f"http://127.0.0.1:{api.port}", KEY, cwd=api.folder)
    assert ran == "all of it worked\n"


def test_openapi_typescript(api):
    folder = api.folder / "typescript"
    folder.mkdir()
    (folder / "node_modules").symlink_to(NODE)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"files": ["generated.ts"], "compilerOptions": OPTIONS}))
    shutil.copy(TOP / "tests/clients/generated.ts", folder)
    node = next(NODE.glob("node-linux-*/bin/node"), "node")
    call(node, NODE / "openapi-typescript/bin/cli.js", "../openapi.json", "--output", "api.d.ts", cwd=folder)
    call(node, NODE / "typescript/bin/tsc", cwd=folder)
    ran = call(node, "generated.js", f"http://127.0.0.1:{api.port}", KEY, cwd=folder)
    assert ran == "all of it worked\n"


USES_MODELS = """
import json, sys, urllib.request
from models import Batch, BatchEntry, BatchRequest, Execution, ExecuteRequest

def ask(path, body):
    request = urllib.request.Request(sys.argv[1] + path, body.model_dump_json(exclude_unset=True, by_alias=True).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer " + sys.argv[2]})
    return urllib.request.urlopen(request).read()

done = Execution.model_validate_json(ask("/execute", ExecuteRequest(code="print(n)\\n6 * 7", stream=False, variables={"n": 1})))
assert (done.stdout, done.result, done.usage.processes) == ("1\\n", "42", 1), done
failed = Execution.model_validate_json(ask("/execute", ExecuteRequest(code="1 / 0", stream=False, timeout=3, network="off")))
assert failed.error.type == "ZeroDivisionError", failed
both = Batch.model_validate_json(ask("/batch", BatchRequest(stream=False, items=[BatchEntry(code="1"), BatchEntry(code="1 / 0")])))
assert both.verdicts == {"ok": 1, "error": 1}, both
print("all of it worked")
"""


def test_datamodel_codegen(api):
    call(TOOLS / "datamodel-codegen", "--input", "openapi.json", "--input-file-type", "openapi", "--output", "models.py",
         "--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin", cwd=api.folder)  # fmt: skip
    (api.folder / "uses_models.py").write_text(USES_MODELS)
    assert call(TOOLS / "python", "uses_models.py", f"http://127.0.0.1:{api.port}/api/v1", KEY, cwd=api.folder) == "all of it worked\n"
