# SPDX-License-Identifier: Apache-2.0
"""The synchronous client, made from _async.py by clients/python/make_sync."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from .errors import ConstrictorError
from .local import LocalServer
from .results import BatchSummary, Event, File, Result, TestOutcome

DEFAULT_URL = "http://127.0.0.1:8000"
SLACK_S = 60  # what the client waits beyond the time that a call may take


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _place(session: str, path: str = "") -> str:
    return f"/sessions/{quote(session, safe='')}/files" + (f"/{quote(path)}" if path else "")


class Constrictor:
    """A client of one server, with one key; one object serves any number of calls at a time.

    `url` and `key` default to the environment variables CONSTRICTOR_URL and CONSTRICTOR_KEY.
    """

    def __init__(self, url: str | None = None, key: str | None = None, *, timeout: float = 330):
        self._server: LocalServer | None = None
        address = (url or os.environ.get("CONSTRICTOR_URL") or DEFAULT_URL).rstrip("/")
        key = key or os.environ.get("CONSTRICTOR_KEY")
        self.url = address
        self._http = httpx.Client(base_url=address + "/api/v1", timeout=httpx.Timeout(timeout + SLACK_S, connect=10),
                                       headers={"Authorization": f"Bearer {key}"} if key else {}, trust_env=False)  # fmt: skip

    @classmethod
    def local(cls, *, program: str | None = None, options: Sequence[str] = (), timeout: float = 330) -> Constrictor:
        """Starts a server of its own, which ends with the client; `options` are those of `constrictor serve`."""
        server = LocalServer(program, options)
        try:
            client = cls(server.url, server.key, timeout=timeout)
        except BaseException:
            server.close()
            raise
        client._server = server
        return client

    def close(self) -> None:
        try:
            self._http.close()
        finally:
            if self._server:
                self._server.close()
                self._server = None

    def __enter__(self) -> Constrictor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _fail(self, answer: httpx.Response) -> None:
        if answer.status_code < 400:
            return
        answer.read()
        try:
            problem = answer.json()
        except ValueError:
            problem = {"detail": f"the server answered {answer.status_code}"}
        raise ConstrictorError(answer.status_code, problem)

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, **options)
        self._fail(answer)
        return answer

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return (self._ask(method, path, **options)).json()

    def _lines(self, method: str, path: str, **options: Any) -> Iterator[dict[str, Any]]:
        with self._http.stream(method, path, **options) as answer:
            self._fail(answer)
            for line in answer.iter_lines():
                if line.strip():
                    yield json.loads(line)

    # ---- runs

    def run(self, code: str, *, session: str | None = None, timeout: float | None = None, packages: str | Sequence[str] | None = None,
                  environment: str | None = None, stdin: str | None = None, variables: Mapping[str, Any] | None = None,
                  **fields: Any) -> Result:  # fmt: skip
        """Runs code and returns how it ended; `fields` are further ones of POST /api/v1/execute, such as memory_mb or network."""
        body = _given({"code": code, "stream": False, "session": session, "timeout": timeout, "packages": packages,
                       "environment": environment, "stdin": stdin, "variables": variables, **fields})  # fmt: skip
        return Result.of(self._json("POST", "/execute", json=body))

    def stream(self, code: str, **fields: Any) -> Iterator[Event]:
        """Runs code and yields what it prints as it comes; the last event has the result."""
        for line in self._lines("POST", "/execute", json=_given({**fields, "code": code, "stream": True})):
            yield Event(line)

    def check(self, code: str, **fields: Any) -> dict[str, Any]:
        """Looks at code without running it: syntax, policy, advice."""
        answer: dict[str, Any] = self._json("POST", "/validate", json=_given({"code": code, **fields}))
        return answer

    # ---- in the background

    def start(self, code: str, *, webhook: str | None = None, webhook_secret: str | None = None, **fields: Any) -> Execution:
        """Starts a run that goes on without the client."""
        body = _given({"code": code, "webhook": webhook, "webhook_secret": webhook_secret, **fields})
        return Execution(self, (self._json("POST", "/executions", json=body))["execution_id"])

    def execution(self, id: str) -> Execution:
        """A background run by its id."""
        return Execution(self, id)

    # ---- sessions

    def session(self, name: str | None = None, **fields: Any) -> Session:
        """Opens a session: variables, imports and files stay between its runs."""
        answer = self._json("POST", "/sessions", json=_given({"name": name, **fields}))
        return Session(self, answer["session"])

    def sessions(self) -> list[dict[str, Any]]:
        return list((self._json("GET", "/sessions"))["sessions"].values())

    def close_session(self, session: str) -> None:
        self._ask("DELETE", f"/sessions/{quote(session, safe='')}")

    def interrupt(self, session: str) -> bool:
        """Raises KeyboardInterrupt in the session's run; False: nothing was running."""
        return bool((self._json("POST", f"/sessions/{quote(session, safe='')}/interrupt"))["interrupted"])

    # ---- files

    def upload(self, session: str, path: str, data: bytes | str) -> File:
        """Writes a file below /mnt/data of a session; a new name of a session opens it."""
        content = data.encode() if isinstance(data, str) else data
        return File.of(self._json("PUT", _place(session, path), content=content, headers={"Content-Type": "application/octet-stream"}))

    def download(self, session: str, path: str) -> bytes:
        return (self._ask("GET", _place(session, path))).content

    def files(self, session: str) -> list[File]:
        return [File.of(item) for item in (self._json("GET", _place(session)))["files"]]

    def delete_file(self, session: str, path: str) -> None:
        self._ask("DELETE", _place(session, path))

    # ---- environments

    def environments(self) -> list[dict[str, Any]]:
        return list((self._json("GET", "/environments"))["environments"])

    def create_environment(self, name: str, packages: str | Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("POST", "/environments", json=_given({"name": name, "packages": packages, **fields}))
        return answer

    def install(self, packages: str | Sequence[str], environment: str = "base", *, wait: float = 300, **fields: Any) -> dict[str, Any]:
        """Installs packages and waits for it; a failed install raises ConstrictorError and changes nothing."""
        path = f"/environments/{quote(environment, safe='')}/packages"
        answer: dict[str, Any] = self._json("POST", path, json=_given({"packages": packages, "wait": wait, **fields}))
        return answer

    def packages(self, environment: str = "base") -> list[dict[str, Any]]:
        return list((self._json("GET", f"/environments/{quote(environment, safe='')}/packages"))["packages"])

    def delete_environment(self, name: str) -> None:
        self._ask("DELETE", f"/environments/{quote(name, safe='')}")

    # ---- batches

    def batch(self, items: Iterable[str | Mapping[str, Any]], **fields: Any) -> BatchSummary:
        """Runs many pieces of code, each in a fresh box, and judges them by their tests; all results at once."""
        outcomes: list[TestOutcome] = []
        for outcome in self.batch_stream(items, **fields):
            if isinstance(outcome, BatchSummary):
                return BatchSummary.of(outcome.__dict__, outcomes)
            outcomes.append(outcome)
        raise ConstrictorError(200, {"code": "cut_off", "detail": "the answer ended before its last line"})

    def batch_stream(self, items: Iterable[str | Mapping[str, Any]], **fields: Any) -> Iterator[TestOutcome | BatchSummary]:
        """The same, one result after the other as they come; the last one is the summary."""
        all_items = [{"code": item} if isinstance(item, str) else dict(item) for item in items]
        for line in self._lines("POST", "/batch", json=_given({**fields, "items": all_items, "stream": True})):
            yield BatchSummary.of(line, []) if line.get("done") else TestOutcome.of(line)

    # ---- the server

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("GET", "/health")
        return answer


class Session:
    """A session; `with` closes it at its end."""

    def __init__(self, client: Constrictor, id: str):
        self.client = client
        self.id = id

    def run(self, code: str, **fields: Any) -> Result:
        return self.client.run(code, session=self.id, **fields)

    def stream(self, code: str, **fields: Any) -> Iterator[Event]:
        for event in self.client.stream(code, session=self.id, **fields):
            yield event

    def upload(self, path: str, data: bytes | str) -> File:
        return self.client.upload(self.id, path, data)

    def download(self, path: str) -> bytes:
        return self.client.download(self.id, path)

    def files(self) -> list[File]:
        return self.client.files(self.id)

    def interrupt(self) -> bool:
        return self.client.interrupt(self.id)

    def close(self) -> None:
        self.client.close_session(self.id)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Execution:
    """A run in the background."""

    def __init__(self, client: Constrictor, id: str):
        self.client = client
        self.id = id

    def state(self, wait: float = 0) -> dict[str, Any]:
        """Its state, after its end or after so many seconds."""
        answer: dict[str, Any] = self.client._json("GET", f"/executions/{quote(self.id, safe='')}", params={"wait": wait})
        return answer

    def result(self) -> Result:
        """Waits for its end."""
        while (state := self.state(wait=60))["state"] == "running":
            pass
        if state["state"] == "failed":
            raise ConstrictorError(409, {"code": state["error"]["code"], "detail": state["error"]["message"], "hint": state["error"].get("hint")})
        return Result.of(state["execution"])

    def output(self, offset: int = 0) -> Iterator[Event]:
        """What it prints, from an offset on, while it runs; the last event has the result."""
        for line in self.client._lines("GET", f"/executions/{quote(self.id, safe='')}/output", params={"offset": offset}):
            yield Event(line)

    def cancel(self) -> None:
        self.client._ask("DELETE", f"/executions/{quote(self.id, safe='')}")
