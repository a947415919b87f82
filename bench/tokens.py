#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a server costs a model: tokens (o200k) of tools/list and of ten typical conversations.

    bench/tokens.py                                   this tree
    bench/tokens.py --before DIR/build/constrictor    beside an older build
    bench/tokens.py --others DIR                      beside servers of others; see OTHERS

Of the list, name, description and input schema count: clients give these to the model. Of a conversation, the arguments
of its calls and the text of its answers count; a picture costs its pixels and not its base64, so it counts nothing.
`forwarded` also counts structuredContent and output schemas, which some clients add. Tokens are counted by the npm package
gpt-tokenizer, which has the ranks of o200k in it; tools/setup npm puts it into build/npm.
"""

import argparse
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
NPM = TOP / "build/npm"
SILENCE_S = 30

PLOT = """import matplotlib.pyplot as plt
plt.plot([1, 4, 9, 16])
plt.title('Squares')
plt.show()"""
TABLE = """import pandas as pd
pd.DataFrame({'city': ['Oslo', 'Rome', 'Bern'], 'people': [709000, 2750000, 134000]})"""
ERROR = """import json
def read(text):
    return json.loads(text)
read('{"a": 1,}')"""
NETWORK = "import urllib.request\nurllib.request.urlopen('http://host.invalid/data.csv', timeout=5)"
# name, code, arguments of our tool beside it
CONVERSATIONS = (
    ("value", "6 * 30", {}),
    ("print", "for i in range(3): print('row', i)", {}),
    ("plot", PLOT, {}),
    ("table", TABLE, {}),
    ("error", ERROR, {}),
    ("timeout", "total = 0\nwhile True:\n    total += 1", {"timeout": 2}),
    ("missing package", "import sklearn", {}),
    ("file", "open('out.csv', 'w').write('a,b\\n1,2\\n')", {}),
    ("long output", "for i in range(20000): print('line', i)", {}),
    ("refused network", NETWORK, {}),
)


class Failed(Exception):
    """Says why a figure is missing."""


def count(texts):
    """The number of o200k tokens of each text."""
    node = next((f for f in NPM.glob("node_modules/node-linux-*/bin/node") if os.access(f, os.X_OK)), "node")
    done = subprocess.run([node, TOP / "bench/tokens.mjs", NPM], input=json.dumps(texts).encode(), capture_output=True)
    if done.returncode:
        raise Failed(f"tokens cannot be counted; 'tools/setup npm' installs what is missing: {done.stderr.decode()[-300:]}")
    return json.loads(done.stdout)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Stdio:
    """An MCP server on its stdin and stdout."""

    def __init__(self, command, env=None, cwd=None):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **(env or {})}, cwd=cwd)
        self.last, self.rest = 0, b""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tokens", "version": "1"}}
        try:
            self.hello = self.ask("initialize", hello)
        except Failed:
            self.close()
            raise
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], SILENCE_S)[0]:
                raise Failed(f"silent for {SILENCE_S} s")
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                self.log.seek(0)
                raise Failed(f"ended: {self.log.read().decode(errors='replace')[-500:]}")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def ask(self, method, params):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        while True:
            try:
                message = json.loads(self.line())
            except ValueError:
                continue  # some print to stdout
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    raise Failed(f"{method}: {message['error']}")
                return message["result"]

    def call(self, name, arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def shown(answer):
    """What a model reads of an answer: its text, and links as the client writes them."""
    parts = []
    for block in answer.get("content", []):
        if block["type"] == "text":
            parts.append(block["text"])
        elif block["type"] not in ("image", "audio"):
            parts.append(compact(block))
    return "\n".join(parts)


def listed(tools):
    return [compact({"name": t["name"], "description": t.get("description", ""), "inputSchema": t["inputSchema"]}) for t in tools]


class Ours:
    """constrictor stdio; `before` of version 6f92a27 has the same tool with the same arguments."""

    def __init__(self, program, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="tokens-", dir="/var/tmp")
        self.link = Stdio([program, "stdio", "--python", TOP / "build/venv-data/bin/python", "--preload",
                           "pandas,matplotlib.pyplot", "--memory", "1G", *flags], {"CONSTRICTOR_STATE": self.folder.name + "/state"})

    def talk(self, code, more):
        arguments = {"code": code, **more}
        return arguments, self.link.call("execute_python", arguments)

    def close(self):
        self.link.close()
        self.folder.cleanup()


class Other:
    """A server that was installed from a registry, with one tool that runs code."""

    def __init__(self, command, tool, key, timeout=None, env=None, cwd=None):
        self.link = Stdio(command, env, cwd)
        self.tool, self.key, self.timeout = tool, key, timeout

    def talk(self, code, more):
        if more and not self.timeout:
            raise Failed("no time limit")
        arguments = {self.key: code, **({self.timeout: more["timeout"]} if more else {})}
        return arguments, self.link.call(self.tool, arguments)

    def close(self):
        self.link.close()


def measure(make):
    """{row: (tokens, tokens with what some clients forward) or the reason why not}"""
    texts, found, side = {}, {}, make()
    try:
        tools = side.link.ask("tools/list", {})["tools"]
        texts["tools/list"] = "\n".join(listed(tools)), "\n".join([*listed(tools), *(compact(t["outputSchema"]) for t in tools if "outputSchema" in t)])
        for name, code, more in CONVERSATIONS:
            try:
                arguments, answer = side.talk(code, more)
            except Failed as why:
                found[name] = str(why)
                print(f"tokens: {name}: {why}", file=sys.stderr)
                side.close()  # it may hang
                side = make()
                continue
            said = compact(arguments) + "\n" + shown(answer)
            texts[name] = said, said + "\n" + compact(answer.get("structuredContent", {}))
            if os.environ.get("TOKENS_SHOW"):
                print(f"--- {name}\n{shown(answer)}\n... {compact(answer.get('structuredContent', {}))[:3000]}", file=sys.stderr)
    finally:
        side.close()
    numbers = iter(count([text for pair in texts.values() for text in pair]))
    for name in texts:
        found[name] = next(numbers), next(numbers)
    return found


def table(columns):
    rows = ["tools/list", *(name for name, _, _ in CONVERSATIONS)]
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        cells = []
        for found in columns.values():
            value = found.get(row, "-") if isinstance(found, dict) else "-"
            cells.append(f"{value[0]:,} ({value[1]:,})" if isinstance(value, tuple) else "-")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    totals = []
    for found in columns.values():
        pairs = [found[row] for row in rows if isinstance(found.get(row), tuple)]
        whole = f"{sum(p[0] for p in pairs):,} ({sum(p[1] for p in pairs):,})"
        totals.append(whole if len(pairs) == len(rows) else f"{whole}, {len(pairs)} of {len(rows)}")
    lines.append("| sum | " + " | ".join(totals) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=TOP / "build/constrictor")
    parser.add_argument("--before", help="the program of an older build, in its tree")
    parser.add_argument("--others", help="folder with others.json: {name: [command, tool, argument of the code, of the time limit]}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sides = {}
    if options.before:
        sides["before"] = lambda: Ours(options.before)
    sides["constrictor"] = lambda: Ours(options.program)
    sides["--tools full"] = lambda: Ours(options.program, "--tools", "full")
    if options.others:
        folder = pathlib.Path(options.others)
        for name, row in json.loads((folder / "others.json").read_text()).items():
            sides[name] = lambda row=row: Other(*row, cwd=folder)
    columns = {}
    for name, make in sides.items():
        try:
            columns[name] = measure(make)
        except Failed as why:
            print(f"tokens: {name}: {why}", file=sys.stderr)
    print(json.dumps(columns, indent=1) if options.json else table(columns))


if __name__ == "__main__":
    main()
