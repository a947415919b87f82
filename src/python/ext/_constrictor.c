// SPDX-License-Identifier: Apache-2.0
//
// _constrictor: what zygote.py and runner.py need from C, for any CPython from 3.9 on (limited API,
// one binary).  Loaded in the zygote; its functions receive() and send() are used in boxes.
//
//   ready(report)        zygote: tell the keeper that the interpreter is warm
//   serve(on_child, rehearsals, single)  zygote: make boxes until the keeper goes; in a box: call
//   on_child().
//                        With rehearsals of a run, () or two (for boxes made ahead of demand and
//                        behind it), boxes are made from an image (box/image.h) and with the pages
//                        that they will need (box/warm.h)
//   receive()            box: wait for the next run -> (meta, code), or None
//   bind_plain(kit), rehearse_plain([source])  zygote: python/ext/plain.h
//   send(kind, payload)  box: have init send a frame to the gate
//   public(names, values)  box: the keys of a dictionary that do not begin with "_", but for those
//   of
//                        the values in a tuple
// and for undo.py, in a box, box/branch.h with the hooks around a fork that os.fork() calls:
//   begin()              move out of the memory that is shared with init
//   park(branch, serial, kind, keep)  keep a copy asleep -> its slot; in the copy, woken: a tuple
//   reserve(branch, serial), give_way(slot, why, own), drop(slot), alive(slot), settled()
//   board([bytes])       notes that are not undone
//   limits()             (memory in bytes, processes)
// and for network.py, in the zygote or later:
//   replacement(name, doc, function, owner)  python/ext/replacement.h

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "box/branch.h"
#include "box/image.h"
#include "box/init.h"
#include "box/order.h"
#include "box/spawn.h"
#include "box/text.h"
#include "box/warm.h"
#include "python/ext/arenas.h"
#include "python/ext/large.h"
#include "python/ext/plain.h"
#include "python/ext/replacement.h"

