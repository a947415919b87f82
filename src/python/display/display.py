# SPDX-License-Identifier: Apache-2.0
"""display: what code shows besides text: pictures, tables, formulas, as bundles of MIME types.

zygote.py imports this file and calls install(); the rest runs in the user process of a box, among
user code, under the rules of runner.py. A value says itself what it looks like, by the methods that
notebooks call: _repr_png_() and so on. Figures of matplotlib are drawn on plt.show() and at the end
of a run: figures.py. A figure is there as data as well, charts.py, and a table as a short text,
tables.py. This module uses only libraries that user code has imported, with one exception: it imports
PIL to make a picture smaller. Every method may raise, lie, or return a gigabyte: what comes is checked before
it is copied, what does not fit is counted, and what was wrong is said on stderr.
"""

import builtins
import os
import sys
from _io import BytesIO
from sys import modules

from base import __builtins__           # first: functions look builtins up there
import base
import report
import source
from base import Box, LINE_MAX, PAYLOAD_MAX, clip, need, quote, to_json
from report import message_of, type_name

ITEMS_MAX = 20              # bundles of a run
ROOM = 1024 * 1024          # bytes of JSON for all of them, and for the originals of pictures
TEXT_MAX = 128 * 1024       # characters of one text
PLAIN_MAX = 8 * 1024        # the same of text/plain, which is cut there
JSON_MAX = 384 * 1024       # the same of JSON
JSON_DEPTH, JSON_ITEMS = 32, 50_000
SECOND_MAX = 64 * 1024      # bytes of a JPEG that accompanies a PNG
NOTES_MAX = 20              # lines of a run on stderr from note()
TYPES_MAX = 16              # MIME types of a bundle
MIME_MAX = 100              # characters of a MIME type
INPUT_MAX = 32 * 1024 * 1024    # bytes of a picture that is read
SHOWN_BYTES = 300_000       # bytes of a picture; a larger one is scaled down
SHOWN_EDGE = 1600           # the same in pixels
LEAST_EDGE = 400            # no picture is scaled below this many pixels
ROUNDS = 3                  # attempts to scale a picture down
HELP = "save it to a file in /mnt/data instead"

PNG, JPEG, PLAIN = "image/png", "image/jpeg", "text/plain"
TABLE = "text/vnd.constrictor.table"    # a table as compact text for models
SCRIPT = "application/javascript"
METHODS = {
    "_repr_png_": PNG, "_repr_jpeg_": JPEG, "_repr_svg_": "image/svg+xml",
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_latex_": "text/latex",
    "_repr_json_": "application/json", "_repr_javascript_": SCRIPT, "_repr_pdf_": "application/pdf",
}
CANARY = "_ipython_canary_method_should_not_exist_"     # an object with it has every attribute
BUNDLE, BY_ITSELF = "_repr_mimebundle_", "_ipython_display_"
# Our other modules, and the libraries for which they are needed: ADOPT has a function for each library.
OTHERS = ("charts", "figures", "plotly_charts", "tables", "network", "policy", "scope", "advice",
          "statements", "visitor", "walk", "check", "lint", "guard", "restricted", "policed",
          "readonly", "transform", "wheels", "fresh", "origins", "pip_here", "env_vars", "stdin", "machine")
# These are imported in a box when code needs them, never ahead.
LATE = "notebook", "shell", "magics", "timing", "lookup", "look", "marks", "snapshot", "packages", "formats", "ipython", "seeding"
LIBRARIES = {
    "matplotlib.pyplot": "figures", "plotly.io._renderers": "figures", "pandas": "figures",
    "IPython.core.display_functions": "figures",
    "IPython.core.getipython": "figures", "PIL.ImageShow": "figures", "socket": "network",
    "asyncio.selector_events": "network", "anyio._core._sockets": "network",
    "trio._highlevel_open_tcp_stream": "network", "ssl": "network", "pip": "pip_here", "inspect": "origins",
    "multiprocessing.spawn": "origins", "joblib.externals.loky.backend.spawn": "origins",
    "loky.backend.spawn": "origins", "numba.core.caching": "origins",
    "psutil._pslinux": "machine", "joblib.externals.loky.backend.context": "machine", "loky.backend.context": "machine",
}
PROC = b"/proc/", b'/proc"', b"/proc'"     # in the text of a run that may read files of machine.py
FOLDER = __file__.rpartition("/")[0]
SUBTYPE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+-")


