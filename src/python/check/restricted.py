# SPDX-License-Identifier: Apache-2.0
"""restricted: runs code that RestrictedPython has transformed, with our builtins and guards.

Called by policed.py in the user process of a box. ADVICE, NOT A WALL: transformed code still runs in
a whole interpreter, and sandboxes of this kind have been escaped again and again. It tells code
early, and in words, what it cannot use. The kernel's wall around the box keeps code in;
tests/unit/test_policed.py lists the known escapes from this mode.

RestrictedPython alone cannot run ordinary programs. transform.py also allows what is harmless; this
file has the functions that transformed code calls, and its builtins. Such code cannot bind names
that begin with an underscore, so the guards are builtins with such names.
"""

import _operator as operator            # compiled in: sys.path may be empty
import builtins
import sys
from _string import formatter_field_name_split as field_name_split, formatter_parser
from _weakref import ref
from sys import _getframe as getframe, modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, clip
from check import judge
from guard import BlockedError, is_from_c, narrow, note, user_line
from policy import SENSITIVE
from source import FUTURES, ONLY_AST, TOP_LEVEL_AWAIT, is_quiet, to_steps as plain_steps

MISSING = ("RestrictedPython is not installed in this interpreter: "
           "pip install RestrictedPython")
LAYER = "restricted"
MODULE, SUPER, TYPE = type(sys), super, type
NO_DEFAULT = object()
# Types with attributes that lead into the interpreter.
INNER = (MODULE, TYPE, type(lambda: 0), type(getframe()), type(getframe().f_code),
         type((lambda: (yield))()), type(len), type([].append))
real_import, real_open, real_print = builtins.__import__, builtins.open, builtins.print
FINDERS, HOOKS = tuple(sys.meta_path), tuple(sys.path_hooks)


class Foundations:
    """Harmless foreign base classes: a class derived from them is still the code's own."""
    NAMES = ("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol")

    def __contains__(self, cls):
        return any([cls is getattr(modules.get(module), name, None) for module, name in self.NAMES])


FOUNDATIONS = Foundations()

# Names that are allowed although they begin with an underscore: harmless texts, and those of named
# tuples.
PLAIN_NAMES = frozenset(("__name__", "__qualname__", "__doc__", "_asdict", "_fields", "_make",
                         "_replace"))
CLASS_NAMES = frozenset(("__slots__", "__hash__"))      # that class bodies may bind
# Methods with a meaning that classes may define, and may call on super().
METHODS = frozenset(f"__{name}__" for name in """init post_init repr str bytes len
    length_hint getitem setitem delitem contains iter next reversed missing call enter exit
    eq ne lt le gt ge hash bool int float complex index round trunc floor ceil abs neg pos
    invert add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor radd
    rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand ror rxor
    iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor
    format sizeof copy deepcopy init_subclass set_name get set delete await aiter anext aenter
    aexit""".split())
# Attributes that lead into the interpreter; those with an underscore are refused anyway.
INSIDES = frozenset("""tb_frame tb_next f_back f_builtins f_code f_generator f_globals
    f_locals f_trace co_code gi_frame gi_code gi_yieldfrom cr_await cr_frame cr_code
    cr_origin ag_await ag_frame ag_code mro func_globals func_code subprocess_exec
    subprocess_shell""".split())
# Parts of permitted modules that would undo the transformation, by bytecode or by evaluating strings.
DENIED = {
    "operator": ("attrgetter", "methodcaller"),
    "string": ("Formatter",),
    "functools": ("singledispatch", "singledispatchmethod"),
    "typing": ("get_type_hints", "ForwardRef", "evaluate_forward_ref"),
    "typing_extensions": ("get_type_hints", "ForwardRef", "evaluate_forward_ref",
                          "get_annotations"),
    "types": ("CodeType", "FunctionType", "LambdaType", "new_class", "prepare_class", "coroutine",
              "FrameType", "TracebackType", "CellType", "MethodType", "ModuleType"),
    "dataclasses": ("make_dataclass",),
    "asyncio": ("create_subprocess_exec", "create_subprocess_shell", "subprocess"),
    "io": ("open", "open_code", "FileIO", "OpenWrapper", "BufferedReader", "BufferedWriter",
           "BufferedRandom", "BufferedRWPair"),
}
FORMATS = {"format": str.format, "format_map": str.format_map}
NO_FORMAT = "a format string can reach any attribute: use an f-string, or refer to arguments only"
# Builtins that are available, and those that are refused with a hint.
SAFE = """None True False Ellipsis NotImplemented __build_class__ __debug__ abs all any
    ascii bin bool bytearray bytes callable chr classmethod complex dict display divmod
    enumerate filter float format frozenset hash hex id int isinstance issubclass iter len
    list map max min next object oct ord pow property range repr reversed round set slice
    sorted staticmethod str sum super tuple zip aiter anext""".split()
