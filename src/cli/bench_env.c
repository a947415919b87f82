// SPDX-License-Identifier: Apache-2.0
//
// bench_env: see bench_env.h.
//
// One server has no boxes that wait (cold), the other has some (warm); both are asked over HTTP,
// one call for each sample: a new session is opened by its first run, which imports.

#include "cli/bench_env.h"

#include <ftw.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/bench_client.h"

enum { MANY = 200, LAYERS = 64, COLD_MS = 20, WARM_MS = 2, LIST_MS = 5, DISK_MIB = 1 };

#define STACK "numpy pandas matplotlib"

struct plan {
    const struct config *config;
    const char *program, *python;
    int stock, port;
    char folder[64]; // of wheels
    char index[64];  // its address
    struct bench_server wheels, server;
    struct bench_clients *client;
    json_t *answer; // of the last call
    struct bench_env *ret;
    char why[sizeof((struct bench_env *)0)->failure]; // of the newest failure
};

// The first failure is the one to report: others may follow from it.
static bool note(struct plan *p, bool ok)
{
    if (!ok && !p->ret->failure[0])
        memcpy(p->ret->failure, p->why, sizeof p->why);
    return ok;
}

__attribute__((format(printf, 8, 9))) static void add_row(struct plan *p, const char *key,
                                                          const char *text, const char *unit,
                                                          double value, double other, double target,
                                                          const char *format, ...)
{
    struct bench_env_row *r = &p->ret->rows[p->ret->count];
    va_list ap;
    if (p->ret->count == BENCH_ENV_ROWS)
        return;
    p->ret->count++;
    *r = (struct bench_env_row){key, text, unit, value, other, target, "", false};
    va_start(ap, format);
    (void)vsnprintf(r->note, sizeof r->note, format, ap);
    va_end(ap);
}

// ---- wheels -------------------------------------------------------------------------------------

// Arguments: the folder, how many, the caller's folder.  One package has some code in it; the
// others are there for their number.
static const char wheels_code[] =
    "import base64, glob, hashlib, json, os, shutil, sys, zipfile\n"
    "folder, count, more = sys.argv[1], int(sys.argv[2]), sys.argv[3]\n"
    "def make(name, files):\n"
    "    dist = f'{name}-1.0'\n"
    "    files[f'{dist}.dist-info/METADATA'] = f'Metadata-Version: 2.1\\nName: {name}\\nVersion: "
    "1.0\\n'\n"
    "    files[f'{dist}.dist-info/WHEEL'] = 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: "
    "py3-none-any\\n'\n"
    "    rows = [f'{path},sha256=' + "
    "base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())\n"
    "            .decode().rstrip('=') + f',{len(text)}' for path, text in files.items()]\n"
    "    files[f'{dist}.dist-info/RECORD'] = '\\n'.join([*rows, f'{dist}.dist-info/RECORD,,', "
    "''])\n"
    "    with zipfile.ZipFile(f'{folder}/{dist}-py3-none-any.whl', 'w') as archive:\n"
    "        for path, text in files.items():\n"
    "            archive.writestr(path, text)\n"
    "body = ''.join(f'def work_{i}(a, b={i}):\\n    return [a, b, {i}]\\n' for i in range(50))\n"
    "make('bench_small', {'bench_small/__init__.py': 'from bench_small import one, two\\nVERSION = "
    "1\\n',\n"
    "                     'bench_small/one.py': body, 'bench_small/two.py': body})\n"
    "for i in range(count):\n"
    "    make(f'bench_m{i:03}', {f'bench_m{i:03}.py': f'NUMBER = {i}\\n'})\n"
    "for path in glob.glob(more + '/*.whl') if more else ():\n"
    "    shutil.copy(path, folder)\n"
    "os.chmod(folder, 0o755)\n"
    "names = {os.path.basename(path).split('-')[0].lower() for path in glob.glob(folder + "
    "'/*.whl')}\n"
    "print(json.dumps({'data': {'numpy', 'pandas', 'matplotlib'} <= names}))\n";

