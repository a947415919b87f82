// SPDX-License-Identifier: Apache-2.0
// html: what documents without script share: escaped text, a strict policy, the head.  Pure.

#ifndef CONSTRICTOR_REST_HTML_H
#define CONSTRICTOR_REST_HTML_H

#include <stdio.h>

enum { HTML_POLICY_MAX = 512 };

// Writes a text with its markup escaped, and U+FFFD for characters that control.
void html_put_bytes(FILE *f, const char *text, size_t length);
void html_put(FILE *f, const char *text); // the same up to its end; NULL: nothing

// The value of Content-Security-Policy that allows one style, by its hash, and `more`.
void html_policy(const char *style, const char *more, char policy[HTML_POLICY_MAX]);

// Begins a document up to the text of its title.  The policy is in it for the saved file.
void html_begin(FILE *f, const char *policy);

#endif
