// SPDX-License-Identifier: Apache-2.0
//
// creds: identity and capabilities of a box.  Called from the recipe in enter.c only.

#ifndef CONSTRICTOR_BOX_CREDS_H
#define CONSTRICTOR_BOX_CREDS_H

#include <stdbool.h>
#include <sys/types.h>

// All three uids and gids become `id`.  0, or -1 with errno.
int creds_become(uid_t id);

// Bounding set empty, secure bits locked; CAP_SYS_ADMIN, which makes namespaces and mounts, is all
// that is left in the other sets.  0, or -1 with errno.
int creds_settle(void);

// Effective, permitted, inheritable and ambient sets empty.  0, or -1 with errno.
int creds_drop_effective(void);
int creds_empty(void); // the three sets of the process, where there is no ambient set

// Bounding set empty, for processes that may or may not have the right to change it.
void creds_drop_bounding(void);

// Asks the kernel: are these sets empty?
bool creds_are_empty(void); // effective, permitted, inheritable; and so the ambient one
// One call for each capability.  The set never grows, and a fork inherits it: what is empty in a
// stem is in its boxes.
bool creds_bounding_is_empty(void);

#endif