REFUSED = {
    "eval": "code cannot be run from strings; parse values with json.loads()",
    "exec": "code cannot be run from strings; write the code out",
    "compile": "code cannot be run from strings; write the code out",
    "open": "files need the tier 'filesystem'; for text in memory use io.StringIO",
    "input": "code runs without a terminal; write values into the code, or pass them as variables",
    "globals": "use variables, or a dict of your own",
    "locals": "use variables, or a dict of your own",
    "vars": "use the attributes by name",
    "dir": "use the attributes by name",
    "breakpoint": "code runs without a terminal; use print()",
    "help": "code runs without a terminal",
    "memoryview": "use bytes or bytearray",
}


class State:
    policy = None
    builtins = None         # of transformed code
    own_classes = []        # weak references to classes of that code
    plain = {}              # class -> is it made of own classes only?
    module = None           # the module transform, once loaded


State = State()


def block(kind, target, hint, error=BlockedError):
    """Records an event for a blocked operation, and raises the error."""
    target = clip(target, LINE_MAX)
    note(kind, target, user_line(getframe(2)), LAYER, hint)
    raise error(f"'{target}' is not available in restricted mode: {hint}") from None


# ---- Attributes ---------------------------------------------------------------------------------

def check_attribute(value, name):
    """Refuses names that lead into the interpreter, before any lookup."""
    if TYPE(name) is not str:
        block("attribute", TYPE(name).__name__, "attribute names must be plain strings", TypeError)
    if name[:1] == "_" and name != "_":
        if is_private(name) and is_own(value):
            return
        if name in PLAIN_NAMES or name == "__init__" or (name in METHODS and
                                                         TYPE(value) is SUPER):
            return
        block("attribute", name, "only attributes of your own classes may begin with an "
              "underscore", AttributeError)
    if name in INSIDES or name.endswith("__roles__"):
        block("attribute", name, "frames, code objects and tracebacks cannot be read", AttributeError)
    if name in FORMATS and value is not str and TYPE(value) is not str and (
            isinstance(value, str) or isinstance(value, TYPE) and issubclass(value, str)):
        block("attribute", f"str.{name}", NO_FORMAT, AttributeError)
    if name == "register" and isinstance(value, TYPE) and (
            issubclass(value, TYPE) or type(value) is not TYPE):
        block("attribute", name, "virtual subclasses are not allowed: derive a class", AttributeError)
    if name in ("get_field", "vformat", "get_value", "format_field") and "string" in modules and \
            is_formatter(value):
        block("attribute", f"string.Formatter.{name}", "use an f-string", AttributeError)


def is_private(name):
    """Is it a private name of a class: _x, but not __x__?"""
    return name[:1] == "_" and name[1:2] not in ("", "_")


def is_own(value):
    """Is it one of the code's own classes, or an instance of one, without foreign bases?"""
    kind = value if isinstance(value, TYPE) else TYPE(value)
    found = State.plain.get(kind)
    if found is None:
        own = [item() for item in State.own_classes]
        found = State.plain[kind] = any([item is kind for item in own]) and all(
            [any([item is base for item in own]) or base in FOUNDATIONS or
             base.__module__ == "builtins" for base in TYPE.mro(kind)])
    return found


def guard_private(value, name):
    """Checks the object of which an attribute _x is bound or deleted."""
    check_attribute(value, name)
    return guard_write(value)


def matched(value, *patterns):
    """The subject of a match statement with class patterns that read attributes: (class, names...) each."""
    for cls, *names in patterns:
        if not isinstance(cls, TYPE):
            continue
        if any([issubclass(kind, cls) for kind in INNER]):
            block("attribute", f"case {cls.__name__}(...)",
                  "a pattern that reads attributes needs a specific data class", TypeError)
        for name in [*names, *getattr(cls, "__match_args__", ())]:
            if name in FORMATS and (issubclass(cls, str) or issubclass(str, cls)):
                block("attribute", f"str.{name}", NO_FORMAT, AttributeError)
    return value


# ---- str.format ---------------------------------------------------------------------------------

def is_plain_format(text):
    """Does a format string use its arguments and their items, but no attributes?"""
    todo = [text]
    try:
        while todo:
            for _, field, below, _ in formatter_parser(todo.pop()):
                if field is not None and any([is_attribute for is_attribute, _ in field_name_split(field)[1]]):
                    return False
                if below:
                    todo.append(below)      # {:{width}}
    except ValueError:
        pass                # str.format() reports the mistake better
    return True


