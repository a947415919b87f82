// SPDX-License-Identifier: Apache-2.0
//
// exec_packages: see exec_packages.h.  Runs in the gate, on its event loop.

#include "exec/exec_packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "env/envs.h"
#include "env/restricted_package.h"

#define MARKER "# /// script"

struct exec_packages {
    struct exec *reader;        // a box reads the metadata of the code
    struct env_wait *wait;      // packages are installed
    struct policy_wait *policy; // the restricted package is installed
    json_t *asked;              // the argument `packages`; NULL: none
    char name[ENV_NAME_MAX + 1];
    // Copies of borrowed fields, which the caller may free before the code runs.
    char *texts[5];
    struct session_plan plan;
};

// SECURITY: a box reads the block: it is TOML from the client, and its parser could be attacked.
static const char reader_code[] =
    "import re, sys\n"
    "def read(text):\n"
    "    found, block, first = [], None, 0\n"
    "    for number, line in enumerate(text.lstrip('\\ufeff').splitlines(), 1):\n"
    "        if block is None:\n"
    "            if line.rstrip() == '# /// script':\n"
    "                block, begin = [], number\n"
    "        elif line.rstrip() == '# ///':\n"
    "            found.append('\\n'.join(block))\n"
    "            block, first = None, begin\n"
    "        elif line == '#' or line.startswith('# '):\n"
    "            block.append(line[2:])\n"
    "        else:\n"
    "            return {'error': f'line {number} ends it without a line # ///'}\n"
    "    if len(found) > 1:\n"
    "        return {'error': 'there is more than one'}\n"
    "    if block is not None:\n"
    "        return {'error': f'it begins in line {begin} and has no end (a line # ///)'}\n"
    "    if not found:\n"
    "        return {'dependencies': []}\n"
    "    sys.path.insert(0, '/opt/constrictor')\n"
    "    from version import Version, fits, read_clauses\n"
    "    try:\n"
    "        from tomllib import loads\n"
    "    except ImportError:\n"
    "        from pylock import loads\n"
    "    try:\n"
    "        said = loads(found[0])\n"
    "    except Exception as exc:\n"
    "        moved = re.sub(r'line (\\d+)', lambda item: f'line {int(item[1]) + first}', "
    "str(exc))\n"
    "        return {'error': moved[:300]}\n"
    "    wanted, python = said.get('dependencies', []), said.get('requires-python')\n"
    "    if type(wanted) is not list or any(type(item) is not str for item in wanted):\n"
    "        return {'error': 'dependencies is not a list of texts'}\n"
    "    if python is not None:\n"
    "        here = '%d.%d.%d' % sys.version_info[:3]\n"
    "        try:\n"
    "            good = fits(read_clauses(python), Version(here))\n"
    "        except Exception:\n"
    "            return {'error': f'requires-python cannot be read: {python!r}'[:300]}\n"
    "        if not good:\n"
    "            return {'python': [python[:100], here]}\n"
    "    return {'dependencies': wanted[:200]}\n"
    "read(source)\n";

// Cancels the reader, which frees itself at its end.
static void abandon(struct exec *reader)
{
    reader->request.on_done = exec_free;
    exec_cancel(reader);
}

void exec_free_packages(struct exec *x)
{
    struct exec_packages *p = TAKE_PTR(x->packages);
    if (!p)
        return;
    if (p->wait)
        envs_need_cancel(p->wait);
    if (p->policy)
        restricted_package_cancel(p->policy);
    if (p->reader)
        abandon(p->reader);
    for (size_t i = 0; i < ARRAY_LEN(p->texts); i++)
        free(p->texts[i]);
    json_decref(p->plan.network);
    json_decref(p->asked);
    free(p);
}

static int no_memory(struct err *e)
{
    return err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
}

// ---- waiting ------------------------------------------------------------------------------------

static int copy(char **copied, const char **text)
{
    if (!*text)
        return 0;
    *copied = strdup(*text);
    *text = *copied;
    return *copied ? 0 : -1;
}

static struct exec_packages *begin_waiting(struct exec *x)
{
    struct exec_request *q = &x->request;
    if (x->packages)
        return x->packages; // the second wait of this request
    struct exec_packages *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    x->packages = p;
    if (copy(&p->texts[0], &q->session) < 0 || copy(&p->texts[1], &q->filename) < 0 ||
        copy(&p->texts[2], &q->policy) < 0 || copy(&p->texts[3], &q->checkpoint) < 0 ||
        copy(&p->texts[4], &q->environment) < 0)
        return NULL;
    if (q->plan) {
        p->plan = *q->plan;
        (void)json_incref(p->plan.network);
        q->plan = &p->plan;
    }
    return p;
}

