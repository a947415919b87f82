# SPDX-License-Identifier: Apache-2.0
"""figures: draws figures of matplotlib and plotly, and decides when they are shown.

display.py calls a function of ADOPT after a library is imported, and the others for its objects; all runs
in the user process of a box, or in the zygote for a preloaded library. There is no screen and no
browser: functions that would open a window show the figure in the result instead.
"""

from _io import BytesIO
from math import cos, radians, sin
from sys import modules

from base import __builtins__           # first: functions look builtins up there
import charts
import display as core
from base import Box
from report import message_of, type_name

PNG, CHART = "image/png", "application/vnd.constrictor.chart+json"
PLOTLY = "application/vnd.plotly.v1+json"
PYPLOT, RENDERERS = "matplotlib.pyplot", "plotly.io._renderers"
AGG = "matplotlib.backends.backend_agg"
OVERHANG = 0.02             # inches that a label may stick out of a figure
MARGIN = 0.1                # inches around a label that sticks out further
ORIGINAL_PIXELS = 8_000_000 # a figure with more is not drawn in full size
POINTS_MAX = 200_000        # values of a figure of plotly that is passed on
PAGE_MAX = 64 * 1024        # characters of its page
PREVIEW_SECONDS = 8         # time for a browser to draw a figure
# Backends that open windows or belong to notebooks; ours replaces them.
WINDOWED = frozenset("""
    gtk3agg gtk3cairo gtk4agg gtk4cairo macosx nbagg notebook qtagg qtcairo qt5agg qt5cairo qt4agg
    tkagg tkcairo webagg wx wxagg wxcairo inline ipympl widget auto
    module://matplotlib_inline.backend_inline module://ipykernel.pylab.backend_inline
    module://ipympl.backend_nbagg
""".split())
# For Chinese, Japanese, Korean and pictographs, as Debian has them, the better ones first.
FALLBACKS = ("Noto Sans CJK JP", "Noto Sans JP", "WenQuanYi Zen Hei", "Droid Sans Fallback", "IPAGothic", "Noto Emoji", "Symbola")
BROWSERS = "google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome"


class Known:
    """What this box knows."""
    preview = True          # a browser may be able to draw


Known = Known()


# ---- Drawing ------------------------------------------------------------------------------------

def draw(figure, dpi, outline=None):
    out = BytesIO()
    figure.savefig(out, format="png", dpi=dpi, bbox_inches=outline)
    return out.getvalue()


def sticks_out(renderer, gc, x, y, text, prop, angle, ismath=False, *_args, **_more):
    """Does a text extend beyond the picture? Fastest for texts far from the border, which most are."""
    width, height, over = renderer.width, renderer.height, OVERHANG * renderer.dpi
    reach = (len(text) + 1) * prop.get_size_in_points() * renderer.dpi / 72
    if reach < x < width - reach and reach < y < height - reach:
        return False
    if not text.strip() or gc.get_clip_rectangle() is not None:
        return False
    wide, high, below = renderer.get_text_width_height_descent(text, prop, ismath)
    along, across = cos(radians(angle)), sin(radians(angle))
    for right, up in (0, -below), (wide, -below), (0, high - below), (wide, high - below):
        at_x, at_y = x + right * along - up * across, y - right * across - up * along
        if not (-over <= at_x <= width + over and -over <= at_y <= height + over):
            return True
    return False


def draw_watched(figure, dpi):
    """(picture, whether a label was cut off). Asking the figure for its extent later would take a third of
    the drawing time."""
    renderer = __import__(AGG, fromlist=["RendererAgg"]).RendererAgg
    draw_text, cut = renderer.draw_text, []

    def watch(self, gc, *args, **kwargs):
        try:
            if not cut and sticks_out(self, gc, *args, **kwargs):
                cut.append(True)
        except Exception:
            pass
        return draw_text(self, gc, *args, **kwargs)

    renderer.draw_text = watch
    try:
        return draw(figure, dpi), bool(cut)
    finally:
        renderer.draw_text = draw_text


def outline_of(figure):
    """The area to draw if labels stick out of the figure; else None."""
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


def add_fonts(matplotlib):
    """Lets text fall back to the fonts of this machine for what the chosen one lacks; before 3.6 it does not."""
    known = {font.name for font in modules["matplotlib.font_manager"].fontManager.ttflist}
    families = [*matplotlib.rcParams["font.family"]]
    if tuple(map(int, matplotlib.__version__.split(".")[:2])) >= (3, 6):
        matplotlib.rcParams["font.family"] = families + [
            name for name in FALLBACKS if name in known and name not in families]


