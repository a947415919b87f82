// SPDX-License-Identifier: Apache-2.0
//
// visitor_block: the common statements, and functions.  See visitor.h; all others are in
// statements.py.

#include "python/visitor.h"

enum {
    DEEP = 15,        // nested blocks; CPython has 20
    CHAIN = 50,       // elif after elif, from which on the compiler is asked whether it can
    SHOWN_MAX = 100,  // characters of a name in an answer
    LISTED = 200,     // functions in an answer
    LAZY = 0x030e0000 // from this version on nobody evaluates annotations
};

static PyObject *field(PyObject *node, enum visitor_field f)
{
    return visitor_get(node, f);
}

static bool is_constant(PyObject *node)
{
    return visitor_kind_of(node) == K_Constant;
}

// Is it a constant, and what of it?  -1: an error; 0: none; 1: a true one; 2: one that is not.
static int known_truth(PyObject *test)
{
    PyObject *value = is_constant(test) ? field(test, F_value) : NULL;
    if (!value)
        return PyErr_Occurred() ? -1 : 0;
    int truth = PyObject_IsTrue(value);
    return truth < 0 ? -1 : truth ? 1 : 2;
}

// ---- simple ones --------------------------------------------------------------------------------

static int walk_expr(struct visitor *v, PyObject *node)
{
    return visitor_expr_of(v, field(node, F_value));
}

static int walk_assign(struct visitor *v, PyObject *node)
{
    PyObject *value = field(node, F_value), *targets, *only;
    Py_ssize_t count = visitor_list(node, F_targets, &targets);
    size_t from = v->used;
    if (!value || count < 0)
        return -1;
    only = count == 1 ? PyList_GetItem(targets, 0) : NULL;
    if (only && visitor_kind_of(only) == K_Name) {
        PyObject *name = field(only, F_id);
        return !name || visitor_expr_of(v, value) < 0 ? -1 : visitor_bind(v, name);
    }
    if (visitor_push_list(v, targets) < 0 || visitor_push(v, value) < 0) // the value first
        return -1;
    return visitor_expr(v, from, NULL, false);
}

static int walk_aug_assign(struct visitor *v, PyObject *node)
{
    PyObject *target = field(node, F_target), *value = field(node, F_value);
    size_t from = v->used;
    if (!target || !value)
        return -1;
    if (visitor_kind_of(target) != K_Name) {
        if (visitor_push(v, target) < 0 || visitor_push(v, value) < 0)
            return -1;
        return visitor_expr(v, from, NULL, false);
    }
    PyObject *name = field(target, F_id);
    int bound = name ? PySet_Contains(v->scope->maybe, name) : -1;
    if (bound < 0 || (!bound && visitor_miss(v, target, false) < 0) ||
        visitor_expr_of(v, value) < 0)
        return -1;
    return visitor_bind(v, name);
}

static bool are_lazy(const struct visitor *v)
{
    static long version;
    if (!version)
        version = PyLong_AsLong(PySys_GetObject("hexversion"));
    return version >= LAZY || v->future;
}

// What annotations name may be bound later; they are on the stack.
static int annotations(struct visitor *v, size_t from)
{
    if (are_lazy(v))
        v->used = from;
    return v->used > from ? visitor_expr(v, from, NULL, true) : 0;
}

static int walk_ann_assign(struct visitor *v, PyObject *node)
{
    PyObject *target = field(node, F_target), *annotation = field(node, F_annotation);
    size_t from = v->used;
    if (!target || !annotation || visitor_expr_of(v, field(node, F_value)) < 0 ||
        visitor_expr_of(v, target) < 0)
        return -1;
    if (v->scope->kind == SCOPE_FUNCTION)
        return 0;
    return visitor_push(v, annotation) < 0 ? -1 : annotations(v, from);
}

static int walk_return(struct visitor *v, PyObject *node)
{
    v->doubt |= v->scope->kind != SCOPE_FUNCTION || v->scope->is_async;
    return visitor_leave(v) < 0 ? -1 : visitor_expr_of(v, field(node, F_value));
}

// Two expressions, of which either may be missing.
static int expr_two(struct visitor *v, PyObject *first, PyObject *second)
{
    size_t from = v->used;
    if (!first || !second || (second != Py_None && visitor_push(v, second) < 0) ||
        (first != Py_None && visitor_push(v, first) < 0))
        return -1;
    return visitor_expr(v, from, NULL, false);
}

static int walk_raise(struct visitor *v, PyObject *node)
{
    return visitor_leave(v) < 0 ? -1 : expr_two(v, field(node, F_exc), field(node, F_cause));
}

static int walk_assert(struct visitor *v, PyObject *node)
{
    PyObject *test = field(node, F_test);
    v->doubt |= test && visitor_kind_of(test) == K_Tuple;
    return expr_two(v, test, field(node, F_msg));
}

