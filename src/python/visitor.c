// SPDX-License-Identifier: Apache-2.0
//
// visitor: see visitor.h.  Here: nodes, names, and the two types that walk.py sees.

#include "python/visitor.h"

#include <stdint.h>
#include <stdlib.h>
#include <structmember.h>

enum { TABLE = 256 }; // places for types, of which there are fewer than 64

static struct {
    PyObject *type;
    enum visitor_kind kind;
} kinds[TABLE];
static PyObject *fields[F_COUNT];
static Py_ssize_t dict_offset; // of nodes; 0: not known
static PyTypeObject *scope_type;
PyObject *visitor_empty;

// ---- nodes --------------------------------------------------------------------------------------

static size_t place_of(const void *type)
{
    uintptr_t n = (uintptr_t)type >> 4;
    return (n ^ n >> 8) % TABLE;
}

enum visitor_kind visitor_kind_of(PyObject *node)
{
    PyObject *type = (PyObject *)Py_TYPE(node);
    size_t at = place_of(type);
    while (kinds[at].type && kinds[at].type != type)
        at = (at + 1) % TABLE;
    return kinds[at].kind;
}

PyObject *visitor_get(PyObject *node, enum visitor_field field)
{
    PyObject *dict = dict_offset ? *(PyObject **)((char *)node + dict_offset) : NULL;
    PyObject *value = dict ? PyDict_GetItemWithError(dict, fields[field]) : NULL;
    if (value || PyErr_Occurred())
        return value;
    value = PyObject_GetAttr(node, fields[field]);
    Py_XDECREF(value); // the node's class has it, or the node
    return value;
}

Py_ssize_t visitor_list(PyObject *node, enum visitor_field field, PyObject **ret)
{
    *ret = visitor_get(node, field);
    return *ret ? PyList_Size(*ret) : -1;
}

long visitor_number(PyObject *node, enum visitor_field field)
{
    PyObject *value = visitor_get(node, field);
    return value ? PyLong_AsLong(value) : -1;
}

// ---- the stack ----------------------------------------------------------------------------------

int visitor_push(struct visitor *v, PyObject *node)
{
    if (v->used == v->room) {
        size_t room = v->room ? 2 * v->room : 256;
        PyObject **stack = realloc(v->stack, room * sizeof *stack);
        if (!stack) {
            PyErr_NoMemory();
            return -1;
        }
        v->stack = stack;
        v->room = room;
    }
    v->stack[v->used++] = node;
    return 0;
}

int visitor_push_list(struct visitor *v, PyObject *list)
{
    Py_ssize_t n = PyList_Size(list);
    if (n < 0)
        return -1;
    while (n-- > 0) {
        PyObject *node = PyList_GetItem(list, n);
        if (!node || (node != Py_None && visitor_push(v, node) < 0))
            return -1;
    }
    return 0;
}

// ---- names --------------------------------------------------------------------------------------

int visitor_bind(struct visitor *v, PyObject *name)
{
    struct scope *s = v->scope;
    int known = PySet_Contains(s->maybe, name);
    if (known)
        return known < 0 ? -1 : 0;
    return PySet_Add(s->maybe, name) < 0 ? -1 : PyList_Append(s->order, name);
}

int visitor_miss(struct visitor *v, PyObject *node, bool late)
{
    struct scope *s = v->scope;
    PyObject *name = visitor_get(node, F_id), *place;
    PyObject *names = late ? s->owner->late : s->pending;
    if (!name)
        return -1;
    int known = s->kind == SCOPE_CLASS ? PySet_Contains(s->owner->maybe, name) : 0;
    if (!known)
        known = PyDict_Contains(names, name);
    if (known)
        return known < 0 ? -1 : 0;
    long line = visitor_number(node, F_lineno), column = visitor_number(node, F_col_offset);
    place = Py_BuildValue("ll", line + v->offset, column + 1);
    int r = place ? PyDict_SetItem(names, name, place) : -1;
    Py_XDECREF(place);
    return r;
}

// Those that came since there were `before` of them; a dict knows its order.
int visitor_forgive(struct visitor *v, Py_ssize_t before, PyObject *names)
{
    PyObject *pending = v->scope->pending;
    Py_ssize_t more = PyDict_Size(pending) - before;
    if (more <= 0)
        return 0;
    PyObject *iterator = PyObject_CallMethod(pending, "__reversed__", NULL), *list = PyList_New(0),
             *name = NULL;
    int r = iterator && list ? 0 : -1;
    while (r == 0 && more-- > 0 && (name = PyIter_Next(iterator))) {
        int wanted = names ? PySet_Contains(names, name) : 1;
        r = wanted < 0 ? -1 : wanted ? PyList_Append(list, name) : 0;
        Py_DECREF(name);
    }
    if (PyErr_Occurred())
        r = -1;
    for (Py_ssize_t i = 0, n = r == 0 ? PyList_Size(list) : 0; i < n && r == 0; i++)
        r = PyDict_DelItem(pending, PyList_GetItem(list, i));
    Py_XDECREF(iterator);
    Py_XDECREF(list);
    return r;
}