// Arguments: the folder, a port.  An index of the folder's wheels, as PEP 691 says.
static const char index_code[] =
    "import hashlib, http.server, json, os, re, sys, zipfile\n"
    "folder, port = sys.argv[1], int(sys.argv[2])\n"
    "files, projects = {}, {}\n"
    "for name in os.listdir(folder):\n"
    "    data = open(f'{folder}/{name}', 'rb').read()\n"
    "    with zipfile.ZipFile(f'{folder}/{name}') as archive:\n"
    "        names = archive.namelist()\n"
    "        said = archive.read(next(n for n in names if n.endswith('.dist-info/METADATA')))\n"
    "    files['/files/' + name], files[f'/files/{name}.metadata'] = data, said\n"
    "    digests = [{'sha256': hashlib.sha256(text).hexdigest()} for text in (data, said)]\n"
    "    key = re.sub('[-_.]+', '-', name.split('-')[0]).lower()\n"
    "    projects.setdefault(f'/simple/{key}/', []).append({\n"
    "        'filename': name, 'url': '/files/' + name, 'hashes': digests[0],\n"
    "        'size': len(data), 'core-metadata': digests[1], 'yanked': False,\n"
    "        'data-dist-info-metadata': digests[1]})\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    def log_message(self, *args):\n"
    "        pass\n"
    "    def do_GET(self):\n"
    "        data, kind = files.get(self.path), 'application/octet-stream'\n"
    "        if self.path in projects:\n"
    "            kind = 'application/vnd.pypi.simple.v1+json'\n"
    "            page = {'meta': {'api-version': '1.1'}, 'name': self.path.split('/')[2]}\n"
    "            data = json.dumps({**page, 'files': projects[self.path]}).encode()\n"
    "        self.send_response(200 if data is not None else 404)\n"
    "        self.send_header('Content-Type', kind)\n"
    "        self.send_header('Content-Length', str(len(data or b'')))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(data or b'')\n"
    "http.server.ThreadingHTTPServer.daemon_threads = True\n"
    "http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler).serve_forever()\n";

