# SPDX-License-Identifier: Apache-2.0
"""display: what code shows beside its text: pictures, tables, formulas, as bundles of MIME types.

zygote.py imports this file and calls install(); the rest runs in the user process of a box, among
user code, under the rules of runner.py. A value says itself what it looks like, by the methods that
notebooks call: _repr_png_() and so on. Figures of matplotlib are drawn on plt.show() and at the end
of a run. A library is used when user code has imported it; only to make a picture smaller is PIL
imported for once. Every method may raise, lie, or return a gigabyte: what comes is checked before it
is copied, and what does not fit is counted.
"""

import builtins
import sys
from _io import BytesIO
from sys import modules

from runner import Box, ImportHook, LINE_MAX, PAYLOAD_MAX
from runner import clip, message_of, need, quote, to_json, type_name

__builtins__ = dict(vars(builtins))

ITEMS_MAX = 20              # bundles of a run
ROOM = 1024 * 1024          # bytes of JSON for all of them, and for the originals of pictures
TEXT_MAX = 128 * 1024       # characters of one text
PLAIN_MAX = 8 * 1024        # the same of text/plain, which is cut there
JSON_MAX = 128 * 1024
TYPES_MAX = 16              # MIME types of a bundle
MIME_MAX = 100              # characters of a MIME type
INPUT_MAX = 32 * 1024 * 1024    # bytes of a picture that is looked at
SHOWN_BYTES = 300_000       # of a picture; a larger one is made smaller
SHOWN_EDGE = 1600           # the same in pixels
LEAST_EDGE = 400            # nothing is made smaller than this for the sake of its bytes
ROUNDS = 3                  # how often it is tried
ORIGINAL_PIXELS = 8_000_000 # a figure with more is not drawn in full size
OVERHANG = 0.02             # inches that a label may stick out of a figure
MARGIN = 0.1                # inches around a label that sticks out further
PYPLOT = "matplotlib.pyplot"

PNG, JPEG, PLAIN = "image/png", "image/jpeg", "text/plain"
METHODS = {
    "_repr_png_": PNG, "_repr_jpeg_": JPEG, "_repr_svg_": "image/svg+xml",
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}
BUNDLE = "_repr_mimebundle_"
SUBTYPE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+-")


class Shown:
    """What this run has shown so far."""
    items = ()              # JSON texts, as bytes
    originals = ()          # (number of its item, MIME type, base64) of pictures made smaller
    omitted = 0
    room = ROOM
    figures = ()            # the figures among the items


Shown = Shown()


def note(text):
    """For what the value's own code did wrong: said on stderr, and nothing else comes of it."""
    try:
        sys.stderr.write(f"display: {clip(text, LINE_MAX)}\n")
    except Exception:
        pass


# ---- Pictures -----------------------------------------------------------------------------------

class Drawn(tuple):
    """(what to show, the original or None): a picture that we made ourselves."""


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
    """How long the longer side may be, after a try with `edge` pixels gave `size` bytes."""
    return max(LEAST_EDGE, int(edge * max(0.4, 0.95 * (SHOWN_BYTES / size) ** 0.5)))


def shrink(data, mime, edge):
    """A smaller copy, or None when there is no PIL to make it."""
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
    """(what to show, the original or None) of what a method returned; None: it is no picture."""
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


# ---- Figures of matplotlib ----------------------------------------------------------------------

def is_figure(value):
    module = modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def draw(figure, dpi, outline=None):
    out = BytesIO()
    figure.savefig(out, format="png", dpi=dpi, bbox_inches=outline)
    return out.getvalue()


def outline_of(figure):
    """What to draw when labels stick out of the figure, which else would be cut off; or None."""
    try:
        box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        sides = -box.x0, -box.y0, box.x1 - width, box.y1 - height
        if not OVERHANG < max(sides) < 2 * max(width, height):
            return None
        left, below, right, above = [side + MARGIN if side > OVERHANG else 0 for side in sides]
        return modules["matplotlib.transforms"].Bbox.from_extents(
            -left, -below, width + right, height + above)
    except Exception:
        return None         # before matplotlib 3.6


