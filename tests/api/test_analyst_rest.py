# SPDX-License-Identifier: Apache-2.0
"""An analyst's session over REST: CSV in, a table, a plot, an error, its mending, Excel and PNG out.

What comes back by link is compared byte by byte with what the session holds. Draws with the data stack
of build/venv-data.
"""

import base64
import io
import os
import pathlib
import zipfile

import pytest
from conftest import TOP, open_cli
from rest_client import serve

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
PNG = b"\x89PNG\r\n\x1a\n"

CSV = "region,month,sales\n" + "".join(
    f"{region},{month},{100 + 7 * i + 13 * month}\n"
    for i, region in enumerate(("north", "south", "east"))
    for month in range(1, 13)
)


@pytest.fixture(scope="module")
def api(program):
    assert DATA.exists(), f"no data stack at '{DATA}': make test sets it up"
    with open_cli(program) as cli:
        yield serve(cli, "--python", DATA, "--preload", "pandas,matplotlib.pyplot", "--memory", "1G")


def first(messages, key):
    return next(m[key] for m in messages if key in m)


def test_the_session_of_an_analyst(api):
    # CSV in.
    put = api.put("analyst", "sales.csv", CSV.encode())
    assert put.status == 200 and put.json["mime_type"] == "text/csv"

    # A table, as HTML and as text.
    messages = api.stream("import pandas as pd\ndf = pd.read_csv('sales.csv')\ndf.head()", session="analyst")
    assert messages[-1]["verdict"] == "ok", messages[-1]
    shown = [m["display"] for m in messages if "display" in m]
    assert any("<table" in d.get("text/html", "") for d in shown), shown
    assert "region" in "".join(m.get("text", "") for m in messages)
    variables = {v["name"]: v for v in messages[-1]["execution"]["variables"]}
    assert variables["df"]["shape"] == [36, 3] and variables["df"]["change"] == "added"

    # A plot.
    plot = (
        "import seaborn as sns, matplotlib.pyplot as plt\n"
        "sns.lineplot(data=df, x='month', y='sales', hue='region').set_title('Sales by month')\n"
        "plt.show()"
    )
    messages = api.stream(plot, session="analyst", timeout=60)
    assert messages[-1]["verdict"] == "ok", messages[-1]
    image = next(m for m in messages if "image" in m)
    assert image["format"] == "png" and base64.b64decode(image["image"]).startswith(PNG)

    # A mistake, and what it says about itself.
    messages = api.stream("total = df.groupby('regoin')['sales'].sum()", session="analyst")
    error = next(m for m in messages if "error" in m)
    assert error["error"].startswith("KeyError") and "regoin" in error["error"]
    assert error["line"] == 1 and messages[-1]["verdict"] == "error"

    # Mended; the variables are still there.
    messages = api.stream("total = df.groupby('region')['sales'].sum()\ntotal['north']", session="analyst")
    assert first(messages, "verdict") == "ok"
    want = sum(100 + 13 * month for month in range(1, 13))
    assert str(want) in next(m["text"] for m in messages if m.get("stream") == "result")

    # Excel and PNG out.
    save = (
        "total.to_frame().to_excel('report/total.xlsx') if not __import__('os').makedirs('report') else 0\n"
        "bars = total.plot.bar(title='Total')\nbars.figure.savefig('report/total.png')\nplt.close('all')"
    )
    messages = api.stream(save, session="analyst", timeout=60)
    assert messages[-1]["verdict"] == "ok", messages[-1]
    files = {m["file"]["path"]: m["file"] for m in messages if "file" in m}
    assert set(files) == {"report/total.xlsx", "report/total.png"}
    assert files["report/total.png"]["mime_type"] == "image/png"
    assert files["report/total.xlsx"]["mime_type"].endswith("spreadsheetml.sheet")

    # The links, byte by byte, before and after the session has ended.
    held = {path: api.read("analyst", path).data for path in files}
    for path, file in files.items():
        link = api.fetch(file["url"])
        assert link.status == 200 and link.data == held[path] and len(link.data) == file["size"]
        assert link.headers["Content-Type"].split(";")[0] == file["mime_type"]
    session = messages[-1]["session"]
    assert api.ask("DELETE", "/sessions/analyst").status == 200
    for path, file in files.items():
        assert api.fetch(file["url"]).data == held[path] == api.read(session, path).data
    assert held["report/total.png"].startswith(PNG)
    with zipfile.ZipFile(io.BytesIO(held["report/total.xlsx"])) as book:
        assert any(b"north" in book.read(name) for name in book.namelist() if name.endswith(".xml"))
