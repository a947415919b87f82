// SPDX-License-Identifier: Apache-2.0
//
// caps: what this kernel, this user and this configuration give: one struct, filled once at start
// by probes, printed by doctor, and put into every result as `isolation`.

#ifndef CONSTRICTOR_KEEPER_CAPS_H
#define CONSTRICTOR_KEEPER_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/cgroup.h"
#include "keeper/slots.h"

// name, mandatory, may be degraded, what it stops
#define LAYER_MAP(X)                                                                               \
    X(user_ns, true, false, "root inside has no rights outside; no nested user namespace")         \
    X(pid_ns, true, false, "sees and signals only its own processes; all die with it")             \
    X(mount_ns, true, false, "sees only its own tree and scratch")                                 \
    X(ipc_ns, true, false, "shares no System V or POSIX object")                                   \
    X(uts_ns, true, false, "does not know the host's name")                                        \
    X(net_ns, true, false, "reaches itself only, or every address is the broker")                  \
    X(cgroup_ns, true, false, "does not see its path among cgroups")                               \
    X(root, true, false, "read-only tree without /home, /root, /var, /sys")                        \
    X(proc, true, true, "private /proc with only its own processes")                               \
    X(capabilities, true, false, "all five capability sets empty, secure bits locked")             \
    X(no_new_privs, true, false, "setuid and file capabilities give nothing")                      \
    X(seccomp, true, true, "allowlist of system calls; foreign ABIs die")                          \
    X(fds, true, false, "no inherited descriptor")                                                 \
    X(landlock, false, false, "second, independent bound on files, network and signals")           \
    X(cgroup, false, false, "memory, processes and CPU time counted and bounded by the kernel")    \
    X(uid, false, false, "a host uid of its own for each box")

enum layer {
#define X(name, mandatory, degradable, what) LAYER_##name,
    LAYER_MAP(X)
#undef X
        LAYER_MAX
};

enum layer_state { LAYER_LIVE, LAYER_PARTIAL, LAYER_DEGRADED, LAYER_MISSING };

struct layer_info {
    const char *name;
    bool mandatory, degradable;
    const char *what;
};

extern const struct layer_info layers[LAYER_MAX];

enum { CAPS_TEXT_MAX = 512 };

struct caps {
    struct {
        enum layer_state state;
        char text[CAPS_TEXT_MAX]; // how, or why not
        char fix[CAPS_TEXT_MAX];
    } layer[LAYER_MAX];
    uint32_t landlock_abi;
    uint32_t box_flags; // enum box_flags that follow from all this
    struct slots slots;
    struct cgroup_root cgroups;
};

// Fills the struct: cheap probes and the things that boxes will use (uid range, cgroup).  Fails
// when a mandatory layer is known to be missing already, or the configuration asks for the
// impossible. `own_uids`: an ordinary user's boxes get subordinate ids, where there are any.
int caps_open(struct caps *ret, const struct config *config, bool own_uids, struct err *e);
void caps_close(struct caps *caps);

// Boxes will see these folders: gives subordinate ids back where other users cannot read them.
void caps_fit_uids(struct caps *caps, const char *const *paths, size_t count);

// Tries every namespace on its own and reads the switches that distributions, containers and
// security modules have, so that each missing layer gets its own cause and fix.  For doctor, and
// for explaining a failed start.  Returns true when everything mandatory looks possible.
bool caps_probe_deep(struct caps *caps);

enum { LOOPBACK_ON, LOOPBACK_OFF }; // of --loopback, as in config.def

// What boxes with network need besides the layers: tried in a child, for doctor.
struct caps_network {
    enum layer_state state; // LAYER_PARTIAL: without IPv6
    char text[CAPS_TEXT_MAX], fix[CAPS_TEXT_MAX];
};
void caps_probe_network(struct caps_network *ret);

// Replaces the message and hint of a failed start by the cause and the fix that caps_probe_deep()
// finds, if it finds one.
void caps_explain(const struct config *config, struct err *e);

// The same with earlier findings.  False: neither a mandatory layer nor the one that the error
// names is known to be missing.
bool caps_blame(const struct caps *caps, struct err *e);

// The layer that an error names ("layer 'proc': ..."), or LAYER_MAX.
enum layer caps_layer_of(const struct err *e);

// Shared by caps.c and probe.c.
void caps_set(struct caps *caps, enum layer layer, enum layer_state state, const char *text,
              const char *fix);
bool caps_find_proc(struct caps *caps);
int caps_find_seccomp(struct caps *caps, struct err *e);
int caps_take_degraded(struct caps *caps, const struct config *config, struct err *e);

// "live", "live: v1", "degraded: why", ...
void caps_describe(const struct caps *caps, enum layer layer, char *ret, size_t cap);

#endif
