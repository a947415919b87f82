# SPDX-License-Identifier: Apache-2.0
"""What code shows with the libraries of a data analyst, and what hostile values make of it.

The libraries are those of tests/requirements-data.txt in build/venv-data. Runs go through
`constrictor run --json`, whose display[] has the bundles as they are, except where the answer to a
model is meant.
"""

import json
import os
import pathlib

import pytest
from conftest import TOP, open_cli
from mcp_client import LEGACY, Stdio, check_received, text

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
CHART = "application/vnd.constrictor.chart+json"
TABLE = "text/vnd.constrictor.table"
PLOTLY = "application/vnd.plotly.v1+json"
PLT = "import matplotlib.pyplot as plt\n"


class Shown:
    def __init__(self, result):
        self.json = result.json
        self.items = self.json["display"]
        self.err, self.out = self.json["stderr"], self.json["stdout"]

    def types(self):
        return [sorted(item) for item in self.items]

    def chart(self, index=0):
        return json.loads(self.items[index][CHART])


def run(cli, code, *flags):
    result = cli.run(code, *flags)
    assert result.json["verdict"] == "ok", result.json
    return Shown(result)


@pytest.fixture
def lab(cli):
    """Runs code with the data stack, imported by the code itself."""
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    flags = "--python", str(DATA), "--wall", "120", "--cpu", "120", "--memory", "1G"
    return lambda code: run(cli, code, *flags)


@pytest.fixture(scope="module")
def model(program):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    flags = "--python", str(DATA), "--preload", "matplotlib.pyplot,pandas", "--memory", "1G"
    with open_cli(program) as cli, Stdio(cli, *flags, version=LEGACY[-1]) as c:
        c.open()
        c.tools = {tool["name"]: tool for tool in c.result("tools/list")["tools"]}
        yield c
        check_received(c)


# --- the protocol, without a library --------------------------------------------------------------

ALL = """
class All:
    def _repr_html_(self): return "<b>h</b>"
    def _repr_markdown_(self): return "**m**"
    def _repr_latex_(self): return "$l$"
    def _repr_svg_(self): return "<svg/>"
    def _repr_json_(self): return {"a": [1, None, 2.5, "x"]}
    def _repr_mimebundle_(self, include=None, exclude=None): return {"a/b": "c"}, {"a/b": {}}
    def __repr__(self): return "All()"
"""


def test_every_method(cli):
    (item,) = run(cli, ALL + "display(All())").items
    assert item == {
        "a/b": "c", "text/html": "<b>h</b>", "text/markdown": "**m**", "text/latex": "$l$",
        "image/svg+xml": "<svg/>", "application/json": '{"a":[1,null,2.5,"x"]}',
        "text/plain": "All()",
    }


def test_include_and_exclude(cli):
    code = "display(All(), include=['text/html'])\ndisplay(All(), exclude={'text/html', 'a/b'})"
    first, second = run(cli, ALL + code).items
    assert list(first) == ["text/html"]
    assert "text/html" not in second and "a/b" not in second and "text/latex" in second


def test_update_replaces(cli):
    code = """
handle = display("first", display_id=True)
display("between")
for i in range(1000): handle.update(i)
display(4, display_id="mine")
display(handle.display_id == repr(handle)[len("<DisplayHandle display_id="):-1])
handle
"""
    shown = run(cli, code)
    assert [item["text/plain"] for item in shown.items] == ["999", "'between'", "4", "True"]
    assert "display_omitted" not in shown.json and shown.json["result"].startswith("<DisplayHandle")


def test_update_of_a_large_item_gives_its_room_back(cli):
    code = "h = display({'a/b': 'x' * 120_000}, raw=True, display_id=True)\n"
    code += "for i in range(50):\n display({'a/b': str(i % 10) * 120_000}, raw=True, "
    code += "display_id=h.display_id, update=True)"
    shown = run(cli, code)
    assert [item["a/b"][:1] for item in shown.items] == ["9"]
    assert "display_omitted" not in shown.json


