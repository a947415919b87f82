# SPDX-License-Identifier: Apache-2.0
"""ipython: the modules of IPython that code imports out of habit, where IPython is not installed.

display.py asks it for a module when no other finder has one. IPython.display has the classes that carry
HTML, pictures and others; IPython.core.magic has the decorators for own commands; the rest are names that
libraries look for. What is not there raises ImportError, as any missing name of a module does.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
import display as core
from base import Box, clip, need

VERSION = 9, 0, 0, ""
FETCH_MAX = 32 * 1024 * 1024        # bytes of a file that a display object reads
KINDS = "line", "cell", "line_cell"


# ---- IPython.display ----------------------------------------------------------------------------

def bytes_of(where):
    """The contents of a file or of an address."""
    if isinstance(where, str) and where.startswith(("http://", "https://")):
        opened = need("urllib.request", "request").urlopen(where)
    else:
        opened = open(where, "rb")
    with opened as file:
        data = file.read(FETCH_MAX + 1)
    if len(data) > FETCH_MAX:
        raise ValueError(f"{clip(str(where), 60)} has more than {FETCH_MAX >> 20} MiB")
    return data


def is_path(data):
    """Is it the name of a file or an address, instead of contents?"""
    if hasattr(data, "__fspath__"):
        return True
    if not isinstance(data, str) or len(data) > 1000 or "\n" in data or "<" in data:
        return False
    return data.startswith(("http://", "https://")) or need("os.path", "path").isfile(data)


class DisplayObject:
    """Something to show, by its data, the file with it or its address."""
    _mime, _is_text, metadata = "text/plain", True, None

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if data is not None and url is None and filename is None and is_path(data):
            url, filename, data = (data, None, None) if str(data)[:4] == "http" else (None, data, None)
        self.data, self.url, self.filename = data, url, filename and str(filename)
        self.metadata = metadata or {}
        if data is None:
            self.reload()

    def reload(self):
        """Read the data from the file or address."""
        if self.filename is not None or self.url is not None:
            data = bytes_of(self.filename or self.url)
            self.data = data.decode("utf-8", "replace") if self._is_text else data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self._mime: self.data, "text/plain": repr(self)}

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


class TextDisplayObject(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if data is not None and not isinstance(data, (str, bytes)) and not hasattr(data, "__fspath__"):
            raise TypeError(f"{type(self).__name__} expects text, not {type(data)!r}")
        super().__init__(data, url, filename, metadata)


class HTML(TextDisplayObject):
    """A page, or a part of one."""
    _mime = "text/html"

    def _repr_html_(self):
        return self.data

    __html__ = _repr_html_


class Markdown(TextDisplayObject):
    """Text with the marks of Markdown."""
    _mime = "text/markdown"

    def _repr_markdown_(self):
        return self.data


class Latex(TextDisplayObject):
    """A formula."""
    _mime = "text/latex"

    def _repr_latex_(self):
        return self.data


class Math(Latex):
    """A formula without its dollar signs."""
    def _repr_latex_(self):
        return f"$\\displaystyle {self.data.strip('$')}$"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/latex": self._repr_latex_(), "text/plain": repr(self)}


class Pretty(TextDisplayObject):
    """Plain text."""
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.data}


class SVG(DisplayObject):
    """A drawing."""
    _mime = "image/svg+xml"

    def _repr_svg_(self):
        return self.data


class Javascript(TextDisplayObject):
    """A program for browsers; it is passed on and not run."""
    _mime = "application/javascript"

    def __init__(self, data=None, url=None, filename=None, lib=None, css=None):
        super().__init__(data, url, filename)

    def _repr_javascript_(self):
        return self.data


class JSON(DisplayObject):
    """A value of lists and dictionaries, or its text."""
    _mime = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root",
                 **more):
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, (str, bytes)):
            self.data = need("json", "loads")(self.data)

    def _repr_json_(self):
        return self.data


class GeoJSON(JSON):
    """The same for maps."""
    _mime = "application/geo+json"


class Code(TextDisplayObject):
    """The source of a program."""
    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)
        self.language = language or "python"

    def _repr_mimebundle_(self, include=None, exclude=None):
        escape = need("html", "escape")
        return {"text/html": f"<pre><code>{escape(self.data)}</code></pre>", "text/plain": self.data}

    def __repr__(self):
        return str(self.data)


class Image(DisplayObject):
    """A picture, by its bytes, the file with it or its address."""
    _is_text = False

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None,
                 height=None, retina=False, unconfined=False, metadata=None, alt=None):
        given = url or (data if isinstance(data, str) and data.startswith("http") else None)
        self.width, self.height, self.alt, self.embed = width, height, alt, embed
        if given is not None and not embed:     # an address is shown by the reader's browser
            self.data, self.url, self.filename, self.format, self.metadata = None, given, None, "url", {}
            return
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, str):
            raise FileNotFoundError(f"No such file or directory: '{clip(self.data, 200)}'")
        self.format = (format or self._kind()).lower().replace("jpg", "jpeg")

    def _kind(self):
        data = self.data or b""
        return "png" if data[:4] == b"\x89PNG" else "jpeg" if data[:2] == b"\xff\xd8" else \
            "gif" if data[:3] == b"GIF" else "webp" if data[8:12] == b"WEBP" else "png"

    def _size(self):
        return "".join([f' {name}="{int(value)}"' for name, value in
                        (("width", self.width), ("height", self.height)) if value is not None])

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            escape = need("html", "escape")
            return {"text/html": f'<img src="{escape(str(self.url))}"{self._size()}/>',
                    "text/plain": repr(self)}
        return {f"image/{self.format}": self.data, "text/plain": repr(self)}


class Video(DisplayObject):
    """A film, by its bytes, the file with it or its address."""
    _is_text, _tag = False, "video"

    def __init__(self, data=None, url=None, filename=None, embed=False, mimetype=None, width=None,
                 height=None, html_attributes="controls"):
        if isinstance(data, str) and url is None:
            url, data = data, None
        self.data, self.url, self.filename, self.metadata = data, url, filename, {}
        if filename is not None or url is not None and (embed or not str(url).startswith("http")):
            self.data = bytes_of(filename or url)
        self.mimetype = mimetype or f"{self._tag}/{'mp4' if self._tag == 'video' else 'wav'}"
        self.attributes = html_attributes

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is not None:
            return {self.mimetype: bytes(self.data), "text/plain": repr(self)}
        source = need("html", "escape")(str(self.url))
        return {"text/html": f'<{self._tag} {self.attributes} src="{source}"></{self._tag}>',
                "text/plain": repr(self)}


class Audio(Video):
    """Sound, by its bytes, the file with it, its address, or numbers and a rate."""
    _tag = "audio"

    def __init__(self, data=None, filename=None, url=None, embed=None, rate=None, autoplay=False,
                 normalize=True, element_id=None):
        if data is not None and not isinstance(data, (str, bytes)):
            if rate is None:
                raise ValueError("rate must be specified when data is a numpy array or list of audio samples.")
            data = wave_of(data, int(rate), normalize)
        super().__init__(data, url, filename, bool(embed), "audio/wav" if rate else None)


def wave_of(samples, rate, normalize):
    """The bytes of a WAV file."""
    if getattr(samples, "ndim", 1) == 2:        # channels, times
        channels, samples = len(samples), samples.T.reshape(-1)
    else:
        channels = 1
    values = [float(value) for value in samples]
    most = max([abs(value) for value in values] or [0.0]) if normalize else 1.0
    scale = 32767 / most if most else 0.0
    out = need("io", "BytesIO")()
    with need("wave", "open")(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(need("array", "array")("h", [int(max(-1.0, min(1.0, value / most)) * 32767)
                                                      if most else int(scale) for value in values]).tobytes())
    return out.getvalue()


class IFrame:
    """Another page within a page."""
    def __init__(self, src, width, height, extras=None, **params):
        self.src, self.width, self.height, self.params = src, width, height, params

    def _repr_html_(self):
        query = "?" + need("urllib.parse", "parse").urlencode(self.params) if self.params else ""
        source = need("html", "escape")(str(self.src) + query)
        return f'<iframe width="{self.width}" height="{self.height}" src="{source}" frameborder="0"></iframe>'


class YouTubeVideo(IFrame):
    def __init__(self, id, width=400, height=300, **params):
        self.id = id
        super().__init__(f"https://www.youtube.com/embed/{id}", width, height, **params)


class FileLink:
    """The name of a file; the result of the run has its link."""
    def __init__(self, path, url_prefix="", result_html_prefix="", result_html_suffix="<br>"):
        self.path = str(path)

    def __repr__(self):
        return self.path


class FileLinks(FileLink):
    """The files of a folder."""
    def __init__(self, path, url_prefix="", recursive=True, **more):
        super().__init__(path)

    def __repr__(self):
        return "\n".join([f"{folder}/{name}" for folder, _, names in need("os", "walk")(self.path)
                          for name in sorted(names)][:1000])


class ProgressBar:
    """A bar that grows as it is iterated over."""
    def __init__(self, total):
        self.total, self._progress = total, 0

    progress = property(lambda self: self._progress,
                        lambda self, value: setattr(self, "_progress", value))

    def __repr__(self):
        done = int(60 * self._progress / self.total) if self.total else 0
        return f"[{'=' * done:60}] {self._progress}/{self.total}"

    def display(self):
        core.display(self, display_id=str(id(self)))

    def update(self):
        core.update_display(self, display_id=str(id(self)))

    def __iter__(self):
        self.display()
        for self._progress in range(self.total):
            self.update()
            yield self._progress


def shown_by(kind):
    def show(*objects, raw=False, metadata=None, **options):
        for value in objects:
            core.display(kind(value) if raw or isinstance(value, str) else value, **options)
    return show


def set_matplotlib_formats(*formats, **options):
    """Figures are shown as PNG."""


def display_names():
    found = {kind.__name__: kind for kind in (
        DisplayObject, TextDisplayObject, HTML, Markdown, Latex, Math, Pretty, SVG, Javascript, JSON, GeoJSON,
        Code, Image, Video, Audio, IFrame, YouTubeVideo, FileLink, FileLinks, ProgressBar)}
    found.update({name: getattr(core, name) for name in (
        "display", "update_display", "clear_output", "publish_display_data", "DisplayHandle")})
    found.update({f"display_{name}": shown_by(kind) for name, kind in (
        ("html", HTML), ("markdown", Markdown), ("svg", SVG), ("latex", Latex), ("json", JSON),
        ("javascript", Javascript), ("pretty", Pretty), ("png", Image), ("jpeg", Image))})
    found.update({"set_matplotlib_formats": set_matplotlib_formats,
                  "set_matplotlib_close": set_matplotlib_formats})
    for value in found.values():
        if isinstance(value, type) and value is not core.DisplayHandle:
            value.__module__ = "IPython.core.display"
    return found


# ---- IPython.core.magic -------------------------------------------------------------------------

def marking(kind):
    """A decorator for a function, or with a name, that makes it a command."""
    def register(given):
        if callable(given):
            core.get_ipython().register_magic_function(given, kind)
            return given

        def mark(function):
            core.get_ipython().register_magic_function(function, kind, given)
            return function
        return mark
    return register


def method_marking(kind):
    """The same for the methods of a class of commands."""
    def mark(given):
        def note(function, name):
            known = list(getattr(function, "_commands", ()))
            function._commands = [*known, (kind, name)]
            return function
        return note(given, given.__name__) if callable(given) else lambda function: note(function, given)
    return mark


class Magics:
    """A class of commands; methods are marked with line_magic and others."""
    def __init__(self, shell=None, **more):
        self.shell = shell or core.get_ipython()
        self.magics = {"line": {}, "cell": {}}
        for name in dir(type(self)):
            for kind, command in getattr(getattr(type(self), name), "_commands", ()):
                for one in ("line", "cell") if kind == "line_cell" else (kind,):
                    self.magics[one][command] = name


def needs_local_scope(function):
    function.needs_local_scope = True
    return function


def no_var_expand(function):
    function._ipython_magic_no_var_expand = True
    return function


def magic_names():
    found = {"Magics": Magics, "magics_class": lambda kind: kind, "needs_local_scope": needs_local_scope,
             "no_var_expand": no_var_expand, "on_off": lambda flag: ("OFF", "ON")[bool(flag)]}
    for kind in KINDS:
        found[f"register_{kind}_magic"] = marking(kind)
        found[f"{kind}_magic"] = method_marking(kind)
    return found


# ---- The modules --------------------------------------------------------------------------------

def shell_class():
    return core.own("shell").InteractiveShell


def top_names():
    return {"get_ipython": core.get_ipython, "version_info": VERSION, "embed": no_terminal,
            "__version__": ".".join([str(part) for part in VERSION[:3]]), "start_ipython": no_terminal,
            "display": core.display, "InteractiveShell": shell_class()}


def no_terminal(*args, **options):
    """There is no terminal for a shell of its own."""
    raise RuntimeError("there is no terminal here: run the code in a session, get_ipython() is its shell")


MODULES = {
    "IPython": top_names,
    "IPython.display": display_names,
    "IPython.core": dict,
    "IPython.core.display": display_names,
    "IPython.core.display_functions": display_names,
    "IPython.core.getipython": lambda: {"get_ipython": core.get_ipython},
    "IPython.core.interactiveshell": lambda: {"InteractiveShell": shell_class(),
                                              "InteractiveShellABC": shell_class()},
    "IPython.core.magic": magic_names,
    "IPython.core.error": lambda: {"UsageError": core.own("shell").UsageError},
    "IPython.utils": dict,
    "IPython.utils.capture": lambda: {"capture_output": core.own("magics").capture_output,
                                      "CapturedIO": core.own("magics").CapturedIO},
    "IPython.utils.io": lambda: {"capture_output": core.own("magics").capture_output},
    "IPython.paths": lambda: {"get_ipython_dir": lambda: need("os.path", "path").expanduser("~/.ipython")},
}


class Loader:
    """Makes one of these modules."""
    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.__dict__.update(MODULES[module.__name__]())
        module.__doc__ = "A part of IPython, which is not installed, as this server's boxes have it."


def spec_of(name):
    """The spec of a module of IPython; None if there is none here."""
    if name not in MODULES:
        return None
    return need("importlib.machinery", "machinery").ModuleSpec(
        name, Loader, origin="built-in", is_package=name in ("IPython", "IPython.core", "IPython.utils"))
