// SPDX-License-Identifier: Apache-2.0
//
// sets: see sets.h.

#include "compat/sets.h"

void compat_register_sets(void)
{
    tool_set_register(&executor_set);
    tool_set_register(&kernel_set);
    tool_set_register(&restricted_set);
    tool_set_register(&checker_set);
    tool_set_register(&container_set);
}
