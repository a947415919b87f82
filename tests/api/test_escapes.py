# SPDX-License-Identifier: Apache-2.0
"""The ways out that broke servers of this kind, each tried twice.

Under the policy `restricted`: CAUGHT says whether the language layer stops it, and the test fails when that is not so
any more, in either direction. Under the policy `open`, where nothing but the kernel is in the way: the same trick
works, and what it is good for is refused all the same: files of the host, other processes, the network, writing
outside of the scratch folder, more rights.

Each way ends with `got`, the module os (or with it a function that gives it): what follows, REACH, is the same for all.
"""

import os
import socket

import pytest
from conftest import TOP, open_cli
from mcp_client import LEGACY, Stdio

PYTHON = TOP / "build" / "venv" / "bin" / "python"  # has RestrictedPython

# Prints PAST once it has os, and OUT for whatever of the host it could reach.
REACH = """
print('PAST', got.getpid() > 0)
def attempt(name, action):
    try:
        action()
        print('OUT', name)
    except (OSError, ValueError, IndexError):
        print('held', name)
attempt('shadow', lambda: got.open('/etc/shadow', 0))
attempt('home of root', lambda: [name for name in got.listdir('/root') if name not in FOLDER][0])    # or the interpreter is there
attempt('folder of the tests', lambda: got.listdir(FOLDER))
attempt('init of the host', lambda: got.listdir('/proc/1/root/etc'))
attempt('write to /etc', lambda: got.open('/etc/x', 65))
attempt('write to /usr', lambda: got.open('/usr/x', 65))
attempt('write to the root', lambda: got.mkdir('/x'))
attempt('a process of the host', lambda: got.kill(HOST_PID, 0))
attempt('root', lambda: got.setuid(0))
attempt('another root folder', lambda: got.chroot('/tmp'))
attempt('a device', lambda: got.mknod('/tmp/null', 0o20666, 259))
"""
NETWORK = """
def knock():
    s = got.sys.modules['_socket'] if '_socket' in got.sys.modules else __import__('_socket')
    s = s.socket(2, 1)
    s.settimeout(3)
    s.connect(('127.0.0.1', PORT))
attempt('network', knock)
attempt('shell', lambda: got.execv('/bin/cat', ['cat', '/etc/shadow']) if got.fork() == 0 else exit_of_child())
"""
CHILD = """
def exit_of_child():
    if got.waitpid(-1, 0)[1] != 0:
        raise OSError('it failed')
"""

# name -> (what it is caught by, or None; code)
WAYS = {
    "subclasses walk": ("restricted", """
got = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__['sys'].modules['os']
"""),
    "subclasses by string dunders": ("restricted", """
walk = getattr(getattr(getattr((), '__cl' + 'ass__'), '__ba' + 'se__'), '__sub' + 'classes__')
got = [c for c in walk() if c.__name__ == '_wrap_close'][0].__init__.__globals__['sys'].modules['os']
"""),
    "str.format": ("restricted", """
shown = '{0.__class__.__init__.__globals__}'.format(type('X', (), {'__init__': lambda self: None})())
got = __import__('os')
"""),
    "str.format_map": ("restricted", """
'{a.__class__.__mro__}'.format_map({'a': 1})
got = __import__('os')
"""),
    "string.Formatter": ("restricted", """
import string
field = string.Formatter().get_field('0.__class__.__base__', [()], {})[0]
got = [c for c in field.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__['sys'].modules['os']
"""),
    "pickle": ("restricted", """
import pickle
got = pickle.loads(b'cposix\\ngetcwd\\n.').__self__
import os as got
"""),
    "ctypes": ("restricted", """
import ctypes
assert ctypes.pythonapi.PyImport_ImportModule
import os as got
"""),
    "importlib": ("restricted", "import importlib\ngot = importlib.import_module('os')\n"),
    "import machinery by its loader": ("restricted", """
import random
got = random.__spec__.loader.load_module('random') and random.__loader__.__init__.__globals__['sys'].modules['os']
"""),
    "__builtins__": ("restricted", """
b = __builtins__
got = (b['__import__'] if isinstance(b, dict) else b.__import__)('os')
"""),
    "gc": ("restricted", """
import gc
def f(): pass
names = [o for o in gc.get_referents(f) if isinstance(o, dict) and '__builtins__' in o][0]
got = names['__builtins__'].__import__('os')
"""),
    "frames by sys": ("restricted", "import sys\ngot = sys._getframe().f_globals['sys'].modules['os']\n"),
    "frames of a traceback": ("restricted", """
try:
    1 / 0
except ZeroDivisionError as exc:
    frame = exc.__traceback__.tb_frame
while frame.f_back: frame = frame.f_back
got = frame.f_builtins['__import__']('os')
"""),
    "frames of a traceback in __exit__": ("restricted", """
class Catch:
    def __exit__(self, kind, exc, tb):
        Catch.frame = tb.tb_frame
        return True
    def __enter__(self): return self
with Catch():
    1 / 0
got = Catch.frame.f_builtins['__import__']('os')
"""),
    "frames of a generator": ("restricted", """
def g():
    yield g.it.gi_frame.f_builtins
g.it = g()
got = next(g.it)['__import__']('os')
"""),
    "frames of a generator by a pattern": ("restricted", """
def g(): yield 1
match g():
    case object(gi_frame=object(f_builtins=names)): pass
got = names['__import__']('os')
"""),
    "frames of a coroutine": ("restricted", """
async def f(): pass
c = f()
got = c.cr_frame.f_builtins['__import__']('os')
c.close()
"""),
    "type() with a metaclass": ("restricted", """
class Meta(type):
    def __getattribute__(cls, name): return type.__getattribute__(cls, name)
X = Meta('X', (), {})
got = type('Y', (X,), {'f': lambda self: __import__('os')})().f()
"""),
    "globals of a function": ("restricted", "def f(): pass\ngot = f.__globals__['__builtins__'].__import__('os')\n"),
    "code of a function": ("restricted", """
def f(): return 1
f.__code__ = (lambda: __import__('os')).__code__
got = f()
"""),
    "eval": ("restricted", "got = eval('__import__(\"os\")')\n"),
    "exec": ("restricted", "names = {}\nexec('import os', names)\ngot = names['os']\n"),
    "random._os": ("restricted", "import random\ngot = random._os\n"),
    "collections._sys": ("restricted", "import collections\ngot = collections._sys.modules['os']\n"),
    "uuid.os": ("restricted", "import uuid\ngot = uuid.os\n"),
    "a module by a pattern": ("restricted", """
import uuid
match uuid:
    case object(os=got): pass
"""),
    "asyncio.base_events": ("restricted", "import asyncio\ngot = asyncio.base_events.os\n"),
    "operator.attrgetter": ("restricted", """
import operator
got = operator.attrgetter('__init__.__globals__')(operator.attrgetter('Random')(__import__('random')))['_os']
"""),
    "typing.get_type_hints": ("restricted", """
import typing
class A: pass
A.__annotations__ = {'x': '__import__("os")'}
try:
    typing.get_type_hints(A)
except TypeError: pass
import os as got
"""),
    "io.open": ("restricted", "import io\nio.open('/etc/passwd').close()\nimport os as got\n"),
    "shell by asyncio": ("restricted", """
import asyncio
asyncio.create_subprocess_shell
import os as got
"""),
    # The language layer does not see these: permitted modules that open files, or start programs, by themselves.
    "configparser reads": (None, "import configparser\nread = configparser.ConfigParser().read('/etc/shadow')\ngot = None\n"),
    "ElementTree reads": (None, "import xml.etree.ElementTree as ET\ntry:\n    ET.parse('/etc/shadow')\n    print('OUT read')\n"
                                "except OSError: pass\ngot = None\n"),
    "zoneinfo reads": (None, "import zoneinfo\ntry:\n    zoneinfo.ZoneInfo.from_file\n    zoneinfo.ZoneInfo('../../../etc/shadow')\n"
                             "    print('OUT read')\nexcept (ValueError, LookupError, OSError): pass\ngot = None\n"),
}
MISSED = [name for name, (layer, _) in WAYS.items() if layer is None]


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as shared:
        yield shared


