// SPDX-License-Identifier: Apache-2.0
//
// plain: see plain.h.

#include "python/ext/plain.h"

#include <string.h>
#include <unistd.h>

// What runner.plain_bindings() returns, by the same names.
#define BINDING_MAP(X)                                                                             \
    X(BOX, "box")                   /* vars(Box) */                                                \
    X(MODULES, "modules")           /* sys.modules */                                              \
    X(SYS, "sys")                   /* vars(sys) */                                                \
    X(SOURCES, "sources")           /* Box.sources */                                              \
    X(STREAMS, "streams")           /* stdout and stderr as user code finds them */                \
    X(RENEWALS, "renewals")         /* what every box calls: seeds */                              \
    X(THREAD_EXITS, "thread_exits") /* threading's own list of exit functions */                   \
    X(LOG_HANDLERS, "log_handlers") /* logging's own list of handlers */                           \
    X(FIGURES, "figures")           /* pyplot's own dictionary of open figures, or None */         \
    X(GETTRACE, "gettrace")                                                                        \
    X(SETTRACE, "settrace")                                                                        \
    X(GETPROFILE, "getprofile")                                                                    \
    X(SETPROFILE, "setprofile")                                                                    \
    X(COUNT_THREADS, "count_threads")                                                              \
    X(COUNT_EXITFUNCS, "count_exitfuncs")                                                          \
    X(RUN_EXITFUNCS, "run_exitfuncs")                                                              \
    X(COLLECT, "collect")                                                                          \
    X(GET_OBJECTS, "get_objects")                                                                  \
    X(QUOTE, "quote") /* a str as JSON */                                                          \
    X(TO_STEPS, "to_steps")                                                                        \
    X(COMPILE_BODY, "compile_body") /* for to_steps: more than one expression */                   \
    X(DESCRIBE, "describe")         /* (codes, phase, value, exception): an answer */              \
    X(WIND_UP, "wind_up")           /* (answer): the end of a run; returns a payload */            \
    X(LAST_RESORT, "last_resort")

enum binding {
#define X(name, text) B_##name,
    BINDING_MAP(X)
#undef X
        BINDINGS_MAX,
};

static const char *const binding_names[BINDINGS_MAX] = {
#define X(name, text) [B_##name] = text,
    BINDING_MAP(X)
#undef X
};

// Strings for lookups, made once.
#define KEY_MAP(X)                                                                                 \
    X(PID, "pid")                                                                                  \
    X(SESSION, "session")                                                                          \
    X(SHOWN, "shown")                                                                              \
    X(PYPLOT, "pyplot")                                                                            \
    X(WHEELS, "wheels")                                                                            \
    X(EVENTS, "events")                                                                            \
    X(STDOUT, "stdout")                                                                            \
    X(STDERR, "stderr")                                                                            \
    X(BUILTINS, "__builtins__")                                                                    \
    X(NAME, "__main__")                                                                            \
    X(FILENAME, "<code>")                                                                          \
    X(FLUSH, "flush")

enum key {
#define X(name, text) KEY_##name,
    KEY_MAP(X)
#undef X
        KEY_MAX,
};

static const char *const key_texts[KEY_MAX] = {
#define X(name, text) [KEY_##name] = text,
    KEY_MAP(X)
#undef X
};

enum { RESULT_MAX = 64 << 10 }; // bytes of a text that C answers with; base.TEXT_MAX

static PyObject *bound[BINDINGS_MAX], *keys[KEY_MAX];
static PyObject *main_module, *names;   // and its dictionary
static PyObject *youngest_two, *oldest; // arguments, as tuples
static Py_ssize_t modules_before, exits_before, handlers_before;

// What a new __main__ contains.  Borrowed: they are only compared.
enum { NAMES_MAX = 16 };
static PyObject *values_before[NAMES_MAX];
static Py_ssize_t names_before;
static pid_t own_pid;

