# SPDX-License-Identifier: Apache-2.0
"""sitecustomize: gives interpreters that code in a box starts the packages of its environment.

Their PYTHONPATH has this folder, and so `site` imports this file when the standard library and the interpreter's own
packages are in sys.path; python/runner/wheels.py puts both into the environment. The wheels themselves in PYTHONPATH would stand
before the standard library: a package that has a json.py would be the child's `json`, and never its parent's.
"""


def add_wheels():
    import sys
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder
    from os import environ

    own = __file__.rpartition("/")[0]
    sys.path[:] = [folder for folder in sys.path if folder != own]
    # What the interpreter has itself, whose name this file has taken. Before the wheels: a package's own is not run in
    # the parent either. `site` would import usercustomize next, with the wheels in sys.path, and so it must not.
    site = sys.modules["site"]
    for name in ["sitecustomize"] + ["usercustomize"] * bool(site.ENABLE_USER_SITE):
        hidden = PathFinder.find_spec(name, sys.path)
        if hidden and hidden.loader:
            hidden.loader.exec_module(module_from_spec(hidden))
    site.ENABLE_USER_SITE = False
    wheels = [folder for folder in environ.get("CONSTRICTOR_WHEELS", "").split(":") if folder not in ("", *sys.path)]
    packages = ("/site-packages", "/dist-packages")
    at = next((place for place, folder in enumerate(sys.path) if folder.endswith(packages)), len(sys.path))
    sys.path[at:at] = wheels


add_wheels()