static int walk_pass(struct visitor *v, PyObject *node)
{
    (void)v;
    (void)node;
    return 0;
}

static int walk_jump(struct visitor *v, PyObject *node)
{
    Py_ssize_t loops = PyList_Size(v->endless);
    if (v->scope->loops == 0) {
        v->doubt = true;
    } else if (visitor_kind_of(node) == K_Break && loops > 0) {
        Py_INCREF(Py_True);
        return PyList_SetItem(v->endless, loops - 1, Py_True);
    }
    return 0;
}

// ---- blocks -------------------------------------------------------------------------------------

int visitor_nested(struct visitor *v, PyObject *statements)
{
    struct scope *s = v->scope;
    if (!statements)
        return -1;
    if (++s->depth > DEEP)
        v->doubt = true;
    int r = visitor_block(v, statements);
    s->depth--;
    return r;
}

static int walk_if(struct visitor *v, PyObject *node)
{
    PyObject *orelse;
    Py_ssize_t count;
    for (int chain = 0;; chain++) {
        Py_ssize_t before = PyDict_Size(v->scope->pending);
        PyObject *test = field(node, F_test), *body = field(node, F_body);
        int known = test ? known_truth(test) : -1;
        v->decisions++;
        if (known < 0 || visitor_expr_of(v, test) < 0 || visitor_nested(v, body) < 0)
            return -1;
        if (known == 2 && visitor_forgive(v, before, NULL) < 0)
            return -1; // if False: what is never run
        v->doubt |= chain > CHAIN;
        count = visitor_list(node, F_orelse, &orelse);
        if (count != 1 || visitor_kind_of(PyList_GetItem(orelse, 0)) != K_If)
            break;
        node = PyList_GetItem(orelse, 0); // elif: a tree as deep as the chain is long
    }
    return count <= 0 ? (int)count : visitor_nested(v, orelse);
}

int visitor_loop(struct visitor *v, PyObject *node, PyObject *body, PyObject *orelse,
                 bool is_endless, size_t from)
{
    struct scope *s = v->scope;
    Py_ssize_t before = PyDict_Size(s->pending), mark = PyList_Size(s->order), last;
    if (!body || !orelse || visitor_expr(v, from, NULL, false) < 0)
        return -1;
    v->decisions++;
    if (PyList_Append(v->endless, is_endless ? Py_False : Py_True) < 0)
        return -1;
    s->loops++;
    int r = visitor_nested(v, body);
    s->loops--;
    last = PyList_Size(v->endless) - 1;
    PyObject *ends = r == 0 ? PyList_GetItem(v->endless, last) : NULL;
    bool is_over = ends == Py_True;
    if (!ends || PyList_SetSlice(v->endless, last, last + 1, NULL) < 0)
        return -1;
    if ((!is_over && visitor_call(v, "judge_loop", node, NULL) < 0) ||
        visitor_forgive_since(v, before, mark) < 0)
        return -1;
    return PyList_Size(orelse) > 0 ? visitor_nested(v, orelse) : 0;
}

static int walk_for(struct visitor *v, PyObject *node)
{
    PyObject *target = field(node, F_target), *iter = field(node, F_iter);
    size_t from = v->used;
    // The iterable first, then the target; the loop binds it in any case.
    if (!target || !iter || visitor_push(v, target) < 0 || visitor_push(v, iter) < 0)
        return -1;
    return visitor_loop(v, node, field(node, F_body), field(node, F_orelse), false, from);
}

static int walk_while(struct visitor *v, PyObject *node)
{
    PyObject *test = field(node, F_test);
    Py_ssize_t before = PyDict_Size(v->scope->pending);
    int known = test ? known_truth(test) : -1;
    size_t from = v->used;
    if (known < 0 || visitor_push(v, test) < 0 ||
        visitor_loop(v, node, field(node, F_body), field(node, F_orelse), known == 1, from) < 0)
        return -1;
    return known == 2 ? visitor_forgive(v, before, NULL) : 0; // what is never run
}

// ---- functions ----------------------------------------------------------------------------------

static const enum visitor_field argument_lists[] = {F_posonlyargs, F_args, F_kwonlyargs};
static const enum visitor_field argument_stars[] = {F_vararg, F_kwarg};

// Adds the name to the list, and what is said about its type to the stack.
static int take_argument(struct visitor *v, PyObject *argument, PyObject *names)
{
    PyObject *name = argument ? field(argument, F_arg) : NULL;
    PyObject *annotation = name ? field(argument, F_annotation) : NULL;
    if (!annotation || (annotation != Py_None && visitor_push(v, annotation) < 0))
        return -1;
    return PyList_Append(names, name);
}

