# SPDX-License-Identifier: Apache-2.0
"""The zygote's memory, which every box maps (src/box/image.c): shared for reading, never for writing."""

import textwrap

import pytest
from conftest import open_cli
from rest_client import serve


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


def run(api, code, **more):
    answer = api.run(textwrap.dedent(code), **more)
    assert answer["verdict"] == "ok", answer
    return answer["result_json"]


def test_a_box_maps_it_privately_and_has_no_descriptor(api):
    found = run(
        api,
        """
        import os
        lines = [line.split() for line in open("/proc/self/maps") if "image (deleted)" in line]
        open_ones = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        links = [os.readlink(path) for path in open_ones if os.path.islink(path)]
        sorted({line[1] for line in lines}), [link for link in links if "image" in link], len(lines)
        """,
    )
    assert found[:2] == [["rwxp"], []] and found[2] > 3, found


def test_no_way_to_its_file(api):
    """By its name in /proc, which the kernel gives to no process in a box."""
    found = run(
        api,
        """
        import os
        line = next(line for line in open("/proc/self/maps") if "image (deleted)" in line)
        try:
            found = os.open("/proc/self/map_files/" + line.split()[0], os.O_RDWR)
        except OSError as exc:
            found = type(exc).__name__
        found
        """,
    )
    assert found in ("PermissionError", "FileNotFoundError"), found


SPOIL = """
    import ctypes, json
    victim = json.JSONDecodeError.__doc__               # an object of the zygote's
    ctypes.memset(id(victim) + 48, 0x58, 8)             # and its letters, which begin there or, since 3.12, at 40
    changed = victim[:16]
    """


def test_what_a_box_writes_stays_there(api):
    changed = run(api, SPOIL + "changed\n")
    assert "XXXXXXXX"[:4] in changed, changed
    for _ in range(6):      # more than the boxes that were ready
        assert "X" not in run(api, "import json\njson.JSONDecodeError.__doc__[:16]")


def test_memory_given_back_and_taken_again(api):
    """malloc gives pages of the heap back and grows what it has mapped: nothing of that meets the file."""
    found = run(
        api,
        """
        import ctypes, gc
        libc = ctypes.CDLL(None)
        libc.malloc.restype = libc.realloc.restype = libc.calloc.restype = ctypes.c_void_p
        libc.realloc.argtypes = ctypes.c_void_p, ctypes.c_size_t
        sums = []
        for _ in range(5):
            held = [bytearray(600) for _ in range(20000)] + [[0] * 40000 for _ in range(8)]
            for piece in held[-8:]:
                piece.extend(range(100000))
            sums.append(sum(len(piece) for piece in held))
            del held, piece
            gc.collect()
            libc.malloc_trim(0)
        blocks = [libc.calloc(1, size) for size in range(1000, 60000, 1000)]
        clean = all(not any(ctypes.string_at(p, 1000)) for p in blocks)
        grown = libc.realloc(libc.malloc(1 << 18), 1 << 24)
        ctypes.memset(grown, 1, 1 << 24)
        len(set(sums)), clean
        """,
    )
    assert found == [1, True]


def test_a_child_has_it_as_well(api):
    found = run(
        api,
        """
        import os, json
        r, w = os.pipe()
        if os.fork() == 0:
            os.write(w, json.dumps({"a": [1, 2]}).encode())
            os._exit(0)
        os.wait()
        os.read(r, 100).decode()
        """,
    )
    assert found == '{"a": [1, 2]}'


# ---- code (src/box/code_pages.c) -------------------------------------------------------------------------

def test_all_is_in_few_mappings(api):
    """What a fork copies: code, constants and variables of libraries that lie next to each other are one."""
    count, own = run(
        api,
        """
        lines = [line.split() for line in open("/proc/self/maps")]
        len(lines), [line[5] for line in lines if len(line) > 5 and "/_json" in line[5]]
        """,
    )
    assert count < 40 and own == [], (count, own)


def test_copied_code_is_in_large_pages_or_not_copied(api):
    """Small ones would be a thousand entries for every fork to copy."""
    found = run(
        api,
        """
        found, here = [], False
        for line in open("/proc/self/smaps"):
            fields = line.split()
            if "-" in fields[0]:
                here = fields[1] == "r-xp" and len(fields) == 5
            elif here and fields[0] in ("Size:", "AnonHugePages:"):
                found.append(int(fields[1]))
        found
        """,
    )
    assert found[::2] == found[1::2], found


SPOIL_CODE = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    text = b"Return the number of items in a container."
    places = []
    for line in open("/proc/self/maps"):
        fields = line.split()
        start, end = (int(address, 16) for address in fields[0].split("-"))
        if "x" in fields[1] and "r" in fields[1] and start < 1 << 47 and "[" not in line:
            data, at = ctypes.string_at(start, end - start), -1
            while (at := data.find(text, at + 1)) >= 0:
                places.append(start + at)
    changed = {libc.mprotect(ctypes.c_void_p(at & -4096), 8192, 7) for at in places}
    for at in places:
        ctypes.memset(at, 0x58, 6)
    """


def test_what_a_box_does_to_code_stays_there(api):
    assert run(api, SPOIL_CODE + "list(changed), len.__doc__[:8]\n") == [[0], "XXXXXX t"]
    for _ in range(6):
        assert run(api, "len.__doc__[:8]") == "Return t"