static void go_on(struct exec *x)
{
    if (!exec_begin(x))
        x->request.on_done(x);
}

static void on_ready(const char *name, const struct err *e, void *argument)
{
    struct exec *x = argument;
    struct exec_packages *p = x->packages;
    p->wait = NULL;
    if (!name) {
        x->error = *e;
        (void)err_wrap(&x->error, "packages");
        x->request.on_done(x);
        return;
    }
    snprintf(p->name, sizeof p->name, "%s", name);
    x->request.environment = p->name;
    go_on(x);
}

static int need(struct exec *x, const json_t *requirements)
{
    struct exec_packages *p = x->packages;
    p->wait = envs_need(x->gate, x->owner, requirements, on_ready, x);
    return p->wait ? 0 : no_memory(&x->error);
}

// ---- metadata in the code -----------------------------------------------------------------------

bool exec_has_metadata(const char *code, size_t length)
{
    const char *at = code;
    while ((at = memmem(at, length - (size_t)(at - code), MARKER, sizeof MARKER - 1))) {
        bool behind_mark = at == code + 3 && memcmp(code, "\xef\xbb\xbf", 3) == 0;
        if (at == code || at[-1] == '\n' || behind_mark)
            return true;
        at += sizeof MARKER - 1;
    }
    return false;
}

// 1: requirements in *ret, 0: none, negative: x->error.
static int take_metadata(struct exec *x, struct exec *reader, json_t **ret)
{
    json_t *said = reader->run ? json_object_get(reader->run->result, "result_json") : NULL;
    json_t *wanted = json_object_get(said, "dependencies");
    const char *wrong = json_string_value(json_object_get(said, "error"));
    struct err e = {0};
    if (reader->error.message[0]) {
        x->error = reader->error;
        return -1;
    }
    const char *asked = json_string_value(json_array_get(json_object_get(said, "python"), 0)),
               *here = json_string_value(json_array_get(json_object_get(said, "python"), 1));
    if (asked && here) {
        (void)err_set(&x->error, ERR_BAD_VALUE, 0,
                      "run it on a server with such an interpreter, or change requires-python",
                      "the code requires Python %.100s, and this is Python %.20s", asked, here);
        text_sanitize(x->error.message);
        return -1;
    }
    if (!json_is_array(wanted)) {
        (void)err_set(&x->error, ERR_BAD_REQUIREMENT, 0,
                      "write it as PEP 723 says, or leave it out and use the argument 'packages'",
                      "the block '" MARKER "' in the code cannot be read%s%.300s",
                      wrong ? ": " : "", wrong ? wrong : "");
        text_sanitize(x->error.message);
        return -1;
    }
    if (json_array_size(wanted) == 0)
        return 0;
    *ret = envs_requirements(wanted, &e);
    if (*ret)
        return 1;
    x->error = e;
    return err_wrap(&x->error, "the block '" MARKER "'");
}

static void on_read(struct exec *reader)
{
    struct exec *x = reader->request.argument;
    json_t *requirements = NULL;
    x->packages->reader = NULL;
    int r = take_metadata(x, reader, &requirements);
    exec_free(reader);
    if (r >= 0 && x->packages->asked) {
        requirements = requirements ? requirements : json_array();
        r = json_array_extend(requirements, x->packages->asked) < 0 ? no_memory(&x->error) : 1;
    }
    if (r > 0)
        r = need(x, requirements) < 0 ? -1 : 1;
    json_decref(requirements);
    if (r < 0)
        x->request.on_done(x);
    else if (r == 0)
        go_on(x);
}

static int read_metadata(struct exec *x)
{
    const struct exec_request *q = &x->request;
    json_t *variables = json_pack("{s:o}", "source", json_stringn(q->code, q->code_length));
    if (!variables)
        return 0; // not UTF-8: the run reports that
    if (!begin_waiting(x)) {
        json_decref(variables);
        return no_memory(&x->error);
    }
    struct exec_request request = {.owner = x->owner,
                                   .code = reader_code,
                                   .code_length = sizeof reader_code - 1,
                                   .variables = variables,
                                   .network = json_false(),
                                   .plain = true,
                                   .limits = keeper_limits(x->gate->facts->config),
                                   .on_done = on_read,
                                   .argument = x};
    x->packages->reader = exec_start(x->gate, &request);
    return x->packages->reader ? 1 : no_memory(&x->error);
}

// ---- the end without a run ----------------------------------------------------------------------

static void on_soon(void *argument)
{
    struct exec *x = argument;
    x->request.on_done(x);
}

