# SPDX-License-Identifier: Apache-2.0
"""The client of the Python SDK (PyPI: mcp), one transport and one mode; see steps.mjs for the rules.

python_sdk.py TRANSPORT MODE TARGET...
"""

import contextlib
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

import anyio
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp_types import PromptReference

warnings.filterwarnings("ignore")
TRANSPORT, MODE, *TARGET = sys.argv[1:]
LIMIT_S = 20
TICKS = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.3)\n'done'"
failed = 0


def show(line):
    print(json.dumps(line, default=str), flush=True)


async def step(name, work):
    global failed
    try:
        with anyio.fail_after(LIMIT_S):
            show({"step": name, "ok": True, "detail": await work()})
    except Exception as error:
        failed += 1
        detail = {"message": str(error), "stack": traceback.format_exc()[-1500:]}
        show({"step": name, "ok": False, "error": detail})


def must(truth, what, value):
    if not truth:
        raise AssertionError(f"{what}: {str(value)[:2000]}")


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def refused(work, *codes):
    try:
        result = await work
    except MCPError as error:
        must(error.error.code in codes, f"expected the code {codes}", error.error)
        return error.error.code
    raise AssertionError(f"expected an error, got {result}")


def alive(mark):
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                count += pathlib.Path("/proc", name, "comm").read_text().strip() == mark
    return count


async def until(question, seconds=5):
    end = time.monotonic() + seconds
    while not question() and time.monotonic() < end:
        await anyio.sleep(0.02)
    return question()


def endless(mark):
    return (
        f"import ctypes, time\nctypes.CDLL(None).prctl(15, b'{mark}')\n"
        "while True:\n    time.sleep(0.05)\n"
    )


class Walk:
    """Everything that a client does with the server."""

    def __init__(self, client):
        self.client = client
        self.legacy = client.protocol_version < "2026"

    def run(self, code, **options):
        return self.client.call_tool("execute_python", {"code": code}, **options)

    async def connected(self):
        expected = MODE == "legacy" or TRANSPORT == "sse"
        must(self.legacy == expected, "the wrong era", self.client.protocol_version)
        return self.client.protocol_version

    async def tools(self):
        tools = (await self.client.list_tools()).tools
        for tool in tools:
            must(tool.description and tool.input_schema["type"] == "object", "incomplete", tool)
        return [tool.name for tool in tools]

    async def resources(self):
        found = (await self.client.list_resources()).resources
        must(found, "no resources", found)
        for one in found:
            contents = (await self.client.read_resource(str(one.uri))).contents
            must(len(contents) == 1, "not one content", contents)
        return [str(one.uri) for one in found]

    async def templates(self):
        found = (await self.client.list_resource_templates()).resource_templates
        must(found, "no templates", found)
        return [one.uri_template for one in found]

    async def prompts(self):
        found = (await self.client.list_prompts()).prompts
        must(found, "no prompts", found)
        for one in found:
            filled = {}
            for argument in one.arguments or []:
                values = await self.suggestions(one.name, argument.name)
                filled[argument.name] = values[0] if values else "x = 1"
            must((await self.client.get_prompt(one.name, filled)).messages, "no messages", one)
        return [one.name for one in found]

    async def suggestions(self, prompt, argument):
        ref = PromptReference(type="ref/prompt", name=prompt)
        found = await self.client.complete(ref, {"name": argument, "value": ""})
        return found.completion.values

    async def completion(self):
        found = {}
        for prompt in (await self.client.list_prompts()).prompts:
            for argument in prompt.arguments or []:
                name = f"{prompt.name}.{argument.name}"
                found[name] = await self.suggestions(prompt.name, argument.name)
        must(any(found.values()), "no values", found)
        return found

    async def value(self):
        result = await self.run("print('printed')\n6 * 7")
        must(not result.is_error, "a tool error", result)
        must("42" in text(result) and "printed" in text(result), "not what the code gave", result)

    async def error(self):
        result = await self.run("1 / 0")
        must("ZeroDivisionError" in text(result), "the error is not named", result)

    async def info(self):
        result = await self.client.call_tool("get_sandbox_info", {})
        must("python" in text(result).lower(), "no information", result)

    async def unknown_tool(self):
        return await refused(self.client.call_tool("no_such_tool", {}), -32602)

    async def bad_argument(self):
        result = await self.client.call_tool("execute_python", {"code": 5})
        must(result.is_error and "code" in text(result), "not a tool error", result)

    async def unknown_resource(self):
        work = self.client.read_resource("run://none/stdout")
        return await refused(work, -32002 if self.legacy else -32602)

    async def progress(self):
        seen = []

        async def on_progress(progress, total, message):
            seen.append((progress, total, message))

        result = await self.run(TICKS, progress_callback=on_progress)
        must("done" in text(result) and seen, "no progress", result)
        must(all(a[0] < b[0] for a, b in zip(seen, seen[1:])), "it goes back", seen)
        return seen

    async def cancel(self):
        mark = f"mark-{os.getpid()}"
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def stop():
                    must(await until(lambda: alive(mark) == 1), "the code never ran", mark)
                    scope.cancel()

                group.start_soon(stop)
                await self.run(endless(mark))
        must(scope.cancelled_caught, "it was not cancelled", scope)
        must(await until(lambda: alive(mark) == 0, 3), "the code goes on", alive(mark))
        must("42" in text(await self.run("6 * 7")), "no value afterwards", None)

    async def ping(self):
        await self.client.send_ping()

    async def level(self):
        await self.client.set_logging_level("warning")

    async def subscribe(self):
        uri = (await self.client.list_resources()).resources[0].uri
        if self.legacy:
            await self.client.subscribe_resource(str(uri))
            await self.client.unsubscribe_resource(str(uri))
            return
        async with self.client.listen(tools_list_changed=True, resource_subscriptions=[str(uri)]):
            await anyio.sleep(0.05)

    def steps(self):
        yield "connect", self.connected
        yield "tools/list", self.tools
        yield "resources/list, resources/read", self.resources
        yield "resources/templates/list", self.templates
        yield "prompts/list, prompts/get", self.prompts
        yield "completion/complete", self.completion
        yield "call: a value", self.value
        yield "call: an error", self.error
        yield "call: get_sandbox_info", self.info
        yield "call: an unknown tool", self.unknown_tool
        yield "call: a bad argument", self.bad_argument
        yield "resources/read: unknown", self.unknown_resource
        yield "progress", self.progress
        yield "cancel", self.cancel
        yield "subscribe", self.subscribe
        if self.legacy:
            yield "ping", self.ping
            yield "logging/setLevel", self.level


def target():
    if TRANSPORT == "stdio":
        return StdioServerParameters(command=TARGET[0], args=TARGET[1:], env=dict(os.environ))
    return sse_client(TARGET[0]) if TRANSPORT == "sse" else TARGET[0]


async def main():
    async with Client(target(), mode="2026-07-28" if MODE == "pin" else MODE) as client:
        for name, work in Walk(client).steps():
            await step(name, work)


anyio.run(main)
show({"step": "end", "ok": failed == 0})
