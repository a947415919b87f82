// SPDX-License-Identifier: Apache-2.0
//
// selftest: see selftest.h.  The gate prepares the question before it gives up its rights, and
// reads the box's answer after that.

#include "check/selftest.h"

#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "box/filter.h"

static const struct {
    enum layer layer;
    const char *body;
} looks[] = {
#define LOOK(layer, body) {LAYER_##layer, body},
#define PROBE(name, what, body, expected)
#include "check/probes.def"
#undef LOOK
#undef PROBE
};

static const struct probe {
    const char *name, *what, *body, *expected;
} probes[] = {
#define LOOK(layer, body)
#define PROBE(name, what, body, expected) {name, what, body, expected},
#include "check/probes.def"
#undef LOOK
#undef PROBE
};

// Runs in the box as ordinary user code; the value of its last line is the answer.  Every body runs
// in a child, which may die, confine itself or leave processes behind.
const char selftest_code[] =
    "import errno, json, os, select, signal, stat, struct, sys, time\n"
    "try:\n"
    "    import ctypes\n"
    "    LIBC = ctypes.CDLL(None, use_errno=True)\n"
    "    LIBC.syscall.restype = ctypes.c_long\n"
    "except Exception:\n"
    "    ctypes = None\n"
    "\n"
    "def is_open(fd):\n"
    "    try: os.fstat(fd)\n"
    "    except OSError: return False\n"
    "    return True\n"
    "\n"
    "START = {'pid': os.getpid(), 'fds': [fd for fd in range(1024) if is_open(fd)]}\n"
    "HOST = json.loads(sys.argv[1])\n"
    "NEW = {'user': 1 << 28, 'mnt': 1 << 17, 'pid': 1 << 29, 'net': 1 << 30, 'ipc': 1 << 27,\n"
    "       'uts': 1 << 26, 'cgroup': 1 << 25}\n"
    "BAD = (1 << 64) - 1\n"
    "KEEP = []\n"
    "FORBIDDEN = ['/sys', '/var', '/run', '/boot', '/srv', '/media', '/lost+found', "
    "'/etc/shadow',\n"
    "             '/etc/machine-id', '/etc/ssh', '/etc/ssl/private', '/etc/pki/tls/private', "
    "'/root/.ssh',\n"
    "             '/root/.bash_history']\n"
    "\n"
    "def errname(number):\n"
    "    return errno.errorcode.get(number, 'errno %d' % number)\n"
    "\n"
    "def call(name, args):\n"
    "    number = HOST['nr'].get(name, -1) if isinstance(name, str) else name\n"
    "    if number < 0: return None, 0\n"
    "    ctypes.set_errno(0)\n"
    "    words = [ctypes.c_ulong(a & BAD) for a in args]\n"
    "    return LIBC.syscall(ctypes.c_long(number), *words), ctypes.get_errno()\n"
    "\n"
    "def sc(name, *args):\n"
    "    value, number = call(name, args)\n"
    "    return 'absent' if value is None else errname(number) if value == -1 else 'ok'\n"
    "\n"
    "def sc_fork(name, flags):\n"
    "    value, number = call(name, (flags, 0, 0, 0, 0))\n"
    "    if value == 0: os._exit(0)\n"
    "    return errname(number) if value == -1 else 'ok'\n"
    "\n"
    "def at(data):\n"
    "    KEEP.append(ctypes.create_string_buffer(data, len(data) + 1))\n"
    "    return ctypes.addressof(KEEP[-1])\n"
    "\n"
    "def sleeper():\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n"
    "        time.sleep(30)\n"
    "        os._exit(0)\n"
    "    return pid\n"
    "\n"
    "def held(good, what):\n"
    "    return 'held' if good else what\n"
    "\n"
    "def read(path):\n"
    "    with open(path) as file: return file.read()\n"
    "\n"
    "def status(key):\n"
    "    return dict(l.split(':\\t', 1) for l in read('/proc/self/status').splitlines() if ':\\t' "
    "in l)[key].strip()\n"
    "\n"
    "def own_ns(name):\n"
    "    return os.readlink('/proc/self/ns/' + name) != HOST['ns'].get(name)\n"
    "\n"
    "def mounts():\n"
    "    table = {}\n"
    "    for line in read('/proc/self/mountinfo').splitlines():\n"
    "        words, tail = line.split(), line.split(' - ')[1].split()\n"
    "        table[words[4]] = (words[5].split(',')[0], tail[2], words[5])\n"
    "    return table\n"
    "\n"
    "def hidden(path):\n"
    "    # Nothing is there but the way to the interpreter.\n"
    "    if path in HOST['tree']: return True\n"
    "    try: names = os.listdir(path)\n"
    "    except FileNotFoundError: return True\n"
    "    except OSError: return False\n"
    "    way = [t + '/' for t in HOST['tree']]\n"
    "    return all(any(w.startswith('%s/%s/' % (path, n)) for w in way) and hidden('%s/%s' % "
    "(path, n))\n"
    "               for n in names)\n"
    "\n"
    "def run(body):\n"
    "    scope = dict(globals())\n"
    "    exec('def body():\\n' + ''.join('    ' + l + '\\n' for l in body.splitlines()), scope)\n"
    "    near, far = os.pipe()\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n"
    "        try:\n"
    "            os.close(near)\n"
    "            os.setsid()\n"
    "            try: value = scope['body']()\n"
    "            except OSError as error: value = errname(error.errno)\n"
    "            except BaseException as error: value = 'raised %s: %s' % (type(error).__name__, "
    "error)\n"
    "            os.write(far, json.dumps(value).encode() + b'\\n')\n"
    "        finally:\n"
    "            os._exit(0)\n"
    "    os.close(far)\n"
    "    answer, deadline = b'', time.monotonic() + 10\n"
    "    while not answer.endswith(b'\\n'):\n"
    "        if not select.select([near], [], [], max(0, deadline - time.monotonic()))[0]:\n"
    "            answer = b'\"hangs\"\\n'\n"
    "            break\n"
    "        part = os.read(near, 65536)\n"
    "        if not part: break\n"
    "        answer += part\n"
    "    os.close(near)\n"
    "    for kill in (os.killpg, os.kill):\n"
    "        try: answer and kill(pid, signal.SIGKILL)\n"
    "        except OSError: pass\n"
    "    code = os.waitpid(pid, 0)[1]\n"
    "    if answer: return json.loads(answer)\n"
    "    return signal.Signals(os.WTERMSIG(code)).name if os.WIFSIGNALED(code) else 'no answer'\n"
    "\n"
    "{name: run(body) for name, body in HOST['rows']}\n";

