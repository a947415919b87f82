# SPDX-License-Identifier: Apache-2.0
"""timing: %time, %timeit and %prun. Their texts are those of IPython, because people know them."""

from math import floor, log10

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, need
from shell import Spot, UsageError, compile_body, compile_rest, run_steps

ONLY_AST = 0x400
LEAST_S = 0.2               # a measurement of %timeit lasts at least this long
LOOPS_MAX = 10 ** 9
UNITS = (1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")
TEMPLATE = """
def inner(_it, _timer):
    pass
    _began = _timer()
    for _i in _it:
        pass
    return _timer() - _began
"""


def text_of(seconds, precision=3):
    """A time in a fitting unit."""
    if seconds >= 60:
        parts = []
        for unit, length in ("d", 86400), ("h", 3600), ("min", 60), ("s", 1):
            count, seconds = divmod(seconds, length)
            if count:
                parts.append(f"{int(count)}{unit}")
        return " ".join(parts)
    order = min(-int(floor(log10(seconds)) // 3), 3) if seconds > 0 else 3
    scale, unit = UNITS[max(0, order)]
    return f"{seconds * scale:.{precision}g} {unit}"


# ---- Once ---------------------------------------------------------------------------------------

def measure(steps, spot):
    usage, timer, own = need("resource", "getrusage"), need("time", "perf_counter"), 0
    before, began = usage(own), timer()
    try:
        value = run_steps(steps, spot)
    finally:
        wall, after = timer() - began, usage(own)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        print(f"CPU times: user {text_of(user)}, sys: {text_of(system)}, total: {text_of(user + system)}\n"
              f"Wall time: {text_of(wall)}")
    return value


def time_line(shell, line, frame):
    """Run a statement and print how long it took."""
    spot = Spot(frame)
    if not line.strip():
        raise UsageError("usage: %time STATEMENT")
    return measure(compile_rest(line, spot), spot)


def time_cell(shell, line, cell, frame):
    """Run the code and print how long it took."""
    if line.strip():
        raise UsageError("%%time takes no statement on its own line: put it below, or use %time")
    return measure(compile_body(cell, Spot(frame)), None)


# ---- Often --------------------------------------------------------------------------------------

class TimeitResult:
    """The times of %timeit -o."""
    def __init__(self, loops, repeat, best, worst, all_runs, compile_time, precision):
        self.loops, self.repeat, self.best, self.worst = loops, repeat, best, worst
        self.all_runs, self.compile_time, self._precision = all_runs, compile_time, precision
        self.timings = [time / loops for time in all_runs]

    @property
    def average(self):
        return sum(self.timings) / len(self.timings)

    @property
    def stdev(self):
        mean = self.average
        return (sum([(time - mean) ** 2 for time in self.timings]) / len(self.timings)) ** 0.5

    def __str__(self):
        return (f"{text_of(self.average, self._precision)} ± {text_of(self.stdev, self._precision)} per loop "
                f"(mean ± std. dev. of {self.repeat} run{'s' * (self.repeat != 1)}, "
                f"{self.loops:,} loop{'s' * (self.loops != 1)} each)")

    def __repr__(self):
        return f"<TimeitResult : {self}>"

    def _repr_pretty_(self, p, cycle):
        p.text(repr(self))


def timeit_options(line):
    """(options, what follows) of %timeit -n 10 -r 3 -o -q statement."""
    options, rest = {"n": 0, "r": 7, "p": 3}, line.strip()
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        name, value = word[1:2], word[2:]
        if name and name in "nrp":
            if not value:
                value, _, rest = rest.partition(" ")
            if not value.isdigit() or not 0 < int(value) <= LOOPS_MAX:
                raise UsageError(f"-{name} needs a positive number")
            options[name], rest = int(value), rest.lstrip()
        elif word[1:] and all([letter in "oqtcv" for letter in word[1:]]):
            options.update(dict.fromkeys(word[1:], True))
        else:
            raise UsageError(f"unknown option '{clip(word, 60)}'; there are -n, -r, -p, -o, -q, -t and -c")
    return options, rest


def statements(text, spot, line):
    """The nodes of a text whose first line is `line` of the run."""
    source = ("\n" * max(0, line - 1) + text).encode()
    if Box.compiler is not None:
        Box.compiler(source, spot.filename)    # the policy may refuse it
    return compile(source, spot.filename, "exec", ONLY_AST | Box.futures, True).body


def timeit(options, setup, body, spot):
    """Measures the statements; prints the result, or returns it with -o."""
    clock = need("time", "process_time" if "c" in options and "t" not in options else "perf_counter")
    began = need("time", "perf_counter")()
    tree = compile(TEMPLATE, spot.filename, "exec", ONLY_AST, True)
    inner = tree.body[0]
    inner.body[2].body = body or inner.body[2].body
    inner.body[:1] = setup or inner.body[:1]
    names = dict(Box.main.__dict__)
    names.update(spot.frame.f_locals if spot.is_local() else ())
    made = {}
    exec(compile(tree, spot.filename, "exec", Box.futures, True), names, made)
    inner, took = made["inner"], need("time", "perf_counter")() - began
    collects, repeat = need("gc", "isenabled")(), need("itertools", "repeat")
    need("gc", "disable")()
    try:
        loops, runs = options["n"], []
        if not loops:
            loops = 1
            while loops < LOOPS_MAX and inner(repeat(None, loops), clock) < LEAST_S:
                loops *= 10
        for _ in range(options["r"]):
            runs.append(inner(repeat(None, loops), clock))
    finally:
        if collects:
            need("gc", "enable")()
    found = TimeitResult(loops, options["r"], min(runs) / loops, max(runs) / loops, runs, took,
                         options["p"])
    if "q" not in options:
        if found.worst > 4 * found.best and found.best > 0 and found.worst > 1e-6:
            print(f"The slowest run took {found.worst / found.best:.2f} times longer than the fastest. This "
                  "could mean that an intermediate result is being cached.")
        print(found)
    return found if "o" in options else None


def timeit_line(shell, line, frame):
    """Run a statement often and print how long it takes: %timeit [-n LOOPS] [-r RUNS] [-o] [-q] STATEMENT."""
    options, text = timeit_options(line)
    if not text:
        raise UsageError("usage: %timeit [-n LOOPS] [-r RUNS] [-o] [-q] STATEMENT")
    spot = Spot(frame)
    return timeit(options, [], statements(text, spot, spot.line), spot)


def timeit_cell(shell, line, cell, frame):
    """Run the code often and print how long it takes; a statement on the first line runs once."""
    options, text = timeit_options(line)
    spot = Spot(frame)
    setup = statements(text, spot, spot.line) if text else []
    return timeit(options, setup, statements(cell, spot, spot.line + 1), spot)


# ---- Where the time goes ------------------------------------------------------------------------

def prun(shell, line, frame):
    """Run a statement and print which functions took the time."""
    spot = Spot(frame)
    steps, profile = compile_rest(line, spot), need("cProfile", "Profile")()
    profile.enable()
    try:
        return run_steps(steps, spot)
    finally:
        profile.disable()
        need("pstats", "Stats")(profile).sort_stats("tottime").print_stats(30)