bool exec_end_soon(struct exec *x)
{
    return timer_set(&x->soon, x->gate->base, 0, on_soon, x);
}

// ---- for exec.c ---------------------------------------------------------------------------------

static int wait_for_own(struct exec *x)
{
    const struct exec_request *q = &x->request;
    bool has_own = x->gate->envs && q->code && exec_has_metadata(q->code, q->code_length);
    if (json_array_size(q->packages)) {
        if (q->environment && q->environment[0])
            return err_set(
                &x->error, ERR_BAD_VALUE, 0,
                "give one of them; to add packages to an environment, install them into it",
                "both 'environment' and 'packages' are given");
        if (!begin_waiting(x))
            return no_memory(&x->error);
        x->packages->asked = json_incref(q->packages);
        int r = has_own ? read_metadata(x) : 0;
        return r == 0 ? need(x, q->packages) < 0 ? -1 : 1 : r;
    }
    bool named = q->environment && q->environment[0];
    if (!named && has_own)
        return read_metadata(x);
    return 0;
}

static void on_policy(const struct err *e, void *argument)
{
    struct exec *x = argument;
    x->packages->policy = NULL;
    if (e)
        x->error = *e;
    int r = e ? -1 : wait_for_own(x);
    if (r < 0)
        x->request.on_done(x);
    else if (r == 0)
        go_on(x);
}

// The package that the policy needs comes before the packages of the code.
int exec_wait_for_packages(struct exec *x)
{
    const struct exec_request *q = &x->request;
    if (q->plain || q->action != EXEC_RUN)
        return 0;
    if (!restricted_package_is_awaited(x->gate, q->policy))
        return wait_for_own(x);
    struct exec_packages *p = begin_waiting(x);
    if (p)
        p->policy = restricted_package_wait(x->gate, on_policy, x);
    return p && p->policy ? 1 : no_memory(&x->error);
}

bool exec_cancel_packages(struct exec *x)
{
    struct exec_packages *p = x->packages;
    if (!p->wait && !p->reader && !p->policy)
        return false;
    if (p->policy)
        restricted_package_cancel(TAKE_PTR(p->policy));
    if (p->wait)
        envs_need_cancel(TAKE_PTR(p->wait));
    if (p->reader)
        abandon(TAKE_PTR(p->reader));
    (void)err_set(&x->error, ERR_CANCELLED, 0, NULL,
                  "cancelled while its packages were being installed");
    return true;
}

static const char *shown(const char *name)
{
    return name && name[0] ? name : ENV_BASE;
}

// A session in `base` changes to the environment of the first packages that a run in it asks for.
static int settle_session(struct exec *x, struct session *s)
{
    const char *wanted = x->request.environment;
    if (!wanted || !wanted[0] || strcmp(wanted, shown(s->plan.environment)) == 0)
        return 0;
    if (x->packages && x->packages->name[0] && strcmp(shown(s->plan.environment), ENV_BASE) == 0) {
        snprintf(s->plan.environment, sizeof s->plan.environment, "%s", wanted);
        return 0;
    }
    return err_set(
        &x->error, ERR_CONFLICT, 0,
        "leave 'environment' out, install the packages into that one, or open another session",
        "this session has the environment '%s', which cannot be changed",
        shown(s->plan.environment));
}

int exec_find_path(struct exec *x, struct session *s, json_t **ret)
{
    if (s && settle_session(x, s) < 0)
        return -1;
    const char *name = shown(s ? s->plan.environment : x->request.environment);
    if (envs_path(x->gate, x->owner, name, ret, &x->error) < 0) {
        // The environment was deleted: a session that has used it keeps its folders.
        if (!s || x->error.code != ERR_ENV_UNKNOWN || !(s->had_path || s->executions))
            return -1;
        x->error = (struct err){0};
        return 0;
    }
    if (s && !*ret && s->had_path)
        *ret = json_array(); // takes the folders of earlier runs away
    if (s && *ret)
        s->had_path = true;
    return 0;
}

const struct warm_box_ask *exec_warm_box_ask(const struct exec *x, const struct session *s,
                                             const json_t *path, const json_t *policy,
                                             struct exec_environment *ret)
{
    snprintf(ret->name, sizeof ret->name, "%s",
             shown(s ? s->plan.environment : x->request.environment));
    ret->ask = (struct warm_box_ask){.owner = x->owner,
                                     .environment = ret->name,
                                     .path = path,
                                     .limits = &x->request.limits,
                                     .network = x->network != NULL};
    // Under a policy nothing is imported before the import is checked.
    return s || !path || policy ? NULL : &ret->ask;
}
