// SPDX-License-Identifier: Apache-2.0
//
// result: how a run ended, as one verdict and one JSON object, the same over every interface.

#ifndef CONSTRICTOR_RUN_RESULT_H
#define CONSTRICTOR_RUN_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/id.h"
#include "run/run.h"

// name, exit status of `constrictor run` (-1: the code's own)
#define VERDICT_MAP(X)                                                                             \
    X(VERDICT_OK, "ok", -1)                                                                        \
    X(VERDICT_ERROR, "error", -1)                                                                  \
    X(VERDICT_TIMEOUT_WALL, "timeout_wall", 124)                                                   \
    X(VERDICT_TIMEOUT_CPU, "timeout_cpu", 124)                                                     \
    X(VERDICT_OUT_OF_MEMORY, "out_of_memory", 137)                                                 \
    X(VERDICT_TOO_MANY_PROCESSES, "too_many_processes", 121)                                       \
    X(VERDICT_DISK_FULL, "disk_full", 122)                                                         \
    X(VERDICT_OUTPUT_LIMIT, "output_limit", 123)                                                   \
    X(VERDICT_DENIED, "denied", 126)                                                               \
    X(VERDICT_CANCELLED, "cancelled", 130)                                                         \
    X(VERDICT_LOST, "lost", 125)

enum verdict {
#define X(name, text, status) name,
    VERDICT_MAP(X)
#undef X
        VERDICT_MAX
};

enum limit {
    LIMIT_NONE,
    LIMIT_WALL,
    LIMIT_CPU,
    LIMIT_MEMORY,
    LIMIT_PROCESSES,
    LIMIT_SCRATCH,
    LIMIT_INODES,
    LIMIT_FILES,
    LIMIT_FILE_SIZE,
    LIMIT_OUTPUT,
    LIMIT_MAX
};

struct result {
    enum verdict verdict;
    enum limit limit; // which limit it met, LIMIT_NONE otherwise
    bool has_exit_code;
    int exit_code;
    int signal; // 0: none
    const char *phase;
    char hint[512];
};

enum { RESULT_PACKAGE_MAX = 64 };

// The package of a module that the code could not import.
struct missing_package {
    char name[RESULT_PACKAGE_MAX];
    bool is_known; // from the table import_names; else it is the module's own name; "": it is not
                   // in the message
};
bool result_missing_package(const struct run *r, const struct result *res,
                            struct missing_package *ret);

// Judges a run that is done and had a box.
void result_judge(const struct run *r, struct result *ret);

const char *result_verdict_name(enum verdict verdict);

// Exit status for the command line.
int result_exit_status(const struct result *result);

// Parts of the object that do not depend on the run.
json_t *result_isolation(const struct caps *caps);
// Of a sandbox: gVisor answers its system calls, in a process without rights.
json_t *result_sandbox(const struct caps *caps);
json_t *result_interpreter(const struct keeper_facts *facts);

// The whole object.  NULL when memory is out.
json_t *result_json(const struct run *r, const struct result *result, const char *id);

// Is nothing in it nested deeper than `depth`?
bool result_is_shallow(json_t *value, int depth);

#endif
