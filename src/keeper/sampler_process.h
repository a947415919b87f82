// SPDX-License-Identifier: Apache-2.0
//
// sampler_process: the sampler's process.  It looks at boxes for the keeper, one at a time, and may
// wait for a lock that a box holds: the keeper then ends the box, and if necessary this process.
// See keeper/sampler.h for the keeper's side.

#ifndef CONSTRICTOR_KEEPER_SAMPLER_PROCESS_H
#define CONSTRICTOR_KEEPER_SAMPLER_PROCESS_H

#include "keeper/facts.h"

int sampler_main(int sock, const struct keeper_facts *facts);

#endif
