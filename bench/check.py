# SPDX-License-Identifier: Apache-2.0
"""validate_code, beside a cold py_compile and CPython's own parser."""

import pathlib
import tempfile

from client import Client, Ours, percentile
from cold import cold, script

# Ten lines, of the kind that people and models write.
PART = '''def work_{n}(values, limit=10):
    """Adds up some of the values."""
    total = 0
    for index, value in enumerate(values):
        if value > limit and index % 3 == 0:
            total += value * 2
        elif value < 0:
            continue
    return total / max(len(values), 1)

'''
PARSER = """
import ast, gc, json, sys, time
gc.disable()
took = []
for number in range(300):
    text = sys.argv[1].replace('work_', f'work_{number}_')
    begin = time.perf_counter()
    tree = ast.parse(text)
    took.append(time.perf_counter() - begin)
print(json.dumps(sorted(took)[len(took) // 2] * 1e6))
"""


def source(number):
    """200 lines; `number` makes them other ones."""
    return "".join(PART.replace("{n}", str(number * 200 + i)) for i in range(20))


def measure(b):
    b.progress("validate_code, beside a cold python3 -m py_compile")
    count = b.few(150, 600)
    with Ours(b) as server, Client(server) as client:
        client.tool("validate_code", code=source(0))  # the first one takes a box
        new = [client.tool("validate_code", code=source(i))[0] for i in range(1, count + 1)]
        same = [client.tool("validate_code", code=source(count))[0] for _ in range(count)]
    parser = script(b.python, PARSER, source(0))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "code.py")
        path.write_text(source(0))
        compiled = percentile(cold([b.python, "-m", "py_compile", str(path)], b.few(10, 30)), 50)
    new, same = percentile(new, 50), percentile(same, 50)
    note = f"the limit, 1 ms; the same text again, {same:.0f} us; CPython's parser alone, warm, {parser:.0f} us"
    b.set("check", new, 1000, note)
    b.set("check_cold", new, compiled, f"cold python3 -m py_compile, {compiled / 1000:.1f} ms")