def test_methods_of_other_kinds(cli):
    code = """
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock
class Page:
    def _repr_html_(self): return "page"
    def _repr_pdf_(self): return b"%PDF-1.7"
class Proxy:
    def __getattr__(self, name): return getattr(Page(), name)
class All:
    def __getattr__(self, name): return lambda *a, **k: "anything"
display(SimpleNamespace(_repr_html_=lambda: "own"), Proxy(), Page, Mock(), MagicMock(), All())
Proxy()
"""
    shown = run(cli, code)
    pages = [item.get("text/html") for item in shown.items]
    assert pages == ["own", "page"] + [None] * 4 + ["page"]
    assert shown.items[1]["application/pdf"] == "JVBERi0xLjc=" and shown.err == ""


def test_shows_itself(cli):
    code = """
class Self:
    def _ipython_display_(self): display("by itself")
class Not:
    def _ipython_display_(self): raise NotImplementedError
    def _repr_html_(self): return "page"
display(Self(), Not())
Self()
"""
    first, second, third = run(cli, code).items
    assert first == third == {"text/plain": "'by itself'"} and second["text/html"] == "page"


# --- hostile values, without a library ------------------------------------------------------------

HOSTILE = {
    "raises": ("def _repr_html_(self): 1 / 0", "_repr_html_() failed: ZeroDivisionError"),
    "raises what has no text": (
        "def _repr_html_(self):\n  class E(Exception):\n   def __str__(self): 1/0\n  raise E",
        "_repr_html_() failed"),
    "is no text": ("def _repr_html_(self): return 5", "it is a int, not a str"),
    "is no picture": ("def _repr_png_(self): return b'GIF89a'", "it is not a picture of this type"),
    "is bad base64": ("def _repr_png_(self): return 'x'", "left out"),
    "is too large": ("def _repr_html_(self): return 'x' * 200_000",
                     "it has 200000 characters, at most 131072 are allowed: save it to a file"),
    "has a cycle": ("def _repr_json_(self):\n  a = []\n  a.append(a)\n  return a", "nested too deeply"),
    "has a wide cycle": ("def _repr_json_(self):\n  a = []\n  a += [a] * 10\n  return a", "nested"),
    "is not JSON": ("def _repr_json_(self): return {'a': object()}", "it contains a object"),
    "lies about its class": ("def _repr_html_(self): return 5\n __class__ = property(lambda s: str)",
                             "not a str"),
    "has a dict that lies": (
        "def _repr_mimebundle_(self, **k):\n  class D(dict):\n   def keys(self):\n"
        "    while True: yield 'a/b'\n   __iter__ = items = keys\n  return D(x=1)", ""),
    "has a bundle of everything": (
        "def _repr_mimebundle_(self, **k): return {f'a/x{i}': 'y' for i in range(100_000)}", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_method(cli, name):
    """It is said on stderr, the value is shown as text, and the run is what it would have been."""
    method, said = HOSTILE[name]
    code = f"class V:\n def __repr__(self): return 'V()'\n {method}\ndisplay(V())\nprint('on')"
    shown = run(cli, code)
    assert shown.items == [{"text/plain": "V()"}] and shown.out == "on\n"
    assert said in shown.err and (said == "") == (shown.err == "")
    assert len(shown.err) < 1000


def test_json_that_is_nearly_json(cli):
    code = """
class S(str):
    def __str__(self): return "lie"
class V:
    def _repr_json_(self):
        return {S("k"): [float("nan"), float("inf"), (1, True), 2**70, S("v")], 5: None}
display(V())"""
    (item,) = run(cli, code).items
    assert json.loads(item["application/json"]) == \
        {"k": [None, None, [1, True], float(2**70), "v"], "5": None}


@pytest.mark.parametrize("body, text", [
    ("raise ValueError('no')", "<repr failed: ValueError: no>"),
    ("return 5", "<repr failed: TypeError: "),
    ("return type('S', (str,), {'__len__': lambda s: 10**9, '__str__': lambda s: 'lie'})('x')", "x"),
    ("return 'y' * 10_000_000", "y" * 100),
])
def test_hostile_repr(cli, body, text):
    shown = run(cli, f"class V:\n def __repr__(self): {body}\ndisplay(V())")
    (item,) = shown.items
    assert item["text/plain"].startswith(text) and len(item["text/plain"]) < 9000


def test_repr_of_a_gigabyte(cli):
    result = cli.run("class V:\n def __repr__(self): return 'y' * 2**30\ndisplay(V())",
                     "--memory", "256M")
    assert result.json["verdict"] in ("ok", "out_of_memory")
    assert len(json.dumps(result.json)) < 50_000


def test_repr_that_loops(cli):
    result = cli.run("class V:\n def _repr_html_(self):\n  while True: pass\nprint('x')\ndisplay(V())",
                     "--wall", "1")
    assert result.json["verdict"] == "timeout_wall" and result.json["stdout"] == "x\n"


def test_million_small_images(cli):
    code = """
import base64
png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
class P:
    def _repr_png_(self): return png
p = P()
for i in range(1_000_000): display(p)
"""
    shown = run(cli, code, "--wall", "60", "--cpu", "60")
    assert len(shown.items) == 20 and shown.json["display_omitted"] == 1_000_000 - 20


def test_million_complaints(cli):
    shown = run(cli, "class V:\n def _repr_html_(self): 1/0\nv = V()\nfor i in range(100_000): display(v)")
    assert shown.err.count("\n") == 20 and "(no more of these)" in shown.err


# --- matplotlib -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [
    "import matplotlib\nmatplotlib.use('TkAgg')\n" + PLT,
    PLT + "import matplotlib\nmatplotlib.use('TkAgg')\n",
    PLT + "plt.switch_backend('Qt5Agg')\n",
    "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\n" + PLT,
    PLT + "plt.ion()\n",
    "import matplotlib\nmatplotlib.use('svg')\n" + PLT,
    "from pylab import *\nimport matplotlib.pyplot as plt\n",
])
def test_backends(lab, first):
    shown = lab(first + "plt.plot([1, 2])\nplt.pause(0.01)\nplt.show()\nprint(plt.get_fignums())")
    assert shown.types() == [[CHART, "image/png", "text/plain"]]
    assert (shown.err, shown.out) == ("", "[]\n")
    assert shown.items[0]["text/plain"] == "<Figure size 640x480 with 1 Axes>"


