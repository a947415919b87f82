# SPDX-License-Identifier: Apache-2.0
"""Runs snippets in one real ipykernel; started by tests/api/test_ipykernel.py with the interpreter of
build/venv-ipykernel. stdin: JSON, a list of snippets, each a list of cells. stdout: JSON, for every
cell {"stdout", "stderr", "result", "types", "count", "error": null | {"name", "value", "line"}}.
"""

import json
import re
import sys

from jupyter_client.manager import KernelManager

GUARD_S = 60
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PLACE = re.compile(r"Cell In\[\d+\], line (\d+)")
# As new: names, history and the number of the next cell. Modules stay imported.
RESET = "get_ipython().reset(new_session=True); import warnings; warnings.resetwarnings(); del warnings"


def error_of(content):
    """The line is the innermost one that is in a cell."""
    lines = PLACE.findall(COLOUR.sub("", "\n".join(content["traceback"])))
    return {"name": content["ename"], "value": content["evalue"],
            "line": int(lines[-1]) if lines else None}


def run(client, code, **options):
    cell = {"stdout": "", "stderr": "", "result": None, "types": [], "count": None, "error": None}
    wanted = client.execute(code, **options)
    while True:
        message = client.get_iopub_msg(timeout=GUARD_S)
        if message["parent_header"].get("msg_id") != wanted:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            cell[content["name"]] += content["text"]
        elif kind in ("execute_result", "display_data"):
            cell["types"] += content["data"]
            if kind == "execute_result":
                cell["result"] = content["data"].get("text/plain")
        elif kind == "error":
            cell["error"] = error_of(content)
        elif kind == "status" and content["execution_state"] == "idle":
            break
    while True:
        reply = client.get_shell_msg(timeout=GUARD_S)
        if reply["parent_header"].get("msg_id") == wanted:
            cell["count"] = reply["content"].get("execution_count")
            return cell


def main():
    manager = KernelManager(kernel_name="python3", transport="ipc")
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=GUARD_S)
        done = []
        for cells in json.load(sys.stdin):
            run(client, RESET, silent=False, store_history=False)
            done.append([run(client, code) for code in cells])
        json.dump(done, sys.stdout)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


main()
