# SPDX-License-Identifier: Apache-2.0
"""What figures are compared with: cold interpreters, and interpreters that run a script."""

import contextlib
import json
import os
import subprocess

from client import Failed, now

# A warm interpreter forks itself, and the child evaluates what the boxes evaluate.  There is no wall and no pipe, so
# this is the most that a design of warm interpreters can reach on this machine.
FORKS = """
import gc, json, os, sys, time
workers, seconds = int(sys.argv[1]), float(sys.argv[2])
gc.freeze(); gc.disable()
begin = time.perf_counter()
here, there = os.pipe()
for _ in range(workers):
    if os.fork() == 0:
        count = 0
        while time.perf_counter() - begin < seconds:
            child = os.fork()
            if child == 0:
                eval(compile('1+1', '<code>', 'eval'), {})
                os._exit(0)
            os.waitpid(child, 0)
            count += 1
        os.write(there, b'%d ' % count)
        os._exit(0)
for _ in range(workers):
    os.wait()
total = sum(map(int, os.read(here, 4096).split()))
print(json.dumps(total / (time.perf_counter() - begin)))
"""


def once(argv):
    null = os.open("/dev/null", os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in range(3)]
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    os.close(null)
    return os.waitpid(pid, 0)[1] == 0


def cold(argv, count):
    """Microseconds of each of `count` starts.  The first fills the page cache and does not count."""
    times = []
    for i in range(count + 1):
        begin = now()
        if not once(argv):
            raise Failed(f"start '{' '.join(argv)}'")
        times.append((now() - begin) * 1e6)
    return times[1:]


def cold_rate(argv, workers, seconds):
    """Starts per second, one after the other in each worker."""
    here, there = os.pipe()
    begin = now()
    for _ in range(workers):
        if os.fork() == 0:
            count = 0
            with contextlib.suppress(BaseException):
                while now() - begin < seconds and once(argv):
                    count += 1
                os.write(there, b"%d " % count)
            os._exit(0)
    for _ in range(workers):
        os.wait()
    took = now() - begin
    counts = os.read(here, 4096).split()
    os.close(here)
    os.close(there)
    return sum(map(int, counts)) / took


def script(python, code, *arguments):
    """What code prints, as JSON; None when it failed."""
    argv = [python, "-c", code, *map(str, arguments)]
    with contextlib.suppress(OSError, ValueError):
        return json.loads(subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True).stdout)
    return None
