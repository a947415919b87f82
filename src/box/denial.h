// SPDX-License-Identifier: Apache-2.0
//
// denial: a system call that a box was denied, as two numbers and as text.  The keeper takes the
// numbers from the kernel (keeper/denied.c), the gate writes the text (run/denials.c). No I/O.

#ifndef CONSTRICTOR_BOX_DENIAL_H
#define CONSTRICTOR_BOX_DENIAL_H

#include <stddef.h>
#include <stdint.h>

enum { DENIAL_TEXT = 160 };

// The detail of a call: its telling argument (a family, an operation, flags of namespaces), reduced
// to values that have a name, so that code cannot make many kinds of one denial.
uint32_t denial_detail(int nr, const uint64_t args[6]);

// "socket AF_INET", "unshare CLONE_NEWUSER|CLONE_NEWNS", "mount".
void denial_text(int nr, uint32_t detail, char buf[DENIAL_TEXT]);

// What the caller can do about it; "" when there is nothing more to say.
const char *denial_hint(int nr, uint32_t detail);

#endif