class Shown:
    """What this run has shown so far."""
    items = ()              # JSON texts, as bytes
    originals = ()          # (number of its item, MIME type, base64) of pictures made smaller
    omitted = 0
    room = ROOM
    figures = ()            # the figures among the items
    ids = {}                # display_id -> number of its item
    notes = 0
    lacks_font = False      # a note on missing fonts was written
    clear = False           # clear_output(wait=True): all of it goes when something new comes
    value = None            # number of the item that is the value of the last expression


Shown = Shown()


def note(text):
    """Prints on stderr what the value's own code did wrong, or what did not fit."""
    Shown.notes += 1
    Box.shown = True        # so that extend() is called
    if Shown.notes > NOTES_MAX:
        return
    try:
        last = " (no more of these)" if Shown.notes == NOTES_MAX else ""
        sys.stderr.write(f"display: {clip(text, LINE_MAX)}{last}\n")
    except Exception:
        pass


# ---- Our other modules --------------------------------------------------------------------------

Own = {name: modules[name] for name in ("_constrictor", "base", "report", __name__, "source", "variables")
       if name in modules}


def own(name):
    """One of our modules. A warm zygote has imported all; after a cold start each is imported on demand. None
    stays in sys.modules, where user code may want its name."""
    if name not in Own:
        hidden = {key: modules.pop(key) for key in (*Own, *OTHERS, *LATE) if key in modules}
        # The interpreter's own folders come after ours: our modules import from them, for instance math,
        # which is a file in an interpreter built by pyenv.
        path, sys.path = sys.path, [FOLDER, *(Box.path or sys.path)]
        modules.update(Own)
        try:
            __import__(name)
        finally:
            Own.update({key: modules.pop(key) for key in (*Own, *OTHERS, *LATE) if key in modules})
            modules.update(hidden)
            sys.path = path
    return Own[name]


def adopt(name):
    try:
        own(LIBRARIES[name]).ADOPT[name](modules[name])
    except Exception:
        pass                # an unknown version: leave it as it is


def look_for_proc(source):
    """Lets code that names /proc read there what the kernel does not show a box."""
    try:
        if any([word in source for word in PROC]):
            own("machine").adopt_files()
    except Exception:
        pass                # no memory, or code has replaced what it needs


def getloadavg():
    return own("machine").getloadavg()


class Adopter:
    """A finder that adopts a library after the other finders have loaded it."""
    busy = None

    def find_spec(self, name, path=None, target=None):
        if name not in LIBRARIES or name == self.busy:
            return None
        self.busy = name
        try:
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    execute = spec.loader.exec_module
                    spec.loader.exec_module = lambda module: (execute(module), adopt(name))
                    return spec
        finally:
            self.busy = None
        return None


class StandIn:
    """The last finder: has modules of IPython where it is not installed."""
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "IPython" and not name.startswith("IPython."):
            return None
        return own("ipython").spec_of(name)


def install():
    """Called in the zygote, after the preloads."""
    builtins.display, builtins.get_ipython = display, get_ipython
    os.getloadavg = getloadavg          # of the box; the kernel's is of the whole machine
    for name in LIBRARIES:
        if name in modules:
            adopt(name)
    sys.meta_path.insert(0, Adopter())
    sys.meta_path.append(StandIn)


def prepare():
    """For a warm zygote: imports what a box would otherwise import."""
    for name in OTHERS:
        if name != "transform" or "RestrictedPython" in modules:
            own(name)
    own("policed").practise()


# ---- Pictures -----------------------------------------------------------------------------------

class Drawn(tuple):
    """(what to show, the original or None) of a picture that we made."""


