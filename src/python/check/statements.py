# SPDX-License-Identifier: Apache-2.0
"""statements: what each kind of statement does with names, for walk.py.

WALKERS is a table of functions that take the Walk and the statement. Used in the user process of a
box; the source is not executed.
"""

import _ast
import sys

from base import __builtins__           # first: functions look builtins up there
from base import clip
from advice import judge_default, judge_handlers, judge_import
from scope import CLASS, FUNCTION, MODULE, Scope, delete, note

NAME_MAX = 100              # characters of a name in an answer
NAMES_MAX = 50              # names of one `from x import a, b, c` in an answer
CHAIN = 50                  # branches of elif above which the compiler has to try
CATCHES = frozenset(("NameError", "UnboundLocalError", "Exception", "BaseException"))
LAZY_ANNOTATIONS = sys.version_info >= (3, 14)
WARNS_OF_FINALLY = sys.version_info >= (3, 14)
TYPE_PARAMETERS = sys.version_info >= (3, 12)
Name, Constant, Tuple = _ast.Name, _ast.Constant, _ast.Tuple


# ---- Simple statements --------------------------------------------------------------------------

def walk_expr(walk, node):
    if type(node.value) is not Constant or walk.track:
        walk.expr([node.value])


def walk_assign(walk, node):
    targets = node.targets
    if len(targets) == 1 and type(targets[0]) is Name:
        if type(node.value) is not Constant or walk.track:
            walk.expr([node.value])
        walk.bind(targets[0].id)
    else:
        walk.expr([*targets[::-1], node.value])         # the value first


def walk_aug_assign(walk, node):
    target = node.target
    if type(target) is not Name:
        walk.expr([target, node.value])
        return
    if target.id not in walk.scope.maybe:
        walk.miss(target)
    if type(node.value) is not Constant or walk.track:
        walk.expr([node.value])
    walk.bind(target.id)


def walk_ann_assign(walk, node):
    if node.value is not None:
        walk.expr([node.value])
    walk.expr([node.target])
    if walk.scope.kind != FUNCTION:
        annotations(walk, [node.annotation])


def annotations(walk, nodes):
    """Their names may be bound later. From 3.14 on, or with __future__, they are not evaluated."""
    nodes = [node for node in nodes if node is not None]
    if nodes and not LAZY_ANNOTATIONS and not walk.future:
        walk.expr(nodes, late=True)


def walk_return(walk, node):
    walk.doubt |= walk.scope.kind != FUNCTION or walk.scope.is_async
    walk.leave()
    if node.value is not None:
        walk.expr([node.value])


def walk_raise(walk, node):
    walk.leave()
    walk.expr([item for item in (node.cause, node.exc) if item is not None])


def walk_assert(walk, node):
    walk.doubt |= type(node.test) is Tuple
    walk.expr([item for item in (node.msg, node.test) if item is not None])


def walk_delete(walk, node):
    walk.expr(node.targets[::-1])


def walk_jump(walk, node):
    if walk.scope.loops == 0:
        walk.doubt = True
    elif type(node) is _ast.Break and walk.endless:
        walk.endless[-1] = True


def walk_pass(walk, node):
    pass


def walk_global(walk, node):
    walk.doubt = True
    note(walk.scope, "globals", node.names)
    walk.forced.update(node.names)


def walk_nonlocal(walk, node):
    walk.doubt = True
    note(walk.scope, "outer", node.names)


def walk_unknown(walk, node):
    """A statement of a later Python: its names count as bound, its parts are not walked."""
    walk.doubt = True
    walk.dynamic = walk.dynamic or f"this check does not know {type(node).__name__}"


# ---- Imports ------------------------------------------------------------------------------------

def walk_import(walk, node):
    for alias in node.names:
        name = alias.name
        walk.bind(alias.asname or name.partition(".")[0])
        walk.list("imports", {"module": clip(name, NAME_MAX), "names": [],
                              "line": node.lineno + walk.offset, "level": 0})
        judge_import(walk, node, name, ())
        if name == "builtins":
            walk.dynamic = walk.dynamic or "builtins is imported"


