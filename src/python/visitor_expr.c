// SPDX-License-Identifier: Apache-2.0
//
// visitor_expr: expressions, in the order of evaluation.  See visitor.h and visitor.py.

#include <stdlib.h>
#include <string.h>

#include "python/visitor.h"

// What nobody can call or look into, of which the compiler warns.
static const unsigned long long literals =
    KIND_BIT(K_Constant) | KIND_BIT(K_Tuple) | KIND_BIT(K_List) | KIND_BIT(K_Dict) |
    KIND_BIT(K_Set) | KIND_BIT(K_ListComp) | KIND_BIT(K_SetComp) | KIND_BIT(K_DictComp) |
    KIND_BIT(K_GeneratorExp) | KIND_BIT(K_JoinedStr) | KIND_BIT(K_FormattedValue) |
    KIND_BIT(K_Lambda);
// What a comprehension should not have.
static const unsigned long long unusual = KIND_BIT(K_NamedExpr) | KIND_BIT(K_Yield) |
                                          KIND_BIT(K_YieldFrom) | KIND_BIT(K_Await) |
                                          KIND_BIT(K_Starred);

// What is inside of a comprehension or a lambda, and looked at after what is around it.
struct inside {
    PyObject **nodes; // the last one first; borrowed
    size_t count;
    PyObject *names; // a set: those that it binds, and those of what it is in
    bool late;
};

// One pass over an expression.
struct pass {
    PyObject *hidden; // names of the comprehensions and lambdas around it, or NULL
    bool late;        // it runs later
    bool within;      // it is inside of one
    struct inside *later;
    size_t count, room;
};

static bool is_any(PyObject *node, unsigned long long set)
{
    return KIND_BIT(visitor_kind_of(node)) & set;
}

static int push_field(struct visitor *v, PyObject *node, enum visitor_field field)
{
    PyObject *value = visitor_get(node, field);
    return !value ? -1 : value == Py_None ? 0 : visitor_push(v, value);
}

static int push_fields(struct visitor *v, PyObject *node, enum visitor_field field)
{
    PyObject *list = visitor_get(node, field);
    return list ? visitor_push_list(v, list) : -1;
}

// ---- leaves -------------------------------------------------------------------------------------

static int look_at_name(struct visitor *v, PyObject *node, const struct pass *p)
{
    PyObject *name = visitor_get(node, F_id), *context = name ? visitor_get(node, F_ctx) : NULL;
    struct scope *s = v->scope;
    if (!context)
        return -1;
    enum visitor_kind kind = visitor_kind_of(context);
    int hidden;
    if (kind == K_Load || kind == K_Store) {
        int bound = PySet_Contains(s->maybe, name);
        if (bound)
            return bound < 0 ? -1 : 0;
        hidden = p->hidden ? PySet_Contains(p->hidden, name) : 0;
        if (hidden)
            return hidden < 0 ? -1 : 0;
        return kind == K_Load ? visitor_miss(v, node, p->late) : visitor_bind(v, name);
    }
    return p->within ? 0 : visitor_call(v, "remove", node, NULL);
}

static int note_string(struct visitor *v, PyObject *node)
{
    long first = visitor_number(node, F_lineno), last = visitor_number(node, F_end_lineno);
    if (first == last)
        return 0;
    PyObject *place = Py_BuildValue("ll", first + v->offset, last + v->offset);
    int r = place ? PyList_Append(v->strings, place) : -1;
    Py_XDECREF(place);
    return r;
}

// `x is 1`, of which the compiler warns.
static int is_odd_item(PyObject *item)
{
    enum visitor_kind kind = visitor_kind_of(item);
    PyObject *value = kind == K_Constant ? visitor_get(item, F_value) : NULL;
    if (!value)
        return kind == K_Constant ? -1 : kind == K_Tuple;
    return value != Py_None && value != Py_True && value != Py_False && value != Py_Ellipsis;
}

static int is_odd_identity(PyObject *node)
{
    PyObject *left = visitor_get(node, F_left), *list;
    int odd = left ? is_odd_item(left) : -1;
    for (Py_ssize_t i = 0, n = visitor_list(node, F_comparators, &list); i < n && !odd; i++)
        odd = is_odd_item(PyList_GetItem(list, i));
    return odd;
}