// ---- in the zygote ------------------------------------------------------------------------------

PyObject *py_bind_plain(PyObject *self, PyObject *given)
{
    (void)self;
    for (size_t i = 0; i < BINDINGS_MAX; i++) {
        bound[i] = PyDict_GetItemString(given, binding_names[i]);
        if (!bound[i])
            return PyErr_Format(PyExc_KeyError, "%s", binding_names[i]);
        Py_INCREF(bound[i]);
    }
    for (size_t i = 0; i < KEY_MAX; i++) {
        keys[i] = PyUnicode_InternFromString(key_texts[i]);
        if (!keys[i])
            return NULL;
    }
    youngest_two = Py_BuildValue("(i)", 1);
    oldest = Py_BuildValue("(i)", 2);
    if (!youngest_two || !oldest)
        return NULL;
    exits_before = PyList_Size(bound[B_THREAD_EXITS]);
    handlers_before = PyList_Size(bound[B_LOG_HANDLERS]);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

bool plain_begin(void)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!bound[B_MODULES])
        return true;
    main_module = PyDict_GetItemWithError(bound[B_MODULES], keys[KEY_NAME]);
    PyObject *dict = main_module ? PyModule_GetDict(main_module) : NULL;
    if (!dict || PyDict_Size(dict) > NAMES_MAX)
        return !PyErr_Occurred();
    Py_INCREF(main_module);
    names_before = 0;
    while (PyDict_Next(dict, &at, &key, &value))
        values_before[names_before++] = value;
    modules_before = PyDict_Size(bound[B_MODULES]);
    names = dict;
    return true;
}

bool plain_is_bound(void)
{
    return names != NULL;
}

void plain_let_go(void)
{
    names = NULL;
    Py_CLEAR(main_module);
}

bool plain_is_ours(void)
{
    return getpid() == own_pid;
}

PyObject *py_rehearse_plain(PyObject *self, PyObject *args)
{
    PyObject *source = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "|S", &source))
        return NULL;
    if (!names && !plain_begin()) // the rehearsal before released __main__
        return NULL;
    if (!names)
        return PyErr_Format(PyExc_RuntimeError,
                            "bind_plain() was not called, or there is no __main__");
    if (source)
        return plain_run(source);
    source = plain_settle() ? PyBytes_FromString("1 + 1") : NULL;
    return source ? plain_run(source) : NULL;
}

// ---- a new box ----------------------------------------------------------------------------------

bool plain_settle(void)
{
    own_pid = getpid();
    PyObject *known = PyDict_GetItemWithError(bound[B_BOX], keys[KEY_PID]);
    if (!known || PyLong_AsLong(known) != own_pid) {
        PyObject *pid = PyLong_FromLong(own_pid);
        int r = pid ? PyDict_SetItem(bound[B_BOX], keys[KEY_PID], pid) : -1;
        Py_XDECREF(pid);
        if (r < 0)
            return false;
    }
    for (Py_ssize_t i = 0, n = PyTuple_Size(bound[B_RENEWALS]); i < n; i++) {
        PyObject *done = PyObject_CallObject(PyTuple_GetItem(bound[B_RENEWALS], i), NULL);
        if (!done)
            return false;
        Py_DECREF(done);
    }
    return true;
}

// ---- the text -----------------------------------------------------------------------------------

// With one of these words runner.handle() does more than run the text.  A match within a string or
// another word only costs time.
static bool is_plain(const char *text, size_t length)
{
    static const char *const words[] = {"coding", "__main__", "__file__",
                                        "/proc",  "await",    "async"};
    if (memchr(text, '\0', length))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(text, length, words[i], strlen(words[i])))
            return false;
    return true;
}

static bool is_one_line(const char *text, size_t length)
{
    static const char blanks[] = " \t\n\r\v\f";
    size_t start = strspn(text, blanks);
    while (length > start && strchr(blanks, text[length - 1]))
        length--;
    return !memchr(text + start, '\n', length - start);
}

