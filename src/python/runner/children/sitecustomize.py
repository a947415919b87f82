# SPDX-License-Identifier: Apache-2.0
"""sitecustomize: gives interpreters that code in a box starts the packages of the environment, and the pip of a box.

runner.arrange() puts this folder into PYTHONPATH, so `site` imports this file when the standard library and
the interpreter's own packages are in sys.path. Wheels in PYTHONPATH itself would come before the standard library: a
package with a json.py would replace `json` in the child, but not in its parent.
"""


def add_wheels():
    import sys
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder
    from os import environ

    own = __file__.rpartition("/")[0]
    sys.path[:] = [folder for folder in sys.path if folder != own]
    # Run the interpreter's own sitecustomize, which this file hides, before the wheels are in sys.path: those of
    # packages do not run in the parent either. For the same reason `site` must not import usercustomize later.
    site = sys.modules["site"]
    for name in ["sitecustomize"] + ["usercustomize"] * bool(site.ENABLE_USER_SITE):
        hidden = PathFinder.find_spec(name, sys.path)
        if hidden and hidden.loader:
            hidden.loader.exec_module(module_from_spec(hidden))
    site.ENABLE_USER_SITE = False
    wheels = [folder for folder in environ.get("CONSTRICTOR_WHEELS", "").split(":") if folder not in ("", *sys.path)]
    packages = ("/site-packages", "/dist-packages")
    at = next((at for at, folder in enumerate(sys.path) if folder.endswith(packages)), len(sys.path))
    sys.path[at:at] = wheels


class PipFinder:
    """Loads pip_here.py when something of pip is looked for, and steps back."""
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "pip":
            return None
        import sys
        from _frozen_importlib_external import SourceFileLoader
        sys.meta_path.remove(PipFinder)
        file = __file__.rpartition("/children/")[0] + "/pip_here.py"
        pip_here = type(sys)("pip_here")
        exec(SourceFileLoader("pip_here", file).get_code("pip_here"), pip_here.__dict__)
        pip_here.hook()
        return sys.meta_path[0].find_spec(name, path, target)


add_wheels()
__import__("sys").meta_path.insert(0, PipFinder)