def format_text(name, text, args, kwargs):
    if TYPE(text) is not str or not is_plain_format(text):
        block("attribute", f"str.{name}", NO_FORMAT, AttributeError)
    return FORMATS[name](text, *args, **kwargs)


def formatter_of(value, name):
    """'...'.format, or str.format"""
    if value is str:
        return lambda text, /, *args, **kwargs: format_text(name, text, args, kwargs)
    return lambda *args, **kwargs: format_text(name, value, args, kwargs)


def is_formatter(value):
    kind = modules["string"].Formatter
    return isinstance(value, kind) or isinstance(value, TYPE) and issubclass(value, kind)


def check_found(value, name, found):
    """Refuses the value of an attribute if it is a module that is not allowed, or leads out."""
    if TYPE(value) is MODULE:
        if not is_permitted(value):     # however the code got it
            block("import", value.__name__, State.policy.hint(value.__name__), AttributeError)
        if name in DENIED.get(value.__name__, ()):
            block("attribute", f"{value.__name__}.{name}", "it would bypass the restrictions",
                  AttributeError)
        if isinstance(found, MODULE) and not is_permitted(found):
            block("import", found.__name__, State.policy.hint(found.__name__), AttributeError)
    elif isinstance(found, MODULE) and not is_permitted(found):
        block("import", found.__name__, State.policy.hint(found.__name__), AttributeError)
    return without_metaclass(found)


def is_metaclass(value):
    return issubclass(TYPE(value), TYPE) and value is not Kind and issubclass(value, TYPE)


def without_metaclass(found):
    """Hides metaclasses such as ABCMeta: called as type(name, bases, names), they would make classes that define any
    name, for example how instances are compared, or what a match statement reads."""
    return Kind if is_metaclass(found) else found


def metaclass(value, name):
    """The value of `metaclass=` in a class statement."""
    if value is not Kind:
        block("builtin", "metaclass", "the metaclass can be ABCMeta or EnumMeta, by its imported name", TypeError)
    return real_import("abc").ABCMeta if name == "ABCMeta" else real_import("enum").EnumMeta


class Parts:
    """What `from module import ...` takes its names from if one of them has to be replaced."""


def is_permitted(module):
    name = module.__name__
    return State.policy.allows(name) or name == "posixpath" and State.policy.allows("os.path")


def get_attribute(value, name, default=NO_DEFAULT):
    check_attribute(value, name)
    if name in FORMATS and (value is str or TYPE(value) is str):
        return formatter_of(value, name)
    if default is NO_DEFAULT:
        return check_found(value, name, getattr(value, name))
    return check_found(value, name, getattr(value, name, default))


def has_attribute(value, name):
    try:
        get_attribute(value, name)
        return True
    except AttributeError:
        return False


def guard_write(value):
    """Returns the object if transformed code may change it: no module and no foreign class."""
    kind = TYPE(value)
    if issubclass(kind, MODULE):
        block("write", value.__name__, "modules cannot be changed", TypeError)
    if issubclass(kind, TYPE) and not any([item() is value for item in State.own_classes]):
        block("write", value.__name__, "only your own classes can be changed: derive one",
              TypeError)
    return value


def set_attribute(value, name, to):
    check_attribute(value, name)
    setattr(guard_write(value), name, to)


def delete_attribute(value, name):
    check_attribute(value, name)
    delattr(guard_write(value), name)


def class_text(value, name):
    """value.__class__.__name__"""
    kind = TYPE(value)
    return kind.__name__ if name == "__name__" else kind.__qualname__


def own_class(cls):
    """Decorator of every class of transformed code, which may change these."""
    State.own_classes = [item for item in State.own_classes if item() is not None]
    State.own_classes.append(ref(cls))
    State.plain.pop(cls, None)
    return cls


# ---- Operators, items, iteration ----------------------------------------------------------------

INPLACE = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "%=": operator.imod, "**=": operator.ipow, "<<=": operator.ilshift, ">>=": operator.irshift,
    "|=": operator.ior, "^=": operator.ixor, "&=": operator.iand, "//=": operator.ifloordiv,
    "@=": operator.imatmul,
}


def inplace_variable(op, value, by):
    return INPLACE[op](value, by)


def inplace_attribute(op, value, name, by):
    """value.name += by"""
    set_attribute(value, name, INPLACE[op](get_attribute(value, name), by))


def inplace_item(op, value, index, by):
    """value[index] += by"""
    value = guard_write(value)
    value[index] = INPLACE[op](value[index], by)


def get_item(value, index):
    return value[index]


def get_iterator(value):
    return value


