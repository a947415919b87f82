# SPDX-License-Identifier: Apache-2.0
"""tables: a table of pandas or polars as a short text: its shape, its columns with their types,
first and last rows, aligned. For models, which pay for every character.

display.py calls text_of() in the user process of a box, with any object that claims to be a table: the
caller expects exceptions. Only the rows and columns that are shown are read.
"""

from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import clip

WIDTH = 110                 # characters of a line
CELL_MAX = 40               # characters of a cell
ROWS_MAX = 20               # rows of a table that is shown in full
HEAD, TAIL = 6, 4           # rows of a longer one, or one that is too wide
COLUMNS_MAX = 40            # columns that are read
REST_MAX = 400              # characters for the names of columns that did not fit
SIZE_MAX = 1900             # characters of all, below what shape_display.c shows of a text
MIDNIGHT = " 00:00:00"
GAP = "  "
CONTROLS = {code: " " for code in range(32)}


# ---- Cells --------------------------------------------------------------------------------------

def cell(value):
    """A value as a short text."""
    if type(value) is float:
        text = "%.6g" % value if value == value else "NaN"
    elif isinstance(value, str):
        text = str.__str__(value)
    elif isinstance(value, float):
        return cell(float.__float__(value))
    else:
        text = str(value)
    if not isinstance(text, str):
        return "?"
    over = str.__len__(text) > CELL_MAX
    text = clip(str.__str__(text)[:CELL_MAX - over], CELL_MAX).translate(CONTROLS)
    return text + "…" if over else text


def is_number(kind):
    return kind.lower().startswith(("int", "uint", "float", "decimal"))


def cells_of(values):
    """The cells of a column; dates without a time are shown without one."""
    cells = [cell(value) for value in values]
    if cells and all([text.endswith(MIDNIGHT) for text in cells]):
        cells = [text[:-len(MIDNIGHT)] for text in cells]
    return cells


def lay_out(names, kinds, rows, first):
    """(lines of a table, number of columns that fit); the first `first` columns are the index."""
    columns = [[name, kind, *cells] for name, kind, cells in zip(names, kinds, rows)]
    widths = [max(map(len, column)) for column in columns]
    fitted = used = 0
    for width in widths:
        used += width + len(GAP)
        if fitted > first and used > WIDTH:
            break
        fitted += 1
    lines = []
    for row in range(len(columns[0])):
        cells = []
        for column, kind, width in zip(columns[:fitted], kinds, widths):
            text = column[row]
            cells.append(text.rjust(width) if is_number(kind) else text.ljust(width))
        lines.append(GAP.join(cells).rstrip())
    return lines, fitted


def rest_of(names, kinds, count):
    """The columns that did not fit, by name and type."""
    text, left = "", len(names)
    for name, kind in zip(names, kinds):
        more = f"{', ' if text else ''}{name} ({kind})"
        if len(text) + len(more) > REST_MAX:
            break
        text, left = text + more, left - 1
    left += count
    return f"more columns: {text}{f', and {left} others' if left else ''}"


def picks_of(count, whole):
    """(rows to show, how many of them come before the gap)."""
    if count <= whole:
        return list(range(count)), None
    return [*range(HEAD), *range(count - TAIL, count)], HEAD


def compose(name, shape, names, kinds, rows, first, gap):
    """The whole text. `gap`: number of rows before the gap."""
    head = f"{name}: {shape[0]} rows x {shape[1]} columns"
    if not shape[1]:
        return head
    unseen = shape[1] + first - len(names)
    lines, fitted = lay_out(names, kinds, rows, first)
    if gap is not None:
        lines.insert(2 + gap, "…")
    lines.insert(0, head)
    if fitted < len(names) or unseen:
        lines.append(rest_of(names[fitted:], kinds[fitted:], unseen))
    return "\n".join(lines)


# ---- Libraries ----------------------------------------------------------------------------------

def pandas_text(frame, whole):
    count, width = frame.shape
    picks, gap = picks_of(count, whole)
    part = frame.iloc[picks, :COLUMNS_MAX]
    index = part.index
    depth = index.nlevels
    names = [cell(name) if name is not None else "" for name in index.names]
    kinds = [""] * depth
    rows = [cells_of(index.get_level_values(level)) for level in range(depth)]
    for i in range(part.shape[1]):
        column = part.iloc[:, i]
        label = part.columns[i]
        names.append(cell(label if not isinstance(label, tuple) else "/".join(map(str, label))))
        kinds.append(cell(str(column.dtype)))
        rows.append(cells_of(column.tolist()))
    return compose("DataFrame", (count, width), names, kinds, rows, depth, gap)


def polars_text(frame, whole):
    count, width = frame.shape
    _, gap = picks_of(count, whole)
    part = frame[:, :COLUMNS_MAX]
    part = part if gap is None else modules["polars"].concat([part.head(HEAD), part.tail(TAIL)])
    names = [cell(name) for name in part.columns]
    kinds = [cell(str(kind)) for kind in part.dtypes]
    rows = [cells_of(["null" if value is None else value for value in part[name].to_list()])
            for name in part.columns]
    return compose("DataFrame", (count, width), names, kinds, rows, 0, gap)


def reader_of(value):
    """(reader, table), or None if it is not a table."""
    pandas, polars = modules.get("pandas"), modules.get("polars")
    if pandas is not None:
        style = modules.get("pandas.io.formats.style")
        if style is not None and isinstance(value, style.Styler):
            value = value.data
        if isinstance(value, pandas.DataFrame):
            return pandas_text, value
    if polars is not None and isinstance(value, polars.DataFrame):
        return polars_text, value
    return None


def text_of(value):
    """The text of a table, or None for anything else."""
    found = reader_of(value)
    if found is None:
        return None
    read, table = found
    text = read(table, ROWS_MAX)
    if len(text) > SIZE_MAX and table.shape[0] > HEAD + TAIL:
        text = read(table, HEAD + TAIL)
    return clip(text, SIZE_MAX)
