// SPDX-License-Identifier: Apache-2.0
//
// execute: see execute.h.  SECURITY: values are hostile; they fit their rows, and each function
// here checks what a row cannot say before anything is opened or run.

#include "exec/execute.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "config/code_policy.h"
#include "env/envs.h"
#include "env/packages.h"
#include "exec/exec_sandbox.h"
#include "exec/forms.h"
#include "run/network.h"
#include "run/source.h"

// ---- the table ----------------------------------------------------------------------------------

enum {
    REST = EXECUTE_RUN | EXECUTE_BATCH | EXECUTE_SESSION | EXECUTE_BACK,
    RUNS = EXECUTE_RUN | EXECUTE_BATCH | EXECUTE_TOOL | EXECUTE_BACK,
    ALL = REST | EXECUTE_TOOL,
    ARGS_MAX = 256,
    ARG_MAX_TOOL = 32768,
    IMPORT_MAX_TOOL = 256,
    PATH_MAX_TOOL = 1024,
};

#define INTO(kind, field) .into = INTO_##kind, .offset = offsetof(struct exec_request, field)

#define PATH_HELP                                                                                  \
    "path below /mnt/data, such as data/sales.csv; missing folders are made. At most 1024 bytes "  \
    "of UTF-8, 255 for each name"
#define SESSION_HELP                                                                               \
    "session to run in: the handle of an open one, or a name of your choice; the first use of a "  \
    "name opens it. Variables, imports and files stay between runs. Without it, the code runs in " \
    "a fresh interpreter"

static const struct field file_rows[] = {
    {.name = "path",
     .on = REST,
     .type = FIELD_STRING,
     .required = true,
     .pattern = FORM_FILE,
     .together = form_file_body,
     .help = PATH_HELP},
    {.name = "path",
     .on = EXECUTE_TOOL,
     .type = FIELD_STRING,
     .required = true,
     .min = 1,
     .max = PATH_MAX_TOOL,
     .help = PATH_HELP},
    {.name = "text", .type = FIELD_STRING, .help = "the content, as text"},
    {.name = "content",
     .on = REST,
     .type = FIELD_STRING,
     .same_as = "text",
     .help = "another name of 'text'"},
    {.name = "encoding",
     .on = REST,
     .type = FIELD_STRING,
     .choices = "utf-8|text|base64",
     .help = "how the content is written: utf-8 or text (default), or base64"},
    {.name = "base64",
     .type = FIELD_STRING,
     .same_as = "text",
     .pattern = FORM_BASE64,
     .help = "the content as base64, instead of 'text'"},
    {0},
};

