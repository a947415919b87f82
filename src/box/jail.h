// SPDX-License-Identifier: Apache-2.0
//
// jail: the read-only tree and the namespaces around a zygote.  Boxes inherit the tree.
//
// jail_start() is called by the keeper; the rest runs in the child, from clone3 to the exec of the
// interpreter.

#ifndef CONSTRICTOR_BOX_JAIL_H
#define CONSTRICTOR_BOX_JAIL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/idmap.h"

enum {
    JAIL_PATHS_MAX = 32,
    JAIL_HIDDEN_MAX = 12,
    JAIL_SHARES_MAX = 8,
    JAIL_SHARE_NAME_MAX = 100,
};
#define JAIL_SHARE "/share" // folders of the user, by their names
#define JAIL_WHEEL_FILES "/opt/wheel-files"
#define JAIL_TMP "/mnt/tmp"      // the zygote's own, until it makes boxes
#define JAIL_COMMANDS "/opt/bin" // python and pip by name
#define JAIL_PIP "/opt/pip"      // the host's pip, for the installer; no box imports from there
// Folders of an interpreter below /tmp or /mnt, which a box covers with its scratch: N is the
// folder, N.at a link to where it belongs.  There mounts.c makes a link to N.
#define JAIL_COVERED "/opt/covered"

// Steps that can fail on the far side, with the layer each belongs to.
#define JAIL_STEP_MAP(X)                                                                           \
    X(JAIL_MAP, "user_ns", "become root of the zygote's user namespace")                           \
    X(JAIL_PRIVATE, "mount_ns", "make the mount namespace private")                                \
    X(JAIL_OPEN, "root", "open a part of the tree")                                                \
    X(JAIL_ROOT, "root", "build the tree")                                                         \
    X(JAIL_PROC, "proc", "mount the zygote's /proc")                                               \
    X(JAIL_PIVOT, "root", "pivot into the tree")                                                   \
    X(JAIL_READONLY, "root", "make the tree read-only")                                            \
    X(JAIL_FDS, "fds", "pass descriptors to the interpreter")                                      \
    X(JAIL_EXEC, "root", "start the interpreter inside the tree")

enum jail_step {
#define X(name, layer, what) name,
    JAIL_STEP_MAP(X)
#undef X
        JAIL_STEP_MAX
};

// A folder of the user: keeper/shares.h.
struct jail_share {
    char path[PATH_MAX];                                  // of the host, without links
    char at[sizeof JAIL_SHARE + JAIL_SHARE_NAME_MAX + 1]; // in boxes
    dev_t device;                                         // which one it has to be
    ino_t inode;
};

struct jail_sandbox;

struct jail_plan {
    size_t path_count; // folders that appear at the same place, read-only
    const char *paths[JAIL_PATHS_MAX];
    const char *python_side; // folder with _constrictor, zygote.py, runner.py: /opt/constrictor
    const char *executable;  // interpreter, as seen inside the tree
    bool is_virtual;         // it is a virtual environment's, which has its python in PATH itself
    size_t hidden_count;     // folders that are empty in the tree; a missing one is left out
    const char *hidden[JAIL_HIDDEN_MAX];
    char *const *argv;
    char *const *envp;
    struct idmap ids;
    int socket_fd, filter_fd, log_fd; // become 3, 4 and stderr
    int cgroup_fd;                    // v2: group to be born in, or -1
    bool without_proc;
    // --find-links, at JAIL_WHEEL_FILES in the installer's boxes; NULL: none
    const char *wheel_files;
    const char *wheels;  // folder of packages, at /opt/wheels; NULL: none
    dev_t wheels_device; // which one it has to be
    ino_t wheels_inode;
    size_t share_count;
    const struct jail_share *shares;
    const struct jail_sandbox *sandbox; // box/sandbox.h; NULL: the tree is a zygote's
    bool network; // some boxes have network: name service and certificates for them
};

struct jail_child {
    pid_t pid;
    int pidfd;
};

// Clones, maps ids, waits until the interpreter runs.  On failure names step and layer in `e`.
int jail_start(const struct jail_plan *plan, struct jail_child *ret, struct err *e);

// ---- for sandbox.c; all but the first two in the child ------------------------------------------

// Clones into new namespaces; the pid, 0 in the child, or -1 with errno.
long jail_clone(const struct jail_plan *plan, int *ret_pidfd);
int jail_clone_failed(int errnum, struct err *e);

// Where jail_die() writes why: a struct for jail_start(), or a line of text.
void jail_report_to(int fd, bool as_text);
_Noreturn void jail_die(enum jail_step step, const char *what);

void jail_await(int go_fd); // waits for the id map
void jail_calm(void);       // signals as at the start, a session of its own, private mounts

// The parts of the tree, while still the caller's user; then uid 0 of the namespace; then the tree,
// in the current folder.
void jail_open_parts(const struct jail_plan *plan);
void jail_become_root(const struct jail_plan *plan);
void jail_build(const struct jail_plan *plan);

bool jail_has_entries(const char *path); // a folder; one that cannot be listed has

#endif
