# SPDX-License-Identifier: Apache-2.0
"""transform: how restricted mode changes a syntax tree: RestrictedPython with additions.

Imported by restricted.py, in the user process of a box, where RestrictedPython is installed.
Harmless with our guards, so allowed here: x.y += 1 and x[i] += 1, annotations, nonlocal, match, async,
methods such as __repr__ and __enter__, `if __name__ == "__main__"`, classes with the metaclass of
their bases, print as a plain function, names such as _helper, and self._x in the code's own classes,
which is checked at run time. Unpacking and loops stay as they are: they need no guard. Everything
that leads into the interpreter stays refused, and so does unknown syntax.
"""

import _ast

from base import __builtins__           # first: functions look builtins up there
from base import clip
from restricted import CLASS_NAMES, INSIDES, LAYER, METHODS, PLAIN_NAMES, is_private
from RestrictedPython.transformer import IOPERATOR_TO_STR, RestrictingNodeTransformer
from RestrictedPython.transformer import copy_locations

NAME_MAX = 100
Name, Load, Store, Constant, Call = _ast.Name, _ast.Load, _ast.Store, _ast.Constant, _ast.Call
ABSTRACT = "ABCMeta", "EnumMeta", "EnumType"
CLASS_TEXTS = "__name__", "__qualname__"
HINTS = {
    "attribute": "restricted mode does not allow attributes that lead into the interpreter",
    "name": "choose a name that does not begin with an underscore",
    "*": "import by name: from math import pi, sqrt",
    "syntax": "write it without this statement; restricted mode allows only a part of Python",
    "builtin": "code cannot be run from strings; write the code out",
}


def call(name, args, at):
    node = Call(func=Name(name, Load()), args=args, keywords=[])
    copy_locations(node, at)
    return node


