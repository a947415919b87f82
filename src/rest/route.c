// SPDX-License-Identifier: Apache-2.0
//
// route: see route.h.  Pure but for the handlers that it names.

#include "rest/route.h"

#include <string.h>

#include "env/envs.h"
#include "env/preload.h"
#include "exec/execute.h"
#include "exec/forms.h"
#include "rest/batch.h"
#include "rest/call.h"
#include "rest/environments.h"
#include "rest/look.h"

// ---- bodies -------------------------------------------------------------------------------------

#define INSTALL_FIELDS                                                                             \
    {.name = "constraints",                                                                        \
     .type = FIELD_REQUIREMENTS,                                                                   \
     .help = "limits for versions, such as \"numpy<2\"; they install nothing by themselves"},      \
        {.name = "source_builds",                                                                  \
         .type = FIELD_BOOLEAN,                                                                    \
         .bound = BOUND_BUILDS,                                                                    \
         .help = "build packages without a wheel, in a box; only if the server allows it"},        \
        {.name = "stream",                                                                         \
         .type = FIELD_BOOLEAN,                                                                    \
         .help = "true: NDJSON, a line for each step, the last one the whole state; false "        \
                 "(default): one JSON object"},                                                    \
    {                                                                                              \
        .name = "wait", .type = FIELD_NUMBER, .max = REST_WAIT_MAX_S,                              \
        .help = "seconds to wait for the end (30); then the answer is 202 and the job goes on"     \
    }

static const struct field environment_fields[] = {
    {.name = "name",
     .type = FIELD_STRING,
     .required = true,
     .min = 1,
     .max = ENV_NAME_MAX,
     .pattern = FORM_ENV_NEW,
     .help = "a name of your choice: letters, digits, '-', '_' and '.'"},
    {.name = "python",
     .type = FIELD_STRING,
     .min = 1,
     .max = 32,
     .pattern = FORM_PYTHON,
     .help = "version of the interpreter, such as 3.12; the server has only one"},
    {.name = "packages",
     .type = FIELD_REQUIREMENTS,
     .excludes = "environment",
     .help = "packages to install at once: \"pandas matplotlib>=3\", or a list"},
    {.name = "lock",
     .type = FIELD_STRING,
     .min = 1,
     .max = ENV_LOCK_MAX,
     .excludes = "packages",
     .help =
         "in place of packages: a pylock.toml, or a requirements file with hashes; exactly these "
         "versions are installed"},
    {.name = "preload",
     .type = FIELD_STRINGS,
     .max = PRELOAD_MAX,
     .pattern = FORM_MODULE,
     .help =
         "modules to import ahead of runs, such as [\"pandas\"]; the server also learns what runs "
         "import"},
    INSTALL_FIELDS,
    {0},
};

static const struct field describe_query[] = {
    {.name = "format",
     .type = FIELD_STRING,
     .choices = "json|requirements",
     .help = "requirements: the lock as a requirements file with hashes"},
    {0},
};

static const struct field install_fields[] = {
    {.name = "packages",
     .type = FIELD_REQUIREMENTS,
     .required = true,
     .help = "packages to install: \"pandas matplotlib>=3\", or a list"},
    {.name = "upgrade",
     .type = FIELD_BOOLEAN,
     .help = "also upgrade packages that are installed already"},
    INSTALL_FIELDS,
    {0},
};

static const struct field uninstall_query[] = {
    {.name = "packages",
     .type = FIELD_STRING,
     .required = true,
     .pattern = FORM_PACKAGES,
     .help = "names of packages to remove, separated by blanks; or ?all=true for all packages"},
    {0},
};

static const struct field import_query[] = {
    {.name = "stream",
     .type = FIELD_BOOLEAN,
     .help = "true: NDJSON, a line for each step, the last one the whole state"},
    {.name = "wait",
     .type = FIELD_NUMBER,
     .max = REST_WAIT_MAX_S,
     .help = "seconds to wait for the end (30); then the answer is 202 and the job goes on"},
    {0},
};