// A list of code objects, followed by None where the value is not wanted; NULL with an exception.
static PyObject *to_steps(PyObject *source)
{
    char *text = PyBytes_AsString(source);
    if (is_one_line(text, (size_t)PyBytes_Size(source))) {
        PyObject *code = Py_CompileString(text, key_texts[KEY_FILENAME], Py_eval_input);
        if (code) {
            PyObject *steps = PyList_New(1);
            if (steps)
                (void)PyList_SetItem(steps, 0, code);
            else
                Py_DECREF(code);
            return steps;
        }
        if (!PyErr_ExceptionMatches(PyExc_SyntaxError) &&
            !PyErr_ExceptionMatches(PyExc_RecursionError) &&
            !PyErr_ExceptionMatches(PyExc_MemoryError))
            return NULL;
        PyErr_Clear();
    }
    return PyObject_CallFunctionObjArgs(bound[B_TO_STEPS], source, keys[KEY_FILENAME],
                                        bound[B_COMPILE_BODY], NULL);
}

// Adds __builtins__ as eval() does; CPython 3.9 does not do so by itself.
static PyObject *evaluate_step(PyObject *code)
{
    if (!PyDict_GetItemWithError(names, keys[KEY_BUILTINS]) &&
        (PyErr_Occurred() || PyDict_SetItem(names, keys[KEY_BUILTINS], PyEval_GetBuiltins()) < 0))
        return NULL;
    return PyEval_EvalCode(code, names, names);
}

// The value of the last step, None when it is not wanted; NULL with an exception.  A tuple, because
// user code can find a list and change it.
static PyObject *evaluate(PyObject *steps)
{
    PyObject *codes = PyList_AsTuple(steps), *value = NULL;
    for (Py_ssize_t i = 0, n = codes ? PyTuple_Size(codes) : 0; i < n; i++) {
        PyObject *code = PyTuple_GetItem(codes, i);
        Py_XDECREF(value);
        value = code == Py_None ? Py_None : evaluate_step(code);
        if (code == Py_None)
            Py_INCREF(value);
        if (!value)
            break;
    }
    Py_XDECREF(codes);
    return value;
}

static void unset(enum binding get, enum binding set)
{
    PyObject *now = PyObject_CallObject(bound[get], NULL);
    if (now && now != Py_None)
        Py_XDECREF(PyObject_CallFunctionObjArgs(bound[set], Py_None, NULL));
    Py_XDECREF(now);
    PyErr_Clear();
}

// Takes back what user code may have set and the rest of the run would have to run under; what it
// raised stays.
static void regain(void)
{
    enum { RECURSION_MIN = 1000 }; // runner.RECURSION_MIN
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    unset(B_GETTRACE, B_SETTRACE);
    unset(B_GETPROFILE, B_SETPROFILE);
    if (Py_GetRecursionLimit() < RECURSION_MIN)
        Py_SetRecursionLimit(RECURSION_MIN);
    PyErr_Restore(type, value, traceback);
}

// ---- the end ------------------------------------------------------------------------------------

// Is the entry of Box still unset or false?
static bool is_unset(enum key key)
{
    PyObject *value = PyDict_GetItemWithError(bound[B_BOX], keys[key]);
    return !value || PyObject_IsTrue(value) == 0;
}

// An open figure has to be shown.
static bool has_no_figures(void)
{
    return is_unset(KEY_PYPLOT) ||
           (bound[B_FIGURES] != Py_None && PyObject_Size(bound[B_FIGURES]) == 0);
}

// User code left nothing in __main__, so nothing has to be released.
static bool main_is_as_it_was(void)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, i = 0;
    if (PyDict_Size(names) != names_before)
        return false;
    while (PyDict_Next(names, &at, &key, &value))
        if (i >= names_before || value != values_before[i++])
            return false;
    return true;
}