static bool start_index(struct plan *p)
{
    char port[16];
    int number = bench_free_port();
    snprintf(port, sizeof port, "%d", number);
    snprintf(p->index, sizeof p->index, "http://127.0.0.1:%d/simple", number);
    char *argv[] = {(char *)p->python, (char *)"-c", (char *)index_code, p->folder, port, NULL};
    return note(p, bench_server_start(&p->wheels, argv, number, NULL, p->why, sizeof p->why));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

// 1: with the data stack, 0: without, -1: there are none.
static int make_wheels(struct plan *p)
{
    char count[16];
    snprintf(p->folder, sizeof p->folder, "/var/tmp/constrictor-wheels.XXXXXX");
    snprintf(count, sizeof count, "%d", LAYERS);
    snprintf(p->why, sizeof p->why, "make wheels below /var/tmp");
    if (!note(p, mkdtemp(p->folder) != NULL)) {
        p->folder[0] = '\0';
        return -1;
    }
    const char *const arguments[] = {p->folder, count, p->config->find_links, NULL};
    json_t *o = bench_helper(p->python, wheels_code, arguments);
    int data = o ? json_is_true(json_object_get(o, "data")) : -1;
    json_decref(o);
    (void)note(p, data >= 0);
    return data;
}

// ---- a server and its client --------------------------------------------------------------------

static void close_side(struct plan *p)
{
    bench_clients_free(TAKE_PTR(p->client));
    bench_server_end(&p->server);
    json_decref(TAKE_PTR(p->answer));
}

static bool open_side(struct plan *p, const char *boxes)
{
    struct bench_ours ours = {.config = p->config,
                              .program = p->program,
                              .python = p->python,
                              .stock = p->stock,
                              .options = {"--index-url", p->index, "--warm-boxes", boxes,
                                          "--warm-memory", "2G", "--sessions", "4000", "--memory",
                                          "1G"}};
    p->port = bench_free_port();
    p->server = (struct bench_server){.pid = -1, .fd = -1, .errors = -1};
    if (!note(p, bench_server_start_ours(&p->server, &ours, p->port, p->why, sizeof p->why)))
        return false;
    p->client = bench_clients_open(&p->server, 1, p->why, sizeof p->why);
    if (note(p, p->client != NULL))
        return true;
    close_side(p);
    return false;
}

static void take_answer(const char *answer, size_t length, double us, void *argument)
{
    struct plan *p = argument;
    (void)us;
    const char *body = memchr(answer, '{', length); // behind the head
    json_decref(p->answer);
    p->answer =
        body ? json_loadb(body, length - (size_t)(body - answer), JSON_DISABLE_EOF_CHECK, NULL)
             : NULL;
}

// One call of a tool; takes `arguments`.  What it took, in microseconds, or -1.
static double call(struct plan *p, const char *tool, json_t *arguments)
{
    static struct bench_samples one;
    json_t *params = json_pack("{s:s, s:o}", "name", tool, "arguments", arguments);
    _cleanup_free_ char *text = params ? json_dumps(params, JSON_COMPACT) : NULL;
    json_decref(params);
    struct bench_calls calls = {.method = "tools/call",
                                .params = text,
                                .in_flight = 1,
                                .requests = 1,
                                .seconds = 120,
                                .latency = &one,
                                .on_answer = take_answer,
                                .argument = p};
    one.count = 0;
    if (!text || !note(p, bench_clients_call(p->client, &calls, p->why, sizeof p->why)))
        return -1;
    return one.count ? one.us[0] : -1;
}

static const json_t *said(const struct plan *p)
{
    return json_object_get(json_object_get(p->answer, "result"), "structuredContent");
}

// An environment with packages: how long it took, or -1.
static double create(struct plan *p, const char *name, const char *packages)
{
    json_t *arguments = json_pack("{s:s, s:f}", "name", name, "wait", 50.0);
    if (packages)
        (void)json_object_set_new(arguments, "packages", json_string(packages));
    double us = call(p, "create_python_env", arguments);
    const char *state = json_string_value(json_object_get(said(p), "state"));
    bool ready = state && strcmp(state, "ready") == 0;
    if (us >= 0 && !ready) {
        const char *why =
            json_string_value(json_object_get(json_object_get(said(p), "error"), "message"));
        snprintf(p->why, sizeof p->why, "install '%s': %.300s", packages ? packages : "",
                 why ? why : "no answer");
        (void)note(p, false);
    }
    return ready ? us : -1;
}

// ---- the first import ---------------------------------------------------------------------------

struct imports {
    struct bench_samples latency;
    double p50_us, p99_us;
    int cold, warm; // how many found the module there already
};

// New sessions, one after the other; with `pause_us` a box can become ready between them.
static bool import(struct plan *p, const char *environment, const char *module, int count,
                   bool warm, struct imports *ret)
{
    static int serial;
    char code[256], session[32];
    *ret = (struct imports){.p50_us = -1, .p99_us = -1};
    snprintf(code, sizeof code, "import sys\nfound = '%s' in sys.modules\nimport %s\nfound", module,
             module);
    for (int i = 0, tries = 0; i < count && tries < 3 * count + 20; tries++) {
        snprintf(session, sizeof session, "s%d", serial++);
        double us = call(p, "execute_python",
                         json_pack("{s:s, s:s, s:s}", "code", code, "session", session,
                                   "environment", environment));
        const char *found = json_string_value(json_object_get(said(p), "result"));
        snprintf(p->why, sizeof p->why, "import %s: no answer", module);
        if (!note(p, us >= 0 && found))
            return false;
        bool was_there = strcmp(found, "True") == 0;
        ret->warm += was_there;
        ret->cold += !was_there;
        if (was_there == warm) {
            ret->latency.us[ret->latency.count++] = us;
            i++;
        }
        (void)call(p, "close_session", json_pack("{s:s}", "session", session));
        (void)usleep(warm ? 30000 : 5000); // others refill their stock
    }
    ret->p50_us = bench_percentile(&ret->latency, 50);
    ret->p99_us = bench_percentile(&ret->latency, 99);
    return true;
}

// Arguments: a state folder, repetitions.  What numpy's import alone takes, from the same layer, in
// an interpreter that runs already.
static const char numpy_code[] =
    "import glob, json, os, statistics, subprocess, sys\n"
    "found = glob.glob(sys.argv[1] + '/environments/layers/*/numpy/__init__.py')[0]\n"
    "code = 'import sys, time; sys.path.insert(0, sys.argv[1]); t = time.perf_counter()\\n' \\\n"
    "       'import numpy; print(time.perf_counter() - t)'\n"
    "run = [sys.executable, '-I', '-c', code, os.path.dirname(os.path.dirname(found))]\n"
    "times = [float(subprocess.run(run, capture_output=True).stdout)\n"
    "         for i in range(int(sys.argv[2]))]\n"
    "print(json.dumps({'us': statistics.median(times) * 1e6}))\n";

static double plain_import(const struct plan *p)
{
    const char *const arguments[] = {p->server.state, "7", NULL};
    json_t *o = bench_helper(p->python, numpy_code, arguments);
    double us = o ? json_number_value(json_object_get(o, "us")) : -1;
    json_decref(o);
    return us;
}

static void measure_first(struct plan *p, bool warm, bool data)
{
    static struct imports pure, numpy, last;
    int count = p->config->quick ? 20 : 100;
    double limit_us = warm ? WARM_MS * 1000 : COLD_MS * 1000;
    char all[LAYERS * 12 + 32];
    size_t at = (size_t)snprintf(all, sizeof all, "bench_small");
    for (int i = 0; i < LAYERS; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, " bench_m%03d", i);
    pure.p50_us = numpy.p50_us = last.p50_us = -1;
    if (create(p, "small", "bench_small") >= 0)
        (void)import(p, "small", "bench_small", count, warm, &pure);
    add_row(p, warm ? "env_first_warm" : "env_first_cold",
            warm ? "new session, first import, warm, p50" : "new session, first import, cold, p50",
            "us", pure.p50_us, limit_us, 1, "the limit, %d ms; p99 %.1f ms; %d of %d were warm",
            warm ? WARM_MS : COLD_MS, pure.p99_us / 1000, pure.warm, pure.warm + pure.cold);
    if (!warm && create(p, "layers", all) >= 0)
        (void)import(p, "layers", "bench_m063", count, warm, &last);
    if (!warm)
        add_row(p, "env_first_layers", "the same, the last of 65 packages, p50", "us", last.p50_us,
                limit_us, 1, "the limit, %d ms; p99 %.1f ms", COLD_MS, last.p99_us / 1000);
    if (data && create(p, "stack", STACK) >= 0)
        (void)import(p, "stack", "numpy", p->config->quick ? 8 : 30, warm, &numpy);
    if (warm || !data) {
        add_row(p, warm ? "env_numpy_warm" : "env_numpy_cold",
                warm ? "the same, numpy, warm, p50" : "the same, numpy, cold, p50", "us",
                numpy.p50_us, limit_us, 1,
                data ? "the limit, %d ms; p99 %.1f ms" : "no data stack in --find-links (%d, %.0f)",
                warm ? WARM_MS : COLD_MS, numpy.p99_us / 1000);
        return;
    }
    double plain_us = plain_import(p);
    add_row(p, "env_numpy_cold", "the same, numpy, cold, p50", "us", numpy.p50_us,
            plain_us > 0 ? plain_us + limit_us : -1, 1,
            "numpy's own import, %.0f ms, + %d ms; p99 %.0f ms", plain_us / 1000, COLD_MS,
            numpy.p99_us / 1000);
}

// ---- what another one costs ---------------------------------------------------------------------

static double disk_bytes;

static int count_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)path;
    (void)kind;
    (void)where;
    disk_bytes += (double)st->st_blocks * 512;
    return 0;
}

