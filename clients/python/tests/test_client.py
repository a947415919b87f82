# SPDX-License-Identifier: Apache-2.0
"""The client against a real server. The program is $CONSTRICTOR; tests/api/test_python_client.py of the project runs this."""

import asyncio
import base64
import pathlib
import re
import struct
import subprocess
import sys
import zlib

import pytest
from constrictor_client import AsyncConstrictor, BatchSummary, Constrictor, ConstrictorError, ExecutionFailed

HERE = pathlib.Path(__file__).resolve().parent.parent


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0\0\xff\0")) + chunk(b"IEND", b""))  # fmt: skip


@pytest.fixture(scope="module")
def c():
    with Constrictor.local(options=["--offline"]) as client:
        yield client


def test_a_run(c):
    result = c.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, 2]}")
    assert (result.verdict, result.stdout, result.stderr, result.value) == ("ok", "out\n", "err\n", {"a": [1, 2]})
    assert result.check() is result and result.usage["output_bytes"] == 8 and result.raw["execution_id"] == result.id


def test_fields(c):
    result = c.run("print(n, input(), open('a.txt').read())", stdin="in", variables={"n": 1}, files=[{"path": "a.txt", "text": "text"}], timeout=5)
    assert result.stdout == "1 in text\n"


def test_a_failure(c):
    failed = c.run("def f():\n    return {}['x']\nf()")
    assert (failed.success, failed.error.type, failed.error.line) == (False, "KeyError", 2) and "Traceback" in failed.error.traceback
    with pytest.raises(ExecutionFailed, match="KeyError"):
        failed.check()
    assert c.run("while True: pass", timeout=0.3).verdict == "timeout_wall"


def test_a_refused_call(c):
    with pytest.raises(ConstrictorError) as caught:
        c.run("1", timeout=-1)
    assert (caught.value.status, caught.value.code) == (400, "bad_value") and "timeout" in caught.value.detail
    with pytest.raises(ConstrictorError) as caught:
        Constrictor(c.url, "a wrong key").run("1")
    assert caught.value.status == 401
    with pytest.raises(ConstrictorError):
        list(c.stream("1", nonsense=1))


def test_a_stream(c):
    events = list(c.stream("for i in range(3): print(i, flush=True)\n'end'"))
    assert "".join(e.text for e in events if e.stream == "stdout") == "0\n1\n2\n" and events[-1].result.value == "end"


def test_images(c):
    from PIL.Image import Image

    code = f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{base64.b64encode(png()).decode()}')\ndisplay(P())"
    (image,) = c.run(code).images
    assert image.data == png() and isinstance(image.to_pil(), Image) and image.to_pil().getpixel((1, 0)) == (0, 255, 0)


def test_a_session_and_its_files(c):
    data = bytes(range(256)) * 1000
    with c.session("of the client / 1") as session:
        assert session.upload("d/raw ü.bin", data).size == len(data)
        assert session.run("x = len(open('d/raw ü.bin', 'rb').read())").success and session.run("x").value == len(data)
        assert session.download("d/raw ü.bin") == data and [f.path for f in session.files()] == ["d/raw ü.bin"]
        assert session.id in [s["session"] for s in c.sessions()] and session.interrupt() is False
        c.delete_file(session.id, "d")
        with pytest.raises(ConstrictorError, match="file_not_found"):
            session.download("d/raw ü.bin")
    assert session.id not in [s["session"] for s in c.sessions()]


def test_in_the_background(c):
    execution = c.start("print('é', flush=True)\n6 * 7")
    events = list(execution.output())
    assert events[0].text == "é\n" and events[0].offset == 3 and events[-1].result.value == 42
    assert [e.text for e in execution.output(offset=3)][0] == "42" and c.execution(execution.id).result().value == 42
    endless = c.start("while True: pass")
    endless.cancel()
    assert endless.result().verdict == "cancelled"
    with pytest.raises(ConstrictorError, match="execution_not_found"):
        c.execution("none").state()


def test_environments(c):
    assert c.create_environment("mine")["name"] == "mine" and "mine" in [e["name"] for e in c.environments()]
    assert c.run("1", environment="mine").success and isinstance(c.packages("mine"), list)
    with pytest.raises(ConstrictorError):
        c.install("surely-not-a-package", "mine")
    c.delete_environment("mine")
    assert "mine" not in [e["name"] for e in c.environments()]


def test_batches(c):
    done = c.batch(["1 + 1", {"id": "b", "code": "print(input())", "tests": [{"stdin": "x", "expected": "x"}, {"stdin": "y", "expected": "x"}]}])
    assert isinstance(done, BatchSummary) and (done.total, done.passed, done.failed) == (3, 2, 1)
    assert [(o.index, o.test, o.passed) for o in done.outcomes] == [(0, None, True), (1, 0, True), (1, 1, False)]
    assert done.outcomes[0].result.value == 2 and isinstance(list(c.batch_stream(["1"]))[-1], BatchSummary)


def test_checking_and_health(c):
    assert c.check("1 +")["valid"] is False and c.health()["status"] == "ok"


def test_asyncio():
    async def main():
        async with AsyncConstrictor.local(options=["--offline"]) as c:
            results = await asyncio.gather(*(c.run(f"{i} * 2") for i in range(5)))
            assert [r.value for r in results] == [0, 2, 4, 6, 8]
            assert [e.text async for e in c.stream("print(1)")][0] == "1\n"
            async with await c.session() as session:
                await session.upload("a", "text")
                assert await session.download("a") == b"text" and (await session.run("open('a').read()")).value == "text"
            execution = await c.start("5")
            assert (await execution.result()).value == 5
            assert (await c.batch(["1", "1 / 0"])).failed == 1

    asyncio.run(main())


def test_a_local_server_ends_with_its_client():
    with Constrictor.local(options=["--offline"]) as client:
        process, folder = client._server.process, client._server.folder
        assert client.run("1").success and pathlib.Path(folder).exists()
    assert process.returncode is not None and not pathlib.Path(folder).exists()
    with pytest.raises(RuntimeError, match="did not start"):
        Constrictor.local(options=["--nonsense"])


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL))
def test_examples_of_the_readme(example):
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_the_synchronous_client_is_current():
    assert subprocess.run([sys.executable, HERE / "make_sync", "--check"]).returncode == 0