def test_figure_show_and_close(lab):
    code = "fig, axes = plt.subplots()\n" + "axes.plot([1])\nfig.show()\nplt.close(fig)\n"
    code += "from matplotlib.figure import Figure\nf = Figure()\nf.subplots().bar(['a'], [1])\nf"
    shown = lab(PLT + code)
    assert [shown.chart(i)["type"] for i in range(2)] == ["line", "bar"] and shown.err == ""


def test_animation(lab):
    code = """
from matplotlib.animation import FuncAnimation
fig, ax = plt.subplots(figsize=(2, 2))
line, = ax.plot([0, 1])
a = FuncAnimation(fig, lambda i: line.set_ydata([i, 1]), frames=10_000_000, interval=20, save_count=30)
display(a)
plt.rcParams["animation.html"] = "jshtml"
b = FuncAnimation(fig, lambda i: line.set_ydata([i, 1]), frames=30)
b
"""
    shown = lab(PLT + code)
    assert len(shown.items) == 3 and "image/png" in shown.items[-1]     # the figure, a still
    assert list(shown.items[0]) == ["text/plain"]
    assert "<script" in shown.items[1]["text/html"] and len(shown.items[1]["text/html"]) <= 131072


CHARTS = {
    "line": "plt.plot([1, 2, 3], [4, 5, float('nan')], label='s'); plt.legend()",
    "scatter": "plt.scatter(range(500), range(500))",
    "bar": "plt.bar(['p', 'q'], [3, 4])",
    "barh": "plt.barh(['p', 'q'], [3, 4])",
    "hist": "plt.hist([1, 2, 2, 3], bins=3)",
    "pie": "plt.pie([1, 3], labels=['p', 'q'])",
    "box": "plt.boxplot([[1, 2, 3, 4, 50], [2, 3, 4]])",
    "heatmap": "plt.imshow([[1, 2], [3, 4]])",
    "area": "plt.fill_between([1, 2], [3, 4])",
    "mixed": "plt.bar([1, 2], [3, 4]); plt.plot([1, 2], [3, 4])",
}