static int take_arguments(struct visitor *v, PyObject *args, PyObject *names)
{
    PyObject *list, *one;
    for (size_t part = 0; part < 3; part++) {
        Py_ssize_t count = visitor_list(args, argument_lists[part], &list);
        for (Py_ssize_t i = 0; i < count; i++)
            if (take_argument(v, PyList_GetItem(list, i), names) < 0)
                return -1;
        if (count < 0)
            return -1;
    }
    for (size_t part = 0; part < 2; part++)
        if (!(one = field(args, argument_stars[part])) ||
            (one != Py_None && take_argument(v, one, names) < 0))
            return -1;
    return 0;
}

static int judge_defaults(struct visitor *v, PyObject *node, PyObject *args)
{
    static const enum visitor_field parts[] = {F_defaults, F_kw_defaults};
    PyObject *list;
    for (size_t part = 0; part < 2; part++)
        for (Py_ssize_t i = 0, n = visitor_list(args, parts[part], &list); i < n; i++) {
            PyObject *value = PyList_GetItem(list, i);
            if (value != Py_None && !is_constant(value) &&
                visitor_call(v, "judge_default", node, value) < 0)
                return -1;
        }
    return 0;
}

static int doubt_twice(struct visitor *v, PyObject *names)
{
    Py_ssize_t count = PyList_Size(names);
    PyObject *set = count > 1 ? PySet_New(names) : NULL;
    if (count > 1 && !set)
        return -1;
    if (set && PySet_Size(set) != count)
        v->doubt = true;
    Py_XDECREF(set);
    return 0;
}

// As __qualname__ has it; a new reference.
static PyObject *qualified(struct visitor *v, PyObject *name)
{
    if (v->scope->owner->kind == SCOPE_FUNCTION || PyList_Size(v->class_names) != 0 ||
        PyUnicode_GetLength(name) > SHOWN_MAX)
        return PyObject_CallMethod((PyObject *)v, "qualified", "O", name);
    Py_INCREF(name);
    return name;
}

static int remember_body(struct visitor *v, PyObject *node, PyObject *names, bool is_async)
{
    PyObject *own = field(node, F_name), *name = own ? qualified(v, own) : NULL;
    struct scope *s = NULL;
    PyObject *body = NULL;
    int r = name ? visitor_bind(v, own) : -1;
    if (r == 0)
        s = visitor_new_scope(SCOPE_FUNCTION, v->scope, name, names, is_async);
    body = s ? PyTuple_Pack(3, node, s, name) : NULL;
    r = body && PyList_Append(v->scopes, (PyObject *)s) == 0 ? PyList_Append(v->bodies, body) : -1;
    Py_XDECREF(body);
    Py_XDECREF(s);
    Py_XDECREF(name);
    return r;
}

static int walk_function(struct visitor *v, PyObject *node)
{
    PyObject *args = field(node, F_args), *decorators = field(node, F_decorator_list);
    PyObject *returns = field(node, F_returns), *names = PyList_New(0);
    size_t from = v->used;
    int r = args && decorators && returns && names ? visitor_push_list(v, decorators) : -1;
    if (r == 0)
        r = visitor_arguments(v, args);
    if (r == 0)
        r = judge_defaults(v, node, args);
    if (r == 0 && v->used > from)
        r = visitor_expr(v, from, NULL, false);
    if (r == 0 && returns != Py_None)
        r = visitor_push(v, returns);
    if (r == 0)
        r = take_arguments(v, args, names);
    if (r == 0)
        r = annotations(v, from);
    if (r == 0)
        r = doubt_twice(v, names);
    if (r == 0)
        r = remember_body(v, node, names, visitor_kind_of(node) == K_AsyncFunctionDef);
    Py_XDECREF(names);
    return r;
}

// ---- all of them --------------------------------------------------------------------------------

static int (*const walkers[K_COUNT])(struct visitor *v, PyObject *node) = {
    [K_Expr] = walk_expr,
    [K_Assign] = walk_assign,
    [K_AugAssign] = walk_aug_assign,
    [K_AnnAssign] = walk_ann_assign,
    [K_Return] = walk_return,
    [K_Raise] = walk_raise,
    [K_Assert] = walk_assert,
    [K_Pass] = walk_pass,
    [K_Break] = walk_jump,
    [K_Continue] = walk_jump,
    [K_If] = walk_if,
    [K_For] = walk_for,
    [K_While] = walk_while,
    [K_FunctionDef] = walk_function,
    [K_AsyncFunctionDef] = walk_function,
};

