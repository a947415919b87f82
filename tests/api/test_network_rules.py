# SPDX-License-Identifier: Apache-2.0
"""Rules about hosts: which are good, which callers may narrow them, when they change, and what is told about them.

By every door: command line, configuration file, network file, REST and MCP.
"""

import contextlib
import json
import signal

import pytest
from conftest import open_cli, wait_until
from mcp_client import MODERN
from net_lab import LOCAL_PORT, NEAR, PRELUDE, Boxes, Ran

# Not rules; each error must name the entry, or what it can show of it.
BAD = {
    "scheme": "http://web.test",
    "scheme_tls": "https://web.test/",
    "path": "web.test/path",
    "query": "web.test?x",
    "user": "user@web.test",
    "blank": "web .test",
    "port_zero": "web.test:0",
    "port_too_large": "web.test:65536",
    "port_backwards": "web.test:90-80",
    "port_empty": "web.test:",
    "port_word": "web.test:http",
    "two_ports": "web.test:80:90",
    "no_host": ":80",
    "star_inside": "w*b.test",
    "star_behind": "web.*",
    "two_stars": "*.*.test",
    "star_alone_before_dot": "*.",
    "empty_label": "web..test",
    "leading_dot": ".web.test",
    "label_too_long": "a" * 64 + ".test",
    "name_too_long": ".".join(["a" * 50] * 5),
    "hyphen_first": "-web.test",
    "hex_address": "0x7f000001",
    "octal_address": "0177.0.0.1",
    "decimal_address": "2130706433",
    "short_address": "127.1",
    "octets_too_large": "300.1.2.3",
    "prefix_too_long": "10.0.0.0/33",
    "prefix_word": "10.0.0.0/x",
    "bracket_open": "[2d00::1",
    "bracket_name": "[web.test]:80",
    "zone": "[fe80::1%eth0]:80",
    "underscore_star": "*_x.test",
    "percent": "web%2etest",
    "backslash": "web.test\\x",
    "hash": "web.test#x",
}
CONTROLS = {
    "crlf": "web.test\r\nHost: x",
    "nul": "web.test\0x",
    "tab": "web\t.test",
    "surrogate": "web\u202e.test",
}
GOOD = [
    "web.test",
    "WEB.Test.",
    "*.wild.test",
    "web.test:80",
    "web.test:8000-8010",
    "*",
    "192.0.2.7",
    "192.0.2.0/24",
    "[2d00::1]:443",
    "2d00::/32",
    "bücher.test",
    "xn--bcher-kva.test",
    "a-b.test",
    "_dmarc.test",
    "localhost",
]


# ---- good and bad rules --------------------------------------------------------------------------

BAD_USAGE = 64  # the exit status of a command that was told something wrong


@pytest.mark.parametrize("flag", ["--allow-host", "--deny-host"])
@pytest.mark.parametrize("what", BAD)
def test_bad_rule_on_the_command_line_is_named(cli, what, flag):
    done = cli.call("run", flag, f"good.test,{BAD[what]}", "-c", "print('ran')")
    assert done.status == BAD_USAGE and done.out == "", done
    assert f"{flag}: {flag[2:-5]}[1]" in done.err and "hint: " in done.err, done


@pytest.mark.parametrize(
    "what", ["scheme", "path", "hex_address", "port_too_large", "name_too_long"]
)
def test_bad_rule_in_the_environment_and_the_file_is_named(cli, what):
    done = cli.call("run", "-c", "print('ran')", env={"CONSTRICTOR_ALLOW_HOST": BAD[what]})
    assert done.status == BAD_USAGE and "CONSTRICTOR_ALLOW_HOST: allow[0]" in done.err, done
    file = cli.folder / "file.conf"
    file.write_text(f"allow-host = good.test, {BAD[what]}\n")
    done = cli.call("run", "--config", file, "-c", "print('ran')")
    assert done.status == BAD_USAGE and "allow[1]" in done.err and "file.conf" in done.err, done