def walk_import_from(walk, node):
    names = [alias.name for alias in node.names]
    module = node.module or ""
    for alias in node.names:
        if alias.name == "*":
            walk.dynamic = walk.dynamic or f"from {clip(module, NAME_MAX)} import *"
            walk.doubt |= walk.scope.kind != MODULE
        else:
            walk.bind(alias.asname or alias.name)
    if module == "__future__":
        walk.doubt = True
        walk.future |= "annotations" in names
    walk.list("imports", {"module": clip(module, NAME_MAX),
                          "names": [clip(name, NAME_MAX) for name in names[:NAMES_MAX]],
                          "line": node.lineno + walk.offset, "level": node.level})
    if not node.level:
        judge_import(walk, node, module, [name for name in names if name != "*"])


# ---- Blocks -------------------------------------------------------------------------------------

def walk_if(walk, node):
    scope, chain = walk.scope, 0
    while True:
        walk.decisions += 1
        before = len(scope.pending)
        walk.expr([node.test])
        walk.nested(node.body)
        if type(node.test) is Constant and not node.test.value:
            walk.forgive(before)        # if False: never runs
        if len(node.orelse) != 1 or type(node.orelse[0]) is not _ast.If:
            break
        node, chain = node.orelse[0], chain + 1         # elif: a tree as deep as the chain is long
    walk.doubt |= chain > CHAIN
    if node.orelse:
        walk.nested(node.orelse)


def walk_for(walk, node):
    # The iterable first, then the target; the loop binds it in any case.
    walk.doubt |= type(node) is _ast.AsyncFor and not walk.scope.is_async
    walk.loop(node, [node.target, node.iter], node.body, node.orelse)


def walk_while(walk, node):
    test = node.test
    before, is_known = len(walk.scope.pending), type(test) is Constant
    walk.loop(node, [test], node.body, node.orelse, is_endless=is_known and bool(test.value))
    if is_known and not test.value:
        walk.forgive(before)            # never runs


def walk_with(walk, node):
    walk.doubt |= type(node) is _ast.AsyncWith and not walk.scope.is_async
    scope, suppresses = walk.scope, False
    before = len(scope.pending)
    for item in node.items:
        call = item.context_expr
        func = getattr(call, "func", None)
        suppresses |= "suppress" in (getattr(func, "attr", None), getattr(func, "id", None))
        walk.expr([call] if item.optional_vars is None else [item.optional_vars, call])
    walk.nested(node.body)
    if suppresses:
        walk.forgive(before)


def caught_names(handlers):
    """The last parts of the names of caught exceptions; None among them: everything."""
    names = set()
    for handler in handlers:
        kinds = handler.type.elts if type(handler.type) is Tuple else [handler.type]
        names.update([None if kind is None else getattr(kind, "id", getattr(kind, "attr", ""))
                      for kind in kinds])
    return names


def walk_try(walk, node):
    scope = walk.scope
    before = len(scope.pending)
    caught = caught_names(node.handlers) if node.handlers else ()
    imports = walk.soft_imports
    if caught and (None in caught or not IMPORT_CATCHES.isdisjoint(caught)):
        walk.soft_imports = True        # the code handles a missing module
    walk.nested(node.body)
    walk.soft_imports = imports
    if caught and (None in caught or not CATCHES.isdisjoint(caught)):
        walk.forgive(before)
    if node.handlers:
        judge_handlers(walk, node)
    for handler in node.handlers:
        walk.decisions += 1
        if handler.type is not None:
            walk.expr([handler.type])
        name = handler.name
        if name is None:
            walk.nested(handler.body)
            continue
        was_there = name in scope.maybe
        walk.bind(name)
        walk.nested(handler.body)
        if not was_there:
            delete(scope, name)         # as the end of a handler does
    walk.nested(node.orelse, node.finalbody)
    walk.doubt |= bool(node.finalbody) and WARNS_OF_FINALLY


IMPORT_CATCHES = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))


def walk_try_star(walk, node):
    walk.doubt = True
    walk_try(walk, node)


def walk_match(walk, node):
    walk.doubt = True
    walk.expr([node.subject])
    for case in node.cases:
        walk.decisions += 1
        walk.expr([item for item in (case.guard, case.pattern) if item is not None])
        walk.nested(case.body)


