// SPDX-License-Identifier: Apache-2.0
//
// exec: one request to execute code, from any interface: in a fresh box or in a session, with files
// and variables of the client.  The files that the code leaves are collected as artifacts.  MCP
// (mcp/tools/tool_run.c), REST (rest/execute.c) and the command line fill in the request and
// present the resulting object.
//
//   session, if any:  found, or opened on first use of a name
//   packages, if any: installed, as an environment
//   run_start():      the run waits for a box, or for its turn in the session
//   on_box():         it has a box: files of the request are written into scratch
//   run_go():         the code is sent and runs
//   collect:          new and changed files in scratch go into the store
//   on_done()

#ifndef CONSTRICTOR_EXEC_EXEC_H
#define CONSTRICTOR_EXEC_EXEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/timer.h"
#include "files/store.h"
#include "run/result.h"
#include "run/run.h"
#include "session/session.h"

struct exec;

enum {
    EXEC_FILES_MAX = 100,     // written before the code, and collected after it, in one run
    EXEC_VARIABLES_MAX = 100, // set before the code
    EXEC_ENV_VARS_MAX = 100,  // the same, of the process environment
    EXEC_ENV_VAR_BYTES = 32768,
    EXEC_ENV_BYTES = 128 * 1024, // of all names and values
};

// What to do in a session besides running code.
enum exec_action {
    EXEC_RUN,
    EXEC_CHECKPOINT, // keep the state as it is now, under a name
    EXEC_UNDO,       // go back to before the last `steps` runs, or to a named checkpoint
    EXEC_FORK,       // make an independent copy of the session: the result has its handle
    EXEC_LOOK,       // look at the session without changing it: python/runner/look.py
};

// A file to write into scratch before the code, of the gate's own program.
struct exec_file {
    const char *path; // checked by scratch_path()
    const void *data;
    size_t length;
};

// Takes the files that a run left, one after the other, instead of the store.
struct exec_taker {
    // 0: take the file, its bytes follow in sequence; 1: skip it; negative, with `e`: it cannot be
    // taken.
    int (*begin)(struct exec *x, const struct scratch_file *file, struct err *e);
    int (*data)(struct exec *x, const void *data, size_t length, uint64_t offset, struct err *e);
    // After a begin() that returned 0.  `error` NULL: all `size` bytes came.
    void (*end)(struct exec *x, uint64_t size, const struct err *error);
};

// Where the caller reads hints; they name only what exists there.
enum exec_surface { EXEC_ELSEWHERE, EXEC_MCP, EXEC_REST, EXEC_CLI };

