# SPDX-License-Identifier: Apache-2.0
"""env_vars: the environment variables that a call brings along.

Called by runner.handle() in the user process of a box, when a run's meta has "env". They are in os.environ, in the
environment of the C library, and so in that of programs that the code starts. Those of a run end with it; those that
a session was opened with ("keep_env") stay.

This interpreter has started long before: what it reads at its start (PYTHONWARNINGS, LANG, LD_PRELOAD) reaches only
programs that the code starts. TZ and PYTHONPATH take effect here, too.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
from base import need


def put(environ, values):
    """Sets variables; None removes one."""
    for name, value in values.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
    if "TZ" in values:
        need("time", "tzset")()


def bring(meta):
    """Sets the variables of the call. Returns what to call after the run to set the old ones again, or None."""
    environ, values = need("os", "environ"), dict(meta["env"])
    folders = [folder for folder in values.get("PYTHONPATH", "").split(":") if folder]
    before = {name: environ.get(name) for name in values}
    put(environ, values)
    sys.path[1:1] = folders             # behind the folder of the code, as in python3
    if "keep_env" in meta:
        return None

    def restore():
        try:
            put(environ, before)
            for folder in folders:
                if folder in sys.path:
                    sys.path.remove(folder)
        except Exception:
            pass                        # the code broke os.environ or sys.path
    return restore
