# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: the server refused a call, or code did not succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Result


class ConstrictorError(Exception):
    """The server refused the call and changed nothing: `code` is stable, `hint` says what to do."""

    def __init__(self, status: int, problem: dict[str, Any]):
        self.status = status
        self.code: str = problem.get("code") or "unknown"
        self.detail: str = problem.get("detail") or "the server gave no reason"
        self.hint: str | None = problem.get("hint")
        super().__init__(f"{self.detail} ({self.code})" + (f"; {self.hint}" if self.hint else ""))


class ExecutionFailed(Exception):
    """Raised by Result.check(): the code did not succeed."""

    def __init__(self, result: Result):
        self.result = result
        error = result.error
        what = f"{error.type}: {error.message}" if error else result.verdict
        super().__init__(what + (f" (line {error.line})" if error and error.line else "") + (f"; {result.hint}" if result.hint else ""))