struct exec_request {
    const char *owner;
    enum exec_surface surface;
    enum exec_action action;
    const char *code; // borrowed until on_done
    size_t code_length;
    json_t *argv;            // array of strings, taken; NULL: none
    const char *filename;    // as tracebacks show it; NULL: "<code>"
    const char *session;     // handle or name; NULL or "": a fresh box
    bool session_must_exist; // a name is not opened on first use
    // For a session that is opened on first use; NULL: the configuration's.
    const struct session_plan *plan;
    // The name of the checkpoint (EXEC_CHECKPOINT, EXEC_UNDO) or of the new session (EXEC_FORK);
    // NULL: none.
    const char *checkpoint;
    unsigned steps; // EXEC_UNDO: how many runs, when no checkpoint is named
    // [{"path", "text" | "base64"}], checked by exec_check_files(); taken; NULL: none.
    json_t *files;
    const struct exec_file *more_files; // of the command line, borrowed until on_done
    size_t more_count;
    // {name: JSON value}, checked by exec_check_variables(); taken; NULL: none.
    json_t *variables;
    // {name: text}, checked by exec_check_env_vars(); taken; NULL: none.  SECURITY: the values are
    // secrets: no message, log line or answer has them.
    json_t *env_vars;
    bool has_seed; // seed random and numpy before the code
    uint32_t seed;
    // What the code reads as stdin; borrowed until on_done.
    bool has_stdin, stdin_coded; // coded: base64, checked by exec_check_base64()
    bool stdin_open;             // more may follow by run_feed(), as on_hungry and on_ask of run.h
    const char *stdin_text;
    size_t stdin_length;
    const char *no_stdin; // what input() says without stdin; NULL: NO_STDIN of the runner
    bool keep_env_vars;   // for the later runs of the session as well
    // A rule set, made by network_parse(); taken; NULL: that of the key or the session.
    json_t *network;
    // Packages: env/envs.h.  In a session, a named environment has to be the session's own.
    const char *environment; // NULL or "": base, or the session's
    json_t *packages;   // array of requirements, checked by envs_requirements(); taken; NULL: none
    const char *policy; // name of a mode: code_policy.h; NULL: the configuration's
    json_t *allowed_imports; // array of strings, borrowed until on_done; NULL: none
    const char *scan;        // a list of what the code may not use: code_policy_scan(); NULL: none
    bool named_result;       // without a last value the variable result, output or _ is the result
    bool fresh; // in a session: in an interpreter of its own; only files and packages stay
    struct wire_limits limits;              // of a fresh box; a session has its own
    uint64_t wall_ms, cpu_ms, output_bytes; // 0: the session's own, or the configuration's
    bool cut_output;    // output beyond the limit is dropped, and the run goes on
    bool ends_silently; // when its time is up, a fresh run says no line: as other servers do
    bool wait_reaped;
    // Of the gate's own runs only (installer/).
    json_t *install;         // a request to python/install/installer.py instead of code; taken
    json_t *look;            // EXEC_LOOK: {"what", ...}; taken; the answer is in run->result
    const char *network_key; // the key whose network rules apply; NULL: the owner
    bool plain;              // no policy, no packages, no metadata in the code
    unsigned files_max;      // 0: EXEC_FILES_MAX
    bool collect;            // new and changed files become artifacts, or go to `taker`
    // Output as it comes, as in run.h.  May be NULL.
    int (*on_output)(struct exec *x, enum run_stream stream, struct evbuffer *data);
    void (*on_hungry)(struct exec *x); // for `stdin_open`; may be NULL
    void (*on_ask)(struct exec *x, const char *prompt, size_t length); // the same
    const struct exec_taker *taker;                                    // NULL: the store
    void (*on_done)(struct exec *x);
    void *argument;
};

// Frees what a request owns: the fields marked "taken".  With _cleanup_() that happens on every
// path that does not start the request.
void exec_request_clear(struct exec_request *q);

struct exec {
    struct gate *gate;
    struct exec_request request;
    char id[ID_SIZE];
    char owner[65];
    struct session *session;          // NULL: a fresh box, or it has ended
    char session_id[SESSION_ID_SIZE]; // "" without one
    struct run *run;                  // NULL before it began
    struct network_run *network;      // NULL: it has no network
    struct err error;                 // message[0] != 0: why nothing ran
    struct result result;             // valid in on_done, when there was a run
    // The rest is exec.c's.
    struct exec_work *work;
    struct exec_packages *packages; // exec_packages.c: the wait for packages
    struct timer soon;
    TAILQ_ENTRY(exec) list; // of the gate
};
int exec_on_output(struct run *r, enum run_stream stream, struct evbuffer *data);

// Check a client's files and variables: 0, or a negative code and `e`, which names the entry.  A
// file's body may also be "content", base64 with "encoding": "base64"; it is put into the form
// above.
int exec_check_files(const struct gate *g, json_t *files, struct err *e);
int exec_check_variables(json_t *variables, struct err *e);
int exec_check_base64(const char *text, size_t length, struct err *e);
// The same for variables of the process environment.  `e` never has a value.
int exec_check_env_vars(json_t *env_vars, struct err *e);

// Takes what the request owns out of `request`, also when it fails.  on_done is called later,
// always, exactly once.  NULL: memory is out.  The caller frees the result.
struct exec *exec_start(struct gate *g, struct exec_request *request);
void exec_cancel(struct exec *x);    // on_done follows
void exec_interrupt(struct exec *x); // KeyboardInterrupt
void exec_free(struct exec *x);

// In on_done: the result of the request as an object, new.  NULL: memory is out.
json_t *exec_json(struct exec *x);

#endif
