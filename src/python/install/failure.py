# SPDX-License-Identifier: Apache-2.0
"""failure: why an install failed. Raised anywhere below installer.py, which answers with it.

In the user process of an installing box. SECURITY: its texts may come from an index or a package, so they are
bounded and cleaned of terminal sequences and of credentials in URLs.
"""

import re

MESSAGE_MAX = 1000          # characters
WORDS_MAX = 4000            # characters of a resolver's output
WORDS_LINES = 40
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
UNPRINTABLE = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u2030-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LOGIN = re.compile(r"(?<=://)[^/\s@]{1,500}@")

CODES = """package_not_found version_not_found conflict no_wheel yanked_only index_unreachable
    index_bad_answer index_unauthorized hash_mismatch bad_wheel hostile_wheel too_large too_many_files too_many_packages
    denied_package too_young bad_requirement no_installer disk_full build_failed timeout internal
    cancelled""".split()


def clean(text, most=MESSAGE_MAX):
    """Makes foreign text safe for a log, a terminal and a model; keeps the end of a long one."""
    text = ESCAPES.sub("", str(text)[-4 * most:].replace("\r", "\n").replace("\t", " "))
    text = LOGIN.sub("", UNPRINTABLE.sub("?", text)).strip()
    return text if len(text) <= most else "..." + text[3 - most:]


def last_words(text):
    """The end of a tool's output."""
    lines = [line.rstrip() for line in clean(text, 2 * WORDS_MAX).split("\n") if line.strip()]
    return clean("\n".join(lines[-WORDS_LINES:]), WORDS_MAX)


class Failure(Exception):
    def __init__(self, code, message, requirement=None, hint=None, says=None):
        super().__init__(message)
        self.code, self.message = code, message
        self.requirement, self.hint, self.says = requirement, hint, says
        self.hosts = []                 # hosts that the box could not reach: file_hosts.py

    def to_answer(self):
        answer = {"ok": False, "code": self.code, "message": clean(self.message)}
        answer["requirement"] = self.requirement and clean(self.requirement, 300)
        answer["resolver_says"] = self.says and last_words(self.says)
        answer["hint"] = self.hint and clean(self.hint)
        if self.hosts:
            answer["hosts"] = self.hosts
        return answer
