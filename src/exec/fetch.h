// SPDX-License-Identifier: Apache-2.0
//
// fetch: brings files that a client names by URL into a session.  The session's own box downloads
// them (python/runner/fetch.py): so the broker judges every connection by the rules of the client's
// key, certificates are checked, and neither the gate nor the keeper talks to a foreign server.
// Called by compat/kernels.c and compat/set_kernels.c.

#ifndef CONSTRICTOR_EXEC_FETCH_H
#define CONSTRICTOR_EXEC_FETCH_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "exec/exec.h"

enum {
    FETCH_FILES_MAX = 64, // at once
    FETCH_URL_MAX = 2048,
    FETCH_ID_MAX = 128,
    FETCH_TIMEOUT_S = 30, // for each file, by default
    FETCH_TIMEOUT_MAX_S = 300,
};

// The files to fetch as one list, new: [{"url", "id"?}].  `urls` is an array of texts or NULL,
// `files` an array of {"url", "id"} or NULL.  NULL and `e`: more than FETCH_FILES_MAX, too long, or
// not a text.
json_t *fetch_items(json_t *urls, json_t *files, struct err *e);

// May the session's box reach any host?  `session` is the handle or name of an open session, or of
// one that is to be opened.  0, or a negative code and `e`: then nothing is opened and nothing run.
int fetch_check(struct gate *g, const char *owner, const char *session, struct err *e);

// A name for a session when the client gives none.  -1: the kernel has no random bytes.
enum { FETCH_NAME_SIZE = ID_SIZE };
int fetch_new_name(char ret[FETCH_NAME_SIZE]);

// Fills code, argv and limits of a request that fetches `items` (borrowed) into its session; with
// none it only opens the session.  0, or a negative code and `e`.
int fetch_prepare(const struct config *c, json_t *items, double timeout_s,
                  struct exec_request *request, struct err *e);

// The outcome, read from the object of the run (exec_json()):
// {"downloaded_files": [names], "errors": [texts], "ids": {name: id}}, new; NULL: memory is out.
// SECURITY: it comes from the box: it is bounded, and only the box's own client sees it.
json_t *fetch_outcome(json_t *object);

#endif