# ---- Definitions --------------------------------------------------------------------------------

def type_parameters(walk, node):
    """def f[T](): T counts as bound everywhere."""
    for parameter in getattr(node, "type_params", ()):
        walk.doubt = True
        walk.bind(parameter.name)
        for part in "bound", "default_value":
            if getattr(parameter, part, None) is not None:
                walk.expr([getattr(parameter, part)], late=True)


def qualified(walk, name):
    """The __qualname__, clipped."""
    is_inner = walk.scope.owner.kind == FUNCTION
    if not is_inner and not walk.class_names:
        return clip(name, 2 * NAME_MAX)
    outer = [*walk.class_names, name]
    if is_inner:
        outer.insert(0, f"{walk.scope.owner.name}.<locals>")
    return clip(".".join(outer), 2 * NAME_MAX)


def walk_function(walk, node):
    args, stack = node.args, node.decorator_list[::-1]
    if TYPE_PARAMETERS:
        type_parameters(walk, node)
    if args.defaults or args.kw_defaults:
        walk.arguments(args, stack)
        for value in (*args.defaults, *args.kw_defaults):
            if value is not None and type(value) is not Constant:
                judge_default(walk, node, value)
    if stack:
        walk.expr(stack)
    every = args.args
    if args.posonlyargs or args.kwonlyargs or args.vararg is not None or args.kwarg is not None:
        every = [*args.posonlyargs, *every, *args.kwonlyargs]
        every += [item for item in (args.vararg, args.kwarg) if item is not None]
    annotated = [item.annotation for item in every if item.annotation is not None]
    if annotated or node.returns is not None:
        annotations(walk, [node.returns, *annotated])
    names = [item.arg for item in every]
    if len(names) > 1:
        walk.doubt |= len(set(names)) != len(names)
    name = qualified(walk, node.name)
    walk.bind(node.name)
    scope = Scope(FUNCTION, walk.scope, name, names, type(node) is _ast.AsyncFunctionDef)
    walk.scopes.append(scope)
    walk.bodies.append((node, scope, name))


def walk_class(walk, node):
    type_parameters(walk, node)
    walk.expr([*node.keywords, *node.bases[::-1], *node.decorator_list[::-1]])
    outer, loops = walk.scope, walk.endless
    name = qualified(walk, node.name)
    walk.list("classes", {"name": name, "line": node.lineno + walk.offset,
                          "end_line": node.end_lineno + walk.offset,
                          "methods": len([item for item in node.body if type(item) in FUNCTIONS])})
    walk.scope, walk.endless = Scope(CLASS, outer), []
    walk.scope.depth = outer.depth + 1
    walk.class_names.append(node.name)
    walk.block(node.body)
    walk.class_names.pop()
    walk.scope, walk.endless = outer, loops
    walk.bind(node.name)


def walk_type_alias(walk, node):
    walk.doubt = True
    type_parameters(walk, node)
    walk.expr([node.name])
    walk.expr([node.value], late=True)


FUNCTIONS = frozenset((_ast.FunctionDef, _ast.AsyncFunctionDef))
BY_NAME = {
    "Expr": walk_expr, "Assign": walk_assign, "AugAssign": walk_aug_assign,
    "AnnAssign": walk_ann_assign, "Return": walk_return, "Raise": walk_raise,
    "Assert": walk_assert, "Delete": walk_delete, "Break": walk_jump, "Continue": walk_jump,
    "Pass": walk_pass, "Global": walk_global, "Nonlocal": walk_nonlocal,
    "Import": walk_import, "ImportFrom": walk_import_from, "If": walk_if, "For": walk_for,
    "AsyncFor": walk_for, "While": walk_while, "With": walk_with, "AsyncWith": walk_with,
    "Try": walk_try, "TryStar": walk_try_star, "Match": walk_match,
    "FunctionDef": walk_function, "AsyncFunctionDef": walk_function, "ClassDef": walk_class,
    "TypeAlias": walk_type_alias,
}
WALKERS = {getattr(_ast, name): walker for name, walker in BY_NAME.items() if hasattr(_ast, name)}
