// SPDX-License-Identifier: Apache-2.0
//
// session: a box that lives across runs and keeps variables.  It belongs to the key that opened it,
// runs its requests one at a time, first come first served, and ends by itself when it is not used.
// The reason it ended is remembered (ended.h).  (An MCP session is another thing:
// mcp/protocol/client.h.)
//
// A session and its forks share one box, in which each has its own copy of the interpreter: see
// box/checkpoint.h.

#ifndef CONSTRICTOR_SESSION_SESSION_H
#define CONSTRICTOR_SESSION_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/timer.h"
#include "config/config.h"
#include "files/scratch.h"
#include "run/live.h"
#include "wire/wire.h"

struct gate;
struct run;
struct sessions; // all of a gate

enum {
    SESSION_ID_SIZE = 28, // "ses_" and 132 bits as base64url, and the end
    SESSION_NAME_CHARACTERS = 128,
    SESSION_NAME_MAX = 4 * SESSION_NAME_CHARACTERS, // bytes
    SESSION_ENVIRONMENT_MAX = 64,
};

// Why a session ended: code for interfaces, words for people.
#define SESSION_END_MAP(X)                                                                         \
    X(SESSION_OPEN, "open", "is open")                                                             \
    X(SESSION_CLOSED, "closed", "was closed")                                                      \
    X(SESSION_EXPIRED, "expired", "was not used for too long")                                     \
    X(SESSION_EVICTED, "evicted", "was ended to make room for a newer session")                    \
    X(SESSION_CRASHED, "crashed", "ended because its interpreter crashed or exited")               \
    X(SESSION_MEMORY, "out_of_memory", "used more memory than its limit and was ended")            \
    X(SESSION_PROCESSES, "too_many_processes", "started too many processes and was ended")         \
    X(SESSION_TIMEOUT, "timeout", "did not stop when its time was over and was ended")             \
    X(SESSION_CANCELLED, "cancelled", "did not stop when its run was cancelled and was ended")     \
    X(SESSION_OUTPUT, "output_limit", "printed more than its limit and was ended")                 \
    X(SESSION_REVOKED, "revoked", "was closed because its key was taken away")                     \
    X(SESSION_FAILED, "failed", "could not be opened")                                             \
    X(SESSION_LOST, "lost", "was lost because the server had to be restarted")

enum session_end {
#define X(name, code, words) name,
    SESSION_END_MAP(X)
#undef X
        SESSION_END_MAX
};
extern const char *const session_end_codes[SESSION_END_MAX],
    *const session_end_words[SESSION_END_MAX];

enum session_state { SESSION_OPENING, SESSION_IDLE, SESSION_BUSY, SESSION_ENDING };

struct session_plan {
    char name[SESSION_NAME_MAX +
              1];             // "": none; for session_open() also the handle of one that ended
    char id[SESSION_ID_SIZE]; // session_open(): of the session that is opened again; "": none
    struct wire_limits limits;
    uint64_t idle_ms;
    uint64_t wall_ms, cpu_ms, output_bytes; // of its runs, unless a run has its own; cpu_ms may be
                                            // 0: config_cpu_ms()
    bool checkpoint;                        // before every run
    bool policed;                           // it is opened by a run under a policy
    char environment[SESSION_ENVIRONMENT_MAX + 1]; // env/envs.h; "": base
    json_t *network; // a rule set (run/network.h): borrowed in a plan, owned in a session
};

struct shared_box; // session_internal.h

struct session {
    struct sessions *all;
    char id[SESSION_ID_SIZE];
    char owner[65];
    struct session_plan plan;
    enum session_state state;
    enum session_end end; // in SESSION_ENDING: why
    struct shared_box *shared_box;
    struct live_box *box; // of the shared box; NULL: SESSION_OPENING
    uint32_t fork_number; // 0: the session that the box was opened for
    char forked_from[SESSION_ID_SIZE];
    bool networked;    // its box can reach hosts
    bool network_lost; // a gate crashed and its rules were not in the ledger: it reaches no host
    bool had_path;     // exec.c: its interpreter has got folders of packages
    bool is_saved;     // saved.c: the store has a file of it
    unsigned restored, not_restored; // files, when it was opened again
    unsigned executions;
    unsigned runs;               // running or waiting
    int64_t created_ms, used_ms; // since 1970
    struct scratch_list files;   // exec.c: as they were after the last run
    unsigned files_writes;       // exec.c: box->writes at that time
    json_t *file_ids; // compat/kernels.c: the client's ids of its files, by file name; or NULL
    // session.c
    struct timer expiry;
    struct timer warm; // it got a warm box: this calls on_open
    struct ledger_entry *entry;
    void (*on_open)(struct session *s, const struct err *error, void *argument);
    void *open_argument;
    struct session_owner *of_owner;
    TAILQ_ENTRY(session) fork_list, all_list, idle_list, owner_idle;
    bool is_idle_listed;
    struct session *next_id, *next_name; // in the same hash bucket
};