static double disk_mib(const struct plan *p)
{
    disk_bytes = 0;
    (void)nftw(p->server.state, count_entry, 32, FTW_PHYS);
    return disk_bytes / (1 << 20);
}

// Arguments: the index, repetitions.  Only the installation is timed; uv's cache is warm.
static const char uv_code[] =
    "import json, os, shutil, statistics, subprocess, sys, tempfile, time\n"
    "index, count = sys.argv[1], int(sys.argv[2])\n"
    "uv = shutil.which('uv') or os.path.expanduser('~/.local/bin/uv')\n"
    "times = []\n"
    "with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:\n"
    "    env = {**os.environ, 'UV_CACHE_DIR': folder + '/cache', 'UV_NO_PROGRESS': '1'}\n"
    "    for i in range(count + 1):\n"
    "        venv = f'{folder}/v{i}'\n"
    "        subprocess.run([uv, 'venv', '-q', '--python', sys.executable, venv], env=env, "
    "check=True)\n"
    "        begin = time.perf_counter()\n"
    "        subprocess.run([uv, 'pip', 'install', '-q', '--index-url', index,\n"
    "                        '--python', venv + '/bin/python', 'numpy', 'pandas', 'matplotlib'], "
    "env=env, check=True)\n"
    "        times.append(time.perf_counter() - begin)\n"
    "print(json.dumps({'us': statistics.median(times[1:]) * 1e6}))\n";

