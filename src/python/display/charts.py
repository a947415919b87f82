# SPDX-License-Identifier: Apache-2.0
"""charts: the content of a matplotlib figure as data, for readers that cannot see the picture.

figures.py calls of_figure() in the user process of a box, after the figure was drawn. This reads the
artists and draws nothing. User code may have changed them, so the caller expects exceptions; numbers
are finite or null, texts and lists are bounded. plotly_charts.py makes the same form from plotly.
"""

from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import clip, to_json

POINTS_MAX = 100            # of a series; more are thinned evenly, keeping the first and the last
POINTS_LEAST = 4
POINTS_ALL = 1500           # of all series together
CELLS_MAX = 400             # of a heat map that is listed in full
SERIES_MAX = 20             # of a pair of axes
AXES_MAX = 16
NAMES_MAX = 60              # categories of an axis, slices of a pie
NOTES_MAX = 12              # annotations of a pair of axes
LABEL_MAX = 120             # characters of a label
SIZE_MAX = 32 * 1024        # bytes of JSON
SUMMARY_MAX = 1200          # characters
SUMMARY_LINES = 14
ARTISTS_MAX = 5000          # of one kind that are read
MIDNIGHT = "T00:00:00"
ASIDE = "band", "errorbar", "hline", "vline"    # kinds that only accompany a chart
HIDDEN = "_"                # first character of labels that matplotlib generates


# ---- Values -------------------------------------------------------------------------------------

def label_of(text):
    """A bounded text, or None."""
    if text is None:
        return None
    return clip(text if isinstance(text, str) else str(text), LABEL_MAX).strip() or None


def name_of(text):
    """The same for the label of a series."""
    text = label_of(text)
    return None if text is None or text.startswith(HIDDEN) else text


def number(value):
    """A number with six digits."""
    value = float(value)
    if value - value != 0:
        return None
    if value == int(value) and -1e15 < value < 1e15:
        return int(value)
    return float("%.6g" % value)


def plain(value):
    """A value of an axis as JSON: number, text, date as ISO text, or null."""
    if isinstance(value, str):
        return clip(value, LABEL_MAX)
    if value is None or value != value:         # NaN and NaT
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return number(value)
    if hasattr(value, "isoformat"):
        text = str(value.isoformat())
    elif type(value).__name__ == "datetime64":
        text = str(value.astype("datetime64[us]")).replace(".000000", "")
    else:
        try:
            return number(value)
        except Exception:
            return clip(str(value), LABEL_MAX)
    text = clip(text, LABEL_MAX)
    return text[:-len(MIDNIGHT)] if text.endswith(MIDNIGHT) else text


def array_of(values):
    """An array of one dimension; masked values are NaN in it."""
    numpy = modules["numpy"]
    if isinstance(values, numpy.ma.MaskedArray):
        values = values.astype(float).filled(numpy.nan)
    values = numpy.asarray(values).reshape(-1)
    if values.dtype.kind == "O":
        try:
            return values.astype(float)
        except Exception:
            pass            # dates, or texts
    return values


def is_numeric(array):
    return array.dtype.kind in "iufb"


def spread_indexes(count, points):
    """The indexes of at most `points` values, evenly spread."""
    if count <= points:
        return range(count)
    return [round(i * (count - 1) / (points - 1)) for i in range(points)]


def thin(array, points, convert=plain):
    """At most `points` values of an array, evenly, as JSON values."""
    return [convert(value) for value in array[list(spread_indexes(len(array), points))].tolist()] \
        if len(array) else []


def dates(array):
    """datetime64 as tolist() gives integers for nanoseconds: coarser ones become datetime."""
    return array.astype("datetime64[us]") if array.dtype.kind == "M" else array


