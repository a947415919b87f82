# SPDX-License-Identifier: Apache-2.0
"""policed: runs under a policy, and checks. runner.py calls it when a run's meta has "policy".

In the user process of a box. ADVICE, NOT A WALL: see policy.py.

    {"op": "check", "policy": {...}, "lint": false}     nothing runs; the report has "check": {...}
    {"policy": {"mode": "open" | "guarded" | "restricted", "tiers": [...], ...}}        a run
    both with "transformer": [folder] where the interpreter itself has no RestrictedPython
In mode guarded, code whose import statements break the policy is refused before it runs, in phase
"security_check"; imports that show only later are refused while it runs. Mode restricted also
transforms the code.
"""

import builtins
from _json import make_encoder
from errno import EROFS

from base import __builtins__           # first: functions look builtins up there
from base import Box, HERE, PAYLOAD_MAX, clip, quote, to_json
from check import check, judge, settle
from guard import Guard, begin, deny_calls, end, install, note
from policy import BadPolicy, Policy
from source import recoded, to_steps

REASON_MAX = 2000           # characters of a message about several violations
PRACTICE = 4                # checks that a zygote does ahead of time
SHOWN = 5                   # violations in such a message
LISTED = 100                # violations in an answer
READ_ONLY = ("this run cannot write files: its policy lacks the tier 'filesystem' "
             "(--enable-filesystem); print results, or upload files with the call")


class PolicyError(SyntaxError):
    """The code does what its policy does not allow; none of it has run."""


class Refused:
    items = ()              # violations in the code of this run


class Last:
    asked = policy = None   # of the last check: the next check mostly asks for the same


PolicyError.__module__ = "builtins"     # keeps our module names out of tracebacks

encoder = make_encoder(None, None, quote, None, ":", ",", False, False, False)


def json_of(value):
    return "".join(encoder(value, 0))


def failure(message, code):
    error = {"type": "PolicyError", "message": message, "line": None, "column": None,
             "code_line": None, "traceback": [], "text": f"PolicyError: {message}\n",
             "reported": False, "code": code}
    answer = {"exit_code": 1, "phase": "security_check", "error": error}
    return to_json(answer, PAYLOAD_MAX).encode()


def answer_check(meta, source, policy):
    Box.session = meta.get("mode") == "session"         # else this box does nothing more
    if b"coding" in source:
        source = recoded(source, "<stdin>" if "from_file" in meta else "<code>")[1]
    found = check(source, policy, meta.get("lint") is True)
    Box.afterwards = finish_check if Box.session else None
    text = f'{{"exit_code":0,"phase":"check","check":{json_of(found)}}}'.encode()
    if len(text) > PAYLOAD_MAX:
        for key in "functions", "classes", "imports":
            found["analysis"].pop(key, None)
        text = f'{{"exit_code":0,"phase":"check","check":{json_of(found)}}}'.encode()
    return text


def finish_check():
    """Called when the answer has been sent."""
    Box.afterwards = None
    settle()


def practise():
    """In a warm zygote: lets CPython specialise this code once, instead of in every box."""
    with open(HERE + "check.py", "rb") as file:
        source = file.read()
    for _ in range(PRACTICE):
        answer_check({"mode": "session"}, source, Policy({"mode": "guarded"}))
        finish_check()


def compile_judged(source, filename):
    """Used instead of source.to_steps(): refuses code that certainly breaks the policy."""
    policy = Guard.policy
    if policy.mode == "restricted":
        return Box.rich.own("restricted").to_steps(source, filename, policy)
    refused = judge(source, policy)
    if refused:
        refuse(refused, filename)
    return to_steps(source, filename)


def refuse(refused, filename):
    """Raises the error for violations that were found before the run."""
    Refused.items = refused[:LISTED]
    for item in refused:
        note(item["kind"], item["target"], item["line"], item["layer"], item["hint"])
    first = refused[0]
    text = "; ".join([f"line {item['line']}: {item['reason']}" for item in refused[:SHOWN]])
    more = f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
    message = clip(f"the policy of this run does not allow the code ({Guard.policy.describe()}): "
                   f"{text}{more}. {first['hint']}", REASON_MAX)
    raise PolicyError(message, (filename, first["line"], first["column"], None))


def policy_of_check(asked):
    if Last.policy is None or asked != Last.asked:
        Last.policy = Policy(asked)
        Last.asked = asked
    return Last.policy


def before(meta, source):
    """Called before a run. Returns None if the run goes on, else the answer."""
    is_check = meta.get("op") == "check"
    try:
        policy = policy_of_check(meta["policy"]) if is_check else Policy(meta["policy"])
    except BadPolicy as exc:
        return failure(str(exc), "bad_policy")
    Box.transformer = meta.get("transformer") or ()
    if is_check:
        return answer_check(meta, source, policy)
    if policy.mode == "restricted":
        problem = Box.rich.own("restricted").begin(policy)
        if problem is not None:
            return failure(problem, "restricted_missing")
    elif policy.mode == "guarded" or policy.judges:
        install()
    if policy.denied_calls and policy.mode != "restricted":
        deny_calls(Box.main.__dict__, policy.denied_calls)
    if policy.mode != "open":
        Box.rich.own("readonly").prepare()
    begin(policy)
    Box.compiler = compile_judged
    return None


def note_write(policy, error):
    """Records an event where code tried to write to the read-only file system."""
    files = policy.tiers is not None and "filesystem" in policy.tiers
    if policy.mode == "open" or files or error.get("errno") != EROFS:
        return
    words = error["message"].rpartition(": ")[2].strip("'")
    note("filesystem", words or "scratch", error["line"], "python", READ_ONLY)


def after(answer):
    """Called after the run with its answer, which may be None."""
    policy, error = Guard.policy, answer and answer.get("error")
    if policy is not None and error:
        note_write(policy, error)
    events = end()
    Box.compiler = None
    refused, Refused.items = Refused.items, ()
    if policy is None:
        return
    if policy.mode == "restricted":
        Box.rich.own("restricted").end()
    elif policy.denied_calls and Box.main is not None:
        Box.main.__dict__["__builtins__"] = builtins
    if answer is None:
        return
    error = answer.get("error")
    if error is not None and error["type"] == "PolicyError" and answer["phase"] == "syntax_check":
        answer["phase"] = "security_check"
        answer["violations"] = list(refused)
    if events:
        Box.events = [*Box.events, *events]     # runner.encode() puts them into the answer
