# SPDX-License-Identifier: Apache-2.0
"""The MCP server under load, beside the protocol's own reference server.

Both servers are asked for the least that they can do: ours for get_sandbox_info, the other for echo.  They take turns
in short slices, so that a machine that becomes slower does so for both.
"""

import json
import os
import pathlib
import time

from boxes import FRESH_STOCK
from client import HELLO, Calls, Client, Failed, Ours, Server, free_port, now, percentile

SLICES = 2
SESSIONS_WARM = 500
PACKAGE = "node_modules/@modelcontextprotocol/server-everything"
OURS = {"name": "get_sandbox_info", "arguments": {}}
THEIRS = {"name": "echo", "arguments": {"message": "hi"}}
RUN = {"name": "execute_python", "arguments": {"code": "1+1"}}
# SECURITY: the other server listens on every address of the machine; this makes it loopback.
ONLY_LOOPBACK = (
    "data:text/javascript,import net from 'node:net';const listen=net.Server.prototype.listen;"
    "net.Server.prototype.listen=function(port,...rest){"
    "return listen.call(this,{port:Number(port),host:'127.0.0.1'},...rest)}"
)
# key, text, over HTTP, clients, method (None: call the trivial tool), in flight
ROWS = (
    ("stdio_ping", "stdio, ping", False, 1, "ping", 1),
    ("stdio_call", "stdio, trivial call", False, 1, None, 1),
    ("stdio_list", "stdio, tools/list", False, 1, "tools/list", 1),
    ("stdio_many", "stdio, calls, 32 in flight", False, 1, None, 32),
    ("http_ping", "HTTP keep-alive, ping", True, 1, "ping", 1),
    ("http_call", "HTTP keep-alive, trivial call", True, 1, None, 1),
    ("http_list", "HTTP keep-alive, tools/list", True, 1, "tools/list", 1),
    ("http_many", "HTTP, calls of 64 clients", True, 64, None, 1),
)


class Side:
    """A server over stdio and one over HTTP, and their clients."""

    def __init__(self, start, call):
        self.call = call
        self.stdio, self.http = start(0), start(free_port())
        self.client = Client(self.stdio)

    def clients(self, http, count):
        """Over HTTP they are made for each use: servers close connections that are idle for seconds."""
        return [Client(self.http) for _ in range(count)] if http else [self.client]

    def run(self, clients, method, in_flight, seconds, calls=None):
        if not calls:
            calls = Calls(method or "tools/call", {} if method else self.call, in_flight=in_flight)
        calls.seconds = seconds
        return calls.run(clients)

    def warm_up(self, seconds):
        """Uses every path once, for a compiler that learns while it runs."""
        for _, _, http, count, method, in_flight in ROWS:
            clients = self.clients(http, count)
            self.run(clients, method, in_flight, seconds)
            leave(clients)

    def close(self):
        self.stdio.close()
        self.http.close()


def leave(clients):
    for client in clients:
        client.close()


def find_reference():
    """Node and the script of the reference server, and its version."""
    folder = pathlib.Path(os.environ.get("CONSTRICTOR_NPM") or "build/npm").resolve()
    script = folder / PACKAGE / "dist/index.js"
    nodes = [folder / f"node_modules/node-linux-{m}/bin/node" for m in ("x64", "arm64")]
    nodes = [n for n in (*nodes, pathlib.Path("/usr/bin/node")) if os.access(n, os.X_OK)]
    if not script.exists() or not nodes:
        raise Failed(f"{folder} has no server-everything, or there is no node: 'tools/setup npm' installs both")
    version = json.loads((folder / PACKAGE / "package.json").read_text()).get("version", "?")
    return str(nodes[0]), str(script), f"server-everything {version}"


def summary(calls):
    o = {"p50_us": None, "p99_us": None, "per_second": calls.done / calls.took if calls.took else None}
    if calls.latency:
        o.update(p50_us=percentile(calls.latency, 50), p99_us=percentile(calls.latency, 99))
    return o


def measure_rows(b, ours, theirs):
    rows, seconds = {}, b.few(0.4, 1.2) / SLICES
    for key, _, http, count, method, in_flight in ROWS:
        sides = {"ours": ours, "reference": theirs}
        clients = {name: side.clients(http, count) for name, side in sides.items() if side}
        calls = dict.fromkeys(clients)
        for _ in range(SLICES):
            for name in clients:
                calls[name] = sides[name].run(clients[name], method, in_flight, seconds, calls[name])
        rows[key] = {name: summary(calls[name]) if name in calls else None for name in sides}
        for name in clients:
            if name == "ours" or http:
                leave(clients[name])
    return rows


