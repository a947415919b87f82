# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests pass in a box as they do outside, or stand in tests/cpython/table with the reason.

These are the modules that take a second; `make test-cpython` runs the others too.
"""

import importlib.machinery
import importlib.util

import pytest
from conftest import TOP

LOADER = importlib.machinery.SourceFileLoader("cpython_run", str(TOP / "tests/cpython/run"))
RUN = importlib.util.module_from_spec(importlib.util.spec_from_loader("cpython_run", LOADER))
LOADER.exec_module(RUN)


@pytest.mark.parametrize("module", RUN.QUICK)
def test_a_module_of_cpython(program, module, monkeypatch):
    monkeypatch.setattr(RUN, "PROGRAM", program)
    assert RUN.compare(module, RUN.reasons()) == []


def test_the_table_is_of_known_modules():
    assert {row.split(".")[0] for row in RUN.reasons()} <= {"test_" + module for module in RUN.MODULES}