def span(array):
    """Least and greatest finite value, and the last value."""
    if not is_numeric(array) or not len(array):
        return {}
    numpy = modules["numpy"]
    finite = array[numpy.isfinite(array)] if array.dtype.kind == "f" else array
    if not len(finite):
        return {}
    return {"min": number(finite.min()), "max": number(finite.max()), "last": number(array[-1])}


def series_of(kind, label, points, **columns):
    """One series, all columns thinned alike; the span is that of z or y."""
    columns = {name: dates(array_of(values)) for name, values in columns.items()}
    count = min(map(len, columns.values()))
    found = {"type": kind, "label": name_of(label), "n": count}
    for name, values in columns.items():
        found[name] = thin(values[:count], points)
    found.update(span(columns["z" if "z" in columns else "y"][:count]))
    return found


def grid_of(kind, label, values):
    """A heat map or picture: shape and span, and all values if it is small."""
    numpy = modules["numpy"]
    values = numpy.ma.filled(numpy.ma.asarray(values).astype(float), numpy.nan)
    found = {"type": kind, "label": name_of(label), "n": int(values.size),
             "shape": list(values.shape), **span(values.reshape(-1))}
    found.pop("last", None)
    if values.ndim == 2 and values.size <= CELLS_MAX:
        found["z"] = [[number(cell) for cell in row] for row in values.tolist()]
    return found


# ---- Axes of matplotlib -------------------------------------------------------------------------

BOX = "whislo", "q1", "med", "q3", "whishi", "mean"
WORDED = "FixedFormatter", "FuncFormatter"


class Axis:
    """The meaning of the numbers of an axis: categories, dates, or plain numbers."""
    def __init__(self, axis):
        self.axis, self.names, self.is_date = axis, {}, False
        converter = getattr(axis, "_converter", None) or getattr(axis, "converter", None)
        kind = type(converter).__name__
        formatter, locator = axis.get_major_formatter(), axis.get_major_locator()
        if kind == "StrCategoryConverter":
            mapping = getattr(axis.units, "_mapping", None) or {}
            self.names = {number(position): plain(name) for name, position in list(mapping.items())}
        elif hasattr(locator, "locs") and type(formatter).__name__ in WORDED:
            self.names = self.ticks(len(locator.locs))
        self.is_date = "Date" in kind or "Date" in type(formatter).__name__
        self.is_period = hasattr(axis, "freq") and self.is_date      # pandas: counts of a period

    def ticks(self, count):
        """The tick labels, unless they are the plain numbers of the ticks."""
        ticks = [(number(tick.get_loc()), label_of(tick.label1.get_text()))
                 for tick in self.axis.majorTicks[:min(count, NAMES_MAX * 4)]]
        return {position: text for position, text in ticks if text is not None} \
            if any([text is not None and text != str(position) for position, text in ticks]) else {}

    def value(self, value):
        """The meaning of a number on this axis."""
        if isinstance(value, (int, float)) and value == value:
            if self.names:
                return self.names.get(number(value), number(value))
            if self.is_date:
                return self.date(value)
        return plain(value)

    def date(self, value):
        try:
            if self.is_period:
                return plain(str(modules["pandas"].Period(ordinal=int(value), freq=self.axis.freq)))
            moment = modules["matplotlib.dates"].num2date(value).replace(tzinfo=None)
            return plain(moment.replace(microsecond=0))
        except Exception:
            return number(value)

    def near(self, value):
        """The category of a bar in a group of bars."""
        if self.names:
            position = min(self.names, key=lambda other: abs(other - value))
            if abs(position - value) <= 0.5 and self.names[position] is not None:
                return self.names[position]
        return self.value(float(value))

    def describe(self, limits):
        found = {"label": label_of(self.axis.get_label_text()), "scale": self.axis.get_scale()}
        if self.names:
            names = [name for name in self.names.values() if name is not None]
            found.update(scale="category", categories=names[:NAMES_MAX])
            if len(names) > NAMES_MAX:
                found["n"] = len(names)
        elif self.is_date:
            found["scale"] = "date"
            found["range"] = [self.date(float(limit)) for limit in limits]
        else:
            found["range"] = [number(limit) for limit in limits]
        return found


