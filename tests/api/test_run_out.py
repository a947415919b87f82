# SPDX-License-Identifier: Apache-2.0
"""What `constrictor run` makes of pictures and files: shown in the terminal, saved below --out DIR.

The code in the box is hostile here: it leaves links, pipes, odd names and files that are larger
than they look. So is the folder: it holds links that others left.
"""

import base64
import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import zlib

import pytest

PNG = r"""
import struct, zlib, os
def png(width=4, height=3):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + os.urandom(width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
class Picture:
    def __init__(self, *args): self.data = png(*args)
    def _repr_png_(self): return self.data
    def __repr__(self): return "\x1b]0;owned\x07"
"""

KITTY = {"TERM": "xterm-kitty"}
NO_TERMINAL = dict.fromkeys(("TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID"), "")


def on_terminal(cli, code, *flags, env=None, size=(24, 80, 640, 480)):
    """(what the terminal got, stderr, exit status) of a run whose stdout is a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size))
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST  # as it was written, without \r
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    process = cli.start(
        "run", *flags, "-c", code, stdout=slave, env={"TERM": "xterm", **NO_TERMINAL, **(env or {})}
    )
    os.close(slave)
    out = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := os.read(master, 65536):
            out += part
    os.close(master)
    err = process.stderr.read().decode()
    return out, err, process.wait(timeout=60)


def kitty_pictures(out):
    """The pictures in what a terminal got, as kitty would read them, and the text between."""
    pictures, data = [], b""
    for keys, chunk in re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", out):
        keys = dict(pair.split(b"=") for pair in keys.split(b","))
        assert keys[b"q"] == b"2" and len(chunk) <= 4096
        assert re.fullmatch(rb"[A-Za-z0-9+/]*=*", chunk)
        if not data:
            assert keys[b"a"] == b"T" and keys[b"f"] == b"100"
        else:
            assert set(keys) <= {b"m", b"q"}
        data += chunk
        if keys[b"m"] == b"0":
            pictures.append((base64.b64decode(data, validate=True), keys))
            data = b""
    assert not data, "the last chunk is missing"
    return [p for p, _ in pictures], re.sub(rb"\x1b_G[^\x1b]*\x1b\\", b"", out)


def is_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    (length,) = struct.unpack(">I", data[8:12])
    assert struct.unpack(">I", data[16 + length : 20 + length])[0] == zlib.crc32(data[12 : 16 + length])
    return struct.unpack(">II", data[16:24])


def files_below(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


# ---- terminals -----------------------------------------------------------------------------------


def test_kitty_gets_the_picture_in_chunks(cli):
    code = PNG + "print('before')\nPicture(200, 150)"
    out, err, status = on_terminal(cli, code, env=KITTY)
    (picture,), text = kitty_pictures(out)
    assert is_png(picture) == (200, 150) and len(picture) > 8192
    assert text == b"before\n\n" and status == 0
    assert "image" not in err


def test_a_picture_wider_than_the_window_is_made_to_fit(cli):
    code = PNG + "Picture(800, 2)"
    out, _, _ = on_terminal(cli, code, env=KITTY)
    assert b"\x1b_Ga=T,f=100,c=80,q=2," in out


def test_two_pictures_and_text_between(cli):
    code = PNG + "display(Picture())\ndisplay('between')\nPicture()"
    out, _, status = on_terminal(cli, code, env=KITTY)
    pictures, text = kitty_pictures(out)
    assert [is_png(p) for p in pictures] == [(4, 3)] * 2 and status == 0
    assert out.index(b"between") > out.index(b"\x1b_G")


@pytest.mark.parametrize(
    "env",
    (
        {"TERM_PROGRAM": "iTerm.app"},
        {"TERM_PROGRAM": "WezTerm"},
        {"LC_TERMINAL": "iTerm2"},
        {"CONSTRICTOR_IMAGES": "iterm"},
    ),
)
def test_iterm_gets_the_picture_at_once(cli, env):
    out, _, status = on_terminal(cli, PNG + "Picture(30, 20)", env=env)
    found = re.fullmatch(rb"\x1b\]1337;File=inline=1;size=(\d+):([A-Za-z0-9+/=]+)\x07\n", out)
    assert found, out[:200]
    data = base64.b64decode(found[2], validate=True)
    assert len(data) == int(found[1]) and is_png(data) == (30, 20) and status == 0


@pytest.mark.parametrize("env", ({"TERM": "foot"}, {"TERM": "xterm-sixel"}, {"CONSTRICTOR_IMAGES": "sixel"}))
def test_sixel_gets_pixels(cli, env):
    out, err, status = on_terminal(cli, PNG + "Picture(30, 20)", env=env)
    assert status == 0
    if not out:  # built without libsixel: then it says what there is
        assert "image 1: image/png, 30x20" in err
        return
    assert re.fullmatch(rb'\x1bP[0-9;]*q"1;1;30;20[^\x1b]*\x1b\\\n', out), out[:100]


@pytest.mark.parametrize(
    "env",
    (
        {},
        {"TERM": "dumb", "KITTY_WINDOW_ID": "1"},
        {"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"},
        {"TERM": "screen", "LC_TERMINAL": "iTerm2"},
        {"TERM": "xterm-kitty", "CONSTRICTOR_IMAGES": "none"},
    ),
)
def test_other_terminals_get_words(cli, env):
    out, err, status = on_terminal(cli, PNG + "Picture(30, 20)", env=env)
    assert out == b"" and status == 0
    assert re.search(r"image 1: image/png, 30x20, \S+ \w+; save it with --out DIR or print it with --json", err)


def test_no_terminal_no_escape(cli):
    for env in (KITTY, {"CONSTRICTOR_IMAGES": "kitty"}):
        r = cli.plain(PNG + "Picture()", env=env)
        assert r.raw == b"" and "image 1: image/png, 4x3" in r.err


def test_a_bad_choice_is_refused(cli):
    r = cli.plain("1", env={"CONSTRICTOR_IMAGES": "ascii"})
    assert r.status == 64 and "CONSTRICTOR_IMAGES" in r.err and "kitty" in r.err


def test_what_is_no_picture_is_not_shown(cli):
    """Names, types and broken bytes of the code never get into a sequence."""
    code = PNG + (
        "class Evil:\n"
        "    def __init__(self, bundle): self.bundle = bundle\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None): return self.bundle\n"
        "display(Evil({'image/png': 'AAAA\\x1b\\\\\\x1b]0;owned\\x07', 'text/plain': 'a'}))\n"
        "display(Evil({'image/png': b'\\x89PNG not one', 'text/plain': 'b'}))\n"
        "display(Evil({'image/png;\\x1b]0;owned\\x07': 'AAAA', 'text/plain': 'c'}))\n"
    )
    out, _, status = on_terminal(cli, code, env=KITTY)
    assert b"owned" not in out and b"\x1b_G" not in out


# ---- files ---------------------------------------------------------------------------------------


def test_files_and_pictures_are_saved(cli):
    out = cli.folder / "out"
    code = PNG + (
        "os.makedirs('a/b')\n"
        "open('a/b/table.csv', 'w').write('x,y\\n1,2\\n')\n"
        "open('empty', 'w')\n"
        "open('data.bin', 'wb').write(bytes(range(256)) * 1000)\n"
        "Picture(9, 8)"
    )
    r = cli.plain(code, "--out", "out")
    assert r.status == 0, r
    files = files_below(out)
    assert set(files) == {"a/b/table.csv", "empty", "data.bin", "image-1.png"}
    assert files["a/b/table.csv"] == b"x,y\n1,2\n" and files["empty"] == b""
    assert files["data.bin"] == bytes(range(256)) * 1000
    assert is_png(files["image-1.png"]) == (9, 8)
    assert "constrictor: saved out/a/b/table.csv (8 bytes)\n" in r.err
    assert "constrictor: saved out/data.bin (256 kB)\n" in r.err
    for path in out.rglob("*"):
        assert path.stat().st_uid == os.geteuid()
        assert path.is_dir() or path.stat().st_mode & 0o133 == 0


def test_the_object_says_where_they_are(cli):
    code = PNG + "open('a.txt', 'w').write('hello')\nPicture(9, 8)"
    r = cli.run(code, "--out", "out/")
    saved = {entry["path"]: entry for entry in r.files}
    assert saved["a.txt"]["saved"] == "out/a.txt" and saved["a.txt"]["size"] == 5
    assert saved["image-1.png"]["saved"] == "out/image-1.png"
    assert saved["image-1.png"]["mime_type"] == "image/png"
    for entry in r.files:
        assert (cli.folder / entry["saved"]).stat().st_size == entry["size"]
    assert r.err == ""


def test_without_out_it_says_how(cli):
    r = cli.plain("open('a', 'w'); open('b', 'w')")
    assert "the code left 2 files; save them with --out DIR" in r.err
    assert [entry["path"] for entry in cli.run("open('a', 'w').write('x')").files] == ["a"]
    assert cli.plain("print(1)").err == ""


def test_the_script_is_not_its_own_artifact(cli):
    script = cli.folder / "job.py"
    script.write_text("open('result', 'w').write('1')\n")
    r = cli.call("run", "--out", "out", script)
    assert r.status == 0 and set(files_below(cli.folder / "out")) == {"result"}
    assert [entry["path"] for entry in cli.call("run", "--json", script).files] == ["result"]
    script.write_text("open(__file__, 'a').write('# more')\n")
    r = cli.call("run", "--out", "changed", script)
    assert set(files_below(cli.folder / "changed")) == {"job.py"}


def test_files_of_code_that_fails_are_saved(cli):
    r = cli.plain("open('log', 'w').write('so far')\n1/0", "--out", "out")
    assert r.status == 1 and files_below(cli.folder / "out") == {"log": b"so far"}
    r = cli.plain("import sys\nopen('log2', 'w')\nsys.exit(3)", "--out", "out")
    assert r.status == 3 and "log2" in files_below(cli.folder / "out")


def test_many_files_are_bounded_and_counted(cli):
    code = "for i in range(250): open(f'f{i:03}', 'w').write(str(i))"
    r = cli.run(code, "--out", "out")
    files = files_below(cli.folder / "out")
    assert len(files) == 100 == len(r.files) and r.files_omitted == 150
    assert all(files[name] == str(int(name[1:])).encode() for name in files)
    r = cli.plain(code, "--out", "out2")
    assert r.status == 0 and "150 files left out" in r.err


def test_what_is_there_is_never_written_to(cli):
    out = cli.folder / "out"
    out.mkdir()
    (out / "plot.png").write_text("mine")
    (out / "noext").write_text("mine")
    code = "open('plot.png', 'w').write('theirs'); open('noext', 'w').write('theirs')"
    for i in (1, 2):
        r = cli.plain(code, "--out", "out")
        assert r.status == 0 and f"saved out/plot-{i}.png" in r.err and "exists already" in r.err
    assert (out / "plot.png").read_text() == (out / "noext").read_text() == "mine"
    assert (out / "plot-1.png").read_text() == (out / "noext-2").read_text() == "theirs"


def test_links_that_somebody_left_are_not_followed(cli):
    out, victim, elsewhere = (cli.folder / name for name in ("out", "victim", "elsewhere"))
    out.mkdir()
    elsewhere.mkdir()
    victim.write_text("mine")
    (out / "plot.png").symlink_to(victim)
    (out / "dangling").symlink_to(cli.folder / "made")
    (out / "sub").symlink_to(elsewhere)
    code = (
        "import os; os.mkdir('sub')\n"
        "for name in 'plot.png', 'dangling', 'sub/x', 'good': open(name, 'w').write('theirs')"
    )
    r = cli.plain(code, "--out", "out")
    assert victim.read_text() == "mine" and not (cli.folder / "made").exists()
    assert list(elsewhere.iterdir()) == []
    assert (out / "plot-1.png").read_text() == "theirs" and (out / "good").read_text() == "theirs"
    assert "cannot save 'sub/x'" in r.err and "link" in r.err
    assert r.status == 73  # not all that was asked for is there
    r = cli.run(code, "--out", "out")
    (bad,) = [entry for entry in r.files if entry["path"] == "sub/x"]
    assert "saved" not in bad and "link" in bad["error"]


def test_a_folder_that_is_a_file(cli):
    (cli.folder / "out").mkdir()
    (cli.folder / "out" / "sub").write_text("mine")
    r = cli.plain("import os; os.mkdir('sub'); open('sub/x', 'w')", "--out", "out")
    assert r.status == 73 and "not a folder" in r.err
    assert (cli.folder / "out" / "sub").read_text() == "mine"


def test_what_the_code_leaves_is_not_followed(cli):
    secret = cli.folder / "secret"
    secret.write_text("secret")
    code = (
        "import os, socket\n"
        f"os.symlink({str(secret)!r}, 'link'); os.symlink('/etc/passwd', 'passwd')\n"
        "os.symlink('/', 'root'); os.symlink('.', 'self'); os.symlink('loop', 'loop')\n"
        "os.mkfifo('pipe')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "open('good', 'w').write('x')"
    )
    r = cli.plain(code, "--out", "out")
    assert r.status == 0, r
    assert files_below(cli.folder / "out") == {"good": b"x"}
    assert sorted(os.listdir(cli.folder / "out")) == ["good"]


def test_names_that_a_terminal_would_obey(cli):
    code = (
        "for name in (b'new\\nline', b'esc\\x1b]0;owned\\x07', b'bad\\xff', b'c1\\xc2\\x9b31m', b'del\\x7f'):\n"
        "    open(name, 'w').write('x')\n"
        "open('caf\\u00e9 \\u4f60.txt', 'w').write('x')\n"
        "open('-rf', 'w').write('x')\n"
        "open('a' * 255, 'w').write('x')"
    )
    r = cli.plain(code, "--out", "out")
    assert set(files_below(cli.folder / "out")) == {"caf\u00e9 \u4f60.txt", "-rf", "a" * 255}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", r.err)


def test_hidden_names_are_shown(cli):
    """--out . in a project: no .git/hooks, no .env, no .bashrc that a program would obey."""
    (cli.folder / ".git").mkdir()
    code = (
        "import os; os.makedirs('.git/hooks')\n"
        "open('.git/hooks/post-commit', 'w').write('x'); open('.bashrc', 'w').write('x')"
    )
    r = cli.plain(code, "--out", ".")
    assert r.status == 0 and "which would be hidden" in r.err
    assert list((cli.folder / ".git").iterdir()) == []
    assert (cli.folder / "_bashrc").exists() and (cli.folder / "_git/hooks/post-commit").exists()


def test_a_big_file(cli):
    code = "import hashlib\nb = bytes(range(256)) * (48 << 12)\nopen('big', 'wb').write(b)\nhashlib.sha256(b).hexdigest()"
    r = cli.run(code, "--out", "out", "--memory", "1G", "--scratch", "256M")
    big = (cli.folder / "out" / "big").read_bytes()
    assert len(big) == 48 << 20 and big == bytes(range(256)) * (48 << 12)


def test_files_that_are_larger_than_they_are(cli):
    """Holes stay holes, and many names of one file do not fill the caller's disk."""
    code = "f = open('sparse', 'wb'); f.truncate(10 << 20); f.seek(5 << 20); f.write(b'here')"
    r = cli.plain(code, "--out", "out", "--scratch", "32M")
    sparse = (cli.folder / "out" / "sparse").stat()
    assert r.status == 0 and sparse.st_size == 10 << 20 and sparse.st_blocks * 512 < 2 << 20
    assert (cli.folder / "out" / "sparse").read_bytes()[5 << 20 :][:4] == b"here"
    code = (
        "import os\nopen('a', 'wb').write(b'x' * (10 << 20))\n"
        "for i in range(20): os.link('a', f'a{i}')"
    )
    r = cli.plain(code, "--out", "links", "--scratch", "32M")
    saved = files_below(cli.folder / "links")
    assert 1 <= len(saved) <= 4 and r.status == 73 and "--scratch" in r.err


