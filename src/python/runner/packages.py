# SPDX-License-Identifier: Apache-2.0
"""packages: %pip install and !pip install, which say at once what installs packages here, as pip does in a box."""

from base import __builtins__           # first: functions look builtins up there
from base import need
from notebook import INSTALLS
from pip_here import refusal
from shell import UsageError

ENDS = r"[;&|\n]"           # of a shell's command


def install_in(command):
    """Raises UsageError if the command would install packages; None if the shell can run it."""
    command = command.strip()
    found = need("re", "match")(INSTALLS, command)
    if found:
        text = refusal(["install", *need("re", "split")(ENDS, command[found.end():])[0].split()])
        if text:
            raise UsageError(text.removeprefix("ERROR: "))
    return None
