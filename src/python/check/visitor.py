# SPDX-License-Identifier: Apache-2.0
"""visitor: the pass over expressions and functions, for walk.py.

SECURITY: the tree comes from foreign code, so expressions of any depth are walked with an explicit
stack. Statements are walked by recursion: CPython allows 100 levels of indentation, and chains of elif
are a loop here. walk.py has the attributes of `self`. This is the hot loop of a check: a node is
dispatched on its type, the most frequent types first, and bound names and constants skip the stack.
"""

import _ast
from itertools import islice

from base import __builtins__           # first: functions look builtins up there
from advice import LITERALS
from scope import CLASS, gather_targets, names_of, push_children

DEEP = 15                   # nested blocks; CPython has 20

# The classes of syntax trees, bound once.
Name, Constant, Attribute, Call, BinOp, Subscript = (
    _ast.Name, _ast.Constant, _ast.Attribute, _ast.Call, _ast.BinOp, _ast.Subscript)
Tuple, List, Set, Starred, Compare, BoolOp = (
    _ast.Tuple, _ast.List, _ast.Set, _ast.Starred, _ast.Compare, _ast.BoolOp)
ListComp, SetComp, DictComp, GeneratorExp, Lambda, NamedExpr = (
    _ast.ListComp, _ast.SetComp, _ast.DictComp, _ast.GeneratorExp, _ast.Lambda, _ast.NamedExpr)
JoinedStr, FormattedValue, Await, Yield, YieldFrom = (
    _ast.JoinedStr, _ast.FormattedValue, _ast.Await, _ast.Yield, _ast.YieldFrom)
Load, Store = _ast.Load, _ast.Store
COMPREHENSIONS = frozenset((ListComp, SetComp, DictComp, GeneratorExp))
SEQUENCES = frozenset((Tuple, List, Set))
UNUSUAL = frozenset((NamedExpr, Yield, YieldFrom, Await, Starred))      # in a comprehension
IDENTITY = frozenset((_ast.Is, _ast.IsNot))
SINGLE = frozenset((type(None), bool, type(...)))       # constants that `is` may compare


def is_odd_identity(node):
    """`x is 1`: the compiler warns of it."""
    if not any([type(item) in IDENTITY for item in node.ops]):
        return False
    return any([type(item) is Constant and type(item.value) not in SINGLE or type(item) is Tuple
                for item in (node.left, *node.comparators)])