static void measure_install(struct plan *p, bool data)
{
    static struct bench_samples samples;
    int count = p->config->quick ? 3 : 7;
    char name[16], texts[16];
    double before = disk_mib(p), mib = -1, uv_us = -1;
    samples.count = 0;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "again%d", i);
        double us = create(p, name, data ? STACK : "bench_small");
        if (us >= 0)
            samples.us[samples.count++] = us;
        if (i == 0 && us >= 0)
            mib = disk_mib(p) - before;
    }
    snprintf(texts, sizeof texts, "%d", count);
    const char *const arguments[] = {p->index, texts, NULL};
    json_t *o = data ? bench_helper(p->python, uv_code, arguments) : NULL;
    if (o)
        uv_us = json_number_value(json_object_get(o, "us"));
    json_decref(o);
    add_row(p, "env_install", data ? "install " STACK ", known wheels" : "install, known wheels",
            "us", bench_percentile(&samples, 50), uv_us, 1 / 1.2,
            uv_us > 0 ? "uv pip install into a fresh venv, warm cache, %.0f ms"
                      : "nothing to compare with: no uv, or no data stack (%.0f)",
            uv_us / 1000);
    add_row(p, "env_disk", "disk of another environment with the same", "KiB",
            mib < 0          ? -1
            : mib * 1024 > 1 ? mib * 1024
                             : 1,
            DISK_MIB * 1024, 1, "the limit, %d MiB", DISK_MIB);
}

// ---- lists --------------------------------------------------------------------------------------

// Arguments: port, requests.
static const char list_code[] =
    "import http.client, json, statistics, sys, time\n"
    "port, count = int(sys.argv[1]), int(sys.argv[2])\n"
    "connection, times = http.client.HTTPConnection('127.0.0.1', port), []\n"
    "for i in range(count):\n"
    "    begin = time.perf_counter()\n"
    "    connection.request('GET', '/api/v1/environments')\n"
    "    data = connection.getresponse().read()\n"
    "    times.append(time.perf_counter() - begin)\n"
    "times.sort()\n"
    "print(json.dumps({'us': statistics.median(times) * 1e6, 'p99': times[int(count * 0.99)] * "
    "1e6,\n"
    "                  'total': json.loads(data)['total']}))\n";

static void measure_lists(struct plan *p)
{
    char port[16], name[16];
    const char *const arguments[] = {port, "200", NULL};
    bool ok = true;
    for (int i = 0; i < MANY && ok; i++) {
        snprintf(name, sizeof name, "many-%03d", i);
        ok = create(p, name, NULL) >= 0;
    }
    snprintf(port, sizeof port, "%d", p->port);
    json_t *o = ok ? bench_helper(p->python, list_code, arguments) : NULL;
    snprintf(p->why, sizeof p->why, "list environments over REST");
    (void)note(p, o != NULL);
    double us = o ? json_number_value(json_object_get(o, "us")) : -1;
    add_row(p, "env_list", "a list of 200 environments over REST, p50", "us", us, LIST_MS * 1000, 1,
            "the limit, %d ms; p99 %.1f ms; %d of them", LIST_MS,
            json_number_value(json_object_get(o, "p99")) / 1000,
            (int)json_integer_value(json_object_get(o, "total")));
    json_decref(o);
}

void bench_env(const struct config *c, const char *program, const char *python, int stock,
               struct bench_env *ret)
{
    static struct plan p;
    *ret = (struct bench_env){0};
    p = (struct plan){
        .config = c, .program = program, .python = python, .stock = stock, .ret = ret};
    p.wheels = (struct bench_server){.pid = -1, .fd = -1, .errors = -1};
    int data = make_wheels(&p);
    if (data >= 0 && !start_index(&p))
        data = -1;
    if (data >= 0 && open_side(&p, "0")) {
        measure_first(&p, false, data);
        measure_install(&p, data);
        measure_lists(&p);
        close_side(&p);
    }
    if (data >= 0 && open_side(&p, "4")) {
        measure_first(&p, true, data);
        close_side(&p);
    }
    bench_server_end(&p.wheels);
    if (p.folder[0])
        (void)nftw(p.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
