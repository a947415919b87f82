# SPDX-License-Identifier: Apache-2.0
"""Boxes without a server, and the command `constrictor run`."""

from client import now, percentile
from cold import cold

STACK = "numpy,pandas,matplotlib.pyplot"
DATA_CODE = """import numpy as np, pandas as pd, matplotlib.pyplot as plt
float(pd.DataFrame({'a': np.arange(4.0)})['a'].sum()) + len(plt.get_fignums())"""
NUMPY_CODE = "import numpy as np\nfloat((np.arange(100.0) ** 2).sum())"
NO_DATA = "numpy, pandas or matplotlib is not installed"
FRESH_STOCK = 16


def fresh(b):
    b.progress("fresh boxes, one at a time")
    r = b.load(stock=FRESH_STOCK, runs=b.few(200, 1000), pause_us=12000)
    for name in ("p50", "p99"):
        b.set(f"fresh_{name}", r[f"{name}_us"], b.cold_p50(), "cold python3 -c, p50")


def data(b):
    if not b.stack:
        b.note("data_p50", NO_DATA)
        return
    b.progress("fresh boxes with the data stack")
    r = b.load(code=DATA_CODE, preload=STACK, runs=b.few(60, 300), pause_us=20000)
    b.set("data_p50", r["p50_us"], percentile(b.stack, 50), "cold import of the three")


def rate(b):
    b.progress("fresh boxes, as many as possible")
    r = b.load(stock=32, runs=1000000, at_once=8, seconds=b.few(2.0, 5.0))
    note = "cold python3 -c per second, one worker per core"
    b.set("rate", r["runs"] / r["seconds"], b.cold_rate, note, more=True)


def live(b):
    b.progress("runs in one live box")
    r = b.load(stock=2, runs=b.few(5000, 20000), live=True)
    b.set("live_10", 10 * r["p50_us"], 10 * b.cold_p50(), "ten cold python3 -c")


def hundred(b):
    if not b.numpy:
        b.note("hundred", "numpy is not installed")
        return
    b.progress("a hundred boxes at once")
    r = b.load(code=NUMPY_CODE, preload="numpy", stock=100, runs=100, at_once=100)
    b.set("hundred", r["seconds"] * 1000, percentile(b.numpy, 50) / 1000, "one cold import numpy")


def box_mib(few, many):
    more = many["boxes"] - few["boxes"]
    return (many["pss_kb"] - few["pss_kb"]) / more / 1024 if more > 0 else None


def growth(b):
    """1, 10, 100, 1,000 parked boxes: how long a run takes, and what they weigh."""
    weights = {}
    for boxes in (1, 10, 100) if b.quick else (1, 10, 100, 1000):
        b.progress(f"{boxes} parked boxes")
        begin = now()
        r = b.load(stock=boxes, runs=100, pause_us=4000, memory=True)
        m = weights[boxes] = r["before"]
        b.growth.append(
            {
                "boxes": m["boxes"],
                "p50_us": r["p50_us"],
                "p99_us": r["p99_us"],
                "pss_mib": m["pss_kb"] / 1024,
                "keeper_rss_mib": m["keeper_rss_kb"] / 1024,
                "seconds": now() - begin,
                "keeper_fds": m["keeper_fds"],
            }
        )
    b.set("memory_bare", box_mib(weights[10], weights[max(weights)]), 2, "the limit")


def memory(b):
    if not b.stack:
        b.note("memory_data", NO_DATA)
        return
    b.progress("memory with the data stack")
    few, many = (b.load(preload=STACK, stock=boxes, memory=True)["before"] for boxes in (2, 34))
    b.set("memory_data", box_mib(few, many), 4, "the limit")


def command(b):
    b.progress("the command, cold")
    times = cold([b.program, "run", "--python", b.python, *b.options, "-c", "print(1)"], b.few(20, 60))
    b.set("command", percentile(times, 50) / 1000, b.cold_p50() / 1000, "cold python3 -c")
