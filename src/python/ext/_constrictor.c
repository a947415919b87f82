// SPDX-License-Identifier: Apache-2.0
//
// _constrictor: what zygote.py and runner.py need from C, for any CPython from 3.9 on (limited API,
// one binary).  Loaded in the zygote; its functions receive() and send() are used in boxes.
//
//   ready(report)        zygote: tell the keeper that the interpreter is warm
//   serve(on_child, rehearsals, single)  zygote: make boxes until the keeper closes the link; in a
//                        box: call on_child().  `rehearsals` is () or two functions that rehearse a
//                        run, for boxes made ahead of demand and on demand: boxes are then forked
//                        from an image (box/image.h), with the pages that a run writes to
//                        (box/pages.h)
//   serve_alone(on_child, limits)  in a sandbox of its own (box/alone.h): become the one box there
//   receive()            box: wait for the next run -> (meta, code), or None
//   bind_plain(bindings), rehearse_plain([source])  zygote: python/ext/plain.h
//   send(kind, payload)  box: have init send a frame to the gate
//   open_input()         box: the reading end of a pipe that init fills with the run's stdin
//   ask(prompt)          box: unless there is stdin to read, have init tell the gate that the code
//                        waits for a person
//   public(names, values)  box: the keys of a dictionary that do not begin with "_", without those
//                        whose value is in a tuple
// for undo.py, in a box: box/checkpoint.h, with the hooks that os.fork() calls around a fork:
//   begin()              move out of the memory that is shared with init
//   sleep(fork, serial, kind, keep)  keep a sleeping copy -> its number; in the copy, once it is
//   woken,
//                        a tuple
//   reserve(fork, serial), give_way(number, why, own), drop(number), alive(number), settled()
//   board([bytes])       notes that an undo does not touch
//   limits()             (memory in bytes, processes)
//   end_library_threads() make libraries end their threads, as they do before a fork
// and for network.py, in the zygote or later:
//   replacement(name, doc, function, owner)  python/ext/replacement.h

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "box/alone.h"
#include "box/checkpoint.h"
#include "box/code_pages.h"
#include "box/image.h"
#include "box/init.h"
#include "box/input.h"
#include "box/pages.h"
#include "box/spawn.h"
#include "box/spawn_message.h"
#include "python/ext/arenas.h"
#include "python/ext/large.h"
#include "python/ext/plain.h"
#include "python/ext/replacement.h"
#include "wire/frame.h"

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

// CPython's work around a fork (new locks, hooks of modules) protects other threads.  A zygote has
// none, unless a preload started one; without that work a box copies 40 pages less.
static bool is_alone(void)
{
    uint64_t threads = 0;
    return file_read_key_at(ZYGOTE_PROC_FD, "self/status", "Threads", &threads) == 0 &&
           threads == 1;
}

static void nothing(void)
{
}

// glibc keeps small free chunks apart until a large request comes, as from the compiler: then every
// box would write to a dozen pages to join them.  Setting the default value again joins them here.
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
    if (pages_begin() < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        pages_watch();
        PyObject *done = PyObject_CallObject(rehearsal, NULL);
        int reported = pages_report();
        if (!done)
            PyErr_Print();
        _exit(done && reported == 0 ? 0 : 1);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        pages_take(hurry);
}

// From here on this process runs no Python, which would dirty pages that every box then copies: its
// memory becomes the image, and children rehearse what runs do with it.  Only without other
// threads, which could write to memory while it is moved.  Without an image boxes are as safe, but
// slower.
static int prepare(PyObject *rehearsals)
{
    const struct image_area *areas;
    size_t count = arenas_known(&areas);
    void *inside = dlsym(RTLD_DEFAULT, "Py_Initialize");
    if (inside)
        code_pages_prepare(inside);
    int shared = image_share(areas, count);
    if (shared < 0)
        return shared;
    for (Py_ssize_t i = 0; i < PyTuple_Size(rehearsals); i++)
        learn(PyTuple_GetItem(rehearsals, i), i > 0); // learns nothing where there is no /proc
    pages_end();
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

static PyObject *py_open_input(PyObject *self, PyObject *args)
{
    int fd;
    (void)self;
    (void)args;
    Py_BEGIN_ALLOW_THREADS fd = input_make();
    Py_END_ALLOW_THREADS return fd < 0 ? fail(fd) : PyLong_FromLong(fd);
}

static PyObject *py_ask(PyObject *self, PyObject *prompt)
{
    char *text;
    Py_ssize_t length;
    int r;
    (void)self;
    if (PyBytes_AsStringAndSize(prompt, &text, &length) < 0)
        return NULL;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&ready, 1, 0) != 0)
        Py_RETURN_NONE; // something is there, or the end
    Py_BEGIN_ALLOW_THREADS r = init_send(FRAME_ASK, text, (size_t)length);
    if (r == 0)
        init_send_wait(); // the caller owns the bytes
    Py_END_ALLOW_THREADS if (r < 0) return fail(r);
    Py_RETURN_NONE;
}

