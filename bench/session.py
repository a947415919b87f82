# SPDX-License-Identifier: Apache-2.0
"""Sessions, files and figures, beside an ipykernel and matplotlib by themselves.

Each measurement has a server of its own, so that none pays for what another left behind.
"""

import ctypes
import os
import platform
import re
import time

from boxes import FRESH_STOCK, NO_DATA, STACK
from cold import script
from client import Calls, Client, Failed, Ours, Rest, free_port, now, percentile
from mcp import children, status_kib

FILE_BYTES = 10_000_000
SYS_KCMP = {"x86_64": 312, "aarch64": 272}
KCMP_VM = 1

KERNELS = """
import json, os, statistics, sys, tempfile, time
folder = tempfile.TemporaryDirectory()
os.environ['JUPYTER_RUNTIME_DIR'] = os.environ['IPYTHONDIR'] = folder.name
import ipykernel
from jupyter_client.manager import start_new_kernel
def weigh():
    sizes = []
    for manager, client in kernels:
        with open(f'/proc/{manager.provisioner.pid}/smaps_rollup') as lines:
            sizes += [int(l.split()[1]) for l in lines if l.startswith('Pss:')]
    return sum(sizes) / len(sizes) / 1024
kernels, times, data = [], [], None
try:
    for i in range(int(sys.argv[1])):
        begin = time.perf_counter()
        kernels.append(start_new_kernel(kernel_name='python3'))
        times.append(time.perf_counter() - begin)
    time.sleep(1)
    bare = weigh()
    code = f'import sys; sys.path.append({sys.argv[2]!r}); import {sys.argv[3]}'
    replies = [client.execute(code, reply=True, timeout=60) for _, client in kernels]
    if all(reply['content']['status'] == 'ok' for reply in replies):
        data = weigh()
finally:
    for manager, client in kernels:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
print(json.dumps({'version': ipykernel.__version__, 'mib': bare, 'data_mib': data,
                  'open_us': statistics.median(times) * 1e6}))
"""
PLOT = "plt.plot([1, 4, 9, 16], [2, 3, 5, 7])\nplt.title('primes')\n"
MATPLOTLIB = """
import io, json, statistics, sys, time
import matplotlib
matplotlib.use('agg')
code = compile('import matplotlib.pyplot as plt\\n' + sys.argv[2] +
               "out = io.BytesIO()\\nplt.savefig(out, format='png')\\nplt.close('all')", 'plot', 'exec')
times = []
for i in range(int(sys.argv[1])):
    begin = time.perf_counter()
    exec(code)
    times.append(time.perf_counter() - begin)
print(json.dumps(statistics.median(times[5:]) * 1e6))
"""


def start(b, stock=2, port=0, preload=False):
    flags = ["--sessions", 4000, "--session-ttl", "1h", "--memory", "1G", *(["--preload", STACK] if preload else [])]
    return Ours(b, *flags, port=port, stock=stock)


def calls(client, tool, requests, look=None, pause_us=0, **arguments):
    """The times of calls of a tool, in microseconds."""
    params = {"name": tool, "arguments": arguments}
    return Calls("tools/call", params, requests=requests, look=look, pause_us=pause_us).run([client]).latency


def measure_runs(b):
    beyond = []  # the time that the code had the box

    def look(answer, us):
        found = re.search(rb'"wall_ms":([0-9.]+)', answer)
        if found:
            beyond.append(us - float(found[1]) * 1000)

    with start(b) as server, Client(server) as client:
        calls(client, "execute_python", 50, code="1+1", session="bench")  # the first opens the session
        times = calls(client, "execute_python", b.few(500, 2000), look, code="1+1", session="bench")
    note = f"the limit, 1.5 ms; ten take {10 * percentile(times, 50):.0f} us in all"
    b.set("session_10", 10 * percentile(beyond, 50), 1500, note)


def measure_opening(b):
    """One at a time, and the stock is full again before the next: as fresh boxes are measured."""
    with start(b, stock=FRESH_STOCK, preload=b.stack) as server, Client(server) as client:
        calls(client, "open_session", 20, pause_us=20000)
        us = percentile(calls(client, "open_session", b.few(60, 300), pause_us=20000), 50)
    b.set("session_open", us, 1000, "the limit, 1 ms")
    return us


def shares_memory(pid, parent):
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(SYS_KCMP[platform.machine()], pid, parent, KCMP_VM, 0, 0) == 0


def weigh(pid, parent=None):
    """MiB of all processes of a server: proportional, and page tables, which are never shared.  An init shares its
    memory with the user process, which counts once."""
    pss = tables = 0
    if not parent or not shares_memory(pid, parent):
        kib = status_kib(pid, "Pss", "smaps_rollup")
        if kib is None and os.path.exists(f"/proc/{pid}") and status_kib(pid, "VmRSS"):
            raise Failed(f"the memory of process {pid} cannot be read")
        pss, tables = (kib or 0) / 1024, (status_kib(pid, "VmPTE") or 0) / 1024
    for child in children(pid):
        more = weigh(child, pid)
        pss, tables = pss + more[0], tables + more[1]
    return pss, tables


