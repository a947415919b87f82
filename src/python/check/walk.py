# SPDX-License-Identifier: Apache-2.0
"""walk: one pass over the syntax tree of a source, for check.py: names, complexity, advice.

Called in the user process of a box; the source is not executed. visitor.py has the hot half.

How names are followed: each function, class body and the module is a Scope. Its statements are walked
in the order in which they run. A name that is read before anything binds it is "pending"; it is
decided when all bindings are known. There must be no false reports, so
  1. branches are not told apart: a name that any branch binds counts as bound from there on;
  2. a name that a loop binds counts as bound in the whole loop;
  3. bodies of functions, lambdas and generators run later: any binding outside of them counts;
  4. a `try` that catches NameError may read any name;
  5. `del` counts only where it certainly runs; where names can appear unseen (exec, globals(),
     `import *`) nothing is reported.
"""

import _ast
import builtins

from base import __builtins__           # first: functions look builtins up there
from base import clip
from advice import NOTABLE, judge_call, judge_default, judge_loop
from scope import FUNCTION, MODULE, Scope, delete, note, push_children
from statements import WALKERS, qualified, walk_unknown
from visitor import Visitor

NAME_MAX = 100              # characters of a name in an answer
LISTED = {"functions": 200, "classes": 100, "imports": 200, "violations": 100,
          "recommendations": 100}
NAMES_MAX = 100             # names in an answer
SAME_RULE_MAX = 10          # recommendations of one kind

# Names that modules, class bodies and methods have without binding them.
GIVEN = frozenset("""__name__ __file__ __doc__ __builtins__ __spec__ __loader__ __package__
    __annotations__ __debug__ __class__ __module__ __qualname__ __path__ __dict__ __cached__
    __conditional_annotations__ __classdict__ display exit quit copyright credits license help
    In Out _ __ ___ _i _ii _iii _ih _oh get_ipython WindowsError""".split())
DYNAMIC = frozenset(("exec", "globals", "locals", "vars", "dir", "__builtins__", "execfile"))

IfExp, NamedExpr, Await, Yield, YieldFrom, Starred = (
    _ast.IfExp, _ast.NamedExpr, _ast.Await, _ast.Yield, _ast.YieldFrom, _ast.Starred)


def is_bound(name, scope):
    """Is the name ever bound in the scope?"""
    return name in scope.maybe or name in scope.deleted


def first_of(item):
    return item[0]


class Walk(Visitor):
    """The pass. feed() takes the trees of the parts of a source, finish() returns the findings."""

    # Methods from other files: their first argument is the Walk.
    judge_call, judge_loop, judge_default = judge_call, judge_loop, judge_default
    unknown, qualified = walk_unknown, qualified

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
        self.track = False              # this statement may contain such a string
        self.forced = set()             # names that functions declare global
        self.dynamic = None             # why names cannot be followed
        self.future = False             # from __future__ import annotations
        self.doubt = False              # the compiler may object
        self.endless = []               # for each loop around: does it have an exit?
        self.walkers = WALKERS
        self.class_names = []
        self.soft_imports = False       # within a try that catches ImportError

    # ---- findings

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

    def list_function(self, node, name):
        """Called when its body has been walked."""
        args = node.args
        self.list("functions", {
            "name": clip(name, NAME_MAX), "line": node.lineno + self.offset,
            "end_line": node.end_lineno + self.offset,
            "arguments": len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) +
            (args.vararg is not None) + (args.kwarg is not None),
            "complexity": self.decisions, "async": self.scope.is_async})

    # ---- rare nodes

    def remove(self, node):
        scope, name = self.scope, node.id
        if name not in scope.maybe:
            self.miss(node)
        elif scope.depth == 0:
            delete(scope, name)

    def other(self, node, stack):
        kind = type(node)
        if kind is IfExp:
            self.decisions += 1
            stack += (node.orelse, node.body, node.test)
        elif kind is NamedExpr:
            stack += (node.target, node.value)          # the value is walked first
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

    def loop(self, node, first, body, orelse, is_endless=False):
        scope = self.scope
        before, mark = len(scope.pending), len(scope.order)
        self.expr(first)
        self.decisions += 1
        self.endless.append(not is_endless)
        scope.loops += 1
        self.nested(body)
        scope.loops -= 1
        if not self.endless.pop():
            judge_loop(self, node)
        if len(scope.order) > mark:
            self.forgive(before, frozenset(scope.order[mark:]))
        if orelse:
            self.nested(orelse)

    # ---- the end

    def finish(self):
        """(the first names that are read before anything binds them, number of all); None where names
        cannot be followed."""
        module, found = self.module, []
        for scope in reversed(self.scopes):
            self.close(scope, found)
        given, names = vars(builtins), self.policy.names
        for reads in module.pending, module.late:
            for name, at in reads.items():
                if name in DYNAMIC:
                    self.dynamic = self.dynamic or f"{name} is used"
                if name not in given and name not in GIVEN and name not in self.forced and \
                        name not in names and not (reads is module.late and is_bound(name, module)):
                    found.append((at, name, module))
        if self.dynamic is not None:
            return None
        found.sort(key=first_of)
        return [self.describe(*item) for item in found[:NAMES_MAX]], len(found)

    @staticmethod
    def close(scope, found):
        """Resolves a function: names that it does not bind come from the scope around it."""
        if scope.kind != FUNCTION:
            return
        outer = scope.parent.owner
        up = outer.late
        while outer is not None and scope.outer:
            note(outer, "reached", scope.outer)         # an inner function can bind them at any time
            outer = outer.parent and outer.parent.owner
        maybe, deleted, reached = scope.maybe, scope.deleted, scope.reached
        not_own = scope.globals.union(scope.outer) if scope.globals or scope.outer else ()
        for reads in scope.pending, scope.late:
            for name, at in reads.items():
                if name in reached:
                    continue
                if name in not_own or name not in maybe and name not in deleted:
                    if name not in up:
                        up[name] = at
                elif reads is scope.pending:
                    found.append((at, name, scope))

    @staticmethod
    def describe(at, name, scope):
        where = f"in {scope.name}()" if scope.kind == FUNCTION else "at the top level"
        if not is_bound(name, scope):
            kind, text = "undefined", "is not defined anywhere"
        elif name in scope.deleted:
            kind, text = "deleted", f"is used {where} after it was deleted"
        else:
            kind, text = "unassigned", f"is used {where} before it is assigned"
        return {"name": clip(name, NAME_MAX), "line": at[0], "column": at[1], "kind": kind,
                "message": clip(f"'{name}' {text}", 3 * NAME_MAX)}