int sessions_open(struct gate *g, const struct config *c, struct err *e); // sets g->sessions
void sessions_close(struct gate *g);
// After the previous gate crashed: takes over its boxes.  Called before the gate serves anything.
int sessions_adopt(struct gate *g, struct err *e);

// The configuration's plan; the caller changes what its request asks for.
void session_plan_init(const struct gate *g, struct session_plan *plan);
bool session_is_id(const char *text);     // a handle, not a name that a client chose
bool session_is_handle(const char *text); // the same, and as long as one
int session_check_name(const char *text, size_t length, struct err *e);

// Opens a session.  `done` is called later, exactly once, with the session, or with NULL and the
// error, unless the session or the gate is closed before.  NULL and `e`: refused at once.  At the
// cap the longest idle session is closed, of the same owner if that has its share; with none idle:
// ERR_BUSY.  A session that ended is opened again, with its files and its handle, by that handle,
// or by its name unless it was closed.
struct session *session_open(struct gate *g, const char *owner, const struct session_plan *plan,
                             void (*done)(struct session *s, const struct err *error,
                                          void *argument),
                             void *argument, struct err *e);
// By handle or by name, of this owner only.  NULL: `e` gives the reason it ended, if it existed.
struct session *session_find(struct gate *g, const char *owner, const char *text, struct err *e);
// Why the session ended, and when (`ret_ms`); SESSION_OPEN: no such session is remembered.
enum session_end session_why_ended(struct gate *g, const char *owner, const char *text,
                                   int64_t *ret_ms);

// Registers the fork of `s` that the box has made.  NULL and `e`: the box drops the copy again.
struct session *session_fork(struct session *s, const char *name, uint32_t fork_number,
                             struct err *e);
uint32_t session_next_fork(struct session *s);   // the number of the next fork
bool session_is_shared(const struct session *s); // it has forks, or is one
// May `s` have a fork with this name (NULL: none)?  0, or a negative code and `e`.
int session_check_fork(struct session *s, const char *name, struct err *e);

// The box's scratch shows the files of the fork that ran last.  Calls `then` when it shows those of
// this session: at once (and returns NULL) unless another fork ran last.  `error`: why it cannot.
struct session_visit;
struct session_visit *session_visit(struct session *s,
                                    void (*then)(struct session *s, const struct err *error,
                                                 void *argument),
                                    void *argument);
void session_visit_cancel(struct session_visit *v);

// saved.c: files that outlive the session in the store, until it is opened again.
void session_note_saved(struct session *s); // the store has one: its name must find it again
// Stores a file that a client wrote into scratch.
void session_save_bytes(struct session *s, const struct scratch_file *file, const void *data,
                        size_t length);
// A file, or a folder, of scratch was removed: it does not come back.
void session_drop_saved(struct session *s, const char *path);

// Ends the session; its runs, also those that wait, are cancelled.
void session_close(struct session *s, enum session_end why);
// Raises KeyboardInterrupt in the code that runs now.  0, or -1 and `e`: nothing runs.
int session_interrupt(struct session *s, struct err *e);

uint32_t session_forks(const struct session *s); // above the numbers of all forks of its box
// The open session of the same box with this fork number, or NULL.
struct session *session_of_fork(const struct session *s, json_int_t fork_number);
// Gives it another name, or none ("").  0, or a negative code and `e`.
int session_rename(struct session *s, const char *name, struct err *e);

// Code runs in its box, or waits to.  Looks at it (EXEC_LOOK) do not count.
bool session_has_code(const struct session *s);

// Answers the input() that the code of the session waits in; `end`: no more will follow.  0, or -1
// and `e`: it waits for none.
int session_answer(struct session *s, const char *text, size_t length, bool end, struct err *e);

// {"session", "name", "state": "opening|idle|busy", "execution_count", "created_at",
//  "last_used_at", "expires_in_seconds", "waiting", "limits": {...}, "checkpoint", "network",
//  "forked_from"}: new.
json_t *session_json(const struct session *s);
// The owner's open sessions, oldest first, and those that ended lately:
// {"sessions": [...], "ended": [...]}: new.
json_t *sessions_json(struct gate *g, const char *owner);
// Any owner's, by handle; for an operator.  NULL: there is none.
struct session *session_find_any(struct gate *g, const char *id);
// Open ones of an owner (NULL: all), the oldest first: {"total", "items": [{..., "key"}]}, from
// `from` on and at most `most`; new.
json_t *sessions_page(struct gate *g, const char *owner, size_t from, size_t most);
int64_t sessions_oldest_ms(const struct gate *g); // when the oldest was opened; INT64_MAX: none
unsigned sessions_count(const struct gate *g, const char *owner); // NULL: all

// Closes the sessions of owners that `knows` returns false for: their key was removed.
void sessions_dismiss(struct gate *g, bool (*knows)(const char *owner, void *argument),
                      void *argument);

// Its run has the box, but scratch still shows the files of another fork.
bool session_is_away(const struct session *s);

#endif