// ---- calls --------------------------------------------------------------------------------------

// Is a name given twice?  The compiler knows.
static int doubt_keywords(struct visitor *v, PyObject *keywords, Py_ssize_t count)
{
    PyObject *names = count > 1 ? PySet_New(NULL) : NULL;
    int r = names || count <= 1 ? 0 : -1;
    for (Py_ssize_t i = 0; names && i < count && r == 0; i++) {
        PyObject *name = visitor_get(PyList_GetItem(keywords, i), F_arg);
        r = name ? PySet_Add(names, name) : -1;
    }
    if (names && r == 0 && PySet_Size(names) != count)
        v->doubt = true;
    Py_XDECREF(names);
    return r;
}

static int push_keywords(struct visitor *v, PyObject *node)
{
    PyObject *keywords;
    Py_ssize_t count = visitor_list(node, F_keywords, &keywords);
    for (Py_ssize_t i = count; i-- > 0;)
        if (push_field(v, PyList_GetItem(keywords, i), F_value) < 0)
            return -1;
    return count < 0 ? -1 : doubt_keywords(v, keywords, count);
}

static int judge_call(struct visitor *v, PyObject *node, PyObject *func, enum visitor_kind kind)
{
    PyObject *name = NULL;
    if (kind == K_Name || kind == K_Attribute) {
        name = visitor_get(func, kind == K_Name ? F_id : F_attr);
        int notable = name ? PySet_Contains(v->calls, name) : -1;
        return notable <= 0 ? notable : visitor_call(v, "judge_call", node, name);
    }
    if (KIND_BIT(kind) & literals)
        v->doubt = true;
    return 0;
}

static int look_at_call(struct visitor *v, PyObject *node)
{
    PyObject *func = visitor_get(node, F_func), *args;
    if (!func || judge_call(v, node, func, visitor_kind_of(func)) < 0 || push_keywords(v, node) < 0)
        return -1;
    Py_ssize_t n = visitor_list(node, F_args, &args);
    if (n < 0)
        return -1;
    while (n-- > 0) {
        PyObject *item = PyList_GetItem(args, n);
        if (visitor_kind_of(item) == K_Starred)
            item = visitor_get(item, F_value); // fine here
        if (!item || visitor_push(v, item) < 0)
            return -1;
    }
    return visitor_push(v, func);
}

// ---- what is looked at later --------------------------------------------------------------------

// Takes the nodes above `from` off the stack, and `names`.
static int keep_for_later(struct visitor *v, struct pass *p, size_t from, PyObject *names,
                          bool late)
{
    size_t count = v->used - from;
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 8;
        struct inside *later = realloc(p->later, room * sizeof *later);
        if (later) {
            p->later = later;
            p->room = room;
        }
    }
    PyObject **nodes = malloc((count ? count : 1) * sizeof *nodes);
    v->used = from;
    if (!nodes || p->count == p->room) {
        free(nodes);
        Py_DECREF(names);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(nodes, v->stack + from, count * sizeof *nodes);
    p->later[p->count++] = (struct inside){nodes, count, names, late};
    return 0;
}

// Names that a comprehension binds; the rest, x[i] and x.y, is walked: it goes on the stack.
static int gather_targets(struct visitor *v, PyObject *target, PyObject *names)
{
    size_t todo_count = 0, todo_room = 16;
    PyObject **todo = malloc(todo_room * sizeof *todo), *list;
    int r = todo ? 0 : -1;
    if (r == 0)
        todo[todo_count++] = target;
    while (r == 0 && todo_count) {
        PyObject *node = todo[--todo_count], *value;
        enum visitor_kind kind = visitor_kind_of(node);
        Py_ssize_t n = kind == K_Tuple || kind == K_List ? visitor_list(node, F_elts, &list) : 1;
        if (n < 0 || todo_count + (size_t)n > todo_room) {
            todo_room = 2 * (todo_count + (size_t)(n < 0 ? 0 : n));
            PyObject **more = n < 0 ? NULL : realloc(todo, todo_room * sizeof *todo);
            if (!more) {
                r = -1;
                break;
            }
            todo = more;
        }
        if (kind == K_Name) {
            value = visitor_get(node, F_id);
            r = value ? PySet_Add(names, value) : -1;
        } else if (kind == K_Tuple || kind == K_List) {
            for (Py_ssize_t i = 0; i < n; i++)
                todo[todo_count++] = PyList_GetItem(list, i);
        } else if (kind == K_Starred) {
            value = visitor_get(node, F_value);
            r = value ? 0 : -1;
            todo[todo_count++] = value;
        } else {
            r = visitor_push(v, node);
        }
    }
    free(todo);
    if (r < 0 && !PyErr_Occurred())
        PyErr_NoMemory();
    return r;
}

