# SPDX-License-Identifier: Apache-2.0
"""Files for `constrictor run`: --in PATH, --with DIR, and -m MODULE.

The code gets copies below /mnt/data. The user's own files are never changed, and nothing that the user did not name
gets in: no file behind a link that leads out of a folder, no pipe, no device.
"""

import os
import socket

import pytest

LIST = (
    "import os\n"
    "for folder, _, names in sorted(os.walk('.')):\n"
    "    for name in sorted(names):\n"
    "        print(os.path.join(folder, name))\n"
)


@pytest.fixture
def put(cli):
    def put(path, text="x"):
        path = cli.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


def refused(result, *words, status=66):
    assert result.status == status, result
    assert "ran" not in result.out, result
    for word in words:
        assert word in result.err, result
    assert result.err.count("hint:") == 1 and "Traceback" not in result.err, result


# ---- --in ----------------------------------------------------------------------------------------


def test_a_file_is_there_by_its_name(cli, put):
    put("sales.csv", "a,b\n1,2\n")
    assert cli.plain("print(open('sales.csv').read(), end='')", "--in", "sales.csv").out == "a,b\n1,2\n"
    assert cli.plain("print(open('/mnt/data/sales.csv').read(), end='')", "--in", "./sales.csv").out == "a,b\n1,2\n"


def test_a_folder_is_there_with_all_that_is_in_it(cli, put):
    for name in ("d/one.txt", "d/sub/two.txt", "d/.hidden", "d/sub/ü.txt"):
        put(name, name)
    result = cli.plain(LIST, "--in", "d/")
    assert result.out == "./d/.hidden\n./d/one.txt\n./d/sub/two.txt\n./d/sub/ü.txt\n", result
    assert cli.plain(LIST, "--in", ".", cwd=cli.folder / "d").out == result.out


def test_several(cli, put):
    put("a.txt", "1")
    put("d/b.txt", "2")
    put("empty", "")
    out = cli.plain(LIST, "--in", "a.txt", "--in", "d", "--in=empty").out
    assert out == "./a.txt\n./empty\n./d/b.txt\n"


def test_bytes_come_as_they_are(cli, put):
    data = bytes(range(256)) * 5000
    put("data.bin", data)
    assert cli.plain("d = open('data.bin', 'rb').read(); print(d == bytes(range(256)) * 5000)", "--in", "data.bin").out == "True\n"


def test_the_code_changes_its_copy_only(cli, put):
    path = put("table.csv", "mine")
    code = "open('table.csv', 'a').write('+theirs'); open('new.txt', 'w').write('n')"
    result = cli.plain(code, "--in", "table.csv", "--out", "results")
    assert result.status == 0 and path.read_text() == "mine", result
    assert (cli.folder / "results/table.csv").read_text() == "mine+theirs"
    assert (cli.folder / "results/new.txt").read_text() == "n"


def test_files_that_came_in_are_not_saved(cli, put):
    put("d/a.txt")
    put("b.txt")
    result = cli.plain("open('c.txt', 'w').write('c')", "--in", "d", "--in", "b.txt", "--out", "results")
    assert os.listdir(cli.folder / "results") == ["c.txt"], result
    told = cli.run("open('c.txt', 'w').write('c')", "--in", "d", "--in", "b.txt")
    assert [file["path"] for file in told.files] == ["c.txt"]


# ---- --with --------------------------------------------------------------------------------------


def test_a_script_finds_its_helper_and_its_data(cli, put):
    put("p/main.py", "import helper\nprint(helper.answer, open('data.csv').read(), __file__)\n")
    put("p/helper.py", "answer = 42\n")
    put("p/data.csv", "1;2")
    put("p/pkg/__init__.py", "from .inner import name\n")
    put("p/pkg/inner.py", "name = 'inner'\n")
    result = cli.call("run", "--with", "p", "p/main.py")
    assert result.out == "42 1;2 /mnt/data/main.py\n", result
    assert cli.call("run", "--with", ".", "main.py", cwd=cli.folder / "p").out == result.out
    assert cli.call("run", "--with", "p", "-c", "import pkg; print(pkg.name)").out == "inner\n"
    for code in ("import helper", "open('data.csv')"):  # only when asked for, and a hint says how
        put("alone/main.py", code)
        alone = cli.call("run", "alone/main.py")
        assert alone.status == 1 and "--with DIR copies the modules and files of its folder" in alone.err, alone
    assert "--with DIR" not in cli.call("run", "--with", "alone", "alone/main.py").err
    assert "--with DIR" not in cli.call("run", "-c", "import helper").err


def test_what_no_code_opens_is_left_out_of_a_folder_of_code(cli, put):
    for name in ("p/a.py", "p/.git/config", "p/.env", "p/__pycache__/a.pyc", "p/sub/node_modules/x.js"):
        put(name)
    assert cli.plain(LIST, "--with", "p").out == "./a.py\n"


def test_a_folder_of_code_needs_a_folder(cli, put):
    put("a.py")
    refused(cli.call("run", "--with", "a.py", "-c", "print('ran')"), "--in")


# ---- -m ------------------------------------------------------------------------------------------


