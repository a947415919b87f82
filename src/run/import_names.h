// SPDX-License-Identifier: Apache-2.0
//
// import_names: modules whose package has another name on the index.  Pure.

#ifndef CONSTRICTOR_RUN_IMPORT_NAMES_H
#define CONSTRICTOR_RUN_IMPORT_NAMES_H

#include <stdbool.h>

struct import_name {
    const char *module;  // in lower case, with '-' for '_' and '.'
    const char *package; // that has it
    // The index has another project under the module's name.  SECURITY: it is not what the caller
    // meant, and the package was not what the caller wrote: neither is installed silently.
    bool is_taken;
};

// NULL: the package is called like its module, or is not known here.
const struct import_name *import_name_find(const char *module);

#endif
