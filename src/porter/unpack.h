// SPDX-License-Identifier: Apache-2.0
//
// unpack: writes what bundle.c reads to a new folder among the wheels.
//
// SECURITY: paths are walked part by part, each from an open folder, and no link is followed: the
// paths of a bundle cannot lead out of that folder even if their check failed.

#ifndef CONSTRICTOR_PORTER_UNPACK_H
#define CONSTRICTOR_PORTER_UNPACK_H

#include "porter/bundle.h"
#include "porter/wheels.h"

struct unpack {
    const struct wheels *wheels;
    char name[WHEEL_TMP + 1];
    int folders[BUNDLE_DEPTH_MAX +
                1]; // the piece, and open folders down to the one of the last file
    unsigned depth;
    char path[BUNDLE_PATH_MAX + 1]; // of that folder; each part ends with a slash
    size_t length;
    int file;
};

int unpack_begin(struct unpack *p, const struct wheels *wheels, struct err *e);
struct bundle_sink unpack_sink(struct unpack *p);
// Closes it; it stays on the disk, under its name, for wheels_put().
void unpack_end(struct unpack *p);
// Closes and removes it.
void unpack_discard(struct unpack *p);

#endif
