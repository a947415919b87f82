// SPDX-License-Identifier: Apache-2.0
//
// plain: does the run of a fresh box in C as long as it is plain: code without options that leaves
// nothing to describe but a number or a short text.  Runs in the user process of a box, beside user
// code; everything it calls was bound in the zygote, before any user code.  runner.py does all
// other runs: the same code gets the same answer.
//
// Every Python function that runs in a box makes it copy pages, for reference counts in its code,
// names and builtins: of the 190 pages that a run of "1 + 1" wrote to, 130 were the runner's own.

#ifndef CONSTRICTOR_PYTHON_PLAIN_H
#define CONSTRICTOR_PYTHON_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

// bind_plain(bindings): the dictionary from runner.plain_bindings().  The zygote calls it last; if
// it does not, no run is plain.
PyObject *py_bind_plain(PyObject *self, PyObject *bindings);
// rehearse_plain([source]): runs plain code in a child that is thrown away; without `source` it
// settles and runs "1 + 1".
PyObject *py_rehearse_plain(PyObject *self, PyObject *args);

// In the zygote, when __main__ is new.  False with an exception.
bool plain_begin(void);
bool plain_is_bound(void);
// What runner.settle() does.  False with an exception.
bool plain_settle(void);
// The payload to answer with, or NULL without an exception: the run is not plain, nothing was done.
PyObject *plain_run(PyObject *source);
// Call this to go on without plain_run(): a reference to __main__ that lives on would keep its
// variables from being finalised when the script ends.
void plain_let_go(void);
// Is this the process that settled, rather than a child that user code forked?
bool plain_is_ours(void);

#endif
