# SPDX-License-Identifier: Apache-2.0
"""The console scripts of the wheel: they become the program that lies beside this file."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program", "constrictor")


def become(*arguments):
    # The default of --python is the first python3 of PATH: that of this environment, with its packages.
    folder = os.path.dirname(os.path.abspath(sys.executable))
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)
    os.execv(PROGRAM, ["constrictor", *arguments])


def constrictor():
    """The command line: constrictor run, serve, doctor ..."""
    become(*sys.argv[1:])


def constrictor_mcp():
    """The MCP server on stdio, with its options."""
    become("stdio", *sys.argv[1:])
