# SPDX-License-Identifier: Apache-2.0
"""installer: one install, from requirements to a bundle for each wheel that the server lacks.

runner.py calls it instead of a run, in the user process of an installing box: uid 1000, a read-only tree,
network only to the index. It resolves (resolver.py), downloads (download.py), checks and unpacks (wheel.py),
compiles (pyc.py) and writes bundles (bundle.py) into the working directory. No code of a package runs, unless
source builds are allowed: then it runs here. Progress goes to stdout, one line of JSON for each step.
"""

import errno
import fnmatch
import json
import os
import shutil
import sys
import time

import bundle
import pyc
import resolver
import tags
from failure import Failure, clean
from given_lock import check as check_lock, read as read_lock
from requirement import NAME, normal, parse_all
from wheel import Wheel
from workers import Task, Workers

FOLDER = ".install"         # in the working directory; removed at the end
LIMITS = {"bytes": 4 << 30, "files": 200_000, "packages": 200}
SECONDS = 600               # for the whole install; the box has a limit of its own
COMPILE_SECONDS = 120       # for one task
TASK_WEIGHT = 40 << 20      # share of one unpacking task; see weight_of()
COMPILING = 30              # a byte of source takes as long as this many other bytes
PROGRESS_S = 0.1
STATES = "resolving", "downloading", "unpacking", "bundling"
WARNINGS_MAX = 50


