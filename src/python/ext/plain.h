// SPDX-License-Identifier: Apache-2.0
//
// plain: the run of a fresh box in C, for as long as it is plain: text without options, whose end
// leaves nothing to describe but a number or a short text.  Runs in the user process of a box,
// among user code; what it calls was bound in the zygote, before any.  Whatever is not plain,
// runner.py does: the same text, the same answer.
//
// Every function of Python that runs in a box makes it copy pages, for the counts of references in
// its code, its names, its builtins: of the 190 pages that a run of "1 + 1" wrote to, 130 were the
// runner's own.

#ifndef CONSTRICTOR_PYTHON_PLAIN_H
#define CONSTRICTOR_PYTHON_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

// bind_plain(kit): what runner.kit() made.  The zygote's last act in Python; without it nothing
// here is used.
PyObject *py_bind_plain(PyObject *self, PyObject *kit);
// rehearse_plain([source]): runs a plain source in a child that is thrown away; without one it
// settles and runs "1 + 1".
PyObject *py_rehearse_plain(PyObject *self, PyObject *args);

// In the zygote, when __main__ is new.  False with an exception.
bool plain_begin(void);
bool plain_is_bound(void);
// What runner.settle() does.  False with an exception.
bool plain_settle(void);
// The payload to answer with, or NULL without an exception: not a plain run, nothing was done.
PyObject *plain_run(PyObject *source);
// Whoever goes on without plain_run(): nobody else may hold __main__ when the script ends, or what
// it names is not finalised.
void plain_let_go(void);
// Is this still the process that settled, and not a child that user code forked?
bool plain_is_ours(void);

#endif