class Reader:
    """Reads one pair of axes into `series`."""
    def __init__(self, axes, points):
        self.axes, self.points, self.series, self.seen = axes, points, [], set()
        self.x, self.y = Axis(axes.xaxis), Axis(axes.yaxis)

    def add(self, found):
        if found["n"]:
            self.series.append(found)

    def skip(self, artists):
        self.seen.update([id(artist) for artist in artists])

    def left(self, artists):
        return [artist for artist in list(artists)[:ARTISTS_MAX]
                if id(artist) not in self.seen and artist.get_visible()]

    def points_of(self, kind, label, x, y, **more):
        """A series of points in the values of the axes."""
        found = series_of(kind, label, self.points, x=x, y=y, **more)
        for name, axis in ("x", self.x), ("y", self.y):
            if axis.names or axis.is_date:
                found[name] = [axis.value(value) for value in found[name]]
        self.add(found)

    # -- one kind of artist each

    def boxes(self):
        rows = []
        for stats, positions, drawn, upright in getattr(self.axes, "_constrictor_boxes", ()):
            self.seen.update(drawn)
            axis = self.x if upright else self.y
            for box, position in zip(stats, positions):
                name = label_of(box.get("label")) or axis.near(position)
                rows.append({"name": name, "outliers": len(box.get("fliers", ())), **{
                    key: number(box[key]) for key in BOX if box.get(key) is not None}})
        self.add({"type": "box", "label": None, "n": len(rows), "boxes": rows[:self.points]})

    def containers(self):
        for container in list(self.axes.containers)[:ARTISTS_MAX]:
            kind = type(container).__name__
            if kind == "BarContainer":
                self.bars(container)
            elif kind == "ErrorbarContainer":
                line, caps, bars = container.lines
                self.skip([*caps, *bars])
                if line is not None:
                    self.line(line, label=container.get_label())
                    self.skip([line])
            elif kind == "StemContainer":
                self.skip([container.markerline, container.stemlines, container.baseline])
                self.line(container.markerline, kind="stem", label=container.get_label())

    def bars(self, container):
        patches = [patch for patch in container.patches if hasattr(patch, "get_width")]
        self.skip(patches)
        if not patches:
            return
        numpy = modules["numpy"]
        sides = numpy.array([(bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height())
                             for bar in patches], dtype=float)
        flat = getattr(container, "orientation", None) == "horizontal"
        position, base, width, height = sides[:, [1, 0, 3, 2] if flat else [0, 1, 2, 3]].T
        axis = self.y if flat else self.x
        touching = len(position) > 1 and not axis.names and \
            numpy.allclose(position[:-1] + width[:-1], position[1:], rtol=1e-6, atol=1e-9)
        found = {"type": "hist" if touching else "barh" if flat else "bar",
                 "label": name_of(container.get_label()) or name_of(patches[0].get_label()),
                 "n": len(patches)}
        values, middles = ("x", "y") if flat else ("y", "x")
        picks = list(spread_indexes(len(position), self.points))
        found[middles] = [axis.near((position + width / 2)[pick]) for pick in picks]
        found[values] = [number(height[pick]) for pick in picks]
        found.update(span(height))
        if touching:
            found["edges"] = [axis.value(float(position[pick])) for pick in picks]
            found["edges"].append(axis.value(float(position[-1] + width[-1])))
        if base.any():
            found["base"] = [number(base[pick]) for pick in picks]
        self.add(found)

    def line(self, line, kind=None, label=None):
        label = line.get_label() if label is None else label
        if hasattr(line, "get_data_3d"):
            x, y, z = line.get_data_3d()
            self.add(series_of("line", label, self.points, x=x, y=y, z=z))
            return
        try:
            in_x, in_y = line.get_transform().contains_branch_seperately(self.axes.transData)
        except Exception:
            in_x = in_y = True
        if not in_x and not in_y:
            return
        x, y = line.get_xdata(orig=True), line.get_ydata(orig=True)
        if not in_x or not in_y:
            name, value, axis = ("y", y, self.y) if in_y else ("x", x, self.x)
            self.add({"type": "hline" if in_y else "vline", "label": name_of(label), "n": 1,
                      name: axis.value(array_of(value)[:1].tolist()[0])})
            return
        if kind is None and len(x) <= 3 and name_of(label) is None and self.is_straight(x, y):
            kind = "errorbar"
        if kind is None:
            kind = "scatter" if line.get_linestyle() in ("None", "none", "", " ") else "line"
        if len(x) != len(y):
            x, y = line.get_xdata(orig=False), line.get_ydata(orig=False)
        self.points_of(kind, label, x, y)

    def is_straight(self, x, y):
        """Is it a whisker on a bar or a violin?"""
        return len(x) > 0 and (self.axes.containers or self.axes.collections) and \
            any([len(set(array_of(values).tolist())) == 1 for values in (x, y)])

    def lines(self):
        for line in self.left(self.axes.lines):
            self.line(line)

    def collections(self):
        for artist in self.left(self.axes.collections):
            kind, label = type(artist).__name__, artist.get_label()
            values = artist.get_array()
            if hasattr(artist, "_offsets3d"):
                x, y, z = artist._offsets3d
                self.add(series_of("scatter", label, self.points, x=x, y=y, z=z))
            elif kind == "PathCollection":
                offsets = artist.get_offsets()
                more = {"c": values} if values is not None and len(values) == len(offsets) else {}
                self.points_of("scatter", label, offsets[:, 0], offsets[:, 1], **more)
            elif "QuadMesh" in kind or kind in ("PolyQuadMesh", "TriMesh"):
                self.add(grid_of("heatmap", label, values))
            elif "ContourSet" in kind:
                levels = array_of(artist.levels)
                self.add({"type": "contour", "label": None, "n": len(levels),
                          "levels": thin(levels, self.points), **span(levels)})
            elif kind == "LineCollection":
                self.add({"type": "lines", "label": name_of(label),
                          "n": len(artist.get_segments())})
            elif kind in ("PolyCollection", "FillBetweenPolyCollection"):
                self.area(artist, label, values)
            elif kind == "Poly3DCollection":
                self.add({"type": "surface", "label": name_of(label),
                          "n": len(artist.get_facecolors())})

    def area(self, artist, label, values):
        paths = artist.get_paths()
        if values is not None:
            self.add(grid_of("hexbin", label, values))
            return
        for path in paths[:SERIES_MAX]:
            upright = getattr(artist, "t_direction", "x") == "y"        # a violin
            corners = path.vertices[:, ::-1] if upright else path.vertices
            count = (len(corners) - 3) // 2
            if count < 1:
                continue
            x, there = corners[1:count + 1, 0], corners[1:count + 1, 1]
            back = corners[count + 2:2 * count + 2, 1][::-1]
            low, high = (there, back) if there.mean() < back.mean() else (back, there)
            if upright:
                self.add(series_of("violin", self.x.near(float((low + high).mean() / 2)),
                                   self.points, y=x, width=high - low))
                continue
            kind = "band" if name_of(label) is None and self.series else "area"
            self.points_of(kind, label, x, high, base=low)

    def images(self):
        for image in self.left(self.axes.images):
            values = image.get_array()
            kind = "heatmap" if values.ndim == 2 else "image"
            self.add(grid_of(kind, None, values))

    def patches(self):
        slices, left = [], self.left(self.axes.patches)
        for patch in left:
            kind = type(patch).__name__
            if kind == "Wedge":
                slices.append(patch)
            elif kind == "StepPatch":
                data = patch.get_data()
                self.add({**series_of("hist", patch.get_label(), self.points, y=data.values),
                          "edges": thin(array_of(data.edges), self.points)})
            elif kind == "Polygon":         # a histogram drawn as steps, or plt.fill()
                corners = patch.get_xy()
                steps = modules["numpy"].diff(corners, axis=0)
                kind = "area" if (steps[:, 0] * steps[:, 1]).any() else "hist"
                self.points_of(kind, patch.get_label(), corners[:, 0], corners[:, 1])
        if slices:
            parts = [number((wedge.theta2 - wedge.theta1) / 360) for wedge in slices]
            self.add({"type": "pie", "label": None, "n": len(slices),
                      "labels": [name_of(wedge.get_label()) for wedge in slices[:NAMES_MAX]],
                      "share": parts[:NAMES_MAX]})

    def notes(self):
        """Texts in the axes, except those of a pie, which are its labels."""
        if any([one["type"] in ("pie", "heatmap") for one in self.series]):
            return []
        texts = [(text, label_of(text.get_text())) for text in self.left(self.axes.texts)]
        return [{"text": words, "x": self.x.value(float(text.get_position()[0])),
                 "y": self.y.value(float(text.get_position()[1]))}
                for text, words in texts if words][:NOTES_MAX]

    def read(self):
        for step in (self.boxes, self.containers, self.lines, self.collections, self.images,
                     self.patches):
            try:
                step()
            except Exception:
                pass        # an unknown kind of artist: skip it
        axes, series = self.axes, self.series
        found = {"title": label_of(axes.get_title()), "x": self.x.describe(axes.get_xlim()),
                 "y": self.y.describe(axes.get_ylim()), "series": series[:SERIES_MAX]}
        if len(series) > SERIES_MAX:
            found["series_omitted"] = len(series) - SERIES_MAX
        if hasattr(axes, "zaxis"):
            found["z"] = Axis(axes.zaxis).describe(axes.get_zlim())
        if axes.name != "rectilinear":
            found["projection"] = clip(axes.name, LABEL_MAX)
        legend, notes = axes.get_legend(), self.notes()
        if legend is not None:
            found["legend"] = [label_of(text.get_text()) for text in
                               legend.get_texts()[:SERIES_MAX]]
        if notes:
            found["annotations"] = notes
        return found


