// SPDX-License-Identifier: Apache-2.0
//
// installer: resolves, downloads and unpacks packages in a box.  It uses the room exec, which uses
// env; so env gets it as a table of functions.

#ifndef CONSTRICTOR_INSTALL_INSTALLER_H
#define CONSTRICTOR_INSTALL_INSTALLER_H

#include "env/envs.h"

extern const struct env_installer env_installer; // for envs_open()

#endif
