// SPDX-License-Identifier: Apache-2.0
// show_file: files and artifacts as objects, and as bytes with the headers that stop a browser from
// running them.

#ifndef CONSTRICTOR_REST_SHOW_FILE_H
#define CONSTRICTOR_REST_SHOW_FILE_H

#include "files/scratch.h"
#include "files/store.h"
#include "rest/call.h"

// {"path", "size", "mime_type", "modified_at", "uri", "url"}: new; `stored`: the artifact of it, or
// NULL.
json_t *show_scratch_file(struct rest_call *c, const char *session, const struct scratch_file *f,
                          const struct artifact *stored);
// A new array of these, each with "session", "execution_id", "created_at" and "expires_at".
json_t *show_artifacts(struct rest_call *c, const struct artifact *list, size_t count);

// Answers with the bytes of a file, or with the Range that the request asks for.  Takes the
// descriptor, copies the bytes; the call is gone afterwards.
struct show_file {
    const char *path, *mime_type, *etag;
    const char *data; // NULL: they are in `fd`
    int fd;
    uint64_t size;
    int64_t modified_ms;
};
void show_bytes(struct rest_call *c, const struct show_file *f);

#endif