# ---- All of it ----------------------------------------------------------------------------------

def type_of(axes):
    kinds = {one["type"] for pair in axes for one in pair["series"]}
    main = kinds.difference(ASIDE) or kinds
    return main.pop() if len(main) == 1 else "mixed" if main else "other"


def spread(value):
    return "?" if value is None else clip(str(value), 40)


def describe_axis(name, axis):
    words = f'{name} "{axis["label"]}"' if axis.get("label") else name
    if axis.get("categories"):
        names = ", ".join([spread(one) for one in axis["categories"][:6]])
        count = axis.get("n", len(axis["categories"]))
        return f"{words}: {names}{', …' if count > 6 else ''} ({count})"
    if axis.get("range"):
        words += f" {spread(axis['range'][0])}..{spread(axis['range'][1])}"
    return words if axis.get("scale") in (None, "linear", "category") else \
        f"{words} ({axis['scale']})"


def describe_series(one):
    words = f'{one["type"]} "{one["label"]}"' if one.get("label") else one["type"]
    if "shape" in one:
        words += f": {'x'.join(map(str, one['shape']))}"
    elif one["type"] in ("hline", "vline"):
        return f"{words} at {one.get('y', one.get('x'))}"
    elif one["type"] == "pie":
        slices = zip(one["labels"], one["share"])
        return words + ": " + ", ".join([f"{name or '?'} {part:.1%}" for name, part in slices
                                         if part is not None][:8])
    elif "boxes" in one:
        return words + ": " + ", ".join([
            f"{row['name'] or '?'} median {row.get('med')} ({row.get('q1')}..{row.get('q3')})"
            for row in one["boxes"][:6]])
    else:
        thing = "bar" if one["type"] in ("bar", "barh", "hist") else "point"
        words += f": {one['n']} {thing}{'s' if one['n'] != 1 else ''}"
    for key in "min", "max", "last":
        if one.get(key) is not None:
            words += f", {key} {one[key]}"
    return words


