// SPDX-License-Identifier: Apache-2.0
//
// code_pages: the code of the interpreter and its libraries in few mappings and large pages. Called
// by the extension before the zygote's memory becomes the image (box/image.h).
//
// A fork copies every mapping, and the end of the copy takes each down again: 3.5 us together, and
// the linker has made five of every library.  Code of the interpreter is some 300 pages of a plain
// run, each of which a box would have to map; in pages of 2 MiB it is two.

#ifndef CONSTRICTOR_BOX_CODE_PAGES_H
#define CONSTRICTOR_BOX_CODE_PAGES_H

// `inside`: where the interpreter's own code is.  The caller has one thread.  Best effort: without
// it boxes are as safe and cost more time.
void code_pages_prepare(const void *inside);

#endif