static int push_generator(struct visitor *v, PyObject *generator, bool first, PyObject *names)
{
    PyObject *ifs, *target = visitor_get(generator, F_target);
    Py_ssize_t count = visitor_list(generator, F_ifs, &ifs);
    long is_async = visitor_number(generator, F_is_async);
    if (count < 0 || is_async < 0 || !target)
        return -1;
    v->decisions += 1 + count;
    v->doubt |= is_async != 0;
    if (visitor_push_list(v, ifs) < 0 || (!first && push_field(v, generator, F_iter) < 0))
        return -1;
    return gather_targets(v, target, names);
}

// The names that are seen inside: those of what is around it, and its own.  Each has a set for
// itself, unless there are so many that thousands of them within another would fill the memory:
// then they share one, and of names that are not bound some go unreported.
static PyObject *new_names(struct visitor *v, PyObject *hidden)
{
    enum { COPIED_MAX = 1 << 18 };
    if (hidden && (v->copied += (size_t)PySet_Size(hidden)) > COPIED_MAX) {
        Py_INCREF(hidden);
        return hidden;
    }
    return PySet_New(hidden);
}

// The first iterable is evaluated here, all the rest inside.
static int look_at_comprehension(struct visitor *v, PyObject *node, enum visitor_kind kind,
                                 struct pass *p)
{
    size_t from = v->used;
    PyObject *names = new_names(v, p->hidden), *generators, *iter;
    int r = !names ? -1
            : kind == K_DictComp
                ? (push_field(v, node, F_value) < 0 ? -1 : push_field(v, node, F_key))
                : push_field(v, node, F_elt);
    Py_ssize_t count = r == 0 ? visitor_list(node, F_generators, &generators) : -1;
    for (Py_ssize_t i = count; i-- > 0 && r == 0;)
        r = push_generator(v, PyList_GetItem(generators, i), i == 0, names);
    if (r < 0 || count <= 0) {
        Py_XDECREF(names);
        v->used = from;
        return -1;
    }
    if (keep_for_later(v, p, from, names, p->late || kind == K_GeneratorExp) < 0)
        return -1;
    iter = visitor_get(PyList_GetItem(generators, 0), F_iter);
    return iter ? visitor_push(v, iter) : -1;
}

int visitor_arguments(struct visitor *v, PyObject *args)
{
    static const enum visitor_field parts[] = {F_kw_defaults, F_defaults};
    PyObject *list;
    for (size_t part = 0; part < 2; part++)
        for (Py_ssize_t i = 0, n = visitor_list(args, parts[part], &list); i < n || n < 0; i++) {
            PyObject *value = n < 0 ? NULL : PyList_GetItem(list, i);
            if (!value || (value != Py_None && visitor_push(v, value) < 0))
                return -1;
        }
    return 0;
}

// A lambda: its body runs later.
static int look_at_lambda(struct visitor *v, PyObject *node, struct pass *p)
{
    static const enum visitor_field lists[] = {F_posonlyargs, F_args, F_kwonlyargs};
    static const enum visitor_field stars[] = {F_vararg, F_kwarg};
    PyObject *args = visitor_get(node, F_args), *own = PySet_New(NULL), *names = NULL, *list, *one;
    Py_ssize_t count = 0;
    int r = args && own ? visitor_arguments(v, args) : -1;
    for (size_t part = 0; part < 3 && r == 0; part++) {
        Py_ssize_t n = visitor_list(args, lists[part], &list);
        r = n < 0 ? -1 : 0;
        count += n;
        for (Py_ssize_t i = 0; i < n && r == 0; i++)
            r = (one = visitor_get(PyList_GetItem(list, i), F_arg)) ? PySet_Add(own, one) : -1;
    }
    for (size_t part = 0; part < 2 && r == 0; part++) {
        one = visitor_get(args, stars[part]);
        if (one && one != Py_None && ++count)
            one = visitor_get(one, F_arg);
        r = !one ? -1 : one == Py_None ? 0 : PySet_Add(own, one);
    }
    if (r == 0 && PySet_Size(own) != count)
        v->doubt = true; // one of them twice
    if (r == 0 && p->hidden) {
        names = new_names(v, p->hidden);
        PyObject *done = names ? PyObject_CallMethod(names, "update", "O", own) : NULL;
        Py_XDECREF(done);
        Py_DECREF(own);
        own = names;
        r = done ? 0 : -1;
    }
    size_t from = v->used;
    if (r < 0 || push_field(v, node, F_body) < 0) {
        Py_XDECREF(own);
        return -1;
    }
    return keep_for_later(v, p, from, own, true);
}

