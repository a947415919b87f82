# SPDX-License-Identifier: Apache-2.0
"""policy: which modules code may import, and the texts of refusals.

Used by check.py before a run and by guard.py and restricted.py during one, in the user process of a
box. ADVICE, NOT A WALL: user code shares the interpreter and can get around every line of this. The
kernel's wall around the box keeps code in, and does not depend on any of it. A policy tells honest
code early, and in words, what it cannot use.

How the parts of a policy combine:
  tiers             the modules of these tiers together; without the key: basic
  override          the server's own list (SANDBOX_ALLOWED_IMPORTS), instead of all tiers
  allowed_imports   the call's own list; with tiers or an override it can only narrow them; alone it
                    is the whole list
  denied_imports    refused in any case, also in mode open
  denied_calls      builtins and functions that are refused by name, before and during a run
  scan              the name of a list of SCANS, which adds to the two before
An entry stands for a module and all below it: `xml.etree` permits `xml.etree.ElementTree`, and
neither `import xml` nor `xml.sax`.
"""

import sys
from posix import stat

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, clip, is_own_file

MODES = "open", "guarded", "restricted"
ENTRIES_MAX = 1000          # modules in a list of a call
ADVICE = ("a policy is advice on top of the isolation of the box: the kernel confines code, "
          "whatever Python tricks it uses")

# The tiers. "documented": listed in the reference server's document; "shipped": also in its code;
# "ours": modules that those are of little use without.
TIERS = {
    "basic": {
        "documented": """math random statistics decimal fractions collections itertools
            functools heapq bisect string textwrap re difflib unicodedata base64 binascii
            hashlib hmac secrets json csv html.parser xml.etree urllib.parse datetime uuid
            calendar dataclasses enum typing""".split(),
        "shipped": """time operator copy cmath html xml.etree.ElementTree configparser abc
            contextlib types""".split(),
        "ours": """__future__ array asyncio colorsys graphlib io ipaddress keyword numbers pprint
            reprlib struct typing_extensions zoneinfo""".split(),
    },
    "data_science": {
        "documented": """numpy pandas scipy matplotlib seaborn sklearn statsmodels plotly
            sympy""".split(),
        "shipped": [],
        "ours": """dateutil joblib mpl_toolkits mpmath networkx openpyxl patsy PIL polars
            pyarrow pytz warnings""".split(),
    },
    "network": {
        "documented": """httpx requests urllib.request aiohttp websocket email smtplib
            ftplib""".split(),
        "shipped": [],
        "ours": """bs4 certifi http http.client http.cookiejar imaplib lxml poplib
            socket ssl urllib.error urllib3 websockets""".split(),
    },
    "filesystem": {
        "documented": "pathlib os.path tempfile shutil glob zipfile tarfile".split(),
        "shipped": [],
        "ours": "bz2 filecmp fileinput fnmatch gzip lzma sqlite3 stat zlib".split(),
    },
}

# Lists of what code may not use although its tiers allow it. "checker": what the second reference
# server refuses before a run.
SCANS = {
    "checker": {
        "calls": """open __import__ eval exec compile getattr setattr globals locals input
            help dir vars breakpoint memoryview""".split(),
        "modules": """os sys subprocess shutil socket requests urllib pathlib inspect types
            ctypes pickle marshal builtins platform resource signal""".split(),
    },
}

# Modules that give access to what no tier allows. C code that imports for user code may import others.
SENSITIVE = frozenset("""os posix sys builtins subprocess importlib imp ctypes _ctypes cffi
    socket _socket shutil pty signal runpy code codeop gc inspect pickle marshal
    multiprocessing threading _thread resource platform _posixsubprocess""".split())

KEYS = frozenset("""mode tiers override allowed_imports denied_imports denied_calls network
    generators names scan tier_modules""".split())


class BadPolicy(ValueError):
    """The gate sent an invalid policy; nothing runs."""


def tier_modules(tier):
    """All modules of a tier, documented ones first."""
    table = TIERS[tier]
    return [*table["documented"], *table["shipped"], *table["ours"]]


def tiers_of(module):
    """The tiers that permit a module."""
    return [tier for tier in TIERS if covers(frozenset(tier_modules(tier)), module)]


def covers(entries, module):
    """Do the entries contain the module or a package that it is in?"""
    while module:
        if module in entries:
            return True
        module = module.rpartition(".")[0]
    return False


# ---- Reading a policy ---------------------------------------------------------------------------

def name_list(policy, key):
    value = policy.get(key)
    if value is None:
        return None
    if type(value) is not list or len(value) > ENTRIES_MAX:
        raise BadPolicy(f"policy.{key} must be a list of at most {ENTRIES_MAX} names")
    entries = []
    for entry in value:
        if type(entry) is not str:
            raise BadPolicy(f"policy.{key} has an entry that is not a string")
        entry = entry.strip()
        if entry.endswith(".*"):
            entry = entry[:-2]
        if not entry or not all([part.isidentifier() for part in entry.split(".")]):
            raise BadPolicy(f"policy.{key}: '{clip(entry, 60)}' is not a module name")
        entries.append(entry)
    return entries