const struct field execute_rows[] = {
    {.name = "code",
     .on = EXECUTE_RUN | EXECUTE_ITEM | EXECUTE_TOOL | EXECUTE_BACK,
     .type = FIELD_STRING,
     .required = true,
     .bound = BOUND_SOURCE,
     .pattern = FORM_NO_NUL,
     .help = "Python source to run; the value of its last expression is the result",
     .tool_help = "print() goes to stdout; matplotlib figures and display(value) come back as "
                  "images and tables.",
     .into = INTO_CODE},
    {.name = "session",
     .on = EXECUTE_RUN | EXECUTE_BACK,
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION,
     .help = SESSION_HELP,
     INTO(TEXT, session)},
    {.name = "session",
     .on = EXECUTE_TOOL,
     .type = FIELD_STRING,
     .min = 1,
     .max = SESSION_NAME_CHARACTERS,
     .help = SESSION_HELP,
     INTO(TEXT, session)},
    {.name = "session_id",
     .on = EXECUTE_RUN | EXECUTE_BACK,
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION,
     .same_as = "session",
     .help = "another name of 'session'",
     INTO(TEXT, session)},
    {.name = "stream",
     .on = EXECUTE_RUN,
     .type = FIELD_BOOLEAN,
     .help = "true (default): NDJSON, a line as soon as there is output; false: one JSON object at "
             "the end"},
    {.name = "files",
     .on = ALL,
     .type = FIELD_OBJECTS,
     .max = EXEC_FILES_MAX,
     .items = file_rows,
     .help = "files to write into /mnt/data first: path and text, or path and base64",
     .into = INTO_FILES},
    {.name = "variables",
     .on = ALL,
     .type = FIELD_OBJECT,
     .max = EXEC_VARIABLES_MAX,
     .pattern = FORM_VARIABLE,
     .help = "global variables to set first: names and JSON values",
     .into = INTO_VARIABLES},
    {.name = "env",
     .on = ALL,
     .type = FIELD_TEXTS,
     .max = EXEC_ENV_VARS_MAX,
     .pattern = FORM_ENV_VAR,
     .help = "environment variables: names and texts, in os.environ and for programs that the code "
             "starts; for this run only, or for the session that is opened with them. Never logged",
     .into = INTO_ENV_VARS},
    {.name = "stdin",
     .on = RUNS,
     .type = FIELD_STRING,
     .help =
         "what the code reads as its standard input: input(), sys.stdin and the programs that it "
         "starts read it; then comes its end. Without it, input() raises EOFError",
     .into = INTO_STDIN},
    {.name = "stdin_base64",
     .on = RUNS,
     .type = FIELD_STRING,
     .same_as = "stdin",
     .pattern = FORM_BASE64,
     .help = "bytes for the standard input as base64, instead of 'stdin'",
     .into = INTO_STDIN_BASE64},
    {.name = "interactive",
     .on = EXECUTE_TOOL,
     .type = FIELD_BOOLEAN,
     .help =
         "true: input() asks the person at the client, where the client can (elicitation); else it "
         "raises EOFError"},
    {.name = "interactive",
     .on = EXECUTE_RUN,
     .type = FIELD_BOOLEAN,
     .help = "true: a person answers input() while the code runs, with POST /sessions/{id}/input; "
             "needs 'session' and a stream, which says when the code waits"},
    {.name = "seed",
     .on = RUNS,
     .type = FIELD_INTEGER,
     .min = 0,
     .max = UINT32_MAX,
     .help = "seed random and numpy.random with this before the code runs, for results that can be "
             "repeated; generators that the code makes itself, such as numpy's default_rng(), need "
             "a seed of their own",
     .into = INTO_SEED},
    {.name = "environment",
     .on = ALL,
     .type = FIELD_STRING,
     .min = 1,
     .max = ENV_NAME_MAX,
     .pattern = FORM_ENV,
     .help = "environment of packages; the default 'base' has the standard library and the "
             "packages that you installed without naming an environment. A session keeps the "
             "environment that it was opened with",
     .into = INTO_ENVIRONMENT},
    {.name = "packages",
     .on = RUNS,
     .type = FIELD_REQUIREMENTS,
     .excludes = "environment",
     .help = "packages that the code needs, such as \"pandas matplotlib>=3\" or a list; instead of "
             "'environment'. The environment for exactly this set is made at its first use and "
             "found again later",
     .into = INTO_PACKAGES},
    {.name = "network",
     .on = ALL,
     .type = FIELD_NETWORK,
     .help = "what the code may reach: \"off\", a list of hosts such as "
             "[\"api.example.org:443\", \"*.example.org\"], or {\"allow\": [...], \"deny\": "
             "[...]}; never more than the key may reach, which is the default",
     .into = INTO_NETWORK},
    {.name = "policy",
     .on = RUNS | EXECUTE_CHECK,
     .type = FIELD_STRING,
     .choices = "open|guarded|restricted",
     .help = "import policy for the code: open; guarded: only imports of the allowed tiers; "
             "restricted: also nothing that leads out of ordinary code (RestrictedPython). Never "
             "wider than the server's policy, which is the default. It is advice on top of the "
             "isolation",
     INTO(TEXT, policy)},
    {.name = "allowed_imports",
     .on = RUNS | EXECUTE_CHECK,
     .type = FIELD_STRINGS,
     .max = CODE_IMPORTS_MAX,
     .pattern = FORM_IMPORT,
     .together = form_open_imports,
     .tool_each = IMPORT_MAX_TOOL,
     .help = "the only modules that the code may import, such as [\"math\", \"json\"]; never more "
             "than the server's policy allows",
     INTO(BORROWED, allowed_imports)},
    {.name = "timeout",
     .on = ALL,
     .type = FIELD_NUMBER,
     .bound = BOUND_WALL,
     .help = "longest wall time of a run in seconds",
     .tool_help = "Ask for more than 50 only together with background=true, because most clients "
                  "give up after 60.",
     INTO(MS, wall_ms)},
    {.name = "memory_mb",
     .on = ALL,
     .type = FIELD_INTEGER,
     .bound = BOUND_MEMORY,
     .help = "memory in MiB, including files in /mnt/data; a session keeps the memory that it was "
             "opened with",
     .into = INTO_MEMORY},
    {.name = "isolation",
     .on = REST,
     .type = FIELD_STRING,
     .choices = "native|gvisor",
     .help =
         "what the code runs in: native, a box of the host's kernel, or gvisor, a sandbox with a "
         "kernel of its own; never weaker than the server's, which is the default. A session "
         "keeps what it was opened with",
     .into = INTO_ISOLATION},
    {.name = "cpu_seconds",
     .on = ALL,
     .type = FIELD_NUMBER,
     .bound = BOUND_CPU,
     .help = "processor time in seconds, all processes together; when it is left out, --cpu of "
             "the server, or all cores until the timeout",
     INTO(MS, cpu_ms)},
    {.name = "args",
     .on = RUNS,
     .type = FIELD_STRINGS,
     .max = ARGS_MAX,
     .tool_each = ARG_MAX_TOOL,
     .help = "arguments for the code: sys.argv[1:]",
     .into = INTO_ARGV},
    {.name = "background",
     .on = EXECUTE_TOOL,
     .type = FIELD_BOOLEAN,
     .help = "return at once with an execution_id; fetch output and result with check_run"},
    {.name = "details",
     .on = EXECUTE_TOOL,
     .type = FIELD_BOOLEAN,
     .help =
         "true: the answer also has usage, ids and isolation, which else it has only when they are "
         "unusual"},
    {0},
};

