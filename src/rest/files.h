// SPDX-License-Identifier: Apache-2.0
//
// files: GET /files/{token}/{name}: artifacts by their links;
// /static/{token}/{stem}_{id}_{time}.{extension} is the same, for clients of the tool set
// 'containers'.  A link works without a key until it
// expires, and cannot be guessed.

#ifndef CONSTRICTOR_REST_FILES_H
#define CONSTRICTOR_REST_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "files/store.h"
#include "http/http.h"

// Adds the route.  Without a store (NULL) every link returns an error that says so.
void rest_files_open(struct http *h, struct store *s);

// Headers for a file that a box made: its name, and that nothing in it may run in our origin.
// `type` is the MIME type without parameters.
void rest_file_headers(struct http_exchange *x, const char *path, const char *type);

enum { REST_FILE_URL_MAX = 2048 };

// "BASE/files/TOKEN/NAME" percent-encoded.  False and "": the server has no address
// (base_url is "", as on stdio), or there is no room.
bool rest_file_url(const char *base_url, const struct artifact *a, char *buf, size_t cap);

#endif
