# SPDX-License-Identifier: Apache-2.0
"""resolver: finds the wheels that satisfy all requirements together, with uv, or else pip.

In the user process of an installing box. The tools get argument lists and files, never a shell; a new
environment, no configuration files, and a folder of the box for what they write. Their answer is read as
data: a lock with addresses and hashes; download.py downloads the wheels.
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
WORDS_MAX = 1 << 20         # bytes of a tool's output
PIP_LEAST = 22, 2           # the first version with --report
AGE_ROUNDS = 5
HOSTS = "/opt/pip"          # box/jail.h
BUNDLED = "/usr/share/python-wheels", "/usr/lib/python3/wheels"


class Unresolved(Exception):
    """The tool found no answer; diagnosis.py finds out why."""


class Wanted:
    """A file of the answer."""

    def __init__(self, name, version, filename, url=None, path=None, sha256=None, size=None,
                 uploaded=None, direct=False):
        self.key, self.version, self.filename = normal(name), version, filename
        self.url, self.path, self.size, self.direct = url, path, size, direct
        self.sha256, self.uploaded = (sha256.lower() if sha256 else None), uploaded

    @property
    def is_wheel(self):
        return self.filename.endswith(".whl")


class Install:
    """What every resolver needs to know about the install."""

    def __init__(self, request, requirements, constraints, folder, deadline):
        self.request, self.requirements, self.constraints = request, requirements, constraints
        self.folder, self.deadline = folder, deadline
        self.meanwhile = None           # called once while a tool works
        self.proxy = None               # of indexes with a login: index_proxy.py
        self.hashes = {}                # of a lock: {key: allowed hashes}
        self.helper = ()                # the command whose help names the default index
        self.timeout = max(1, int(request.get("http_timeout") or 15))

    def default_index(self):
        """The index that the tool uses by default, from its own help."""
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
        """The options for where packages come from, the same for both tools."""
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
        """Returns (exit status, end of the output)."""
        said = os.path.join(self.folder, f"{name}.log")
        with open(said, "wb") as log:
            # uv also prints its lock.
            out = subprocess.DEVNULL if name == "uv" else log
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                       env=self.environment(more), cwd=self.folder)
            try:
                meanwhile, self.meanwhile = self.meanwhile, None
                if meanwhile:
                    meanwhile()
                status = process.wait(max(0.1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failure("timeout", f"{name} found no answer in time",
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
    """Lines about yanked releases and missing extras."""
    return [clean(re.sub(r"^(warning|WARNING):\s*", "", line.strip()), 300)
            for line in said.splitlines()
            if re.search(r"yanked|(have|provide) (an|the) extra ", line, re.IGNORECASE)][:20]


def base_of(url):
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])


# ---- uv -----------------------------------------------------------------------------------------

class Uv:
    def __init__(self, program):
        self.program = program
        said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=20, env={"PATH": os.defpath, "HOME": "/nonexistent"}).stdout
        self.version = " ".join(said.decode("utf-8", "replace").split()[:2]) or "uv"

    def build(self, install, source, folder):
        """Builds a wheel from a source archive; runs code of the package."""
        return [self.program, "build", "--wheel", "--no-config", "--no-progress", "--color", "never", "--python",
                sys.executable, "--out-dir", folder, *install.index_options(), source], {
                    "UV_CACHE_DIR": os.path.join(install.folder, "cache"), "UV_PYTHON_DOWNLOADS": "never"}

    def resolve(self, install, rank):
        lock = os.path.join(install.folder, "pylock.toml")
        install.helper = self.program, "pip", "compile"
        seed(lock, [] if install.request.get("upgrade") else install.request.get("current") or [])
        arguments = [self.program, "pip", "compile", "--format", "pylock.toml", "--no-config",
                     "--no-progress", "--color", "never", "--python", sys.executable, "--output-file", lock,
                     *install.index_options(), install.write("requirements.txt", map(str, install.requirements))]
        if install.constraints:
            arguments += ["--constraints", install.write("constraints.txt", map(str, install.constraints))]
        if install.request.get("offline"):
            arguments += ["--offline"]
        if not install.request.get("source_builds"):
            arguments += ["--only-binary", ":all:"]
        if install.request.get("lock"):
            arguments += ["--no-deps"]
        if install.request.get("min_age_days"):
            arguments += ["--exclude-newer", moment(install.request["min_age_days"])]
        status, said = install.run(arguments, {
            "UV_CACHE_DIR": install.request.get("cache") or os.path.join(install.folder, "cache"),
            "UV_HTTP_TIMEOUT": str(install.timeout), "UV_HTTP_RETRIES": str(RETRIES),
            "UV_PYTHON_DOWNLOADS": "never", "UV_NO_SYSTEM_CONFIG": "1"}, "uv")
        if status:
            raise Unresolved(said)
        try:
            packages = loads(read_bounded(lock)).get("packages") or []
            found = [self.choose(install, package, rank) for package in packages]
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise Failure("internal", f"uv's lock cannot be read: {clean(exc, 200)}") from None
        return found, warnings_in(said)

    def choose(self, install, package, rank):
        """The wheel of a package that the environment already has, else the best one."""
        name, version = package["name"], package.get("version")
        if "archive" in package:
            return self.wanted(install, name, version, package["archive"], True)
        current = {item.get("sha256") for item in install.request.get("current") or ()}
        current |= install.hashes.get(normal(name)) or set()
        best = None
        for item in package.get("wheels") or ():
            wanted = self.wanted(install, name, version, item)
            found = FILENAME.fullmatch(wanted.filename)
            preference = rank(found) if found else None
            if preference is None:
                continue
            build = tuple(-int(part) for part in re.findall(r"\d{1,9}", found["build"] or ""))
            key = wanted.sha256 not in current, preference, build
            if best is None or key < best[0]:
                best = key, wanted
        if best:
            return best[1]
        if install.request.get("source_builds") and "sdist" in package:
            return self.wanted(install, name, version, package["sdist"])
        raise Failure("no_wheel", f"there is no wheel of {clean(name, 100)} {clean(version, 50)} for this "
                      "Python and machine", name)

    @staticmethod
    def wanted(install, name, version, item, direct=False):
        url, path = item.get("url"), item.get("path")
        if path is not None:
            path, url = os.path.normpath(os.path.join(install.folder, path)), None
        elif url.startswith("file:"):
            path, url = urllib.parse.unquote(urllib.parse.urlsplit(url).path), None
        filename = item.get("name") or (os.path.basename(path) if path else base_of(url))
        if version is None:             # an archive: its name has the version
            found = FILENAME.fullmatch(filename)
            version = found["version"] if found else "0"
        return Wanted(name, version, filename, url, path, (item.get("hashes") or {}).get("sha256"),
                      item.get("size"), as_text(item.get("upload-time")), direct)


def seed(lock, current):
    """Writes a lock with the current versions: uv keeps them where it can."""
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

    def build(self, install, source, folder):
        return [*self.command, "wheel", "--no-deps", "--isolated", "--no-input", "--quiet", "--no-cache-dir",
                "--disable-pip-version-check", "--wheel-dir", folder, *install.index_options(), *self.trusted(install),
                source], {"PIP_CONFIG_FILE": os.devnull}

    def resolve(self, install, rank):
        """Tries first with the current versions as constraints, then without: pip has no preferences."""
        install.helper = *self.command, "install"
        current = [] if install.request.get("upgrade") else [
            f"{item['name']}=={item['version']}" for item in install.request.get("current") or ()]
        constraints = list(map(str, install.constraints))
        try:
            if not current:
                raise Unresolved()
            found = self.ask(install, constraints + current)
        except Unresolved:
            found = self.ask(install, constraints)
        for _ in range(AGE_ROUNDS if install.request.get("min_age_days") else 0):
            young = too_young(install, found[0])
            if not young:
                break
            constraints += young        # exclude all young releases of these packages, and try again
            found = self.ask(install, constraints)
        return found

    @staticmethod
    def line_of(install):
        """Adds the hashes of the lock, so that pip takes no other file."""
        return lambda item: " ".join([str(item), *[f"--hash=sha256:{digest}" for digest in
                                                   sorted(install.hashes.get(item.key) or ())]])

    def ask(self, install, constraints):
        report = os.path.join(install.folder, "report.json")
        if os.path.exists(report):
            os.unlink(report)
        arguments = [*self.command, "install", "--dry-run", "--ignore-installed", "--report", report,
                     "--isolated", "--no-input", "--disable-pip-version-check", "--no-color",
                     "--progress-bar", "off", "--no-cache-dir", "--timeout", str(install.timeout),
                     "--retries", str(RETRIES), *install.index_options(), *self.trusted(install), "--requirement",
                     install.write("requirements.txt", map(self.line_of(install), install.requirements))]
        if constraints:
            arguments += ["--constraint", install.write("constraints.txt", constraints)]
        if not install.request.get("source_builds"):
            arguments += ["--only-binary", ":all:"]
        if install.request.get("lock"):
            arguments += ["--no-deps"]
        status, said = install.run(arguments, {"PIP_CONFIG_FILE": os.devnull}, "pip")
        if status:
            raise Unresolved(said)
        try:
            items = json.loads(read_bounded(report))["install"]
            return [self.wanted(item) for item in items], warnings_in(said)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as exc:
            raise Failure("internal", f"pip's report cannot be read: {clean(exc, 200)}") from None

    @staticmethod
    def trusted(install):
        from index import authorities
        options = ["--cert", authorities()] if authorities() else []
        for url in (install.request.get("index_url"), *(install.request.get("extra_index_urls") or ())):
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


def too_young(install, found):
    """Constraints that exclude all young releases of packages of which a young one was chosen."""
    from diagnosis import Sources, version_of
    sources, limit, constraints = Sources(install), moment(install.request["min_age_days"]), []
    for wanted in found:
        files = sources.files(wanted.key) if wanted.url and not wanted.direct else None
        young = {version_of(item["filename"], wanted.key) for item in files or ()
                 if not item["upload_time"] or item["upload_time"] > limit}
        if wanted.version in young:
            constraints += [f"{wanted.key}!={version}" for version in sorted(filter(None, young))]
    return constraints


# ---- Finding a tool -----------------------------------------------------------------------------

def find_uv():
    for folder in (os.path.dirname(sys.executable), sysconfig.get_path("scripts"), None):
        program = shutil.which("uv", path=folder)
        if program:
            return program
    return None


def version_pair(text):
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:2])


def find_pip():
    """The interpreter's own pip, the wheel of pip that came with it, or the pip of the host's packages."""
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
    if best[0] >= PIP_LEAST:
        return Pip([sys.executable, "-I", f"{best[1]}/pip"], os.path.basename(best[1]).split("-")[1])
    try:
        with open(f"{HOSTS}/pip/__init__.py", encoding="utf-8") as file:
            found = re.search(r'^__version__ = "([^"]{1,40})"', file.read(65536), re.MULTILINE)
    except OSError:
        return None
    if not found or version_pair(found[1]) < PIP_LEAST:
        return None
    return Pip([sys.executable, "-I", f"{HOSTS}/pip"], found[1])


def find(which=None):
    """which: "uv" or "pip", for tests; None: the first one that exists."""
    program = find_uv() if which in (None, "uv") else None
    found = Uv(program) if program else find_pip() if which in (None, "pip") else None
    if found is None:
        raise Failure("no_installer", f"there is neither uv nor pip (22.2 or newer) for {sys.executable}",
                      hint="install one of them for this interpreter: python3 -m ensurepip, or a folder "
                           "with uv in PATH")
    return found
