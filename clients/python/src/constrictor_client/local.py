# SPDX-License-Identifier: Apache-2.0
"""A server of one's own: started on a free port of 127.0.0.1, with a key and a state folder of its own, and ended with the client."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence


class LocalServer:
    def __init__(self, program: str | None = None, options: Sequence[str] = ()):
        found = program or os.environ.get("CONSTRICTOR") or shutil.which("constrictor")
        if not found:
            raise FileNotFoundError("there is no program 'constrictor' on PATH: install it, or give program=")
        self.key = secrets.token_urlsafe(24)
        self.folder = tempfile.mkdtemp(prefix="constrictor-client-")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        env = {**os.environ, "CONSTRICTOR_API_KEY": f"local:{self.key}"}
        command = [found, "serve", "--port", "0", "--state", os.path.join(self.folder, "state"), *options]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=env)
            self.url = self._read_address()
        except BaseException:
            self.close()
            raise

    def _read_address(self) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if match := re.search(rb"(http://[^\s/]+)/mcp", line):
                return match[1].decode()
        self.process.wait()
        self.log.seek(0)
        raise RuntimeError(f"the server did not start: {self.log.read().decode(errors='replace').strip()[-2000:]}")

    def close(self) -> None:
        process = getattr(self, "process", None)
        if process:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        self.log.close()
        # The folder of unpacked wheels cannot be listed, not even by its owner: boxes may have that user's id.
        for folder, names, _ in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    with contextlib.suppress(OSError):
                        os.chmod(path, 0o700)
        shutil.rmtree(self.folder, ignore_errors=True)