FILES = {
    "not_json": ("{", "line"),
    "not_an_object": ("[]", ""),
    "unknown_member": ('{"defaults": {}}', "defaults"),
    "unknown_member_below": ('{"default": {"permit": []}}', "permit"),
    "allow_no_list": ('{"default": {"allow": "web.test"}}', "allow"),
    "rule_no_text": ('{"default": {"allow": [7]}}', "allow[0]"),
    "bad_rule": ('{"default": {"allow": ["a.test", "http://web.test"]}}', "http://web.test"),
    "bad_rule_of_a_key": ('{"keys": {"alice": {"deny": ["w*b.test"]}}}', "w*b.test"),
    "bad_method": ('{"default": {"allow": [{"host": "web.test", "methods": ["G ET"]}]}}', "G ET"),
    "bad_path": ('{"default": {"allow": [{"host": "web.test", "paths": ["v1"]}]}}', "v1"),
    "no_host": ('{"default": {"allow": [{"port": 80}]}}', "host"),
    "unknown_in_rule": ('{"default": {"allow": [{"host": "web.test", "method": []}]}}', "method"),
    "quota_zero": ('{"default": {"box": {"connections": 0}}}', "connections"),
    "quota_text": ('{"default": {"key": {"bytes_down": "lots"}}}', "bytes_down"),
    "unknown_quota": ('{"default": {"box": {"speed": 1}}}', "speed"),
    "double_member": ('{"default": {}, "default": {}}', ""),
    "too_many_rules": (
        json.dumps({"default": {"allow": [f"h{n}.test" for n in range(300)]}}),
        "256",
    ),
}


@pytest.mark.parametrize("what", FILES)
def test_bad_network_file_is_an_error_that_names_the_place(cli, what):
    text, said = FILES[what]
    file = cli.folder / "net.json"
    file.write_text(text)
    done = cli.call("run", "--network-file", file, "-c", "print('ran')")
    assert done.status == BAD_USAGE and done.out == "", done
    assert said in done.err and "net.json" in done.err, done


@pytest.mark.parametrize(
    "bad", ["web.test", "192.0.2.53:0", "192.0.2.53:65536", "192.0.2", "[::1", "[192.0.2.53]:53", "::1]:53"]
)
def test_a_resolver_that_is_no_address_is_told_at_the_start(cli, bad):
    done = cli.call("run", "--dns", f"192.0.2.53:5353,[2001:db8::53]:53,::1,{bad}", "-c", "1")
    assert done.status == 64 and f"dns '{bad}' from the option --dns" in done.err, done


def test_network_file_that_is_missing_or_huge_is_an_error(cli):
    done = cli.call("run", "--network-file", cli.folder / "none.json", "-c", "1")
    assert done.status == BAD_USAGE and "none.json" in done.err, done
    (cli.folder / "huge.json").write_text("{" + " " * (2 << 20) + "}")
    done = cli.call("run", "--network-file", cli.folder / "huge.json", "-c", "1")
    assert done.status == BAD_USAGE and "huge.json" in done.err, done


@pytest.fixture(scope="module")
def servers(program, lab):
    """One server for the tests that need nothing special: REST; and MCP over stdio."""
    with open_cli(program) as cli:
        rest = lab.serve(
            cli,
            "--allow-host",
            ",".join(ALLOWED),
            "--deny-host",
            "bad.wild.test,44.128.0.66",
            "--audit-file",
            cli.folder / "audit",
            "--stock",
            "1",
        )
        with Boxes(
            lab,
            cli,
            "--allow-host",
            ",".join(ALLOWED),
            "--deny-host",
            "bad.wild.test",
            version=MODERN,
        ) as boxes:
            yield rest, boxes, cli


ALLOWED = (
    "web.test",
    "*.wild.test",
    "private.test",
    "10.11.12.13",
    "metadata.test",
    "169.254.0.0/16",
    "mail.test:25-30",
    "44.128.5.0/24",
    "denied.test",
    "xn--bcher-kva.test",
)


@pytest.fixture
def rest(servers):
    return servers[0]


@pytest.fixture
def boxes(servers):
    return servers[1]


def run(rest, code, **fields):
    return Ran(rest.run(PRELUDE + code, **fields))


