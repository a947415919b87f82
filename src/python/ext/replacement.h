// SPDX-License-Identifier: Apache-2.0
//
// replacement: functions of the standard library's C half that network.py replaces with its own.
// What is put in their place is of C again: it looks like what was there, and no frame of ours is
// in the traceback of an exception that comes out of it.

#ifndef CONSTRICTOR_PYTHON_REPLACEMENT_H
#define CONSTRICTOR_PYTHON_REPLACEMENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// replacement(name, doc, function, owner): something to put as `name` into a module or a class, its
// `owner`, that calls the function.  There are only so many of them in a process.
PyObject *py_replacement(PyObject *self, PyObject *args);

#endif