def draw_figure(figure):
    """(what to show, the original or None), as picture_of(); None: there is nothing in it."""
    if len(figure.get_children()) < 2:  # its background
        return None
    full = figure.dpi
    size = figure.get_size_inches()
    dpi = min(full, SHOWN_EDGE / max(size))
    data = draw(figure, dpi)
    outline = outline_of(figure)
    if outline is not None:
        size = outline.width, outline.height
        dpi = min(full, SHOWN_EDGE / max(size))
        data = draw(figure, dpi, outline)
    original, inches = data if dpi == full else None, max(size)
    for _ in range(ROUNDS):
        if len(data) <= SHOWN_BYTES or dpi * inches <= LEAST_EDGE:
            break
        dpi = next_edge(dpi * inches, len(data)) / inches
        data = draw(figure, dpi, outline)
    if dpi == full:
        original = None
    elif original is None and size[0] * size[1] * full ** 2 <= ORIGINAL_PIXELS:
        original = draw(figure, full, outline)
    figure.stale = False    # tells whether it is changed from now on
    return Drawn((data, original))


def show_figures(keep_open=False):
    """Every open figure that was not shown as it is now; then they are closed."""
    managers = modules["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()
    try:
        for manager in managers:
            figure = manager.canvas.figure
            if not any([figure is other for other in Shown.figures]) or figure.stale:
                add(figure, True)
    finally:
        if managers and not keep_open:
            modules[PYPLOT].close("all")


def show(*args, block=None, **kwargs):
    """Display all open figures."""
    try:
        show_figures(keep_open=block is False)
    except Exception as exc:
        note(f"plt.show() failed: {type_name(exc)}: {message_of(exc)}")


def end_of_run():
    """Called by the runner when pyplot is there."""
    try:
        show_figures()
    except BaseException:
        pass                # the run is over, whatever this was
    Shown.figures = ()


# ---- Bundles ------------------------------------------------------------------------------------

def is_mime(text):
    if not isinstance(text, str) or not 3 <= str.__len__(text) <= MIME_MAX:
        return False
    kind, _, subtype = str.__str__(text).partition("/")
    return (kind.isascii() and kind.isalpha() and kind.islower() and subtype != "" and
            SUBTYPE.issuperset(subtype))


def ask(value, method, **arguments):
    """What a method of the value's class returns, without metadata; None: nothing."""
    try:
        if getattr(type(value), method, None) is None:
            return None
        given = getattr(value, method)(**arguments)
        return given[0] if type(given) is tuple and len(given) == 2 else given
    except NotImplementedError:
        return None
    except Exception as exc:
        note(f"{type(value).__name__}.{method}() failed: {type_name(exc)}: {message_of(exc)}")
        return None


def bundle_of(value):
    """MIME type -> what the value's methods returned for it, none of it checked."""
    if is_figure(value):
        picture = draw_figure(value)
        return {} if picture is None else {PNG: picture}
    found, given = {}, ask(value, BUNDLE, include=None, exclude=None)
    if isinstance(given, dict):
        found = dict(given) if dict.__len__(given) <= TYPES_MAX else {}
    for method, mime in METHODS.items():
        if mime not in found and not (mime == JPEG and PNG in found):
            given = ask(value, method)
            if given is not None:
                found[mime] = given
    return found


def text_of(mime, given):
    """The text of one representation within its bound; None for what is none."""
    if mime == "application/json" or mime.endswith("+json") and not isinstance(given, str):
        return to_json(given, JSON_MAX) if type(given) in (dict, list) else None
    if not isinstance(given, str):
        return None
    if str.__len__(given) > (TEXT_MAX if mime != PLAIN else INPUT_MAX):
        raise ValueError("too large")
    return clip(given, TEXT_MAX if mime != PLAIN else PLAIN_MAX)


def pack(bundle):
    """The bundle as pairs of JSON texts, and the original of its picture; what is wrong is left
    out. None: there was something, and all of it was too large."""
    pairs, original, refused = [], None, False
    for mime, given in bundle.items():
        try:
            if not is_mime(mime):
                continue
            mime = str.__str__(mime)
            if mime in (PNG, JPEG):
                picture = given if type(given) is Drawn else picture_of(given, mime)
                if picture is not None:
                    encode = need("binascii", "b2a_base64")
                    if len(picture[0]) * 4 > ROOM * 3:
                        raise ValueError("too large")
                    pairs.append(b'"%b":"%b"' % (mime.encode(),
                                                 encode(picture[0], newline=False)))
                    if picture[1] is not None and len(picture[1]) * 4 <= ROOM * 3:
                        original = mime, encode(picture[1], newline=False)
            else:
                text = text_of(mime, given)
                if text is not None:
                    pairs.append(f'"{mime}":{quote(text)}'.encode())
        except Exception:   # too large, not JSON, no base64, no memory
            refused = True
    return None if refused and not pairs else (pairs, original)


def is_rich(value):
    kind = type(value)
    return (getattr(kind, BUNDLE, None) is not None or is_figure(value) or
            any([getattr(kind, method, None) is not None for method in METHODS]))


def plain_of(value):
    try:
        return clip(repr(value), PLAIN_MAX)
    except Exception as exc:
        return f"<repr failed: {type_name(exc)}: {message_of(exc)}>"


def omit():
    Shown.omitted += 1
    Box.shown = True


def add(value, with_text, raw=False):
    """Makes an item of a value: all it can be, with_text its repr as well."""
    if len(Shown.items) >= ITEMS_MAX or Shown.room < LINE_MAX:
        omit()
        return
    packed = pack(value if raw else bundle_of(value))
    pairs, original = packed or ([], None)
    figure = not raw and is_figure(value)
    if with_text and not raw and not (figure and not pairs) and \
            not any([pair.startswith(b'"text/plain":') for pair in pairs]):
        pairs.append(b'"text/plain":' + quote(plain_of(value)).encode())
    item = b"{%b}" % b",".join(pairs)
    if packed is None and not pairs or pairs and len(item) + 1 > Shown.room:
        omit()
        return
    if not pairs:
        return
    Shown.room -= len(item) + 1
    Box.shown = True
    if original is not None:
        Shown.originals = *Shown.originals, (len(Shown.items), *original)
    if figure:
        Shown.figures = *Shown.figures, value
    Shown.items = *Shown.items, item


def display(*objs, raw=False, **options):
    """Show values as pictures, tables or formulas, whatever they can be; else as text. With
    raw=True they are dictionaries from MIME type to content."""
    for value in objs:
        if raw and not isinstance(value, dict):
            raise TypeError("display(raw=True) takes dictionaries from MIME type to content")
        try:
            add(value, True, raw)
        except Exception as exc:
            note(f"display() failed: {type_name(exc)}: {message_of(exc)}")


def show_value(value):
    """For the value of the last expression, whose repr is in the result anyway."""
    try:
        if is_rich(value):
            add(value, False)
    except Exception as exc:
        note(f"display() failed: {type_name(exc)}: {message_of(exc)}")


# ---- The answer ---------------------------------------------------------------------------------

def extend(payload):
    """The payload with what was shown, as far as it fits; the next run begins with nothing."""
    items, originals, omitted = list(Shown.items), Shown.originals, Shown.omitted
    room = min(Shown.room, PAYLOAD_MAX - len(payload) - LINE_MAX - sum(map(len, items)))
    Shown.items = Shown.originals = Shown.figures = ()
    Shown.omitted, Shown.room, Box.shown = 0, ROOM, False
    while items and room < 0:
        room += len(items.pop()) + 1
        omitted += 1
    full = []               # they come last, and only into the room that is left
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
    return b"".join(parts) + b"}"


def adopt(pyplot):
    pyplot.show, Box.pyplot = show, True


def install():
    """In the zygote, after the preloads."""
    builtins.display = display
    if PYPLOT in modules:
        adopt(modules[PYPLOT])
    else:
        sys.meta_path.insert(0, ImportHook(PYPLOT, adopt))