// ---- the rest -----------------------------------------------------------------------------------

static int look_at_elements(struct visitor *v, PyObject *node, bool within)
{
    PyObject *list;
    Py_ssize_t n = visitor_list(node, F_elts, &list);
    if (n < 0)
        return -1;
    while (n-- > 0) {
        PyObject *item = PyList_GetItem(list, n);
        // A star in a display is fine; anywhere else the compiler may object.
        if (!within && visitor_kind_of(item) == K_Starred) {
            PyObject *context = visitor_get(item, F_ctx);
            if (context && visitor_kind_of(context) == K_Load)
                item = visitor_get(item, F_value);
            if (!context || !item)
                return -1;
        }
        if (visitor_push(v, item) < 0)
            return -1;
    }
    return 0;
}

static int look_at_compare(struct visitor *v, PyObject *node)
{
    PyObject *ops;
    int odd = 0;
    if (push_fields(v, node, F_comparators) < 0 || push_field(v, node, F_left) < 0)
        return -1;
    Py_ssize_t n = visitor_list(node, F_ops, &ops);
    Py_ssize_t at = 0;
    while (at < n && !is_any(PyList_GetItem(ops, at), KIND_BIT(K_Is) | KIND_BIT(K_IsNot)))
        at++;
    if (at < n)
        odd = is_odd_identity(node); // once: it looks at all of them
    if (odd > 0)
        v->doubt = true;
    return odd < 0 || n < 0 ? -1 : 0;
}

static int look_at_subscript(struct visitor *v, PyObject *node)
{
    PyObject *value = visitor_get(node, F_value);
    if (value && is_any(value, literals))
        v->doubt = true;
    return !value || push_field(v, node, F_slice) < 0 ? -1 : visitor_push(v, value);
}

// A := within a comprehension binds outside of it, and is seen in it.
static int look_at_walrus(struct visitor *v, PyObject *node, const struct pass *p)
{
    PyObject *target = visitor_get(node, F_target), *name;
    if (!target || !p->within)
        return !target || visitor_push(v, target) < 0 ? -1 : push_field(v, node, F_value);
    name = visitor_get(target, F_id);
    if (!name || PySet_Add(p->hidden, name) < 0 || visitor_bind(v, name) < 0)
        return -1;
    return push_field(v, node, F_value) < 0 ? -1 : visitor_push(v, target);
}

static int look_at_yield(struct visitor *v, PyObject *node, bool within)
{
    if (!within) {
        v->doubt |= v->scope->kind != SCOPE_FUNCTION || v->scope->is_async;
        if (visitor_leave(v) < 0)
            return -1;
    }
    return push_field(v, node, F_value);
}

// Of a later version, or part of a pattern: the Python half knows, or takes whatever is in it.
static int look_at_other(struct visitor *v, PyObject *node)
{
    PyObject *list = PyList_New(0);
    int r = list ? visitor_call(v, "other", node, list) : -1;
    for (Py_ssize_t i = 0, n = r == 0 ? PyList_Size(list) : 0; i < n && r == 0; i++)
        r = visitor_push(v, PyList_GetItem(list, i));
    Py_XDECREF(list);
    return r;
}

