// SPDX-License-Identifier: Apache-2.0
//
// sandbox: the jail around one gVisor sandbox: runsc in namespaces of its own, as an ordinary host
// uid, with a file system of its own that has nothing but runsc, its files and the box's tree.
//
// sandbox_begin() is called by the keeper (keeper/gvisor.c); the rest runs in the child, from
// clone3 to the exec of runsc.  The child is pid 1 of its pid namespace: killing it ends all of the
// sandbox.

#ifndef CONSTRICTOR_BOX_SANDBOX_H
#define CONSTRICTOR_BOX_SANDBOX_H

#include "box/jail.h"

enum { SANDBOX_CONTROL_FD = 3, SANDBOX_GROUPS_MAX = 4 };

struct jail_sandbox {
    const char *runsc; // the program, on the host
    const char *spec;  // config.json
    // The box's root: an unpacked image on the host; NULL: the tree that native boxes have.
    const char *image;
    // v1: descriptors of the groups' `tasks` files; the child moves itself.
    unsigned group_count;
    int group_fds[SANDBOX_GROUPS_MAX];
};

// Clones, maps ids, and does not wait.  What goes wrong later is text in plan->log_fd, followed by
// the child's end.  plan->socket_fd becomes the box's control socket.
int sandbox_begin(const struct jail_plan *plan, struct jail_child *ret, struct err *e);

#endif
