# SPDX-License-Identifier: Apache-2.0
"""index: asks a package index (PEP 503 HTML, PEP 691 JSON) for the files of a project, and downloads files.

In the user process of an installing box, which reaches the index through the broker and nothing else.
The resolver has its own client; this one explains why it failed, finds release dates where the resolver is
pip, and downloads wheels. SECURITY: answers of the index are hostile: bounded and checked.
"""

import base64
import hashlib
import html.parser
import http.client
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

from failure import Failure, clean
from index_login import is_safe, lead

PAGE_MAX = 64 << 20         # bytes of an answer
ROOT_MAX = 1 << 20          # bytes of a list of all projects; a longer one is not used
FILES_MAX = 100_000
REDIRECTS_MAX = 5
PIECE = 1 << 18
ACCEPT = ("application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
          "text/html;q=0.1")
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
               "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem")


def authorities():
    """The file with the certificates that this machine trusts, or None."""
    paths = ssl.get_default_verify_paths()
    return next((path for path in (paths.cafile, paths.openssl_cafile, *AUTHORITIES)
                 if path and os.path.isfile(path)), None)


class Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections, max_repeats = REDIRECTS_MAX, 2

    def __init__(self, login_hosts):
        self.login_hosts = login_hosts

    def redirect_request(self, request, file, code, message, headers, url):
        url = lead(url, self.login_hosts)
        # SECURITY: a redirect must not lead from https to http.
        if not url.startswith(("https:", "http:")) or \
                is_safe(request.full_url, self.login_hosts) and not is_safe(url, self.login_hosts):
            raise Failure("index_bad_answer", f"the index wants to lead from {clean(request.full_url, 200)} to "
                          f"{clean(url, 100)}", hint="an https address may lead only to another one")
        return super().redirect_request(request, file, code, message, headers, url)


REFUSED = re.compile(r"\[(?:[a-z_]*not_allowed|denied)\]")      # a denial by the broker, with its reason
PRIVATE = re.compile(r"\[address_not_public\]")
OTHER_HOST = "the index uses another host for its files; the operator can allow it: --index-host {}"


def reason_of(exc):
    """The cause of an exception, in a few words."""
    reason = getattr(exc, "reason", exc)
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return "no answer in time"
    text = re.sub(r"^\[Errno -?\d+\] |(?<=\]); .*", "", str(reason))      # without the broker's hint
    return clean(text, 200) or type(exc).__name__


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.is_index, self.in_title, self.title = [], False, False, ""

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.in_title = tag == "title"
        if tag == "a" and found.get("href") and len(self.links) < FILES_MAX:
            self.links.append(found)
        self.is_index |= tag == "meta" and found.get("name") == "pypi:repository-version"

    def handle_data(self, data):
        if self.in_title:
            self.title, self.in_title = data[:200], False