def tries(rest, *targets, **fields):
    """Which of host:port can be reached: a list of booleans, and the run."""
    code = "\n".join(f"attempt(lambda: connect({h!r}, {p}))" for h, p in targets)
    ran = run(rest, code, **fields)
    assert ran.verdict == "ok", ran
    return ["value" in one for one in ran.attempts], ran


@pytest.mark.parametrize("what", [*BAD, *CONTROLS])
def test_bad_rule_of_a_call_is_named_over_rest_and_mcp(rest, boxes, what):
    bad = {**BAD, **CONTROLS}[what]
    answer = rest.post("/execute", {"code": "print('ran')", "network": ["web.test", bad]})
    assert answer.status == 400 and b"ran" not in answer.data[:3], answer
    text = json.dumps(answer.error)
    assert "network" in text and "[1]" in text, text
    assert "hint" in answer.error, text
    said = boxes.call("execute_python", code="print('ran')", network=["web.test", bad])
    assert said["isError"] and "[1]" in json.dumps(said), said
    answer = rest.post("/sessions", {"network": {"deny": [bad]}})
    assert answer.status == 400 and "deny[0]" in json.dumps(answer.error), answer


@pytest.mark.parametrize(
    "bad",
    [True, 7, "on", "web.test", None, {"allowed": []}, {"allow": {}}, [[]], [None], [7]],
    ids=json.dumps,
)
def test_network_that_is_not_rules_is_an_error(rest, boxes, bad):
    if bad is not None:
        answer = rest.post("/execute", {"code": "1", "network": bad})
        assert answer.status == 400 and "network" in json.dumps(answer.error), answer
        answer = boxes.request(
            "tools/call", {"name": "execute_python", "arguments": {"code": "1", "network": bad}}
        )
        assert "error" in answer or answer["result"].get("isError"), answer


@pytest.mark.parametrize("rule", GOOD)
def test_good_rules_are_taken(cli, rule):
    done = cli.call("config", "--allow-host", rule)
    if done.status != 0:  # that command may not take it; a run does
        done = cli.run("6 * 7", "--allow-host", rule)
    assert done.status == 0, done


def test_rules_that_overlap_or_repeat_are_fine(rest):
    rules = [
        "web.test",
        "web.test:80",
        "WEB.TEST.",
        "*.wild.test",
        "*.a.wild.test",
        "a.wild.test:80",
    ]
    reached, ran = tries(rest, ("web.test", 80), ("a.wild.test", 80), network=rules)
    assert reached == [True, True], ran


def test_a_call_may_spell_a_name_otherwise(rest):
    assert tries(rest, ("bücher.test", 80), network=["BÜCHER.test"])[0] == [True]
    assert tries(rest, ("web.test", 80), network=["Web.TEST.:80"])[0] == [True]


# ---- what callers may --------------------------------------------------------------------------------


def test_call_narrows_what_the_key_has(rest):
    reached, ran = tries(rest, ("web.test", 80), ("a.wild.test", 80), network=["web.test:80"])
    assert reached == [True, False], ran
    assert ran.fields["network"]["allow"] == ["web.test:80"]
    assert tries(rest, ("web.test", 8080), network=["web.test:80"])[0] == [False]
    rules = {"allow": ["*.wild.test"], "deny": ["b.wild.test"]}
    reached, ran = tries(rest, ("a.wild.test", 80), ("b.wild.test", 80), network=rules)
    assert reached == [True, False], ran
    answer = rest.post("/execute", {"code": "1", "network": {"deny": ["web.test"]}})
    assert (
        answer.status == 400 and "allow" in answer.error["message"]
    ), "this would mean nothing"


@pytest.mark.parametrize(
    "rule",
    [
        "other.test",
        "*",
        "*.test",
        "mail.test",
        "mail.test:25-31",
        "10.0.0.0/8",
        "44.128.0.10",
        "wild.test",
        "44.128.0.0/16",
    ],
)
def test_more_than_the_key_has_is_an_error_before_anything_runs(rest, boxes, rule):
    answer = rest.post(
        "/execute", {"code": "open('/mnt/data/ran', 'w')", "network": ["web.test", rule]}
    )
    assert answer.status in (400, 403) and rule in json.dumps(answer.error), answer
    assert "stdout" not in answer.json
    said = boxes.call("execute_python", code="1", network=[rule])
    assert said["isError"] and rule in json.dumps(said), said
    answer = rest.post("/sessions", {"network": [rule]})
    assert answer.status in (400, 403) and rule in json.dumps(answer.error), answer


