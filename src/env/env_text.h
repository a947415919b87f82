// SPDX-License-Identifier: Apache-2.0
//
// env_text: checks names of environments and requirements.  Touches nothing but its arguments.
// Used by envs.c and env_job.c; envs_requirements() of envs.h is here, too.
//
// The box that installs parses requirements again, strictly (python/install/requirement.py).  Here
// bad ones are refused early, with a clear error.

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

// Sets the hosts that requirements with an address may name, borrowed; by default none.
void env_allow_urls(const struct text_list *hosts);

// The operator's lists.  0, or negative and `e` names the package.
int env_check_allowed(const struct config *c, const char *key, struct err *e);
int env_check_all_allowed(const struct config *c, const json_t *requirements, struct err *e);

// Puts the package of a module in its place: "sklearn>=1" becomes "scikit-learn>=1".  `ret_notes`:
// a sentence for each, new, or NULL.  Negative and `e`: the index has another project of the
// module's name, and the requirement gives no version of that.
int env_use_packages(json_t *requirements, json_t **ret_notes, struct err *e);

// `added`, and those of `had` that are about other packages.  New; NULL: memory is out.
json_t *env_merge(const json_t *had, const json_t *added);
// `had` without the packages that `names` names.
json_t *env_without(const json_t *had, const json_t *names);
// Is one of them about this package?
bool env_names_package(const json_t *requirements, const char *key);

// The requirement in lower case and without blanks, where they do not matter.
void env_plain_form(const char *text, char ret[ENV_REQUIREMENT_MAX + 1]);
// The name of the environment for a set of packages.  `requirements` have been through
// envs_requirements().
int env_set_name(const json_t *requirements, const char *python, char ret[40]);

#endif