// Has the run left nothing behind that runner.py would have to handle?
static bool nothing_is_left(void)
{
    return plain_is_ours() && main_is_as_it_was() &&
           PyDict_Size(bound[B_MODULES]) == modules_before &&
           PyDict_GetItemWithError(bound[B_MODULES], keys[KEY_NAME]) == main_module &&
           PyDict_GetItemWithError(bound[B_SYS], keys[KEY_STDOUT]) ==
               PyTuple_GetItem(bound[B_STREAMS], 0) &&
           PyDict_GetItemWithError(bound[B_SYS], keys[KEY_STDERR]) ==
               PyTuple_GetItem(bound[B_STREAMS], 1) &&
           is_unset(KEY_SHOWN) && has_no_figures() && is_unset(KEY_WHEELS) &&
           is_unset(KEY_EVENTS) && !PyErr_Occurred();
}

static bool did(PyObject *done)
{
    Py_XDECREF(done);
    return done != NULL;
}

static bool has_no_threads(void)
{
    PyObject *count = PyObject_CallObject(bound[B_COUNT_THREADS], NULL);
    long threads = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    return threads == 0 && PyList_Size(bound[B_THREAD_EXITS]) == exits_before;
}

// A whole collection as long as nothing is in the oldest generation; see runner.collect_new().
static bool collect(void)
{
    PyObject *old = PyObject_CallObject(bound[B_GET_OBJECTS], oldest);
    if (!old)
        return false;
    PyObject *how_far = PyList_Size(old) ? oldest : youngest_two;
    Py_DECREF(old);
    return did(PyObject_CallObject(bound[B_COLLECT], how_far));
}

// atexit has none by itself, unless a preload gave it one.
static bool run_exitfuncs(void)
{
    PyObject *count = PyObject_CallObject(bound[B_COUNT_EXITFUNCS], NULL);
    long functions = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    return functions == 0 ||
           (functions > 0 && did(PyObject_CallObject(bound[B_RUN_EXITFUNCS], NULL)));
}

// What runner.end_of_script() does.  False: something is not plain, with or without an exception,
// and runner.end_of_script() has to run.
static bool end_plainly(void)
{
    if (!nothing_is_left() || !has_no_threads() || !run_exitfuncs() ||
        PyList_Size(bound[B_LOG_HANDLERS]) != handlers_before || !collect() || !nothing_is_left())
        return false;
    for (Py_ssize_t i = 0; i < 2; i++)
        if (!did(PyObject_CallMethodObjArgs(PyTuple_GetItem(bound[B_STREAMS], i), keys[KEY_FLUSH],
                                            NULL)))
            return false;
    return !PyErr_Occurred();
}

// ---- the answer ---------------------------------------------------------------------------------

struct shown {
    PyObject *text, *json; // str; NULL where there is no value
};

static bool is_short_ascii(PyObject *text)
{
    if (PyUnicode_GetLength(text) >= RESULT_MAX / 4) // no escape makes more of it than fits
        return false;
    PyObject *bytes = PyUnicode_AsUTF8String(text);
    if (!bytes) {
        PyErr_Clear(); // a surrogate by itself
        return false;
    }
    const char *start = PyBytes_AsString(bytes);
    Py_ssize_t length = PyBytes_Size(bytes);
    bool good = true;
    for (Py_ssize_t i = 0; i < length && good; i++)
        good = start[i] > 0;
    Py_DECREF(bytes);
    return good;
}

static PyObject *call_quote(PyObject *text)
{
    return PyObject_CallFunctionObjArgs(bound[B_QUOTE], text, NULL);
}

static bool fits(PyObject *integer)
{
    int over;
    (void)PyLong_AsLongLongAndOverflow(integer, &over);
    return over == 0;
}