def measure_runs(b, side, http):
    """As the bare box is measured: one at a time, and the stock is full again before the next."""
    clients = side.clients(http, 1)
    Calls("tools/call", RUN, requests=20, pause_us=12000).run(clients)  # these make the server warm
    calls = Calls("tools/call", RUN, requests=b.few(100, 400), pause_us=12000).run(clients)
    leave(clients)
    return summary(calls)


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def status_kib(pid, key, file="status"):
    """A line of a file in /proc, such as 'VmRSS:   123 kB'; None when the process is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def cpu_us(pid):
    """Time on a processor; keeper and gate have no threads."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1000


def measure_idle(b):
    """Idle MCP clients, in a server of their own: memory that other figures gave back would hide theirs."""
    hello = {**HELLO, "capabilities": {"elicitation": {}}}
    count = b.few(2000, 10000)
    with Ours(b, "--mcp-sessions", 20000, port=free_port()) as server, Client(server) as client:
        (gate,) = [p for p in children(server.pid) if name_of(p) == name_of(server.pid)]

        def more(requests):
            Calls("initialize", hello, requests=requests, anonymous=True, seconds=30).run([client])

        more(SESSIONS_WARM)
        before = status_kib(gate, "VmRSS")
        more(count)
        b.set("mcp_session", (status_kib(gate, "VmRSS") - before) / count, 16, "the limit")
        time.sleep(0.5)  # what the load left behind is not idleness
        begin, used = now(), cpu_us(gate) + cpu_us(server.pid)
        time.sleep(2)
        percent = (cpu_us(gate) + cpu_us(server.pid) - used) / 1e4 / (now() - begin)
    total = count + SESSIONS_WARM
    b.set("mcp_idle", max(percent, 1e-4), 0.1, f"0.1 % of a core; {total} clients")
    return total


def measure(b):
    b.progress("a bare box, for the MCP server")  # again, near in time: machines change
    bare = b.load(stock=FRESH_STOCK, runs=b.few(100, 400), pause_us=12000)["p50_us"]
    b.progress("the MCP server, beside the reference implementation")
    ours = theirs = None
    try:
        ours = Side(lambda port: Ours(b, *(("--mcp-sessions", 1000) if port else ()), port=port), OURS)
        runs = {name: measure_runs(b, ours, http) for name, http in (("http", True), ("stdio", False))}
        try:
            node, script, reference = find_reference()
            argv = [node, "--import", ONLY_LOOPBACK, script]

            def start(port):
                return Server([*argv, "streamableHttp" if port else "stdio"], port, {"PORT": str(port)})

            theirs = Side(start, THEIRS)
        except Failed as why:
            reference = str(why)
        for side in filter(None, (ours, theirs)):
            side.warm_up(b.few(0.1, 0.3))
        rows = measure_rows(b, ours, theirs)
    finally:
        for side in filter(None, (ours, theirs)):
            side.close()
    for key, row in rows.items():
        other = row["reference"] or {}
        if key in ("stdio_many", "http_call", "http_many"):
            name = {"stdio_many": "mcp_stdio_rate", "http_call": "mcp_http_rate", "http_many": "mcp_http_rate_64"}[key]
            b.set(name, row["ours"]["per_second"], other.get("per_second"), reference, more=True)
        if not key.endswith("_many"):
            b.set(f"mcp_{key}", row["ours"]["p50_us"], other.get("p50_us"), reference)
    for name, run in runs.items():
        b.set(f"mcp_run_{name}", run["p50_us"], bare + 300, f"the bare box now, {bare:.0f} us, + 300 us")
    b.mcp = {"reference": reference, "rows": rows, "run_stdio": runs["stdio"], "run_http": runs["http"]}
    b.mcp["sessions"] = measure_idle(b)


def print_rows(m):
    def side(s):
        values = [s[k] if s else None for k in ("p50_us", "p99_us", "per_second")]
        return "".join(f" {'-':>9}" if v is None else f" {v:9.0f}" for v in values)

    print(f"\nMCP, beside {m['reference']} (its tool echo; ours get_sandbox_info)")
    print(f"{'':36}" + "".join(f" {h:>9}" for h in ("p50 us", "p99 us", "per s") * 2))
    for key, text, *_ in ROWS:
        print(f"{text:36}{side(m['rows'][key]['ours'])}{side(m['rows'][key]['reference'])}")
    print(f"{'stdio, execute_python 1+1':36}{side(m['run_stdio'])}")
    print(f"{'HTTP, execute_python 1+1':36}{side(m['run_http'])}")