def tell_missing(signs):
    if not signs or core.Shown.lacks_font:
        return
    core.Shown.lacks_font = True
    text = "".join(dict.fromkeys(signs))[:20]
    core.note(f"no font for {text}: they are drawn as boxes. Where the server runs, install fonts: fonts-noto-cjk or "
              "fonts-droid-fallback, fonts-symbola")


def draw_figure(figure):
    """(what to show, the original or None) of a figure; None if it is empty. matplotlib warns each time it draws a
    character that no font has; this reports it once in a run."""
    if len(figure.get_children()) < 2:  # its background
        return None
    warnings = __import__("warnings")
    missing = []
    with warnings.catch_warnings():
        show_other = warnings.showwarning

        def show(message, *args, **kwargs):
            words = str(message).split(" ", 2)
            if words[0] == "Glyph" and words[1:2] and words[1].isdigit():
                missing.append(chr(int(words[1])))
            else:
                show_other(message, *args, **kwargs)

        warnings.showwarning = show
        warnings.filterwarnings("always", r"Glyph \d+ ")
        drawn = draw_sizes(figure)
    tell_missing(missing)
    return drawn


def draw_sizes(figure):
    full = figure.dpi
    size, outline = figure.get_size_inches(), None
    dpi = min(full, core.SHOWN_EDGE / max(size))
    data, cut = draw_watched(figure, dpi)
    if cut:
        outline = outline_of(figure)
    if outline is not None:
        size = outline.width, outline.height
        dpi = min(full, core.SHOWN_EDGE / max(size))
        data = draw(figure, dpi, outline)
    original, inches = data if dpi == full else None, max(size)
    for _ in range(core.ROUNDS):
        if len(data) <= core.SHOWN_BYTES or dpi * inches <= core.LEAST_EDGE:
            break
        dpi = core.next_edge(dpi * inches, len(data)) / inches
        data = draw(figure, dpi, outline)
    if dpi == full:
        original = None
    elif original is None and size[0] * size[1] * full ** 2 <= ORIGINAL_PIXELS:
        original = draw(figure, full, outline)
    figure.stale = False    # becomes True when the figure changes
    return core.Drawn((data, original))


def chart_of(read, figure):
    """The figure as data, or None: it is shown in any case."""
    try:
        return read(figure)
    except Exception:
        return None


def bundle_of(figure):
    """MIME type -> content of a figure of matplotlib; nothing for an empty one."""
    picture = draw_figure(figure)
    if picture is None:
        return {}
    return {PNG: picture, CHART: chart_of(charts.of_figure, figure)}


# ---- Figures of pyplot --------------------------------------------------------------------------