static const struct field job_query[] = {
    {.name = "wait",
     .type = FIELD_NUMBER,
     .max = REST_WAIT_MAX_S,
     .help = "seconds to wait for the end before answering"},
    {0},
};

static const struct field validate_fields[] = {
    {.name = "code",
     .type = FIELD_STRING,
     .required = true,
     .bound = BOUND_SOURCE,
     .help = "Python source to check; it is not executed"},
    {.table = execute_rows, .on = EXECUTE_CHECK},
    {.name = "lint", .type = FIELD_BOOLEAN, .help = "also run ruff, where it is installed"},
    {0},
};

static const struct field execute_fields[] = {
    {.table = execute_rows, .on = EXECUTE_RUN},
    {0},
};

#define BATCH_COMPARE                                                                              \
    {.name = "compare",                                                                            \
     .type = FIELD_STRING,                                                                         \
     .choices = "exact|tokens|float",                                                              \
     .help = "how outputs of tests are compared: exact (default), but for line feeds at the end; " \
             "tokens: word by word; float: the same, and numbers may differ by 'tolerance'"},      \
        {.name = "tolerance",                                                                      \
         .type = FIELD_NUMBER,                                                                     \
         .max = 1,                                                                                 \
         .help = "for compare float: relative above 1 (0.000001)"},                                \
    {                                                                                              \
        .name = "checker", .type = FIELD_STRING, .bound = BOUND_SOURCE, .pattern = FORM_NO_NUL,    \
        .help = "Python code that judges an output, in a box of its own, with the variables "      \
                "output, stdin and expected: it fails by an exception, or by the value False"      \
    }

static const struct field execution_fields[] = {
    {.table = execute_rows, .on = EXECUTE_BACK},
    {.name = "webhook",
     .type = FIELD_STRING,
     .min = 1,
     .max = WEBHOOK_URL_MAX,
     .pattern = FORM_URL,
     .help = "address that is called with POST and the state of the execution when it has ended; "
             "the key must be allowed to reach its host"},
    {.name = "webhook_secret",
     .type = FIELD_STRING,
     .min = 1,
     .max = WEBHOOK_SECRET_MAX,
     .pattern = FORM_PLAIN,
     .help = "key of the signature in the header Webhook-Signature, as the specification Standard "
             "Webhooks describes it; never shown or logged"},
    {0},
};

static const struct field execution_query[] = {
    {.name = "wait",
     .type = FIELD_NUMBER,
     .max = REST_EXECUTION_WAIT_S,
     .help = "seconds to wait for the end before answering (0)"},
    {0},
};

static const struct field output_query[] = {
    {.name = "offset",
     .type = FIELD_INTEGER,
     .max = 1L << 40,
     .help = "where to begin: the 'offset' of the last line that you have (0)"},
    {0},
};

static const struct field test_fields[] = {
    {.name = "stdin", .type = FIELD_STRING, .help = "what the program reads"},
    {.name = "stdin_base64",
     .type = FIELD_STRING,
     .same_as = "stdin",
     .pattern = FORM_BASE64,
     .help = "the same as base64, instead of 'stdin'"},
    {.name = "expected", .type = FIELD_STRING, .help = "what it has to print on stdout"},
    BATCH_COMPARE,
    {0},
};

const struct field batch_item_fields[] = {
    {.name = "id",
     .type = FIELD_STRING,
     .max = BATCH_ID_MAX,
     .pattern = FORM_NO_NUL,
     .help = "a name of your choice, repeated in the result; no two items have the same"},
    {.name = "tests",
     .type = FIELD_OBJECTS,
     .min = 1,
     .max = BATCH_TESTS_MAX,
     .items = test_fields,
     .help = "run the code once for each of them: stdin, and what it has to print"},
    BATCH_COMPARE,
    {.table = execute_rows, .on = EXECUTE_ITEM | EXECUTE_BATCH},
    {0},
};

#define BATCH_CONCURRENCY                                                                          \
    {                                                                                              \
        .name = "concurrency", .type = FIELD_INTEGER, .min = 1, .max = 4096,                       \
        .help =                                                                                    \
            "the most runs at one time: as many as there are cores by default; the server may "    \
            "run fewer"                                                                            \
    }

