// SPDX-License-Identifier: Apache-2.0
//
// replacement: see replacement.h.

#include "python/ext/replacement.h"

#include <stdbool.h>
#include <string.h>

enum { REPLACEMENTS = 16 }; // runner/network.py makes 12, runner/machine.py 4

static struct replacement {
    PyObject *function, *file; // the latter: where its code is
    bool is_method;
    PyMethodDef def; // CPython keeps its address
} replacements[REPLACEMENTS];
static unsigned used;

// New; NULL without an exception where there is none.
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;
    if (!value)
        PyErr_Clear();
    return value;
}

static PyObject *file_of_code(PyObject *code)
{
    PyObject *file = attribute(code, "co_filename");
    Py_XDECREF(code);
    return file;
}

static bool is_ours(PyObject *traceback, PyObject *file)
{
    PyObject *frame = attribute(traceback, "tb_frame");
    PyObject *found = file_of_code(attribute(frame, "f_code"));
    bool ours = found && PyUnicode_Check(found) && PyUnicode_Compare(found, file) == 0;
    Py_XDECREF(frame);
    Py_XDECREF(found);
    return ours;
}

// The first entries of a traceback are the frames of our file that the exception passed last.
static void leave_out_frames(PyObject *file)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (traceback && is_ours(traceback, file)) {
        PyObject *next = attribute(traceback, "tb_next");
        if (next == Py_None)
            Py_CLEAR(next);
        Py_DECREF(traceback);
        traceback = next;
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *with_self(PyObject *self, PyObject *args)
{
    Py_ssize_t count = PyTuple_Size(args);
    PyObject *all = PyTuple_New(count + 1);
    for (Py_ssize_t i = -1; all && i < count; i++) {
        PyObject *item = i < 0 ? self : PyTuple_GetItem(args, i);
        Py_INCREF(item);
        (void)PyTuple_SetItem(all, i + 1, item);
    }
    return all;
}

static PyObject *call(const struct replacement *s, PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *all = s->is_method ? with_self(self, args) : args;
    PyObject *result = all ? PyObject_Call(s->function, all, kwargs) : NULL;
    if (s->is_method)
        Py_XDECREF(all);
    if (!result)
        leave_out_frames(s->file);
    return result;
}

// A C function cannot tell which replacement it is, so each has a function of its own.
#define EACH(X)                                                                                    \
    X(0)                                                                                           \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define X(n)                                                                                       \
    static PyObject *call_##n(PyObject *self, PyObject *args, PyObject *kwargs)                    \
    {                                                                                              \
        return call(&replacements[n], self, args, kwargs);                                         \
    }
EACH(X)
#undef X

static const PyCFunctionWithKeywords calls[REPLACEMENTS] = {
#define X(n) call_##n,
    EACH(X)
#undef X
};

PyObject *py_replacement(PyObject *self, PyObject *args)
{
    const char *name, *doc;
    PyObject *function, *owner;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssOO", &name, &doc, &function, &owner))
        return NULL;
    if (used == REPLACEMENTS) {
        PyErr_SetString(PyExc_RuntimeError, "all replacements are in use");
        return NULL;
    }
    struct replacement *s = &replacements[used];
    PyObject *file = file_of_code(attribute(function, "__code__"));
    char *own_name = strdup(name), *own_doc = strdup(doc); // never freed, as the rest of it
    if (!file || !own_name || !own_doc) {
        Py_XDECREF(file);
        free(own_name);
        free(own_doc);
        return PyErr_NoMemory();
    }
    Py_INCREF(function);
    *s = (struct replacement){function,
                              file,
                              PyType_Check(owner),
                              {own_name, (PyCFunction)(void (*)(void))calls[used],
                               METH_VARARGS | METH_KEYWORDS, own_doc}};
    used++;
    if (s->is_method)
        return PyDescr_NewMethod((PyTypeObject *)owner, &s->def);
    PyObject *module = attribute(owner, "__name__");
    PyObject *result = PyCFunction_NewEx(&s->def, owner, module);
    Py_XDECREF(module);
    return result;
}
