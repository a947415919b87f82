// SPDX-License-Identifier: Apache-2.0
//
// lines: see lines.h.  One pass over the bytes each, whatever they are.

#include "python/lines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct text {
    const char *at;
    size_t length;
};

// The next line, without its end; false: there is none.  What follows the last line break is a line
// here.
static bool next_line(struct text *rest, bool *over, struct text *ret)
{
    if (*over)
        return false;
    const char *end = memchr(rest->at, '\n', rest->length);
    *over = !end;
    ret->at = rest->at;
    ret->length = end ? (size_t)(end - rest->at) : rest->length;
    rest->at += ret->length + !*over;
    rest->length -= ret->length + !*over;
    return true;
}

static bool has_odd_quotes(struct text line, char quote)
{
    unsigned count = 0;
    for (size_t i = 0; i + 2 < line.length; i++)
        if (line.at[i] == quote && line.at[i + 1] == quote && line.at[i + 2] == quote) {
            count++;
            i += 2;
        }
    return count & 1;
}

static bool has(struct text line, const char *piece)
{
    return memmem(line.at, line.length, piece, strlen(piece)) != NULL;
}

// Most docstrings do not go over several lines, and neither do most strings.
static bool may_go_on(struct text line)
{
    if (line.length && line.at[line.length - 1] == '\\')
        return true;
    if (memchr(line.at, '"', line.length) && (has_odd_quotes(line, '"') || has(line, "'\"\"\"'")))
        return true;
    return memchr(line.at, '\'', line.length) &&
           (has_odd_quotes(line, '\'') || has(line, "\"'''\""));
}

static bool is_plain(struct text text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text.length; i++)
        all |= (unsigned char)text.at[i];
    return !(all & 0x80) && !memchr(text.at, '\r', text.length) &&
           !memchr(text.at, '\0', text.length);
}

PyObject *py_measure(PyObject *self, PyObject *source)
{
    struct text rest, line;
    char *data;
    Py_ssize_t length, count = 0, longest = 0;
    bool over = false, go_on = false;
    (void)self;
    if (PyBytes_AsStringAndSize(source, &data, &length) < 0)
        return NULL;
    rest = (struct text){data, (size_t)length};
    if (!is_plain(rest))
        Py_RETURN_NONE;
    for (; next_line(&rest, &over, &line); count++) {
        if ((Py_ssize_t)line.length > longest)
            longest = (Py_ssize_t)line.length;
        go_on = go_on || may_go_on(line);
    }
    return Py_BuildValue("nnnO", length, count, longest, go_on ? Py_True : Py_False);
}

// As str.strip() sees them.
static bool is_blank(char sign)
{
    return sign == ' ' || (sign >= '\t' && sign <= '\r') || (sign >= 0x1c && sign <= 0x1f);
}

// The first sign that is not blank; '\0': none.
static char first_sign(struct text line)
{
    for (size_t i = 0; i < line.length; i++)
        if (!is_blank(line.at[i]))
            return line.at[i];
    return '\0';
}

// A flag for each line that begins within a string; NULL: an error, or there is none.
static char *mark_strings(PyObject *strings, size_t lines)
{
    Py_ssize_t count = strings == Py_None ? 0 : PyList_Size(strings);
    char *within = count > 0 ? calloc(lines + 1, 1) : NULL;
    if (count > 0 && !within)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; within && i < count; i++) {
        Py_ssize_t first, last;
        if (!PyArg_ParseTuple(PyList_GetItem(strings, i), "nn", &first, &last)) {
            free(within);
            return NULL;
        }
        if (first >= 0 && (size_t)last <= lines && first < last)
            memset(within + first, 1, (size_t)(last - first));
    }
    return within;
}

PyObject *py_count_lines(PyObject *self, PyObject *args)
{
    struct text rest, line;
    PyObject *strings;
    Py_ssize_t length;
    size_t lines = 1, at = 0, blank = 0, comments = 0;
    bool over = false;
    char sign = '\0';
    (void)self;
    if (!PyArg_ParseTuple(args, "y#O", &rest.at, &length, &strings))
        return NULL;
    rest.length = (size_t)length;
    for (const char *p = rest.at; (p = memchr(p, '\n', (size_t)(rest.at + rest.length - p))); p++)
        lines++;
    char *within = mark_strings(strings, lines);
    if (!within && PyErr_Occurred())
        return NULL;
    for (; next_line(&rest, &over, &line); at++) {
        sign = within && within[at] ? 'x' : first_sign(line);
        blank += sign == '\0';
        comments += sign == '#';
    }
    free(within);
    if (first_sign(line) == '\0') { // what follows the last line break is no line
        lines--;
        blank -= sign == '\0';
    }
    return Py_BuildValue("nnnn", (Py_ssize_t)lines, (Py_ssize_t)blank, (Py_ssize_t)comments,
                         (Py_ssize_t)(lines - blank - comments));
}
