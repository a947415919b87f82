# SPDX-License-Identifier: Apache-2.0
"""walk: one pass over the syntax tree of a source, for check.py: names, complexity, advice.

Called in the user process of a box; nothing of the source is executed. The tree comes from foreign
text, so expressions are walked with a stack of our own, whatever their depth. Statements are
walked by recursion: CPython bounds their indentation by 100, and chains of elif are a loop here.

How names are followed: each function, class body and the module is a Scope. Its statements are
gone through in the order in which they run. A name that is read and was bound by nothing before is
"pending"; what becomes of it is seen when all bindings are known. It shall never cry wolf, so
  1. branches are not told apart: what any of them binds counts as bound from there on;
  2. what a loop binds counts as bound in all of the loop;
  3. bodies of functions, lambdas and generators run later: any binding outside of them counts;
  4. a `try` that catches NameError may read what it likes;
  5. del counts only where it surely happens; where names come out of nowhere (exec, globals(),
     `import *`) there is no report at all.
"""

import _ast
from itertools import islice

from base import __builtins__           # first: functions look builtins up there
from base import clip
from advice import LITERALS, NOTABLE, judge_call, judge_loop
from scope import CLASS, FUNCTION, MODULE, Scope, gather_targets, names_of, push_children
from statements import WALKERS, walk_unknown

NAME_MAX = 100              # characters of a name in an answer
LISTED = {"functions": 200, "classes": 100, "imports": 200, "violations": 100,
          "recommendations": 100}
SAME_RULE_MAX = 10          # recommendations of one kind
DEEP = 15                   # nested blocks; CPython has 20

# What a module has without binding it, and what class bodies and methods have.
GIVEN = frozenset("""__name__ __file__ __doc__ __builtins__ __spec__ __loader__ __package__
    __annotations__ __debug__ __class__ __module__ __qualname__ __path__ __dict__ __cached__
    __conditional_annotations__ __classdict__ display exit quit copyright credits license help
    In Out _ __ ___ _i _ii _iii _ih _oh get_ipython WindowsError""".split())
DYNAMIC = frozenset(("exec", "globals", "locals", "vars", "dir", "__builtins__", "execfile"))

# The classes of syntax trees, bound once; those of later versions may be missing.
Name, Constant, Attribute, Call, keyword, BinOp, Subscript = (
    _ast.Name, _ast.Constant, _ast.Attribute, _ast.Call, _ast.keyword, _ast.BinOp, _ast.Subscript)
Tuple, List, Set, Starred, Compare, BoolOp, IfExp = (
    _ast.Tuple, _ast.List, _ast.Set, _ast.Starred, _ast.Compare, _ast.BoolOp, _ast.IfExp)
ListComp, SetComp, DictComp, GeneratorExp, Lambda, NamedExpr = (
    _ast.ListComp, _ast.SetComp, _ast.DictComp, _ast.GeneratorExp, _ast.Lambda, _ast.NamedExpr)
JoinedStr, FormattedValue, Dict, Await, Yield, YieldFrom, Is, IsNot = (
    _ast.JoinedStr, _ast.FormattedValue, _ast.Dict, _ast.Await, _ast.Yield, _ast.YieldFrom,
    _ast.Is, _ast.IsNot)
Load, Store = _ast.Load, _ast.Store
COMPREHENSIONS = frozenset((ListComp, SetComp, DictComp, GeneratorExp))
SEQUENCES = frozenset((Tuple, List, Set))
UNUSUAL = frozenset((NamedExpr, Yield, YieldFrom, Await, Starred))      # in a comprehension
SINGLE = frozenset((type(None), bool, type(...)))       # of which there is one each


def is_odd_identity(node):
    """`x is 1`, of which the compiler warns."""
    return any([type(item) is Constant and type(item.value) not in SINGLE or type(item) is Tuple
                for item in (node.left, *node.comparators)])


