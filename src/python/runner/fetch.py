# SPDX-License-Identifier: Apache-2.0
"""fetch: downloads files by URL into the working folder of a session.

exec/fetch.c runs it in the session's own box, like code of the session: with the session's network, which the
broker judges, and within its limits. The result is one line of JSON. Certificates are checked; only http and
https are opened.
"""

import email.message
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request

FOLDER = "/mnt/data"
PIECE = 1 << 18
NAME_MAX = 120              # characters of a file's name
REASON_MAX = 300


class OnlyHttp(urllib.request.HTTPRedirectHandler):
    """Redirects may lead to another host, which the broker judges, but not to another scheme."""

    def redirect_request(self, request, answer, code, message, headers, url):
        if not url.lower().startswith(("http://", "https://")):
            raise urllib.error.URLError("it redirects to an address that is not http or https")
        return super().redirect_request(request, answer, code, message, headers, url)


def clean_name(name):
    """A file name without folders and without characters that are special to a shell or a terminal."""
    name = re.sub(r"[^\w.()+,=@ -]", "_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if len(name) > NAME_MAX and dot and len(ending) < 16:
        return f"{stem[:NAME_MAX - 1 - len(ending)]}.{ending}"
    return name[:NAME_MAX]


def name_of(url, headers):
    """The name that the server gives, or the one in the URL."""
    said = email.message.Message()
    said["Content-Disposition"] = headers.get("Content-Disposition") or "attachment"
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    return clean_name(said.get_filename() or "") or clean_name(path) or "download"


def open_url(opener, url, timeout):
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("only http and https addresses can be downloaded")
    return opener.open(urllib.request.Request(url, headers={"User-Agent": "constrictor"}), timeout=timeout)


def bring(opener, url, timeout, taken):
    """Downloads one file; returns its name."""
    until = time.monotonic() + timeout
    with open_url(opener, url, timeout) as answer:
        name = plain = name_of(answer.geturl(), answer.headers)
        number = 1
        while name in taken:                    # keep both of two files with one name
            number += 1
            stem, dot, ending = plain.rpartition(".")
            name = f"{stem}-{number}.{ending}" if dot and stem else f"{plain}-{number}"
        path, part = os.path.join(FOLDER, name), os.path.join(FOLDER, f".{name[:100]}.part")
        try:
            with open(part, "wb") as file:
                while True:
                    piece = answer.read(PIECE)
                    if not piece:
                        break
                    file.write(piece)
                    if time.monotonic() > until:
                        raise TimeoutError(f"it took longer than {timeout:g} seconds")
            os.replace(part, path)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
    return name


def why(error):
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    reason = getattr(error, "reason", None) or error
    return f"{type(reason).__name__}: {reason}"


def main(timeout, items):
    """Prints {"files": [{"name", "id"}...], "errors": [text...]}, in the order of the request."""
    opener = urllib.request.build_opener(OnlyHttp)
    files, errors = [], []
    for item in items:
        try:
            name = bring(opener, item["url"], timeout, [file["name"] for file in files])
            files.append({"name": name, "id": item.get("id")})
        except Exception as error:
            errors.append(f"Failed to download {item['url']}: {why(error)}"[:REASON_MAX + len(item["url"])])
    print(json.dumps({"files": files, "errors": errors}))
