# SPDX-License-Identifier: Apache-2.0
"""The pages that boxes have before they are needed (src/box/warm.c)."""

import struct

import pytest
from conftest import open_cli
from rest_client import serve

PAGE = 4096


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


def zygote_of(api, tools):
    return next(filter(tools.children, tools.children(api.process.pid)))


def image_pages(pid):
    """The pages of the image that are there: those of the file, and those that are the process's own."""
    file, own = set(), set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for line in maps:
            if "/image (deleted)" not in line:
                continue
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            pagemap.seek(start // PAGE * 8)
            for (entry,) in struct.iter_unpack("Q", pagemap.read((end - start) // PAGE * 8)):
                if entry >> 63:
                    (file if entry >> 61 & 1 else own).add(start)
                start += PAGE
    return file, own


def test_a_box_that_waits_has_what_runs_use(api, tools):
    assert api.run("1 + 1")["result"] == "2"
    zygote = zygote_of(api, tools)

    def is_warm():
        there, own = image_pages(tools.children(zygote)[0])
        return len(own) > 50 and len(there & image_pages(zygote)[0]) > 50

    assert tools.wait_until(is_warm)
