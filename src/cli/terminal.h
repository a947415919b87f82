// SPDX-License-Identifier: Apache-2.0
//
// terminal: shows pictures between text, if the terminal can.  Called by run.c: terminal_look() in
// the first process, which has the environment variables; terminal_show() in the gate, which has no
// rights, so that a decoder of hostile pictures has none either.
//
//   kitty   kitty's graphics protocol: takes PNG
//   iterm   iTerm2's inline images: takes PNG and JPEG
//   sixel   takes pixels: libpng decodes, libsixel chooses colours and encodes.  Both libraries are
//           optional at build time.  There is no decoder of our own, which would be one more parser
//           of hostile bytes.

#ifndef CONSTRICTOR_CLI_TERMINAL_H
#define CONSTRICTOR_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "run/display.h"

// In the order of the choices of --images in config.def.
enum terminal_images { IMAGES_AUTO, IMAGES_KITTY, IMAGES_ITERM, IMAGES_SIXEL, IMAGES_NONE };

struct terminal {
    enum terminal_images images; // never IMAGES_AUTO
    unsigned columns, width;     // of the window; width is in pixels; 0: unknown
};

// Finds what `fd` can show.  A `wish` other than IMAGES_AUTO decides, but a file or a pipe gets no
// pictures.
void terminal_look(int fd, enum terminal_images wish, struct terminal *ret);

// Whether this program was built with sixel support.
bool terminal_has_sixel(void);

// Writes the picture and a line end.  False: the terminal cannot show it, and nothing was written.
bool terminal_show(const struct terminal *t, const struct picture *p, FILE *out);

#endif
