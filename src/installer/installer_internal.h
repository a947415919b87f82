// SPDX-License-Identifier: Apache-2.0
//
// installer_internal: what installer.c and index.c share.

#ifndef CONSTRICTOR_INSTALLER_INSTALLER_INTERNAL_H
#define CONSTRICTOR_INSTALLER_INSTALLER_INTERNAL_H

#include "env/env_jobs.h"
#include "exec/exec.h"
#include "installer/installer.h"

// index.c.  1: the index is known, 0: installer_go_on() follows, negative: `e`.
int index_ask(struct env_job *j, struct err *e);
json_t *index_hosts(const struct env_job *j); // new
// True: the failed box named hosts that it may reach from now on.
bool index_learn(struct env_job *j, const json_t *answer);

// installer.c: the index is known, or `e` says why it is not.
void installer_go_on(struct env_job *j, const struct err *e);

#endif
