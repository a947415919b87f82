# SPDX-License-Identifier: Apache-2.0
"""variables: which names a run has added, changed or removed, and what they are now.

Called by runner.py after every run, in the user process of a box. It visits each name of __main__ once,
does not look into values, and never calls user code: no repr, and no len() or property of an unknown
class. So a name takes 0.2 us, whatever its value.

A variable has changed since the last run if
  1. the name stands for another object. The address alone does not tell: after the old object is freed, a
     new one often gets its address. So numbers, short texts, and small containers of these are kept alive
     until they have been compared. Other objects are watched by a weak reference: keeping them would
     double the memory of `x = f(x)` and keep files open. Long texts and other lists, which have no weak
     references, are compared by address and size, and by whether the code of the run binds the name. So
     `if no: rows = []` may report rows as changed although it did not run;
  2. a list, dictionary, set, deque or bytearray has another length, an array or table another shape.
A change deeper in an object (x[0] = 1, column values, attributes) is not seen.
"""

import sys
from _collections import deque
from _weakref import ref

from _constrictor import public
from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, need, quote

LISTED_MAX = 50             # entries of a report
NAME_MAX = 100              # characters of a name and of a type's name
TEXT_MAX = 80               # characters of a str whose text is shown
SHORT = 1000                # longest text that is kept alive
FEW = 8                     # items of the largest container that is kept alive
BITS_MAX = 256              # of an int whose digits are shown
AXES_MAX = 32               # of a shape
SAMPLE = 32                 # characters of a long text that are compared, in three parts

# Only types whose class is exactly `type` may be looked up: a metaclass can have its own __hash__.
PLAIN = frozenset((type(None), bool, int, float, complex))
TEXTS = frozenset((str, bytes))
SMALL = frozenset((list, tuple, dict))
GROWING = frozenset((list, dict, set, deque, bytearray))
SIZED = GROWING | TEXTS | frozenset((tuple, frozenset, range))
NAMES = {kind: kind.__name__ for kind in PLAIN | SIZED | {type(ref), type(len), type(lambda: 0)}}
NAMES[deque] = "collections.deque"
# Libraries whose arrays and tables have a shape that is cheap to read.
DATA = frozenset(("numpy", "pandas", "polars", "torch", "scipy", "xarray", "jaxlib", "tensorflow",
                  "cupy", "geopandas", "pyarrow"))
MODULE = type(sys)
module_of = type.__dict__["__module__"].__get__         # read these attributes of a class
qualname_of = type.__dict__["__qualname__"].__get__     # without calling user code
STORES = "STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"


class Known:
    """The names after the last run."""
    names = {}              # name -> (the value or a weak reference, its id, its size, its type)


Known = Known()


def forget_variables():
    Known.names.clear()


# ---- What a value is ----------------------------------------------------------------------------

def type_of(kind):
    if issubclass(kind, type):
        return "type"       # a class, whatever its metaclass
    if type(kind) is type and kind in NAMES:
        return NAMES[kind]
    module, name = module_of(kind), qualname_of(kind)
    root = module.partition(".")[0] if type(module) is str else "?"
    return clip(name if root in ("builtins", "__main__") else f"{root}.{name}", NAME_MAX)


def shape_of(value, kind):
    """A tuple of integers, or None."""
    module = module_of(kind)
    if type(module) is not str or module.partition(".")[0] not in DATA:
        return None
    try:
        if getattr(kind, "shape", None) is None:
            return None
        shape = value.shape
        if isinstance(shape, tuple) and 0 < len(shape) <= AXES_MAX:
            shape = tuple([int.__index__(axis) for axis in shape])
            return shape if all([-2**63 <= axis < 2**63 for axis in shape]) else None
    except Exception:
        pass                # a library that answers later, or not with numbers
    return None


def size_of(value):
    """A measure that shows whether a value has grown or shrunk, or None."""
    kind = type(value)
    if type(kind) is type and kind in GROWING:
        return len(value)
    if kind is str or kind is bytes:
        middle = len(value) // 2
        return (len(value), value[:SAMPLE], value[middle:middle + SAMPLE], value[-SAMPLE:])
    return shape_of(value, kind)


def is_short(value):
    kind = type(value)
    if type(kind) is not type:
        return False
    return (kind in TEXTS and len(value) <= SHORT or
            kind in PLAIN and (kind is not int or value.bit_length() <= 8 * SHORT))


def is_small(value, kind):
    """May the value be kept alive? A container only with few, short items."""
    if kind not in SMALL:
        return is_short(value)
    if len(value) > FEW:
        return False
    try:
        return all([is_short(item) for item in value]) and \
            (kind is not dict or all([is_short(item) for item in value.values()]))
    except RuntimeError:
        return False        # another thread changes it


