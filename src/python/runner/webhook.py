# SPDX-License-Identifier: Apache-2.0
"""webhook: tells an address that an execution has ended.

rest/webhook.c runs it in a box of its own, with network to that host alone, which the broker judges. The body
comes on stdin, signed already. The result is one line of JSON. No redirect is followed, little of the answer is
read, and each try has its time.
"""

import http.client
import json
import signal
import sys
import time
import urllib.error
import urllib.request

TRIES = 3
TRY_S = 15                  # for one try, whatever the receiver does
PAUSES = 1, 4               # between tries
ANSWER_MAX = 4096           # bytes of the answer that are read, and dropped
REASON_MAX = 300


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, answer, code, message, headers, url):
        return None         # it stays an answer of 3xx, which is a failure


def on_alarm(number, frame):
    raise TimeoutError(f"no answer after {TRY_S} seconds")


def call(opener, url, headers, body):
    """The status of the answer."""
    signal.setitimer(signal.ITIMER_REAL, TRY_S)
    try:
        with opener.open(urllib.request.Request(url, body, headers, method="POST"), timeout=TRY_S) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return status


def main(url, identity, when, signature):
    signal.signal(signal.SIGALRM, on_alarm)
    http.client._MAXLINE = ANSWER_MAX
    headers = {"Content-Type": "application/json", "User-Agent": "constrictor", "Webhook-Id": identity,
               "Webhook-Timestamp": when, "Connection": "close"}
    if signature:
        headers["Webhook-Signature"] = signature
    body = sys.stdin.buffer.read()
    opener = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}))
    report = {}
    for attempt in range(1, TRIES + 1):
        report = {"attempts": attempt}
        final = False
        try:
            status = report["status"] = call(opener, url, headers, body)
            if 200 <= status < 300:
                break
            final = 300 <= status < 400 or status == 410
            report["error"] = (f"the receiver redirects ({status}), which is not followed" if 300 <= status < 400
                               else f"the receiver answered {status}")
        except Exception as error:
            reason = getattr(error, "reason", None) or error
            report["error"] = f"{type(reason).__name__}: {reason}"[:REASON_MAX]
            final = isinstance(reason, PermissionError)
        if final or attempt == TRIES:
            break
        time.sleep(PAUSES[attempt - 1])
    print(json.dumps(report))