def summary_of(chart):
    """The chart in a few lines of text."""
    title = f' "{chart["title"]}"' if chart["title"] else ""
    lines = [f"{chart['type']} chart{title}"]
    for number, pair in enumerate(chart["axes"], 1):
        if not pair["series"] and len(chart["axes"]) > 1:
            continue
        words = "; ".join([describe_axis(name, pair[name]) for name in "xyz" if name in pair])
        name = f"axes {number}" if len(chart["axes"]) > 1 else "axes"
        if len(chart["axes"]) > 1 and pair.get("title"):
            name += f' "{pair["title"]}"'
        if chart["type"] not in ("pie", "image"):
            lines.append(f"{name}: {words}")
        lines.extend([f"  {describe_series(one)}" for one in pair["series"]
                      if one["type"] != "errorbar"])
    more = len(lines) - SUMMARY_LINES
    if more > 1:
        lines = lines[:SUMMARY_LINES] + [f"  … {more} more lines in the chart's data"]
    return clip("\n".join(lines), SUMMARY_MAX)


def finish(title, axes, omitted):
    chart = {"type": type_of(axes), "title": title, "summary": None, "axes": axes}
    if omitted > 0:
        chart["axes_omitted"] = omitted
    chart["summary"] = summary_of(chart)
    return chart


