# SPDX-License-Identifier: Apache-2.0
"""What the server answers, as objects. `raw` of each is the whole JSON."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ExecutionFailed


@dataclass(frozen=True)
class Image:
    """A picture that code displayed."""

    mime_type: str
    data: bytes

    def to_pil(self) -> Any:
        """A PIL.Image; needs the package pillow."""
        from PIL import Image as pil

        return pil.open(io.BytesIO(self.data))


@dataclass(frozen=True)
class File:
    path: str
    size: int
    mime_type: str
    url: str | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> File:
        return cls(raw["path"], raw["size"], raw["mime_type"], raw.get("url"))


@dataclass(frozen=True)
class RunError:
    type: str
    message: str
    line: int | None
    code_line: str | None
    traceback: str

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> RunError:
        return cls(raw["type"], raw["message"], raw.get("line"), raw.get("code_line"), raw.get("text") or "")


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    id: str
    verdict: str
    success: bool
    stdout: str
    stderr: str
    result: str | None
    value: Any
    error: RunError | None
    files: list[File]
    usage: dict[str, Any]
    session: str | None
    hint: str | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Result:
        error = raw.get("error")
        return cls(raw["execution_id"], raw["verdict"], raw["success"], raw["stdout"], raw["stderr"], raw.get("result"),
                   raw.get("result_json"), RunError.of(error) if error else None, [File.of(item) for item in raw.get("files", [])],
                   raw.get("usage", {}), raw.get("session"), raw.get("hint"), raw)  # fmt: skip

    @property
    def images(self) -> list[Image]:
        """The pictures that the code displayed, in their order."""
        found = []
        for shown in self.raw.get("display", []):
            for mime_type in "image/png", "image/jpeg":
                if mime_type in shown:
                    found.append(Image(mime_type, base64.b64decode(shown[mime_type])))
                    break
            else:
                if "image/svg+xml" in shown:
                    found.append(Image("image/svg+xml", shown["image/svg+xml"].encode()))
        return found

    def check(self) -> Result:
        """Itself, or ExecutionFailed if the verdict is not ok."""
        if not self.success:
            raise ExecutionFailed(self)
        return self


@dataclass(frozen=True)
class Event:
    """A line of a stream: `text` of `stream`, or what else is in `raw`; the last one has the `result`."""

    raw: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.raw.get("text", ""))

    @property
    def stream(self) -> str | None:
        return self.raw.get("stream")

    @property
    def offset(self) -> int | None:
        return self.raw.get("offset")

    @property
    def result(self) -> Result | None:
        execution = self.raw.get("execution")
        return Result.of(execution) if execution and "stdout" in execution else None


@dataclass(frozen=True)
class TestOutcome:
    """A run of a batch: an item, or one of its tests."""

    __test__ = False  # for pytest

    index: int
    id: str | None
    test: int | None
    passed: bool
    verdict: str
    result: Result | None
    error: str | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> TestOutcome:
        execution, error = raw.get("execution"), raw.get("error")
        return cls(raw["index"], raw.get("id"), raw.get("test"), raw["passed"], raw["verdict"],
                   Result.of(execution) if execution else None, error["message"] if error else None, raw)  # fmt: skip


@dataclass(frozen=True)
class BatchSummary:
    total: int
    passed: int
    failed: int
    verdicts: dict[str, int]
    p50_ms: float | None
    p99_ms: float | None
    outcomes: list[TestOutcome] = field(repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any], outcomes: list[TestOutcome]) -> BatchSummary:
        return cls(raw["total"], raw["passed"], raw["failed"], raw["verdicts"], raw["p50_ms"], raw["p99_ms"], outcomes)