class Transformer(RestrictingNodeTransformer):
    def __init__(self, policy):
        super().__init__()
        self.policy, self.refused = policy, []
        self.classes = []               # names of the classes around a node

    def refuse(self, kind, target, node, reason):
        self.refused.append({
            "kind": kind, "target": clip(str(target), NAME_MAX),
            "line": getattr(node, "lineno", None) or 1,
            "column": (getattr(node, "col_offset", None) or 0) + 1,
            "reason": clip(reason.rstrip("."), 300), "layer": LAYER,
            "hint": HINTS["*" if target == "*" else kind]})

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
        # Names of guards end with an underscore and cannot be bound.
        if name in ("print", "printed", "_") or name and is_private(name) and name[-1] != "_":
            return
        if self.classes and (name in CLASS_NAMES or name in METHODS):
            return          # such as __rmul__ = __mul__
        if allow_magic_methods and name in METHODS and node.col_offset != 0:
            return
        super().check_name(node, name, allow_magic_methods)

    def visit_Name(self, node):
        if node.id in ("print", "printed") or (node.id == "__name__" and type(node.ctx) is Load):
            return node
        if is_private(node.id) and node.id[-1] != "_" or node.id in CLASS_NAMES or node.id in METHODS:
            self.check_name(node, node.id)
            return node
        return super().visit_Name(node)

    def inject_print_collector(self, node, position=0):
        pass

    def visit_Attribute(self, node):
        name = node.attr = self.mangle(node.attr)
        if name in CLASS_TEXTS and type(node.ctx) is Load and type(node.value) is _ast.Attribute and \
                node.value.attr == "__class__":
            # self.__class__.__name__ is common: gives the text without the class.
            return call("_class_text_", [self.visit(node.value.value), Constant(name)], node)
        if is_private(name) and name not in PLAIN_NAMES:
            node = self.node_contents_visit(node)
            if type(node.ctx) is Load:
                return call("_getattr_", [node.value, Constant(name)], node)
            node.value = call("_private_", [node.value, Constant(name)], node)
            return node
        is_plain = name in PLAIN_NAMES or name == "__init__"
        if type(node.ctx) is Load and (is_plain or name in METHODS and is_super(node.value)):
            node = self.node_contents_visit(node)
            return call("_getattr_", [node.value, Constant(name)], node)
        if name in INSIDES:
            self.refuse("attribute", name, node, f'"{name}" leads into the interpreter')
        return super().visit_Attribute(node)

    def mangle(self, name):
        """Mangles __name in a class as the compiler does, which does not mangle strings."""
        own = self.classes[-1].lstrip("_") if self.classes else ""
        return f"_{own}{name}" if own and name[:2] == "__" and name[-2:] != "__" else name

    # ---- assignments, loops

    def visit_Assign(self, node):
        return self.node_contents_visit(node)

    visit_For = visit_comprehension = visit_With = visit_Assign
    visit_AsyncFor = visit_AsyncWith = visit_Await = visit_Assign

    def visit_AugAssign(self, node):
        target = node.target
        name = self.mangle(target.attr) if type(target) is _ast.Attribute else ""
        if name and (name[:1] != "_" or name == "_" or is_private(name)) and name not in INSIDES:
            args = [self.visit(target.value), Constant(name)]
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
        """The index in brackets, as an expression."""
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
        names = {item.arg: last_name(item.value) for item in node.keywords}
        self.classes.append(node.name)
        node = self.node_contents_visit(node)
        self.classes.pop()
        for item in node.keywords:
            if item.arg == "metaclass":
                # Its name gives Kind, which makes no classes: see restricted.without_metaclass().
                item.value = call("_metaclass_", [item.value, Constant(names["metaclass"])], item.value)
        mark = Name("_own_class_", Load())
        copy_locations(mark, node)
        node.decorator_list.append(mark)
        return node

    def visit_Yield(self, node):
        if not self.policy.generators:
            self.refuse("syntax", "yield", node, "generators are not allowed")
        return self.node_contents_visit(node)

    visit_YieldFrom = visit_Yield

    def visit_FunctionDef(self, node):
        self.check_name(node, node.name, allow_magic_methods=True)
        self.check_function_argument_names(node)
        if getattr(node, "type_params", None):
            self.refuse("syntax", "type parameters", node, "type parameters are not allowed")
        return self.node_contents_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    # ---- match: patterns are checked but not changed
    #
    # SECURITY: a class pattern reads attributes of any instance of the class without _getattr_:
    # `case object(gi_frame=f)`. So modules, functions and frames must not be instances of the class, which is
    # checked at run time.

    def visit_Match(self, node):
        classes = []
        for case in node.cases:
            self.check_pattern(case.pattern, classes)
        subject = self.visit(node.subject)
        node.subject = call("_matched_", [subject, *classes], node.subject) if classes else subject
        for case in node.cases:
            case.guard = case.guard and self.visit(case.guard)
            case.body = [part for statement in case.body for part in as_list(self.visit(statement))]
        return node

    def check_pattern(self, pattern, classes):
        todo = [pattern]
        while todo:
            node = todo.pop()
            for name in getattr(node, "name", None), getattr(node, "rest", None), \
                    getattr(node, "id", None):
                if type(name) is str:
                    self.check_name(node, name)
            for name in getattr(node, "kwd_attrs", ()):
                if name[:1] == "_" or name in INSIDES:
                    self.refuse("attribute", name, node, f'"{name}" cannot be used in a pattern')
            if getattr(node, "patterns", None) and hasattr(node, "cls") or getattr(node, "kwd_attrs", None):
                names = [Constant(name) for name in getattr(node, "kwd_attrs", ())]
                classes.append(_ast.Tuple([self.visit(copy_expr(node.cls)), *names], Load()))
                copy_locations(classes[-1], node)
            if type(node) is _ast.Attribute:
                if node.attr[:1] == "_" or node.attr in INSIDES:
                    self.refuse("attribute", node.attr, node, f'"{node.attr}" cannot be used')
            for field in node._fields:
                value = getattr(node, field, None)
                todo += [item for item in (value if type(value) is list else [value])
                         if isinstance(item, _ast.AST) and item._fields]


def copy_expr(node):
    """A copy of the class in a pattern: a name, or attributes of one."""
    if type(node) is _ast.Attribute:
        made = _ast.Attribute(copy_expr(node.value), node.attr, Load())
    else:
        made = Name(node.id, Load())
    copy_locations(made, node)
    return made


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