class Progress:
    def __init__(self):
        self.said, self.state = 0.0, None

    def tell(self, state, done=0, total=0, count=0, text=""):
        now = time.monotonic()
        if STATES.index(state) < STATES.index(self.state or state):
            return                      # late news of an earlier step
        if state == self.state and now - self.said < PROGRESS_S:
            return
        self.said, self.state = now, state
        line = {"state": state, "done": done, "total": total, "bytes": count, "text": clean(text, 200)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def weight_of(entry):
    return entry.size * (1 + COMPILING * pyc.is_wanted(entry.path, entry.size)) + 4096


def unpack(wheel, entries, path, compiles, report):
    """Runs in a child."""
    compiler = pyc.Compiler(COMPILE_SECONDS / 2) if compiles else lambda path, source: None
    return wheel.unpack(entries, path, compiler, report)


class Package:
    """One file of the lock, until it is a bundle."""

    def __init__(self, wanted):
        self.wanted, self.wheel, self.path, self.size = wanted, None, None, wanted.size
        self.sha256, self.parts, self.left, self.bundle = wanted.sha256, {}, 0, None
        self.records, self.files, self.unpacked, self.is_built = [], None, None, False

    def to_answer(self):
        wanted, wheel = self.wanted, self.wheel
        return {"name": wanted.key, "version": wanted.version, "sha256": self.sha256,
                "filename": wheel.filename if wheel else wanted.filename, "size": self.size,
                "unpacked": self.unpacked, "files": self.files, "bundle": self.bundle,
                "requires_python": wheel and wheel.requires_python, "dropped": wheel.dropped if wheel else [],
                "top_level": wheel.top_level() if wheel else None, "built": self.is_built}


class Installer:
    def __init__(self, request):
        if type(request) is not dict:
            raise Failure("internal", "the request is not an object")
        self.request, self.progress, self.warnings = request, Progress(), []
        self.limits = {**LIMITS, **{key: int(value) for key, value in (request.get("limits") or {}).items() if value}}
        self.parallel = max(1, min(int(request.get("jobs") or 2), 16))
        self.known = set(request.get("known") or ())
        self.deadline = time.monotonic() + float(request.get("timeout") or SECONDS)
        self.base = os.getcwd()
        self.folder = os.path.join(self.base, FOLDER)
        self.packages, self.counts, self.used = [], {"net": 0, "cpu": 0}, 0
        self.phases, self.since = {}, time.monotonic()
        self.proxy = None
        self.locked = None              # {key: hashes}: install exactly these

    # ---- Before ---------------------------------------------------------------------------------

    def phase(self, name):
        now = time.monotonic()
        self.phases[name] = round(1000 * (now - self.since))
        self.since = now

    def read_requirements(self):
        urls = bool(self.request.get("allow_urls"))
        gone = set()
        for name in self.request.get("remove") or ():
            if type(name) is not str or len(name) > 200 or not NAME.fullmatch(name):
                raise Failure("bad_requirement", f"{clean(repr(name), 100)} is not a package name",
                              clean(repr(name), 100))
            gone.add(normal(name))
        wanted = parse_all(self.request.get("requirements") or [], urls)
        if self.request.get("lock"):
            wanted, self.locked = read_lock(self.request["lock"])
        constraints = parse_all(self.request.get("constraints") or [])
        self.gone = gone
        wanted = {str(item): item for item in wanted if item.key not in gone}
        for item in wanted.values():
            self.check_name(item.key, str(item))
        return list(wanted.values()), constraints

    def check_name(self, key, requirement):
        """Is this package allowed here?"""
        globs = {kind: [normal(glob) if "[" not in glob else glob for glob in self.request.get(kind) or ()]
                 for kind in ("allow", "deny")}
        if any(fnmatch.fnmatchcase(key, glob) for glob in globs["deny"]):
            raise Failure("denied_package", f"the package {key} is not allowed on this server", requirement,
                          "the operator's deny list names it")
        if globs["allow"] and not any(fnmatch.fnmatchcase(key, glob) for glob in globs["allow"]):
            raise Failure("denied_package", f"the package {key} is not on this server's allow list",
                          requirement, "the operator's allow list has to name every package, also those that "
                          "others need")

    # ---- The answer -----------------------------------------------------------------------------

    def run(self):
        requirements, constraints = self.read_requirements()
        if not requirements:
            return self.answer("none")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        try:
            return self.install_all(requirements, constraints)
        except BaseException:
            for package in self.packages:
                if package.bundle:
                    os.unlink(os.path.join(self.base, package.bundle))
                    package.bundle = None
            raise
        finally:
            self.leave()
            shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self):
        if self.proxy:
            self.proxy.close()

    def install_all(self, requirements, constraints):
        install = resolver.Install(self.request, requirements, constraints, self.folder, self.deadline)
        if self.request.get("login_hosts") and not self.request.get("offline"):
            from index_proxy import IndexProxy
            self.proxy = install.proxy = IndexProxy(self.request["login_hosts"], install.timeout)
        install.hashes = self.locked or {}
        tool = resolver.find(self.request.get("resolver"))
        self.progress.tell("resolving", 0, len(requirements), 0, f"{tool.version}: " + " ".join(map(str, requirements)))
        install.meanwhile = lambda: __import__("download")      # importing it takes long
        known = tags.tags()
        try:
            found, self.warnings = tool.resolve(install, lambda match: tags.rank(match, known))
        except resolver.Unresolved as exc:
            self.explain(install, str(exc))
        for wanted in found if self.proxy else ():
            wanted.url = wanted.url and self.proxy.back(wanted.url)
        self.check_direct(found, requirements)
        if self.locked is not None:
            check_lock(found, self.locked)
        self.phase("resolving")
        self.packages = [Package(wanted) for wanted in sorted(found, key=lambda wanted: wanted.key)]
        self.check_all()
        self.check_markers(requirements)
        self.keep_built()
        self.fetch_all(install, tool)
        return self.answer(tool.version)

    @staticmethod
    def explain(install, said):
        """Raises a Failure that explains why the resolver found no answer."""
        from diagnosis import Diagnosis
        from file_hosts import hosts
        try:
            Diagnosis(install, said).explain()
        except Failure as failure:
            failure.hosts = hosts(install)
            raise

    @staticmethod
    def check_direct(found, requirements):
        """The hash in an address must match, whatever the resolver did with it."""
        said = {item.key: item.url.partition("#sha256=")[2] for item in requirements if item.url}
        for wanted in found:
            digest = said.get(wanted.key)
            if digest and wanted.sha256 and wanted.sha256 != digest:
                raise Failure("hash_mismatch", f"the SHA-256 of the file of {wanted.key} differs from the one in its "
                              "address", wanted.key, "do not trust it; compare the hash with its author's")
            wanted.sha256 = wanted.sha256 or digest or None

    def check_all(self):
        if len(self.packages) > self.limits["packages"]:
            raise Failure("too_many_packages", f"{len(self.packages)} packages would be installed: at most "
                          f"{self.limits['packages']} are allowed",
                          hint="install fewer packages, or ask the operator for a higher limit")
        for package in self.packages:
            wanted = package.wanted
            self.check_name(wanted.key, f"{wanted.key}=={wanted.version}")
            if wanted.key in self.gone:
                self.warn(f"{wanted.key} stays: another package needs it")
            if not wanted.sha256:
                self.warn(f"the index gives no SHA-256 of {wanted.filename}: the file was not verified")
            elif wanted.is_wheel and not wanted.sha256.isalnum():
                raise Failure("index_bad_answer", f"the hash of {clean(wanted.filename)} is not a hash")

    def check_markers(self, requirements):
        """Warns of requirements that were left out because their marker is false here."""
        found = {package.wanted.key for package in self.packages}
        for item in requirements:
            if item.marker and item.key not in found:
                self.warn(f"{item} was left out: its marker is false for this Python")

    def keep_built(self):
        """Reuses a wheel that was built here before for the same version."""
        have = {(normal(str(item.get("name"))), item.get("version")): item.get("sha256")
                for item in self.request.get("current") or ()}
        for package in self.packages:
            sha256 = have.get((package.wanted.key, package.wanted.version))
            if not package.wanted.is_wheel and sha256 in self.known:
                package.sha256, package.is_built = sha256, True

    def warn(self, text):
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(clean(text, 300))

    def answer(self, version):
        packages = [package.to_answer() for package in self.packages]
        lock = "".join(sorted(f"{item['name']}=={item['version']} {item['sha256']}\n" for item in packages))
        return {"ok": True, "resolver": version, "packages": packages, "lock": lock,
                "warnings": self.warnings, "phases_ms": self.phases}

    # ---- Fetching and unpacking -----------------------------------------------------------------

    def fetch_all(self, install, tool):
        self.install, self.tool = install, tool
        self.todo = [package for package in self.packages if package.sha256 not in self.known]
        self.done = {"net": 0, "cpu": 0, "bundles": 0}
        self.workers = Workers({"net": self.parallel, "cpu": self.parallel}, self.deadline, self.count)
        # The largest first, where sizes are known: it takes longest.
        for package in sorted(self.todo, key=lambda package: -(package.size or 0)):
            self.workers.add(Task("net", __import__("download").bring, (install, package.wanted, self.limits["bytes"]),
                               lambda result, package=package: self.arrived(package, *result)))
        self.workers.run()
        self.phase("fetching_and_unpacking")

    def count(self, kind, count, text=""):
        """Reports progress. Unpacking begins before the last download has ended."""
        self.counts[kind] += count
        total = len(self.todo)
        if self.done["net"] < total:
            self.progress.tell("downloading", self.done["net"], total, self.counts["net"], text)
        else:
            self.progress.tell("bundling" if self.done["bundles"] == total else "unpacking",
                               self.done["bundles"], total, self.counts["cpu"], text)

    def arrived(self, package, path, size, digest):
        package.path, package.size = path, size
        if not package.wanted.is_wheel:
            self.workers.add(Task("cpu", self.build, (package,), lambda result: self.built(package, *result)))
            return
        package.sha256 = digest
        self.done["net"] += 1
        if "fetched" not in self.phases and self.done["net"] == len(self.todo):
            self.phases["fetched"] = round(1000 * (time.monotonic() - self.since))
        self.count("net", 0, package.wanted.filename)
        self.open_wheel(package, package.wanted.filename)

    def build(self, package, report):
        """Runs in a child. SECURITY: this runs code of the package, in this box; the operator allowed it."""
        out = os.path.join(self.folder, f"built-{package.sha256}")
        source = os.path.join(self.folder, os.path.basename(package.wanted.filename))
        os.rename(package.path, source)
        status, said = self.install.run(*self.tool.build(self.install, source, out), "build")
        wheels = [name for name in os.listdir(out) if name.endswith(".whl")] if os.path.isdir(out) else []
        if status or len(wheels) != 1:
            raise Failure("build_failed", f"{package.wanted.key} {package.wanted.version} could not be built",
                          f"{package.wanted.key}=={package.wanted.version}",
                          "ask for a version that has wheels", said)
        path = os.path.join(out, wheels[0])
        with open(path, "rb") as file:
            digest = __import__("hashlib").sha256(file.read()).hexdigest()
        return path, wheels[0], digest

    def built(self, package, path, filename, digest):
        package.path, package.sha256, package.is_built = path, digest, True
        self.done["net"] += 1
        self.open_wheel(package, filename)

    def open_wheel(self, package, filename):
        left = {"bytes": self.limits["bytes"] - self.used, "files": self.limits["files"]}
        wanted, requirement = package.wanted, f"{package.wanted.key}=={package.wanted.version}"
        wheel = package.wheel = Wheel(package.path, filename, left, requirement)
        if wheel.key != wanted.key or wheel.version.public != wheel.to_version(wanted.version).public:
            wheel.bad(f"it is not {requirement}")
        self.used += wheel.unpacked
        self.limits["files"] -= len(wheel.entries)
        tasks = self.share_out(wheel.entries) or [[]]
        package.left = len(tasks)
        for number, entries in enumerate(tasks):
            self.unpack_part(package, number, entries, True)

    def share_out(self, entries):
        """Tasks of about the same weight, so that a large wheel uses all processors."""
        tasks, weight = [], TASK_WEIGHT
        for entry in entries:
            if weight >= TASK_WEIGHT:
                tasks.append([])
                weight = 0
            tasks[-1].append(entry)
            weight += weight_of(entry)
        return tasks

    def unpack_part(self, package, number, entries, compiles):
        path = os.path.join(self.folder, f"{package.sha256}.{number}.{'part' if compiles else 'plain'}")
        self.workers.add(Task("cpu", unpack, (package.wheel, entries, path, compiles),
                           lambda result: self.unpacked(package, number, *result),
                           # If the compiler crashes or hangs, unpack without it.
                           (lambda: self.unpack_part(package, number, entries, False)) if compiles else None,
                           COMPILE_SECONDS if compiles else 0))

    def unpacked(self, package, number, path, entries, count, record):
        package.parts[number] = path, entries, count
        package.records += map(tuple, record)
        package.left -= 1
        if package.left:
            return
        rest = os.path.join(self.folder, f"{package.sha256}.rest")
        parts = [package.parts[at] for at in sorted(package.parts)] + [package.wheel.write_rest(rest, package.records)]
        package.files, package.unpacked = sum(part[1] for part in parts), sum(part[2] for part in parts)
        self.used += package.unpacked - package.wheel.unpacked
        if self.used > self.limits["bytes"]:
            raise Failure("too_large", f"the packages unpack to more than {self.limits['bytes']} bytes",
                          package.wanted.key, "ask the operator for a higher limit")
        name = f"{package.wanted.key[:100]}-{package.sha256[:16]}.cbun"
        bundle.finish(os.path.join(self.base, name), parts, os.path.join(self.folder, name))
        package.bundle = name
        if not package.wanted.path:
            os.unlink(package.path)
        self.done["bundles"] += 1
        self.count("cpu", 0, name)


def main(request):
    """The answer to a request; raises nothing."""
    try:
        return Installer(request).run()
    except Failure as failure:
        return failure.to_answer()
    except KeyboardInterrupt:
        return Failure("cancelled", "the install was interrupted").to_answer()
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            return Failure("disk_full", "there is no disk space left for the install",
                           hint="ask the operator for more disk space (install-disk)").to_answer()
        return Failure("internal", f"{type(exc).__name__}: {exc}").to_answer()
    except Exception as exc:
        return Failure("internal", f"{type(exc).__name__}: {exc}").to_answer()


def payload(meta):
    """For runner.py: the payload with the answer."""
    answer = main(meta.get("install"))
    return json.dumps({"exit_code": 0 if answer["ok"] else 1, "phase": "install", "install": answer}).encode()
