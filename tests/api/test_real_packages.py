# SPDX-License-Identifier: Apache-2.0
"""Real packages from the registry that pip asks by itself, installed and used: numpy, pandas, matplotlib, scikit-learn,
requests, and more with compiled code.

Whether there is a registry is found out by asking it. Where it cannot be reached there is nothing to show: then no
test of this file is collected, and a warning says why. What the same machinery does without any network is in the
other files (test_env*.py).
"""

import base64
import ipaddress
import pathlib
import socket
import ssl
import sys
import urllib.parse
import urllib.request
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import ROOT, TOP, open_cli
from rest_client import serve

UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
TRY_S = 5
INSTALL_S = 240
PACKAGES = "numpy pandas matplotlib scikit-learn requests lxml"


def index_of_pip():
    """Where pip goes without options: the index, and the host of its files."""
    from pip._internal.models.index import PyPI

    return PyPI.simple_url, PyPI.file_storage_domain


def look():
    """Asks the index. Returns (flags that a server needs on this machine, None) or (None, why not)."""
    try:
        url, files = index_of_pip()
    except ImportError as exc:
        return None, f"the tests' interpreter has no pip: {exc}"
    flags = set()
    try:
        for host in {urllib.parse.urlsplit(url).hostname, files}:
            for *_, address in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM):
                # A name that leads to a private or reserved address, as in a laboratory: the operator has to say so.
                if not ipaddress.ip_address(address[0]).is_global:
                    flags.add(address[0])
        context = ssl.create_default_context()
        for name in "numpy", "lxml":
            with urllib.request.urlopen(f"{url}/{name}/", timeout=TRY_S, context=context) as answer:
                if b".whl" not in answer.read(1 << 20):
                    return None, "what answers is no index"
    except OSError as exc:
        return None, f"{type(exc).__name__}: {exc}"
    return [word for address in sorted(flags) for word in ("--index-host", address)], None


# As an unprivileged user it is the same registry and the same code once more.
FLAGS, WHY_NOT = look() if ROOT else (None, None)
if WHY_NOT:
    warnings.warn(f"no real packages were installed: {WHY_NOT}", stacklevel=1)


def real(test):
    """Only where there is a registry."""
    return None if FLAGS is None else test


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        (cli.folder / "state").mkdir()
        # In memory: to remove so many files from a disk takes longer than all the rest.
        mount = f'mount -t tmpfs -o size=3g,mode=755 none {cli.folder}/state && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", mount, "sh")
        server = serve(cli, "--python", PYTHON, "--wall", "60s", *FLAGS, prefix=prefix)
        answer = server.post("/environments", {"name": "real"})
        assert answer.status == 201, answer
        job = server.post("/environments/real/packages", {"packages": PACKAGES, "wait": 50}).json
        while job["state"] not in ("ready", "failed", "cancelled") and job["elapsed_seconds"] < INSTALL_S:
            job = server.get(f"/environments/real/jobs/{job['job']}?wait=50").json
        assert job["state"] == "ready", job
        server.added = {item["name"]: item["version"] for item in job["added"]}
        yield server


USES = {
    "numpy": ("import numpy as np\na = np.arange(12.0).reshape(3, 4)\nfloat((a @ a.T).trace()), a.sum(axis=0).tolist()", "(506.0, [12.0"),
    "pandas": (
        "import pandas as pd, io\n"
        "table = pd.read_csv(io.StringIO('city,year,n\\nA,2023,1\\nA,2024,3\\nB,2024,10'), parse_dates=['year'])\n"
        "[int(n) for n in table.groupby('city')['n'].sum()]",
        "[4, 10]",
    ),
    "scikit-learn": (
        "import numpy as np\nfrom sklearn.linear_model import LinearRegression\nfrom sklearn.cluster import KMeans\n"
        "x = np.arange(20.0).reshape(-1, 1)\nfit = LinearRegression().fit(x, 3 * x.ravel() + 1)\n"
        "labels = KMeans(2, n_init=3, random_state=1).fit(np.r_[x, x + 100]).labels_\n"
        "round(float(fit.coef_[0]), 6), round(float(fit.intercept_), 6), len(set(labels[:20])), len(set(labels))",
        "(3.0, 1.0, 1, 2)",
    ),
    "requests": (
        "import requests\nsession = requests.Session()\nsession.headers['X-Test'] = '1'\n"
        "ready = session.prepare_request(requests.Request('GET', 'https://example.org/a', params={'b': 'c d'}))\n"
        "try:\n    session.get('https://192.0.2.1/', timeout=2)\nexcept requests.exceptions.RequestException as exc:\n"
        "    print(type(exc).__name__)\n"
        "ready.url, ready.headers['X-Test']",
        "('https://example.org/a?b=c+d', '1')",
    ),
    "lxml": (
        "from lxml import etree\ntree = etree.fromstring('<a><b n=\"1\"/><b n=\"2\"/></a>')\n"
        "tree.xpath('sum(//b/@n)'), etree.LIBXML_VERSION > (2, 0)",
        "(3.0, True)",
    ),
}


@real
@pytest.mark.root
@pytest.mark.parametrize("name", USES)
def test_a_real_package_is_used(server, name):
    code, wanted = USES[name]
    found = server.run(code, session="real", environment="real")
    assert found["verdict"] == "ok" and found["result"].startswith(wanted), found


@real
@pytest.mark.root
def test_a_real_figure(server):
    code = "import matplotlib\nimport matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('real')\nplt.show()\nmatplotlib.__file__"
    lines = server.stream(code, environment="real")
    [image] = [line for line in lines if "image" in line]
    assert image["format"] == "png" and base64.b64decode(image["image"]).startswith(b"\x89PNG\r\n")
    assert "/opt/wheels/" in str(lines[-1]), lines[-1]


@real
@pytest.mark.root
def test_all_come_from_wheels(server):
    """Each of them is what the lock says, and none is the interpreter's own."""
    wanted = PACKAGES.split()
    assert set(wanted) <= set(server.added) and "scipy" in server.added, server.added
    code = (
        "import importlib.metadata as m, numpy, pandas, sklearn, requests, lxml.etree, scipy\n"
        f"[m.version(name) for name in {wanted}], {{x.__file__.split('/')[2] for x in "
        "(numpy, pandas, sklearn, requests, lxml.etree, scipy)}"
    )
    found = server.run(code, environment="real")
    versions = [server.added[name] for name in wanted]
    assert found["result"] == repr((versions, {"wheels"})), found


@real
@pytest.mark.root
def test_a_second_environment_costs_nothing(server):
    server.post("/environments", {"name": "second"})
    job = server.post("/environments/second/packages", {"packages": PACKAGES, "wait": 50}).json
    assert job["state"] == "ready" and job["elapsed_seconds"] < 1, job
    assert server.run("import sklearn, lxml.etree; 1", environment="second")["result"] == "1"
