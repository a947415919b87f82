// SPDX-License-Identifier: Apache-2.0
//
// visitor: the hot half of walk.py in C: expressions and the common statements of a syntax tree,
// for any CPython from 3.9 on (limited API).  visitor.py is the same in Python, and a test compares
// the two: what this here does is described there.  Runs in the user process of a box; nothing of
// the tree is executed.
//
// SECURITY: the tree comes from foreign text.  Expressions are walked with a stack of our own,
// whatever their depth; statements by recursion, which the 100 levels of indentation of CPython
// bound.  Nodes are borrowed: the tree stays as it is while it is walked.

#ifndef CONSTRICTOR_PYTHON_VISITOR_H
#define CONSTRICTOR_PYTHON_VISITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

// Classes of _ast that are told apart; those that a version does not have are never met.
#define VISITOR_KINDS(X)                                                                           \
    X(Name)                                                                                        \
    X(Constant)                                                                                    \
    X(Attribute)                                                                                   \
    X(Call)                                                                                        \
    X(keyword)                                                                                     \
    X(BinOp)                                                                                       \
    X(UnaryOp)                                                                                     \
    X(BoolOp)                                                                                      \
    X(Compare)                                                                                     \
    X(Subscript)                                                                                   \
    X(Slice)                                                                                       \
    X(Tuple)                                                                                       \
    X(List)                                                                                        \
    X(Set)                                                                                         \
    X(Dict)                                                                                        \
    X(Starred)                                                                                     \
    X(JoinedStr)                                                                                   \
    X(FormattedValue)                                                                              \
    X(IfExp)                                                                                       \
    X(NamedExpr)                                                                                   \
    X(Await)                                                                                       \
    X(Yield)                                                                                       \
    X(YieldFrom)                                                                                   \
    X(Lambda)                                                                                      \
    X(ListComp)                                                                                    \
    X(SetComp)                                                                                     \
    X(DictComp)                                                                                    \
    X(GeneratorExp)                                                                                \
    X(Load)                                                                                        \
    X(Store)                                                                                       \
    X(Is)                                                                                          \
    X(IsNot)                                                                                       \
    X(Expr)                                                                                        \
    X(Assign)                                                                                      \
    X(AugAssign)                                                                                   \
    X(AnnAssign)                                                                                   \
    X(Return)                                                                                      \
    X(Raise)                                                                                       \
    X(Assert)                                                                                      \
    X(Pass)                                                                                        \
    X(Break)                                                                                       \
    X(Continue)                                                                                    \
    X(If)                                                                                          \
    X(For)                                                                                         \
    X(While)                                                                                       \
    X(FunctionDef)                                                                                 \
    X(AsyncFunctionDef)

// Fields of nodes.
#define VISITOR_FIELDS(X)                                                                          \
    X(annotation)                                                                                  \
    X(arg)                                                                                         \
    X(args)                                                                                        \
    X(attr)                                                                                        \
    X(body)                                                                                        \
    X(cause)                                                                                       \
    X(col_offset)                                                                                  \
    X(comparators)                                                                                 \
    X(ctx)                                                                                         \
    X(decorator_list)                                                                              \
    X(defaults)                                                                                    \
    X(elt)                                                                                         \
    X(elts)                                                                                        \
    X(end_lineno)                                                                                  \
    X(exc)                                                                                         \
    X(format_spec)                                                                                 \
    X(func)                                                                                        \
    X(generators)                                                                                  \
    X(id)                                                                                          \
    X(ifs)                                                                                         \
    X(is_async)                                                                                    \
    X(iter)                                                                                        \
    X(key)                                                                                         \
    X(keys)                                                                                        \
    X(keywords)                                                                                    \
    X(kw_defaults)                                                                                 \
    X(kwarg)                                                                                       \
    X(kwonlyargs)                                                                                  \
    X(left)                                                                                        \
    X(lineno)                                                                                      \
    X(lower)                                                                                       \
    X(msg)                                                                                         \
    X(name)                                                                                        \
    X(operand)                                                                                     \
    X(ops)                                                                                         \
    X(orelse)                                                                                      \
    X(posonlyargs)                                                                                 \
    X(returns)                                                                                     \
    X(right)                                                                                       \
    X(slice)                                                                                       \
    X(step)                                                                                        \
    X(target)                                                                                      \
    X(targets)                                                                                     \
    X(test)                                                                                        \
    X(type_params)                                                                                 \
    X(upper)                                                                                       \
    X(value)                                                                                       \
    X(values)                                                                                      \
    X(vararg)