// The life of a box's user process.  Returns what on_child() returns: True when the last answer is
// sent.  The first run is most often the only one and most often plain: then C does all of it.
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
    int r = spawn_message_prepare();
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
    // The keeper kills a box after its answer.  Exiting first would only wake init and the gate
    // once more.
    while (done == Py_True)
        (void)pause();
    // No interpreter shutdown: the runner has already done what the end of a script does.
    _exit(done ? 0 : 1);
}

static PyObject *py_serve_alone(PyObject *self, PyObject *args)
{
    unsigned long long memory, scratch, file;
    unsigned processes, files, readonly;
    PyObject *on_child;
    const char *step = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "O(KKKIII)", &on_child, &memory, &scratch, &file, &processes,
                          &files, &readonly))
        return NULL;
    const struct wire_limits limits = {.memory_bytes = memory,
                                       .scratch_bytes = scratch,
                                       .file_bytes = file,
                                       .processes = processes,
                                       .open_files = files,
                                       .readonly = readonly};
    if (!plain_begin())
        return NULL;
    if (alone_enter(&limits, &step) < 0)
        return PyErr_Format(PyExc_OSError, "%s: %s", step, strerror(errno));
    PyOS_AfterFork_Child(); // another pid
    PyObject *done = live(on_child);
    if (!done)
        PyErr_Print();
    while (done == Py_True)
        (void)pause();
    _exit(done ? 0 : 1);
}

// Called after every run of a session, which may have a hundred names such as _3: in Python this
// would take longer than everything else about variables.
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
    int r = checkpoint_begin();
    if (r > 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (r < 0)
        return fail(r);
    large_begin();
    Py_RETURN_NONE;
}

// (why, status, fork that was active before, whether a run waits for an answer, whether nothing is
// left of that fork).
static PyObject *woken(const struct checkpoint_wake *w)
{
    return Py_BuildValue("iiIii", (int)w->why, w->status, (unsigned)w->fork_number, w->asked,
                         w->consumed);
}

static PyObject *py_sleep(PyObject *self, PyObject *args)
{
    unsigned fork_number, serial, kind;
    int keep;
    struct checkpoint_wake wake;
    (void)self;
    if (!PyArg_ParseTuple(args, "IIIp", &fork_number, &serial, &kind, &keep))
        return NULL;
    // The hooks of the copy are called when it wakes: most never do, and calling them copies pages.
    PyOS_BeforeFork();
    int r = checkpoint_park(fork_number, serial, (enum checkpoint_kind)kind, keep, &wake);
    if (r == CHECKPOINT_WOKEN) {
        PyOS_AfterFork_Child();
        return woken(&wake);
    }
    PyOS_AfterFork_Parent();
    return r < 0 ? fail(r) : PyLong_FromLong(r);
}

static PyObject *py_reserve(PyObject *self, PyObject *args)
{
    unsigned fork_number, serial;
    (void)self;
    if (!PyArg_ParseTuple(args, "II", &fork_number, &serial))
        return NULL;
    int r = checkpoint_reserve(fork_number, serial);
    return r < 0 ? fail(r) : PyLong_FromLong(r);
}