// def f[T](): is known to statements.py.
static bool is_generic(PyObject *node, enum visitor_kind kind)
{
    static bool are_none; // before 3.12
    if (are_none || (kind != K_FunctionDef && kind != K_AsyncFunctionDef))
        return false;
    PyObject *parameters = visitor_get(node, F_type_params);
    if (parameters)
        return PyList_Size(parameters) > 0;
    are_none = PyErr_ExceptionMatches(
        PyExc_AttributeError); // else memory is out, as the next step will say
    PyErr_Clear();
    return false;
}

static int walk_otherwise(struct visitor *v, PyObject *node)
{
    PyObject *walker = PyDict_GetItemWithError(v->walkers, (PyObject *)Py_TYPE(node)), *done;
    if (!walker)
        return PyErr_Occurred() ? -1 : visitor_call(v, "unknown", node, NULL);
    done = PyObject_CallFunctionObjArgs(walker, (PyObject *)v, node, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int walk_statement(struct visitor *v, PyObject *node)
{
    enum visitor_kind kind = visitor_kind_of(node);
    v->track = false;
    if (v->strings != Py_None)
        v->track = visitor_number(node, F_end_lineno) != visitor_number(node, F_lineno);
    return walkers[kind] && !is_generic(node, kind) ? walkers[kind](v, node)
                                                    : walk_otherwise(v, node);
}

int visitor_block(struct visitor *v, PyObject *statements)
{
    Py_ssize_t count = PyList_Size(statements);
    int r = count < 0 || Py_EnterRecursiveCall(" in a block") ? -1 : 0;
    if (r < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count && r == 0; i++)
        r = walk_statement(v, PyList_GetItem(statements, i));
    Py_LeaveRecursiveCall();
    return r;
}

// ---- bodies, some time after their parents ------------------------------------------------------

static int renew(PyObject **list)
{
    PyObject *fresh = PyList_New(0), *old = *list;
    if (!fresh)
        return -1;
    *list = fresh;
    Py_XDECREF(old);
    return 0;
}

static long count_arguments(PyObject *args)
{
    PyObject *list, *one;
    long count = 0;
    for (size_t part = 0; part < 3; part++)
        count += (long)visitor_list(args, argument_lists[part], &list);
    for (size_t part = 0; part < 2; part++)
        count += (one = field(args, argument_stars[part])) && one != Py_None;
    return count;
}

static int list_function(struct visitor *v, PyObject *node, PyObject *scope, PyObject *name)
{
    PyObject *list = PyDict_GetItemString(v->found, "functions"), *args = field(node, F_args);
    if (!list || !args || PyList_Size(list) >= LISTED || PyUnicode_GetLength(name) > SHOWN_MAX)
        return visitor_call(v, "list_function", node, name);
    PyObject *entry = Py_BuildValue("{s:O,s:l,s:l,s:l,s:l,s:O}", "name", name, "line",
                                    visitor_number(node, F_lineno) + v->offset, "end_line",
                                    visitor_number(node, F_end_lineno) + v->offset, "arguments",
                                    count_arguments(args), "complexity", v->decisions, "async",
                                    ((struct scope *)scope)->is_async ? Py_True : Py_False);
    int r = entry && !PyErr_Occurred() ? PyList_Append(list, entry) : -1;
    Py_XDECREF(entry);
    return r;
}

static int run_body(struct visitor *v, PyObject *body)
{
    PyObject *node = PyTuple_GetItem(body, 0), *scope = PyTuple_GetItem(body, 1),
             *name = PyTuple_GetItem(body, 2);
    PyObject *statements = node && scope && name ? field(node, F_body) : NULL;
    if (!statements || PyObject_SetAttrString((PyObject *)v, "scope", scope) < 0 ||
        renew(&v->endless) < 0 || renew(&v->class_names) < 0)
        return -1;
    v->decisions = 1;
    v->soft_imports = false;
    if (visitor_block(v, statements) < 0)
        return -1;
    v->total += v->decisions;
    if (v->decisions > v->highest)
        v->highest = v->decisions;
    return list_function(v, node, scope, name);
}

int visitor_feed(struct visitor *v, PyObject *tree, long offset)
{
    PyObject *body = field(tree, F_body);
    v->offset = offset;
    v->decisions = 0;
    if (!body || PyObject_SetAttrString((PyObject *)v, "scope", v->module) < 0 ||
        renew(&v->endless) < 0 || renew(&v->class_names) < 0 || visitor_block(v, body) < 0)
        return -1;
    v->total += v->decisions;
    for (Py_ssize_t i = 0; i < PyList_Size(v->bodies); i++) { // which grows meanwhile
        PyObject *next = PyList_GetItem(v->bodies, i);
        Py_INCREF(next);
        int r = run_body(v, next);
        Py_DECREF(next);
        if (r < 0)
            return -1;
    }
    return renew(&v->bodies);
}
