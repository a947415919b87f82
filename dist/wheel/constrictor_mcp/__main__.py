# SPDX-License-Identifier: Apache-2.0
"""python -m constrictor_mcp: the command line."""

from . import constrictor

constrictor()