int visitor_forgive_since(struct visitor *v, Py_ssize_t before, Py_ssize_t mark)
{
    Py_ssize_t n = PyList_Size(v->scope->order);
    if (n <= mark || PyDict_Size(v->scope->pending) <= before)
        return 0;
    PyObject *bound = PyList_GetSlice(v->scope->order, mark, n);
    PyObject *names = bound ? PySet_New(bound) : NULL;
    int r = names ? visitor_forgive(v, before, names) : -1;
    Py_XDECREF(bound);
    Py_XDECREF(names);
    return r;
}

int visitor_leave(struct visitor *v)
{
    for (Py_ssize_t i = 0, n = PyList_Size(v->endless); i < n; i++) {
        Py_INCREF(Py_True);
        if (PyList_SetItem(v->endless, i, Py_True) < 0)
            return -1;
    }
    return 0;
}

int visitor_call(struct visitor *v, const char *method, PyObject *a, PyObject *b)
{
    PyObject *name = PyUnicode_FromString(method);
    PyObject *done = name ? PyObject_CallMethodObjArgs((PyObject *)v, name, a, b, NULL) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// ---- the type Scope -----------------------------------------------------------------------------

static PyObject *held(PyObject *o)
{
    Py_XINCREF(o);
    return o;
}

struct scope *visitor_new_scope(int kind, struct scope *parent, PyObject *name, PyObject *known,
                                bool is_async)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(scope_type, Py_tp_alloc);
    struct scope *s = (struct scope *)alloc(scope_type, 0); // all zero
    if (!s)
        return NULL;
    s->kind = kind;
    s->is_async = is_async;
    s->parent = held(parent ? (PyObject *)parent : Py_None);
    s->owner = kind == SCOPE_CLASS && parent ? parent->owner : s;
    s->name = held(name);
    s->maybe = PySet_New(known);
    s->order = known ? PySequence_List(known) : PyList_New(0);
    s->pending = s->owner == s ? PyDict_New() : held(s->owner->pending);
    s->late = PyDict_New();
    s->globals = held(visitor_empty);
    s->outer = held(visitor_empty);
    s->reached = held(visitor_empty);
    s->deleted = held(visitor_empty);
    if (s->maybe && s->order && s->pending && s->late)
        return s;
    Py_DECREF(s);
    return NULL;
}

static PyObject *scope_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    static char *names[] = {"kind", "parent", "name", "known", "is_async", NULL};
    PyObject *parent, *name = NULL, *known = NULL, *empty = NULL;
    int kind, is_async = 0;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, options, "iO|UOp", names, &kind, &parent, &name, &known,
                                     &is_async))
        return NULL;
    if (parent != Py_None && Py_TYPE(parent) != scope_type) {
        PyErr_SetString(PyExc_TypeError, "parent is a Scope or None");
        return NULL;
    }
    if (!name)
        name = empty = PyUnicode_FromString("");
    struct scope *s =
        name ? visitor_new_scope(kind, parent == Py_None ? NULL : (struct scope *)parent, name,
                                 known, is_async)
             : NULL;
    Py_XDECREF(empty);
    return (PyObject *)s;
}