def test_a_sparse_file_of_any_size(cli):
    code = (
        "import resource\n"
        "size = min(1 << 50, resource.getrlimit(resource.RLIMIT_FSIZE)[1])\n"
        "open('sparse', 'wb').truncate(size)\nopen('good', 'w').write('x')"
    )
    r = cli.plain(code, "--out", "out", "--scratch", "16M", "--file-size", "4G")
    assert files_below(cli.folder / "out") == {"good": b"x"}
    assert "cannot save 'sparse'" in r.err and "--scratch" in r.err


def test_a_file_that_grows_while_it_is_read(cli):
    code = (
        "import os, time\n"
        "open('log', 'w').write('begin')\n"
        "if os.fork() == 0:\n"
        "    with open('log', 'ab') as f:\n"
        "        while True: f.write(b'x' * 4096); f.flush()\n"
        "time.sleep(0.05)"
    )
    r = cli.call("run", "--out", "out", "--scratch", "64M", "--wall", "20s", "-c", code)
    log = cli.folder / "out" / "log"
    assert r.status in (0, 73), r
    assert not log.exists() or log.stat().st_size <= 64 << 20


# ---- the folder ----------------------------------------------------------------------------------


def refuse(cli, folder, *words):
    r = cli.call("run", "--json", "--out", folder, "-c", "print('ran')")
    assert r.status == 73 and r.json["error"]["code"] == "out_folder_unusable", r
    assert "ran" not in r.out and r.json["error"]["hint"]
    for word in words:
        assert word in r.json["error"]["message"], r
    return r


