// SPDX-License-Identifier: Apache-2.0
//
// environments: the handlers of /environments and what a call holds for them.

#ifndef CONSTRICTOR_REST_ENVIRONMENTS_H
#define CONSTRICTOR_REST_ENVIRONMENTS_H

#include "rest/call.h"

enum { REST_WAIT_MAX_S = 600 };

// NULL is fine.  Ends the listening of a call, not the job.
void rest_job_free(struct rest_job *j);

void rest_list_environments(struct rest_call *c);
void rest_post_environment(struct rest_call *c);
void rest_get_environment(struct rest_call *c);
void rest_delete_environment(struct rest_call *c);
void rest_list_packages(struct rest_call *c);
void rest_install(struct rest_call *c);
void rest_uninstall(struct rest_call *c);
void rest_get_job(struct rest_call *c);
void rest_cancel_job(struct rest_call *c);
// environment_files.c
void rest_export_environment(struct rest_call *c);
void rest_import_environment(struct rest_call *c);

// A change of an environment that the answer is about.
struct env_job_plan;
void rest_start_job(struct rest_call *c, struct env_job_plan *plan, bool stream, uint64_t wait_ms);

#endif
