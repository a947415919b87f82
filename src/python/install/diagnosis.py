# SPDX-License-Identifier: Apache-2.0
"""diagnosis: why a resolver found no answer, as a code, a sentence and a hint.

In the user process of an installing box. The output of the tools differs from version to version, so this
asks the index about each requirement: does the package exist, with a version that fits, is not yanked, is old
enough and has a wheel for this Python? Only if all that is so, the requirements contradict each other.
"""

import difflib
import os
import re
import sys
import urllib.parse

import tags
from failure import Failure, clean
from index import OTHER_HOST, Index
from requirement import NAME, normal
from version import Version, fits, read_clauses
from wheel import FILENAME

ASKED_MAX = 20              # projects that are looked up
SHOWN = 8                   # versions in a hint
KNOWN = """numpy pandas matplotlib scipy scikit-learn requests seaborn polars pyarrow plotly sympy pillow
    beautifulsoup4 lxml pyyaml openpyxl xlsxwriter flask fastapi django sqlalchemy httpx aiohttp pydantic
    pytest networkx statsmodels numba torch tensorflow keras transformers tokenizers datasets jax xgboost
    lightgbm catboost nltk spacy gensim opencv-python-headless imageio scikit-image tqdm rich click typer
    python-dateutil pytz tzdata dask duckdb altair bokeh shapely geopandas folium ipython jupyter notebook
    cryptography paramiko psycopg2-binary pymongo redis boto3 tabulate jinja2 markupsafe attrs black ruff mypy
    reportlab pypdf python-docx python-pptx pymupdf wordcloud faker""".split()
# What pip and uv print about files that they read.
WORDS = (
    ("hash_mismatch", r"DO NOT MATCH THE HASHES|[Hh]ash mismatch",
     "the hash of a file differs from the one that the index announced",
     "the file was changed on its way or on the index: do not trust it; try again, or use another index"),
    ("bad_wheel", r"Wheel '(?P<name>[^']{1,100})' located at \S+ is invalid|"
     r"(?P<package>\S{1,100}) has an invalid wheel|"
     r"Failed to (?:read|extract|unpack)[^\n]*\.whl|invalid (?:Z|z)ip|has inconsistent (?:name|version)|"
     r"Metadata field \w+ was|inconsistent metadata|\.dist-info director", "a wheel is broken",
     "ask for another version of the package, and tell its authors"),
    ("index_bad_answer", r"HTTP status client error \((?!401|404)|No connection adapters|"
     r"[Ee]xceeded \d+ redirects|[Tt]oo many redirects|HTTP error 404 while getting|404 Client Error|"
     r"\.whl(?:\.metadata)?[^\n]*\n[^\n]*(?:\b404\b|Not Found)|"
     r"status client error \(404 Not Found\) for url \(\S+\.whl",
     "the index lists a file but does not deliver it", "the index may be changing: try again"),
)
CHATTER = "Collecting ", "Downloading ", "Using cached ", "Looking in ", "Obtaining dependency information", "━"
NO_ROOM = "No space left on device", "os error 28", "Disk quota exceeded"
NO_WAY = ("Failed to fetch", "Connection", "timed out", "error sending request", "Could not connect",
          "Name or service not known", "dns error", "Network is unreachable")
BUILD = "Failed to build", "Failed building", "build backend", "subprocess-exited-with-error"


def version_of(filename, key):
    """The version in the file name of a wheel or source archive of that project, or None."""
    if filename.endswith(".whl"):
        found = FILENAME.fullmatch(filename)
        text = found["version"] if found and normal(found["name"]) == key else None
    else:
        stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", filename)
        cuts = [at for at, sign in enumerate(stem) if sign == "-" and normal(stem[:at]) == key]
        text = stem[cuts[-1] + 1:] if cuts else None
    try:
        Version(text or "")
        return text
    except ValueError:
        return None


class Sources:
    """The indexes and the wheelhouse."""

    def __init__(self, install):
        request, self.known = install.request, {}
        urls = [] if request.get("offline") else [*(request.get("extra_index_urls") or ()),
                                                  request.get("index_url") or install.default_index()]
        self.indexes = [Index(url, install.timeout, request.get("login_hosts")) for url in filter(None, urls)]
        self.folder = request.get("find_links")

    def files(self, key):
        """All files of a project; None if no source knows the project."""
        if key not in self.known:
            found = [files for index in self.indexes for files in [index.files(key)] if files is not None]
            if self.folder:
                here = [{"filename": name, "yanked": False, "requires_python": None, "upload_time": None}
                        for name in os.listdir(self.folder)]
                found += [[item for item in here if version_of(item["filename"], key)]]
            merged = [item for files in found for item in files]
            self.known[key] = merged if merged or found and not self.folder else None
        return self.known[key]

    def names(self):
        found = {normal(name) for index in self.indexes for name in index.names() if NAME.fullmatch(name)}
        if self.folder:
            found |= {normal(name.partition("-")[0]) for name in os.listdir(self.folder)}
        return found


