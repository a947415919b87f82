# SPDX-License-Identifier: Apache-2.0
"""plotly_charts: a figure of plotly in the form of charts.py, from the values of its traces.

figures.py calls of_plotly() in the user process of a box. Nothing is drawn: only
properties are read.
"""

from sys import modules

from base import __builtins__           # first: functions look builtins up there
from charts import AXES_MAX, NAMES_MAX, SERIES_MAX
from charts import array_of, dates, finish, fit, grid_of, label_of, number, plain, series_of, span
from charts import thin

COORDINATES = ("x", "y", "z"), ("lon", "lat", None), ("r", "theta", None)
GRIDS = "heatmap", "contour", "surface", "histogram2d"


def text_at(thing, *names):
    """A nested property as text, or None if it is missing."""
    for name in names:
        if thing is None or name not in thing:
            return None
        thing = thing[name]
    return label_of(thing)


def get(trace, name):
    return trace[name] if name is not None and name in trace else None


def kind_of(trace):
    kind = label_of(trace["type"]) or "other"
    if kind.startswith("scatter"):
        mode = get(trace, "mode") or "lines"
        if get(trace, "fill") not in (None, "none") or get(trace, "stackgroup"):
            return "area"
        return "line" if "lines" in mode else "scatter"
    if kind == "bar" and get(trace, "orientation") == "h":
        return "barh"
    return {"histogram": "hist"}.get(kind, kind)


def box_of(name, values):
    numpy = modules["numpy"]
    values = values[numpy.isfinite(values)]
    if not len(values):
        return {"name": name}
    least, q1, med, q3, most = [number(q) for q in numpy.percentile(values, [0, 25, 50, 75, 100])]
    return {"name": name, "whislo": least, "q1": q1, "med": med, "q3": q3, "whishi": most}


def read_pie(trace, label, points):
    labels, values = get(trace, "labels"), get(trace, "values")
    if values is None:
        return None
    values = array_of(values).astype(float)
    total = values.sum()
    names = [label_of(name) for name in list(labels)[:NAMES_MAX]] if labels is not None else []
    return {"type": "pie", "label": label, "n": len(values),
            "labels": names + [None] * (min(len(values), NAMES_MAX) - len(names)),
            "values": thin(values[:NAMES_MAX], NAMES_MAX),
            "share": [number(value / total) for value in values[:NAMES_MAX]]}


def read_spread(trace, label, points):
    """Box and violin plots: their statistics, for each category if there are any."""
    values, groups = get(trace, "y"), get(trace, "x")
    if values is None or get(trace, "orientation") == "h":
        values, groups = groups, values
    if values is None:
        return None
    values = array_of(values).astype(float)
    names = array_of(groups).astype(str) if groups is not None else None
    if names is None or len(names) != len(values):
        rows = [box_of(label, values)]
    else:
        rows = [box_of(plain(str(name)), values[names == name])
                for name in modules["numpy"].unique(names)[:SERIES_MAX]]
    return {"type": kind_of(trace), "label": label, "n": len(rows), "boxes": rows}


def read_hist(trace, label, points):
    """Counts values as a browser would, though not in the same bins."""
    values = get(trace, "x")
    values = get(trace, "y") if values is None else values
    if values is None:
        return None
    values, numpy = dates(array_of(values)), modules["numpy"]
    found = {"type": "hist", "label": label, "n": 0, "values": len(values)}
    if values.dtype.kind not in "iuf":
        names, counts = numpy.unique(values.astype(str), return_counts=True)
        return {**found, "n": len(names), "x": thin(names, points), "y": thin(counts, points),
                **span(counts)}
    counts, edges = numpy.histogram(values[numpy.isfinite(values)], bins=min(points, 20))
    return {**found, "n": len(counts), "y": thin(counts, points),
            "edges": thin(edges, points + 1), **span(counts)}


def read_points(trace, label, points):
    columns = {}
    for names in COORDINATES:
        given = [(name, get(trace, name)) for name in names]
        columns = {name: values for name, values in given if values is not None}
        if columns:
            break
    if not columns:
        return {"type": kind_of(trace), "label": label, "n": 1}
    if "x" in columns and "y" not in columns or "y" in columns and "x" not in columns:
        (values,) = [values for name, values in columns.items() if name in "xy"]
        columns.update({name: range(len(values)) for name in "xy" if name not in columns})
    y = next(reversed(list(columns)))
    found = series_of(kind_of(trace), label, points, **{"y": columns[y], **columns})
    if "y" not in columns:
        del found["y"]
    if found["type"] == "barh":
        found.update(span(array_of(columns["x"])))
    return found


READERS = {"pie": read_pie, "box": read_spread, "violin": read_spread, "hist": read_hist}


def count_of(trace):
    """How many values a trace has that cannot be read, as without numpy."""
    for name in ("z", "y", "x", "values"):
        rows = get(trace, name)
        if isinstance(rows, (list, tuple)) and rows:
            return sum([len(row) if isinstance(row, (list, tuple)) else 1 for row in rows])
    return 1


def read_trace(trace, points):
    kind, label = kind_of(trace), text_at(trace, "name")
    try:
        if kind in GRIDS and get(trace, "z") is not None:
            return grid_of("heatmap" if kind == "histogram2d" else kind, label, trace["z"])
        return READERS.get(kind, read_points)(trace, label, points)
    except Exception:
        return {"type": kind, "label": label, "n": count_of(trace)}


def axis_of(layout, name, values):
    axis = layout[name] if name in layout else None
    found = {"label": text_at(axis, "title", "text"),
             "scale": text_at(axis, "type") or "linear"}
    kinds = {type(value) for one in values for value in one}
    if str in kinds and found["scale"] == "linear":
        looks = [value[:4].isdigit() and value[4:5] == "-" for one in values for value in one
                 if isinstance(value, str)]
        found["scale"] = "date" if all(looks) else "category"
    if found["scale"] == "category":
        names = list(dict.fromkeys([value for one in values for value in one]))
        found["categories"] = [plain(name) for name in names[:NAMES_MAX]]
        found.update({"n": len(names)} if len(names) > NAMES_MAX else {})
    else:
        known = [value for one in values for value in one if value is not None]
        known = [value for value in known if isinstance(value, str) == (found["scale"] == "date")]
        found.update({"range": [min(known), max(known)]} if known else {})
    return found


def long_name(short, letter):
    """For "x2" of a trace "xaxis2" of the layout."""
    return f"{letter}axis{short[1:]}" if short else f"{letter}axis"


def of_plotly(figure):
    """The chart as JSON text, or None."""
    pairs = {}
    for trace in figure.data:
        axes = text_at(trace, "xaxis"), text_at(trace, "yaxis"), text_at(trace, "scene")
        pairs.setdefault(axes, []).append(trace)
    if not pairs:
        return None

    def make(points):
        axes = []
        for (x, y, _), traces in list(pairs.items())[:AXES_MAX]:
            series = [read_trace(trace, points) for trace in traces[:SERIES_MAX]]
            series = [one for one in series if one is not None]
            found = {"title": None, "series": series}
            for letter, short in ("x", x), ("y", y):
                values = [one[letter] for one in series if letter in one]
                found[letter] = axis_of(figure.layout, long_name(short, letter), values)
            if len(traces) > SERIES_MAX:
                found["series_omitted"] = len(traces) - SERIES_MAX
            axes.append(found)
        return finish(text_at(figure.layout, "title", "text"), axes, len(pairs) - AXES_MAX)
    return fit(make, min(len(figure.data), AXES_MAX * SERIES_MAX))
