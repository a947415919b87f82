# SPDX-License-Identifier: Apache-2.0
"""Every row of the acceptance list has a test that is named after it, and docs/reference-servers.md lists them."""

import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]


def test_every_row_is_shown_and_listed():
    check = subprocess.run([TOP / "tools" / "rows", "--check"], capture_output=True, text=True, timeout=600)
    assert check.returncode == 0, check.stdout + check.stderr
