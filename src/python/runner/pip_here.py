# SPDX-License-Identifier: Apache-2.0
"""pip_here: what pip does in a box: it lists packages, and refuses at once to install any.

display.adopt() calls adopt_pip() when code in a box imports pip, and children/sitecustomize.py calls hook() in
interpreters that such code starts. pip itself would try for ten seconds to reach an index, or fail to write to the
interpreter's folder. Only `--target` in a box with network can work, and is left to pip. This is a convenience: what
keeps packages out are the walls.
"""

import sys
from posix import stat
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder

MAIN = "pip._internal.cli.main"     # `python -m pip`, the script pip and pip.main() all import it
CHANGES = "install", "download", "wheel", "uninstall", "lock"
NAMES_MAX, NAME_MAX = 5, 60
INDEX_OPTIONS = "--no-index", "--help", "-h"        # with one of these pip asks no index
INTO = "-t", "--target"             # pip can fill a folder of the scratch, in a box with network
ANSWERS = "list, freeze, show NAME and --version"


def has_network():
    try:
        stat("/etc/resolv.conf")        # box/jail.c makes it for boxes with network
        return True
    except OSError:
        return False


def refusal(arguments):
    """The line that says what to do instead; None if pip can do it."""
    words = [word for word in arguments if not word.startswith("-")]
    if not words or words[0] not in CHANGES or set(INDEX_OPTIONS) & set(arguments):
        return None
    if words[0] == "install" and {word.partition("=")[0] for word in arguments} & {*INTO} and has_network():
        return None
    names = " ".join([word[:NAME_MAX] for word in words[1:1 + NAMES_MAX]])
    if words[0] == "uninstall":
        return f"ERROR: pip cannot uninstall {names} in a box: use the tool uninstall_package (MCP), " \
               "DELETE of the environment's package (REST) or 'constrictor env uninstall' (CLI)"
    return f"ERROR: pip cannot {words[0]} {names or 'packages'} in a box: use the tool install_package (MCP), " \
           "the field 'packages' of the call (REST) or the option --package (CLI)"


# ---- Without pip --------------------------------------------------------------------------------

def packages():
    from importlib import metadata
    found = {}
    for item in metadata.distributions():
        name = item.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-"), item)
    return found


def show(names):
    found, missing = packages(), []
    for name in names:
        item = found.get(name.lower().replace("_", "-"))
        if item is None:
            missing.append(name)
            continue
        for key in "Name", "Version", "Summary", "Home-page", "Author", "License":
            print(f"{key}: {item.metadata[key] or ''}")
        print(f"Location: {item.locate_file('')}")
        print(f"Requires: {', '.join([text.partition(';')[0] for text in item.requires or ()])}")
    if missing:
        print(f"WARNING: Package(s) not found: {', '.join(missing)}", file=sys.stderr)
    return int(len(missing) == len(names))


def answer(arguments):
    """Does the commands that need no pip; returns the exit status."""
    words = [word for word in arguments if not word.startswith("-")]
    command = words[0] if words else "--version" if {"--version", "-V"} & set(arguments) else ""
    lines = [(item.metadata["Name"], item.version) for _, item in sorted(packages().items())]
    if command == "--version":
        print(f"pip (of the box; it can {ANSWERS}) (python {sys.version_info[0]}.{sys.version_info[1]})")
    elif command == "list" and "json" in " ".join(arguments):
        import json
        print(json.dumps([{"name": name, "version": version} for name, version in lines]))
    elif command == "list":
        width = max([7, *[len(name) for name, _ in lines]])
        for name, version in [("Package", "Version"), ("-" * width, "-------"), *lines]:
            print(f"{name:{width}} {version}")
    elif command == "freeze":
        print("\n".join([f"{name}=={version}" for name, version in lines]))
    elif command == "show" and words[1:]:
        return show(words[1:])
    else:
        print(f"ERROR: this interpreter has no pip; here it can {ANSWERS}", file=sys.stderr)
        return 2
    return 0


# ---- In the import system -----------------------------------------------------------------------

def main(arguments=None):
    """In the place of pip's own function of the same name."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    line = refusal(arguments)
    if line is not None:
        sys.stderr.write(line + "\n")
        return 1
    sys.modules.pop(MAIN, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder) is not Finder]
    if PathFinder.find_spec("pip") is None:
        return answer(arguments)
    from pip._internal.cli.main import main as own
    return own(arguments)


class Finder:
    """Finds our main() as pip's, and a pip where the interpreter has none. Both only until main() has run."""
    PARTS = "pip", "pip._internal", "pip._internal.cli"

    def find_spec(self, name, path=None, target=None):
        if name == MAIN:
            return ModuleSpec(name, self)
        if name.partition(".")[0] != "pip" or path is not None and [*path] or PathFinder.find_spec("pip"):
            return None
        if name == "pip.__main__" or name in self.PARTS:
            return ModuleSpec(name, self, is_package=name in self.PARTS)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ == MAIN:
            module.main = main

    def get_code(self, name):
        text = f"import sys\nfrom {MAIN} import main\nsys.exit(main())" if name == "pip.__main__" else ""
        return compile(text, f"<{name}>", "exec")


def hook():
    sys.meta_path.insert(0, Finder())


def adopt_pip(module):
    if MAIN not in sys.modules:
        hook()


ADOPT = {"pip": adopt_pip}
