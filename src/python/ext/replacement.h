// SPDX-License-Identifier: Apache-2.0
//
// replacement: C functions that network.py puts in place of those of the standard library.  A
// replacement looks like the function that it replaces, and its exceptions have no frame of ours in
// their traceback.

#ifndef CONSTRICTOR_PYTHON_REPLACEMENT_H
#define CONSTRICTOR_PYTHON_REPLACEMENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// replacement(name, doc, function, owner): an object to put as `name` into `owner`, a module or a
// class; it calls `function`.  A process can have REPLACEMENTS of them.
PyObject *py_replacement(PyObject *self, PyObject *args);

#endif