def size_of(data):
    """Width and height of a PNG or JPEG; None for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data[:3] != b"\xff\xd8\xff":
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return (int.from_bytes(data[at + 7:at + 9], "big"),
                    int.from_bytes(data[at + 5:at + 7], "big"))
        at += 1 if kind == 0xFF else 2 + int.from_bytes(data[at + 2:at + 4], "big")
    return None


def next_edge(edge, size):
    """The next length of the longer side, after `edge` pixels gave `size` bytes."""
    return max(LEAST_EDGE, int(edge * max(0.4, 0.95 * (SHOWN_BYTES / size) ** 0.5)))


def shrink(data, mime, edge):
    """A smaller copy, or None without PIL."""
    try:
        image = need("PIL.Image", "Image").open(BytesIO(data))
        for _ in range(ROUNDS):
            image.thumbnail((edge, edge))
            out = BytesIO()
            image.save(out, "PNG" if mime == PNG else "JPEG")
            smaller = out.getvalue()
            if len(smaller) <= SHOWN_BYTES or edge <= LEAST_EDGE:
                break
            edge = next_edge(edge, len(smaller))
        return smaller
    except Exception:
        return None


def picture_of(data, mime):
    """(what to show, the original or None) of a method's result; None if it is not a picture."""
    if isinstance(data, str):           # base64 already
        if str.__len__(data) > INPUT_MAX:
            raise ValueError("too large")
        data = need("binascii", "a2b_base64")(str.__str__(data))
    if not isinstance(data, (bytes, bytearray)):
        return None
    kind = bytes if isinstance(data, bytes) else bytearray
    if kind.__len__(data) > INPUT_MAX:
        raise ValueError("too large")
    data = bytes(memoryview(data)) if type(data) is not bytes else data
    size = size_of(data)
    if size is None or (data[:1] == b"\x89") != (mime == PNG):
        return None
    edge = min(max(size), SHOWN_EDGE)
    if len(data) <= SHOWN_BYTES and max(size) == edge:
        return data, None
    if len(data) > SHOWN_BYTES and max(size) == edge:
        edge = min(edge, next_edge(edge, len(data)))
    smaller = shrink(data, mime, edge) if max(size) > LEAST_EDGE else None
    return (smaller, data) if smaller is not None and len(smaller) < len(data) else (data, None)


# ---- Figures ------------------------------------------------------------------------------------

def is_figure(value):
    module = modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def is_plotly(value):
    module = modules.get("plotly.basedatatypes")
    return module is not None and isinstance(value, module.BaseFigure)


def is_animation(value):
    module = modules.get("matplotlib.animation")
    return module is not None and isinstance(value, module.Animation)


def end_of_run():
    """Called by the runner when pyplot is imported."""
    try:
        own("figures").show_figures()
    except BaseException:
        pass                # the run is over
    Shown.figures = ()


# ---- Bundles ------------------------------------------------------------------------------------

def is_mime(text):
    if not isinstance(text, str) or not 3 <= str.__len__(text) <= MIME_MAX:
        return False
    kind, _, subtype = str.__str__(text).partition("/")
    return (kind.isascii() and kind.isalpha() and kind.islower() and subtype != "" and
            SUBTYPE.issuperset(subtype))


def name_of(value):
    return clip(type.__getattribute__(type(value), "__name__"), 100)


def has(value, method):
    """Does the value have a method: of its class, its own, or by delegation?"""
    kind = type(value)
    if getattr(kind, method, None) is not None:
        return True
    if isinstance(value, type):
        return False
    if getattr(kind, "__getattr__", None) is None:
        return method in getattr(value, "__dict__", ())
    return callable(getattr(value, method, None)) and getattr(value, CANARY, None) is None


def ask(value, method, **arguments):
    """The result of a method of the value, without metadata, or None."""
    try:
        if not has(value, method):
            return None
        given = getattr(value, method)(**arguments)
        return given[0] if type(given) is tuple and len(given) == 2 else given
    except NotImplementedError:
        return None
    except Exception as exc:
        note(f"{name_of(value)}.{method}() failed: {type_name(exc)}: {message_of(exc)}")
        return None


def ask_animation(animation):
    """The HTML page of an animation, if the code wants one, with as many frames as fit."""
    rc = modules["matplotlib"].rc_context({"animation.embed_limit": TEXT_MAX * 0.9 / 2**20})
    with rc:
        given = ask(animation, "_repr_html_")
    return {} if given is None else {"text/html": given}