def show_figures(keep_open=False):
    """Shows every open figure that has changed since it was shown, and closes all."""
    managers = modules["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()
    try:
        for manager in managers:
            figure = manager.canvas.figure
            if not any([figure is other for other in core.Shown.figures]) or figure.stale:
                core.add(figure, True)
    finally:
        if managers and not keep_open:
            modules[PYPLOT].close("all")


def show(*args, block=None, **kwargs):
    """Display all open figures."""
    try:
        show_figures(keep_open=block is False)
    except Exception as exc:
        core.note(f"plt.show() failed: {type_name(exc)}: {message_of(exc)}")


def show_one(self, warn=True):
    """Display the figure."""
    core.display(self)


def pause(interval):
    """Wait. Open figures are shown at the end of the run."""
    core.need("time", "sleep")(interval)


def adopt_pyplot(pyplot):
    """Replaces backends that would open windows."""
    switch = pyplot.switch_backend

    def switch_backend(newbackend):
        """Set the pyplot backend; one that would open windows is replaced by Agg."""
        wanted = newbackend.lower() if isinstance(newbackend, str) else newbackend
        # A sentinel of matplotlib lets it choose the backend.
        return switch("agg" if isinstance(wanted, str) and wanted in WINDOWED else newbackend)

    switch_backend.__wrapped__ = switch
    if not hasattr(switch, "__wrapped__"):      # or the module was loaded a second time
        pyplot.switch_backend = switch_backend
    pyplot.show, pyplot.pause, Box.pyplot = show, pause, True
    modules["matplotlib.figure"].Figure.show = show_one
    charts.watch_boxes(modules["matplotlib.axes"].Axes)
    add_fonts(modules["matplotlib"])


# ---- plotly -------------------------------------------------------------------------------------

def count_points(figure):
    count = 0
    for trace in figure.data:
        for name in "x", "y", "z", "values", "lat", "r":
            if name in trace and trace[name] is not None:
                count += getattr(trace[name], "size", None) or len(trace[name])
    return count


def page_of(figure):
    """An HTML page that draws it, with the library from the address that plotly gives."""
    try:
        page = figure.to_html(full_html=False, include_plotlyjs="cdn", validate=False)
        return page if len(page) <= PAGE_MAX else None
    except Exception:
        return None


def has_browser():
    """Is kaleido installed, with a browser to draw? Old versions bring their own."""
    try:
        found = core.need("importlib.util", "util").find_spec("kaleido")
        if found is None:
            return False
        own = f"{found.submodule_search_locations[0]}/executable"
        return core.need("os.path", "path").isdir(own) or \
            any([core.need("shutil", "which")(name) for name in BROWSERS])
    except Exception:
        return False


def preview_of(figure):
    """A PNG drawn by a browser, or None. In a child process, because a browser may hang."""
    if not Known.preview or not has_browser():
        Known.preview = False
        return None
    os, select = __import__("os"), __import__("select")
    ends, data = os.pipe(), b""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            picture = figure.to_image(format="png")
            with open(ends[1], "wb") as out:
                out.write(picture)
        finally:
            os._exit(0)
    os.close(ends[1])
    now = __import__("time").monotonic
    end = now() + PREVIEW_SECONDS
    try:
        while len(data) <= core.INPUT_MAX:
            ready, _, _ = select.select([ends[0]], [], [], max(0, end - now()))
            piece = os.read(ends[0], 1 << 20) if ready else b""
            if not piece:
                break
            data += piece
    finally:
        os.close(ends[0])
        try:
            os.killpg(child, 9)
        except OSError:
            pass
        try:
            os.kill(child, 9)
        except OSError:
            pass
        os.waitpid(child, 0)
    Known.preview = core.size_of(data) is not None
    return data if Known.preview else None


def bundle_of_plotly(figure):
    """{MIME type: content}; a page draws the JSON, the chart is for models."""
    found, count = {}, count_points(figure)
    if count <= POINTS_MAX:
        found[PLOTLY] = figure.to_json(validate=False)
        found["text/html"] = page_of(figure)
        found[PNG] = preview_of(figure)
    else:
        core.note(f"a figure with {count} values is too large to be passed on; {POINTS_MAX} are "
                  "allowed: plot fewer, or save it with write_html()")
    chart = found[CHART] = chart_of(core.own("plotly_charts").of_plotly, figure)
    found["text/plain"] = f"<plotly Figure with {len(figure.data)} traces>" if chart is None else \
        core.need("json", "loads")(chart)["summary"]
    return {mime: given for mime, given in found.items() if given is not None}


def show_plotly(fig, *args, **kwargs):
    """Show a figure in the result; there is no browser to open it in."""
    if isinstance(fig, dict):
        fig = modules["plotly.graph_objects"].Figure(fig)
    core.display(fig)


def adopt_plotly(renderers):
    renderers.show = show_plotly
    package = modules.get("plotly.io")
    if package is not None and "show" in vars(package):
        package.show = show_plotly


# ---- IPython, pandas, Pillow --------------------------------------------------------------------

def adopt_ipython(functions):
    """Replaces display() and others of IPython, which only print without an IPython shell."""
    names = "display", "update_display", "clear_output", "publish_display_data", "DisplayHandle"
    for module in functions, modules.get("IPython.display"), modules.get("IPython.core.display"):
        for name in names:
            if module is not None and hasattr(module, name):
                setattr(module, name, getattr(core, name))


def adopt_shell(module):
    """Gives IPython's own get_ipython() the shell of this run."""
    module.get_ipython = core.get_ipython
    package = modules.get("IPython")
    if package is not None and "get_ipython" in vars(package):
        package.get_ipython = core.get_ipython


def adopt_pandas(pandas):
    """Sets the width of pandas, which otherwise assumes a terminal of 80 columns and hides the rest."""
    if not pandas.get_option("display.max_columns"):
        pandas.set_option("display.max_columns", 20)


def show_pillow(image, title=None, **options):
    """Show a picture in the result; there is no program to open it with."""
    core.display(image)
    return True


def adopt_pillow(module):
    module.show = show_pillow


ADOPT = {
    PYPLOT: adopt_pyplot, RENDERERS: adopt_plotly, "pandas": adopt_pandas, "PIL.ImageShow": adopt_pillow,
    "IPython.core.display_functions": adopt_ipython, "IPython.core.getipython": adopt_shell,
}
