// SPDX-License-Identifier: Apache-2.0
// report: the history of a session as one HTML document without script.  Pure.

#ifndef CONSTRICTOR_REST_REPORT_H
#define CONSTRICTOR_REST_REPORT_H

#include <jansson.h>
#include <stddef.h>

// The document for a history (exec/history.h); the caller frees it.  NULL: memory is out.
char *report_html(json_t *history, size_t *ret_length);
// The value of Content-Security-Policy for it.
const char *report_policy(void);

#endif