@pytest.fixture(scope="module")
def boxes(cli):
    """A connection for each policy."""
    with Stdio(cli, "--python", PYTHON, "--policy", "restricted", version=LEGACY[-1]) as restricted:
        with Stdio(cli, "--python", PYTHON, "--policy", "open", version=LEGACY[-1]) as wide:
            restricted.open()
            wide.open()
            yield {"restricted": restricted, "open": wide}


@pytest.fixture(scope="module")
def listener():
    """Something of the host's that a box must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def run(boxes, policy, code):
    found = boxes[policy].python(code.replace("HOST_PID", str(os.getpid())).replace(
        "FOLDER", repr(str(TOP / "tests"))))["structuredContent"]
    assert "OUT" not in found["stdout"], found["stdout"]
    return found


@pytest.mark.parametrize("name", WAYS)
def test_the_language_layer(boxes, name):
    """Whether it stops the way, as the table says; whatever gets past it has reached nothing of the host."""
    layer, code = WAYS[name]
    found = run(boxes, "restricted", code + ("" if layer is None else REACH))
    events = found["security_events"]
    assert {event["layer"] for event in events} == ({layer} if layer else set()), (events, found["error"])
    if layer:
        assert "PAST" not in found["stdout"] and found["verdict"] in ("denied", "error")
        assert all(event["kind"] and event["target"] and event["line"] and event["hint"] for event in events)
    else:
        assert found["verdict"] == "ok" or found["error"]["type"].endswith("Error"), found


@pytest.mark.parametrize("name", [name for name in WAYS if name not in MISSED])
def test_the_wall(boxes, listener, name):
    """The same way without the language layer is open, and leads nowhere: the kernel refuses each attempt."""
    code = WAYS[name][1] + REACH + CHILD + NETWORK.replace("PORT", str(listener.getsockname()[1]))
    found = run(boxes, "open", code)
    assert found["verdict"] == "ok" and found["stdout"].startswith("PAST True\n"), (found["stdout"], found["error"])
    assert found["stdout"].count("held ") == 13, found["stdout"]
    assert found["security_events"] == [] or all(event["layer"] != "restricted" for event in found["security_events"])


@pytest.mark.parametrize("name", MISSED)
def test_what_the_language_layer_misses(boxes, name):
    """It is not stopped in either mode, and reads nothing of the host in either."""
    for policy in "restricted", "open":
        found = run(boxes, policy, WAYS[name][1].replace("got = None", "print('went on')"))
        assert found["verdict"] == "ok" or found["error"]["type"] == "PermissionError", (policy, found["error"])


def test_the_server_has_not_noticed_anything(boxes):
    """After all of them both servers answer as before."""
    for policy in boxes:
        assert run(boxes, policy, "6 * 7")["result"] == "42"
