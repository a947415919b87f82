// SPDX-License-Identifier: Apache-2.0
//
// web_files: the files of the page, which tools/web-bundle made from web/ and the build put into
// the program.

#ifndef CONSTRICTOR_CLI_WEB_FILES_H
#define CONSTRICTOR_CLI_WEB_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct web_file {
    const char *name, *type;
    const unsigned char *data; // a 0 follows
    size_t length;
    bool gzip; // compressed; the name has a hash of the content unless it is a page
};

// Ends with a row without a name.  Empty when the build had no packages for the page.
extern const struct web_file web_files[];

#endif