def test_session_narrows_and_a_call_in_it_narrows_further(rest):
    assert rest.post("/sessions", {"name": "n", "network": ["web.test", "a.wild.test"]}).status in (
        200,
        201,
    )
    both = ("web.test", 80), ("a.wild.test", 80), ("b.wild.test", 80)
    assert tries(rest, *both, session_id="n")[0] == [True, True, False]
    assert tries(rest, *both, session_id="n", network=["web.test"])[0] == [True, False, False]
    assert tries(rest, *both, session_id="n")[0] == [
        True,
        True,
        False,
    ], "the next call has all again"
    assert tries(rest, *both, session_id="n", network="off")[0] == [False] * 3
    answer = rest.post("/execute", {"code": "1", "session_id": "n", "network": ["b.wild.test"]})
    assert answer.status in (400, 403, 409) and "b.wild.test" in json.dumps(answer.error), answer
    assert rest.ask("DELETE", "/sessions/n").status in (200, 204)


def test_session_without_network_cannot_get_one(rest):
    assert rest.post("/sessions", {"name": "o", "network": "off"}).status in (200, 201)
    answer = rest.post("/execute", {"code": "1", "session_id": "o", "network": ["web.test"]})
    assert answer.status in (400, 403, 409) and "network" in json.dumps(answer.error), answer
    rest.ask("DELETE", "/sessions/o")


def test_deny_wins(rest):
    reached, ran = tries(rest, ("good.wild.test", 80), ("bad.wild.test", 80))
    assert reached == [True, False], ran
    (found,) = [e for e in ran.events if e["host"] == "bad.wild.test"]
    assert found["rule"] == "bad.wild.test" and found["reason"] == "denied", found
    assert "bad.wild.test" in ran.attempts[1]["error"]


def test_deny_of_an_address_holds_for_names_that_lead_there(rest, lab):
    lab.zone({"denied.test": {"a": ["44.128.0.66"]}})
    lab.clear()
    reached, ran = tries(rest, ("denied.test", 80))
    assert reached == [False] and lab.seen() == [], ran
    assert any(e["rule"] == "44.128.0.66" for e in ran.events), ran


def test_address_rules_open_that_address(rest, lab):
    """A private one too, when it is named; a network opens no metadata address."""
    reached, ran = tries(
        rest,
        ("private.test", 80),
        ("10.11.12.13", 80),
        ("10.11.12.14", 80),
        ("44.128.5.9", 80),
        ("44.128.6.9", 80),
        ("169.254.169.254", 80),
        ("metadata.test", 80),
    )
    assert reached == [True, True, False, True, False, False, False], ran
    assert ("169.254.169.254", 80) not in lab.seen()


def test_a_network_around_it_opens_no_address_of_the_host_itself(cli, lab):
    """Who allows 0.0.0.0/0 means the world, and not what listens on this machine."""
    code = f"attempt(lambda: connect({NEAR!r}, {LOCAL_PORT}))\nattempt(lambda: connect('44.128.5.9', 80))"
    for rule, reached in (("0.0.0.0/0", [False, True]), (f"0.0.0.0/0,{NEAR}", [True, True])):
        ran = lab.run(cli, code, "--allow-host", rule)
        assert ["value" in one for one in ran.attempts] == reached, ran
    assert lab.hits() == ["('::', %d, 0, 0)" % LOCAL_PORT]


def test_ports_of_a_range(rest):
    reached, ran = tries(rest, ("mail.test", 25), ("mail.test", 24), ("mail.test", 80))
    assert reached == [True, False, False], ran


