# SPDX-License-Identifier: Apache-2.0
"""resolver: finds out which wheels satisfy all requirements at once, by asking uv, or else pip.

In the user process of an installing box. The tools get argument lists and files, never a shell; an
environment of their own making, no configuration of anybody, and a folder of the box for all they write.
What they answer is read as data: a lock with addresses and hashes; wheels are fetched by download.py.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.parse

from failure import Failure, clean
from pylock import as_text, loads
from requirement import normal
from wheel import FILENAME

RETRIES = 1
REPORT_MAX = 64 << 20       # bytes of a lock or report
WORDS_MAX = 1 << 20         # bytes of what a tool says
PIP_LEAST = 22, 2           # the first that reports instead of installing
AGE_ROUNDS = 5
BUNDLED = "/usr/share/python-wheels", "/usr/lib/python3/wheels"


class Unresolved(Exception):
    """The tool found no answer; diagnosis.py says why."""


class Wanted:
    """A file that belongs to the answer."""

    def __init__(self, name, version, filename, url=None, path=None, sha256=None, size=None,
                 uploaded=None, direct=False):
        self.key, self.version, self.filename = normal(name), version, filename
        self.url, self.path, self.size, self.direct = url, path, size, direct
        self.sha256, self.uploaded = (sha256.lower() if sha256 else None), uploaded

    @property
    def is_wheel(self):
        return self.filename.endswith(".whl")


class Job:
    """What every resolver needs to know of the request."""

    def __init__(self, request, requirements, constraints, folder, deadline):
        self.request, self.requirements, self.constraints = request, requirements, constraints
        self.folder, self.deadline = folder, deadline
        self.meanwhile = None           # called once while a tool works
        self.proxy = None               # of indexes with a login: index_proxy.py
        self.hashes = {}                # of a lock: {key: those that its file may have}
        self.helper = ()                # the command whose help names the default index
        self.timeout = max(1, int(request.get("http_timeout") or 15))

    def default_index(self):
        """Where the tool goes when nobody says where; its own help knows."""
        said = subprocess.run([*self.helper, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=30, env=self.environment({}), cwd=self.folder).stdout
        found = re.search(r"https://[A-Za-z0-9./-]+/simple", said.decode("utf-8", "replace"))
        return found.group() if found else None

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        return path

    def local(self, url):
        return self.proxy.local(url) if self.proxy else url

    def index_options(self):
        """The options that say where packages come from, which both tools share."""
        request, options = self.request, []
        if request.get("offline"):
            options += ["--no-index"]
        else:
            if request.get("index_url"):
                options += ["--index-url", self.local(request["index_url"])]
            for url in request.get("extra_index_urls") or ():
                options += ["--extra-index-url", self.local(url)]
        if request.get("find_links"):
            options += ["--find-links", request["find_links"]]
        return options

    def environment(self, more):
        from index import authorities
        found = {"PATH": os.environ.get("PATH") or os.defpath, "HOME": self.folder, "LANG": "C.UTF-8",
                 "TMPDIR": self.folder, "XDG_CONFIG_HOME": self.folder, "XDG_CACHE_HOME": self.folder,
                 "XDG_DATA_HOME": self.folder, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        trusted = authorities()
        if trusted:
            found["SSL_CERT_FILE"] = trusted
        return {**found, **more}

    def run(self, arguments, more, name):
        """Returns (exit status, what it said)."""
        said = os.path.join(self.folder, f"{name}.log")
        with open(said, "wb") as log:
            # uv prints its lock there as well as writing it.
            out = subprocess.DEVNULL if name == "uv" else log
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                       env=self.environment(more), cwd=self.folder)
            try:
                meanwhile, self.meanwhile = self.meanwhile, None
                if meanwhile:
                    meanwhile()
                status = process.wait(max(0.1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failure("timeout", f"{name} did not find an answer in time",
                              " ".join(map(str, self.requirements))[:300],
                              hint="the index may be slow: try again, or pin versions",
                              says=tail_of(said)) from None
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return status, self.proxy.back(tail_of(said)) if self.proxy else tail_of(said)


def tail_of(path):
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - WORDS_MAX))
        return file.read().decode("utf-8", "replace")


def read_bounded(path):
    with open(path, "rb") as file:
        data = file.read(REPORT_MAX + 1)
    if len(data) > REPORT_MAX:
        raise Failure("index_bad_answer", "the resolver's answer is too large")
    return data.decode("utf-8", "replace")


def warnings_in(said):
    """Lines that speak of yanked releases, and of extras that a package does not have."""
    return [clean(re.sub(r"^(warning|WARNING):\s*", "", line.strip()), 300)
            for line in said.splitlines() if re.search(r"yanked|(have|provide) (an|the) extra ", line, re.IGNORECASE)][:20]


def base_of(url):
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])


# ---- uv -----------------------------------------------------------------------------------------

class Uv:
    def __init__(self, program):
        self.program = program
        said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=20, env={"PATH": os.defpath, "HOME": "/nonexistent"}).stdout
        self.version = " ".join(said.decode("utf-8", "replace").split()[:2]) or "uv"

    def build(self, job, source, folder):
        """Makes a wheel of a source archive; runs the package's own code."""
        return [self.program, "build", "--wheel", "--no-config", "--no-progress", "--color", "never", "--python",
                sys.executable, "--out-dir", folder, *job.index_options(), source], {
                    "UV_CACHE_DIR": os.path.join(job.folder, "cache"), "UV_PYTHON_DOWNLOADS": "never"}

    def resolve(self, job, rank):
        lock = os.path.join(job.folder, "pylock.toml")
        job.helper = self.program, "pip", "compile"
        seed(lock, [] if job.request.get("upgrade") else job.request.get("current") or [])
        arguments = [self.program, "pip", "compile", "--format", "pylock.toml", "--no-config",
                     "--no-progress", "--color", "never", "--python", sys.executable, "--output-file", lock,
                     *job.index_options(), job.write("requirements.txt", map(str, job.requirements))]
        if job.constraints:
            arguments += ["--constraints", job.write("constraints.txt", map(str, job.constraints))]
        if job.request.get("offline"):
            arguments += ["--offline"]
        if not job.request.get("source_builds"):
            arguments += ["--only-binary", ":all:"]
        if job.request.get("lock"):
            arguments += ["--no-deps"]
        if job.request.get("min_age_days"):
            arguments += ["--exclude-newer", moment(job.request["min_age_days"])]
        status, said = job.run(arguments, {
            "UV_CACHE_DIR": job.request.get("cache") or os.path.join(job.folder, "cache"),
            "UV_HTTP_TIMEOUT": str(job.timeout), "UV_HTTP_RETRIES": str(RETRIES),
            "UV_PYTHON_DOWNLOADS": "never", "UV_NO_SYSTEM_CONFIG": "1"}, "uv")
        if status:
            raise Unresolved(said)
        try:
            packages = loads(read_bounded(lock)).get("packages") or []
            found = [self.choose(job, package, rank) for package in packages]
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise Failure("internal", f"uv's lock cannot be read: {clean(exc, 200)}") from None
        return found, warnings_in(said)

    def choose(self, job, package, rank):
        """Of the wheels of a package, the one that the environment has, or the best."""
        name, version = package["name"], package.get("version")
        if "archive" in package:
            return self.wanted(job, name, version, package["archive"], True)
        current = {item.get("wheel") for item in job.request.get("current") or ()}
        current |= job.hashes.get(normal(name)) or set()
        best = None
        for item in package.get("wheels") or ():
            wanted = self.wanted(job, name, version, item)
            found = FILENAME.fullmatch(wanted.filename)
            order = rank(found) if found else None
            if order is None:
                continue
            build = tuple(-int(part) for part in re.findall(r"\d{1,9}", found["build"] or ""))
            key = wanted.sha256 not in current, order, build
            if best is None or key < best[0]:
                best = key, wanted
        if best:
            return best[1]
        if job.request.get("source_builds") and "sdist" in package:
            return self.wanted(job, name, version, package["sdist"])
        raise Failure("no_wheel", f"there is no wheel of {clean(name, 100)} {clean(version, 50)} for this "
                      "Python and machine", name)

    @staticmethod
    def wanted(job, name, version, item, direct=False):
        url, path = item.get("url"), item.get("path")
        if path is not None:
            path, url = os.path.normpath(os.path.join(job.folder, path)), None
        elif url.startswith("file:"):
            path, url = urllib.parse.unquote(urllib.parse.urlsplit(url).path), None
        filename = item.get("name") or (os.path.basename(path) if path else base_of(url))
        if version is None:             # of an archive: only its name says it
            found = FILENAME.fullmatch(filename)
            version = found["version"] if found else "0"
        return Wanted(name, version, filename, url, path, (item.get("hashes") or {}).get("sha256"),
                      item.get("size"), as_text(item.get("upload-time")), direct)


