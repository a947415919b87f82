# SPDX-License-Identifier: Apache-2.0
"""scope: the names of a module, a class body or a function, and small helpers, for walk.py.

Used in the user process of a box; the source is not executed.
"""

import _ast

from base import __builtins__           # first: functions look builtins up there

MODULE, FUNCTION, CLASS = range(3)
AST, Name, Tuple, List, Starred = _ast.AST, _ast.Name, _ast.Tuple, _ast.List, _ast.Starred
NONE = frozenset()


class Scope:
    __slots__ = ("kind", "parent", "name", "is_async", "owner", "maybe", "order", "pending", "late",
                 "globals", "outer", "reached", "deleted", "depth", "loops")

    def __init__(self, kind, parent, name="", known=(), is_async=False):
        self.kind, self.parent, self.name, self.is_async = kind, parent, name, is_async
        # Functions in a class body do not see its names, but those of the scope around it.
        self.owner = self if kind != CLASS else parent.owner
        self.maybe = set(known)         # names that may be bound at this point
        self.order = list(known)        # all names ever bound, in order
        # A class body reads other names from the scope around it, at once.
        self.pending = {} if kind != CLASS else self.owner.pending      # name -> (line, column)
        self.late = {}                  # the same for reads that happen later
        # Declared global; declared nonlocal; declared nonlocal by inner functions; deleted. Mostly empty, so
        # sets are made on demand.
        self.globals = self.outer = self.reached = self.deleted = NONE
        self.depth = self.loops = 0


def note(scope, which, names):
    """Adds names to one of these sets."""
    if not getattr(scope, which):
        setattr(scope, which, set())
    getattr(scope, which).update(names)


def delete(scope, name):
    scope.maybe.discard(name)
    note(scope, "deleted", (name,))


def names_of(args):
    names = [item.arg for item in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    names += [item.arg for item in (args.vararg, args.kwarg) if item is not None]
    return names


def push_children(node, stack):
    for field in reversed(node._fields):
        value = getattr(node, field, None)
        if type(value) is list:
            stack += [item for item in reversed(value) if isinstance(item, AST)]
        elif isinstance(value, AST) and value._fields:      # contexts and operators have none
            stack.append(value)


def gather_targets(target, names, rest):
    """Collects the names that a comprehension binds; other targets, x[i] and x.y, go to `rest`."""
    todo = [target]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is Name:
            names.add(node.id)
        elif kind is Tuple or kind is List:
            todo += node.elts
        elif kind is Starred:
            todo.append(node.value)
        else:
            rest.append(node)
