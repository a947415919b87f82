// SPDX-License-Identifier: Apache-2.0
//
// fetch: files that a caller names by their URLs, brought into a session.  The session's own box
// downloads them (python/fetch.py), so that the broker judges every connection by the rules of the
// caller's key, certificates are checked, and neither the gate nor the keeper ever talks to a
// foreign server.  Called by compat/kernels.c and compat/set_kernels.c.

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
    FETCH_TIMEOUT_S = 30, // for each file, when the caller names no other
    FETCH_TIMEOUT_MAX_S = 300,
};

// What is asked for, as one list, new: [{"url", "id"?}].  `urls` is an array of texts or NULL,
// `files` an array of {"url", "id"} or NULL.  NULL and `e`: more than FETCH_FILES_MAX, too long, or
// not a text.
json_t *fetch_items(json_t *urls, json_t *files, struct err *e);

// May the caller's box reach anything at all?  `session` is a handle or a name, of an open session
// or of one that is to be opened.  0, or a negative code and `e`: then nothing is opened and
// nothing is run.
int fetch_check(struct gate *g, const char *owner, const char *session, struct err *e);

// A name for a session whose caller gave none.  -1: the kernel gives no random bytes.
enum { FETCH_NAME_SIZE = ID_SIZE };
int fetch_new_name(char ret[FETCH_NAME_SIZE]);

// Fills code, argv and limits of a request that fetches `items` (borrowed) into its session; with
// none it only opens the session.  0, or a negative code and `e`.
int fetch_prepare(const struct config *c, json_t *items, double timeout_s,
                  struct exec_request *request, struct err *e);

// How it went, by the object of the run (exec_json()): {"downloaded_files": [names], "errors":
// [texts],
// "ids": {name: id}}, new; NULL: memory is out.  SECURITY: the box said it, so it is bounded, and
// only its caller gets to see it.
json_t *fetch_outcome(json_t *object);

#endif
