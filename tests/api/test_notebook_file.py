# SPDX-License-Identifier: Apache-2.0
"""`constrictor run FILE.ipynb`: the cells run in order, each output is shown, the first error ends it."""

import json
import os
import signal

import pytest

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def code(source, **more):
    return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source, **more}


@pytest.fixture
def save(cli):
    def save(*cells, name="a.ipynb", **more):
        book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **more}
        path = cli.folder / name
        path.write_text(json.dumps(book))
        return path

    return save


def refused(result, *words, status=65, error="bad_notebook"):
    assert result.status == status and result.out == "", result
    assert f"[{error}]" in result.err and "hint:" in result.err and "Traceback" not in result.err, result
    for word in words:
        assert word in result.err, result


def test_cells_run_in_order_and_show_what_they_show(cli, save):
    save(
        code("x = 6\nx * 7"),
        {"cell_type": "markdown", "metadata": {}, "source": "# raise SystemExit(9)"},
        {"cell_type": "raw", "metadata": {}, "source": "not python ("},
        code(["import sys\n", "print('to stderr', file=sys.stderr)\n", "print('text')\n", "'value'"]),
        code(""),
        code(" \n"),
        code("x = 1;"),
        code("None"),
        code("print(x, _, In[1], sorted(Out))"),
    )
    result = cli.call("run", "a.ipynb")
    assert result.out == "42\ntext\n'value'\n1 value x = 6\nx * 7 [1, 2]\n", result
    assert (result.status, result.err) == (0, "to stderr\n"), result


def test_lines_of_ipython_work(cli, save):
    save(code("%%writefile a.txt\nhello"), code("!cat a.txt"), code("%cd -q /tmp\nimport os; os.getcwd()"), code("get_ipython()"))
    result = cli.call("run", "a.ipynb")
    assert result.status == 0 and "hello\n" in result.out and "/tmp'\n" in result.out, result


def test_the_first_error_ends_it_and_is_named(cli, save):
    save(code("print('one')"), code(""), code("def f():\n    return 1 / 0\n\nf()"), code("print('never')"))
    result = cli.call("run", "a.ipynb")
    assert (result.out, result.status) == ("one\n", 1), result
    assert 'File "<cell 2>", line 4' in result.err and 'File "<cell 2>", line 2, in f' in result.err, result
    assert "return 1 / 0" in result.err and "ZeroDivisionError" in result.err
    assert result.err.endswith("constrictor: a.ipynb: cell 2 of 3 failed; the cells after it did not run\n"), result


def test_a_syntax_error_ends_it(cli, save):
    save(code("print('one')"), code("x ="), code("print('never')"))
    result = cli.call("run", "a.ipynb")
    assert (result.out, result.status) == ("one\n", 1) and "SyntaxError" in result.err and "cell 2 of 3" in result.err


def test_the_exit_status_is_that_of_a_script(cli, save):
    save(code("import sys; sys.exit(7)"), code("print('never')"))
    assert (cli.call("run", "a.ipynb").status, cli.call("run", "a.ipynb").out) == (7, "")
    save(code("while True: pass"))
    assert cli.call("run", "--wall", "500ms", "a.ipynb").status == 124
    save(code("x = [bytearray(2**20) for _ in range(4096)]"), code("print('never')"))
    result = cli.call("run", "--memory", "64M", "a.ipynb")
    assert result.status in (1, 137) and "never" not in result.out, result
    save(code("import os; os._exit(3)"), code("print('never')"))
    result = cli.call("run", "a.ipynb")
    assert result.status == 3 and result.out == "" and "cell 1 of 2" in result.err, result


def test_json_has_each_cell(cli, save):
    save(code("print('a')\n1"), code("open('f.txt', 'w').write('x')"), code("1/0"), code("2"))
    result = cli.call("run", "--json", "a.ipynb")
    told = result.json
    assert result.status == 1 and told["exit_status"] == 1 and told["verdict"] == "error" and told["success"] is False
    assert told["code_cells"] == 4 and [cell["cell"] for cell in told["cells"]] == [1, 2, 3]
    assert [cell["verdict"] for cell in told["cells"]] == ["ok", "ok", "error"]
    assert (told["cells"][0]["stdout"], told["cells"][0]["result"]) == ("a\n", "1")
    assert told["cells"][2]["error"]["type"] == "ZeroDivisionError"
    assert [(f["path"], f["uri"]) for f in told["files"]] == [("f.txt", None)]


