# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client. clients/python/make_sync writes the other one, _sync.py, from this file."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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


class AsyncConstrictor:
    """A client of one server, with one key; one object serves any number of calls at a time.

    `url` and `key` default to the environment variables CONSTRICTOR_URL and CONSTRICTOR_KEY.
    """

    def __init__(self, url: str | None = None, key: str | None = None, *, timeout: float = 330):
        self._server: LocalServer | None = None
        address = (url or os.environ.get("CONSTRICTOR_URL") or DEFAULT_URL).rstrip("/")
        key = key or os.environ.get("CONSTRICTOR_KEY")
        self.url = address
        self._http = httpx.AsyncClient(base_url=address + "/api/v1", timeout=httpx.Timeout(timeout + SLACK_S, connect=10),
                                       headers={"Authorization": f"Bearer {key}"} if key else {}, trust_env=False)  # fmt: skip

    @classmethod
    def local(cls, *, program: str | None = None, options: Sequence[str] = (), timeout: float = 330) -> AsyncConstrictor:
        """Starts a server of its own, which ends with the client; `options` are those of `constrictor serve`."""
        server = LocalServer(program, options)
        try:
            client = cls(server.url, server.key, timeout=timeout)
        except BaseException:
            server.close()
            raise
        client._server = server
        return client

    async def aclose(self) -> None:
        try:
            await self._http.aclose()
        finally:
            if self._server:
                self._server.close()
                self._server = None

    async def __aenter__(self) -> AsyncConstrictor:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _fail(self, answer: httpx.Response) -> None:
        if answer.status_code < 400:
            return
        await answer.aread()
        try:
            problem = answer.json()
        except ValueError:
            problem = {"detail": f"the server answered {answer.status_code}"}
        raise ConstrictorError(answer.status_code, problem)

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self._http.request(method, path, **options)
        await self._fail(answer)
        return answer

    async def _json(self, method: str, path: str, **options: Any) -> Any:
        return (await self._ask(method, path, **options)).json()

    async def _lines(self, method: str, path: str, **options: Any) -> AsyncIterator[dict[str, Any]]:
        async with self._http.stream(method, path, **options) as answer:
            await self._fail(answer)
            async for line in answer.aiter_lines():
                if line.strip():
                    yield json.loads(line)

    # ---- runs

    async def run(self, code: str, *, session: str | None = None, timeout: float | None = None, packages: str | Sequence[str] | None = None,
                  environment: str | None = None, stdin: str | None = None, variables: Mapping[str, Any] | None = None,
                  **fields: Any) -> Result:  # fmt: skip
        """Runs code and returns how it ended; `fields` are further ones of POST /api/v1/execute, such as memory_mb or network."""
        body = _given({"code": code, "stream": False, "session": session, "timeout": timeout, "packages": packages,
                       "environment": environment, "stdin": stdin, "variables": variables, **fields})  # fmt: skip
        return Result.of(await self._json("POST", "/execute", json=body))

    async def stream(self, code: str, **fields: Any) -> AsyncIterator[Event]:
        """Runs code and yields what it prints as it comes; the last event has the result."""
        async for line in self._lines("POST", "/execute", json=_given({**fields, "code": code, "stream": True})):
            yield Event(line)

    async def check(self, code: str, **fields: Any) -> dict[str, Any]:
        """Looks at code without running it: syntax, policy, advice."""
        answer: dict[str, Any] = await self._json("POST", "/validate", json=_given({"code": code, **fields}))
        return answer

    # ---- in the background

    async def start(self, code: str, *, webhook: str | None = None, webhook_secret: str | None = None, **fields: Any) -> AsyncExecution:
        """Starts a run that goes on without the client."""
        body = _given({"code": code, "webhook": webhook, "webhook_secret": webhook_secret, **fields})
        return AsyncExecution(self, (await self._json("POST", "/executions", json=body))["execution_id"])

    def execution(self, id: str) -> AsyncExecution:
        """A background run by its id."""
        return AsyncExecution(self, id)

    # ---- sessions

    async def session(self, name: str | None = None, **fields: Any) -> AsyncSession:
        """Opens a session: variables, imports and files stay between its runs."""
        answer = await self._json("POST", "/sessions", json=_given({"name": name, **fields}))
        return AsyncSession(self, answer["session"])

    async def sessions(self) -> list[dict[str, Any]]:
        return list((await self._json("GET", "/sessions"))["sessions"].values())

    async def close_session(self, session: str) -> None:
        await self._ask("DELETE", f"/sessions/{quote(session, safe='')}")

    async def interrupt(self, session: str) -> bool:
        """Raises KeyboardInterrupt in the session's run; False: nothing was running."""
        return bool((await self._json("POST", f"/sessions/{quote(session, safe='')}/interrupt"))["interrupted"])

    # ---- files

    async def upload(self, session: str, path: str, data: bytes | str) -> File:
        """Writes a file below /mnt/data of a session; a new name of a session opens it."""
        content = data.encode() if isinstance(data, str) else data
        return File.of(await self._json("PUT", _place(session, path), content=content, headers={"Content-Type": "application/octet-stream"}))

    async def download(self, session: str, path: str) -> bytes:
        return (await self._ask("GET", _place(session, path))).content

    async def files(self, session: str) -> list[File]:
        return [File.of(item) for item in (await self._json("GET", _place(session)))["files"]]

    async def delete_file(self, session: str, path: str) -> None:
        await self._ask("DELETE", _place(session, path))

    # ---- environments

    async def environments(self) -> list[dict[str, Any]]:
        return list((await self._json("GET", "/environments"))["environments"])

    async def create_environment(self, name: str, packages: str | Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._json("POST", "/environments", json=_given({"name": name, "packages": packages, **fields}))
        return answer

    async def install(self, packages: str | Sequence[str], environment: str = "base", *, wait: float = 300, **fields: Any) -> dict[str, Any]:
        """Installs packages and waits for it; a failed install raises ConstrictorError and changes nothing."""
        path = f"/environments/{quote(environment, safe='')}/packages"
        answer: dict[str, Any] = await self._json("POST", path, json=_given({"packages": packages, "wait": wait, **fields}))
        return answer

    async def packages(self, environment: str = "base") -> list[dict[str, Any]]:
        return list((await self._json("GET", f"/environments/{quote(environment, safe='')}/packages"))["packages"])

    async def delete_environment(self, name: str) -> None:
        await self._ask("DELETE", f"/environments/{quote(name, safe='')}")

    # ---- batches

    async def batch(self, items: Iterable[str | Mapping[str, Any]], **fields: Any) -> BatchSummary:
        """Runs many pieces of code, each in a fresh box, and judges them by their tests; all results at once."""
        outcomes: list[TestOutcome] = []
        async for outcome in self.batch_stream(items, **fields):
            if isinstance(outcome, BatchSummary):
                return BatchSummary.of(outcome.__dict__, outcomes)
            outcomes.append(outcome)
        raise ConstrictorError(200, {"code": "cut_off", "detail": "the answer ended before its last line"})

    async def batch_stream(self, items: Iterable[str | Mapping[str, Any]], **fields: Any) -> AsyncIterator[TestOutcome | BatchSummary]:
        """The same, one result after the other as they come; the last one is the summary."""
        all_items = [{"code": item} if isinstance(item, str) else dict(item) for item in items]
        async for line in self._lines("POST", "/batch", json=_given({**fields, "items": all_items, "stream": True})):
            yield BatchSummary.of(line, []) if line.get("done") else TestOutcome.of(line)

    # ---- the server

    async def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self._json("GET", "/health")
        return answer


class AsyncSession:
    """A session; `async with` closes it at its end."""

    def __init__(self, client: AsyncConstrictor, id: str):
        self.client = client
        self.id = id

    async def run(self, code: str, **fields: Any) -> Result:
        return await self.client.run(code, session=self.id, **fields)

    async def stream(self, code: str, **fields: Any) -> AsyncIterator[Event]:
        async for event in self.client.stream(code, session=self.id, **fields):
            yield event

    async def upload(self, path: str, data: bytes | str) -> File:
        return await self.client.upload(self.id, path, data)

    async def download(self, path: str) -> bytes:
        return await self.client.download(self.id, path)

    async def files(self) -> list[File]:
        return await self.client.files(self.id)

    async def interrupt(self) -> bool:
        return await self.client.interrupt(self.id)

    async def aclose(self) -> None:
        await self.client.close_session(self.id)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


class AsyncExecution:
    """A run in the background."""

    def __init__(self, client: AsyncConstrictor, id: str):
        self.client = client
        self.id = id

    async def state(self, wait: float = 0) -> dict[str, Any]:
        """Its state, after its end or after so many seconds."""
        answer: dict[str, Any] = await self.client._json("GET", f"/executions/{quote(self.id, safe='')}", params={"wait": wait})
        return answer

    async def result(self) -> Result:
        """Waits for its end."""
        while (state := await self.state(wait=60))["state"] == "running":
            pass
        if state["state"] == "failed":
            raise ConstrictorError(409, {"code": state["error"]["code"], "detail": state["error"]["message"], "hint": state["error"].get("hint")})
        return Result.of(state["execution"])

    async def output(self, offset: int = 0) -> AsyncIterator[Event]:
        """What it prints, from an offset on, while it runs; the last event has the result."""
        async for line in self.client._lines("GET", f"/executions/{quote(self.id, safe='')}/output", params={"offset": offset}):
            yield Event(line)

    async def cancel(self) -> None:
        await self.client._ask("DELETE", f"/executions/{quote(self.id, safe='')}")