class Diagnosis:
    def __init__(self, install, said):
        # The last package that pip began with, for complaints that name none.
        self.last = (re.findall(r"^ *Collecting ([A-Za-z0-9][A-Za-z0-9._=<>!~-]*)", said, re.MULTILINE) or [None])[-1]
        said = "\n".join(line for line in said.splitlines() if not line.lstrip().startswith(CHATTER))
        self.install, self.said, self.sources = install, said, Sources(install)
        self.fitting = tags.tags()

    def fail(self, code, requirement, message, hint=None):
        raise Failure(code, message, str(requirement), hint, self.said)

    def similar(self, key):
        """Did you mean ...?"""
        others = {requirement.key for requirement in self.install.requirements} - {key}
        names = self.sources.names() if self.sources.indexes or self.sources.folder else set()
        close = difflib.get_close_matches(key, {*others, *names, *KNOWN} - {key}, 3, 0.8)
        return f"did you mean {' or '.join(close)}?" if close else "check the spelling on the web page of the index"

    def look_at(self, requirement, clauses, key):
        """Raises Failure if this requirement alone cannot be met."""
        files = self.sources.files(key)
        offline = self.install.request.get("offline")
        if files is None:
            where = "in the wheelhouse, and the server is offline" if offline else "on the index"
            self.fail("package_not_found", requirement, f"there is no package {key} {where}",
                      self.similar(key))
        found = {}
        for item in files:
            version = version_of(item["filename"], key)
            if version:
                found.setdefault(Version(version), []).append(item)
        right = {version: items for version, items in found.items() if fits(clauses, version)}
        if not right:
            newest = ", ".join(version.text for version in sorted(found, reverse=True)[:SHOWN])
            self.fail("version_not_found", requirement,
                      f"there is no version of {key}" + (f" that is {written(clauses)}" if clauses else ""),
                      f"the index has {newest}" if newest else "the index lists no file of the package")
        pinned = any(operator in ("==", "===") and "*" not in wanted for operator, wanted in clauses)
        right = self.without(right, lambda item: item["yanked"] and not pinned, "yanked_only", requirement,
                             f"every version of {key} that fits was withdrawn by its authors (yanked)",
                             "ask for another version, or pin this one with ==")
        if self.install.request.get("min_age_days"):
            from resolver import moment
            days = self.install.request["min_age_days"]
            limit = moment(days)
            right = self.without(right, lambda item: not item["upload_time"] or item["upload_time"] > limit,
                                 "too_young", requirement,
                                 f"every version of {key} that fits is younger than {days} days or has no "
                                 "release date",
                                 "ask for an older version; the server sets the age (min-release-age)")
        if not self.install.request.get("source_builds"):
            self.without(right, lambda item: not self.is_usable(item), "no_wheel", requirement,
                         f"{key} {' '.join(written(clauses).split())} has no wheel for CPython {sys.version_info[0]}."
                         f"{sys.version_info[1]} on {tags.platforms()[-1].partition('_')[2]}".replace("  ", " "),
                         self.which_pythons(right, found))

    def without(self, right, is_out, code, requirement, message, hint):
        left = {version: [item for item in items if not is_out(item)] for version, items in right.items()}
        left = {version: items for version, items in left.items() if items}
        if not left:
            self.fail(code, requirement, message, hint)
        return left

    def is_loadable(self, item):
        found = FILENAME.fullmatch(item["filename"])
        return found is not None and tags.rank(found, self.fitting) is not None

    def is_usable(self, item):
        if not self.is_loadable(item):
            return False
        try:
            clauses = read_clauses(item["requires_python"] or "")
        except (ValueError, AttributeError):
            return True
        return fits(clauses, Version("%d.%d.%d" % sys.version_info[:3]))

    def which_pythons(self, right, found):
        """What exists instead."""
        items = [item for items in right.values() for item in items]
        needs = sorted({clean(item["requires_python"], 60) for item in items if self.is_loadable(item)})
        seen = [match for match in (FILENAME.fullmatch(item["filename"]) for item in items) if match]
        here = {"any", *tags.platforms()}
        pythons = {python for match in seen if here & set(match["platform"].split("."))
                   for python in match["python"].split(".")}
        usable = [version for version, items in found.items() if any(map(self.is_usable, items))]
        usable = [version for version in usable if not version.is_pre] or usable
        if needs:
            text = f"it needs Python {' or '.join(needs[:SHOWN])}"
        elif pythons:
            text = "it has wheels for " + ", ".join(sorted(pythons, key=age_of)[-SHOWN:])
        elif seen:
            machines = sorted({machine for match in seen for machine in match["platform"].split(".")})
            text = "it has wheels for other machines only: " + ", ".join(machines[:SHOWN])
        else:
            text = "it has source code only, and this server does not build from source (source-builds)"
        return text + (f"; {max(usable).text} has a wheel that fits" if usable else "")

    # ---- All together ---------------------------------------------------------------------------

    def explain(self):
        """Raises the Failure."""
        said = self.said
        if any(word in said for word in NO_ROOM):
            raise Failure("disk_full", "there is no disk space left for resolving",
                          hint="ask the operator for more disk space (install-disk)", says=said)
        for code, pattern, message, hint in WORDS:
            found = re.search(pattern, said)
            if found:
                raise Failure(code, message, self.named(found), hint, said)
        if self.install.request.get("offline") and not self.install.request.get("find_links"):
            raise Failure("index_unreachable", "the server is offline and has no wheelhouse folder", hint="import "
                          "an environment that another server exported, or set find-links", says=said)
        self.check_reach()
        requirement = None
        try:
            mine = [item for item in self.install.requirements if not item.url]
            for requirement in mine[:ASKED_MAX] if self.sources.indexes or self.sources.folder else ():
                if requirement.marker is None:
                    self.look_at(requirement, requirement.clauses, requirement.key)
            for requirement in self.others({item.key for item in mine}) if self.sources.indexes else ():
                self.look_at(requirement, [], requirement)
        except Failure as failure:
            failure.says, failure.requirement = failure.says or said, failure.requirement or str(requirement)
            raise
        if self.install.request.get("source_builds") and any(word in said for word in BUILD):
            raise Failure("build_failed", "a package could not be built from its source", hint="ask for a version "
                          "that has wheels", says=said)
        self.conflict()

    def check_reach(self):
        """Finds files on a host that the broker denies: the tool only saw a failed connection."""
        own = {urllib.parse.urlsplit(index.url).netloc for index in self.sources.indexes}
        hosts = [urllib.parse.urlsplit(url).netloc for url in
                 re.findall(r"error sending request for url \((https?://[^\s)]{1,1000})\)", self.said)]
        hosts += map(":".join, re.findall(r"Pool\(host='([^']{1,300})', port=(\d{1,5})\)", self.said))      # pip
        for host in hosts:
            if own and not {host, re.sub(r":(443|80)$", "", host)} & own:
                raise Failure("index_unreachable", f"the index keeps files at {clean(host, 100)}, which cannot be "
                              "reached", self.named(None), OTHER_HOST.format(clean(host, 100)), self.said)

    def named(self, found):
        """The package that an error is about."""
        groups = found.groupdict() if found else {}
        named = groups.get("name") or groups.get("package") or self.last
        if not named:
            files = [FILENAME.search(word) for word in re.findall(r"/([^/\s]{1,300}\.whl)", self.said)]
            named = next((f"{normal(file['name'])}=={file['version']}" for file in files if file), None)
        return named or " ".join(map(str, self.spoken_of(self.said)))

    def spoken_of(self, text):
        """The requirements that the text names, new ones first; all if it names none."""
        words = set(map(normal, re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", text)))
        have = {normal(str(item.get("name"))) for item in self.install.request.get("current") or ()}
        asked = [item for item in (*self.install.requirements, *self.install.constraints) if item.key in words]
        return sorted(dict.fromkeys(asked), key=lambda item: item.key in have) or self.install.requirements

    def others(self, mine):
        """Packages that the resolver complains about and that were not requested."""
        found = re.findall(r"(?:Because |because |and |version of |requirement )([A-Za-z0-9][A-Za-z0-9._-]*)"
                           r"(?:[=<>~!][^ ]*)? (?:was not found|has no |there are no|\(from)", self.said)
        found += re.findall(r"there (?:is|are) no versions? of ([A-Za-z0-9][A-Za-z0-9._-]*)", self.said)
        found = [normal(name) for name in found if NAME.fullmatch(name)]
        return [key for key in dict.fromkeys(found) if key not in mine][:ASKED_MAX]

    def conflict(self):
        said = self.said
        if not re.search(r"[Nn]o solution found|unsatisfiable|conflict|ResolutionImpossible|"
                         r"Could not find a version|No matching distribution", said):
            if any(word in said for word in NO_WAY):
                raise Failure("index_unreachable", "the index did not answer properly", self.named(None),
                              "try again", said)
            raise Failure("internal", "the resolver failed", self.named(None), "resolver_says has its output", said)
        reason = said[max(0, said.find("ERROR: ")):]
        names = [str(item) for item in self.spoken_of(reason)]
        first = " and ".join(names[:4])
        raise Failure("conflict", f"these cannot be installed together: {first}", names[0],
                      f"loosen the version of one of them: {first}; resolver_says has the reason", said)


def age_of(tag):
    """cp39 comes before cp311."""
    digits = "".join(filter(str.isdigit, tag))[:9] or "0"
    return int(digits[0]), int(digits[1:] or 0)


def written(clauses):
    return ",".join(map("".join, clauses))