def seed(lock, current):
    """uv keeps to the versions of a lock that is there already, where it can."""
    lines = ['lock-version = "1.0"', 'created-by = "constrictor"']
    for item in current:
        if re.fullmatch(r"[A-Za-z0-9._-]{1,100}", str(item.get("name"))) and \
           re.fullmatch(r"[A-Za-z0-9.+!_-]{1,100}", str(item.get("version"))):
            lines += ["", "[[packages]]", f'name = "{normal(item["name"])}"', f'version = "{item["version"]}"']
    if os.path.exists(lock):
        os.unlink(lock)
    if len(lines) > 2:
        with open(lock, "x") as file:
            file.write("\n".join(lines) + "\n")


def moment(days):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 86400 * days))


# ---- pip ----------------------------------------------------------------------------------------

class Pip:
    def __init__(self, command, version):
        self.command, self.version = command, f"pip {version}"

    def build(self, job, source, folder):
        return [*self.command, "wheel", "--no-deps", "--isolated", "--no-input", "--quiet", "--no-cache-dir",
                "--disable-pip-version-check", "--wheel-dir", folder, *job.index_options(), *self.trusted(job),
                source], {"PIP_CONFIG_FILE": os.devnull}

    def resolve(self, job, rank):
        """pip knows no preferences: first with what the environment has as constraints, then without."""
        job.helper = *self.command, "install"
        current = [] if job.request.get("upgrade") else [
            f"{item['name']}=={item['version']}" for item in job.request.get("current") or ()]
        constraints = list(map(str, job.constraints))
        try:
            if not current:
                raise Unresolved()
            found = self.ask(job, constraints + current)
        except Unresolved:
            found = self.ask(job, constraints)
        for _ in range(AGE_ROUNDS if job.request.get("min_age_days") else 0):
            young = too_young(job, found[0])
            if not young:
                break
            constraints += young        # all young releases of these packages, and once more
            found = self.ask(job, constraints)
        return found

    @staticmethod
    def line_of(job):
        """With the hashes of a lock pip takes no other file."""
        return lambda item: " ".join([str(item), *[f"--hash=sha256:{digest}" for digest in
                                                   sorted(job.hashes.get(item.key) or ())]])

    def ask(self, job, constraints):
        report = os.path.join(job.folder, "report.json")
        if os.path.exists(report):
            os.unlink(report)
        arguments = [*self.command, "install", "--dry-run", "--ignore-installed", "--report", report,
                     "--isolated", "--no-input", "--disable-pip-version-check", "--no-color",
                     "--progress-bar", "off", "--no-cache-dir", "--timeout", str(job.timeout),
                     "--retries", str(RETRIES), *job.index_options(), *self.trusted(job), "--requirement",
                     job.write("requirements.txt", map(self.line_of(job), job.requirements))]
        if constraints:
            arguments += ["--constraint", job.write("constraints.txt", constraints)]
        if not job.request.get("source_builds"):
            arguments += ["--only-binary", ":all:"]
        if job.request.get("lock"):
            arguments += ["--no-deps"]
        status, said = job.run(arguments, {"PIP_CONFIG_FILE": os.devnull}, "pip")
        if status:
            raise Unresolved(said)
        try:
            items = json.loads(read_bounded(report))["install"]
            return [self.wanted(item) for item in items], warnings_in(said)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as exc:
            raise Failure("internal", f"pip's report cannot be read: {clean(exc, 200)}") from None

    @staticmethod
    def trusted(job):
        from index import authorities
        options = ["--cert", authorities()] if authorities() else []
        for url in (job.request.get("index_url"), *(job.request.get("extra_index_urls") or ())):
            if url and url.startswith("http:"):         # the operator's choice
                options += ["--trusted-host", urllib.parse.urlsplit(url).hostname]
        return options

    @staticmethod
    def wanted(item):
        info, said = item["download_info"], item["metadata"]
        archive = info.get("archive_info") or {}
        url, path = info["url"].partition("#")[0], None
        sha256 = (archive.get("hashes") or {}).get("sha256")
        if not sha256 and str(archive.get("hash")).startswith("sha256="):
            sha256 = archive["hash"][7:]
        if url.startswith("file:"):
            path, url = urllib.parse.unquote(urllib.parse.urlsplit(url).path), None
        return Wanted(said["name"], said["version"], os.path.basename(path) if path else base_of(url), url,
                      path, sha256, direct=bool(item.get("is_direct")))


