# SPDX-License-Identifier: Apache-2.0
"""What a program does with a client that openapi-python-client generated: run by tests/api/test_generated_clients.py.

usage: generated.py FOLDER-OF-THE-CLIENT ADDRESS KEY
"""

import io
import json
import sys

sys.path.insert(0, sys.argv[1])
from generated import AuthenticatedClient
from generated.api.default import batch, close_session, delete_file, execute, health, list_files, open_session, read_file, write_file
from generated.models import BatchEntry, BatchRequest, ExecuteRequest, FileInput, NetworkRules, OpenSessionRequest
from generated.types import File

client = AuthenticatedClient(sys.argv[2], sys.argv[3], timeout=600)


def run(**fields):
    return execute.sync(client=client, body=ExecuteRequest(stream=False, **fields))


# Code runs, and each kind of answer is read into its type.
done = run(code="print('out')\nx = [1, 2]\n6 * 7")
assert (done.verdict, done.stdout, done.result, done.usage.processes) == ("ok", "out\n", "42", 1), done
assert [(v.name, v.length) for v in done.variables] == [("x", 2)], done
failed = run(code="import json\njson.loads('{')")
assert (failed.error.type_, failed.error.line, failed.error.traceback[0].line) == ("json.decoder.JSONDecodeError", 2, 2), failed
slow = run(code="while True: pass", timeout=0.3)
assert (slow.verdict, slow.limit.name) == ("timeout_wall", "wall"), slow
cut = run(code="print('x' * 10**8)")
assert cut.verdict == "output_limit" and cut.truncated.stdout.total > cut.truncated.stdout.kept, cut.truncated
many = run(code="for i in range(120): open(f'f{i}', 'w').close()")
assert len(many.files) == 100 and many.files_omitted == 20, (len(many.files), many.files_omitted)
given = run(code="print(n + 1, open('a.txt').read())", variables=ExecuteRequest.from_dict(
    {"code": "", "stream": False, "variables": {"n": 1}}).variables, files=[FileInput(path="a.txt", text="text")],
    network=NetworkRules(allow=[]))  # fmt: skip
assert given.stdout == "2 text\n", given
refused = run(code="1", timeout=-1)
assert (refused.status, refused.code) == (400, "bad_value") and "timeout" in refused.detail, refused

# A stream: the client knows the request, httpx reads its lines.
with client.get_httpx_client().stream(**execute._get_kwargs(body=ExecuteRequest(
        code="import time\nfor i in range(3): print(i, flush=True)", stream=True))) as answer:  # fmt: skip
    lines = [json.loads(line) for line in answer.iter_lines() if line]
assert "".join(line.get("text", "") for line in lines) == "0\n1\n2\n" and lines[-1]["verdict"] == "ok", lines

# Files go up and come down as they are.
data = bytes(range(256)) * 4000
session = open_session.sync(client=client, body=OpenSessionRequest(name="files of ours"))
assert session.state in ("idle", "opening"), session
put = write_file.sync(session.session, "data/raw bytes.bin", client=client, body=File(io.BytesIO(data)))
assert put.size == len(data), put
assert run(code="len(open('data/raw bytes.bin', 'rb').read())", session=session.session).result == str(len(data))
assert read_file.sync(session.session, "data/raw bytes.bin", client=client).payload.read() == data
assert [file.path for file in list_files.sync(session.session, client=client).files] == ["data/raw bytes.bin"]
assert delete_file.sync(session.session, "data", client=client).deleted == 1
missing = read_file.sync(session.session, "data/raw bytes.bin", client=client)
assert (missing.status, missing.code) == (404, "file_not_found"), missing
assert close_session.sync(session.session, client=client).closed

# A batch.
both = batch.sync(client=client, body=BatchRequest(stream=False, items=[BatchEntry(code="1 + 1"), BatchEntry(code="1 / 0")]))
assert [item.execution.result for item in both.results] == ["2", None] and both.verdicts.to_dict() == {"ok": 1, "error": 1}, both

assert health.sync(client=client).status == "ok"
print("all of it worked")