static void scope_free(PyObject *self)
{
    struct scope *s = (struct scope *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *const all[] = {s->parent, s->name,    s->maybe, s->order,   s->pending,
                             s->late,   s->globals, s->outer, s->reached, s->deleted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        Py_XDECREF(all[i]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *get_owner(PyObject *self, void *unused)
{
    (void)unused;
    return held((PyObject *)((struct scope *)self)->owner);
}

#define OBJECT(type, field)                                                                        \
    {                                                                                              \
#field, T_OBJECT_EX, offsetof(struct type, field), 0, NULL                                 \
    }
#define NUMBER(type, field, kind)                                                                  \
    {                                                                                              \
#field, kind, offsetof(struct type, field), 0, NULL                                        \
    }

static PyMemberDef scope_members[] = {
    NUMBER(scope, kind, T_INT),
    NUMBER(scope, depth, T_INT),
    NUMBER(scope, loops, T_INT),
    NUMBER(scope, is_async, T_BOOL),
    {"parent", T_OBJECT_EX, offsetof(struct scope, parent), READONLY, NULL},
    OBJECT(scope, name),
    OBJECT(scope, maybe),
    OBJECT(scope, order),
    OBJECT(scope, pending),
    OBJECT(scope, late),
    OBJECT(scope, globals),
    OBJECT(scope, outer),
    OBJECT(scope, reached),
    OBJECT(scope, deleted),
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef scope_getset[] = {{"owner", get_owner, NULL, NULL, NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot scope_slots[] = {
    {Py_tp_new, scope_new},
    {Py_tp_dealloc, scope_free},
    {Py_tp_members, scope_members},
    {Py_tp_getset, scope_getset},
    {0, NULL},
};
static PyType_Spec scope_spec = {"_constrictor.Scope", sizeof(struct scope), 0, Py_TPFLAGS_DEFAULT,
                                 scope_slots};

// ---- the type Visitor ---------------------------------------------------------------------------

static void visitor_free(PyObject *self)
{
    struct visitor *v = (struct visitor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *const all[] = {v->policy,      v->module,  v->scopes,           v->calls,
                             v->bodies,      v->found,   v->omitted,          v->rules,
                             v->strings,     v->forced,  v->dynamic,          v->endless,
                             v->class_names, v->walkers, (PyObject *)v->scope};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        Py_XDECREF(all[i]);
    free(v->stack);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *get_scope(PyObject *self, void *unused)
{
    (void)unused;
    return held((PyObject *)((struct visitor *)self)->scope);
}

static int set_scope(PyObject *self, PyObject *value, void *unused)
{
    struct visitor *v = (struct visitor *)self;
    (void)unused;
    if (!value || Py_TYPE(value) != scope_type) {
        PyErr_SetString(PyExc_TypeError, "scope is a Scope");
        return -1;
    }
    struct scope *old = v->scope;
    v->scope = (struct scope *)held(value);
    Py_XDECREF(old);
    return 0;
}

// walk.py sets everything when it makes one.
static bool is_ready(const struct visitor *v)
{
    if (v->scope && v->endless && v->calls && v->walkers && v->bodies && v->scopes && v->strings)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "a Visitor that nobody has set up");
    return false;
}

static PyObject *answer(int r)
{
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_bind(PyObject *self, PyObject *name)
{
    struct visitor *v = (struct visitor *)self;
    return is_ready(v) ? answer(visitor_bind(v, name)) : NULL;
}

static PyObject *py_miss(PyObject *self, PyObject *args, PyObject *options)
{
    static char *names[] = {"node", "late", NULL};
    struct visitor *v = (struct visitor *)self;
    PyObject *node;
    int late = 0;
    if (!is_ready(v) || !PyArg_ParseTupleAndKeywords(args, options, "O|p", names, &node, &late))
        return NULL;
    return answer(visitor_miss(v, node, late));
}

static PyObject *py_forgive(PyObject *self, PyObject *args)
{
    struct visitor *v = (struct visitor *)self;
    Py_ssize_t before;
    PyObject *names = NULL;
    if (!is_ready(v) || !PyArg_ParseTuple(args, "n|O", &before, &names))
        return NULL;
    return answer(visitor_forgive(v, before, names == Py_None ? NULL : names));
}

static PyObject *py_expr(PyObject *self, PyObject *args, PyObject *options)
{
    static char *names[] = {"stack", "hidden", "late", NULL};
    struct visitor *v = (struct visitor *)self;
    PyObject *list, *hidden = NULL;
    int late = 0, r = 0;
    size_t from = v->used;
    if (!is_ready(v) || !PyArg_ParseTupleAndKeywords(args, options, "O!|Op", names, &PyList_Type,
                                                     &list, &hidden, &late))
        return NULL;
    Py_INCREF(list);
    for (Py_ssize_t i = 0, n = PyList_Size(list); i < n && r == 0; i++)
        r = visitor_push(v, PyList_GetItem(list, i));
    if (r == 0)
        r = visitor_expr(v, from, hidden == Py_None ? NULL : hidden, late);
    v->used = from;
    Py_DECREF(list);
    return answer(r);
}

static PyObject *py_block(PyObject *self, PyObject *statements)
{
    struct visitor *v = (struct visitor *)self;
    return is_ready(v) ? answer(visitor_block(v, statements)) : NULL;
}

static PyObject *py_nested(PyObject *self, PyObject *args)
{
    struct visitor *v = (struct visitor *)self;
    int r = is_ready(v) ? 0 : -1;
    for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n && r == 0; i++)
        r = visitor_nested(v, PyTuple_GetItem(args, i));
    return answer(r);
}

static PyObject *py_leave(PyObject *self, PyObject *unused)
{
    struct visitor *v = (struct visitor *)self;
    (void)unused;
    return is_ready(v) ? answer(visitor_leave(v)) : NULL;
}

static PyObject *py_feed(PyObject *self, PyObject *args)
{
    struct visitor *v = (struct visitor *)self;
    PyObject *tree;
    long offset = 0;
    if (!is_ready(v) || !PyArg_ParseTuple(args, "O|l", &tree, &offset))
        return NULL;
    return answer(visitor_feed(v, tree, offset));
}

#define WITH_OPTIONS(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef visitor_methods[] = {
    {"bind", py_bind, METH_O, NULL},
    {"miss", WITH_OPTIONS(py_miss), METH_VARARGS | METH_KEYWORDS, NULL},
    {"forgive", py_forgive, METH_VARARGS, NULL},
    {"expr", WITH_OPTIONS(py_expr), METH_VARARGS | METH_KEYWORDS, NULL},
    {"block", py_block, METH_O, NULL},
    {"nested", py_nested, METH_VARARGS, NULL},
    {"leave", py_leave, METH_NOARGS, NULL},
    {"feed", py_feed, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef visitor_members[] = {
    OBJECT(visitor, policy),         OBJECT(visitor, module),
    OBJECT(visitor, scopes),         OBJECT(visitor, calls),
    OBJECT(visitor, bodies),         OBJECT(visitor, found),
    OBJECT(visitor, omitted),        OBJECT(visitor, rules),
    OBJECT(visitor, strings),        OBJECT(visitor, forced),
    OBJECT(visitor, dynamic),        OBJECT(visitor, endless),
    OBJECT(visitor, class_names),    OBJECT(visitor, walkers),
    NUMBER(visitor, offset, T_LONG), NUMBER(visitor, decisions, T_LONG),
    NUMBER(visitor, total, T_LONG),  NUMBER(visitor, highest, T_LONG),
    NUMBER(visitor, track, T_BOOL),  NUMBER(visitor, future, T_BOOL),
    NUMBER(visitor, doubt, T_BOOL),  NUMBER(visitor, soft_imports, T_BOOL),
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef visitor_getset[] = {{"scope", get_scope, set_scope, NULL, NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot visitor_slots[] = {
    {Py_tp_dealloc, visitor_free},
    {Py_tp_members, visitor_members},
    {Py_tp_getset, visitor_getset},
    {Py_tp_methods, visitor_methods},
    {0, NULL},
};
static PyType_Spec visitor_spec = {"_constrictor.Visitor", sizeof(struct visitor), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, visitor_slots};

// ---- the beginning ------------------------------------------------------------------------------

static int know_kinds(PyObject *ast)
{
#define KIND_NAME(name) #name,
    static const char *const names[] = {NULL, VISITOR_KINDS(KIND_NAME)};
    for (int kind = K_NONE + 1; kind < K_COUNT; kind++) {
        PyObject *type = PyObject_GetAttrString(ast, names[kind]);
        if (!type) {
            PyErr_Clear();
            continue; // not of this version
        }
        size_t at = place_of(type);
        while (kinds[at].type)
            at = (at + 1) % TABLE;
        kinds[at].type = type; // for ever
        kinds[at].kind = (enum visitor_kind)kind;
    }
    PyObject *base = PyObject_GetAttrString(ast, "AST");
    PyObject *offset = base ? PyObject_GetAttrString(base, "__dictoffset__") : NULL;
    dict_offset = offset ? PyLong_AsSsize_t(offset) : 0;
    if (dict_offset < 0) // the dictionary is elsewhere
        dict_offset = 0;
    Py_XDECREF(base);
    Py_XDECREF(offset);
    PyErr_Clear();
    return 0;
}

static int know_fields(void)
{
#define FIELD_NAME(name) #name,
    static const char *const names[] = {VISITOR_FIELDS(FIELD_NAME)};
    for (int i = 0; i < F_COUNT; i++)
        if (!(fields[i] = PyUnicode_InternFromString(names[i])))
            return -1;
    return 0;
}

static int add_type(PyObject *module, const char *name, PyObject *type)
{
    if (type && PyModule_AddObject(module, name, held(type)) == 0)
        return 0;
    Py_XDECREF(type);
    return -1;
}

PyObject *py_know_trees(PyObject *module, PyObject *args)
{
    (void)args;
    if (scope_type)
        Py_RETURN_NONE;
    PyObject *ast = PyImport_ImportModule("_ast");
    visitor_empty = PyFrozenSet_New(NULL);
    if (!ast || !visitor_empty || know_kinds(ast) < 0 || know_fields() < 0)
        return NULL;
    Py_DECREF(ast);
    scope_type = (PyTypeObject *)PyType_FromSpec(&scope_spec);
    if (add_type(module, "Scope", (PyObject *)scope_type) < 0 ||
        add_type(module, "Visitor", PyType_FromSpec(&visitor_spec)) < 0)
        return NULL;
    Py_RETURN_NONE;
}