def apply(function, *args, **kwargs):
    return function(*args, **kwargs)


def unpack(value, spec, iterate):
    """The items of a sequence; their own items are unpacked as the spec says."""
    items = list(iterate(value))
    if len(items) >= spec["min_len"]:
        for index, below in spec["childs"]:
            items[index] = unpack(items[index], below, iterate)
    return items


def unpack_each(values, spec, iterate):
    for value in iterate(values):
        yield unpack(value, spec, iterate)


# ---- Builtins -----------------------------------------------------------------------------------

class KindMeta(TYPE):
    """Lets `type` work with isinstance(), but not make classes."""

    def __call__(cls, *args):
        if len(args) != 1:
            block("builtin", "type", "use a class statement to make a class", TypeError)
        kind = TYPE(args[0])
        return Kind if issubclass(kind, TYPE) else kind         # type(int) could make classes

    def __instancecheck__(cls, value):
        return isinstance(value, TYPE)

    def __subclasscheck__(cls, value):
        return issubclass(value, TYPE)


class Kind(metaclass=KindMeta):
    """type(x), in restricted mode."""


Kind.__name__ = Kind.__qualname__ = "type"


def import_restricted(name, globals=None, locals=None, fromlist=(), level=0):
    policy = State.policy
    if TYPE(name) is not str or level != 0:
        block("import", ".", "relative imports need a package", ImportError)
    if is_from_c(fromlist) and (name.partition(".")[0] not in SENSITIVE or policy.allows(name)):
        return real_import(name, globals, locals, fromlist, 0)
    names = [item for item in fromlist or () if TYPE(item) is str]
    refused = policy.refused(name, names)
    if refused:
        refuse_import(refused[0])
    module, swapped = real_import(name, globals, locals, fromlist, 0), False
    for item in names:
        check_attribute(module, item)
        found = getattr(module, item, NO_DEFAULT)
        if found is not NO_DEFAULT and is_metaclass(found):
            swapped = True
        if found is not NO_DEFAULT and not (isinstance(found, MODULE) and is_permitted(found)):
            check_found(module, item, found)        # else it is an allowed submodule: from os import path
    if swapped:
        parts = Parts()
        parts.__dict__.update({item: without_metaclass(getattr(module, item))
                               for item in names if hasattr(module, item)})
        return parts
    top = name if names else name.partition(".")[0]
    return module if policy.allows(top) else narrow(top)


def refuse_import(target):
    hint = State.policy.hint(target)
    note("import", target, user_line(getframe(2)), LAYER, hint)
    raise ImportError(State.policy.message(target), name=clip(target, LINE_MAX)) from None


def print_restricted(*values, sep=" ", end="\n", file=None, flush=False):
    if file is not None and file is not sys.stdout and file is not sys.stderr:
        get_attribute(file, "write")
    real_print(*values, sep=sep, end=end, file=file, flush=flush)


def leave(code=None):
    raise SystemExit(code)


def refusing(name, hint):
    def refused(*args, **kwargs):
        block("builtin", name, hint)
    refused.__name__ = refused.__qualname__ = name
    return refused


def make_builtins(policy):
    """The builtins of transformed code, guards included."""
    made = {name: getattr(builtins, name) for name in SAFE if hasattr(builtins, name)}
    made.update([(name, value) for name, value in vars(builtins).items()
                 if isinstance(value, TYPE) and issubclass(value, BaseException)])
    made.update([(name, refusing(name, hint)) for name, hint in REFUSED.items()])
    if policy.tiers is not None and "filesystem" in policy.tiers:
        made["open"] = real_open
    made.update({
        "__import__": import_restricted, "print": print_restricted, "type": Kind,
        "getattr": get_attribute, "hasattr": has_attribute, "setattr": set_attribute,
        "delattr": delete_attribute, "exit": leave, "quit": leave, "__name__": "__main__",
        "_getattr_": get_attribute, "_write_": guard_write, "_getitem_": get_item,
        "_getiter_": get_iterator, "_apply_": apply, "_unpack_sequence_": unpack,
        "_iter_unpack_sequence_": unpack_each, "_inplacevar_": inplace_variable,
        "_inplace_attribute_": inplace_attribute, "_inplace_item_": inplace_item,
        "_own_class_": own_class, "_private_": guard_private, "_matched_": matched, "_class_text_": class_text,
        "_metaclass_": metaclass})
    return made


# ---- A run --------------------------------------------------------------------------------------

def names_of_ours():
    return [name for name in list(modules)
            if TYPE(name) is str and name.partition(".")[0] == "RestrictedPython"]