static PyObject *py_give_way(PyObject *self, PyObject *args)
{
    unsigned why;
    int number, own;
    struct checkpoint_wake wake;
    (void)self;
    if (!PyArg_ParseTuple(args, "iIi", &number, &why, &own))
        return NULL;
    int r = checkpoint_give_way(number, (enum checkpoint_why)why, own, &wake);
    return r < 0 ? fail(r) : woken(&wake);
}

static PyObject *py_drop(PyObject *self, PyObject *args)
{
    int number;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &number))
        return NULL;
    checkpoint_drop(number);
    Py_RETURN_NONE;
}

static PyObject *py_alive(PyObject *self, PyObject *args)
{
    int number;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &number))
        return NULL;
    return PyBool_FromLong(checkpoint_alive(number));
}

static PyObject *py_settled(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    checkpoint_settled();
    Py_RETURN_NONE;
}

static PyObject *py_board(PyObject *self, PyObject *args)
{
    const char *data = NULL;
    Py_ssize_t length = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "|y#", &data, &length))
        return NULL;
    int r = data ? checkpoint_board_set(data, (size_t)length) : 0;
    if (r < 0)
        return fail(r);
    length = (Py_ssize_t)checkpoint_board(&data);
    return PyBytes_FromStringAndSize(data, length);
}

// OpenBLAS starts its threads when it is loaded, ends them before a fork of libc, and starts them
// again when it has work for them.  So a fork whose child ends at once leaves one thread where the
// others were its own.  No Python runs here, no hook and no handler: code notices nothing.
static PyObject *py_end_library_threads(PyObject *self, PyObject *args)
{
    struct sigaction before, plain = {.sa_handler = SIG_DFL};
    (void)self;
    (void)args;
    (void)sigaction(SIGCHLD, &plain, &before);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)sigaction(SIGCHLD, &before, NULL);
    Py_RETURN_NONE;
}

static PyObject *py_limits(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return Py_BuildValue("KI", (unsigned long long)checkpoint_memory_limit(),
                         (unsigned)checkpoint_process_limit());
}

// C code of a package may have printed: what stays in its buffers would become output of the next
// run.
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
    {"serve_alone", py_serve_alone, METH_VARARGS,
     "serve_alone(on_child, limits): become the one box of this sandbox"},
    {"receive", py_receive, METH_NOARGS, "receive(): the next run as (meta, code), or None"},
    {"send", py_send, METH_VARARGS, "send(kind, payload): send a frame to the gate"},
    {"open_input", py_open_input, METH_NOARGS, "open_input(): the reading end of stdin"},
    {"ask", py_ask, METH_O, "ask(prompt): tell the gate that the code waits for a person"},
    {"bind_plain", py_bind_plain, METH_O, "bind_plain(bindings): let C do plain runs"},
    {"rehearse_plain", py_rehearse_plain, METH_VARARGS,
     "rehearse_plain([source]): do one in a rehearsal"},
    {"public", py_public, METH_VARARGS, "public(names, values): names without a leading _"},
    {"begin", py_begin, METH_NOARGS, "begin(): move out of the memory shared with init"},
    {"sleep", py_sleep, METH_VARARGS, "sleep(fork, serial, kind, keep): keep a sleeping copy"},
    {"reserve", py_reserve, METH_VARARGS, "reserve(fork, serial): a number to sleep as"},
    {"give_way", py_give_way, METH_VARARGS,
     "give_way(number, why, own): wake another copy, sleep or end"},
    {"drop", py_drop, METH_VARARGS, "drop(number): end a copy"},
    {"alive", py_alive, METH_VARARGS, "alive(number): does the copy still exist?"},
    {"settled", py_settled, METH_NOARGS, "settled(): the woken copy is complete"},
    {"board", py_board, METH_VARARGS, "board([notes]): notes that are not undone"},
    {"limits", py_limits, METH_NOARGS, "limits(): (memory in bytes, processes)"},
    {"end_library_threads", py_end_library_threads, METH_NOARGS,
     "end_library_threads(): make libraries end their threads, as they do before a fork"},
    {"flush_all", py_flush_all, METH_NOARGS, "flush_all(): flush the streams of the C library"},
    {"replacement", py_replacement, METH_VARARGS,
     "replacement(name, doc, function, owner): a C function that calls a Python one"},
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
