// SPDX-License-Identifier: Apache-2.0
//
// env_text: what callers write about packages: names of environments, requirements.  Touches
// nothing but its arguments.  Used by envs.c and env_job.c; envs_requirements() of envs.h is here,
// too.
//
// The box that installs reads requirements once more, and strictly (python/requirement.py).  Here
// they are refused early, and in words, before anything is begun.

#ifndef CONSTRICTOR_ENV_ENV_TEXT_H
#define CONSTRICTOR_ENV_ENV_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

enum { ENV_REQUIREMENT_MAX = 400 };

#define ENV_SET_PREFIX "set-" // of environments that belong to a set of packages

int env_check_name(const char *name, struct err *e);

// "Lab_Good[x]>=2" is "lab-good".
void env_key_of(const char *requirement, char ret[ENV_REQUIREMENT_MAX + 1]);

// The hosts that requirements with an address may name, borrowed; at first there are none.
void env_allow_urls(const struct text_list *hosts);

// The operator's lists.  0, or negative and `e` names the package.
int env_check_allowed(const struct config *c, const char *key, struct err *e);
int env_check_all_allowed(const struct config *c, const json_t *requirements, struct err *e);

// `had`, without those that `added` names anew, and these.  New; NULL: memory is out.
json_t *env_merge(const json_t *had, const json_t *added);
// `had` without the packages that `names` names.
json_t *env_without(const json_t *had, const json_t *names);
// Is there one about this package?
bool env_names_package(const json_t *requirements, const char *key);

// Case and blanks make no other requirement.
void env_plain_form(const char *text, char ret[ENV_REQUIREMENT_MAX + 1]);
// The name of the environment for a set of packages.  `requirements` have been through
// envs_requirements().
int env_set_name(const json_t *requirements, const char *python, char ret[40]);

#endif