class Visitor:
    """The base class of Walk, with what is called for every node."""

    # ---- names

    def bind(self, name):
        scope = self.scope
        if name not in scope.maybe:
            scope.maybe.add(name)
            scope.order.append(name)

    def miss(self, node, late=False):
        """Notes that a name is read before this scope binds it."""
        scope, name = self.scope, node.id
        if scope.kind == CLASS and name in scope.owner.maybe:
            return
        if late:
            scope.owner.late.setdefault(name, (node.lineno + self.offset, node.col_offset + 1))
        elif name not in scope.pending:
            scope.pending[name] = node.lineno + self.offset, node.col_offset + 1

    def forgive(self, before, names=None):
        """Removes the pending names added since there were `before` of them."""
        pending = self.scope.pending
        if len(pending) > before:
            for name in list(islice(reversed(pending), len(pending) - before)):
                if names is None or name in names:
                    del pending[name]

    # ---- expressions

    def expr(self, stack, hidden=None, late=False):
        """Walks expressions in the order of evaluation, the last on the stack first. `hidden`: names of the
        comprehensions and lambdas around them."""
        later, before, mark = None, len(self.scope.pending), len(self.scope.order)
        maybe, pending, pop, push = self.scope.maybe, self.scope.pending, stack.pop, stack.append
        leaf = None if self.track else Constant         # a type that can be skipped
        while stack:
            node = pop()
            kind = type(node)
            if kind is Attribute:
                node = node.value
                while type(node) is Attribute:
                    node = node.value
                kind = type(node)
            if kind is Name:
                context = type(node.ctx)
                if context is Load:
                    name = node.id
                    if name not in maybe and (hidden is None or name not in hidden) and \
                            (late or name not in pending):
                        self.miss(node, late)
                elif context is Store:
                    self.store(node, hidden)
                else:
                    self.remove(node)
            elif kind is Call:
                # Most arguments are bound names and constants: they do not go on the stack.
                func, items = node.func, node.args
                kind = type(func)
                if kind is Name:
                    if func.id in self.calls:
                        self.judge_call(node, func.id)
                elif kind is Attribute:
                    if func.attr in self.calls:
                        self.judge_call(node, func.attr)
                elif kind in LITERALS:
                    self.doubt = True
                if node.keywords:
                    self.keywords(node.keywords, stack)
                if len(items) > 1:
                    items = reversed(items)
                for item in items:
                    kind = type(item)
                    if kind is Starred:
                        push(item.value)
                    elif kind is not leaf and (kind is not Name or item.id not in maybe):
                        push(item)
                if type(func) is not Name or func.id not in maybe:
                    push(func)
            elif kind is Constant:
                if self.track and node.end_lineno != node.lineno:
                    self.strings.append((node.lineno + self.offset, node.end_lineno + self.offset))
            elif kind is BinOp:
                for item in node.right, node.left:
                    kind = type(item)
                    if kind is not leaf and (kind is not Name or item.id not in maybe):
                        push(item)
            elif kind is FormattedValue:
                if node.format_spec is not None:
                    push(node.format_spec)
                push(node.value)
            elif kind is Subscript:
                item = node.slice
                if type(item) is not leaf:
                    push(item)
                push(node.value)
                if type(node.value) in LITERALS:
                    self.doubt = True
            elif kind in SEQUENCES:
                # A star is valid in a display; elsewhere the compiler may object.
                stack += [item.value if type(item) is Starred and type(item.ctx) is Load else item
                          for item in reversed(node.elts) if type(item) is not leaf]
            elif kind is JoinedStr:
                if self.track and node.end_lineno != node.lineno:
                    self.strings.append((node.lineno + self.offset, node.end_lineno + self.offset))
                stack += [item for item in reversed(node.values) if type(item) is not Constant]
            elif kind is Compare:
                for item in *reversed(node.comparators), node.left:
                    kind = type(item)
                    if kind is not leaf and (kind is not Name or item.id not in maybe):
                        push(item)
                for item in node.ops:
                    if type(item) in IDENTITY:
                        self.doubt |= is_odd_identity(node)
            elif kind is BoolOp:
                self.decisions += len(node.values) - 1
                stack += node.values[::-1]
            elif kind in COMPREHENSIONS:
                later = [] if later is None else later
                self.comprehension(node, kind, stack, later, hidden, late)
            elif kind is Lambda:
                later = [] if later is None else later
                self.function(node, stack, later, hidden)
            else:
                self.other(node, stack)
        if later:
            for stack, names, is_late in later:         # grows in the loop
                self.expr_within(stack, names, is_late or late, later)
            # Names that these bind may be bound before the rest of the expression reads them.
            if len(self.scope.order) > mark:
                self.forgive(before, frozenset(self.scope.order[mark:]))

    def expr_within(self, stack, names, late, later):
        """Like expr() inside a comprehension or lambda; inner ones go to the end of `later`, without
        recursion."""
        scope = self.scope
        maybe, pending = scope.maybe, scope.pending
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind is Name:
                if type(node.ctx) is Load:
                    name = node.id
                    if name not in maybe and name not in names and (late or name not in pending):
                        self.miss(node, late)
                elif type(node.ctx) is Store:
                    self.store(node, names)
            elif kind is Call:
                self.call(node, stack)
            elif kind in COMPREHENSIONS:
                self.comprehension(node, kind, stack, later, names, late)
            elif kind is Lambda:
                self.function(node, stack, later, names)
            elif kind is Constant:
                if self.track and node.end_lineno != node.lineno:
                    self.strings.append((node.lineno + self.offset, node.end_lineno + self.offset))
            else:
                if kind is BoolOp:
                    self.decisions += len(node.values) - 1
                if kind in UNUSUAL or kind is Compare and is_odd_identity(node) or \
                        kind is Subscript and type(node.value) in LITERALS:
                    self.doubt = True
                if kind is NamedExpr:
                    names.add(node.target.id)
                    self.bind(node.target.id)
                push_children(node, stack)

    def store(self, node, hidden):
        if hidden is None or node.id not in hidden:
            self.bind(node.id)

    def call(self, node, stack):
        """A call within a comprehension or lambda."""
        func = node.func
        name = getattr(func, "id", None) or getattr(func, "attr", None)
        if name in self.calls:
            self.judge_call(node, name)
        elif type(func) in LITERALS:
            self.doubt = True
        if node.keywords:
            self.keywords(node.keywords, stack)
        stack += [item.value if type(item) is Starred else item for item in reversed(node.args)]
        stack.append(func)

    def keywords(self, keywords, stack):
        stack += [item.value for item in reversed(keywords)]
        if len(keywords) > 1 and len({item.arg for item in keywords}) != len(keywords):
            self.doubt = True

    def function(self, node, stack, later, hidden):
        """A lambda: its body runs later."""
        self.arguments(node.args, stack)
        names = names_of(node.args)
        self.doubt |= len(set(names)) != len(names)
        later.append(([node.body], set(names).union(hidden or ()), True))

    def comprehension(self, node, kind, stack, later, hidden, late):
        """The first iterable is evaluated here, everything else inside."""
        inner, targets = [], set(hidden or ())
        if kind is DictComp:
            inner += [node.value, node.key]
        else:
            inner.append(node.elt)
        for generator in reversed(node.generators):
            self.decisions += 1 + len(generator.ifs)
            inner += generator.ifs[::-1]
            inner.append(generator.iter)
            self.doubt |= bool(generator.is_async)
            gather_targets(generator.target, targets, inner)
        inner.remove(node.generators[0].iter)
        stack.append(node.generators[0].iter)
        later.append((inner, targets, late or kind is GeneratorExp))

    def arguments(self, args, stack):
        """Defaults, which are evaluated where the function is defined."""
        stack += [value for value in (*args.kw_defaults, *args.defaults) if value is not None]

    def leave(self):
        """Notes an exit from every loop of this function."""
        self.endless[:] = [True] * len(self.endless)

    # ---- statements

    def block(self, statements):
        long_strings = self.strings is not None
        for node in statements:
            self.track = long_strings and node.end_lineno != node.lineno
            walker = self.walkers.get(type(node))
            if walker is None:
                self.unknown(node)
            else:
                walker(self, node)

    def nested(self, *blocks):
        scope = self.scope
        scope.depth += 1
        if scope.depth > DEEP:
            self.doubt = True
        for block in blocks:
            if block:
                self.block(block)
        scope.depth -= 1

    def run_body(self, node, scope, name):
        """Walks the body of a function, after that of its parent."""
        self.scope, self.decisions, self.endless, self.class_names = scope, 1, [], []
        self.soft_imports = False
        self.block(node.body)
        self.total += self.decisions
        self.highest = max(self.highest, self.decisions)
        self.list_function(node, name)

    def feed(self, tree, offset=0):
        self.offset, self.scope, self.endless, self.decisions = offset, self.module, [], 0
        self.class_names = []
        self.block(tree.body)
        self.total += self.decisions
        for node, scope, name in self.bodies:           # grows in the loop
            self.run_body(node, scope, name)
        self.bodies.clear()
