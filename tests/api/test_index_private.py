# SPDX-License-Identifier: Apache-2.0
"""A package index inside a company: its name leads to a private address. The operator configures it as pip users do, and
then packages come from there, and from nowhere else that is private.

The private address is loopback here, and a resolver of the test leads the names of INSIDE to it.
"""

import os
import pathlib
import socket
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli

NAME, OTHER = INSIDE = "index.corp.test", "files.corp.test"


class Resolver:
    """A DNS server of a few lines: an A record of 127.0.0.1 for the names of INSIDE, nothing else."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.flag = "--dns", "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(4096)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
                at += 1 + query[at]
            known = ".".join(labels) in INSIDE
            answers = known and query[at + 2] == 1
            self.socket.sendto(
                query[:2] + (b"\x81\x80" if known else b"\x81\x83") + b"\0\1" + bytes([0, answers]) + bytes(4)
                + query[12:at + 5] + answers * b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1", client)


DNS = Resolver().flag


@pytest.fixture(scope="module")
def index():
    """lab-good is on the index's own host, lab-far on another one, lab-led on the index, which leads elsewhere."""
    with wheel_lab.Lab() as lab:
        port = lab.server.server_address[1]
        lab.host, lab.url = f"http://{NAME}:{port}", f"http://{NAME}:{port}/simple"
        lab.other, lab.port = f"{OTHER}:{port}", port
        lab.add(wheel_lab.wheel("lab-good", "1.0"))
        far = wheel_lab.wheel("lab-far", "1.0")
        lab.add(far, url=f"http://{lab.other}/files/{far.filename}")
        led = lab.add(wheel_lab.wheel("lab-led", "1.0"))
        lab.moods[rf"/files/{led.filename}"] = lambda handler: handler.answer(
            b"", "text/plain", 302, [("Location", f"http://{lab.other}/elsewhere/{led.filename}")])
        yield lab


@pytest.fixture
def cli(program):
    with open_cli(program) as found:
        yield found


def install(cli, package, *flags, **options):
    return cli.call("env", "install", "base", package, "--python", sys.executable, *DNS, *flags, **options)


def test_the_index_of_an_option(cli, index):
    done = install(cli, "lab-good", "--index-url", index.url)
    assert done.status == 0, done
    ran = cli.call("run", "--env", "base", "--python", sys.executable, "-c", "import lab_good; print(lab_good.VERSION)")
    assert ran.out == "1.0\n", ran


def test_more_indexes(cli, index):
    with wheel_lab.Lab() as empty:
        done = install(cli, "lab-good", "--index-url", empty.url, "--extra-index-url", index.url)
        assert done.status == 0, done


def test_pip_index_url_of_the_environment(cli, index):
    done = install(cli, "lab-good", env={"PIP_INDEX_URL": index.url})
    assert done.status == 0, done


@pytest.mark.parametrize("text", [
    "[global]\nindex-url = {url}\n",
    "[install]\nindex_url: {url}\n[global]\nindex-url = http://wrong.example.org/simple\n",
    "# of the company\n[global]\ntimeout = 60\nindex-url = http://localhost:1/none\nextra-index-url =\n"
    "    http://localhost:2/none\n    {url}\n",
])
def test_the_index_of_pip_conf(cli, index, text):
    folder = cli.folder / "home/.config/pip"
    folder.mkdir(parents=True)
    (folder / "pip.conf").write_text(text.format(url=index.url))
    home = {"HOME": str(cli.folder / "home"), "XDG_CONFIG_HOME": ""}
    shown = cli.call("config", env=home).out
    assert index.url in shown and "settings of pip" in shown, shown
    if "none" not in text:
        done = install(cli, "lab-good", env=home)
        assert done.status == 0, done
    # An index of the operator's own is never mixed with pip's.
    shown = cli.call("config", "--index-url", "http://own.example.org/simple", env=home).out
    assert index.url not in shown, shown


@pytest.mark.root  # only root can give a file away
def test_root_reads_no_pip_conf_of_others(cli, index):
    folder = cli.folder / "home/.config/pip"
    folder.mkdir(parents=True)
    (folder / "pip.conf").write_text(f"[global]\nindex-url = {index.url}\n")
    os.chown(folder / "pip.conf", 65534, 65534)
    shown = cli.call("config", env={"HOME": str(cli.folder / "home"), "XDG_CONFIG_HOME": ""}).out
    assert index.url not in shown, shown


def test_other_private_hosts_stay_shut(cli, index):
    """The index names one for a file, or leads there: refused, and the hint is one that helps."""
    for package in "lab-far", "lab-led":
        done = install(cli, package, "--index-url", index.url, "--json")
        assert done.status != 0, done
        assert f"--index-host {index.other}" in done.out + done.err, done
        assert "--allow-host" not in done.out + done.err, done
    assert not any("elsewhere" in path or "lab_far" in path for path in index.requests), index.requests
    done = install(cli, "lab-far", "--index-url", index.url, "--index-host", index.other)
    assert done.status == 0, done


def test_another_port_of_the_index_stays_shut(cli, index):
    with wheel_lab.Lab() as near:
        made = wheel_lab.wheel("lab-near", "1.0")
        near.add(made)
        index.add(made, url=f"http://{NAME}:{near.server.server_address[1]}/files/{made.filename}")
        done = install(cli, "lab-near", "--index-url", index.url)
        assert done.status != 0 and near.requests == [], (done, near.requests)


def test_user_code_does_not_reach_it(cli, index):
    """The index is for installing: code gets what --allow-host says, and a name is not enough for a private address."""
    code = f"import urllib.request; urllib.request.urlopen('{index.url}/lab-good/')"
    before = len(index.requests)
    for flags in (), ("--allow-host", NAME):
        ran = cli.call("run", "--python", sys.executable, "--index-url", index.url, *DNS, *flags, "-c", code)
        assert ran.status == 1, ran
    assert len(index.requests) == before
    assert "address_not_public" in ran.err or "refused" in ran.err, ran


def test_a_name_of_allow_url_stays_public(cli, index):
    """Callers write such addresses."""
    done = install(cli, f"x @ https://{OTHER}/x-1-py3-none-any.whl", "--index-url", index.url, "--allow-url", OTHER)
    assert done.status != 0 and "x-1-py3" not in " ".join(index.requests), done


def test_an_index_on_localhost(cli, index):
    made = wheel_lab.wheel("lab-local", "1.0")
    index.add(made, url=f"/files/{made.filename}")
    done = install(cli, "lab-local", "--index-url", f"http://localhost:{index.port}/simple")
    assert done.status == 0, done