def test_the_folder_is_made_but_not_those_above(cli):
    assert cli.plain("open('a', 'w')", "--out", "new").status == 0
    assert (cli.folder / "new" / "a").exists()
    refuse(cli, "no/such", "no/such")
    assert not (cli.folder / "no").exists()


def test_a_folder_that_is_no_folder(cli):
    (cli.folder / "file").write_text("mine")
    refuse(cli, "file", "file")
    refuse(cli, "/proc/nothing")
    assert cli.call("run", "--out", "", "-c", "1").status == 64


@pytest.mark.user
def test_a_folder_that_cannot_be_written_to(cli):
    (cli.folder / "locked").mkdir(mode=0o555)
    refuse(cli, "locked", "locked")
    refuse(cli, "/etc", "/etc")


def test_umask_holds(cli):
    r = cli.call(
        *("run", "--out", "out", "-c", "open('a', 'w')"),
        prefix=("/bin/sh", "-c", 'umask 077; exec "$@"', "sh"),
    )
    assert r.status == 0, r
    assert (cli.folder / "out").stat().st_mode & 0o777 == 0o700
    assert (cli.folder / "out" / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.root  # it mounts
def test_a_full_disk_leaves_no_half_file(cli):
    (cli.folder / "out").mkdir()
    code = "open('large', 'wb').write(b'x' * 300000); open('small', 'w').write('x')"
    shell = 'mount -t tmpfs -o size=64k none out && "$@"; status=$?; ls out >&2; exit $status'
    r = cli.call(
        *("run", "--out", "out", "-c", code),
        prefix=("unshare", "--mount", "/bin/sh", "-c", shell, "sh"),
    )
    assert r.status == 73 and "cannot save 'large': No space left" in r.err, r
    assert r.err.endswith("saved out/small (1 byte)\nsmall\n"), r


def test_interrupted_code_leaves_its_files(cli):
    """Ctrl-C of a terminal reaches every process of ours; the one that saves goes on."""
    master, slave = pty.openpty()
    code = "import time\nopen('log', 'w').write('so far')\nprint('ready', flush=True)\ntime.sleep(60)"
    process = cli.ready(
        code,
        *("--out", "out"),
        stdin=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.write(master, b"\x03")
    process.communicate(timeout=60)
    os.close(slave)
    os.close(master)
    assert process.returncode == 130
    assert files_below(cli.folder / "out") == {"log": b"so far"}


def test_nothing_is_left_running(cli, tools):
    for code, flags in (("1", ()), ("1/0", ()), ("1", ("--python", "/nonexistent"))):
        process = cli.start("run", "--out", "out", *flags, "-c", code)
        process.communicate(timeout=60)
        assert tools.descendants(process.pid) == []
    process = cli.ready("print('ready', flush=True)\nwhile True: pass", "--out", "out")
    process.kill()
    process.communicate(timeout=60)  # the fixture looks for what is left