KEYS = {
    "default": {"allow": []},
    "keys": {
        "alice": {
            "allow": ["web.test", "*.wild.test"],
            "deny": ["a.wild.test"],
            "key": {"connections": 12},
        },
        "bob": {"allow": ["other.test"]},
    },
}


def write(file, value):
    """In place, as editors do not, so that a half of it is never read: another file, renamed."""
    other = file.with_suffix(".new")
    other.write_text(json.dumps(value))
    other.rename(file)


@pytest.fixture
def keyed(lab, cli):
    file = cli.folder / "net.json"
    write(file, KEYS)
    env = {
        "CONSTRICTOR_API_KEY": "alice:alice-key-0123456789,bob:bob-key-0123456789,carol:carol-key-0123456789"
    }
    rest = lab.serve(
        cli, "--network-file", file, "--deny-host", "b.wild.test", "--stock", "0", env=env
    )
    rest.file = file
    for name in ("alice", "bob", "carol"):
        setattr(rest, name, rest.with_key(f"{name}-key-0123456789"))
    return rest


def test_each_key_has_its_own_rules(keyed):
    hosts = (
        ("web.test", 80),
        ("other.test", 80),
        ("a.wild.test", 80),
        ("b.wild.test", 80),
        ("c.wild.test", 80),
    )
    assert tries(keyed.alice, *hosts)[0] == [True, False, False, False, True]
    assert tries(keyed.bob, *hosts)[0] == [False, True, False, False, False]
    reached, ran = tries(keyed.carol, *hosts)
    assert reached == [False] * 5 and "network is off" in ran.attempts[0]["error"], ran
    answer = keyed.bob.post("/execute", {"code": "1", "network": ["web.test"]})
    assert answer.status in (400, 403) and "web.test" in json.dumps(answer.error), answer


def test_quota_of_a_key_counts_all_its_boxes(keyed):
    reached = []
    for _ in range(4):
        good, ran = tries(keyed.alice, *[("web.test", 80)] * 4)
        reached += good
    assert reached == [True] * 12 + [False] * 4, ran
    assert any(e["action"] == "quota" for e in ran.events), ran
    assert "quota" in ran.attempts[0]["error"] or "connections" in ran.attempts[0]["error"], ran
    assert tries(keyed.bob, ("other.test", 80))[0] == [True], "another key has its own"


def test_rules_change_live(keyed, lab):
    """A new rule works in the same session; a removed one ends what goes on by it."""
    bob = keyed.bob
    assert bob.post("/sessions", {"name": "live"}).status in (200, 201)
    code = "s = socket.create_connection(('other.test', 7), 10); s.sendall(b'x'); s.recv(1)"
    assert run(bob, code, session_id="live").result == "b'x'"
    assert tries(bob, ("web.test", 80), session_id="live")[0] == [False]

    def reload(rules, until):
        write(keyed.file, {**KEYS, "keys": {"bob": {"allow": rules}}})
        keyed.process.send_signal(signal.SIGHUP)
        assert wait_until(until), "the change is not in force"

    reload(
        ["web.test", "other.test"],
        lambda: tries(bob, ("web.test", 80), session_id="live")[0] == [True],
    )
    echo = run(bob, "s.sendall(b'y'); s.recv(1)", session_id="live")
    assert echo.result == "b'y'", "what is allowed as before goes on"
    reload(["web.test"], lambda: tries(bob, ("other.test", 80), session_id="live")[0] == [False])
    ended = run(bob, "attempt(lambda: (s.sendall(b'z'), s.recv(1)))", session_id="live")
    assert (
        ended.attempt.get("value", "").endswith("b'')")
        or "no rule allows this host" in ended.attempt.get("error", "")
    ), ended
    assert wait_until(
        lambda: lab.show("live").get("7", 0) == 0
    ), "the far side still has the connection"


def test_bad_file_on_reload_leaves_the_old_rules_in_force(keyed, cli):
    keyed.file.write_text('{"keys": {"bob": {"allow": ["http://web.test"]}}}')
    keyed.process.send_signal(signal.SIGHUP)
    for _ in range(3):
        assert tries(keyed.bob, ("other.test", 80), ("web.test", 80))[0] == [True, False]
    keyed.process.terminate()
    log = keyed.process.communicate(timeout=60)[1].decode()
    assert "http://web.test" in log, log


