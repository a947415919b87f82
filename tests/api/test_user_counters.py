# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts per user: a box that takes all of it stops neither the server nor other boxes.

Boxes of an ordinary user may have that user's uid, and so has the server."""

import contextlib

from rest_client import serve


def session(api, name, code, **fields):
    """A session keeps what its code took."""
    result = api.run(code, session=name, **fields)
    assert result["verdict"] == "ok", result
    return result


def works(api):
    with contextlib.suppress(OSError):
        return api.run("6 * 7").get("result") == "42"
    return False


IN_FLIGHT = """
import array, socket
held = []
def pair():
    held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    return held[-1]
sent = 0
source = socket.socket(socket.AF_UNIX)
try:
    while sent < 2000:
        a, b = pair()
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [source.fileno()] * 250))])
        sent += 250
except OSError as error:
    pass
sent
"""


def test_descriptors_in_flight_do_not_stop_other_boxes(cli):
    """They are counted per user, and the sender's limit of open files is the bound."""
    api = serve(cli, "--stock", "1")
    held = session(api, "flight", IN_FLIGHT)
    assert int(held["result"]) >= 500, held
    assert all(works(api) for _ in range(20))
    assert session(api, "second", "6 * 7")["result"] == "42"
    assert api.run("len(held)", session="flight")["verdict"] == "ok"
