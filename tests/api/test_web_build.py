# SPDX-License-Identifier: Apache-2.0
"""The packages of the page: what tools/web-packages takes from a registry, and what it refuses."""

import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def tarball(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("package/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


@pytest.fixture
def registry():
    data = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = data.get(self.path)
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", data
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(tmp_path):
    """Runs the tool of a copy of the tree whose lock names one package."""
    def run(registry, content, locked=None, where="node_modules/thing"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "web").mkdir(exist_ok=True)
        shutil.copy(TOP / "tools" / "web-packages", tmp_path / "tools")
        digest = base64.b64encode(hashlib.sha512(locked or content).digest()).decode()
        (tmp_path / "web" / "package-lock.json").write_text(json.dumps({"packages": {
            "": {}, where: {"version": "1.2.3", "integrity": f"sha512-{digest}"},
            "node_modules/other": {"version": "1.0.0", "integrity": "sha512-x", "os": ["win32"]}}}))
        done = subprocess.run([sys.executable, tmp_path / "tools" / "web-packages", tmp_path / "out"], capture_output=True, text=True,
                              env={**os.environ, "NPM_CONFIG_REGISTRY": registry, "HOME": str(tmp_path), "no_proxy": "*"}, check=False)
        return done, tmp_path / "out"
    return run


def test_what_the_lock_names_is_unpacked_as_plain_files_only(registry, fetch):
    url, data = registry
    content = data["/thing/-/thing-1.2.3.tgz"] = tarball(package__a="1", package__sub__b="2", **{"package__..__..__evil": "3"})
    done, out = fetch(url, content)
    assert done.returncode == 0, done.stderr
    files = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert files == {"node_modules/thing/a", "node_modules/thing/sub/b", ".installed"}
    assert not list(out.parent.rglob("evil"))


def test_a_package_that_is_not_what_the_lock_names_is_refused(registry, fetch):
    url, data = registry
    content = data["/thing/-/thing-1.2.3.tgz"] = tarball(package__a="other")
    done, out = fetch(url, content, locked=b"what was locked")
    assert done.returncode == 1 and "is not what web/package-lock.json names" in done.stderr
    assert not (out / "node_modules").exists() and not (out / ".installed").exists()


def test_a_registry_that_cannot_be_reached_is_a_note_and_no_failure(fetch):
    done, out = fetch("http://127.0.0.1:9/", b"x")
    assert done.returncode == 0 and "cannot be reached" in done.stderr and "plain page" in done.stderr
    assert not (out / ".installed").exists()


def test_without_packages_the_table_of_files_is_empty(tmp_path):
    for name in ("tools", "web"):
        shutil.copytree(TOP / name, tmp_path / name, symlinks=True)
    table, code = tmp_path / "t.c", tmp_path / "b.S"
    done = subprocess.run([sys.executable, tmp_path / "tools" / "web-bundle", tmp_path / "work", table, code], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "plain page" in done.stderr
    assert "web_file_" not in table.read_text() and "incbin" not in code.read_text()
