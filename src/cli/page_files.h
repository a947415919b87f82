// SPDX-License-Identifier: Apache-2.0
//
// page_files: the page that the build put into the program (web/), and what it loads.  Runs in the
// gate; the HTTP server calls it.

#ifndef CONSTRICTOR_CLI_PAGE_FILES_H
#define CONSTRICTOR_CLI_PAGE_FILES_H

#include <stdbool.h>

#include "http/http.h"

bool page_files_present(void);

// Handlers of "/", "/frame.html" and "/assets/*"; the argument is not used.
void page_files_index(struct http_exchange *x, void *argument);
void page_files_frame(struct http_exchange *x, void *argument);
void page_files_asset(struct http_exchange *x, void *argument);

#endif