# ---- quotas of a box -----------------------------------------------------------------------------

MANY = """
kept = []
def one():
    kept.append(socket.create_connection(("web.test", 7), 20))
    kept[-1].sendall(b"x")
    return kept[-1].recv(1)
"""
QUOTAS = {
    "connections": (
        "--net-connections",
        3,
        MANY + "for n in range(5): attempt(one); kept.pop().close() if kept else 0",
        [True] * 3 + [False] * 2,
    ),
    "sockets": (
        "--net-sockets",
        2,
        MANY + """
for n in range(3): attempt(one)
while kept: kept.pop().close()
def again():    # the other side of the box needs a moment to see that they are closed
    for n in range(200):
        try: return one()
        except OSError: time.sleep(0.1)
    return one()
attempt(again)""",
        [True, True, False, True],
    ),
    "requests": (
        "--net-requests",
        3,
        """
import http.client
link = http.client.HTTPConnection("web.test")
def ask():
    link.request("GET", "/"); return link.getresponse().read()
for n in range(4): attempt(ask)""",
        [True] * 3 + [False],
    ),
    "rate": (
        "--net-rate",
        4,
        MANY + "for n in range(200):\n    attempt(one)\n    if 'value' not in told[-1]: break\n    kept.pop().close()\n"
        "time.sleep(1.5)\nattempt(one)",
        None,
    ),
    "bytes_up": (
        "--net-up",
        "64K",
        """
import urllib.request
attempt(lambda: urllib.request.urlopen("http://web.test/echo", data=b"x" * 30000).read())
attempt(lambda: urllib.request.urlopen("http://web.test/echo", data=b"x" * 200000).read())""",
        [True, False],
    ),
    "bytes_down": (
        "--net-down",
        "64K",
        """
import urllib.request
attempt(lambda: len(urllib.request.urlopen("http://web.test/bytes/30000").read()))
attempt(lambda: len(urllib.request.urlopen("http://web.test/bytes/200000").read()))""",
        [True, False],
    ),
}


@pytest.mark.parametrize("quota", QUOTAS)
def test_quota_of_a_box_is_kept_and_explained(lab, cli, quota):
    flag, value, code, expected = QUOTAS[quota]
    ran = lab.run(cli, code, "--allow-host", "web.test", flag, value)
    assert ran.verdict == "ok", ran
    reached = ["value" in one for one in ran.attempts]
    if quota == "rate":
        assert len(reached) > 2 and reached[0] and reached[-2:] == [False, True], ran
    else:
        assert reached == expected, ran
    found = [e for e in ran.events if e["action"] == "quota"]
    assert found and found[0]["reason"] == quota and flag in found[0]["hint"], ran
    if quota in (
        "connections",
        "sockets",
        "rate",
    ):  # the others end a connection that is open already
        assert any(
            "used up" in one.get("error", "") and flag in one["error"] for one in ran.attempts
        ), ran
    if quota.startswith("bytes"):
        assert 30000 < ran.network[quota] <= 65536, ran


# ---- what is told --------------------------------------------------------------------------------


def test_there_is_an_audit_line_for_every_connection(servers, lab):
    rest, _, cli = servers
    audit = cli.folder / "audit"
    before = len(audit.read_text().splitlines()) if audit.exists() else 0
    _, ran = tries(rest, ("web.test", 80), ("10.9.9.9", 80), ("web.test", 80))
    id = ran.execution_id

    def lines():
        return [json.loads(line) for line in audit.read_text().splitlines()[before:]]

    wait_until(lambda: len([l for l in lines() if id in json.dumps(l)]) >= 3)
    ours = [line for line in lines() if id in json.dumps(line)]
    assert len(ours) == 3, lines()
    good = [line for line in ours if line.get("host") == "web.test"]
    assert len(good) == 2
    for line in good:
        assert line["address"] == "44.128.0.10" and line["port"] == 80, line
        assert line["bytes_up"] > 0 and line["bytes_down"] > 0, line
    (bad,) = [line for line in ours if line not in good]
    assert bad["address"] == "10.9.9.9" and bad["reason"], bad
    assert all("time" in line or "at" in line or "ts" in line for line in ours), ours
    mode = audit.stat().st_mode & 0o777
    assert mode & 0o077 == 0, f"others may read or write it: {mode:o}"


