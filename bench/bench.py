#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench: measures constrictor beside cold interpreters, ipykernel, uv and the MCP reference server.

Machines are noisy, so a figure is a ratio against something that was measured in the same run, with medians and p99.
FIGURES has all of them with their targets; each group is a function that fills its rows.  `make bench` calls this
with BENCH_ARGS; options that are not known here go to constrictor.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import boxes
import check
import cold
import env
import mcp
import network
import rest
import session
from client import Failed, percentile

TOP = pathlib.Path(__file__).resolve().parent.parent

# group, name, text, unit, target: reached when the ratio is not less.  A figure without a target has 0.
FIGURES = """
fresh   fresh_p50           | fresh box, 1+1, p50                            | us   | 25
fresh   fresh_p99           | fresh box, 1+1, p99                            | us   | 5
data    data_p50            | numpy, pandas, matplotlib used, p50            | us   | 500
rate    rate                | fresh boxes per second, sustained              | /s   | 8
live    live_10             | ten runs in one live box                       | us   | 200
hundred hundred             | 100 boxes, a numpy expression each, at once    | ms   | 0.6667
growth  memory_bare         | memory of a parked box                         | MiB  | 1
memory  memory_data         | memory of a parked box, data stack             | MiB  | 1
command command             | constrictor run -c 'print(1)', cold            | ms   | 0.4
mcp     mcp_stdio_ping      | MCP over stdio, ping, p50                      | us   | 1
mcp     mcp_stdio_call      | MCP over stdio, trivial call, p50              | us   | 1
mcp     mcp_stdio_list      | MCP over stdio, tools/list, p50                | us   | 1
mcp     mcp_stdio_rate      | MCP calls per second, stdio, 32 in flight      | /s   | 1
mcp     mcp_http_ping       | MCP over HTTP, ping, p50                       | us   | 1
mcp     mcp_http_call       | MCP over HTTP, trivial call, p50               | us   | 1
mcp     mcp_http_list       | MCP over HTTP, tools/list, p50                 | us   | 1
mcp     mcp_http_rate       | MCP calls per second, one connection           | /s   | 10
mcp     mcp_http_rate_64    | MCP calls per second, 64 connections           | /s   | 10
mcp     mcp_run_stdio       | execute_python 1+1 over stdio, p50             | us   | 1
mcp     mcp_run_http        | execute_python 1+1 over HTTP, p50              | us   | 1
mcp     mcp_session         | memory of an idle client of MCP                | KiB  | 1
mcp     mcp_idle            | processor, all idle clients together           | %    | 1
session session_10          | ten runs in a session, stdio, beyond the box   | us   | 1
session session_open        | opening a session over stdio, p50              | us   | 1
session session_memory      | idle sessions and their server, data stack     | MiB  | 1
session session_open_kernel | opening a session, beside ipykernel            | us   | 100
session session_pss         | memory of an idle session, data stack          | MiB  | 20
session session_pss_bare    | memory of an idle session, nothing preloaded   | MiB  | 20
session session_checkpoint  | a run after a checkpoint of 120 MiB, p50       | us   | 3
session file_upload         | 10 MB up over REST                             | MB/s | 1
session file_download       | 10 MB down over REST                           | MB/s | 1
session session_plot        | a simple figure in a session, p50              | us   | 0.7692
network network_start       | fresh box with network, 1+1, p50               | us   | 0.5
network network_request     | a request, beyond a direct one, p50            | us   | 1
network network_connect     | a new connection and a request, p50            | us   | 0
network network_down        | 256 MiB down, through the broker               | MB/s | 1
check   check               | validate_code, 200 new lines, p50              | us   | 1
check   check_cold          | the same                                       | us   | 10
env     env_first_cold      | new session, first import, cold, p50           | us   | 1
env     env_first_wheels    | the same, the last of 65 packages, p50         | us   | 1
env     env_numpy_cold      | the same, numpy, cold, p50                     | us   | 1
env     env_install         | install of known wheels                        | us   | 0.8333
env     env_disk            | disk of another environment with the same      | KiB  | 1
env     env_list            | a list of 200 environments over REST, p50      | us   | 1
env     env_first_warm      | new session, first import, warm, p50           | us   | 1
env     env_numpy_warm      | the same, numpy, warm, p50                     | us   | 1
rest    rest_stream         | NDJSON, beyond a plain run, p50                | us   | 1
rest    rest_output         | 10 MB of output in a stream                    | MB/s | 1
rest    rest_batch          | a batch of 1,000 1+1, each in a fresh box      | /s   | 8
rest    rest_programs       | 1,000 short programs with asserts, in a batch  | /s   | 0
rest    rest_memory         | what the server grew by with them              | MiB  | 1
"""
GROUPS = {
    "fresh": boxes.fresh,
    "data": boxes.data,
    "rate": boxes.rate,
    "live": boxes.live,
    "hundred": boxes.hundred,
    "growth": boxes.growth,
    "memory": boxes.memory,
    "command": boxes.command,
    "mcp": mcp.measure,
    "session": session.measure,
    "network": network.measure,
    "check": check.measure,
    "env": env.measure,
    "rest": rest.measure,
}


