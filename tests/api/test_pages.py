# SPDX-License-Identifier: Apache-2.0
"""The pages that boxes have before they are needed (src/box/pages.c)."""

import contextlib
import re

from rest_client import serve


def resident(pid):
    """Memory in KiB: of its own or from the zygote; of files in memory, as the image is."""
    with open(f"/proc/{pid}/status") as status:
        text = status.read()
    return [int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) for name in ("RssAnon", "RssShmem")]


def test_a_box_that_waits_has_what_runs_use(cli, tools):
    """Copied pages and mapped ones, some hundred KiB of each, before it has run anything."""
    api = serve(cli)
    assert api.run("1 + 1")["result"] == "2"
    zygote = next(filter(tools.children, tools.children(api.process.pid)))

    def is_warm():
        found = []
        for box in [box for stem in tools.children(zygote) for box in tools.children(stem)]:
            with contextlib.suppress(OSError, AttributeError):      # one that has just ended
                found.append(resident(box))
        anon, _ = resident(zygote)
        return any(own - anon > 200 and image > 200 for own, image in found)

    assert tools.wait_until(is_warm)