static int look_at(struct visitor *v, PyObject *node, struct pass *p)
{
    enum visitor_kind kind = visitor_kind_of(node);
    PyObject *values;
    Py_ssize_t n;
    if (p->within && KIND_BIT(kind) & unusual)
        v->doubt = true;
    switch ((int)kind) { // the statements are none of these
    case K_Name: return look_at_name(v, node, p);
    case K_Constant: return v->track ? note_string(v, node) : 0;
    case K_Attribute:
    case K_keyword: return push_field(v, node, F_value);
    case K_Call: return look_at_call(v, node);
    case K_BinOp: return push_field(v, node, F_right) < 0 ? -1 : push_field(v, node, F_left);
    case K_UnaryOp: return push_field(v, node, F_operand);
    case K_Compare: return look_at_compare(v, node);
    case K_BoolOp:
        n = visitor_list(node, F_values, &values);
        v->decisions += n - 1;
        return n < 0 ? -1 : visitor_push_list(v, values);
    case K_Subscript: return look_at_subscript(v, node);
    case K_Slice:
        return push_field(v, node, F_step) < 0 || push_field(v, node, F_upper) < 0
                   ? -1
                   : push_field(v, node, F_lower);
    case K_Tuple:
    case K_List:
    case K_Set: return look_at_elements(v, node, p->within);
    case K_Dict: return push_fields(v, node, F_values) < 0 ? -1 : push_fields(v, node, F_keys);
    case K_JoinedStr:
        return v->track && !p->within && note_string(v, node) < 0 ? -1
                                                                  : push_fields(v, node, F_values);
    case K_FormattedValue:
        return push_field(v, node, F_format_spec) < 0 ? -1 : push_field(v, node, F_value);
    case K_IfExp:
        if (!p->within)
            v->decisions++;
        return push_field(v, node, F_orelse) < 0 || push_field(v, node, F_body) < 0
                   ? -1
                   : push_field(v, node, F_test);
    case K_NamedExpr: return look_at_walrus(v, node, p);
    case K_Await:
        v->doubt |= !v->scope->is_async && v->scope->kind != SCOPE_MODULE;
        return push_field(v, node, F_value);
    case K_Yield:
    case K_YieldFrom: return look_at_yield(v, node, p->within);
    case K_Lambda: return look_at_lambda(v, node, p);
    case K_ListComp:
    case K_SetComp:
    case K_DictComp:
    case K_GeneratorExp: return look_at_comprehension(v, node, kind, p);
    case K_Starred: v->doubt = true; return push_field(v, node, F_value);
    default: return look_at_other(v, node);
    }
}

static int empty_stack(struct visitor *v, size_t from, struct pass *p)
{
    while (v->used > from)
        if (look_at(v, v->stack[--v->used], p) < 0)
            return -1;
    return 0;
}

static int look_inside(struct visitor *v, size_t from, struct pass *p, size_t which)
{
    struct inside it = p->later[which];
    struct pass inner = *p; // which may grow
    for (size_t i = 0; i < it.count; i++)
        if (visitor_push(v, it.nodes[i]) < 0)
            return -1;
    inner.hidden = it.names;
    inner.late = it.late || p->late;
    inner.within = true;
    int r = empty_stack(v, from, &inner);
    p->later = inner.later;
    p->count = inner.count;
    p->room = inner.room;
    return r;
}

int visitor_expr(struct visitor *v, size_t from, PyObject *hidden, bool late)
{
    struct pass p = {.hidden = hidden, .late = late};
    Py_ssize_t before = PyDict_Size(v->scope->pending), mark = PyList_Size(v->scope->order);
    int r = empty_stack(v, from, &p);
    for (size_t i = 0; i < p.count && r == 0; i++)
        r = look_inside(v, from, &p, i);
    // What these have bound, they may have bound before the rest of the expression read it.
    if (r == 0 && p.count)
        r = visitor_forgive_since(v, before, mark);
    for (size_t i = 0; i < p.count; i++) {
        free(p.later[i].nodes);
        Py_DECREF(p.later[i].names);
    }
    free(p.later);
    v->used = from;
    return r;
}

int visitor_expr_of(struct visitor *v, PyObject *node)
{
    size_t from = v->used;
    if (!node)
        return -1;
    if (node == Py_None || (visitor_kind_of(node) == K_Constant && !v->track))
        return 0;
    return visitor_push(v, node) < 0 ? -1 : visitor_expr(v, from, NULL, false);
}