def load():
    """The module transform with our RestrictedPython, or None where there is none.

    SECURITY: a package of the caller with that name must not transform the caller's code. So RestrictedPython is
    looked for in the server's restricted package and in the interpreter only, with the zygote's finders; modules
    already imported under that name are put aside. Nothing is left in sys.modules."""
    if "transform" in Box.rich.Own:
        return Box.rich.own("transform")    # loaded in the zygote
    hidden = {name: modules.pop(name) for name in names_of_ours()}
    before = sys.path, sys.meta_path, sys.path_hooks, sys.path_importer_cache
    sys.path, sys.path_importer_cache = [*Box.transformer, *(Box.path or sys.path)], {}
    sys.meta_path, sys.path_hooks = list(FINDERS), list(HOOKS)
    try:
        real_import("RestrictedPython.transformer")
        return Box.rich.own("transform")
    except ImportError:
        return None
    finally:
        sys.path, sys.meta_path, sys.path_hooks, sys.path_importer_cache = before
        for name in names_of_ours():
            del modules[name]
        modules.update(hidden)


def transform():
    if State.module is None:
        State.module = load()
    return State.module


def begin(policy):
    """Called before a run. Returns None, or why it cannot run."""
    if transform() is None:
        return MISSING
    State.policy, State.plain = policy, {}      # own classes of earlier runs stay own
    State.builtins = make_builtins(policy)
    Box.main.__dict__["__builtins__"] = State.builtins
    return None


def end():
    if Box.main is not None:
        Box.main.__dict__["__builtins__"] = builtins
    State.policy = None if not Box.session else State.policy


def violations(source, tree, policy):
    """For check.py: what the transformation refuses. Changes the tree."""
    module = transform()
    if module is None:
        return [{"kind": "setup", "target": "RestrictedPython", "line": 1, "column": 1,
                 "reason": MISSING, "hint": "install it, or use another mode", "layer": LAYER}]
    if tree is None:
        tree = compile(source, "<code>", "exec", ONLY_AST | TOP_LEVEL_AWAIT, True)
    return [*refused_calls(tree, policy), *module.change(tree, policy)]


def refused_calls(tree, policy):
    """Calls of builtins that would be refused at run time. Leaves out names that the code binds itself, and calls
    whose error it may handle."""
    found, bound, todo = [], set(), [tree]
    while todo:
        node = todo.pop()
        kind = TYPE(node).__name__
        if kind == "Call" and TYPE(node.func).__name__ == "Name" and node.func.id in REFUSED:
            found.append(node.func)
        if kind == "Name" and TYPE(node.ctx).__name__ != "Load":
            bound.add(node.id)
        # names of functions, classes, arguments, imports, handlers and patterns
        bound.update([getattr(node, field, None) for field in ("name", "asname", "arg", "rest")
                      if TYPE(getattr(node, field, None)) is str])
        for field in node._fields:
            value = getattr(node, field, None)
            if not (field == "body" and kind.startswith("Try") and node.handlers):
                todo += [item for item in (value if TYPE(value) is list else [value])
                         if hasattr(item, "_fields") and item._fields]
    if policy.tiers is not None and "filesystem" in policy.tiers:
        bound.add("open")
    return [{"kind": "builtin", "target": node.id, "line": node.lineno, "column": node.col_offset + 1,
             "reason": f"'{node.id}' is not available in restricted mode", "hint": REFUSED[node.id],
             "layer": LAYER} for node in found if node.id not in bound]


def to_steps(source, filename, policy):
    """Like source.to_steps(), but transformed; code that the transformation refuses never runs."""
    return plain_steps(source, filename, lambda text, name: transformed(text, name, policy))


def transformed(source, filename, policy):
    tree = compile(source, filename, "exec", ONLY_AST | TOP_LEVEL_AWAIT | Box.futures, True)
    last = tree.body[-1] if tree.body and TYPE(tree.body[-1]).__name__ == "Expr" else None
    is_hidden = last is not None and b";" in source and is_quiet(source, last)
    refused = [dict(item, layer=LAYER) for item in judge(source, policy)]
    refused += transform().change(tree, policy)
    if refused:
        refused.sort(key=lambda item: item["line"])
        Box.rich.own("policed").refuse(refused, filename)
    flags, steps, body = Box.futures | TOP_LEVEL_AWAIT, [], tree.body
    last = body.pop() if last is not None else None
    if body or last is None:
        steps.append(compile(tree, filename, "exec", flags, True))
        flags |= steps[0].co_flags & FUTURES
    if last is not None:
        value = modules["_ast"].Expression(last.value)
        steps.append(compile(value, filename, "eval", flags, True))
        if is_hidden:
            steps.append(None)
    return steps
