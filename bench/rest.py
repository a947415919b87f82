# SPDX-License-Identifier: Apache-2.0
"""The REST API: batches beside cold interpreters, streams beside plain answers, the server's memory."""

import time

from client import Failed, Ours, Rest, free_port, now, percentile
from mcp import children, name_of, status_kib

BATCH = 1000
OUTPUT_BYTES = 10_000_000
# Short programs with asserts, of the kind that models are tested with.
PROGRAMS = (
    """from typing import List
def has_close_elements(numbers: List[float], threshold: float) -> bool:
    for i, a in enumerate(numbers):
        for b in numbers[i + 1:]:
            if abs(a - b) < threshold:
                return True
    return False
assert has_close_elements([1.0, 2.0, 3.9, 4.0], 0.3)
assert not has_close_elements([1.0, 2.0, 3.0], 0.5)
""",
    """def below_zero(operations):
    balance = 0
    for operation in operations:
        balance += operation
        if balance < 0:
            return True
    return False
assert below_zero([1, 2, -4, 5]) and not below_zero([1, 2, 3])
""",
    """import math
def is_prime(n):
    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))
assert [n for n in range(30) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
""",
    """import re, collections
def count_words(text):
    return collections.Counter(re.findall(r'[a-z]+', text.lower()))
assert count_words('A b a, c. B a')['a'] == 3
print('ok')
""",
)


def server_mib(server):
    """The server itself: the keeper and the processes of its own name, without zygote and boxes."""
    own = [p for p in children(server.pid) if name_of(p).startswith("constrictor")]
    return sum(status_kib(p, "VmRSS") or 0 for p in (server.pid, *own)) / 1024


def run_batch(rest, codes):
    """Seconds for all of it."""
    items = [{"code": codes[i % len(codes)]} for i in range(BATCH)]
    begin = now()
    answer = rest.call("POST", "batch", {"items": items, "order": "finish"})
    took = now() - begin
    if b'"failed":0,' not in bytes(answer[-256:]):
        raise Failed("a run of a batch failed")
    return took


def measure_stream(b, rest):
    """In turns, so that both meet the same machine."""
    bodies = ({"code": "1+1", "stream": False}, {"code": "1+1"})
    times = ([], [])
    for i in range(2 * b.few(100, 400) + 20):
        begin = now()
        rest.call("POST", "execute", bodies[i % 2])
        if i >= 20:  # it is warm then
            times[i % 2].append((now() - begin) * 1e6)
        time.sleep(0.012)  # the stock is full again
    plain, lines = (percentile(t, 50) for t in times)
    b.set("rest_stream", max(lines - plain, 1), 300, f"the limit, 300 us; a plain run {plain:.0f} us")


def measure_output(b, rest):
    code = "import sys; sys.stdout.write(('x' * 99 + '\\n') * 100000)"
    times = []
    for _ in range(b.few(5, 15)):
        begin = now()
        answer = rest.call("POST", "execute", {"code": code})
        times.append((now() - begin) * 1e6)
        if len(answer) < 2 * OUTPUT_BYTES:  # its lines, and the whole object behind them
            raise Failed("output is missing")
    note = "the limit, 100 MB/s; from the request to the end of it all"
    b.set("rest_output", OUTPUT_BYTES / percentile(times, 50), 100, note, more=True)


def measure_batch(b, rest):
    best = min(run_batch(rest, ["1+1"]) for _ in range(b.few(1, 3)))
    note = "cold python3 -c per second, one worker per core"
    b.set("rest_batch", BATCH / best, b.cold_rate, note, more=True)


def measure_programs(b, rest, server):
    run_batch(rest, PROGRAMS)
    before, rounds = server_mib(server), b.few(1, 4)
    took = sum(run_batch(rest, PROGRAMS) for _ in range(rounds))
    after = server_mib(server)
    b.set("rest_programs", rounds * BATCH / took, None, "no limit of its own")
    note = f"the limit, 4 MiB; it has {after:.1f}, and had {before:.1f}"
    b.set("rest_memory", max(after - before, 0.1), 4, note)


def measure(b):
    b.progress("REST, beside cold interpreters")
    port = free_port()
    with Ours(b, "--output", "32M", port=port, stock=32) as server:
        rest = Rest(port)
        measure_stream(b, rest)
        measure_output(b, rest)
        measure_batch(b, rest)
        measure_programs(b, rest, server)
