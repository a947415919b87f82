# SPDX-License-Identifier: Apache-2.0
"""packages: %pip install and !pip install."""

from base import __builtins__           # first: functions look builtins up there
from base import clip, need
from notebook import INSTALLS
from shell import UsageError


def install_in(command):
    if need("re", "match")(INSTALLS, command.strip()):
        raise UsageError(f"'{clip(command, 60)}': install_package")
    return None