class Walk:
    """The pass. feed() takes the trees of a source's parts, finish() says what was found."""

    def __init__(self, policy, has_long_strings=True):
        self.policy = policy
        self.module = Scope(MODULE, None)
        self.scopes = [self.module]
        self.scope = self.module
        self.calls = NOTABLE | policy.denied_calls
        self.offset = 0                 # lines before this part
        self.bodies = []                # functions that are still to be walked
        self.decisions = self.total = self.highest = 0
        self.found = {key: [] for key in LISTED}
        self.omitted = {}
        self.rules = {}                 # rule -> how often
        self.strings = [] if has_long_strings else None         # first and last lines
        self.track = False              # a string of this statement may be such
        self.forced = set()             # names that functions declare global
        self.dynamic = None             # why names cannot be followed
        self.future = False             # from __future__ import annotations
        self.doubt = False              # the compiler may have more to say
        self.endless = []               # loops without an end so far: what judge_loop() needs
        self.class_names = []
        self.soft_imports = False       # within a try that catches ImportError

    # ---- what was found

    def list(self, key, entry):
        if len(self.found[key]) < LISTED[key]:
            self.found[key].append(entry)
        else:
            self.omitted[key] = self.omitted.get(key, 0) + 1

    def advise(self, rule, node, message):
        self.rules[rule] = self.rules.get(rule, 0) + 1
        if self.rules[rule] <= SAME_RULE_MAX:
            self.list("recommendations", {
                "rule": rule, "line": node.lineno + self.offset, "column": node.col_offset + 1,
                "message": message})

    def violate(self, kind, target, node, reason, hint):
        self.list("violations", {
            "kind": kind, "target": clip(target, NAME_MAX), "line": node.lineno + self.offset,
            "column": node.col_offset + 1, "reason": reason, "hint": hint, "layer": "python"})

    # ---- names

    def bind(self, name):
        scope = self.scope
        if name not in scope.maybe:
            scope.maybe.add(name)
            scope.order.append(name)

    def miss(self, node, late=False):
        """A name is read that nothing has bound yet in this scope."""
        scope, name = self.scope, node.id
        if scope.kind == CLASS and name in scope.owner.maybe:
            return
        if late:
            scope.owner.late.setdefault(name, (node.lineno + self.offset, node.col_offset + 1))
        elif name not in scope.pending:
            scope.pending[name] = node.lineno + self.offset, node.col_offset + 1

    def forgive(self, before, names=None):
        """Takes pending names back that came since there were `before` of them."""
        pending = self.scope.pending
        if len(pending) > before:
            for name in list(islice(pending, before, None)):
                if names is None or name in names:
                    del pending[name]

    # ---- expressions

    def expr(self, stack, hidden=None, late=False):
        """Walks expressions; the last one first, in the order of evaluation. `hidden` are names of
        the comprehensions and lambdas around them."""
        later, before, mark = None, len(self.scope.pending), len(self.scope.order)
        maybe, pending, pop, push = self.scope.maybe, self.scope.pending, stack.pop, stack.append
        leaf = None if self.track else Constant         # what needs no look at all
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
                # Names that are bound, and constants, are most of all: they do not go on the stack.
                func, items = node.func, node.args
                kind = type(func)
                if kind is Name:
                    if func.id in self.calls:
                        judge_call(self, node, func.id)
                elif kind is Attribute:
                    if func.attr in self.calls:
                        judge_call(self, node, func.attr)
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
                item = node.right
                kind = type(item)
                if kind is not leaf and (kind is not Name or item.id not in maybe):
                    push(item)
                item = node.left
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
                # A star in a display is fine; anywhere else the compiler may object.
                stack += [item.value if type(item) is Starred and type(item.ctx) is Load else item
                          for item in reversed(node.elts) if type(item) is not leaf]
            elif kind is JoinedStr:
                if self.track and node.end_lineno != node.lineno:
                    self.strings.append((node.lineno + self.offset, node.end_lineno + self.offset))
                stack += [item for item in reversed(node.values) if type(item) is not Constant]
            elif kind is Compare:
                items = node.comparators
                for item in items if len(items) == 1 else items[::-1]:
                    kind = type(item)
                    if kind is not leaf and (kind is not Name or item.id not in maybe):
                        push(item)
                item = node.left
                kind = type(item)
                if kind is not leaf and (kind is not Name or item.id not in maybe):
                    push(item)
                for item in node.ops:
                    if type(item) is Is or type(item) is IsNot:
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
                self.other(node, kind, stack)
        if later:
            for stack, names, is_late in later:         # which grows meanwhile
                self.expr_within(stack, names, is_late or late, later)
            # What these have bound, they may have bound before the rest of the expression read it.
            if len(self.scope.order) > mark:
                self.forgive(before, frozenset(self.scope.order[mark:]))

    def expr_within(self, stack, names, late, later):
        """The same for what is inside of a comprehension or lambda, without recursion into more of
        them: those are put at the end of `later`."""
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

    def remove(self, node):
        scope, name = self.scope, node.id
        if name not in scope.maybe:
            self.miss(node)
        elif scope.depth == 0:
            scope.delete(name)

    def call(self, node, stack):
        """A call within a comprehension or lambda."""
        func = node.func
        name = getattr(func, "id", None) or getattr(func, "attr", None)
        if name in self.calls:
            judge_call(self, node, name)
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
        """The first iterable is evaluated here, all the rest inside."""
        inner, targets = [], set(hidden or ())
        if kind is DictComp:
            inner += [node.value, node.key]
        else:
            inner.append(node.elt)
        for generator in reversed(node.generators):
            self.decisions += 1 + len(generator.ifs)
            inner += generator.ifs[::-1]
            inner.append(generator.iter)
            self.doubt |= generator.is_async
            gather_targets(generator.target, targets, inner)
        inner.remove(node.generators[0].iter)
        stack.append(node.generators[0].iter)
        later.append((inner, targets, late or kind is GeneratorExp))

    def other(self, node, kind, stack):
        if kind is IfExp:
            self.decisions += 1
            stack += (node.orelse, node.body, node.test)
        elif kind is NamedExpr:
            stack += (node.target, node.value)          # the value first
        elif kind is Await:
            self.doubt |= not self.scope.is_async and self.scope.kind != MODULE
            stack.append(node.value)
        elif kind is Yield or kind is YieldFrom:
            self.doubt |= self.scope.kind != FUNCTION or self.scope.is_async
            self.leave()
            if node.value is not None:
                stack.append(node.value)
        else:
            if kind is Starred:
                self.doubt = True
            push_children(node, stack)
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if type(name) is str:       # patterns: MatchAs, MatchStar, MatchMapping
                self.bind(name)

    def arguments(self, args, stack):
        """Defaults, which are evaluated where the function is made."""
        stack += [value for value in (*args.kw_defaults, *args.defaults) if value is not None]

    def leave(self):
        """Something that ends every loop of this function."""
        for loop in self.endless:
            loop["ends"] = True

    # ---- statements

    def block(self, statements):
        long_strings = self.strings is not None
        for node in statements:
            self.track = long_strings and node.end_lineno != node.lineno
            WALKERS.get(type(node), walk_unknown)(self, node)

    def nested(self, *blocks):
        scope = self.scope
        scope.depth += 1
        if scope.depth > DEEP:
            self.doubt = True
        for block in blocks:
            if block:
                self.block(block)
        scope.depth -= 1

    def loop(self, node, first, body, orelse, is_endless=False):
        scope = self.scope
        before, mark = len(scope.pending), len(scope.order)
        loop = {"ends": not is_endless, "node": node}
        self.expr(first)
        self.decisions += 1
        self.endless.append(loop)
        scope.loops += 1
        self.nested(body)
        scope.loops -= 1
        self.endless.pop()
        if not loop["ends"]:
            judge_loop(self, node)
        if len(scope.order) > mark:
            self.forgive(before, frozenset(scope.order[mark:]))
        if orelse:
            self.nested(orelse)

    def run_body(self, node, scope, name):
        """The body of a function, some time after its parent's."""
        self.scope, self.decisions, self.endless, self.class_names = scope, 1, [], []
        self.soft_imports = False
        self.block(node.body)
        self.total += self.decisions
        self.highest = max(self.highest, self.decisions)
        args = node.args
        self.list("functions", {
            "name": clip(name, NAME_MAX), "line": node.lineno + self.offset,
            "end_line": node.end_lineno + self.offset,
            "arguments": len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) +
            (args.vararg is not None) + (args.kwarg is not None),
            "complexity": self.decisions, "async": scope.is_async})

    def feed(self, tree, offset=0):
        self.offset, self.scope, self.endless, self.decisions = offset, self.module, [], 0
        self.class_names = []
        self.block(tree.body)
        self.total += self.decisions
        for node, scope, name in self.bodies:           # which grows meanwhile
            self.run_body(node, scope, name)
        self.bodies.clear()

    # ---- the end

    def finish(self, known):
        """Names that are read before anything binds them; None where it cannot be told."""
        known = self.forced.union(known, GIVEN)
        module, found = self.module, []
        for scope in reversed(self.scopes):
            if scope.kind != FUNCTION:
                continue
            local = set(scope.order).difference(scope.globals, scope.outer)
            outer = scope.parent.owner
            while outer is not None and scope.outer:
                outer.note("reached", scope.outer)      # bound from within, at any time
                outer = outer.parent and outer.parent.owner
            up = scope.parent.owner.late
            for name, place in scope.pending.items():
                if name in local:
                    if name not in scope.reached:
                        found.append((place, name, scope))
                elif name not in scope.reached:
                    up.setdefault(name, place)
            for name, place in scope.late.items():
                if name not in local and name not in scope.reached:
                    up.setdefault(name, place)
        bound = frozenset(module.order)
        for places in module.pending, module.late:
            for name, place in places.items():
                if name in DYNAMIC:
                    self.dynamic = self.dynamic or f"{name} is used"
                if name not in known and not (name in bound and places is module.late):
                    found.append((place, name, module))
        if self.dynamic is not None:
            return None
        return [self.describe(place, name, scope, name in scope.order)
                for place, name, scope in sorted(found, key=lambda item: item[0])]

    @staticmethod
    def describe(place, name, scope, is_bound):
        where = f"in {scope.name}()" if scope.kind == FUNCTION else "at the top level"
        if not is_bound:
            kind, text = "undefined", "is not defined anywhere"
        elif name in scope.deleted:
            kind, text = "deleted", f"is used {where} after it was deleted"
        else:
            kind, text = "unassigned", f"is used {where} before it is assigned"
        return {"name": clip(name, NAME_MAX), "line": place[0], "column": place[1], "kind": kind,
                "message": clip(f"'{name}' {text}", 3 * NAME_MAX)}