def exact(bundle):
    """A plain copy of a dictionary of any class; empty if it is too large. Not dict.copy(), which calls keys()
    of a subclass."""
    return dict(dict.items(bundle)) if dict.__len__(bundle) <= TYPES_MAX else {}


def bundle_of(value):
    """{MIME type: unchecked result of the value's method}."""
    if Box.formats is not None:
        found = Box.formats(value)
        if found:
            return found
    if is_figure(value):
        return own("figures").bundle_of(value)
    if is_plotly(value):
        return own("figures").bundle_of_plotly(value)
    if is_animation(value):
        return ask_animation(value)
    found, given = {}, ask(value, BUNDLE, include=None, exclude=None)
    if isinstance(given, dict):
        found = exact(given)
    for method, mime in METHODS.items():
        if mime not in found:
            given = ask(value, method)
            if given is not None:
                found[mime] = given
    if "text/html" in found and ("pandas" in modules or "polars" in modules):
        try:
            text = own("tables").text_of(value)
            if text is not None:
                found[TABLE] = text
        except Exception:
            pass            # an odd table: its HTML is left
    return found


def tidy_json(value):
    """The value as JSON, in exact types: NaN and infinity become null."""
    left = JSON_ITEMS

    def walk(value, depth):
        nonlocal left
        left -= 1
        if left < 0 or depth < 0:
            raise ValueError("it is nested too deeply, contains itself, or has too many values")
        if isinstance(value, str):
            return str.__str__(value)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, int):
            value = int.__add__(value, 0)
            return value if -2**63 <= value < 2**63 else float(value)
        if isinstance(value, float):
            value = float.__add__(value, 0.0)
            return value if value - value == 0 else None
        if isinstance(value, dict):
            return {walk(key, 0) if isinstance(key, str) else clip(str(key), MIME_MAX):
                    walk(item, depth - 1) for key, item in dict.items(value)}
        if isinstance(value, (list, tuple)):
            kind = list if isinstance(value, list) else tuple
            return [walk(item, depth - 1) for item in kind.__iter__(value)]
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            return walk(value.item(), 0)        # a number of numpy
        raise ValueError(f"it contains a {name_of(value)}")

    return walk(value, JSON_DEPTH)


def over(length, limit):
    raise ValueError(f"it has {length} characters, at most {limit} are allowed: {HELP}")


def text_of(mime, given):
    """The bounded text of one representation."""
    if mime == "application/json" or mime.endswith("+json") and not isinstance(given, str):
        try:
            return to_json(tidy_json(given), JSON_MAX)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    if not isinstance(given, str):
        raise TypeError(f"it is a {name_of(given)}, not a str")
    limit = JSON_MAX if mime.endswith("+json") else TEXT_MAX
    if mime != PLAIN and str.__len__(given) > limit:
        over(str.__len__(given), limit)
    return clip(given, PLAIN_MAX if mime == PLAIN else limit)


def pair_of(mime, text):
    return b'"%b":"%b"' % (mime.encode(), text)


def pack_picture(mime, given, beside):
    """(list with the picture, original as (MIME type, base64) or None)."""
    picture = given if type(given) is Drawn else picture_of(given, mime)
    if picture is None:
        raise TypeError("it is not a picture of this type")
    encode = need("binascii", "b2a_base64")
    if len(picture[0]) * 4 > ROOM * 3:
        raise ValueError(f"it has {len(picture[0])} bytes: {HELP}")
    if beside and len(picture[0]) > SECOND_MAX:
        return [], None     # there is a better one
    original = None
    if picture[1] is not None and len(picture[1]) * 4 <= ROOM * 3 and not beside:
        original = mime, encode(picture[1], newline=False)
    return [pair_of(mime, encode(picture[0], newline=False))], original