#define KIND_ENUM(name) K_##name,
#define FIELD_ENUM(name) F_##name,
enum visitor_kind { K_NONE, VISITOR_KINDS(KIND_ENUM) K_COUNT };
enum visitor_field { VISITOR_FIELDS(FIELD_ENUM) F_COUNT };
enum { SCOPE_MODULE, SCOPE_FUNCTION, SCOPE_CLASS };

#define KIND_BIT(k) (1ULL << (k))
_Static_assert(K_COUNT <= 64, "kinds are bits of a word");

// The names of a module, a class body or a function: see scope.py.
struct scope {
    PyObject_HEAD;
    int kind, depth, loops;
    char is_async;
    PyObject *parent, *name;
    struct scope *owner; // itself or one that `parent` holds, so not held
    PyObject *maybe, *order, *pending, *late, *globals, *outer, *reached, *deleted;
};

// The pass: see walk.py, whose Walk is made from it.
struct visitor {
    PyObject_HEAD;
    PyObject *policy, *module, *scopes, *calls, *bodies, *found, *omitted, *rules, *strings,
        *forced, *dynamic, *endless, *class_names, *walkers;
    struct scope *scope;
    long offset, decisions, total, highest;
    size_t copied; // names in the sets of expressions within others
    char track, future, doubt, soft_imports;
    PyObject **stack; // of expressions; borrowed
    size_t used, room;
};

// ---- visitor.c

enum visitor_kind visitor_kind_of(PyObject *node);
// Borrowed; NULL: an error.
PyObject *visitor_get(PyObject *node, enum visitor_field field);
// A field that is a list: its length, or -1.
Py_ssize_t visitor_list(PyObject *node, enum visitor_field field, PyObject **ret);
long visitor_number(PyObject *node, enum visitor_field field); // -1: none
int visitor_push(struct visitor *v, PyObject *node);
int visitor_push_list(struct visitor *v,
                      PyObject *list); // the first one is on top; what is None is left out
int visitor_bind(struct visitor *v, PyObject *name);
int visitor_miss(struct visitor *v, PyObject *node, bool late);
int visitor_forgive(struct visitor *v, Py_ssize_t before, PyObject *names);
int visitor_forgive_since(struct visitor *v, Py_ssize_t before, Py_ssize_t mark);
int visitor_leave(struct visitor *v);
// A method of the Python half; `b` may be NULL.
int visitor_call(struct visitor *v, const char *method, PyObject *a, PyObject *b);
struct scope *visitor_new_scope(int kind, struct scope *parent, PyObject *name, PyObject *known,
                                bool is_async);
// `from` is what the stack has without the expressions.
extern PyObject *visitor_empty; // a frozenset

// ---- visitor_expr.c

int visitor_expr(struct visitor *v, size_t from, PyObject *hidden, bool late);
int visitor_expr_of(struct visitor *v, PyObject *node); // just this one; fine with None
int visitor_arguments(struct visitor *v, PyObject *args);

// ---- visitor_block.c

int visitor_block(struct visitor *v, PyObject *statements);
int visitor_nested(struct visitor *v, PyObject *statements);
int visitor_loop(struct visitor *v, PyObject *node, PyObject *body, PyObject *orelse,
                 bool is_endless, size_t from);
int visitor_feed(struct visitor *v, PyObject *tree, long offset);

// Puts the types Visitor and Scope into the module, once.  Not when it is imported: they need _ast,
// and a zygote for one run would make its hundred classes for nothing.
PyObject *py_know_trees(PyObject *module, PyObject *args);

#endif