def test_tools_say_whether_they_reach_the_world(lab, cli, boxes):
    def hint(connection, tool="execute_python"):
        tools = {t["name"]: t for t in connection.result("tools/list")["tools"]}
        assert "network" in json.dumps(tools[tool]["inputSchema"])
        return tools[tool]["annotations"]["openWorldHint"]

    assert hint(boxes) is True
    with Boxes(lab, cli) as closed:
        assert hint(closed) is False
        ran = closed.run("1")
        assert "network" not in (ran.usage or {}) or ran.usage["network"] is None


def test_openapi_describes_the_network(rest):
    document = rest.get("/openapi.json?exact=true").json
    schemas = document["components"]["schemas"]
    result = next(s for s in schemas.values() if "security_events" in s.get("properties", {}))
    assert "network" in result["properties"] and "bytes_down" in json.dumps(schemas)
    for path in ("/api/v1/execute", "/api/v1/sessions"):
        assert '"network"' in json.dumps(document["paths"][path]["post"]["requestBody"]), path


def test_result_says_what_the_run_had(rest, boxes):
    ran = run(rest, "1")
    assert "web.test" in json.dumps(ran.fields["network"]), ran
    assert run(rest, "1", network="off").fields["network"] == "off"
    text = boxes.run("connect('other.test', 80)").text
    assert "other.test" in text and "not_allowed" in text or "not allowed" in text, text


def test_events_reach_the_stream_of_rest(rest):
    *_, last = rest.stream(PRELUDE + "attempt(lambda: connect('other.test', 80))")
    assert any(e.get("host") == "other.test" for e in last["execution"]["security_events"]), last


@pytest.mark.parametrize(
    "value, good", [("false", False), ("0", False), ("true", True), ("1", True)]
)
def test_variable_of_other_servers_turns_it_off_and_on(lab, cli, value, good):
    ran = lab.run(
        cli,
        "attempt(lambda: connect('web.test', 80))",
        "--allow-host",
        "web.test",
        env={"SANDBOX_ENABLE_NETWORK": value},
    )
    assert ("value" in ran.attempt) == good, ran


def test_network_that_is_on_without_rules_reaches_nothing(lab, cli):
    lab.clear()
    ran = lab.run(
        cli,
        "attempt(lambda: connect('web.test', 80)); attempt(lambda: connect('44.128.0.10', 80))",
        "--network",
        "on",
    )
    assert (
        all("error" in one for one in ran.attempts) and lab.seen() == [] and lab.asked() == set()
    ), ran


def test_run_allows_hosts_by_its_flag(lab, cli):
    ran = lab.run(
        cli,
        "attempt(lambda: connect('web.test', 80)); attempt(lambda: connect('other.test', 80))",
        "--allow-host",
        "web.test:80",
    )
    assert ["value" in one for one in ran.attempts] == [True, False], ran
    plain = cli.plain(
        PRELUDE + "connect('other.test', 80)",
        *lab.flags,
        "--allow-host",
        "web.test",
        prefix=lab.prefix,
    )
    assert plain.status == 1 and "other.test" in plain.err and "allow" in plain.err, plain


def test_run_without_network_says_so_and_pays_nothing(lab, cli, tools):
    """No process more than before: keeper, gate, zygote and box."""
    ready = "print('ready', flush=True); __import__('time').sleep(60)"

    def names(process):
        found = []
        for pid in tools.descendants(process.pid):
            with contextlib.suppress(OSError):  # boxes of the stock come and go
                found.append(open(f"/proc/{pid}/comm").read().strip())
        return found

    for flags in ((), ("--allow-host", "web.test")):
        process = cli.ready(ready, *flags)
        found = names(process)
        assert ("constrictor-net" in found) == bool(flags), found
        process.terminate()
        process.communicate(timeout=60)