def pack(bundle, name):
    """(pairs of JSON texts, original of the picture) of a bundle. Invalid parts are left out with a note; None
    if all parts are invalid."""
    pairs, original, refused = [], None, False
    for mime, given in bundle.items():
        try:
            if not is_mime(mime):
                continue
            mime = str.__str__(mime)
            if given is None:
                continue
            if mime in (PNG, JPEG):
                found = pack_picture(mime, given, mime == JPEG and PNG in bundle)
                pairs += found[0]
                original = found[1] or original
            elif mime.startswith(("image/", "audio/", "video/", "application/pdf")) and \
                    isinstance(given, (bytes, bytearray)):
                if len(given) * 4 > ROOM * 3:
                    over(len(given), ROOM * 3 // 4)
                pairs.append(pair_of(mime, need("binascii", "b2a_base64")(given, newline=False)))
            else:
                pairs.append(f'"{mime}":{quote(text_of(mime, given))}'.encode())
        except Exception as exc:        # too large, not JSON, not base64, no memory
            refused = True
            note(f"{clip(mime, MIME_MAX)} of {name} is left out: {message_of(exc)}")
    return None if refused and not pairs else (pairs, original)


def is_rich(value):
    return has(value, BUNDLE) or has(value, BY_ITSELF) or is_figure(value) or \
        any([has(value, method) for method in METHODS]) or \
        Box.formats is not None and bool(Box.formats(value))


def plain_of(value):
    try:
        return clip(repr(value), PLAIN_MAX)
    except Exception as exc:
        return f"<repr failed: {type_name(exc)}: {message_of(exc)}>"


def omit():
    Shown.omitted += 1
    Box.shown = True


def forget():
    """Nothing was shown."""
    Shown.items = Shown.originals = Shown.figures = ()
    Shown.omitted, Shown.room, Shown.ids, Shown.clear, Shown.value = 0, ROOM, {}, False, None


def put(item, original, at):
    """Adds an item, or replaces number `at`; returns its number, or None if there is no room."""
    before = len(Shown.items[at]) + 1 if at is not None else 0
    if len(item) + 1 > Shown.room + before:
        omit()
        return None
    Shown.room += before - len(item) - 1
    Box.shown = True
    if at is None:
        at = len(Shown.items)
        Shown.items = *Shown.items, item
    else:
        Shown.items = *Shown.items[:at], item, *Shown.items[at + 1:]
        Shown.originals = tuple([one for one in Shown.originals if one[0] != at])
    if original is not None:
        Shown.originals = *Shown.originals, (at, *original)
    return at


def add(value, with_text, raw=False, at=None, wanted=None):
    """Makes an item of all representations of a value, including its repr if with_text. Returns its number."""
    if Shown.clear:
        forget()
        at = None
    if at is None and (len(Shown.items) >= ITEMS_MAX or Shown.room < LINE_MAX):
        omit()
        return None
    bundle = exact(value) if raw else bundle_of(value)
    figure = not raw and is_figure(value)
    if SCRIPT in bundle:
        note("JavaScript is passed on as text and not run")
    packed = pack(bundle, "the bundle" if raw else name_of(value))
    pairs, original = packed or ([], None)
    if with_text and not raw and not (figure and not pairs) and \
            not any([pair.startswith(b'"text/plain":') for pair in pairs]):
        pairs.append(b'"text/plain":' + quote(plain_of(value)).encode())
    if wanted is not None:
        pairs = [pair for pair in pairs if wanted(pair[1:].partition(b'"')[0].decode())]
    if not pairs:
        if packed is None:
            omit()
        return None
    at = put(b"{%b}" % b",".join(pairs), original, at)
    if figure and at is not None:
        Shown.figures = *Shown.figures, value
    return at


# ---- Functions for user code --------------------------------------------------------------------

class DisplayHandle:
    """A shown value that can be replaced with update(obj)."""
    def __init__(self, display_id=None):
        self.display_id = display_id or need("uuid", "uuid4")().hex

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj, **options):
        """Show a value under this id."""
        display(obj, display_id=self.display_id, **options)

    def update(self, obj, **options):
        """Replace the shown value."""
        update_display(obj, display_id=self.display_id, **options)


def filter_of(include, exclude):
    """The wanted MIME types; None: all."""
    if include is None and exclude is None:
        return None
    include, exclude = (None if names is None else {str(name) for name in names}
                        for names in (include, exclude))
    return lambda mime: (include is None or mime in include) and \
        not (exclude is not None and mime in exclude)