def test_charts_as_data(lab):
    """All in one run: importing the library takes most of the time."""
    code = PLT + "".join(
        f"plt.figure(); {draw}; plt.title('{name} of it'); plt.xlabel('across'); plt.show()\n"
        for name, draw in CHARTS.items())
    shown = lab(code)
    found = dict(zip(CHARTS, [shown.chart(i) for i in range(len(CHARTS))]))
    for name, chart in found.items():
        assert (chart["type"], chart["title"]) == (name, f"{name} of it")
        (axes,) = chart["axes"]
        assert axes["x"]["label"] == "across" and len(axes["series"]) == (2 if name == "mixed" else 1)
        assert chart["summary"].startswith(f'{name} chart "{name} of it"')
    (series,) = found["line"]["axes"][0]["series"]
    assert series == {"type": "line", "label": "s", "n": 3, "x": [1, 2, 3], "y": [4, 5, None],
                      "min": 4, "max": 5, "last": None}
    assert found["line"]["axes"][0]["legend"] == ["s"]
    (series,) = found["scatter"]["axes"][0]["series"]
    assert series["n"] == 500 and len(series["x"]) == 100
    assert (series["x"][0], series["x"][-1]) == (0, 499)
    axes = found["bar"]["axes"][0]
    assert axes["x"]["categories"] == axes["series"][0]["x"] == ["p", "q"]
    assert axes["series"][0]["y"] == found["barh"]["axes"][0]["series"][0]["x"] == [3, 4]
    series = found["hist"]["axes"][0]["series"][0]
    assert series["y"] == [1, 2, 1] and len(series["edges"]) == 4
    series = found["pie"]["axes"][0]["series"][0]
    assert (series["labels"], series["share"]) == (["p", "q"], [0.25, 0.75])
    boxes = found["box"]["axes"][0]["series"][0]["boxes"]
    assert [(box["med"], box["outliers"]) for box in boxes] == [(3, 1), (3, 0)]
    assert found["heatmap"]["axes"][0]["series"][0]["z"] == [[1, 2], [3, 4]]
    assert found["area"]["axes"][0]["series"][0]["base"] == [0, 0]


def test_charts_of_dates_and_their_bounds(lab):
    code = """
import numpy as np, pandas as pd
days = pd.date_range("2024-01-01", periods=366)
plt.plot(days, range(366)); plt.show()
pd.Series(range(3), index=pd.date_range("2024-01-01", periods=3)).plot(); plt.show()
plt.figure(figsize=(3, 3))
for i in range(60): plt.plot(days, np.random.rand(366), label="name " * 30)
plt.show()
fig, axes = plt.subplots(5, 5, figsize=(3, 3))
for ax in axes.flat: ax.plot(range(1000), np.random.rand(1000)); ax.set_title("t" * 1000)
plt.show()
plt.scatter(np.random.rand(200_000), np.full(200_000, np.inf)); plt.yscale("log"); plt.show()
"""
    shown = lab(PLT + code)
    assert all(len(item[CHART]) <= 32 * 1024 for item in shown.items) and len(shown.items) == 5
    first, series, many, grid, odd = [shown.chart(i) for i in range(5)]
    x = first["axes"][0]["series"][0]["x"]
    assert first["axes"][0]["x"]["scale"] == "date" and (x[0], x[-1]) == ("2024-01-01", "2024-12-31")
    assert series["axes"][0]["series"][0]["x"] == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert len(many["axes"][0]["series"]) == 20 and many["axes"][0]["series_omitted"] == 40
    assert len(grid["axes"]) == 16 and grid["axes_omitted"] == 9
    assert odd["axes"][0]["series"][0]["n"] == 200_000
    assert set(odd["axes"][0]["series"][0]["y"]) == {None} and odd["axes"][0]["y"]["scale"] == "log"


