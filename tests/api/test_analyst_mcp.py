# SPDX-License-Identifier: Apache-2.0
"""A data analyst's session over MCP with the Python SDK, as a model would lead it: a CSV file goes in,
a pandas table and a seaborn plot are looked at, an error is made and corrected, an Excel file and a
picture come out, and every link is fetched and compared byte by byte.

The data stack is that of tests/requirements-data.txt in build/venv-data.
"""

import base64
import hashlib
import io
import os
import pathlib
import urllib.request
import zipfile

import anyio
import pytest
from conftest import TOP, open_cli
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_client import MODERN, Server

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
FLAGS = ("--python", str(DATA), "--memory", "1G", "--wall", "50", "--cpu", "50")
CSV = "region,month,sales\n" + "".join(
    f"{region},{month},{(i * 37 + month * 11) % 101 + i * 10}\n"
    for i, region in enumerate(("north", "south", "east", "west"))
    for month in range(1, 13)
)
TABLE = """
import pandas as pd
df = pd.read_csv('sales.csv')
totals = df.groupby('region', as_index=False)['sales'].sum()
totals
"""
PLOT = """
import matplotlib.pyplot as plt
import seaborn as sns
sns.barplot(data=totals, x='region', y='sales')
plt.title('Sales by region')
plt.savefig('sales.png', dpi=80)
plt.show()
"""
EXCEL = """
totals.to_excel('totals.xlsx', index=False)
import hashlib, pathlib
{p: hashlib.sha256(pathlib.Path(p).read_bytes()).hexdigest() for p in ('totals.xlsx', 'sales.png')}
"""


@pytest.fixture(scope="module")
def server(program):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    with open_cli(program) as cli:
        yield Server(cli, *FLAGS)


def said(result):
    return "\n".join(b.text for b in result.content if b.type == "text")


def kinds(result):
    return [b.type for b in result.content]


async def call(client, tool, /, **arguments):
    result = await client.call_tool(tool, arguments, read_timeout_seconds=90)
    return result, result.structured_content


async def read(client, uri):
    [content] = (await client.read_resource(str(uri))).contents
    blob = getattr(content, "blob", None)
    return base64.b64decode(blob) if blob is not None else content.text.encode()


async def analyse(client, web):
    """The whole conversation; with `web`, links of files are addresses on it."""
    _, opened = await call(client, "open_session", name="analysis", checkpoint=False)
    session = opened["session"]
    _, written = await call(client, "write_file", session="analysis", path="sales.csv", text=CSV)
    assert written["size"] == len(CSV) and written["mime_type"] == "text/csv"

    result, table = await call(client, "execute_python", code=TABLE, session="analysis")
    assert table["verdict"] == "ok", said(result)
    assert all(region in said(result) for region in ("north", "south", "east", "west"))
    changed = {v["name"]: v for v in table["variables"]}
    assert changed["df"]["shape"] == [48, 3] and changed["totals"]["shape"] == [4, 2]
    assert "df DataFrame (48, 3) added" in said(result)
    assert table["files"] == [], "an upload is not the code's work"

    result, plot = await call(client, "execute_python", code=PLOT, session="analysis")
    assert plot["verdict"] == "ok", said(result)
    [image] = [b for b in result.content if b.type == "image"]
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    assert [f["path"] for f in plot["files"]] == ["sales.png"]

    result, wrong = await call(
        client, "execute_python", code="best = totals.sort_values('sale')", session="analysis"
    )
    assert result.is_error and wrong["error"]["type"] == "KeyError"
    assert wrong["session_state"] == "open" and "line 1" in said(result)
    result, fixed = await call(
        client,
        "execute_python",
        code="best = totals.sort_values('sales').iloc[-1]['region']\nbest",
        session="analysis",
    )
    assert fixed["verdict"] == "ok" and not fixed["files"], said(result)

    result, made = await call(client, "execute_python", code=EXCEL, session="analysis")
    assert made["verdict"] == "ok", said(result)
    assert [f["path"] for f in made["files"]] == ["totals.xlsx"]
    sums = made["result_json"]
    files = {f["path"]: f for f in plot["files"] + made["files"]}
    links = {b.name: b for b in result.content if b.type == "resource_link"}
    assert links["totals.xlsx"].mime_type.endswith("spreadsheetml.sheet")
    return session, files, sums, web


async def compare(client, session, files, sums, web):
    listed = {f["path"]: f for f in (await call(client, "list_files", session=session))[1]["files"]}
    for path, f in files.items():
        body = await read(client, f["uri"])
        assert len(body) == f["size"] == listed[path]["size"]
        assert hashlib.sha256(body).hexdigest() == sums[path], path
        assert listed[path]["uri"] == f["uri"] and listed[path]["url"] == f["url"]
        if web:
            assert f["url"].startswith(web + "/files/")
            with await anyio.to_thread.run_sync(urllib.request.urlopen, f["url"]) as answer:
                assert answer.headers["Content-Type"].startswith(f["mime_type"])
                assert answer.read() == body
        else:
            assert f["url"] is None
    book = zipfile.ZipFile(io.BytesIO(await read(client, files["totals.xlsx"]["uri"])))
    assert "xl/workbook.xml" in book.namelist()
    result, _ = await call(client, "read_file", session=session, path="sales.png")
    assert kinds(result) == ["text", "image"]
    assert hashlib.sha256(base64.b64decode(result.content[1].data)).hexdigest() == sums["sales.png"]


async def conversation(target, mode, web):
    async with Client(target, mode=mode) as client:
        found = await analyse(client, web)
        await compare(client, *found)
        listed = {str(r.uri) for r in (await client.list_resources()).resources}
        session, files, _, _ = found
        assert {f["uri"] for f in files.values()} <= listed
        await call(client, "close_session", session=session)
        await compare(client, *found)  # the files outlive their session


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_over_http(server, mode):
    anyio.run(conversation, server.url + "/mcp", mode, server.url)


def test_over_stdio(cli):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    args = ["stdio", "--tools", "full", *FLAGS]
    target = StdioServerParameters(command=str(cli.program), args=args, env=cli.environ())
    anyio.run(conversation, target, "legacy", None)