def test_a_module_runs_as_a_program(cli, put):
    put("p/tool/__main__.py", "import sys; print(__name__, sys.argv[1:])\n")
    put("p/tool/__init__.py", "")
    put("p/one.py", "import sys\nprint(__name__, sys.argv[1:], __file__)\nsys.exit(7)\n")
    assert cli.call("run", "--with", "p", "-m", "tool", "a", "--b").out == "__main__ ['a', '--b']\n"
    result = cli.call("run", "--with", "p", "-mone", "x")
    assert (result.out, result.status) == ("__main__ ['x'] /mnt/data/one.py\n", 7), result
    put("d.json", '{"b":1}')
    assert cli.call("run", "--in", "d.json", "-m", "json.tool", "d.json").out == '{\n    "b": 1\n}\n'
    missing = cli.call("run", "-m", "no_such_module_here")
    assert missing.status == 1 and "no_such_module_here" in missing.err
    refused(cli.call("run", "-m", "x'); print('ran"), "module", status=64)


# ---- bad input -----------------------------------------------------------------------------------


def test_what_is_missing_or_unreadable(cli, put):
    refused(cli.call("run", "--in", "nothing.csv", "-c", "print('ran')"), "nothing.csv")
    put("d/a")
    (cli.folder / "d/a").chmod(0)
    if os.geteuid() != 0:
        refused(cli.call("run", "--in", "d", "-c", "print('ran')"), "d/a")
    assert cli.call("run", "--in", "", "-c", "print('ran')").status == 64


def test_a_pipe_a_socket_and_a_device_are_not_opened(cli, put):
    put("d/good.txt")
    os.mkfifo(cli.folder / "d/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(cli.folder / "d/sock"))
        for path, word in (("d/pipe", "a pipe"), ("d/sock", "a socket"), ("/dev/zero", "a device")):
            refused(cli.call("run", "--in", path, "-c", "print('ran')"), word, path)
        result = cli.plain(LIST, "--in", "d")
    assert result.out == "./d/good.txt\n" and result.status == 0, result
    assert "'d/pipe' is a pipe: left out" in result.err and "'d/sock' is a socket: left out" in result.err


def test_links_stay_in_their_folder(cli, put):
    put("outside.txt", "secret")
    put("d/real.txt", "real")
    put("d/sub/x")
    for name, target in (("in.txt", "real.txt"), ("out.txt", "../outside.txt"), ("abs.txt", "/etc/hostname"),
                         ("sub/up.txt", "../real.txt"), ("dangling", "nowhere"), ("loop", "loop"), ("dir", "sub"),
                         ("proc", "/proc/self/environ")):  # fmt: skip
        (cli.folder / "d" / name).symlink_to(target)
    result = cli.plain(LIST + "print(open('d/in.txt').read(), open('d/sub/up.txt').read())", "--in", "d")
    assert result.out == "./d/in.txt\n./d/real.txt\n./d/sub/up.txt\n./d/sub/x\nreal real\n", result
    for name in ("out.txt", "abs.txt", "dangling", "loop", "dir", "proc"):
        assert f"'d/{name}' is a link" in result.err, result
    assert "leads out of the folder" in result.err
    (cli.folder / "named").symlink_to("outside.txt")  # the user has named it
    assert cli.plain("print(open('named').read())", "--in", "named").out == "secret\n"


def test_a_hundred_thousand_files_are_refused_at_once(cli):
    folder = cli.folder / "many"
    folder.mkdir()
    for n in range(2000):  # it stops at the first too many
        (folder / f"{n}").touch()
    refused(cli.call("run", "--in", "many", "-c", "print('ran')"), "more than 900", "many/", "archive")


def test_too_large(cli, put):
    path = put("big")
    os.truncate(path, 1 << 40)
    refused(cli.call("run", "--in", "big", "-c", "print('ran')"), "big", "--file-size", status=65)
    os.truncate(path, 3 << 20)
    put("big2", b"x" * (3 << 20))
    refused(cli.call("run", "--scratch", "5M", "--in", "big", "--in", "big2", "-c", "print('ran')"), "--scratch", status=65)
    assert cli.call("run", "--in", "big", "--in", "big2", "-c", "print('ran')").out == "ran\n"


def test_odd_names(cli, put):
    for name in (b"d/\xff.txt", b"e/a\nb", b"f/\x1b[31m"):
        path = os.path.join(os.fsencode(cli.folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
        result = cli.call("run", "--in", name[:1].decode(), "-c", "print('ran')")
        refused(result, "cannot be named", status=64)
        assert "\x1b" not in result.err
    deep = cli.folder / "deep" / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "x").touch()
    refused(cli.call("run", "--in", "deep", "-c", "print('ran')"), "deep", status=64)
    refused(cli.call("run", "--in", "/", "-c", "print('ran')"), "/", status=64)


def test_a_script_whose_name_is_not_utf8_runs(cli):
    with open(os.path.join(os.fsencode(cli.folder), b"\xff.py"), "w") as script:
        script.write("import sys; print(ascii(sys.argv)); 1 / 0")
    for option in ((), ("--seed", "1")):
        result = cli.call("run", *option, os.fsdecode(b"\xff.py"), "x")
        assert result.out == "['\\ufffd.py', 'x']\n" and "ZeroDivisionError" in result.err, result
        assert result.status == 1 and "--out" not in result.err, result


def test_two_of_one_name(cli, put):
    put("a/x.txt")
    put("b/x.txt")
    refused(cli.call("run", "--in", "a/x.txt", "--in", "b/x.txt", "-c", "print('ran')"), "x.txt", status=64)
    put("a/main.py", "print('other')")
    put("main.py", "print('ran')")
    refused(cli.call("run", "--with", "a", "main.py"), "main.py", status=64)


def test_a_file_that_is_written_meanwhile(cli, put, tools):
    """A file of /proc says 0 bytes and has more: it is the same to a reader as one that grows."""
    refused(cli.call("run", "--in", "/proc/self/status", "-c", "print('ran')"), "changed while it was read")