def shows_itself(value):
    """True if the value has shown itself, by the method that notebooks call."""
    try:
        if is_plotly(value) or not has(value, BY_ITSELF):
            return False
        getattr(value, BY_ITSELF)()
        return True
    except NotImplementedError:
        return False
    except Exception as exc:
        note(f"{name_of(value)}.{BY_ITSELF}() failed: {type_name(exc)}: {message_of(exc)}")
        return False


def show(value, raw, wanted, display_id, update):
    """One value of display()."""
    try:
        if not raw and not update and shows_itself(value):
            return
        at = Shown.ids.get(display_id) if update else None
        at = add(value, True, raw, at, wanted)
        if display_id is not None and at is not None:
            Shown.ids[display_id] = at
    except Exception as exc:
        note(f"display() failed: {type_name(exc)}: {message_of(exc)}")


def display(*objs, include=None, exclude=None, metadata=None, transient=None, display_id=None,
            raw=False, clear=False, update=False, **options):
    """Show values as pictures, tables or formulas, whatever they can be; else as text. With
    raw=True they are dictionaries from MIME type to content. With display_id=True, or an id of
    your own, it returns a handle whose update() replaces what was shown."""
    for value in objs:
        if raw and not isinstance(value, dict):
            raise TypeError("display(raw=True) needs dictionaries from MIME type to content")
    if isinstance(transient, dict) and display_id is None:
        display_id = transient.get("display_id")
    handle = None
    if display_id:
        handle = DisplayHandle(None if display_id is True else str(display_id))
    elif update:
        raise TypeError("display_id required for update_display")
    if clear:
        clear_output(wait=True)
    wanted = None if raw else filter_of(include, exclude)
    for value in objs:
        show(value, raw, wanted, handle and handle.display_id, update)
    return handle


def update_display(obj, *, display_id, **options):
    """Replace the value with this id in this run; if there is none, show it as a new one."""
    options["update"] = True
    display(obj, display_id=display_id, **options)


def publish_display_data(data, metadata=None, *, transient=None, update=False, **options):
    """Show a dictionary from MIME type to content."""
    display(data, raw=True, transient=transient, update=update)


def clear_output(wait=False):
    """Remove what this run has shown so far, with wait=True when something new is shown. Printed output
    stays."""
    if wait:
        Shown.clear = True
    else:
        forget()


def get_ipython():
    """The shell of this run: run_line_magic(), system(), user_ns and others of IPython."""
    return own("shell").the_shell()


def show_value(value):
    """Shows the value of the last expression; the result has its repr anyway."""
    try:
        if is_rich(value) and not shows_itself(value):
            Shown.value = add(value, False)
    except Exception as exc:
        note(f"display() failed: {type_name(exc)}: {message_of(exc)}")


# ---- The answer ---------------------------------------------------------------------------------

def extend(payload):
    """Adds what was shown to the payload, as far as it fits, and clears it."""
    items, originals, omitted = list(Shown.items), Shown.originals, Shown.omitted
    room = min(Shown.room, PAYLOAD_MAX - len(payload) - LINE_MAX - sum(map(len, items)))
    value = Shown.value
    forget()
    Shown.notes, Shown.lacks_font, Box.shown = 0, False, False
    while items and room < 0:
        room += len(items.pop()) + 1
        omitted += 1
    full = []               # originals come last, as far as there is room
    for number, mime, data in originals:
        original = b'{"item":%d,"%b":"%b"}' % (number, mime.encode(), data)
        if number < len(items) and len(original) + 1 <= room:
            room -= len(original) + 1
            full.append(original)
    parts = [payload[:-1]]
    for name, values in (b"display", items), (b"display_originals", full):
        if values:
            parts.append(b',"%b":[%b]' % (name, b",".join(values)))
    if omitted:
        parts.append(b',"display_omitted":%d' % min(omitted, 2**31))
    if value is not None and value < len(items):
        parts.append(b',"display_value":%d' % value)
    return b"".join(parts) + b"}"