class Index:
    """url: address of the simple API. timeout: seconds to connect, and for each read. login_hosts: index_login.py."""

    def __init__(self, url, timeout, login_hosts=()):
        self.login_hosts = tuple(login_hosts or ())
        login, at, _ = urllib.parse.urlsplit(url).netloc.rpartition("@")
        self.login = urllib.parse.unquote(login) if at else None
        self.url, self.timeout = url.replace(f"{login}@", "", 1).rstrip("/") if at else url.rstrip("/"), timeout
        handlers = [urllib.request.ProxyHandler({}), Redirects(self.login_hosts)]
        if url.startswith("https:") or self.login_hosts:     # may redirect to https
            handlers.append(urllib.request.HTTPSHandler(
                context=ssl.create_default_context(cafile=authorities())))
        self.opener = urllib.request.build_opener(*handlers)
        self.opener.addheaders = [("User-Agent", "constrictor")]

    def open(self, url, accept="*/*"):
        """The answer; None for 404. Raises Failure for errors."""
        url = lead(url, self.login_hosts)
        try:
            request = urllib.request.Request(url, headers={"Accept": accept})
            if self.login:              # not for where a redirection leads
                request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(
                    self.login.encode()).decode())
            return self.opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as exc:
            if exc.code in (404, 410):
                return None
            if exc.code < 400:
                raise Failure("index_bad_answer", f"the index redirects {clean(url, 200)} in a circle, or to an "
                              "address that is not allowed", hint="is index-url the address of a simple API?") from None
            if exc.code == 401 or exc.code == 403 and urllib.parse.urlsplit(url).netloc in self.login_hosts:
                raise Failure("index_unauthorized", f"the index answered {exc.code} {clean(exc.reason, 100)} for "
                              f"{clean(url, 200)}", hint="the user or password is wrong, or the user has no access: "
                              "the operator sets them with --index-credentials") from None
            raise Failure("index_unreachable" if exc.code >= 500 or exc.code == 429 else "index_bad_answer",
                          f"the index answered {exc.code} {clean(exc.reason, 100)} for {clean(url, 200)}",
                          hint="the index denies access to this" if exc.code == 403 else
                          "try again later") from None
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise self.unreachable(exc, url) from None

    def unreachable(self, exc, url):
        parts = urllib.parse.urlsplit(url)
        port = "" if parts.port else ":443" if parts.scheme == "https" else ":80"
        if PRIVATE.search(str(exc)):
            hint = ("the operator can allow such an address: --index-url URL for the index itself, --index-host "
                    f"{clean(parts.netloc, 100)}{port} for a host that has only its files")
        elif REFUSED.search(str(exc)):
            hint = OTHER_HOST.format(clean(parts.netloc, 100) + port)
        else:
            hint = "check that the index is up, its address (index-url) is right, and the server may reach it"
        return Failure("index_unreachable", f"the index at {clean(parts.netloc, 100)} cannot be reached: "
                       f"{reason_of(exc)}", hint=hint)

    def page(self, path, most):
        """(content type, bytes, address) or None."""
        url = f"{self.url}/{path}"
        answer = self.open(url, ACCEPT)
        if answer is None:
            return None
        end = time.monotonic() + 4 * self.timeout
        pieces, left = [], most + 1
        try:
            with answer:
                while left > 0:
                    piece = answer.read1(min(left, PIECE))
                    if not piece:
                        break
                    pieces.append(piece)
                    left -= len(piece)
                    if time.monotonic() > end:
                        raise socket.timeout()
        except (OSError, http.client.HTTPException) as exc:
            raise self.unreachable(exc, url) from None
        if left <= 0:
            raise Failure("index_bad_answer", f"the index answered with more than {most} bytes")
        return answer.headers.get_content_type(), b"".join(pieces), answer.geturl()

    def bad_answer(self, why):
        return Failure("index_bad_answer", f"the index at {clean(self.url, 200)} gave an invalid answer: {why}",
                       hint="index-url must be the address of a simple API, not of a web page or a login; it often "
                            "ends with /simple")

    def names(self):
        """The names of all projects, if the index is small enough to list them; else none."""
        try:
            kind, data, _ = self.page("", ROOT_MAX)
            if kind.endswith("json"):
                return [str(item["name"])[:100] for item in json.loads(data)["projects"]]
            links = Links()
            links.feed(data.decode("utf-8", "replace"))
            return [item["href"].rstrip("/").rpartition("/")[2][:100] for item in links.links]
        except Exception:
            return []

    def files(self, name):
        """[{filename, url, sha256, yanked, requires_python, upload_time, size}], or None: no such project."""
        page = self.page(f"{name}/", PAGE_MAX)
        if page is None:
            return None
        kind, data, address = page
        try:
            if kind.endswith("json"):
                return [self.of_json(item, address) for item in json.loads(data)["files"][:FILES_MAX]]
            if "html" not in kind:
                raise self.bad_answer(f"{clean(kind, 60)} instead of JSON or HTML")
            links = Links()
            links.feed(data.decode("utf-8", "replace"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise self.bad_answer(clean(exc, 200)) from None
        found = [self.of_link(item, address) for item in links.links]
        found = [item for item in found if item["filename"].endswith((".whl", ".tar.gz", ".zip", ".egg"))]
        if not found and not links.is_index and not links.title.startswith("Links for"):
            raise self.bad_answer("a web page without files" +
                                  (f", titled {clean(links.title, 80)!r}" if links.title else ""))
        return found

    @staticmethod
    def of_json(item, address):
        return {"filename": str(item["filename"])[:400], "url": urllib.parse.urljoin(address, str(item["url"])),
                "sha256": (item.get("hashes") or {}).get("sha256"), "yanked": bool(item.get("yanked", False)),
                "requires_python": item.get("requires-python"), "upload_time": item.get("upload-time"),
                "size": item.get("size")}

    @staticmethod
    def of_link(item, address):
        url, _, fragment = urllib.parse.urljoin(address, item["href"]).partition("#")
        return {"filename": urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])[:400],
                "url": url, "sha256": fragment[7:] if fragment.startswith("sha256=") else None,
                "yanked": "data-yanked" in item, "requires_python": item.get("data-requires-python"),
                "upload_time": item.get("data-upload-time"), "size": None}

    def fetch(self, url, path, most, deadline, report, announced=None):
        """Downloads a file; returns (size, SHA-256), which the caller compares."""
        def too_much(size):
            if announced and announced <= most:
                raise Failure("index_bad_answer",
                              f"{clean(url, 200)} has {size} bytes: the index announced {announced}",
                              hint="the file was changed on its way or on the index: do not trust it")
            raise Failure("too_large", f"{clean(url, 200)} has {size} bytes: at most {most} are allowed",
                          hint="ask for another version, or the operator for a higher limit (install-bytes)")
        answer = self.open(url)
        if answer is None:
            raise Failure("index_bad_answer", f"the index lists the file {clean(url, 200)} but does not have it",
                          hint="the index may be changing: try again")
        size, hasher = 0, hashlib.sha256()
        try:
            with answer, open(path, "xb") as target:
                limit = min(most, announced or most)
                if int(answer.headers.get("Content-Length") or 0) > limit:
                    too_much(clean(answer.headers["Content-Length"], 20))
                while True:
                    piece = answer.read1(PIECE)
                    if not piece:
                        break
                    size += len(piece)
                    if size > limit:
                        too_much(f"more than {limit}")
                    if time.monotonic() > deadline:
                        raise Failure("timeout", f"{clean(url, 200)} did not arrive in time",
                                      hint="the index may be slow: try again")
                    hasher.update(piece)
                    target.write(piece)
                    report(len(piece))
        except (http.client.HTTPException, socket.timeout, ConnectionError, ssl.SSLError, ValueError) as exc:
            raise self.unreachable(exc, url) from None
        if answer.headers.get_content_type() == "text/html" and not is_zip(path):
            raise self.bad_answer(f"a web page instead of {clean(url, 200)}")
        return size, hasher.hexdigest()


def is_zip(path):
    with open(path, "rb") as file:
        return file.read(2) in (b"PK", b"\x1f\x8b")
