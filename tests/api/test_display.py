# SPDX-License-Identifier: Apache-2.0
"""What code shows: pictures and tables over MCP and from `constrictor run`.

The first half needs no library; the second draws with matplotlib from build/venv-data, which
`make test` sets up.
"""

import base64
import json
import os
import pathlib
import struct
import zlib

import pytest
from conftest import TOP, open_cli
from mcp_client import LEGACY, MODERN, check_received, connect, text

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"

PNG = r"""
import struct, zlib, os
def png(width=4, height=3, more=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + os.urandom(width) if more else b"\0" * (width + 1) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
class Picture:
    def __init__(self, *args): self.args = args
    def _repr_png_(self): return png(*self.args)
class Page:
    def __init__(self, html, text="page"): self.html, self.text = html, text
    def _repr_html_(self): return self.html
    def __repr__(self): return self.text
"""


def size_of(data):
    """Width and height of a PNG, after a look at all of it."""
    data = base64.b64decode(data, validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds = 8, []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind = data[at + 4 : at + 8]
        (crc,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(data[at + 4 : at + 8 + length])
        kinds.append(kind)
        at += 12 + length
    assert kinds[0] == b"IHDR" and kinds[-1] == b"IEND"
    return struct.unpack(">II", data[16:24])


def blocks(answer, kind):
    return [block for block in answer["content"] if block["type"] == kind]


@pytest.fixture(scope="module", params=(LEGACY[0], LEGACY[-1], MODERN))
def c(request, program):
    with open_cli(program) as cli:
        with connect(cli, version=request.param) as connection:
            yield connection
            check_received(connection)


@pytest.fixture(scope="module")
def data(program):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    with open_cli(program) as cli:
        flags = ("--python", str(DATA), "--preload", "matplotlib.pyplot", "--memory", "1G")
        with connect(cli, *flags, version=LEGACY[-1]) as connection:
            yield connection
            check_received(connection)


# --- over MCP, without a library ------------------------------------------------------------------


def test_picture_becomes_an_image_block(c):
    answer = c.python(PNG + "Picture(40, 30)")
    (image,) = blocks(answer, "image")
    assert (image["mimeType"], size_of(image["data"])) == ("image/png", (40, 30))
    assert "[image 1: image/png, 40x30, 75 bytes]" in text(answer)
    assert not blocks(answer, "resource_link")
    if "structuredContent" not in answer:
        assert c.version < "2025-06-18"
        return
    (item,) = answer["structuredContent"]["display"]
    assert (item["mime_type"], item["width"], item["height"]) == ("image/png", 40, 30)
    assert item["size"] == len(base64.b64decode(image["data"]))
    assert image["data"] not in json.dumps(answer["structuredContent"])
    (contents,) = c.result("resources/read", {"uri": item["uri"]})["contents"]
    assert contents == {"uri": item["uri"], "mimeType": "image/png", "blob": image["data"]}


def test_order_and_numbers(c):
    answer = c.python(PNG + "display(1)\ndisplay(Picture(5, 5))\ndisplay(Page('<b>x</b>', 'a page'))")
    said = text(answer)
    assert said.index("[display 1: text/plain, 1 bytes]\n1\n") < said.index("[image 2: ")
    assert said.index("[image 2: ") < said.index("[display 3: text/html, 8 bytes: run://")
    assert "a page" in said and "<b>" not in said
    assert len(blocks(answer, "image")) == 1


MEDIA = r"""
import io, struct, wave
class Shown:
    def __init__(self, **bundle): self.bundle = {k.replace("_", "/", 1): v for k, v in bundle.items()}
    def _repr_mimebundle_(self, include=None, exclude=None): return self.bundle
    def __repr__(self): return "a medium"
out = io.BytesIO()
with wave.open(out, "wb") as f:
    f.setnchannels(1); f.setsampwidth(2); f.setframerate(8000); f.writeframes(bytes(1600))
WAV, PDF = out.getvalue(), b"%PDF-1.4\n%\xe2\xe3\n1 0 obj<<>>endobj\n%%EOF\n"
MP4 = b"\0\0\0\x18ftypisom" + bytes(range(256))
"""


def test_sound_becomes_an_audio_block(c):
    answer = c.python(MEDIA + "Shown(audio_wav=WAV)")
    assert "[display 1: audio/wav, 1.6 kB: run://" in text(answer)
    if c.version < "2025-03-26":
        assert not blocks(answer, "audio")
        return
    (sound,) = blocks(answer, "audio")
    assert (sound["mimeType"], base64.b64decode(sound["data"])[:4]) == ("audio/wav", b"RIFF")


def test_pdf_becomes_an_embedded_resource(c):
    answer = c.python(MEDIA + "Shown(application_pdf=PDF)")
    (block,) = blocks(answer, "resource")
    assert block["resource"]["mimeType"] == "application/pdf"
    assert base64.b64decode(block["resource"]["blob"]).startswith(b"%PDF-1.4\n")
    uri = block["resource"]["uri"]
    assert f"[display 1: application/pdf, 37 bytes: {uri}]" in text(answer)
    assert c.result("resources/read", {"uri": uri})["contents"] == [block["resource"]]


@pytest.mark.parametrize(("name", "kind"), [("video_mp4=MP4", "video/mp4"), ("image_gif=b'GIF89a' + bytes(9)", "image/gif")])
def test_other_media_are_linked_and_read_as_blobs(c, name, kind):
    answer = c.python(MEDIA + f"Shown({name})")
    (line,) = [line for line in text(answer).splitlines() if line.startswith(f"[display 1: {kind}, ")]
    uri = line[:-1].rpartition(": ")[2]
    (contents,) = c.result("resources/read", {"uri": uri})["contents"]
    assert contents["mimeType"] == kind and "text" not in contents
    assert base64.b64decode(contents["blob"], validate=True)


@pytest.mark.parametrize("name", ["audio_wav='no base64: é'", "application_pdf='cGxhaW4='", "audio_wav='cGxhaW4='"])
def test_false_media_reach_no_decoder(c, name):
    answer = c.python(MEDIA + f"Shown({name})")
    assert not blocks(answer, "audio") and not blocks(answer, "resource")
    assert "a medium" in text(answer)


def test_table_is_text_and_its_page_a_resource(c):
    if c.version < "2025-06-18":
        return
    answer = c.python(PNG + "display(Page('<table>' + 'x' * 5000, ' a b\\n 1 2'))")
    assert "]\n a b\n 1 2" in text(answer)
    (link,) = blocks(answer, "resource_link")
    assert (link["mimeType"], link["size"], link["name"]) == ("text/html", 5007, "display 1")
    (contents,) = c.result("resources/read", {"uri": link["uri"]})["contents"]
    assert (contents["mimeType"], contents["text"]) == ("text/html", "<table>" + "x" * 5000)
    (item,) = answer["structuredContent"]["display"]
    assert item["uri"] == link["uri"] and item["text"] == " a b\n 1 2"


def test_short_page_without_a_text_is_said(c):
    said = text(c.python(PNG + "display(Page('<b>bold</b>', '<Page object at 0x7f>'))"))
    assert "<b>bold</b>" in said and "object at" not in said


def test_nothing_shown(c):
    answer = c.python("1+1")
    assert answer.get("structuredContent", {"display": []})["display"] == []
    assert [block["type"] for block in answer["content"]] == ["text"]


def test_many_and_large(c):
    """The answer stays below a megabyte, and says what it lacks."""
    answer = c.python(PNG + "for i in range(30): display(Picture(500, 400, 1))")
    said = text(answer)
    assert len(json.dumps(answer)) < 1_000_000
    images = blocks(answer, "image")
    assert 1 <= len(images) < 20
    assert all(size_of(image["data"]) == (500, 400) for image in images)
    assert "more left out: too many or too large]" in said
    shown = said.count("[image ")
    assert shown >= len(images)


def test_small_text_budget(program):
    with open_cli(program) as cli, connect(
        cli, "--text-budget", "500", version=LEGACY[-1]
    ) as c:
        answer = c.python(PNG + "print('x' * 3000)\nfor i in range(20): display(Picture(), i)")
        assert len(text(answer)) <= 520
        assert len(blocks(answer, "image")) == 10
        assert len(answer["structuredContent"]["display"]) == 20


def test_error_keeps_what_was_shown(c):
    answer = c.python(PNG + "display(Picture(6, 7))\n1/0")
    assert answer["isError"] and text(answer).startswith("line ")
    (image,) = blocks(answer, "image")
    assert size_of(image["data"]) == (6, 7)


def test_background_run(c):
    if c.version < "2025-06-18":
        return
    started = c.python(PNG + "Picture(8, 9)", background=True)["structuredContent"]
    for _ in range(2):  # as often as one likes
        answer = c.call("check_run", execution_id=started["execution_id"], wait=20)
        (image,) = blocks(answer, "image")
        assert size_of(image["data"]) == (8, 9)


def test_forged_frames_do_not_reach_the_client(c):
    """Code that writes its own answer: see tests/unit/test_result.c for every field."""
    code = "display({'image/png': 'AAAA', 'text/html': 'x'}, raw=True)"
    answer = c.python(code)
    assert not blocks(answer, "image") and "text/html" in text(answer)


# --- constrictor run ------------------------------------------------------------------------------


def test_run_json(cli):
    result = cli.run(PNG + "display(5)\nPicture(11, 12)")
    assert result.json["display"][0] == {"text/plain": "5"}
    assert size_of(result.json["display"][1]["image/png"]) == (11, 12)
    assert cli.run("1").json["display"] == []


def test_run_names_pictures(cli):
    result = cli.plain(PNG + "print('first')\ndisplay(Picture(11, 12))\ndisplay('text')")
    assert (result.status, result.out) == (0, "first\n'text'\n")
    assert "image 1: image/png, 11x12, 6" in result.err and "--json" in result.err


# --- matplotlib -----------------------------------------------------------------------------------

PLT = "import matplotlib.pyplot as plt\n"


def images(answer):
    assert answer["structuredContent"]["verdict"] == "ok", text(answer)
    return [size_of(image["data"]) for image in blocks(answer, "image")]


@pytest.mark.parametrize("end", ["", "plt.show()", "plt.gcf()", "display(plt.gcf())", "fig.show()"])
def test_figure_is_shown_once(data, end):
    answer = data.python(PLT + "fig, axes = plt.subplots()\naxes.plot([1, 2, 3])\n" + end)
    assert images(answer) == [(640, 480)]
    assert answer["structuredContent"]["stderr"] == ""


def test_figures_are_closed_by_show(data):
    code = "plt.plot([1]); plt.show()\nprint(plt.get_fignums())\nplt.bar([1], [2]); plt.show()"
    answer = data.python(PLT + code)
    assert images(answer) == [(640, 480)] * 2
    assert answer["structuredContent"]["stdout"] == "[]\n"


def test_figure_that_changed_after_it_was_shown(data):
    code = "fig, axes = plt.subplots()\naxes.plot([1])\ndisplay(fig)\naxes.plot([5, 6])\n"
    assert images(data.python(PLT + code)) == [(640, 480)] * 2


def test_agg_chosen_by_hand(data):
    code = "import matplotlib\nmatplotlib.use('Agg')\n" + PLT + "plt.plot([1])\nplt.show()"
    assert images(data.python(code)) == [(640, 480)]


def test_empty_figure_is_nothing(data):
    assert images(data.python(PLT + "plt.figure()\nNone")) == []


def test_labels_are_not_cut_off(data):
    code = "plt.bar(['a very long label ' + c for c in 'abc'], [1, 2, 3])\nplt.xticks(rotation=80)"
    ((width, height),) = images(data.python(PLT + code))
    assert height > 480


def test_large_figure_is_drawn_smaller_and_its_original_kept(data):
    answer = data.python(PLT + "plt.figure(figsize=(30, 20))\nplt.plot([1, 2])\nplt.show()")
    assert images(answer) == [(1600, 1066)]
    (item,) = answer["structuredContent"]["display"]
    assert (item["original"]["width"], item["original"]["height"]) == (3000, 2000)
    (link,) = blocks(answer, "resource_link")
    (contents,) = data.result("resources/read", {"uri": link["uri"]})["contents"]
    assert size_of(contents["blob"]) == (3000, 2000)
    assert link["uri"] in text(answer)


def test_noise_is_drawn_smaller(data):
    code = "import numpy as np\nplt.figure(figsize=(10, 10))\nplt.imshow(np.random.rand(900, 900, 3))"
    answer = data.python(PLT + code + "\nplt.show()")
    ((width, height),) = images(answer)
    assert 400 <= width < 1000
    assert len(blocks(answer, "image")[0]["data"]) < 450_000


def test_pillow(data):
    answer = data.python("from PIL import Image\nImage.new('RGB', (300, 200), 'red')")
    assert images(answer) == [(300, 200)]
    answer = data.python("from PIL import Image\nImage.new('RGB', (5000, 200), 'red')")
    assert images(answer) == [(1600, 64)]
    assert answer["structuredContent"]["display"][0]["original"]["width"] == 5000


def test_pandas_table(data):
    answer = data.python("import pandas as pd\npd.DataFrame({'column': [1, 2]})")
    assert "column" in answer["structuredContent"]["result"]
    (item,) = answer["structuredContent"]["display"]
    assert item["mime_type"] == "text/html"


def test_without_preload(cli):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there: tools/setup data")
    result = cli.run(
        PLT + "plt.plot([1])\nplt.show()\nplt.plot([2])",
        "--python", str(DATA), "--wall", "60", "--cpu", "60",
    )
    assert [size_of(item["image/png"]) for item in result.json["display"]] == [(640, 480)] * 2


def test_a_surface_without_numpy_counts_its_values(cli):
    code = """import sys
sys.modules["numpy"] = None
import plotly.graph_objects
plotly.graph_objects.Figure(plotly.graph_objects.Surface(z=[[1, 2], [3, 4]]))"""
    result = cli.run(code, "--python", str(DATA))
    (shown,) = result.json["display"]
    assert "surface: 4 points" in shown["text/plain"], result


def test_titles_in_any_script(cli):
    """Text falls back to the fonts of the machine; a character that no font has is reported once in a run."""
    result = cli.run(PLT + "plt.title('日本語 中文')\nplt.show()", "--python", str(DATA))
    assert (result.verdict, result.stderr) == ("ok", ""), result
    many = "for i in range(3):\n    plt.figure()\n    plt.title('\\U00013000\\U00013001' * 9)\n    plt.show()"
    result = cli.run(PLT + many, "--python", str(DATA))
    assert result.verdict == "ok" and result.stderr.count("\n") == 1, result
    assert result.stderr.startswith("display: no font for \U00013000\U00013001: ") and "fonts-noto-cjk" in result.stderr