def test_files_and_images_are_saved(cli, save):
    show = f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{PNG}'))"
    save(code("open('t.txt', 'w').write('1')"), code(show), code("open('t.txt', 'a').write('2')"), code(show))
    result = cli.call("run", "--out", "o", "a.ipynb")
    assert result.status == 0, result
    assert sorted(os.listdir(cli.folder / "o")) == ["image-1.png", "image-2.png", "t.txt"], result
    assert (cli.folder / "o/t.txt").read_text() == "12"
    result = cli.call("run", "a.ipynb")
    assert "image 1" in result.err and "image 2" in result.err and "left 1 file" in result.err, result


def test_it_takes_what_a_script_takes(cli, save):
    (cli.folder / "d.csv").write_text("a,b")
    (cli.folder / "p").mkdir()
    (cli.folder / "p/helper.py").write_text("answer = 42")
    save(code("import helper, os, sys"), code("print(open('d.csv').read(), helper.answer, sys.argv[1:], os.environ['K'])"))
    result = cli.call("run", "--in", "d.csv", "--with", "p", "--env-var", "K=v", "--out", "o", "a.ipynb", "one", "--two")
    assert result.out == "a,b 42 ['one', '--two'] v\n", result
    assert os.listdir(cli.folder / "o") == []


def test_ctrl_c_ends_it(cli, save):
    save(code("print('ready', flush=True)\nimport time\nwhile True: time.sleep(0.01)"), code("print('never')"))
    process = cli.start("run", "a.ipynb")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, b"") and b"KeyboardInterrupt" in err and b"cell 1 of 2" in err, err


# ---- bad input -----------------------------------------------------------------------------------


def test_a_file_that_is_not_a_notebook_is_refused(cli, save):
    path = cli.folder / "a.ipynb"
    for text, word in (
        (b"", "not JSON"),
        (b"print(1)", "not JSON"),
        (b"\x89PNG\r\n\0\xff" * 100, "not JSON"),
        (b'{"cells": [', "not JSON"),
        (b"[" * 100000, "not JSON"),
        (b"[1]", "not an object"),
        (b"{}", "no list of cells"),
        (b'{"nbformat": 4, "cells": {}}', "no list of cells"),
        (b'{"nbformat": 4, "cells": [7]}', "cell_type"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "not a text"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "not a text"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a", null]}]}', "not a text"),
        (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "nbconvert"),
        (b'{"nbformat": 5, "cells": []}', "newer format"),
        (b'{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "not Python"),
    ):
        path.write_bytes(text)
        refused(cli.call("run", "a.ipynb"), word)
    assert cli.call("run", "--json", "a.ipynb").json["error"]["code"] == "bad_notebook"


def test_a_cell_with_odd_text(cli, save):
    save(code("print('ran')"), code("x = 'a\0b'"))
    refused(cli.call("run", "a.ipynb"), "cell 2", "NUL", error="source_has_nul_byte")
    save(code("#" * 3000))
    refused(cli.call("run", "--source", "2K", "a.ipynb"), "cell 1", error="source_too_large")
    save(code("print('\\ud800'.encode('utf-8', 'surrogatepass'), 'ü🐍')"))
    assert cli.call("run", "a.ipynb").status == 0


def test_nothing_to_run(cli, save):
    save({"cell_type": "markdown", "metadata": {}, "source": "text"}, code(""))
    result = cli.call("run", "a.ipynb")
    assert (result.status, result.out) == (0, "") and "has no code" in result.err
    assert cli.call("run", "--json", "a.ipynb").json["cells"] == []


def test_what_cannot_be_read(cli, save):
    refused(cli.call("run", "none.ipynb"), "none.ipynb", status=66, error="source_unreadable")
    os.mkfifo(cli.folder / "pipe.ipynb")
    refused(cli.call("run", "pipe.ipynb"), "not a regular file", status=66, error="source_unreadable")
    (cli.folder / "folder.ipynb").mkdir()
    refused(cli.call("run", "folder.ipynb"), "not a regular file", status=66, error="source_unreadable")
    os.truncate(save(code("1")), 1 << 40)
    refused(cli.call("run", "a.ipynb"), "256 MiB", "clear-output", error="source_too_large")


def test_a_hundred_megabytes_of_old_outputs(cli, save):
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * (100 << 20)}}
    save(code("print('ran')", outputs=[output]))
    assert cli.call("run", "a.ipynb").out == "ran\n"


def test_a_reader_that_goes_away(cli, save):
    save(code("print('ready', flush=True)"), *[code("print('x' * 100000, flush=True)")] * 3)
    process = cli.start("run", "a.ipynb")
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    assert process.wait(timeout=120) is not None
