# SPDX-License-Identifier: Apache-2.0
"""Runs the unit tests of one module of CPython's own `test` package, and prints {test: outcome} as the last line.

tests/cpython/run starts it outside and, with the same argument, in a box. Tests that a class shares are counted once for
each class. A test that is skipped has an outcome that is not "pass".
"""

import importlib
import json
import sys
import unittest

found = {}


def last_line(result, error, test):
    return result._exc_info_to_string(error, test).strip().splitlines()[-1][:160]


class Result(unittest.TestResult):
    def addSuccess(self, test):
        found[test.id()] = "pass"

    def addExpectedFailure(self, test, error):
        found[test.id()] = "pass"

    def addFailure(self, test, error):
        found[test.id()] = "failed: " + last_line(self, error, test)

    def addError(self, test, error):
        found[test.id()] = "failed: " + last_line(self, error, test)

    def addSkip(self, test, reason):
        found[test.id()] = "skipped: " + str(reason)[:160]

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            found[test.id()] = "failed: " + last_line(self, error, test)


module = importlib.import_module("test." + sys.argv[1])
unittest.defaultTestLoader.loadTestsFromModule(module).run(Result())
for name in [name for name in found if name.startswith("unittest.loader.")]:
    raise SystemExit(f"{name}: {found[name]}")
print("\nRESULTS " + json.dumps(found))