def test_hostile_figure(lab):
    code = """
fig, ax = plt.subplots()
line, = ax.plot([1, 2])
line.get_label = lambda: 1 / 0
type(ax).get_legend = lambda self: 1 / 0
plt.show()
fig, ax = plt.subplots()
ax.draw = lambda *a, **k: 1 / 0
plt.show()
print("on")
"""
    shown = lab(PLT + code)
    assert shown.out == "on\n" and shown.types() == [["image/png", "text/plain"]]
    assert "plt.show() failed: ZeroDivisionError" in shown.err


# --- other libraries ------------------------------------------------------------------------------


def test_seaborn(lab):
    code = """
import pandas as pd, seaborn as sns
df = pd.DataFrame({"g": list("abab"), "v": [1.0, 2, 3, 4], "w": [1, 2, 2, 1]})
sns.catplot(data=df, x="g", y="v", kind="bar"); plt.show()
sns.boxplot(data=df, x="g", y="v"); plt.show()
sns.heatmap(pd.DataFrame([[1, 2]], index=["r"], columns=["c", "d"])); plt.show()
sns.relplot(data=df, x="v", y="w", col="g")
"""
    shown = lab(PLT + code)
    assert shown.types() == [[CHART, "image/png", "text/plain"]] * 4 and shown.err == ""
    charts = [shown.chart(i) for i in range(4)]
    assert [chart["type"] for chart in charts] == ["bar", "box", "heatmap", "scatter"]
    (bars,) = [s for s in charts[0]["axes"][0]["series"] if s["type"] == "bar"]
    assert (bars["x"], bars["y"]) == (["a", "b"], [2, 3])
    assert [box["name"] for box in charts[1]["axes"][0]["series"][0]["boxes"]] == ["a", "b"]
    assert charts[2]["axes"][0]["x"]["categories"] == ["c", "d"]
    assert len(charts[3]["axes"]) == 2
    assert shown.json["result"].startswith("<seaborn.axisgrid.FacetGrid")


def test_plotly(lab):
    code = """
import plotly.express as px, plotly.graph_objects as go, plotly.io as pio
pio.renderers.default = "browser"
fig = px.bar(x=["a", "b"], y=[3, 4], title="Both")
fig.show()
pio.show(fig)
display(go.Figure(go.Scatter(y=list(range(300_000)))))
go.Figure(go.Pie(labels=["p", "q"], values=[1, 3]))
"""
    shown = lab(code)
    full = [CHART, PLOTLY, "text/html", "text/plain"]
    assert shown.types() == [full, full, [CHART, "text/plain"], full]
    assert json.loads(shown.items[0][PLOTLY])["data"][0]["type"] == "bar"
    chart = shown.chart()
    assert (chart["type"], chart["title"]) == ("bar", "Both")
    assert chart["axes"][0]["series"][0]["x"] == ["a", "b"]
    assert shown.chart(2)["axes"][0]["series"][0]["n"] == 300_000
    assert shown.chart(3)["axes"][0]["series"][0]["share"] == [0.25, 0.75]
    assert "300000 values is too large" in shown.err and shown.err.count("\n") == 1


def test_plotly_preview(lab):
    """A browser that draws, and one that hangs: neither holds up the run."""
    fake = """
import os, sys, types, time
import plotly.graph_objects as go
os.makedirs("/tmp/kaleido/executable")
open("/tmp/kaleido/__init__.py", "w").close()
sys.path.insert(0, "/tmp")
go.Figure.to_image = lambda self, format: DRAW
began = time.time()
for _ in range(2): display(go.Figure(go.Scatter(y=[1])))
print(int(time.time() - began))
"""
    png = ("base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgAB"
           "SK+kcQAAAABJRU5ErkJggg==')")
    shown = lab("import base64\n" + fake.replace("DRAW", png))
    assert ["image/png" in item for item in shown.items] == [True, True]
    shown = lab(fake.replace("DRAW", "time.sleep(1000)"))
    assert ["image/png" in item for item in shown.items] == [False, False]
    assert 7 <= int(shown.out) <= 15 and shown.err == ""    # it is not tried a second time
    shown = lab(fake.replace("DRAW", "1 / 0"))
    assert ["image/png" in item for item in shown.items] == [False, False] and shown.err == ""


