# SPDX-License-Identifier: Apache-2.0
"""SIDE: the folder of the Python side as `make` built it, with the files of all folders of src/python."""

import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SIDE = os.path.realpath(os.environ.get("CONSTRICTOR_PYTHON_SIDE", os.path.join(ROOT, "build", "python")))