// ---- the question -------------------------------------------------------------------------------

// Adds the numbers of the system calls in the bodies: every quoted word that names one.
static void add_numbers(json_t *numbers, const char *body)
{
    for (const char *p = strchr(body, '\''); p; p = strchr(p, '\'')) {
        char name[32];
        size_t n = strcspn(p + 1, "'");
        if (n > 0 && n < sizeof name) {
            memcpy(name, p + 1, n);
            name[n] = '\0';
            int nr = seccomp_syscall_resolve_name(name);
            if (nr >= 0)
                (void)json_object_set_new(numbers, name, json_integer(nr));
        }
        p++;
    }
}

static json_t *namespaces(void)
{
    static const char *const names[] = {"user", "pid", "mnt", "ipc", "uts", "net", "cgroup"};
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0)
            (void)json_object_set_new(o, names[i], json_stringn(target, (size_t)n));
    }
    return o;
}

static json_t *tree(const struct interp *interp)
{
    json_t *list = json_array();
    for (size_t i = 0; i < interp->path_count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s", interp->paths[i]);
        text_sanitize(path);
        (void)json_array_append_new(list, json_string(path));
    }
    return list;
}

static json_int_t count_rules(void)
{
    char *text = NULL;
    size_t size = 0;
    json_int_t lines = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return 0;
    filter_dump(f, FILTER_BOX);
    if (fclose(f) == 0)
        for (size_t i = 0; i < size; i++)
            lines += text[i] == '\n';
    free(text);
    return lines;
}

json_t *selftest_argv(const struct config *config, const struct interp *interp, bool with_probes)
{
    json_t *rows = json_array(), *numbers = json_object();
    for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
        (void)json_array_append_new(
            rows, json_pack("[s, s]", layers[looks[i].layer].name, looks[i].body));
        add_numbers(numbers, looks[i].body);
    }
    for (size_t i = 0; with_probes && i < ARRAY_LEN(probes); i++) {
        char key[64];
        snprintf(key, sizeof key, "probe:%s", probes[i].name);
        (void)json_array_append_new(rows, json_pack("[s, s]", key, probes[i].body));
        add_numbers(numbers, probes[i].body);
    }
    json_t *host =
        json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "rows", rows, "nr", numbers, "ns",
                  namespaces(), "tree", tree(interp), "rules", count_rules(), "processes",
                  (json_int_t)config->processes, "scratch", (json_int_t)config->scratch_bytes);
    _cleanup_free_ char *text = host ? json_dumps(host, JSON_COMPACT) : NULL;
    json_t *argv = text ? json_pack("[s, s]", "doctor", text) : NULL;
    json_decref(host);
    return argv;
}

// ---- the answer ---------------------------------------------------------------------------------

int selftest_look(json_t *answer, enum layer layer, const char **ret_text)
{
    json_t *said = json_object_get(answer, layers[layer].name);
    *ret_text = "";
    if (!json_is_array(said)) { // an errno, a signal, an exception
        if (json_is_string(said))
            *ret_text = json_string_value(said);
        return -1;
    }
    json_t *holds = json_array_get(said, 0);
    const char *text = json_string_value(json_array_get(said, 1));
    *ret_text = text ? text : "";
    return json_is_true(holds) || json_integer_value(holds) > 0;
}

static bool is_expected(const char *expected, const char *word)
{
    size_t n = strlen(word);
    if (strcmp(word, "absent") == 0)
        return true;
    for (const char *p = expected; n && (p = strstr(p, word)); p += n)
        if ((p == expected || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

// The first outcome that breaks the probe, or the first one when it passes.
static const char *find_outcome(const struct probe *probe, json_t *said, bool *ret_passed)
{
    const char *first = json_string_value(said);
    *ret_passed = false;
    if (first) {
        *ret_passed = is_expected(probe->expected, first);
        return first;
    }
    size_t i;
    json_t *one;
    json_array_foreach (said, i, one) {
        const char *word = json_string_value(one);
        if (!word || !is_expected(probe->expected, word))
            return word ? word : "no answer";
        if (!first)
            first = word;
    }
    *ret_passed = first != NULL;
    return first ? first : "no answer";
}

json_t *selftest_judge(json_t *answer)
{
    json_t *list = json_array();
    json_int_t good = 0;
    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        char key[64];
        bool passed;
        snprintf(key, sizeof key, "probe:%s", probes[i].name);
        const char *outcome = find_outcome(&probes[i], json_object_get(answer, key), &passed);
        good += passed;
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s}", "name", probes[i].name,
                                                    "what", probes[i].what, "held", passed,
                                                    "outcome", outcome));
    }
    return json_pack("{s:I, s:I, s:o}", "held", good, "total", (json_int_t)ARRAY_LEN(probes),
                     "probes", list);
}
