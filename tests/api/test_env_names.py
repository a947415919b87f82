# SPDX-License-Identifier: Apache-2.0
"""Indexes that have a name and not only an address: logins, and files that are kept at another host.

In the network laboratory, whose resolver and hosts are the tests' own (tests/net_servers.py).
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import net_servers
import rest_client
from conftest import ROOT, open_cli
from net_lab import Near

PASSWORD = "s3cret-of-the-tests"


@pytest.fixture
def start(program, lab):
    """A server that trusts the laboratory's certificates, as its boxes do where a root can arrange that."""
    with open_cli(program) as cli:
        trust = cli.folder / "certs"
        trust.mkdir()
        (trust / "ca-certificates.crt").write_text(lab.ca)
        for path in (cli.folder, trust, trust / "ca-certificates.crt"):
            path.chmod(0o755)

        def start(*flags, **environment):
            cover = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs && exec "$@"', trust] if ROOT else []
            client = rest_client.serve(cli, *lab.flags, *flags, prefix=[*lab.prefix, *cover],
                                       env={"SSL_CERT_FILE": str(trust / "ca-certificates.crt"), **environment})
            near = Near(client.port)
            near.lab, near.process = lab, client.process
            return near
        lab.clear()
        yield start


def install(server, packages):
    answer = server.post("/environments/base/packages", {"packages": packages, "wait": 60})
    assert PASSWORD.encode() not in answer.data and net_servers.LOGIN.encode() not in answer.data
    return answer.json


def works(server):
    return server.run("import tinywheel; tinywheel.ANSWER")["result"] == "42"


def test_a_login_at_a_host_with_a_name(start, lab):
    server = start(CONSTRICTOR_INDEX_URL=f"https://reader:{PASSWORD}@login.test/simple")
    job = install(server, "tinywheel")
    assert job["state"] == "ready" and works(server), job
    asked = lab.show("requests")
    assert asked and {(one["host"], one["port"], one["login"]) for one in asked} == {
        ("login.test", 443, f"Basic {net_servers.LOGIN}")}, asked
    assert set(lab.show("greetings")) == {"login.test"}     # what the certificate is chosen by


@pytest.mark.root
def test_hosts_that_the_pages_of_an_index_name(start, lab):
    """files.test is not allowed; the index says that its files are there."""
    server = start("--index-url", "https://pages.test/simple")
    job = install(server, "tinywheel")
    assert job["state"] == "ready" and works(server), job
    hosts = [one["host"] for one in lab.show("requests")]
    assert set(hosts) == {"pages.test", "files.test"}, hosts
    assert server.run("import socket; socket.create_connection(('files.test', 443), 5)")["verdict"] != "ok"
