# SPDX-License-Identifier: Apache-2.0
"""Environments of packages: the first import in a new session, an installation beside uv's, lists, disk.

All packages come from an index on loopback: small ones made here, and with --find-links those of the caller, of which
numpy, pandas and matplotlib are measured when they are there.  One server has no warm boxes (cold), the other has some
(warm); both are asked over HTTP, one call for each sample.
"""

import base64
import glob
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import zipfile

from boxes import FRESH_STOCK
from client import Client, Failed, Ours, child, free_port, now, percentile

PACKAGES = "numpy pandas matplotlib"
LAYERS, MANY = 64, 200
COLD_MS, WARM_MS, LIST_MS = 20, 2, 5


def make_wheel(folder, name, files):
    dist = f"{name}-1.0"
    files[f"{dist}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    files[f"{dist}.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(text)}")
    files[f"{dist}.dist-info/RECORD"] = "\n".join([*rows, f"{dist}.dist-info/RECORD,,", ""])
    with zipfile.ZipFile(f"{folder}/{dist}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def make_wheels(folder, find_links):
    """One package has some code in it; the others are there for their number.  True: the data stack is there."""
    body = "".join(f"def work_{i}(a, b={i}):\n    return [a, b, {i}]\n" for i in range(50))
    init = "from bench_small import one, two\nVERSION = 1\n"
    files = {"bench_small/__init__.py": init, "bench_small/one.py": body, "bench_small/two.py": body}
    make_wheel(folder, "bench_small", files)
    for i in range(LAYERS):
        make_wheel(folder, f"bench_m{i:03}", {f"bench_m{i:03}.py": f"NUMBER = {i}\n"})
    for path in glob.glob(f"{find_links}/*.whl") if find_links else ():
        shutil.copy(path, folder)
    os.chmod(folder, 0o755)
    names = {os.path.basename(path).split("-")[0].lower() for path in glob.glob(f"{folder}/*.whl")}
    return set(PACKAGES.split()) <= names


def serve_index(folder, port):
    """An index of the folder's wheels, as PEP 691 says."""
    files, projects = {}, {}
    for name in os.listdir(folder):
        data = pathlib.Path(folder, name).read_bytes()
        with zipfile.ZipFile(f"{folder}/{name}") as archive:
            said = archive.read(next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA")))
        files["/files/" + name], files[f"/files/{name}.metadata"] = data, said
        digests = [{"sha256": hashlib.sha256(text).hexdigest()} for text in (data, said)]
        key = re.sub("[-_.]+", "-", name.split("-")[0]).lower()
        row = {"filename": name, "url": "/files/" + name, "hashes": digests[0], "size": len(data), "yanked": False}
        row["core-metadata"] = row["data-dist-info-metadata"] = digests[1]
        projects.setdefault(f"/simple/{key}/", []).append(row)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            data, kind = files.get(self.path), "application/octet-stream"
            if self.path in projects:
                kind = "application/vnd.pypi.simple.v1+json"
                page = {"meta": {"api-version": "1.1"}, "name": self.path.split("/")[2]}
                data = json.dumps({**page, "files": projects[self.path]}).encode()
            self.send_response(200 if data is not None else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

    http.server.ThreadingHTTPServer.daemon_threads = True
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def create(client, name, packages=None):
    """An environment with packages: how long it took, in microseconds."""
    us, said = client.tool("create_python_env", name=name, wait=50.0, **({"packages": packages} if packages else {}))
    if said.get("state") != "ready":
        raise Failed(f"install '{packages}': {(said.get('error') or {}).get('message', 'no answer')}")
    return us


def imports(client, environment, module, count, warm):
    """New sessions, one after the other: times of those that found the module there already, or did not; and how many
    did, of all."""
    code = f"import sys\nfound = '{module}' in sys.modules\nimport {module}\nfound"
    times = {True: [], False: []}
    for i in range(3 * count + 20):
        name = f"{environment}-{i}"
        us, said = client.tool("execute_python", code=code, session=name, environment=environment)
        if said.get("result") not in ("True", "False"):
            raise Failed(f"import {module}: no answer")
        times[said["result"] == "True"].append(us)
        client.tool("close_session", session=name)
        time.sleep(0.03 if warm else 0.005)  # a box can become ready
        if len(times[warm]) == count:
            break
    if not times[warm]:
        raise Failed(f"import {module}: no session was {'warm' if warm else 'cold'}")
    return times[warm], len(times[True]), len(times[True]) + len(times[False])


def plain_import(b, state):
    """What numpy's import alone takes, from the same wheel, in an interpreter that runs already."""
    found = glob.glob(f"{state}/environments/*/*/numpy/__init__.py")[0]
    code = "import sys, time; sys.path.insert(0, sys.argv[1]); t = time.perf_counter()\n"
    code += "import numpy; print(time.perf_counter() - t)"
    run = [b.python, "-I", "-c", code, os.path.dirname(os.path.dirname(found))]
    return statistics.median(float(subprocess.run(run, capture_output=True).stdout) for _ in range(7)) * 1e6


def measure_first(b, server, client, warm, data):
    kind, limit_ms = ("warm", WARM_MS) if warm else ("cold", COLD_MS)
    count = b.few(20, 100)
    create(client, "small", "bench_small")
    times, hits, total = imports(client, "small", "bench_small", count, warm)
    note = f"the limit, {limit_ms} ms; p99 {percentile(times, 99) / 1000:.1f} ms; {hits} of {total} were warm"
    b.set(f"env_first_{kind}", percentile(times, 50), limit_ms * 1000, note)
    if not warm:
        create(client, "layers", " ".join(["bench_small", *(f"bench_m{i:03}" for i in range(LAYERS))]))
        times, _, _ = imports(client, "layers", f"bench_m{LAYERS - 1:03}", count, warm)
        note = f"the limit, {COLD_MS} ms; p99 {percentile(times, 99) / 1000:.1f} ms"
        b.set("env_first_wheels", percentile(times, 50), COLD_MS * 1000, note)
    if not data:
        b.note(f"env_numpy_{kind}", "no data stack in --find-links")
        return
    create(client, "stack", PACKAGES)
    times, _, _ = imports(client, "stack", "numpy", b.few(8, 30), warm)
    own_us = 0 if warm else plain_import(b, server.state)
    own = "" if warm else f"numpy's own import, {own_us / 1000:.0f} ms, + "
    note = f"{own or 'the limit, '}{limit_ms} ms; p99 {percentile(times, 99) / 1000:.1f} ms"
    b.set(f"env_numpy_{kind}", percentile(times, 50), own_us + limit_ms * 1000, note)


def disk_kib(folder):
    return sum(os.lstat(os.path.join(at, name)).st_blocks for at, _, names in os.walk(folder) for name in names) / 2


def time_uv(b, index, count):
    """Only the installation is timed; uv's cache is warm.  None: there is no uv."""
    uv = shutil.which("uv") or os.path.expanduser("~/.local/bin/uv")
    if not os.access(uv, os.X_OK):
        return None
    times = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        env = {**os.environ, "UV_CACHE_DIR": folder + "/cache", "UV_NO_PROGRESS": "1"}
        for i in range(count + 1):
            venv = f"{folder}/v{i}"
            subprocess.run([uv, "venv", "-q", "--python", b.python, venv], env=env, check=True)
            install = [uv, "pip", "install", "-q", "--index-url", index, "--python", venv + "/bin/python"]
            begin = now()
            subprocess.run([*install, *PACKAGES.split()], env=env, check=True)
            times.append((now() - begin) * 1e6)
    return statistics.median(times[1:])


def measure_install(b, server, client, index, data):
    count, what = b.few(3, 7), PACKAGES if data else "bench_small"
    before = disk_kib(server.state)
    times = [create(client, "again0", what)]
    more = disk_kib(server.state) - before
    times += [create(client, f"again{i}", what) for i in range(1, count)]
    uv_us = time_uv(b, index, count) if data else None
    note = "nothing to compare with: no uv, or no data stack"
    if uv_us:
        note = f"uv pip install of {PACKAGES} into a fresh venv, warm cache, {uv_us / 1000:.0f} ms"
    b.set("env_install", percentile(times, 50), uv_us, note)
    b.set("env_disk", max(more, 1), 1024, "the limit, 1 MiB")


def measure_lists(b, client, port):
    for i in range(MANY):
        create(client, f"many-{i:03}")
    connection, times = http.client.HTTPConnection("127.0.0.1", port), []
    for _ in range(200):
        begin = now()
        connection.request("GET", "/api/v1/environments")
        data = connection.getresponse().read()
        times.append((now() - begin) * 1e6)
    total = json.loads(data)["total"]
    note = f"the limit, {LIST_MS} ms; p99 {percentile(times, 99) / 1000:.1f} ms; {total} of them"
    b.set("env_list", percentile(times, 50), LIST_MS * 1000, note)


def measure_side(b, index, data, warm):
    flags = ["--index-url", index, "--warm-boxes", 4 if warm else 0, "--warm-memory", "2G", "--sessions", 4000]
    port = free_port()
    with Ours(b, *flags, "--memory", "1G", port=port, stock=FRESH_STOCK) as server, Client(server) as client:
        b.attempt(measure_first, b, server, client, warm, data)
        if not warm:
            b.attempt(measure_install, b, server, client, index, data)
            b.attempt(measure_lists, b, client, port)


def measure(b):
    b.progress("environments, beside uv")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="constrictor-wheels.", dir="/var/tmp") as folder:
        data = make_wheels(folder, b.find_links)
        with child(serve_index, folder, port):
            time.sleep(1)  # it reads the wheels
            for warm in (False, True):
                b.attempt(measure_side, b, f"http://127.0.0.1:{port}/simple", data, warm)
