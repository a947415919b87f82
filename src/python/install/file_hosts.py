# SPDX-License-Identifier: Apache-2.0
"""file_hosts: hosts that an index keeps its files at, when they are not its own.

In the user process of an installing box, after a resolver failed. The gate is told their names, and may let the next
box reach them; this one cannot be trusted with that, and has no say in it.
"""

import ipaddress
import re
import urllib.parse

from failure import Failure

HOST = re.compile(r"(?=.{4,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+", re.ASCII)
PROJECTS_MAX, FILES_MAX, HOSTS_MAX = 8, 500, 8


def is_name(host):
    try:
        ipaddress.ip_address(host)
        return False
    except ValueError:
        return bool(HOST.fullmatch(host))


def host_of(url):
    """Of an https address on its own port, else None."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = (parts.hostname or "").lower()
        return host if parts.scheme == "https" and parts.port in (None, 443) and is_name(host) else None
    except ValueError:
        return None


def hosts(job):
    """Those that pages of the index name and this box cannot reach."""
    reached = job.request.get("hosts")
    if type(reached) is not list:
        return []
    from diagnosis import Sources
    found, sources = {}, Sources(job)
    for requirement in [item for item in job.requirements if not item.url][:PROJECTS_MAX]:
        try:
            files = sources.files(requirement.key) or ()
        except Failure:
            continue
        for item in list(files)[-FILES_MAX:]:
            host = host_of(item.get("url") or "")
            if host and host not in reached:
                found[host] = True
    return list(found)[:HOSTS_MAX]