// Describes a value of a plain type; false for others.
static bool show(PyObject *value, struct shown *ret)
{
    *ret = (struct shown){NULL, NULL};
    if (value == Py_None)
        return true;
    if (value == Py_True || value == Py_False) {
        ret->json = PyUnicode_FromString(value == Py_True ? "true" : "false");
        ret->text = PyObject_Repr(value);
    } else if ((PyLong_CheckExact(value) && fits(value)) ||
               (PyFloat_CheckExact(value) &&
                PyFloat_AsDouble(value) - PyFloat_AsDouble(value) == 0)) {
        ret->text = PyObject_Repr(value);
        ret->json = ret->text;
        Py_XINCREF(ret->json);
    } else if (PyUnicode_CheckExact(value) && is_short_ascii(value)) {
        ret->json = call_quote(value);
        ret->text = PyObject_Repr(value);
    }
    if (ret->text && ret->json)
        return true;
    PyErr_Clear();
    Py_CLEAR(ret->text);
    Py_CLEAR(ret->json);
    return false;
}

static PyObject *encode(const struct shown *s)
{
    if (!s->text)
        return PyBytes_FromString("{\"exit_code\":0,\"phase\":\"execution\"}");
    PyObject *quoted = call_quote(s->text);
    PyObject *text = quoted ? PyUnicode_FromFormat("{\"exit_code\":0,\"phase\":\"execution\","
                                                   "\"result\":%U,\"result_json\":%U}",
                                                   quoted, s->json)
                            : NULL;
    PyObject *payload = text ? PyUnicode_AsUTF8String(text) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(quoted);
    return payload;
}

static PyObject *as_answer(const struct shown *s)
{
    return s->text ? Py_BuildValue("{s:i,s:s,s:O,s:O}", "exit_code", 0, "phase", "execution",
                                   "result", s->text, "result_json", s->json)
                   : Py_BuildValue("{s:i,s:s}", "exit_code", 0, "phase", "execution");
}

// Takes the pending exception, with its traceback in it.
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        (void)PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

// An answer by runner.describe().  Releases the value, which must be gone when the script ends.
// None where even that failed.
static PyObject *describe(PyObject *steps, const char *phase, PyObject **value)
{
    if (*value)
        PyErr_Clear();
    PyObject *exc = *value ? NULL : take_exception();
    PyObject *answer = PyObject_CallFunction(bound[B_DESCRIBE], "OsOO", steps ? steps : Py_None,
                                             phase, *value ? *value : Py_None, exc ? exc : Py_None);
    Py_XDECREF(exc);
    Py_CLEAR(*value);
    if (answer)
        return answer;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *wind_up(PyObject *answer)
{
    PyErr_Clear();
    plain_let_go();
    PyObject *payload =
        answer ? PyObject_CallFunctionObjArgs(bound[B_WIND_UP], answer, NULL) : NULL;
    Py_XDECREF(answer);
    if (payload && PyBytes_Check(payload))
        return payload;
    PyErr_Clear(); // no memory for it, or a signal
    Py_INCREF(bound[B_LAST_RESORT]);
    return bound[B_LAST_RESORT];
}

PyObject *plain_run(PyObject *source)
{
    if (!is_plain(PyBytes_AsString(source), (size_t)PyBytes_Size(source)))
        return NULL;
    if (PyDict_SetItem(bound[B_SOURCES], keys[KEY_FILENAME], source) < 0 ||
        PyDict_SetItem(bound[B_BOX], keys[KEY_SESSION], Py_False) < 0) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *steps = to_steps(source);
    PyObject *value = steps ? evaluate(steps) : NULL;
    regain();
    PyObject *answer = NULL, *payload = NULL;
    struct shown shown;
    if (!value || !nothing_is_left() || !show(value, &shown))
        answer = describe(steps, steps ? "execution" : "syntax_check", &value);
    Py_XDECREF(steps);
    Py_CLEAR(value);
    if (answer)
        return wind_up(answer);
    payload = end_plainly() ? encode(&shown) : NULL;
    return payload ? payload : wind_up(as_answer(&shown));
}