def weigh_sessions(b, preload, count):
    """MiB of one more session, and of the whole server with `count` of them."""
    with start(b, stock=4, preload=preload) as server, Client(server) as client:
        # Each has run a line and is then left alone.
        for i in range(10):
            client.tool("execute_python", code=f"x = {i}", session=f"idle-{i}")
        time.sleep(0.5)
        before, _ = weigh(server.pid)
        for i in range(10, count):
            client.tool("execute_python", code=f"x = {i}", session=f"idle-{i}")
        time.sleep(1)  # the stock is full again
        after, tables = weigh(server.pid)
    return (after - before) / (count - 10), after + tables


def measure_kernels(b):
    """Of the interpreter that has an ipykernel: one of its own, or that of the boxes."""
    probe = "import ipykernel, jupyter_client\nprint('true')"
    python = next((p for p in ("build/venv-ipykernel/bin/python", b.python) if script(p, probe)), None)
    if not python:
        return None, "ipykernel is missing: 'tools/setup kernel' installs it"
    # The kernels get the data stack of the boxes.
    path = script(b.python, "import json, sysconfig\nprint(json.dumps(sysconfig.get_paths()['platlib']))")
    kernel = script(python, KERNELS, b.few(2, 5), path or "", STACK)
    return kernel, "" if kernel else "the ipykernel did not start"


def measure_beside_kernels(b, opened_us):
    kernel, missing = measure_kernels(b)
    name = f"ipykernel {kernel['version']}" if kernel else missing
    kernel = kernel or {}

    def note(text):
        return f"{name}, {text}" if kernel else missing

    open_us, mib, data_mib = (kernel.get(k) or 0 for k in ("open_us", "mib", "data_mib"))
    b.set("session_open_kernel", opened_us, open_us, note(f"{open_us / 1000:.0f} ms"))
    bare = b.attempt(weigh_sessions, b, False, 100)
    if bare:
        b.set("session_pss_bare", bare[0], mib, note(f"{mib:.1f} MiB"))
    count = b.few(100, 1000)
    stack = b.attempt(weigh_sessions, b, True, count) if b.stack else None
    for figure in ("session_memory", "session_pss"):
        b.note(figure, NO_DATA)
    if stack:
        b.set("session_memory", stack[1], 2560, f"the limit, 2.5 GiB; {count} sessions")
        b.set("session_pss", stack[0], data_mib, note(f"with the same, {data_mib:.1f} MiB"))


def measure_checkpoints(b):
    with start(b) as server, Client(server) as client:
        client.tool("open_session", name="undo", checkpoint=True)
        client.tool("execute_python", code="data = bytearray(b'x') * (120 << 20)", session="undo")
        calls(client, "execute_python", 5, code="1+1", session="undo")
        us = percentile(calls(client, "execute_python", b.few(30, 100), code="1+1", session="undo"), 50)
    b.set("session_checkpoint", us, b.cold_p50(), "cold python3 -c, p50")


def measure_files(b):
    port, path = free_port(), "sessions/files/files/data.bin"
    data, up, down = bytearray(os.urandom(FILE_BYTES)), [], []
    with start(b, port=port):
        rest = Rest(port)
        rest.call("POST", "execute", {"code": "1", "session_id": "files", "stream": False})
        for i in range(b.few(10, 30)):
            data[i] = ord("a") + i  # another file each time
            body = bytes(data)
            begin = now()
            rest.call("PUT", path, body)
            up.append(now() - begin)
            begin = now()
            answer = rest.call("GET", path)
            down.append(now() - begin)
            if answer[-FILE_BYTES:] != body:
                raise Failed("what was downloaded is not what was uploaded")
    for name, times in (("file_upload", up), ("file_download", down)):
        b.set(name, FILE_BYTES / percentile(times, 50) / 1e6, 200, "the limit, 200 MB/s", more=True)


def measure_plot(b):
    if not b.stack:
        b.note("session_plot", "matplotlib is not installed")
        return
    code = f"import matplotlib.pyplot as plt\n{PLOT}plt.show()"
    with start(b, preload=True) as server, Client(server) as client:
        calls(client, "execute_python", 10, code=code, session="plot")
        us = percentile(calls(client, "execute_python", b.few(20, 60), code=code, session="plot"), 50)
    b.set("session_plot", us, script(b.python, MATPLOTLIB, b.few(30, 80), PLOT), "matplotlib by itself")


def measure(b):
    b.progress("sessions, beside ipykernel and matplotlib")
    b.attempt(measure_runs, b)
    opened_us = b.attempt(measure_opening, b)
    b.attempt(measure_beside_kernels, b, opened_us)
    b.attempt(measure_checkpoints, b)
    b.attempt(measure_files, b)
    b.attempt(measure_plot, b)