static const struct field batch_fields[] = {
    {.name = "items",
     .type = FIELD_OBJECTS,
     .required = true,
     .min = 1,
     .max = BATCH_ITEMS_MAX,
     .items = batch_item_fields,
     .help = "items to run, each in a fresh box: code and the other fields"},
    {.name = "order",
     .type = FIELD_STRING,
     .choices = "input|finish",
     .help = "order of the results: input (default), or finish: as they finish"},
    BATCH_CONCURRENCY,
    {.name = "stream",
     .type = FIELD_BOOLEAN,
     .help = "true (default): NDJSON, a line for each result; false: one JSON object"},
    BATCH_COMPARE,
    {.table = execute_rows, .on = EXECUTE_BATCH},
    {0},
};

// Of a batch whose items come as lines; the whole of it is the defaults of all lines.
const struct field batch_lines_query[] = {
    {.name = "order",
     .type = FIELD_STRING,
     .choices = "input|finish",
     .help = "order of the results: input (default), or finish: as they finish"},
    BATCH_CONCURRENCY,
    BATCH_COMPARE,
    {.table = execute_rows, .on = EXECUTE_BATCH},
    {0},
};

static const struct rest_route batch_lines_route = {
    HTTP_POST,
    "/batch",
    .body = BODY_RAW,
    .status = 200,
    .answer = "Batch",
    .handle = rest_batch_lines,
    .operation = "batch",
    .summary = "",
};

const struct rest_route *route_of_lines(const struct rest_route *r)
{
    return r->handle == rest_batch ? &batch_lines_route : r;
}

static const struct field session_fields[] = {
    {.name = "name",
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION_NAME,
     .help = "a name of your choice; it can be used wherever the handle can; or the handle of a "
             "session that ended: it is opened again with its files"},
    {.name = "session_id",
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION_NAME,
     .same_as = "name",
     .help = "another name of 'name'"},
    {.name = "idle_timeout",
     .type = FIELD_NUMBER,
     .bound = BOUND_IDLE,
     .max = 86400,
     .help = "seconds without a run after which the session ends by itself"},
    {.name = "checkpoint",
     .type = FIELD_BOOLEAN,
     .help = "keep a checkpoint before every run, for undo"},
    {.table = execute_rows, .on = EXECUTE_SESSION},
    {0},
};

static const struct field input_fields[] = {
    {.name = "text",
     .type = FIELD_STRING,
     .max = RUN_FEED_MAX / 8,
     .together = form_answer,
     .help = "what the person typed; it ends with a newline, which is added if it is missing"},
    {.name = "end", .type = FIELD_BOOLEAN, .help = "true: this ends stdin: the code gets EOFError"},
    {0},
};

static const struct field undo_fields[] = {
    {.name = "steps",
     .type = FIELD_INTEGER,
     .min = 1,
     .max = 64,
     .excludes = "checkpoint",
     .help = "how many runs to go back (1)"},
    {.name = "checkpoint",
     .type = FIELD_STRING,
     .min = 1,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SOME,
     .help = "name of the checkpoint to go back to, instead of steps"},
    {0},
};

static const struct field checkpoint_fields[] = {
    {.name = "name",
     .type = FIELD_STRING,
     .min = 1,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SOME,
     .help = "name of the checkpoint, for undo"},
    {0},
};

static const struct field fork_fields[] = {
    {.name = "name",
     .type = FIELD_STRING,
     .min = 1,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION_NEW,
     .help = "name of the new session"},
    {0},
};

static const struct field overview_query[] = {
    {.name = "from",
     .type = FIELD_INTEGER,
     .max = 100000,
     .help = "how many entries of each list to leave out at its beginning (0)"},
    {.name = "limit",
     .type = FIELD_INTEGER,
     .min = 1,
     .max = OVERVIEW_MAX,
     .help = "the most entries of each list (50)"},
    {0},
};

static const struct field share_fields[] = {
    {.name = "expires_in",
     .type = FIELD_INTEGER,
     .min = 60,
     .max = SHARE_MAX_S,
     .help = "seconds until the link ends (86400)"},
    {0},
};