class Policy:
    """A policy, and its decisions."""

    def __init__(self, asked=None):
        asked = {} if asked is None else asked
        if type(asked) is not dict:
            raise BadPolicy("policy must be an object")
        unknown = [key for key in asked if key not in KEYS]
        if unknown:
            raise BadPolicy(f"policy.{clip(unknown[0], 60)} is unknown; use one of "
                            f"{', '.join(sorted(KEYS))}")
        self.mode = asked.get("mode", "open")
        if self.mode not in MODES:
            raise BadPolicy(f"policy.mode must be one of {', '.join(MODES)}")
        self.network = bool(asked.get("network"))
        self.generators = asked.get("generators") is not False
        self.names = frozenset(name_list(asked, "names") or ())     # variables that the call passes
        self.denied_imports = frozenset(name_list(asked, "denied_imports") or ())
        self.denied_calls = frozenset(name_list(asked, "denied_calls") or ())
        self.tells_tiers = asked.get("tier_modules") is True   # wanted in the summary
        self.add_scan(asked.get("scan"))
        self.tiers = name_list(asked, "tiers")
        self.listed = name_list(asked, "allowed_imports")
        self.override = name_list(asked, "override")
        for tier in self.tiers or ():
            if tier not in TIERS:
                raise BadPolicy(f"policy.tiers: '{clip(tier, 60)}' is not one of "
                                f"{', '.join(TIERS)}")
        self.combine()
        self.known = {}             # module -> whether it is allowed
        # False: no import can break the policy, so the static check skips imports.
        self.judges = self.allowed is not None or bool(self.denied_imports)

    def add_scan(self, name):
        if name is None:
            return
        if type(name) is not str or name not in SCANS:
            raise BadPolicy(f"policy.scan must be one of {', '.join(SCANS)}")
        self.denied_imports = self.denied_imports.union(SCANS[name]["modules"])
        self.denied_calls = self.denied_calls.union(SCANS[name]["calls"])

    def combine(self):
        """self.allowed: the entries, None for every module; self.ceiling: the limit of allowed_imports."""
        ceiling = self.override
        if ceiling is None and (self.tiers is not None or self.listed is None):
            self.tiers = self.tiers if self.tiers is not None else ["basic"]
            ceiling = [name for tier in self.tiers for name in tier_modules(tier)]
        self.ceiling = None if ceiling is None else frozenset(ceiling)
        if self.mode == "open":
            self.allowed = None
        elif self.listed is None:
            self.allowed = self.ceiling
        elif self.ceiling is None:
            self.allowed = frozenset(self.listed)
        else:
            within = [name for name in self.listed if covers(self.ceiling, name)]
            # `urllib` in the list and `urllib.parse` in a tier have the latter in common.
            within += [name for name in self.ceiling if covers(frozenset(self.listed), name)]
            self.allowed = frozenset(within)

    def allows(self, module):
        answer = self.known.get(module)
        if answer is None:
            answer = self.known[module] = not covers(self.denied_imports, module) and (
                self.allowed is None or covers(self.allowed, module))
        # Not cached: files come and go.
        return answer or self.is_own(module) and not covers(self.denied_imports, module)

    def is_own(self, module):
        """Is the module one of the code's own files? Transformed code has none."""
        if self.mode == "restricted":
            return False
        top = module.partition(".")[0]
        loaded = sys.modules.get(top)
        if loaded is not None:
            file = getattr(loaded, "__file__", None)
            return type(file) is str and is_own_file(file)
        for path in f"{Box.scratch}/{top}.py", f"{Box.scratch}/{top}/__init__.py":
            try:
                stat(path)
                return True
            except (OSError, ValueError):
                pass
        return False

    def below(self, module):
        """Is a module below this one allowed?"""
        prefix = module + "."
        return any([entry.startswith(prefix) for entry in self.allowed or ()])

    def refused(self, module, names=()):
        """The modules that `from module import names` may not import."""
        if self.allows(module):
            return [f"{module}.{name}" for name in names
                    if covers(self.denied_imports, f"{module}.{name}")]
        if names and self.below(module):
            return [f"{module}.{name}" for name in names if not self.allows(f"{module}.{name}")]
        return [module]

    # ---- words

    def describe(self):
        """What the allowed modules are, in a few words."""
        if self.allowed is None:
            return "every module except those that it denies" if self.denied_imports else "every module"
        if self.listed is not None:
            return "allowed_imports" + ("" if self.ceiling is None else
                                        " within the server's list" if self.override is not None
                                        else f" within the tiers {', '.join(self.tiers)}")
        if self.override is not None:
            return "the server's list of allowed imports"
        return f"the tier{'s' * (len(self.tiers) != 1)} {', '.join(self.tiers) or '(none)'}"

    def hint(self, module):
        """What to do about a refused module."""
        if covers(self.denied_imports, module):
            return "the policy denies it by name: do without it, or use another policy"
        if self.listed is not None and self.ceiling is not None and covers(
                frozenset(self.listed), module):
            return ("allowed_imports contains it, but this server never allows it: ask its "
                    f"operator{self.tier_hint(module, ' to enable the tier ')}")
        if self.listed is not None and (self.ceiling is None or covers(self.ceiling, module)):
            return "add it to allowed_imports of the call"
        found = self.tier_hint(module, "")
        if self.override is None and found:
            return f"the tier {found} allows it: enable that tier, or do without it"
        if self.override is not None:
            return "it is not in the server's list (SANDBOX_ALLOWED_IMPORTS): do without it"
        return ("no tier allows it: do without it, or name it in allowed_imports on a server "
                "without tiers")

    def tier_hint(self, module, words):
        found = [tier for tier in tiers_of(module) if tier not in (self.tiers or ())]
        return f"{words}'{found[0]}'" if found else ""

    def message(self, module):
        """The text of an ImportError."""
        module = clip(module, LINE_MAX)
        return (f"import of '{module}' is not allowed by the policy of this run "
                f"({self.describe()}); {self.hint(module)}")

    def summary(self):
        """For answers: the policy that was applied."""
        said = {"mode": self.mode, "advice": ADVICE}
        if self.mode != "open" and self.tiers is not None:
            said["tiers"] = self.tiers
        if self.listed is not None:
            said["allowed_imports"] = self.listed
        if self.tells_tiers:
            said["tier_modules"] = {tier: tier_modules(tier) for tier in TIERS}
        return said