// ---- reading ------------------------------------------------------------------------------------

// In a file, too, null counts as absent.
static void drop_nulls(json_t *files)
{
    size_t i;
    json_t *file, *value;
    const char *key;
    void *next;
    json_array_foreach (files, i, file)
        json_object_foreach_safe (file, next, key, value)
            if (json_is_null(value))
                (void)json_object_del(file, key);
}

static json_t *make_argv(json_t *args)
{
    json_t *argv = json_pack("[s]", "<code>");
    if (argv)
        (void)json_array_extend(argv, args);
    return argv;
}

// SECURITY: a text is read to its first NUL, so one with a NUL would be taken for another text.
static int check_text(json_t *value, struct err *e)
{
    if (strlen(json_string_value(value)) == json_string_length(value))
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0, "remove it", "there is a NUL character in it");
}

static int read_environment(struct gate *g, const char *owner, json_t *call, json_t *value,
                            struct exec_request *q, struct err *e)
{
    json_auto_t *path = NULL;
    if (field_get(call, "packages", NULL))
        return err_set(e, ERR_BAD_VALUE, 0,
                       "install the packages into the environment; then name only that",
                       "'environment' and 'packages' both say what code can import");
    q->environment = json_string_value(value);
    return check_text(value, e) < 0 ? -1 : envs_path(g, owner, q->environment, &path, e);
}

static int read_stdin(const struct field *f, json_t *value, struct exec_request *q, struct err *e)
{
    if (q->has_stdin)
        return err_set(e, ERR_BAD_VALUE, 0, "remove one of them",
                       "give 'stdin' or 'stdin_base64', not both");
    q->has_stdin = true;
    q->stdin_text = json_string_value(value);
    q->stdin_length = json_string_length(value);
    q->stdin_coded = f->into == INTO_STDIN_BASE64;
    return q->stdin_coded ? exec_check_base64(q->stdin_text, q->stdin_length, e) : 0;
}

static int read_value(struct gate *g, const char *owner, json_t *call, const struct field *f,
                      json_t *value, struct exec_request *q, struct err *e)
{
    char *at = (char *)q + f->offset;
    switch (f->into) {
    case INTO_NOTHING: return 0;
    case INTO_CODE:
        q->code = json_string_value(value);
        q->code_length = json_string_length(value);
        return source_check(q->code, q->code_length, "code", g->facts->config->source_bytes, e);
    case INTO_TEXT: *(const char **)at = json_string_value(value); return check_text(value, e);
    case INTO_MS: *(uint64_t *)at = (uint64_t)(json_number_value(value) * 1000 + 0.5); return 0;
    case INTO_BORROWED: *(json_t **)at = value; return 0;
    case INTO_MEMORY:
        q->limits.memory_bytes = (uint64_t)json_number_value(value) * TEXT_MIB;
        return 0;
    case INTO_ISOLATION:
        return exec_read_isolation(g->facts->config, json_string_value(value), &q->limits.isolation,
                                   e);
    case INTO_FILES:
        drop_nulls(value);
        q->files = json_incref(value);
        return exec_check_files(g, value, e);
    case INTO_VARIABLES: q->variables = json_incref(value); return exec_check_variables(value, e);
    case INTO_ENV_VARS: q->env_vars = json_incref(value); return exec_check_env_vars(value, e);
    case INTO_STDIN:
    case INTO_STDIN_BASE64: return read_stdin(f, value, q, e);
    case INTO_SEED:
        q->has_seed = true;
        q->seed = (uint32_t)json_number_value(value);
        return 0;
    case INTO_ARGV: return 0; // below: there always is one
    case INTO_ENVIRONMENT: return read_environment(g, owner, call, value, q, e);
    case INTO_PACKAGES: return (q->packages = packages_set(g, value, e)) ? 0 : -1;
    case INTO_NETWORK: return network_parse(g, owner, value, &q->network, e);
    }
    return 0;
}

// What these functions say names the value itself.
static bool names_itself(const struct field *f)
{
    return f->into == INTO_CODE || f->into == INTO_FILES || f->into == INTO_VARIABLES ||
           f->into == INTO_ENV_VARS;
}

int execute_read(struct gate *g, const char *owner, json_t *call, unsigned surface,
                 struct exec_request *ret, struct err *e)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(EXECUTE_FIELDS(surface));
    *ret = (struct exec_request){.action = EXEC_RUN,
                                 .owner = owner,
                                 .surface = surface & EXECUTE_TOOL ? EXEC_MCP : EXEC_REST,
                                 .code = "",
                                 .limits = keeper_limits(g->facts->config),
                                 .collect = true};
    while ((f = field_next(&w))) {
        json_t *value = field_get(call, f->name, NULL);
        int r = value ? read_value(g, owner, call, f, value, ret, e) : 0;
        if (r < 0 && !names_itself(f))
            (void)err_wrap(e, "%s '%s'", surface & EXECUTE_TOOL ? "argument" : "field", f->name);
        if (r < 0)
            return r;
    }
    ret->argv = make_argv(field_get(call, "args", NULL));
    return 0;
}