static const struct field compare_fields[] = {
    {.name = "with",
     .type = FIELD_STRING,
     .required = true,
     .min = 1,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SOME,
     .help = "another session of yours, by handle or name; or a checkpoint of this one, by the id "
             "that its tree has, or by name"},
    {0},
};

static const struct field rename_fields[] = {
    {.name = "name",
     .type = FIELD_STRING,
     .required = true,
     .max = SESSION_NAME_CHARACTERS,
     .pattern = FORM_SESSION_NAME,
     .help = "its new name; empty: none"},
    {0},
};

static const struct field cursor_fields[] = {
    {.name = "code",
     .type = FIELD_STRING,
     .required = true,
     .max = LOOK_CODE_MAX,
     .help = "the text of the cell; it is not run"},
    {.name = "cursor",
     .type = FIELD_INTEGER,
     .min = 0,
     .max = LOOK_CODE_MAX,
     .help = "where the cursor is, in characters (Unicode code points) from the beginning; left "
             "out: at the end"},
    {0},
};

static const struct field artifact_delete_query[] = {
    {.name = "session",
     .type = FIELD_STRING,
     .required = true,
     .pattern = FORM_SESSION_GIVEN,
     .help = "handle of the session, or execution_id of the run, that left them"},
    {.name = "path",
     .type = FIELD_STRING,
     .pattern = FORM_ARTIFACT,
     .help = "only the file of this path"},
    {0},
};

static const struct field artifact_query[] = {
    {.name = "session",
     .type = FIELD_STRING,
     .pattern = FORM_SESSION_GIVEN,
     .help = "handle of the session, or execution_id of the run, that left them"},
    {.name = "path",
     .type = FIELD_STRING,
     .pattern = FORM_ARTIFACT,
     .help = "only the file of this path"},
    {0},
};

static const struct field openapi_query[] = {
    {.name = "exact",
     .type = FIELD_BOOLEAN,
     .help = "true: with the expressions that texts must match and the relations of fields, for "
             "validators; without, for generators of clients"},
    {0},
};

// ---- the table ----------------------------------------------------------------------------------

