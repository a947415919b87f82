// SPDX-License-Identifier: Apache-2.0
//
// lines: counts the lines of a source, for check.py, which has the same in Python for sources with
// other characters than those of ASCII.  Runs in the user process of a box.

#ifndef CONSTRICTOR_PYTHON_LINES_H
#define CONSTRICTOR_PYTHON_LINES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// measure(source): (characters, lines, characters of the longest line, may a string go over several
// lines?), or None where Python has to look: at bytes that are not ASCII, carriage returns, null
// bytes.
PyObject *py_measure(PyObject *self, PyObject *source);
// count_lines(source, strings): (all, blank, comments, code) of a source that measure() knows;
// `strings` is None or a list of the first and the last line of each string that goes over several.
PyObject *py_count_lines(PyObject *self, PyObject *args);

#endif
