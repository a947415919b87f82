# SPDX-License-Identifier: Apache-2.0
"""index_login: addresses of indexes that need a user and a password, which this box does not have.

In the user process of an installing box. The box sends plain HTTP to the port of such an index; the broker turns it
into TLS, checks the certificate and adds the login (broker/login.h). So an https address of that host and port is
requested as http, without loss of safety; addresses of other hosts stay as they are, without login.
"""

import urllib.parse


def lead(url, login_hosts):
    """The address to request from this box. login_hosts: ["host:port"]."""
    if not login_hosts or not url.startswith("https://"):
        return url
    parts = urllib.parse.urlsplit(url)
    try:
        host, port = (parts.hostname or "").lower(), parts.port or 443
    except ValueError:
        return url
    host_port = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return parts._replace(scheme="http", netloc=host_port).geturl() if host_port in login_hosts else url


def is_safe(url, login_hosts):
    return url.startswith("https://") or url.startswith("http://") and \
        urllib.parse.urlsplit(url).netloc.lower() in (login_hosts or ())