// clang-format off
const struct rest_route rest_routes[] = {
    {HTTP_POST, "/execute", .keyed = true, .body = BODY_JSON, .fields = execute_fields,
     .status = 200,
     .answer = "Execution", .errors = {400, 403, 404, 409, 413, 415, 503}, .handle = rest_execute,
     .operation = "execute", .summary = "Run code in a fresh box or in a session"},
    {HTTP_POST, "/executions", .keyed = true, .body = BODY_JSON, .fields = execution_fields,
     .status = 202, .answer = "Background", .errors = {400, 403, 404, 409, 413, 415, 503},
     .handle = rest_post_execution, .operation = "start_execution",
     .summary = "Run code in the background; it goes on when the client leaves"},
    {HTTP_GET, "/executions", .status = 200, .answer = "Backgrounds",
     .handle = rest_list_executions, .operation = "list_executions",
     .summary = "Your background executions, oldest first, without their results"},
    {HTTP_GET, "/executions/{execution}", .query = execution_query, .status = 200,
     .answer = "Background", .errors = {400, 404, 503}, .handle = rest_get_execution,
     .operation = "get_execution", .summary = "State of a background execution, and its result"},
    {HTTP_DELETE, "/executions/{execution}", .status = 200, .answer = "ExecutionRemoved",
     .errors = {404}, .handle = rest_delete_execution, .operation = "cancel_execution",
     .summary = "Cancel a background execution; of one that has ended, forget the result"},
    {HTTP_GET, "/executions/{execution}/output", .query = output_query, .status = 200,
     .answer = "application/x-ndjson", .errors = {400, 404, 503}, .handle = rest_read_execution,
     .operation = "read_output",
     .summary = "A stream of the output, from an offset on, while it runs and later"},
    {HTTP_POST, "/batch", .keyed = true, .body = BODY_JSON, .fields = batch_fields, .status = 200,
     .answer = "Batch", .errors = {400, 403, 404, 409, 413, 415, 503}, .handle = rest_batch,
     .operation = "batch", .summary = "Run many pieces of code, each in a fresh box"},
    {HTTP_POST, "/validate", .body = BODY_JSON, .fields = validate_fields, .status = 200,
     .answer = "Check", .errors = {400, 409, 413, 415, 503}, .handle = rest_validate,
     .operation = "validate", .summary = "Check code without running it: syntax, policy, analysis, "
         "advice"},
    {HTTP_GET, "/sessions", .status = 200, .answer = "Sessions", .handle = rest_list_sessions,
     .operation = "list_sessions", .summary = "Your open sessions, and sessions that ended "
         "recently"},
    {HTTP_POST, "/sessions", .keyed = true, .body = BODY_JSON_OPTIONAL, .fields = session_fields,
     .status = 201,
     .answer = "Session", .errors = {400, 403, 404, 409, 413, 415, 503},
         .handle = rest_post_session,
     .operation = "open_session", .summary = "Open a session"},
    {HTTP_GET, "/sessions/{id}", .status = 200, .answer = "Session", .errors = {404, 409},
     .handle = rest_get_session, .operation = "get_session", .summary = "State of a session"},
    {HTTP_DELETE, "/sessions/{id}", .status = 200, .answer = "Closed", .errors = {404, 409},
     .handle = rest_delete_session, .operation = "close_session",
     .summary = "Close a session; its artifacts stay until they expire"},
    {HTTP_POST, "/sessions/{id}/interrupt", .status = 200, .answer = "Interrupted", .errors = {404,
        409},
     .handle = rest_interrupt, .operation = "interrupt_session",
     .summary = "Raise KeyboardInterrupt in the current run; variables stay"},
    {HTTP_POST, "/sessions/{id}/input", .body = BODY_JSON, .fields = input_fields, .status = 200,
     .answer = "InputTaken", .errors = {400, 404, 409, 413, 415, 503},
     .handle = rest_input, .operation = "answer_input",
     .summary = "Answer the input() that an interactive run waits in, or end its stdin"},
    {HTTP_POST, "/sessions/{id}/undo", .keyed = true, .body = BODY_JSON_OPTIONAL,
     .fields = undo_fields, .status = 200,
     .answer = "Execution", .errors = {400, 404, 409, 415, 503}, .handle = rest_undo,
     .operation = "undo", .summary = "Return variables and files to an earlier state"},
    {HTTP_POST, "/sessions/{id}/checkpoint", .keyed = true, .body = BODY_JSON_OPTIONAL,
     .fields = checkpoint_fields,
     .status = 200, .answer = "Execution", .errors = {400, 404, 409, 415, 503},
     .handle = rest_checkpoint, .operation = "checkpoint",
         .summary = "Make a checkpoint of the present state"},
    {HTTP_POST, "/sessions/{id}/fork", .keyed = true, .body = BODY_JSON_OPTIONAL,
     .fields = fork_fields, .status = 201,
     .answer = "Execution", .errors = {400, 404, 409, 415, 503}, .handle = rest_fork,
     .operation = "fork_session", .summary = "Make an independent copy of a live session"},
    {HTTP_GET, "/sessions/{id}/variables", .status = 200, .answer = "Variables",
     .errors = {404, 409, 503}, .handle = rest_variables, .operation = "list_variables",
     .summary = "Variables of a session: names, types, shapes, sizes, previews"},
    {HTTP_POST, "/sessions/{id}/complete", .body = BODY_JSON, .fields = cursor_fields,
     .status = 200, .answer = "Completions", .errors = {400, 404, 409, 413, 415, 503},
     .handle = rest_complete, .operation = "complete",
     .summary = "Names that fit at the cursor, from the live session"},
    {HTTP_POST, "/sessions/{id}/inspect", .body = BODY_JSON, .fields = cursor_fields,
     .status = 200, .answer = "Inspection", .errors = {400, 404, 409, 413, 415, 503},
     .handle = rest_inspect, .operation = "inspect",
     .summary = "Signature and docstring of the name at the cursor"},
    {HTTP_GET, "/sessions/{id}/tree", .status = 200, .answer = "Tree", .errors = {404, 409, 503},
     .handle = rest_tree, .operation = "get_tree",
     .summary = "Checkpoints and forks of a session, as a tree"},
    {HTTP_POST, "/sessions/{id}/compare", .body = BODY_JSON, .fields = compare_fields,
     .status = 200, .answer = "Comparison", .errors = {400, 404, 409, 413, 415, 503},
     .handle = rest_compare, .operation = "compare",
     .summary = "Variables and files that differ from another session or a checkpoint"},
    {HTTP_POST, "/sessions/{id}/rename", .body = BODY_JSON, .fields = rename_fields, .status = 200,
     .answer = "Session", .errors = {400, 404, 409, 413, 415},
     .handle = rest_rename, .operation = "rename_session",
     .summary = "Give a session another name"},
    {HTTP_POST, "/sessions/{id}/share", .body = BODY_JSON_OPTIONAL, .fields = share_fields,
     .status = 201, .answer = "Share", .errors = {400, 404, 409, 413, 415, 503},
     .handle = rest_share, .operation = "share_session",
     .summary = "Make a link, which needs no key, to the report of a session as it is now"},
    {HTTP_DELETE, "/sessions/{id}/share", .status = 200, .answer = "Unshared",
     .handle = rest_unshare, .operation = "unshare_session",
     .summary = "Remove all links to reports of a session"},
    {HTTP_GET, "/sessions/{id}/history", .status = 200, .answer = "History", .errors = {404},
     .handle = rest_history, .operation = "get_history",
     .summary = "What was run in a session and what came of it, for a page that opens it again"},
    {HTTP_GET, "/sessions/{id}/report", .status = 200, .answer = "text/html", .errors = {404, 503},
     .handle = rest_report, .operation = "get_report",
     .summary = "What was run in a session and what came of it, as one HTML file without script"},
    {HTTP_GET, "/sessions/{id}/files", .status = 200, .answer = "Files", .errors = {404, 409, 503},
     .handle = rest_list_files, .operation = "list_files",
     .summary = "Files of a session; of one that ended, its artifacts"},
    {HTTP_PUT, "/sessions/{id}/files/{path}", .body = BODY_RAW, .status = 200, .answer = "FileInfo",
     .errors = {400, 404, 409, 413, 503, 507}, .handle = rest_put_file, .operation = "write_file",
     .summary = "Write the bytes of the body to a file; the first use of a session name opens it"},
    {HTTP_GET, "/sessions/{id}/files/{path}", .status = 200, .answer = "*/*",
     .errors = {400, 404, 409, 416, 503}, .handle = rest_get_file, .operation = "read_file",
     .summary = "The bytes of a file, or a Range of them"},
    {HTTP_DELETE, "/sessions/{id}/files/{path}", .status = 200, .answer = "Deleted",
     .errors = {400, 404, 409, 503}, .handle = rest_delete_file, .operation = "delete_file",
     .summary = "Remove a file, or a folder with all its files"},
    {HTTP_GET, "/environments", .status = 200, .answer = "Environments", .errors = {503},
     .handle = rest_list_environments, .operation = "list_environments",
     .summary = "Your environments of packages"},
    {HTTP_POST, "/environments", .keyed = true, .body = BODY_JSON, .fields = environment_fields,
     .status = 201,
     .answer = "Environment", .errors = {400, 403, 409, 413, 415, 503},
         .handle = rest_post_environment,
     .operation = "create_environment",
     .summary = "Make an environment; with packages, the answer is the Job that installs them"},
    {HTTP_GET, "/environments/{name}", .query = describe_query, .status = 200,
     .answer = "Environment",
     .errors = {400, 404, 503},
     .handle = rest_get_environment, .operation = "get_environment",
     .summary = "An environment: requirements, lock, jobs"},
    {HTTP_DELETE, "/environments/{name}", .status = 200, .answer = "EnvironmentDeleted",
     .errors = {400, 404, 409, 503}, .handle = rest_delete_environment,
     .operation = "delete_environment", .summary = "Remove an environment"},
    {HTTP_GET, "/environments/{name}/packages", .status = 200, .answer = "Packages",
     .errors = {404, 503}, .handle = rest_list_packages, .operation = "list_packages",
     .summary = "Packages that code in an environment can import, including the interpreter's"},
    {HTTP_POST, "/environments/{name}/packages", .keyed = true, .body = BODY_JSON,
     .fields = install_fields,
     .status = 200, .answer = "Job", .errors = {400, 403, 404, 409, 413, 415, 503},
     .handle = rest_install, .operation = "install_packages",
     .summary = "Install packages; 202: the job is still under way"},
    {HTTP_DELETE, "/environments/{name}/packages", .query = uninstall_query, .status = 200,
     .answer = "Job", .errors = {400, 404, 409, 503}, .handle = rest_uninstall,
     .operation = "remove_packages", .summary = "Remove some packages of an environment, or all"},
    {HTTP_GET, "/environments/{name}/export", .status = 200, .answer = "application/octet-stream",
     .errors = {400, 404, 416, 503, 507}, .handle = rest_export_environment,
     .operation = "export_environment",
     .summary = "An environment with all its packages as one file, for import on another machine"},
    {HTTP_POST, "/environments/{name}/import", .body = BODY_RAW, .query = import_query,
     .status = 200,
     .answer = "Job", .errors = {400, 404, 409, 413, 503, 507},
     .handle = rest_import_environment, .operation = "import_environment",
     .summary = "Make an environment from an exported file, without network"},
    {HTTP_GET, "/environments/{name}/jobs/{job}", .query = job_query, .status = 200,
     .answer = "Job",
     .errors = {400, 404, 503}, .handle = rest_get_job, .operation = "get_job",
     .summary = "State of a job"},
    {HTTP_POST, "/environments/{name}/jobs/{job}/cancel", .status = 200, .answer = "Job",
     .errors = {404, 409, 503}, .handle = rest_cancel_job, .operation = "cancel_job",
     .summary = "Cancel a job; the environment is unchanged, and the job stays as a record"},
    {HTTP_GET, "/artifacts", .query = artifact_query, .status = 200, .answer = "Artifacts",
     .errors = {400, 503}, .handle = rest_list_artifacts, .operation = "list_artifacts",
     .summary = "Files that your runs wrote, with their links"},
    {HTTP_DELETE, "/artifacts", .query = artifact_delete_query, .status = 200, .answer = "Deleted",
     .errors = {400, 404, 503}, .handle = rest_delete_artifacts, .operation = "delete_artifacts",
     .summary = "Remove the artifacts of one session or run, or one of them"},
    {HTTP_GET, "/overview", .query = overview_query, .status = 200, .answer = "Overview",
     .errors = {400}, .handle = rest_overview, .operation = "overview",
     .summary = "What runs, what it costs, what was denied: yours, or with an operator's key all"},
    {HTTP_DELETE, "/runs/{id}", .status = 200, .answer = "Stopped", .errors = {404},
     .handle = rest_stop_run, .operation = "stop_run",
     .summary = "Stop a run that is under way; a session keeps its variables"},
    {HTTP_GET, "/doctor", .status = 200, .answer = "Doctor", .handle = rest_doctor,
     .operation = "doctor",
     .summary = "The isolation layers of this server, as its boxes have them"},
    {HTTP_POST, "/self-test", .status = 200, .answer = "SelfTest", .errors = {403, 409, 503},
     .handle = rest_self_test, .operation = "self_test",
     .summary = "Try to break out of a box; with an operator's key, one at a time"},
    {HTTP_GET, "/health", .open = true, .status = 200, .answer = "Health", .errors = {503},
     .handle = rest_health, .operation = "health", .summary = "Whether the server can run code"},
    {HTTP_GET, "/openapi.json", .query = openapi_query, .status = 200, .answer = "application/json",
     .errors = {400}, .handle = rest_openapi, .operation = "openapi", .summary = "This document"},
    {0},
};
// clang-format on

const struct rest_table rest_table = {REST_BASE, rest_routes};