def test_tables(lab):
    code = """
import numpy as np, pandas as pd, polars as pl
df = pd.DataFrame({"name": ["x", "y"], "value": [1.5, None]})
display(df, df.style)
display(pd.DataFrame(np.zeros((100_000, 60)), columns=[f"col {i}" for i in range(60)]))
display(pl.DataFrame({"n": range(1000), "s": ["t" * 100] * 1000}))
display(df["name"], df.index)
class Odd(pd.DataFrame):
    @property
    def shape(self): raise ValueError
display(Odd({"a": [1]}))
df
"""
    shown = lab(code)
    table = ["text/html", "text/plain", TABLE]
    types = shown.types()
    assert types[:4] == [table] * 4 and types[4:6] == [["text/plain"]] * 2
    assert types[6] == ["text/html", "text/plain"] and types[7:] == [["text/html", TABLE]]
    assert shown.items[0][TABLE] == (
        "DataFrame: 2 rows x 2 columns\n"
        "   name    value\n"
        "   str   float64\n"
        "0  x         1.5\n"
        "1  y         NaN")
    wide = shown.items[2][TABLE]
    assert wide.startswith("DataFrame: 100000 rows x 60 columns\n") and len(wide) < 2000
    assert "\n99999 " in wide and "more columns: col 1" in wide and "others" in wide
    assert max(map(len, wide.split("\n")[:-1])) <= 112
    assert shown.items[3][TABLE].startswith("DataFrame: 1000 rows x 2 columns\n")
    assert all(len(item.get("text/html", "")) < 131072 for item in shown.items)


def test_sympy_and_pillow_and_numpy(lab):
    shown = lab("""
import sympy
from PIL import Image
import numpy as np
x = sympy.Symbol("x")
display(sympy.Integral(x ** 2, x), Image.new("RGB", (40, 30), "red"), np.arange(3))
Image.new("L", (4, 3)).show(title="as a viewer would")
sympy.Matrix([[x, 1]])
""")
    assert shown.types() == [["text/latex", "text/plain"], ["image/jpeg", "image/png", "text/plain"],
                             ["text/plain"], ["image/jpeg", "image/png", "text/plain"], ["text/latex"]]
    assert shown.items[0]["text/latex"] == r"$\displaystyle \int x^{2}\, dx$"
    assert shown.items[2]["text/plain"] == "array([0, 1, 2])"


def test_ipython_display(lab):
    code = """
from IPython.display import (HTML, Markdown, Math, Latex, SVG, JSON, Javascript, Image, Audio, Video,
                             display, update_display, clear_output, DisplayHandle, publish_display_data)
import IPython.display, builtins
assert IPython.display.display is builtins.display is display
display("gone")
clear_output()
clear_output(wait=True)
display(HTML("<b>x</b>"), Markdown("# m"), Math("x"), Latex("$y$"), SVG("<svg></svg>"))
display(JSON({"a": float("nan")}), Javascript("alert(1)"), Image(url="http://x/y.png"))
publish_display_data({"text/html": "raw"})
h = display(1, display_id="i"); update_display(2, display_id="i")
from IPython.display import display_html
display_html("<i>r</i>", raw=True)
Audio(data=b"\\0" * 400_000, rate=8000)
"""
    shown = lab(code)
    rich = [[t for t in types if t != "text/plain"] for types in shown.types()]
    assert rich == [["text/html"], ["text/markdown"], ["text/latex"], ["text/latex"],
                    ["image/svg+xml"], ["application/json"], ["application/javascript"],
                    ["text/html"], ["text/html"], [], ["text/html"]]
    assert shown.items[5]["application/json"] == '{"a":null}'
    assert shown.items[9] == {"text/plain": "2"}
    assert shown.json["display_omitted"] == 1       # the sound
    assert "JavaScript is passed on as text and not run" in shown.err
    assert "text/html of Audio is left out" in shown.err and shown.out == ""


