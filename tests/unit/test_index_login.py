# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/install/index_login.py and index_proxy.py: addresses of indexes that have a login, and the pages that the tools get in their place."""

import http.client
import os
import sys
import urllib.error
import urllib.request

import pytest

from python_side import ROOT, SIDE

sys.path[:0] = [SIDE, os.path.join(ROOT, "tests")]
import wheel_lab
from failure import Failure
from index import Index
from index_login import is_safe, lead
from index_proxy import IndexProxy, Server

HOSTS = ["x.example.org:443", "y.example.org:8443", "[2001:db8::1]:443"]


def test_addresses_of_hosts_with_a_login_are_led():
    for url, there in {"https://x.example.org/a?b#c": "http://x.example.org:443/a?b#c",
                       "https://X.Example.org:443/a": "http://x.example.org:443/a",
                       "https://y.example.org:8443/a": "http://y.example.org:8443/a",
                       "https://[2001:db8::1]/a": "http://[2001:db8::1]:443/a"}.items():
        assert lead(url, HOSTS) == there and is_safe(there, HOSTS)
    for url in ("https://y.example.org/a", "https://x.example.org.evil.test/a", "https://x.example.org:444/a", "http://x.example.org/a",
                "https://x.example.org:x/a", "https://evil.test/https://x.example.org/", "relative"):
        assert lead(url, HOSTS) == url
    assert not is_safe("http://x.example.org/", HOSTS) and not is_safe("http://z.example.org:443/", HOSTS)
    assert is_safe("https://anything.example.org/", None) and not is_safe("http://anything.example.org/", None)


def test_a_guarded_index_does_not_lead_to_plain_http():
    with wheel_lab.Lab() as lab, wheel_lab.Lab() as other:
        lab.moods["moved"] = wheel_lab.redirect(f"{other.host}/files/x")
        lab.moods["denied"] = wheel_lab.error(401)
        place = lab.host.removeprefix("http://")
        with pytest.raises(Failure) as caught:
            Index(lab.url, 5, [place]).open(f"https://{place}/moved")
        assert caught.value.code == "index_bad_answer" and not other.requests and lab.requests == ["/moved"]
        with pytest.raises(Failure) as caught:
            Index(lab.url, 5, [place]).open(f"{lab.host}/denied")
        assert caught.value.code == "index_unauthorized"


@pytest.mark.parametrize("html_only", [False, True])
def test_pages_name_files_on_loopback(html_only):
    with wheel_lab.Lab(html_only=html_only) as lab:
        place = lab.host.removeprefix("http://")
        made = lab.add(wheel_lab.wheel("lab-a", "1.0"), url=f"https://{place}/files/lab_a-1.0-py3-none-any.whl")
        lab.add(wheel_lab.wheel("lab-a", "2.0"), url="https://elsewhere.example.org/files/a.whl")
        lab.moods["old"] = wheel_lab.redirect(f"https://{place}/files/{made.filename}")
        lab.moods["lost"] = wheel_lab.hang_up
        proxy = IndexProxy([place, place], 5)
        try:
            local = proxy.local(f"{lab.host}/simple")
            assert local.endswith("/simple") and not local.startswith(lab.host) and proxy.back(local) == f"{lab.host}/simple"
            assert proxy.local("http://other.example.org/simple") == "http://other.example.org/simple"
            accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
            text = urllib.request.urlopen(urllib.request.Request(f"{local}/lab-a/", headers=accept), timeout=60).read().decode()
            base = local.removesuffix("/simple")
            assert f"{base}/files/{made.filename}" in text and f"https://{place}" not in text
            assert "https://elsewhere.example.org/files/a.whl" in text
            for path in f"/files/{made.filename}", "/old":
                with urllib.request.urlopen(base + path, timeout=60) as answer:
                    assert answer.read() == made.data and answer.headers["Content-Length"] == str(len(made.data))
            for path, status in {"/simple/none/": 404, "/lost": 502}.items():
                with pytest.raises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(base + path, timeout=60)
                assert caught.value.code == status
        finally:
            proxy.close()
        with pytest.raises((urllib.error.URLError, http.client.HTTPException)):
            urllib.request.urlopen(local, timeout=60)
        proxy.close()


def test_which_addresses_are_the_hosts_own():
    server = Server("x.example.org:443", 5)
    server.server_close()
    local = server.local.encode()
    for text, there in {b'"https://x.example.org/a"': b'"' + local + b'/a"', b"https://X.EXAMPLE.org:443/a": local + b"/a",
                        b"https://x.example.org": local}.items():
        assert server.localise(text) == there
    for text in (b"https://x.example.org.evil.test/", b"https://x.example.org:444/", b"https://xxexample.org/", b"https://x.example.org@evil.test/",
                 b"http://x.example.org/"):
        assert server.localise(text) == text


def test_without_guarded_indexes_nothing_is_started():
    proxy = IndexProxy([], 5)
    assert proxy.process is None and proxy.local("http://a.example.org/") == "http://a.example.org/"
    proxy.close()
