# SPDX-License-Identifier: Apache-2.0
"""A client of a Constrictor server: `Constrictor`, and `AsyncConstrictor` with the same methods."""

from .client import AsyncConstrictor, Constrictor
from .errors import ConstrictorError, ExecutionFailed
from .results import BatchSummary, Event, File, Image, Result, RunError, TestOutcome

__all__ = ["AsyncConstrictor", "BatchSummary", "Constrictor", "ConstrictorError", "Event", "ExecutionFailed", "File", "Image",
           "Result", "RunError", "TestOutcome"]  # fmt: skip
