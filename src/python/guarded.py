# SPDX-License-Identifier: Apache-2.0
"""guarded: indexes that want a user and a password, which this box does not have.

In the user process of an installing box. The box asks such an index in plain HTTP on its own port; the broker makes
TLS of it, checks the certificate and adds the login (broker/login.h). So an https address of that host and port has
to be asked as an http one, and is no less safe; addresses of other hosts stay what they are, and get no login.
"""

import urllib.parse


def lead(url, guarded):
    """The address that leads there from here. guarded: ["host:port"]."""
    if not guarded or not url.startswith("https://"):
        return url
    parts = urllib.parse.urlsplit(url)
    try:
        host, port = (parts.hostname or "").lower(), parts.port or 443
    except ValueError:
        return url
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return parts._replace(scheme="http", netloc=place).geturl() if place in guarded else url


def is_safe(url, guarded):
    return url.startswith("https://") or url.startswith("http://") and \
        urllib.parse.urlsplit(url).netloc.lower() in (guarded or ())
