# SPDX-License-Identifier: Apache-2.0
"""file_hosts: finds the hosts where an index keeps its files, if they are not the index itself.

In the user process of an installing box, after a resolver failed. The answer names them, and the gate may let the
next box reach them. SECURITY: the gate decides; this box cannot be trusted.
"""

import ipaddress
import re
import urllib.parse

from failure import Failure

HOST = re.compile(r"(?=.{4,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+",
                  re.ASCII)
PROJECTS_MAX, FILES_MAX, HOSTS_MAX = 8, 500, 8


def is_name(host):
    try:
        ipaddress.ip_address(host)
        return False
    except ValueError:
        return bool(HOST.fullmatch(host))


def host_of(url):
    """The host of an https address on port 443, else None."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = (parts.hostname or "").lower()
        return host if parts.scheme == "https" and parts.port in (None, 443) and is_name(host) else None
    except ValueError:
        return None


def hosts(install):
    """Hosts that pages of the index name and this box cannot reach."""
    reached = install.request.get("hosts")
    if type(reached) is not list:
        return []
    from diagnosis import Sources
    found, sources = {}, Sources(install)
    for requirement in [item for item in install.requirements if not item.url][:PROJECTS_MAX]:
        try:
            files = sources.files(requirement.key) or ()
        except Failure:
            continue
        for item in list(files)[-FILES_MAX:]:
            host = host_of(item.get("url") or "")
            if host and host not in reached:
                found[host] = True
    return list(found)[:HOSTS_MAX]
