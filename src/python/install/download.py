# SPDX-License-Identifier: Apache-2.0
"""download: fetches one file of the lock, from the index or from the wheelhouse folder.

In a child of an installing box. SECURITY: the hash in the lock decides. An http address is used only if the
operator's own index has one, and a local path only inside the operator's folder.
"""

import hashlib
import os

from failure import Failure, clean
from index_login import is_safe, lead
from index import Index

PIECE = 1 << 20


def local(install, wanted, most, report):
    """Hashes a wheel of the wheelhouse, which stays where it is."""
    folder, path = os.path.realpath(install.request.get("find_links") or "/nonexistent"), os.path.realpath(wanted.path)
    if not path.startswith(folder + "/"):
        raise Failure("index_bad_answer", f"the lock names a file outside the wheelhouse: {clean(path, 200)}")
    hasher, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while True:
            piece = file.read(PIECE)
            if not piece:
                break
            size += len(piece)
            if size > most:
                raise Failure("too_large", f"{clean(path, 200)} is larger than {most} bytes")
            hasher.update(piece)
            report(len(piece))
    return path, size, hasher.hexdigest()


def remote(install, wanted, most, report):
    urls = [install.request.get("index_url") or "https://", *(install.request.get("extra_index_urls") or ())]
    login_hosts = install.request.get("login_hosts") or ()
    plain = wanted.url.startswith("http://") and not all(is_safe(url, login_hosts) for url in urls)
    if not plain and not is_safe(wanted.url, login_hosts):
        raise Failure("index_bad_answer", f"the index links to {clean(wanted.url, 200)}, which is not https",
                      hint="http is used only if the address of the index itself is http")
    if install.request.get("offline"):
        raise Failure("index_unreachable", "the server is offline", wanted.key)
    path = os.path.join(install.folder, f"{wanted.sha256 or wanted.key}.download")
    announced = wanted.size if type(wanted.size) is int and wanted.size > 0 else None
    index = Index(wanted.url, install.timeout, login_hosts)
    size, digest = index.fetch(lead(wanted.url, login_hosts), path, most, install.deadline, report, announced)
    return path, size, digest


def bring(install, wanted, most, report):
    """Returns (path, size, SHA-256); raises Failure."""
    try:
        path, size, digest = (local if wanted.path else remote)(install, wanted, most, report)
    except Failure as failure:
        failure.requirement = failure.requirement or f"{wanted.key}=={wanted.version}"
        raise
    if wanted.sha256 and digest != wanted.sha256:
        raise Failure("hash_mismatch", f"{clean(wanted.filename, 200)} is not the file that the index announced: "
                      f"its SHA-256 is {digest} instead of {wanted.sha256}",
                      f"{wanted.key}=={wanted.version}", "the file was changed on its way or on the index: do not "
                      "trust it; try again, or another index")
    return path, size, digest