def test_pandas_shows_columns(lab):
    """As in a notebook, and not as in a terminal."""
    shown = lab("import pandas as pd\nprint(pd.DataFrame([[1.5] * 15], columns=['column'] * 15))")
    assert shown.out.count("column") == 15


# --- for a model ----------------------------------------------------------------------------------


def test_model_reads_a_figure(model):
    code = PLT + "plt.plot(['a', 'b'], [1, 5], label='sales')\nplt.title('Year')\nplt.show()"
    answer = model.python(code)
    said = text(answer)
    assert 'line chart "Year"\n' in said and 'line "sales": 2 points, min 1, max 5, last 5' in said
    (item,) = answer["structuredContent"]["display"]
    assert item["chart"]["axes"][0]["series"][0]["y"] == [1, 5] and "chart_uri" not in item


def test_model_gets_a_link_to_much_data(model):
    code = PLT + "import numpy as np\nfor i in range(8): plt.plot(np.random.rand(5000))\nplt.show()"
    answer = model.python(code)
    (item,) = answer["structuredContent"]["display"]
    assert "chart" not in item and item["chart_summary"].startswith("line chart")
    (link,) = [b for b in answer["content"] if b["type"] == "resource_link"]
    assert link["uri"] == item["chart_uri"] and item["chart_uri"] in text(answer)
    (contents,) = model.result("resources/read", {"uri": link["uri"]})["contents"]
    chart = json.loads(contents["text"])
    assert contents["mimeType"] == "application/json" and len(contents["text"]) <= 32 * 1024
    assert [series["n"] for series in chart["axes"][0]["series"]] == [5000] * 8


def test_model_reads_a_table_once(model):
    code = "import pandas as pd\npd.DataFrame({'name': ['x', 'y'], 'value': [1, 2]})"
    answer = model.python(code)
    said = text(answer)
    assert "result:\nDataFrame: 2 rows x 2 columns\n   name  value\n" in said
    assert said.count("name") == 1 + said.count("name ", said.index("[display"))
    assert answer["structuredContent"]["result"] == "  name  value\n0    x      1\n1    y      2"
    (item,) = answer["structuredContent"]["display"]
    assert item["text"].startswith("DataFrame: ") and item["mime_type"] == "text/html"


def test_model_and_a_wide_table(model):
    code = "import pandas as pd, numpy as np\npd.DataFrame(np.random.rand(500, 300))"
    answer = model.python(code)
    assert "DataFrame: 500 rows x 300 columns" in text(answer) and len(text(answer)) < 4000
    assert len(json.dumps(answer["structuredContent"])) < 40_000


def test_model_reads_a_figure_of_plotly(model):
    answer = model.python("import plotly.express as px\npx.bar(x=['a', 'b'], y=[1, 2], title='T')")
    said = text(answer)
    assert 'result:\nbar chart "T"\n' in said and said.count("bar chart") == 1
    assert "hovertemplate" not in said and "text/html" in said
    assert answer["structuredContent"]["result"].startswith("Figure({")
    (item,) = answer["structuredContent"]["display"]
    assert item["chart"]["axes"][0]["series"][0]["y"] == [1, 2]


def test_forged_chart(model):
    """What a box says is a chart is checked before it is taken apart."""
    code = f"for bad in '[]', '{{', '\"x\"', '{{}}' + ' ' * 40_000, '[' * 30_000: " \
           f"display({{'{CHART}': bad, 'text/plain': 'kept'}}, raw=True)\n" \
           f"display({{'{CHART}': '{{\"summary\": \"\\\\u001b[31mred\"}}', 'a/b': 'x'}}, raw=True)"
    answer = model.python(code)
    items = answer["structuredContent"]["display"]
    assert [("chart" in item) for item in items] == [False] * 5 + [True]
    assert "\x1b" not in text(answer) and "[31mred" in text(answer)