class Figure:
    def __init__(self, line):
        name, self.text, self.unit, target = (part.strip() for part in line.split("|"))
        self.group, self.name = name.split()
        self.target = float(target)
        self.value = self.ratio = None
        self.note = ""

    def reached(self):
        return self.value is not None and self.ratio is not None and self.ratio >= self.target


class Bench:
    def __init__(self, args, options):
        self.program, self.load_program = (str((TOP / p).resolve()) for p in (args.program, args.load))
        self.options = options  # for every command of constrictor
        self.quick, self.verbose, self.find_links = args.quick, not args.json, args.find_links
        probe = "import json, sys, platform; print(json.dumps([sys.executable, platform.python_version()]))"
        said = cold.script(args.python, probe)
        if not said:
            sys.exit(f"bench: error: '{args.python}' does not run")
        self.python, self.version = said
        self.figures = {f.name: f for f in map(Figure, FIGURES.strip().splitlines())}
        self.growth, self.mcp, self.failures = [], None, []
        self.cores = os.cpu_count()
        self.plain, self.bare, self.numpy, self.stack = [], [], None, None

    def few(self, quick, full):
        return quick if self.quick else full

    def progress(self, text):
        if self.verbose:
            print(f"  {text} ...", file=sys.stderr, flush=True)

    def set(self, name, value, other=None, note="", more=False):
        """A figure, and what it is compared with; `more`: more is better."""
        f = self.figures[name]
        f.value, f.note = value, note
        if value and other and value > 0 and other > 0:
            f.ratio = value / other if more else other / value

    def note(self, name, text):
        """Why a figure is not measured."""
        self.figures[name].note = text

    def attempt(self, function, *arguments):
        """A part that may fail while others go on."""
        try:
            return function(*arguments)
        except (Failed, OSError, KeyError, IndexError, ValueError, subprocess.SubprocessError) as why:
            self.failures.append(str(why) or repr(why))
            return None

    def load(self, **load):
        """Runs in boxes without a server: bench/load.c."""
        argv = [self.load_program, "--python", self.python, *self.options, json.dumps(load)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            raise Failed(done.stderr.strip()[:300] or "the load program failed") from None
        if not report["ok"]:
            raise Failed(report["failure"] or "the load failed")
        return report

    def measure_cold(self):
        self.progress("cold interpreters")
        count = self.few(20, 60)
        self.plain += cold.cold([self.python, "-c", "1+1"], count)
        self.bare += cold.cold([self.python, "-I", "-S", "-c", "1+1"], count)

    def measure_rates(self):
        count, seconds = self.few(3, 7), self.few(1, 3)
        try:
            self.stack = cold.cold([self.python, "-c", "import numpy, pandas, matplotlib.pyplot"], count)
            self.numpy = cold.cold([self.python, "-c", "import numpy"], count)
        except Failed:
            self.stack = self.numpy = None
        self.cold_rate = cold.cold_rate([self.python, "-c", "1+1"], self.cores, seconds)
        self.fork_rate = cold.script(self.python, cold.FORKS, self.cores, seconds)

    def cold_p50(self):
        return percentile(self.plain, 50)


def print_table(b, groups):
    print(f"interpreter {b.python}, Python {b.version}, {b.cores} cores")
    p50, p99, bare = percentile(b.plain, 50), percentile(b.plain, 99), percentile(b.bare, 50)
    print(
        f"cold python3 -c: p50 {p50 / 1000:.2f} ms, p99 {p99 / 1000:.2f} ms; -I -S: p50 {bare / 1000:.2f} ms; "
        f"{b.cold_rate:.0f} per second"
    )
    if b.fork_rate:
        print(
            f"bare forks of a warm interpreter that evaluate 1+1, no wall around them: {b.fork_rate:.0f} per second "
            f"({b.fork_rate / b.cold_rate:.2f}x)"
        )
    if b.stack:
        numpy, stack = percentile(b.numpy, 50) / 1000, percentile(b.stack, 50) / 1000
        print(f"cold import of numpy {numpy:.0f} ms; of numpy, pandas, matplotlib.pyplot {stack:.0f} ms")
    print(f"\n{'figure':46} {'value':>12} {'ratio':>10} {'must be':>10}")
    for f in b.figures.values():
        if f.group not in groups:
            continue
        if f.value is None:
            print(f"{f.text:46} {'-':>12} {'-':>10} {'-':>10}  not measured: {f.note}")
        elif f.ratio is None:
            print(f"{f.text:46} {f.value:8.2f} {f.unit:3} {'-':>10} {f.target:9.2f}x  {f.note}")
        else:
            verdict = "reached" if f.reached() else "NOT REACHED"
            print(
                f"{f.text:46} {f.value:8.2f} {f.unit:3} {f.ratio:9.2f}x {f.target:9.2f}x  {verdict} "
                f"(against {f.note})"
            )
    if b.growth:
        print("\nhow cost grows with parked boxes")
        print(f"{'boxes':>8} {'p50 us':>10} {'p99 us':>10} {'memory MiB':>14} {'keeper MiB':>12} {'keeper fds':>12}")
    for row in b.growth:
        print(
            f"{row['boxes']:8} {row['p50_us']:10.0f} {row['p99_us']:10.0f} {row['pss_mib']:14.1f} "
            f"{row['keeper_rss_mib']:12.1f} {row['keeper_fds']:12}"
        )
    if b.mcp:
        mcp.print_rows(b.mcp)


def print_json(b, groups):
    rows = [
        {
            "name": f.name,
            "text": f.text,
            "value": f.value,
            "unit": f.unit,
            "ratio": f.ratio,
            "target": f.target,
            "reached": f.reached(),
            "against": f.note,
        }
        for f in b.figures.values()
        if f.group in groups
    ]
    o = {
        "python": b.python,
        "version": b.version,
        "cold_p50_us": percentile(b.plain, 50),
        "cold_p99_us": percentile(b.plain, 99),
        "cold_bare_p50_us": percentile(b.bare, 50),
        "cold_rate": b.cold_rate,
        "fork_rate": b.fork_rate,
        "figures": rows,
        "growth": b.growth,
        "mcp": b.mcp,
    }
    print(json.dumps(o, indent=2))


def main():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--only", choices=["all", *GROUPS], default="all", help="measure one group of figures")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: about two minutes for all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--soak", type=int, metavar="RUNS", help="only make this many runs and show what grows")
    parser.add_argument("--python", default="python3", help="the interpreter of the boxes")
    parser.add_argument("--find-links", metavar="DIR", help="wheels for the environments, beside those made here")
    parser.add_argument("--program", default="build/constrictor", help="(build/constrictor)")
    parser.add_argument("--load", default="build/constrictor-load", help="(build/constrictor-load)")
    args, options = parser.parse_known_args()
    b = Bench(args, options)
    if args.soak:
        report = b.attempt(lambda: b.load(stock=16, runs=args.soak, at_once=8, memory=True))
        print(json.dumps(report or {"ok": False, "failure": b.failures[0]}, indent=2))
        return 0 if report else 1
    groups = [args.only] if args.only != "all" else list(GROUPS)
    b.measure_cold()
    b.measure_rates()
    for group in groups:
        b.attempt(GROUPS[group], b)
    b.measure_cold()  # again: machines change while they are measured
    for failure in b.failures:
        print(f"bench: a measurement failed: {failure}", file=sys.stderr)
    (print_json if args.json else print_table)(b, groups)
    return 0


if __name__ == "__main__":
    sys.exit(main())