def fit(make, count):
    """Bounded JSON text of a chart by make(points), with fewer points if necessary; None if it is always too
    large. `count`: the approximate number of series."""
    points = max(POINTS_LEAST, min(POINTS_MAX, POINTS_ALL // max(1, count)))
    while True:
        try:
            chart = make(points)
            return chart and to_json(chart, SIZE_MAX)
        except ValueError:
            if points <= POINTS_LEAST:
                return None
            points = max(POINTS_LEAST, points // 2)


def title_of(figure, axes):
    above = getattr(figure, "_suptitle", None)
    words = label_of(above.get_text()) if above is not None else None
    return words or (label_of(axes[0].get_title()) if len(axes) == 1 else None)


def of_figure(figure):
    """The chart as JSON text, or None."""
    axes = [one for one in figure.axes if one.get_label() != "<colorbar>"]
    if not axes:
        return None
    count = sum([len(one.lines) + len(one.collections) + len(one.containers)
                 for one in axes[:AXES_MAX]])

    def make(points):
        found = [Reader(one, points).read() for one in axes[:AXES_MAX]]
        return finish(title_of(figure, axes), found, len(axes) - AXES_MAX)
    return fit(make, count)


def watch_boxes(axes_class):
    """Keeps the numbers of a box plot: after drawing only its lines are left."""
    draw = axes_class.bxp

    def bxp(self, bxpstats, *args, **kwargs):
        drawn = draw(self, bxpstats, *args, **kwargs)
        try:
            upright = kwargs.get("vert") is not False and \
                kwargs.get("orientation", "vertical") == "vertical"
            ids = {id(artist) for artists in drawn.values() for artist in artists}
            kept = getattr(self, "_constrictor_boxes", ())
            positions = args[0] if args else kwargs.get("positions")
            positions = range(1, len(bxpstats) + 1) if positions is None else positions
            positions = [float(position) for position in positions]
            self._constrictor_boxes = *kept, (list(bxpstats), positions, ids, upright)
        except Exception:
            pass
        return drawn

    bxp.__doc__, bxp.__wrapped__ = draw.__doc__, draw
    if not hasattr(draw, "__wrapped__") or draw.__code__.co_filename != bxp.__code__.co_filename:
        axes_class.bxp = bxp
