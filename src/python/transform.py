# SPDX-License-Identifier: Apache-2.0
"""transform: how restricted mode changes a syntax tree: RestrictedPython, and what it lacks.

Imported by restricted.py, in the user process of a box, where RestrictedPython is installed.
Refused there and harmless with our guards, so allowed here: x.y += 1 and x[i] += 1, annotations,
nonlocal, match, methods such as __repr__ and __enter__, `if __name__ == "__main__"`, classes with
any metaclass that their bases have, print as a plain function. Refused stays all that leads to the
insides of the interpreter, and whatever neither knows.
"""

import _ast

from base import __builtins__           # first: functions look builtins up there
from base import clip
from restricted import INSIDES, LAYER, METHODS, PLAIN_NAMES
from RestrictedPython.transformer import IOPERATOR_TO_STR, RestrictingNodeTransformer
from RestrictedPython.transformer import copy_locations

NAME_MAX = 100
Name, Load, Store, Constant, Call = _ast.Name, _ast.Load, _ast.Store, _ast.Constant, _ast.Call
ABSTRACT = "ABCMeta", "EnumMeta", "EnumType"
HINTS = {
    "attribute": "attributes that lead to the insides of objects cannot be used in restricted mode",
    "name": "choose a name that does not begin with an underscore",
    "syntax": "write it without this statement; restricted mode knows a part of Python only",
    "builtin": "there is no way to run text here; write the code out",
}


def call(name, args, place):
    node = Call(func=Name(name, Load()), args=args, keywords=[])
    copy_locations(node, place)
    return node


class Transformer(RestrictingNodeTransformer):
    def __init__(self, policy):
        super().__init__()
        self.policy, self.refused = policy, []

    def refuse(self, kind, target, node, reason):
        self.refused.append({
            "kind": kind, "target": clip(str(target), NAME_MAX),
            "line": getattr(node, "lineno", None) or 1,
            "column": (getattr(node, "col_offset", None) or 0) + 1,
            "reason": clip(reason.rstrip("."), 300), "hint": HINTS[kind], "layer": LAYER})

    def error(self, node, info):
        """Every refusal of RestrictedPython itself."""
        kind, target = "syntax", type(node).__name__
        if type(node) is _ast.Attribute:
            kind, target = "attribute", node.attr
        elif type(node) is Name:
            kind, target = "name", node.id
        elif info.startswith(("Exec", "Eval")):
            kind, target = "builtin", info.partition(" ")[0].lower()
        elif '"' in info:
            kind, target = "name", info.split('"')[1]
        self.refuse(kind, target, node, info)

    def warn(self, node, info):
        pass

    # ---- names

    def check_name(self, node, name, allow_magic_methods=False):
        if name in ("print", "printed", "_"):
            return
        if allow_magic_methods and name in METHODS and node.col_offset != 0:
            return
        super().check_name(node, name, allow_magic_methods)

    def visit_Name(self, node):
        if node.id in ("print", "printed") or (node.id == "__name__" and type(node.ctx) is Load):
            return node
        return super().visit_Name(node)

    def inject_print_collector(self, node, position=0):
        pass

    def visit_Attribute(self, node):
        name = node.attr
        is_plain = name in PLAIN_NAMES or name == "__init__"
        if type(node.ctx) is Load and (is_plain or name in METHODS and is_super(node.value)):
            node = self.node_contents_visit(node)
            return call("_getattr_", [node.value, Constant(name)], node)
        if name in INSIDES:
            self.refuse("attribute", name, node, f'"{name}" leads to the insides of an object')
        return super().visit_Attribute(node)

    # ---- assignments

    def visit_AugAssign(self, node):
        target = node.target
        if type(target) is _ast.Attribute and (target.attr[:1] != "_" or target.attr == "_") and \
                target.attr not in INSIDES:
            args = [self.visit(target.value), Constant(target.attr)]
            helper = "_inplace_attribute_"
        elif type(target) is _ast.Subscript:
            args = [self.visit(target.value), self.visit_index(target.slice)]
            helper = "_inplace_item_"
        else:
            return super().visit_AugAssign(node)
        op = Constant(IOPERATOR_TO_STR[type(node.op)])
        done = call(helper, [op, *args, self.visit(node.value)], node)
        statement = _ast.Expr(done)
        copy_locations(statement, node)
        return statement

    def visit_index(self, index):
        """What stands in brackets, as an expression."""
        if type(index).__name__ == "Index":             # until 3.8
            index = index.value
        if type(index) is _ast.Slice:
            ends = [Constant(None) if end is None else self.visit(end)
                    for end in (index.lower, index.upper, index.step)]
            return call("slice", ends, index)
        if type(index) is _ast.Tuple:
            index.elts = [self.visit_index(item) for item in index.elts]
            return index
        return self.visit(index)

    def visit_AnnAssign(self, node):
        node.target = self.visit(node.target)
        node.annotation = self.visit(node.annotation)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Nonlocal(self, node):
        for name in node.names:
            self.check_name(node, name)
        return node

    def visit_Global(self, node):
        for name in node.names:
            self.check_name(node, name)
        return node

    def visit_Constant(self, node):
        return node

    # ---- classes, generators

    def visit_ClassDef(self, node):
        self.check_name(node, node.name)
        for item in node.keywords:
            is_meta = item.arg == "metaclass" and last_name(item.value) not in ABSTRACT
            if is_meta or item.arg is None:
                self.refuse("syntax", "metaclass", node, "metaclasses are not allowed")
        if getattr(node, "type_params", None):
            self.refuse("syntax", "type parameters", node, "type parameters are not allowed")
        node = self.node_contents_visit(node)
        mark = Name("_own_class_", Load())
        copy_locations(mark, node)
        node.decorator_list.append(mark)
        return node

    def visit_Yield(self, node):
        if not self.policy.generators:
            self.refuse("syntax", "yield", node, "generators are not allowed")
        return self.node_contents_visit(node)

    visit_YieldFrom = visit_Yield

    # ---- match: patterns stay as they are, so that what they name is only checked

    def visit_Match(self, node):
        node.subject = self.visit(node.subject)
        for case in node.cases:
            self.check_pattern(case.pattern)
            case.guard = case.guard and self.visit(case.guard)
            case.body = [part for statement in case.body for part in as_list(self.visit(statement))]
        return node

    def check_pattern(self, pattern):
        todo = [pattern]
        while todo:
            node = todo.pop()
            for name in getattr(node, "name", None), getattr(node, "rest", None), \
                    getattr(node, "id", None), *getattr(node, "kwd_attrs", ()):
                if type(name) is str:
                    self.check_name(node, name)
            if type(node) is _ast.Attribute:
                if node.attr[:1] == "_" or node.attr in INSIDES:
                    self.refuse("attribute", node.attr, node, f'"{node.attr}" cannot be used')
            for field in node._fields:
                value = getattr(node, field, None)
                todo += [item for item in (value if type(value) is list else [value])
                         if isinstance(item, _ast.AST) and item._fields]


def as_list(found):
    return found if isinstance(found, list) else [] if found is None else [found]


def is_super(node):
    return type(node) is Call and type(node.func) is Name and node.func.id == "super"


def last_name(node):
    return getattr(node, "attr", getattr(node, "id", ""))


def change(tree, policy):
    """Transforms the tree in place; returns what is refused."""
    transformer = Transformer(policy)
    try:
        transformer.visit(tree)
    except RecursionError:
        transformer.refuse("syntax", "nesting", tree, "nested too deeply for restricted mode")
    return transformer.refused
