#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rate of POST /api/v1/batch beside cold interpreters on all cores, and its false timeouts.

    bench/batch.py [--programs 5000] [--slow 1000] [--python python3 ...]

The programs are short and end with asserts. Each interpreter named runs them as `python -I -S -c`, as many at a time as
there are cores; the fastest one counts. Then programs that take half a second of processor time run with a limit of 2 s.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHORT = "def f(n):\n    return n * (n + 1) // 2\nassert f({0}) == sum(range({0} + 1))\nassert f({0}) >= {0}\nprint(f({0}))"
SLOW = "import time\nwhile time.process_time() < 0.5: pass\nassert True"


def stream(port, codes, query=""):
    """Sends the programs as lines and reads the answers as they come; the last line."""
    sock = socket.create_connection(("127.0.0.1", port))
    head = (f"POST /api/v1/batch{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")  # fmt: skip

    def send():
        sock.sendall(head.encode())
        for code in codes:
            line = json.dumps({"code": code}).encode() + b"\n"
            sock.sendall(b"%x\r\n%s\r\n" % (len(line), line))
        sock.sendall(b"0\r\n\r\n")

    threading.Thread(target=send, daemon=True).start()
    answer, last = http.client.HTTPResponse(sock), b""
    answer.begin()
    for line in answer:
        last = line if line.strip() else last
    return json.loads(last)


def object_of(port, codes):
    """The same in one request and one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
    connection.request("POST", "/api/v1/batch", json.dumps({"items": [{"code": code} for code in codes]}),
                       {"Content-Type": "application/json"})  # fmt: skip
    answer, last = connection.getresponse(), b""
    for line in answer:
        last = line if line.strip() else last
    return json.loads(last)


def cold(python, codes):
    def run(code):
        subprocess.run([python, "-I", "-S", "-c", code], check=True, stdout=subprocess.DEVNULL)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, codes))
    return len(codes) / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--slow", type=int, default=1000)
    parser.add_argument("--python", nargs="+", default=["python3", "/usr/bin/python3"])
    args = parser.parse_args()
    codes = [SHORT.format(i) for i in range(args.programs)]
    with tempfile.TemporaryDirectory() as state:
        server = subprocess.Popen([f"{TOP}/build/constrictor", "serve", "--port", "0", "--state", state, "--offline"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        try:
            port = next(int(m[1]) for line in server.stdout if (m := re.search(r":(\d+)/mcp", line)))
            object_of(port, codes[:50])
            rates = {python: cold(python, codes[: args.programs // 5]) for python in args.python}
            best = max(rates.values())
            print("cold:  " + ", ".join(f"{python} {rate:.0f}/s" for python, rate in rates.items()))
            for name, call in ("object", object_of), ("lines", stream):
                done = call(port, codes)
                rate = done["total"] / done["wall_ms"] * 1000
                assert done["passed"] == args.programs, done
                print(f"batch: {rate:.0f}/s as {name}, {rate / best:.1f} times the fastest; p50 {done['p50_ms']} ms, p99 {done['p99_ms']} ms")
            if args.slow:
                done = stream(port, [SLOW] * args.slow, "?timeout=2")
                print(f"slow:  {args.slow} programs of 0.5 s with a limit of 2 s: {done['verdicts']}, p99 {done['p99_ms']} ms")
            print(f"largest process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB (this client)")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