def too_young(job, found):
    """Constraints against all young releases of the packages of which a young one was taken."""
    from diagnosis import Sources, version_of
    sources, limit, constraints = Sources(job), moment(job.request["min_age_days"]), []
    for wanted in found:
        files = sources.files(wanted.key) if wanted.url and not wanted.direct else None
        young = {version_of(item["filename"], wanted.key) for item in files or ()
                 if not item["upload_time"] or item["upload_time"] > limit}
        if wanted.version in young:
            constraints += [f"{wanted.key}!={version}" for version in sorted(filter(None, young))]
    return constraints


# ---- Which there is -----------------------------------------------------------------------------

def find_uv():
    for folder in (os.path.dirname(sys.executable), sysconfig.get_path("scripts"), None):
        program = shutil.which("uv", path=folder)
        if program:
            return program
    return None


def version_pair(text):
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:2])


def find_pip():
    """The interpreter's own, or the one that came with it to be installed."""
    try:
        from importlib.metadata import PackageNotFoundError, version
        found = version("pip")
        if version_pair(found) >= PIP_LEAST:
            return Pip([sys.executable, "-I", "-m", "pip"], found)
    except PackageNotFoundError:
        pass
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", *BUNDLED,
               os.path.join(sysconfig.get_path("stdlib"), "ensurepip", "_bundled")]
    wheels = [path for folder in folders if folder for path in glob.glob(f"{glob.escape(folder)}/pip-*.whl")]
    best = max(((version_pair(os.path.basename(path)), path) for path in wheels), default=((0, 0), None))
    if best[0] < PIP_LEAST:
        return None
    return Pip([sys.executable, "-I", f"{best[1]}/pip"], os.path.basename(best[1]).split("-")[1])


def find(which=None):
    """which: "uv" or "pip", for tests; else the first that there is."""
    program = find_uv() if which in (None, "uv") else None
    found = Uv(program) if program else find_pip() if which in (None, "pip") else None
    if found is None:
        raise Failure("no_installer", f"there is neither uv nor pip (22.2 or newer) for {sys.executable}",
                      hint="install one of them for this interpreter: python3 -m ensurepip, or a folder "
                           "with uv in PATH")
    return found