static PyObject *fail(int r)
{
    errno = -r;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *py_ready(PyObject *self, PyObject *args)
{
    const char *report;
    Py_ssize_t length;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#", &report, &length))
        return NULL;
    int r = length > 1 << 20 ? -EMSGSIZE : spawn_ready(report, (unsigned)length);
    if (r < 0)
        return fail(r);
    Py_RETURN_NONE;
}

// What CPython does around a fork is for other threads' sake: it makes its locks anew and calls the
// modules' hooks.  A zygote has no other thread, unless a preload started one; without all that a
// box copies 40 pages less.
static bool is_alone(void)
{
    uint64_t threads = 0;
    return file_read_key_at(ZYGOTE_PROC_FD, "self/status", "Threads", &threads) == 0 &&
           threads == 1;
}

static void nothing(void)
{
}

// glibc keeps small free pieces apart and joins them when somebody asks for a large one, as the
// compiler does: every box would write to a dozen pages for it.  Setting what is set already joins
// them here.
static void tidy_heap(void)
{
#ifdef M_MXFAST
    (void)mallopt(M_MXFAST, 64 * sizeof(size_t) / 4);
#endif
}

// Calls rehearsal() in a throw-away child and remembers the pages that it used.
static void learn(PyObject *rehearsal, bool hurry)
{
    int status = 0;
    if (warm_begin() < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        warm_watch();
        PyObject *done = PyObject_CallObject(rehearsal, NULL);
        int reported = warm_report();
        if (!done)
            PyErr_Print();
        _exit(done && reported == 0 ? 0 : 1);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        warm_take(hurry);
}

// From here on this process does nothing in Python, which would make pages its own that every box
// copies: its memory becomes the image, and what runs do with that is tried out in children. Only
// without other threads, which may be writing to what is moved, or give back what was learned.
// Without all this boxes are as safe, and dearer to make.
static int prepare(PyObject *rehearsals)
{
    const struct image_area *areas;
    size_t count = arenas_known(&areas);
    void *inside = dlsym(RTLD_DEFAULT, "Py_Initialize");
    if (inside)
        text_prepare(inside);
    int shared = image_share(areas, count);
    if (shared < 0)
        return shared;
    for (Py_ssize_t i = 0; i < PyTuple_Size(rehearsals); i++)
        learn(PyTuple_GetItem(rehearsals, i), i > 0); // where there is no /proc nothing is learned
    warm_end();
    return image_renew(); // with what the fork and the reports wrote
}

static PyObject *py_receive(PyObject *self, PyObject *args)
{
    const char *meta, *code;
    size_t meta_length, code_length;
    int r;
    (void)self;
    (void)args;
    Py_BEGIN_ALLOW_THREADS r = init_receive(&meta, &meta_length, &code, &code_length);
    Py_END_ALLOW_THREADS if (r == 0) Py_RETURN_NONE;
    PyObject *run =
        Py_BuildValue("y#y#", meta, (Py_ssize_t)meta_length, code, (Py_ssize_t)code_length);
    init_receive_done();
    return run;
}

// Kinds of the runner start at 1; on the wire 1 is RUN, which no box sends.
static int send_bytes(unsigned kind, PyObject *bytes)
{
    static PyObject *on_the_way; // what init may still be reading
    int r;
    Py_INCREF(bytes);
    Py_BEGIN_ALLOW_THREADS init_send_wait();
    Py_END_ALLOW_THREADS Py_XDECREF(on_the_way);
    on_the_way = bytes;
    Py_BEGIN_ALLOW_THREADS r =
        init_send(kind + 1, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    Py_END_ALLOW_THREADS return r;
}

static PyObject *py_send(PyObject *self, PyObject *args)
{
    PyObject *bytes;
    unsigned kind;
    (void)self;
    if (!PyArg_ParseTuple(args, "IS", &kind, &bytes))
        return NULL;
    int r = send_bytes(kind, bytes);
    if (r < 0)
        return fail(r);
    Py_RETURN_NONE;
}

// The life of a box's user process.  What on_child() returns: True when the last answer is out.
// Its first run is most often its only one and most often plain: then nothing of the runner is
// needed.
static PyObject *live(PyObject *on_child)
{
    enum { RESULT = 1 }; // runner.RESULT
    if (!plain_is_bound())
        return PyObject_CallObject(on_child, NULL);
    if (!plain_settle())
        return NULL;
    PyObject *run = py_receive(NULL, NULL);
    if (!run || run == Py_None)
        return run;
    PyObject *meta = PyTuple_GetItem(run, 0), *source = PyTuple_GetItem(run, 1);
    PyObject *payload = PyBytes_Size(meta) == 0 ? plain_run(source) : NULL;
    if (!payload) {
        plain_let_go();
        return PyObject_CallFunctionObjArgs(on_child, run, NULL);
    }
    if (!plain_is_ours())
        _exit(1);
    if (send_bytes(RESULT, payload) < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *py_serve(PyObject *self, PyObject *args)
{
    static const struct spawn_hooks hooks = {PyOS_BeforeFork, PyOS_AfterFork_Parent};
    static const struct spawn_hooks no_hooks = {nothing, nothing};
    bool alone = is_alone();
    PyObject *on_child, *rehearsals;
    int single = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!|p", &on_child, &PyTuple_Type, &rehearsals, &single))
        return NULL;
    tidy_heap();
    if (!plain_begin())
        return NULL;
    int r = order_prepare();
    if (r == 0 && alone && PyTuple_Size(rehearsals))
        r = prepare(rehearsals);
    if (r == 0)
        r = spawn_serve(alone ? &no_hooks : &hooks, single);
    if (r < 0)
        return fail(r);
    if (r == 0)
        Py_RETURN_NONE;
    if (!alone)
        PyOS_AfterFork_Child(); // in the user process
    PyObject *done = live(on_child);
    if (!done)
        PyErr_Print();
    // After its answer a box is killed.  To end before that would wake the init and the gate once
    // more, to hear what they know.
    while (done == Py_True)
        (void)pause();
    // No interpreter shutdown: the runner has done what the end of a script does.
    _exit(done ? 0 : 1);
}

// Looked at after every run of a session, which has a hundred names of its own like _3: in Python
// they would take longer than all else that is done about variables.
static bool is_public(PyObject *key, PyObject *value, PyObject *hidden)
{
    if (!PyUnicode_CheckExact(key) ||
        (PyUnicode_GetLength(key) > 0 && PyUnicode_ReadChar(key, 0) == '_'))
        return false;
    for (Py_ssize_t i = 0, n = PyTuple_Size(hidden); i < n; i++)
        if (PyTuple_GetItem(hidden, i) == value)
            return false;
    return true;
}

static PyObject *py_public(PyObject *self, PyObject *args)
{
    PyObject *names, *hidden, *key, *value, *list;
    Py_ssize_t at = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &names, &PyTuple_Type, &hidden))
        return NULL;
    list = PyList_New(0);
    while (list && PyDict_Next(names, &at, &key, &value))
        if (is_public(key, value, hidden) && PyList_Append(list, key) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *py_begin(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    PyOS_BeforeFork();
    int r = branch_begin();
    if (r > 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (r < 0)
        return fail(r);
    large_begin();
    Py_RETURN_NONE;
}

// (why, status, branch that was active before, whether an answer is awaited, whether nothing is
// left of it).
static PyObject *woken(const struct branch_wake *w)
{
    return Py_BuildValue("iiIii", (int)w->why, w->status, (unsigned)w->branch, w->asked,
                         w->consumed);
}

static PyObject *py_park(PyObject *self, PyObject *args)
{
    unsigned branch, serial, kind;
    int keep;
    struct branch_wake wake;
    (void)self;
    if (!PyArg_ParseTuple(args, "IIIp", &branch, &serial, &kind, &keep))
        return NULL;
    // The hooks of the copy are called when it wakes: most never do, and calling them copies pages.
    PyOS_BeforeFork();
    int r = branch_park(branch, serial, (enum branch_kind)kind, keep, &wake);
    if (r == BRANCH_WOKEN) {
        PyOS_AfterFork_Child();
        return woken(&wake);
    }
    PyOS_AfterFork_Parent();
    return r < 0 ? fail(r) : PyLong_FromLong(r);
}

static PyObject *py_reserve(PyObject *self, PyObject *args)
{
    unsigned branch, serial;
    (void)self;
    if (!PyArg_ParseTuple(args, "II", &branch, &serial))
        return NULL;
    int r = branch_reserve(branch, serial);
    return r < 0 ? fail(r) : PyLong_FromLong(r);
}

static PyObject *py_give_way(PyObject *self, PyObject *args)
{
    unsigned why;
    int slot, own;
    struct branch_wake wake;
    (void)self;
    if (!PyArg_ParseTuple(args, "iIi", &slot, &why, &own))
        return NULL;
    int r = branch_give_way(slot, (enum branch_why)why, own, &wake);
    return r < 0 ? fail(r) : woken(&wake);
}

static PyObject *py_drop(PyObject *self, PyObject *args)
{
    int slot;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &slot))
        return NULL;
    branch_drop(slot);
    Py_RETURN_NONE;
}

static PyObject *py_alive(PyObject *self, PyObject *args)
{
    int slot;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &slot))
        return NULL;
    return PyBool_FromLong(branch_alive(slot));
}

static PyObject *py_settled(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    branch_settled();
    Py_RETURN_NONE;
}

static PyObject *py_board(PyObject *self, PyObject *args)
{
    const char *data = NULL;
    Py_ssize_t length = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "|y#", &data, &length))
        return NULL;
    int r = data ? branch_board_set(data, (size_t)length) : 0;
    if (r < 0)
        return fail(r);
    length = (Py_ssize_t)branch_board(&data);
    return PyBytes_FromStringAndSize(data, length);
}