def mark(value):
    """The entry by which the value is recognised later."""
    kind = type(value)
    if type(kind) is type and is_small(value, kind):
        kept, size = value, len(value) if kind in GROWING else None
    else:
        size = size_of(value)
        try:
            kept = ref(value)
        except TypeError:
            kept = None
    return kept, id(value), size, type_of(kind)


# ---- What has changed ---------------------------------------------------------------------------

def bound_names(codes):
    """The names that the top-level code of a run binds or deletes."""
    found, operations = set(), need("opcode", "opmap")
    extended = operations["EXTENDED_ARG"]
    for code in codes:
        kinds, arguments, names = code.co_code[::2], code.co_code[1::2], code.co_names
        for operation in [operations[name] for name in STORES]:
            at = kinds.find(operation)
            while at >= 0:
                argument, before, shift = arguments[at], at - 1, 8
                while before >= 0 and kinds[before] == extended:
                    argument |= arguments[before] << shift
                    before, shift = before - 1, shift + 8
                found.update(names[argument:argument + 1])
                at = kinds.find(operation, at + 1)
    return found


def is_same(name, known, value, codes):
    """Is it the same value as before, as far as can be seen?"""
    kept, identity, size, _ = known
    if identity != id(value):
        return False
    if kept is not value:   # then it is None or a weak reference
        if kept is None:
            if any([name in code.co_names for code in codes]) and name in bound_names(codes):
                return False
        elif kept() is not value:
            return False
    return size is None or size == (len(value) if type(size) is int else size_of(value))


def is_variable(name, value):
    """Modules, private names, and In and Out are not listed."""
    return (name[:1] != "_" and not issubclass(type(value), MODULE) and value is not Known and
            value is not Box.inputs and value is not Box.outputs)


def leave_out(name):
    try:
        sys.stderr.write(f"note: variables: {clip(name, NAME_MAX)!r} is not a Python name, and was left out\n")
    except Exception:
        pass                # no stderr


def bring(namespace, variables):
    """Sets the variables of the call; checks the names again after the gate."""
    for name, value in variables.items():
        known = name
        if name.isidentifier() and not name.isascii():
            known = compile(name, "<name>", "eval", 0, True).co_names[0]    # in NFKC, as the code uses it
        if not name.isidentifier() or known.startswith("__"):
            leave_out(name)
            continue
        namespace[known] = value
        if is_variable(known, value):
            Known.names[known] = mark(value)


def describe(name, change, value):
    kind = type(value)
    text = f'{{"name":{quote(clip(name, NAME_MAX))},"change":"{change}","type":{quote(type_of(kind))}'
    if type(kind) is type and kind in SIZED:
        text += f',"length":{len(value)}'
        if kind is not str or len(value) > TEXT_MAX:
            return text + "}"
    elif type(kind) is not type or kind not in PLAIN:
        shape = shape_of(value, kind)
        return f'{text},"shape":{list(shape)}}}' if shape is not None else text + "}"
    if kind is complex or kind is int and value.bit_length() > BITS_MAX:
        return text + "}"
    return f'{text},"text":{quote(clip(repr(value), 4 * TEXT_MAX))}}}'


def describe_removed(name, known):
    return f'{{"name":{quote(clip(name, NAME_MAX))},"change":"removed","type":{quote(known[3])}}}'


def list_changes(namespace, codes, again):
    """A piece of JSON for the answer, "" if nothing has changed. again: another run may follow."""
    known, entries, omitted, met = Known.names, [], 0, 0
    # A list: a thread may change the dictionary.
    for name in public(namespace, (Box.inputs, Box.outputs)):
        value = namespace.get(name, Known)
        before = known.get(name)
        if before is not None and (before[0] is value and before[2] is None or
                                   is_same(name, before, value, codes)):
            met += 1        # most of them
            continue
        if not is_variable(name, value):
            continue
        if again:
            known[name] = mark(value)
        met += again or before is not None
        if len(entries) < LISTED_MAX:
            entries.append(describe(name, "added" if before is None else "changed", value))
        else:
            omitted += 1
    if met < len(known):
        for name in [name for name in known if name not in namespace or
                     not is_variable(name, namespace[name])]:
            before = known.pop(name)
            if len(entries) < LISTED_MAX:
                entries.append(describe_removed(name, before))
            else:
                omitted += 1
    if not entries:
        return ""
    more = f',"variables_omitted":{omitted}' if omitted else ""
    return f',"variables":[{",".join(entries)}]{more}'
