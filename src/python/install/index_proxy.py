# SPDX-License-Identifier: Apache-2.0
"""index_proxy: a proxy on loopback for uv and pip, for indexes with a login (index_login.py).

In an installing box, in a process of its own. Such an index is requested in plain HTTP, but its pages and redirects
name its files by https addresses, which the tools would follow. So the tools get an address on loopback; the proxy
passes on the index's answers with addresses of that host changed to loopback. Nothing here is secret: the broker
adds the login, outside the box.
"""

import contextlib
import http.client
import http.server
import os
import re
import signal
import threading
import urllib.parse

PAGE_MAX = 64 << 20
PIECE = 1 << 18
AT_ONCE = 16                # requests; each has a thread
PASSED_UP = "Accept", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "User-Agent"
PASSED_DOWN = ("Content-Type", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified", "Cache-Control",
               "WWW-Authenticate")


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 60

    def log_message(self, *args):
        pass

    def do_GET(self):
        try:
            self.pass_on()
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self.close_connection = True
            with contextlib.suppress(OSError, ValueError):
                self.send_error(502, type(exc).__name__)

    do_HEAD = do_GET

    def pass_on(self):
        server = self.server
        link = http.client.HTTPConnection(server.host, timeout=server.patience)
        with contextlib.closing(link):
            link.request(self.command, self.path, headers={
                **{name: self.headers[name] for name in PASSED_UP if self.headers[name]}, "Connection": "close"})
            answer = link.getresponse()
            kind = answer.headers.get_content_type()
            page = kind in ("text/html", "application/json") or kind.startswith("application/vnd.pypi.simple")
            size, data = answer.headers.get("Content-Length"), None
            if page and self.command == "GET":
                data = answer.read(PAGE_MAX + 1)
                if len(data) > PAGE_MAX:
                    raise ValueError("too large")
                data = server.localise(data)
                size = len(data)
            self.send_response_only(answer.status)
            for name in PASSED_DOWN:
                if answer.headers[name]:
                    self.send_header(name, re.sub(r"[\r\n]", " ", answer.headers[name]))
            if answer.headers["Location"]:
                self.send_header("Location", server.localise(
                    re.sub(r"[\r\n]", "", answer.headers["Location"]).encode("latin-1", "replace")).decode("latin-1"))
            if size is not None:
                self.send_header("Content-Length", str(size))
            self.end_headers()
            if data is not None:
                self.wfile.write(data)
            while data is None and self.command == "GET":
                piece = answer.read1(PIECE)
                if not piece:
                    break
                self.wfile.write(piece)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128
    turns = threading.BoundedSemaphore(AT_ONCE)

    def __init__(self, host, patience):
        super().__init__(("127.0.0.1", 0), Handler)
        self.host, self.patience = host, patience
        self.local = f"http://127.0.0.1:{self.server_address[1]}"
        names = [host.removesuffix(":443"), host] if host.endswith(":443") else [host]
        self.names = re.compile(rb"https://(?:" + b"|".join(re.escape(name.encode()) for name in names) +
                                rb")(?=[/?#\"'\s]|$)", re.IGNORECASE)

    def localise(self, data):
        return self.names.sub(self.local.encode(), data)

    def process_request_thread(self, request, address):
        with self.turns:
            super().process_request_thread(request, address)

    def handle_error(self, request, address):
        pass                            # a client that went away


class IndexProxy:
    """hosts: ["host:port"] as in index_login.py; without any, no process is started."""

    def __init__(self, hosts, patience):
        self.servers, self.process = [Server(host, patience) for host in dict.fromkeys(hosts or ())], None
        self.locals = {f"http://{server.host}": server.local for server in self.servers}
        if not self.servers:
            return
        self.process = os.fork()
        if self.process == 0:
            try:
                for server in self.servers[1:]:
                    threading.Thread(target=server.serve_forever, daemon=True).start()
                self.servers[0].serve_forever()
            finally:
                os._exit(1)
        for server in self.servers:
            server.server_close()

    def close(self):
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            self.process = None

    def local(self, url):
        """The address on loopback for an address of the index."""
        parts = urllib.parse.urlsplit(url)
        found = self.locals.get(f"{parts.scheme}://{parts.netloc}")
        return found + url[len(f"{parts.scheme}://{parts.netloc}"):] if found else url

    def back(self, text):
        """Replaces addresses on loopback in a text by those of the index."""
        for address, local in self.locals.items():
            text = re.sub(re.escape(local) + r"(?!\d)", lambda _, address=address: address, text)
        return text