static PyObject *py_limits(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return Py_BuildValue("KI", (unsigned long long)branch_memory_limit(),
                         (unsigned)branch_process_limit());
}

// A package's own C code may have printed; what is still in its buffers would be the next run's
// output.
static PyObject *py_flush_all(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    (void)fflush(NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"ready", py_ready, METH_VARARGS, "ready(report): tell the keeper that this zygote is warm"},
    {"serve", py_serve, METH_VARARGS,
     "serve(on_child, rehearsals[, single]): make boxes until the keeper goes"},
    {"receive", py_receive, METH_NOARGS, "receive(): the next run as (meta, code), or None"},
    {"send", py_send, METH_VARARGS, "send(kind, payload): send a frame to the gate"},
    {"bind_plain", py_bind_plain, METH_O, "bind_plain(kit): runs can be done in C"},
    {"rehearse_plain", py_rehearse_plain, METH_VARARGS,
     "rehearse_plain([source]): one of them, for practice"},
    {"public", py_public, METH_VARARGS, "public(names, values): those that are no secret"},
    {"begin", py_begin, METH_NOARGS, "begin(): move out of the memory shared with init"},
    {"park", py_park, METH_VARARGS, "park(branch, serial, kind, keep): keep a copy asleep"},
    {"reserve", py_reserve, METH_VARARGS, "reserve(branch, serial): a slot to sleep in"},
    {"give_way", py_give_way, METH_VARARGS, "give_way(slot, why, own): wake another, sleep or end"},
    {"drop", py_drop, METH_VARARGS, "drop(slot): end a copy"},
    {"alive", py_alive, METH_VARARGS, "alive(slot): is somebody there?"},
    {"settled", py_settled, METH_NOARGS, "settled(): after being woken, all is well"},
    {"board", py_board, METH_VARARGS, "board([notes]): notes that are not undone"},
    {"limits", py_limits, METH_NOARGS, "limits(): (memory in bytes, processes)"},
    {"flush_all", py_flush_all, METH_NOARGS, "flush_all(): what C code has printed goes out"},
    {"replacement", py_replacement, METH_VARARGS,
     "replacement(name, doc, function, owner): what looks like a function of C and calls this one"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    "_constrictor",
    "The C side of a zygote and of a box.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__constrictor(void);

PyMODINIT_FUNC PyInit__constrictor(void)
{
    arenas_watch();
    return PyModule_Create(&module);
}
