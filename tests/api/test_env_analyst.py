# SPDX-License-Identifier: Apache-2.0
"""A data analyst's session over MCP with the Python SDK that lacks a library half-way: a CSV file goes in and is looked
at with what the interpreter has; `import polars` fails and says what to do; the package is installed into the session's
environment; the same session imports it, with every variable as it was, and a table and a file come out.

polars is the real one. Its wheels are made of what tools/setup has put into build/venv-data and served on loopback, so
that this needs no registry.
"""

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import pathlib
import re
import sys

import anyio
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP, open_cli
from mcp import Client
from mcp_client import MODERN, Server

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data"))
UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
HAS_UV = UV_PYTHON.exists() and UV_PYTHON.with_name("uv").exists()
CSV = "region,month,sales\n" + "".join(
    f"{region},{month},{(i * 37 + month * 11) % 101 + i * 10}\n"
    for i, region in enumerate(("north", "south", "east", "west"))
    for month in range(1, 13)
)
TOTALS = {"north": 0, "south": 0, "east": 0, "west": 0}
for row in csv.DictReader(io.StringIO(CSV)):
    TOTALS[row["region"]] += int(row["sales"])


def wheel_of(name):
    """The wheel of a distribution that is installed in build/venv-data, made anew."""
    [folder] = DATA.glob("lib/python3.*/site-packages")
    [dist] = importlib.metadata.distributions(name=name, path=[str(folder)])
    info = f"{re.sub('[-_.]+', '_', name)}-{dist.version}.dist-info/"
    files = {}
    for path in dist.files:
        place = str(path)
        if not place.startswith(("..", info)) and "__pycache__" not in place:
            files[place] = path.locate().read_bytes()
    tag = re.search(r"^Tag: (\S+)", dist.read_text("WHEEL"), re.M)[1]
    needs = [item for item in dist.requires or () if "extra ==" not in item]
    return wheel_lab.wheel(name, dist.version, files, requires=needs, tag=tag, stored=True)


@pytest.fixture(scope="module")
def index():
    if not list(DATA.glob("lib/python3.*/site-packages/polars")):
        pytest.skip(f"polars is not in {DATA}: tools/setup data")
    with wheel_lab.Lab() as lab:
        polars = lab.add(wheel_of("polars"))
        for need in re.findall(r"^Requires-Dist: ([A-Za-z0-9_-]+)", polars.metadata.decode(), re.M):
            lab.add(wheel_of(need))
        yield lab


def said(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def call(client, tool, /, fails=False, **arguments):
    result = await client.call_tool(tool, arguments, read_timeout_seconds=120)
    assert bool(result.is_error) is fails, said(result)
    return result, result.structured_content


async def conversation(url, mode, name):
    async with Client(url, mode=mode) as client:
        await call(client, "create_python_env", name=name)
        await call(client, "open_session", name=name, environment=name)
        await call(client, "write_file", session=name, path="sales.csv", text=CSV)

        code = (
            "import csv\nwith open('sales.csv') as file:\n    rows = list(csv.DictReader(file))\n"
            "best = max(rows, key=lambda row: int(row['sales']))\nlen(rows), best['region']"
        )
        _, looked = await call(client, "execute_python", session=name, code=code)
        assert looked["result_json"][0] == 48, looked
        result, missing = await call(client, "execute_python", fails=True, session=name, code="import polars as pl")
        assert missing["error"]["type"] == "ModuleNotFoundError" and missing["session_state"] == "open"
        assert "install_package" in said(result), said(result)

        heard = []

        async def on_progress(progress, total, message):
            heard.append((progress, total, message))

        result = await client.call_tool(
            "install_package",
            {"package_names": "polars", "environment": name},
            read_timeout_seconds=120,
            progress_callback=on_progress,
        )
        assert not result.is_error and result.structured_content["state"] == "ready", said(result)
        assert "polars" in {item["name"] for item in result.structured_content["added"]}
        assert mode == MODERN or heard, "no progress was told"

        code = (
            "import polars as pl\ntable = pl.DataFrame(rows).with_columns(pl.col('sales').cast(pl.Int64))\n"
            "totals = table.group_by('region').agg(pl.col('sales').sum()).sort('sales', descending=True)\n"
            "print(len(rows), best['region'])\ntotals"
        )
        result, made = await call(client, "execute_python", session=name, code=code)
        assert made["stdout"].startswith("48 "), "the variables are those from before"
        for region, sum_ in TOTALS.items():
            assert region in said(result) and str(sum_) in said(result), said(result)
        changed = {item["name"]: item for item in made["variables"]}
        assert changed["totals"]["shape"] == [4, 2], changed

        code = "totals.write_csv('totals.csv')\nimport hashlib\nhashlib.sha256(open('totals.csv', 'rb').read()).hexdigest()"
        result, written = await call(client, "execute_python", session=name, code=code)
        [file] = written["files"]
        assert file["path"] == "totals.csv" and file["mime_type"] == "text/csv"
        [content] = (await client.read_resource(file["uri"])).contents
        body = base64.b64decode(content.blob) if hasattr(content, "blob") else content.text.encode()
        assert repr(hashlib.sha256(body).hexdigest()) == written["result"]
        found = {row["region"]: int(row["sales"]) for row in csv.DictReader(io.StringIO(body.decode()))}
        assert found == TOTALS

        _, listed = await call(client, "list_installed_packages", environment=name)
        assert "polars" in {item["name"] for item in listed["packages"] if not item["base"]}
        _, bare = await call(client, "execute_python", fails=True, code="import polars")
        assert bare["error"]["type"] == "ModuleNotFoundError", "only this environment has it"


def test_polars_half_way(program, index):
    """Over HTTP, in both forms of the protocol; the second finds the wheels of the first."""
    with open_cli(program) as cli:
        server = Server(cli, "--python", PYTHON, "--index-url", index.url, "--memory", "1G", "--wall", "50")
        brought = []
        for mode in "legacy", MODERN:
            anyio.run(conversation, server.url + "/mcp", mode, f"analysis-{mode[:6]}")
            brought.append([path for path in index.requests if path.endswith(".whl")])
        assert brought[0] and brought[1] == brought[0], "what the second needed was there already"
        often = {path: brought[0].count(path) for path in brought[0]}
        assert max(often.values()) <= (1 if HAS_UV else 2), often  # pip brings it once more to look into it
        server.stop()
