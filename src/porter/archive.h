// SPDX-License-Identifier: Apache-2.0
//
// archive: an environment as one file, for a machine that reaches no index.
//
//   "CENV1\n", u32le length, manifest (JSON, an object)
//   for each wheel: u32le 64, hex digits of its wheel's SHA-256, a bundle (bundle.h)
//   SHA-256 of everything before: 32 bytes
//
// The digest finds accidents.  SECURITY: it proves nothing, because the maker of the file chooses
// its content.  So an imported wheel is never shared with installs from an index: its ID also
// depends on its content.

#ifndef CONSTRICTOR_PORTER_ARCHIVE_H
#define CONSTRICTOR_PORTER_ARCHIVE_H

#include <jansson.h>

#include "porter/bundle.h"
#include "porter/wheels.h"

enum { ARCHIVE_MANIFEST_MAX = 1024 * 1024, ARCHIVE_WHEELS_MAX = 512 };

struct archive_wheel {
    char sha256[WHEEL_SHA256 + 1];
    char id[WHEEL_ID + 1];
    struct bundle_size size; // import
};

struct archive {
    json_t *manifest;
    struct archive_wheel *wheels;
    size_t count;
};

// Writes to `fd`, which may be a pipe.
int archive_write(const struct wheels *wheels, int fd, const struct archive *a,
                  const struct fileio_watch *watch, uint64_t *ret_bytes, struct err *e);

// No wheel gets its name before the whole file was read and found good; `limit` is for all
// wheels together.
int archive_read(const struct wheels *wheels, int fd, const struct bundle_size *limit,
                 const struct fileio_watch *watch, struct archive *ret, struct err *e);

void archive_done(struct archive *a);

#endif
