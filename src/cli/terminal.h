// SPDX-License-Identifier: Apache-2.0
//
// terminal: pictures in the middle of text, where the terminal can show them.  Called by run.c:
// terminal_look() in the first process, which has the environment; terminal_show() in the gate,
// which has no rights, so that whatever decodes a hostile picture here has none either.
//
//   kitty   kitty's graphics protocol: takes PNG as it is
//   iterm   iTerm2's inline images: takes PNG and JPEG as they are
//   sixel   wants pixels: libpng decodes, libsixel chooses colours and encodes.  Both are optional
//           at build time (meson finds them or not); both come from the distribution and bring
//           nothing else along.  There is no decoder of our own: one more parser of hostile bytes
//           is no gain.

#ifndef CONSTRICTOR_CLI_TERMINAL_H
#define CONSTRICTOR_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "run/display.h"

// In the order of the choices of --images in config.def.
enum terminal_images { IMAGES_AUTO, IMAGES_KITTY, IMAGES_ITERM, IMAGES_SIXEL, IMAGES_NONE };

struct terminal {
    enum terminal_images images; // never IMAGES_AUTO
    unsigned columns, width;     // of the window, the latter in pixels; 0: it does not say
};

// What `fd` can show, when it is a terminal; `wish` other than IMAGES_AUTO is believed, but a file
// or a pipe gets no pictures.
void terminal_look(int fd, enum terminal_images wish, struct terminal *ret);

// Whether this program can draw sixels at all.
bool terminal_has_sixel(void);

// Writes the picture and a line's end.  False: this terminal cannot show this one, nothing was
// written.
bool terminal_show(const struct terminal *t, const struct picture *p, FILE *out);

#endif
